#!/usr/bin/env bash
# What needs a GPU, in one command. A machine that has one may have no compiler and no package registry, so that the
# programs are gathered on the machine that built them and carried over:
#
#   tests/gpu/run.sh --gather build/native build/gpu    # programs, plugins and their libraries, under 64 MiB
#   tests/gpu/run.sh build/gpu [RESULTS]                # on the machine with the GPU; reports into RESULTS, if given
#
# Needed there: the GPU's driver; for training also python3 with PyTorch, and a C++ compiler. NCCL is used
# where it is found (RODA_NCCL_LIBRARY, the system's, or that of PyTorch), with one rank per GPU, four at most. It takes
# ten minutes at most, and its last line counts what passed, what failed and what could not be run. Ends with 0 when
# nothing failed. RODA_TEST_CUDA_LIBRARY=... in place of a card (the double of tests/doubles, say) shows that this works.
set -euo pipefail

# What every Linux has is not carried.
readonly everywhere='^(linux-vdso|ld-linux.*|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)[.]so'

# Libraries that the plugins are linked to, under their names in lib/; UCX looks for its own plugins in ucx/ beside it.
gather_libraries() {
  local out=$1 name path modules
  mkdir -p "$out/lib"
  for plugin in "$out"/roda_*.so; do ldd "$plugin"; done | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
    while read -r name path; do
      if [[ $name =~ $everywhere ]]; then continue; fi
      strip --strip-unneeded -o "$out/lib/$name" "$path"
      modules=$(dirname "$(realpath "$path")")/ucx
      if [[ $name != libucs.so.* ]]; then continue; fi
      mkdir -p "$out/lib/ucx"
      find "$modules" -name 'libuct_cma.so.?' -exec cp -L {} "$out/lib/ucx" \;
    done
}

