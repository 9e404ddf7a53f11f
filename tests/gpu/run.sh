#!/usr/bin/env bash
# What needs a GPU, in one command. A machine that has one may have no compiler and no package registry, so that the
# programs are gathered on the machine that built them and carried over:
#
#   tests/gpu/run.sh --gather build/native build/gpu    # programs and plugins, well under 64 MiB
#   tests/gpu/run.sh build/gpu [RESULTS]                # on the machine with the GPU; reports into RESULTS, if given
#
# Needed there: the GPU's driver; for training also python3 with PyTorch and nanobind, and a C++ compiler. NCCL is used
# where it is found (RODA_NCCL_LIBRARY, the system's, or that of PyTorch), with one rank per GPU, four at most. Ends with 0
# when nothing failed; what could not be run says so.
set -euo pipefail

gather() {
  local build=$1 out=$2
  mkdir -p "$out"
  for file in tests/gpu/gpu_kernels tests/gpu/gpu_bandwidth plugins/conformance/roda-conformance \
    plugins/devices/cuda/roda_cuda.so transports/nccl/roda_nccl.so transports/shm/roda_shm.so \
    transports/tcp/roda_tcp.so tests/gpu/gpu_engine tests/multi/engine/run_ranks bindings/c/libroda.so.0; do
    strip --strip-debug -o "$out/${file##*/}" "$build/$file"
    chmod +x "$out/${file##*/}"
  done
  # The Python part is compiled there, for the Python that has PyTorch.
  local root
  root=$(dirname "$0")/../..
  rm -rf "$out/python"
  mkdir -p "$out/python/bindings/c" "$out/python/bindings/python" "$out/python/plugins"
  cp -r "$root/bindings/python/horovod" "$root/tests/gpu/training.py" "$out/python"
  cp -r "$root/bindings/python/src" "$out/python/bindings/python"
  cp "$root/bindings/c/roda.h" "$out/python/bindings/c"
  cp -r "$root/plugins/abi" "$out/python/plugins"
  du -sh "$out"
}

# PyTorch's NCCL, from pip's packages, when nothing else names one.
find_nccl() {
  if [ -n "${RODA_NCCL_LIBRARY:-}" ] || ldconfig -p | grep -q 'libnccl\.so\.2'; then return; fi
  local found
  found=$(python3 -c 'import importlib.util as u; s = u.find_spec("nvidia.nccl"); print(list(s.submodule_search_locations)[0])' \
    2>/dev/null) || return 0
  export RODA_NCCL_LIBRARY=$found/lib/libnccl.so.2
}

# Collectives on tensors of the card through the engine. `what` is said first; the rest is run_ranks' command line.
engine() {
  local folder=$1 what=$2
  shift 2
  echo "engine: $what"
  GPU_TEST_DEVICE=$folder/roda_cuda.so RODA_HIERARCHICAL_ADASUM=1 LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    timeout 300 "$folder/run_ranks" "$@" --seconds 240 "$folder/gpu_engine" --gtest_brief=1
}

# Two processes share the first card, which NCCL does not allow: what they exchange is staged through pinned memory.
engines() {
  local folder=$1 gpus=$2 failed=0
  GPU_TEST_GPU=0 engine "$folder" "one rank" -n 1 || failed=1
  GPU_TEST_GPU=0 GPU_TEST_STAGED=1 HOROVOD_GPU_OPERATIONS=shm+tcp \
    engine "$folder" "two ranks of one host on one card, staged" -n 2 || failed=1
  GPU_TEST_GPU=0 GPU_TEST_STAGED=1 HOROVOD_GPU_OPERATIONS=tcp HOROVOD_GLOO_IFACE=lo \
    engine "$folder" "two hosts of one rank on one card, staged" -n 2 --hosts 2 || failed=1
  GPU_TEST_GPU=0 GPU_TEST_STAGED=1 HOROVOD_GPU_OPERATIONS=shm+tcp HOROVOD_ENABLE_ASYNC_COMPLETION=1 \
    engine "$folder" "the same on one host, completed in stream order" -n 2 || failed=1
  if [ "$gpus" -ge 4 ]; then
    HOROVOD_GPU_OPERATIONS=nccl+tcp HOROVOD_GLOO_IFACE=lo \
      engine "$folder" "two hosts of two cards, NCCL inside and TCP between" -n 4 --hosts 2 || failed=1
  fi
  if [ "$gpus" -ge 2 ]; then
    HOROVOD_GPU_OPERATIONS=nccl engine "$folder" "two cards over NCCL" -n 2 || failed=1
  fi
  return $failed
}

# The extension module of horovod, beside its Python files. What is missing is said.
build_python() {
  local python=$1/python nanobind
  command -v c++ >/dev/null || { echo "no C++ compiler for horovod's extension module" && return 1; }
  nanobind=$(python3 -c 'import nanobind, torch; print(nanobind.__path__[0])') || return 1
  local include suffix
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  suffix=$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  [ -f "$1/libroda.so" ] || ln -s libroda.so.0 "$1/libroda.so"
  c++ -std=c++20 -O2 -w -shared -fPIC -fvisibility=hidden -fno-strict-aliasing -DNDEBUG -DNB_COMPACT_ASSERTIONS \
    -I"$python" -I"$python/plugins/abi" -I"$include" -I"$nanobind/include" -I"$nanobind/ext/robin_map/include" \
    "$python"/bindings/python/src/*.cpp "$nanobind/src/nb_combined.cpp" -o "$python/horovod/_roda$suffix" \
    -L"$1" -lroda -Wl,-rpath,"\$ORIGIN/../.."
}

# One rank, and two that share the first card: their gradients are staged.
trainings() {
  local folder=$1 failed=0
  export PYTHONPATH=$folder/python${PYTHONPATH:+:$PYTHONPATH}
  local line=("$(command -v python3)" "$folder/python/training.py")
  timeout 300 "$folder/run_ranks" -n 1 --seconds 240 "${line[@]}" || failed=1
  CUDA_VISIBLE_DEVICES=0 HOROVOD_GPU_OPERATIONS=shm+tcp \
    timeout 300 "$folder/run_ranks" -n 2 --seconds 240 "${line[@]}" || failed=1
  return $failed
}

run() {
  local folder results=${2:-} failed=0 gpus
  folder=$(realpath "$1")
  if ! command -v nvidia-smi >/dev/null; then
    echo "no nvidia-smi: is there a GPU?"
    return 1
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
  gpus=$(nvidia-smi --list-gpus | grep -c '^GPU')
  export HOROVOD_PLUGIN_PATH=$folder
  "$folder/gpu_kernels" ${results:+--gtest_output=xml:"$results/gpu_kernels.xml"} || failed=1
  "$folder/gpu_bandwidth" | tee ${results:+"$results/bandwidth.txt"} || failed=1
  find_nccl
  for ranks in 1 2 4; do
    if [ "$ranks" -gt "$gpus" ]; then continue; fi
    echo "conformance kit over NCCL, $ranks ranks"
    timeout 300 "$folder/roda-conformance" --plugin nccl --ranks "$ranks" --memory cuda || failed=1
  done
  engines "$folder" "$gpus" || failed=1
  if build_python "$folder"; then
    trainings "$folder" || failed=1
  else
    echo "no training on the card: it needs PyTorch, nanobind and a C++ compiler"
  fi
  return $failed
}

if [ "${1:-}" = --gather ] && [ $# -eq 3 ]; then
  gather "$2" "$3"
elif [ $# -ge 1 ] && [ -x "$1/gpu_kernels" ]; then
  if [ $# -ge 2 ]; then mkdir -p "$2"; fi
  run "$@"
else
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 2
fi