# Whether nothing else would be loaded from elsewhere.
check_libraries() {
  local out name path missing=0
  out=$(realpath "$1")
  while read -r name path; do
    if [[ $name =~ $everywhere || $path = "$out"/* ]]; then continue; fi
    echo "$name is not carried: ${path:-it was not found}"
    missing=1
  done < <(find "$out" -path "$out/python" -prune -o -type f \( -name '*.so*' -o -perm -u+x \) -print |
    while read -r file; do
      LD_LIBRARY_PATH=$out:$out/lib ldd "$file" | awk '$2 == "=>" { print $1, ($3 == "not" ? "" : $3) }'
    done | sort -u)
  return $missing
}

gather() {
  local build=$1 out=$2 megabytes
  rm -rf "${out:?}/lib" "${out:?}/python"
  mkdir -p "$out"
  local files=(tests/gpu/gpu_kernels tests/gpu/gpu_bandwidth tests/multi/gpu/gpu_collectives plugins/conformance/roda-conformance
    plugins/devices/cuda/roda_cuda.so tests/multi/engine/run_ranks bindings/c/libroda.so.1)
  for transport in nccl shm tcp gloo ucx; do
    if [ -f "$build/transports/$transport/roda_$transport.so" ]; then
      files+=("transports/$transport/roda_$transport.so")
    else
      echo "$transport is not built: what needs it will not run"
    fi
  done
  for file in "${files[@]}"; do
    strip --strip-debug -o "$out/${file##*/}" "$build/$file"
    chmod +x "$out/${file##*/}"
  done
  gather_libraries "$out"
  check_libraries "$out"
  # The Python part is compiled there, for the Python that has PyTorch.
  local root
  root=$(dirname "$0")/../..
  mkdir -p "$out/python/bindings/c" "$out/python/bindings/python" "$out/python/plugins"
  cp -r "$root/bindings/python/horovod" "$root/tests/gpu/training.py" "$root/tests/gpu/foreach_copy.py" "$out/python"
  cp -r "$root/bindings/python/src" "$out/python/bindings/python"
  cp "$root/bindings/c/roda.h" "$out/python/bindings/c"
  cp -r "$root/plugins/abi" "$out/python/plugins"
  megabytes=$(du -sm "$out" | cut -f1)
  echo "$out: $megabytes MB"
  [ "$megabytes" -lt 64 ]
}

readonly all_seconds=590
declare -i passed=0 failed=0 left_out=0

# `step WHAT SECONDS COMMAND...`: the command passes within that time, and within that of all.
step() {
  local what=$1 seconds=$2 left=$((all_seconds - SECONDS))
  shift 2
  echo "== $what"
  if [ "$left" -le 0 ]; then
    failed+=1
    echo "FAILED: $what: no time is left"
  elif timeout $((seconds < left ? seconds : left)) "$@"; then
    passed+=1
  else
    failed+=1
    echo "FAILED: $what"
  fi
}

leave_out() {
  left_out+=1
  echo "== not run: $1"
}

# PyTorch's NCCL, from pip's packages, when nothing else names one.
find_nccl() {
  if [ -n "${RODA_NCCL_LIBRARY:-}" ] || ldconfig -p | grep -q 'libnccl\.so\.2'; then return; fi
  local found
  found=$(python3 -c 'import importlib.util as u; s = u.find_spec("nvidia.nccl"); print(list(s.submodule_search_locations)[0])' \
    2>/dev/null) || return 1
  export RODA_NCCL_LIBRARY=$found/lib/libnccl.so.2
}

# Collectives on tensors of the card through the engine. `what` is said first; the rest is run_ranks' command line.
engine() {
  local folder=$1 what=$2
  shift 2
  step "engine: $what" 150 env GPU_TEST_DEVICE="$folder/roda_cuda.so" RODA_TEST_HIERARCHICAL_ADASUM=1 HOROVOD_GLOO_IFACE=lo \
    LD_LIBRARY_PATH="$folder:$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$folder/run_ranks" "$@" --seconds 140 "$folder/gpu_collectives" --gtest_brief=1
}

# Two processes share the first card, which NCCL does not allow: what they exchange is staged through pinned memory.
engines_staged() {
  local folder=$1
  export GPU_TEST_GPU=0
  engine "$folder" "one rank" -n 1
  export GPU_TEST_STAGED=1
  HOROVOD_GPU_OPERATIONS=shm+tcp engine "$folder" "two ranks of one host on one card, staged" -n 2
  HOROVOD_GPU_OPERATIONS=tcp engine "$folder" "two hosts of one rank on one card, staged" -n 2 --hosts 2
  HOROVOD_GPU_OPERATIONS=shm+tcp HOROVOD_ENABLE_ASYNC_COMPLETION=1 \
    engine "$folder" "the same on one host, completed in stream order" -n 2
  unset GPU_TEST_GPU GPU_TEST_STAGED
}

# The hierarchical path on one card: each process has a communicator of its own inside its host, and something else
# carries the data between the two. shm reaches one host alone, whose processes a level of their own tells apart.
engines_composed() {
  local folder=$1
  export GPU_TEST_GPU=0 HOROVOD_HIERARCHICAL_ALLREDUCE=1 HOROVOD_HIERARCHICAL_ALLGATHER=1
  for between in gloo ucx tcp; do
    if [ ! -f "$folder/roda_$between.so" ]; then
      leave_out "NCCL inside hosts and $between between them: it was not built"
      continue
    fi
    GPU_TEST_PLAN="reducescatter on each host by nccl/native, then allreduce across hosts by $between" \
      HOROVOD_GPU_OPERATIONS=nccl+$between \
      engine "$folder" "two hosts of one rank on one card, NCCL inside and $between between" -n 2 --hosts 2
  done
  GPU_TEST_PLAN="reducescatter on each card by nccl/native, then allreduce across cards of each host by shm" \
    HOROVOD_GPU_OPERATIONS=nccl+shm RODA_LEVELS=card=1,host \
    engine "$folder" "two ranks of one host on one card, NCCL in each and shm between" -n 2
  unset GPU_TEST_GPU HOROVOD_HIERARCHICAL_ALLREDUCE HOROVOD_HIERARCHICAL_ALLGATHER
}

engines_of_several_cards() {
  local folder=$1 gpus=$2
  if [ "$gpus" -ge 2 ]; then
    HOROVOD_GPU_OPERATIONS=nccl engine "$folder" "two cards over NCCL" -n 2
  else
    leave_out "two cards over NCCL: there is one"
  fi
  if [ "$gpus" -ge 4 ]; then
    HOROVOD_GPU_OPERATIONS=nccl+tcp engine "$folder" "two hosts of two cards, NCCL inside and TCP between" -n 4 --hosts 2
  else
    leave_out "two hosts of two cards, NCCL inside and TCP between: there are not four cards"
  fi
}

# What NCCL itself is needed for.
with_nccl() {
  local folder=$1 gpus=$2
  for ranks in 1 2 4; do
    if [ "$ranks" -gt "$gpus" ]; then continue; fi
    step "conformance kit over NCCL, $ranks ranks" 120 \
      "$folder/roda-conformance" --plugin nccl --ranks "$ranks" --memory cuda
  done
  engines_composed "$folder"
  engines_of_several_cards "$folder" "$gpus"
}

has_python_tools() {
  command -v c++ >/dev/null && python3 -c 'import torch' 2>/dev/null
}

# The extension module of horovod, beside its Python files.
build_python() {
  local python=$1/python include
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$1/libroda.so" ] || ln -s libroda.so.1 "$1/libroda.so"
  c++ -std=c++20 -O2 -w -shared -fPIC -fvisibility=hidden -DNDEBUG -DPy_LIMITED_API=0x03090000 \
    -I"$python" -I"$python/plugins/abi" -I"$include" \
    "$python"/bindings/python/src/*.cpp -o "$python/horovod/_roda.abi3.so" \
    -L"$1" -lroda -Wl,-rpath,"\$ORIGIN/../.."
}

# One rank, and two that share the first card: their gradients are staged.
trainings() {
  local folder=$1
  if ! has_python_tools; then
    leave_out "training: it needs PyTorch and a C++ compiler"
    return
  fi
  export -f build_python
  step "compiling horovod's extension module" 240 bash -euo pipefail -c 'build_python "$@"' build_python "$folder"
  export PYTHONPATH=$folder/python${PYTHONPATH:+:$PYTHONPATH} LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  local line=("$(command -v python3)" "$folder/python/training.py")
  step "training, one rank" 150 "$folder/run_ranks" -n 1 --seconds 140 "${line[@]}"
  step "training, two ranks on one card" 150 \
    env CUDA_VISIBLE_DEVICES=0 HOROVOD_GPU_OPERATIONS=shm+tcp "$folder/run_ranks" -n 2 --seconds 140 "${line[@]}"
}

# Packing beside the card's own copy, and beside PyTorch's where that is there.
bandwidth() {
  "$1/gpu_bandwidth" | tee ${2:+"$2/bandwidth.txt"}
  if ! python3 -c 'import torch' 2>/dev/null; then
    echo "no PyTorch to compare with"
    return
  fi
  "$1/gpu_bandwidth" --tensors | python3 "$1/python/foreach_copy.py" | tee ${2:+-a "$2/bandwidth.txt"}
}

run() {
  local folder results=${2:-} gpus=1
  folder=$(realpath "$1")
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
    gpus=$(nvidia-smi --list-gpus | grep -c '^GPU')
  elif [ -n "${RODA_TEST_CUDA_LIBRARY:-}" ]; then
    echo "no nvidia-smi: $RODA_TEST_CUDA_LIBRARY stands in for a card"
  else
    echo "no nvidia-smi: is there a GPU?"
    return 1
  fi
  export HOROVOD_PLUGIN_PATH=$folder
  step "kernels" 150 "$folder/gpu_kernels" ${results:+--gtest_output=xml:"$results/gpu_kernels.xml"}
  export -f bandwidth
  if ! command -v nvidia-smi >/dev/null; then
    leave_out "bandwidth: there is no card"
  else
    step "bandwidth" 120 bash -euo pipefail -c 'bandwidth "$@"' bandwidth "$folder" ${results:+"$results"}
  fi
  engines_staged "$folder"
  if find_nccl; then
    with_nccl "$folder" "$gpus"
  else
    leave_out "what needs NCCL: there is none; RODA_NCCL_LIBRARY names one"
  fi
  trainings "$folder"
  echo "tests/gpu: $passed passed, $failed failed, $left_out not run, in $SECONDS s"
  [ "$failed" -eq 0 ]
}

if [ "${1:-}" = --gather ] && [ $# -eq 3 ]; then
  gather "$2" "$3"
elif [ $# -ge 1 ] && [ -x "$1/gpu_kernels" ]; then
  if [ $# -ge 2 ]; then mkdir -p "$2"; fi
  run "$@"
else
  sed -n '2,13s/^# \{0,1\}//p' "$0"
  exit 2
fi
