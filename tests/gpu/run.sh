#!/usr/bin/env bash
# What needs a GPU, in parts of four minutes at most, the most valuable first. A machine that has a card may have no
# compiler and no package registry, so that the programs are gathered on the machine that built them and carried over:
#
#   tests/gpu/run.sh --gather build/native build/gathered      # programs, plugins and their libraries, under 64 MiB
#   tests/gpu/run.sh build/gathered [OUTPUT [PART...]]         # on the machine with the card
#
# OUTPUT (else $OUT, else build/gpu) gets PART.log and PART.json of each part, and summary.json. A part that fails does
# not keep the next from running. Ends with 0 when nothing failed, with 3 where there is no card.
#
# Parts: kernels, shared (ranks on one card over NCCL), training, steps (beside DDP and plain PyTorch), overlap, jax,
# faults, staged, composed, sanitizer, cards (several). Needed there: the GPU's driver; for training, steps and overlap
# python3 with PyTorch, for jax with JAX, pytest and optax, for each of them a C++ compiler; compute-sanitizer. NCCL is
# the one that RODA_NCCL_LIBRARY names, the system's, or PyTorch's. What does not load there is built there, where meson
# and a compiler are. RODA_TEST_CUDA_LIBRARY=... in place of a card (the double of tests/doubles) shows that this works.
set -euo pipefail

root=$(realpath "$(dirname "$0")/../..")
readonly root

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
  local files=(tests/gpu/gpu_kernels tests/gpu/gpu_bandwidth tests/multi/gpu/gpu_collectives tests/multi/gpu/gpu_faults
    plugins/conformance/roda-conformance plugins/devices/cuda/roda_cuda.so tests/multi/engine/run_ranks bindings/c/libroda.so.1)
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
  mkdir -p "$out/python"/{bindings/c,bindings/python,plugins,tests/python,examples}
  cp -r "$root/bindings/python/horovod" "$root/bindings/python/_roda_torch.py" "$root"/tests/gpu/*.py "$out/python"
  cp -r "$root/bindings/python/src" "$out/python/bindings/python"
  cp "$root/bindings/c/roda.h" "$out/python/bindings/c"
  cp -r "$root/bindings/jax" "$out/python/bindings"
  cp -r "$root/tests/python/jax" "$out/python/tests/python"
  cp "$root/examples/jax_digits.py" "$out/python/examples"
  mkdir -p "$out/python/horovod/lib"
  strip --strip-debug -o "$out/python/horovod/lib/libroda_jax.so" "$build/bindings/jax/libroda_jax.so"
  cp -r "$root/plugins/abi" "$out/python/plugins"
  megabytes=$(du -sm "$out" | cut -f1)
  echo "$out: $megabytes MB"
  [ "$megabytes" -lt 64 ]
}

# --- one part -------------------------------------------------------------------------------------------------------

readonly part_seconds=230
readonly all_parts=(kernels shared training steps overlap jax faults staged composed sanitizer cards)

# `step WHAT SECONDS COMMAND...`: the command passes within that time, and within that of the part.
step() {
  local what=$1 seconds=$2 left=$((part_seconds - SECONDS)) begin=$SECONDS result=passed
  shift 2
  echo "== $what"
  if [ "$left" -le 0 ]; then
    result="failed: no time is left"
  elif ! timeout --kill-after=5 $((seconds < left ? seconds : left)) "$@"; then
    result=failed
  fi
  [ "$result" = passed ] || echo "FAILED: $what"
  printf '%s\t%s\t%s\n' "$what" "$result" $((SECONDS - begin)) >>"$output/$part.steps"
}

leave_out() {
  echo "== not run: $1"
  printf '%s\t%s\t%s\n' "$1" "not run" 0 >>"$output/$part.steps"
}

# PyTorch's NCCL, from pip's packages, when nothing else names one.
find_nccl() {
  if [ -n "${RODA_NCCL_LIBRARY:-}" ] || ldconfig -p | grep -q 'libnccl\.so\.2'; then return; fi
  local found
  found=$(python3 -c 'import importlib.util as u; s = u.find_spec("nvidia.nccl"); print(list(s.submodule_search_locations)[0])' \
    2>/dev/null) || return 1
  export RODA_NCCL_LIBRARY=$found/lib/libnccl.so.2
}

needs_nccl() {
  find_nccl && return
  leave_out "$part: there is no NCCL; RODA_NCCL_LIBRARY names one"
  return 1
}

# Collectives on tensors of the card through the engine. `what` is said first; the rest is run_ranks' command line.
engine() {
  local what=$1
  shift
  step "engine: $what" 100 env GPU_TEST_DEVICE="$folder/roda_cuda.so" RODA_TEST_HIERARCHICAL_ADASUM=1 HOROVOD_GLOO_IFACE=lo \
    HOROVOD_DYNAMIC_PROCESS_SETS=1 LD_LIBRARY_PATH="$folder:$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$folder/run_ranks" "$@" --seconds 95 "$folder/gpu_collectives" --gtest_brief=1
}

# Packing beside the card's own copy, and beside PyTorch's where that is there.
bandwidth() {
  "$folder/gpu_bandwidth"
  python3 -c 'import torch' 2>/dev/null || return 0
  "$folder/gpu_bandwidth" --tensors | python3 "$folder/python/foreach_copy.py"
}

part_kernels() {
  step "kernels" 120 "$folder/gpu_kernels" --gtest_brief=1
  if [ "$gpus" -eq 0 ]; then
    leave_out "bandwidth: there is no card"
  else
    export -f bandwidth
    step "bandwidth" 100 bash -euo pipefail -c bandwidth
  fi
}

# NCCL refuses two ranks of one host on one card, so that each says that it is another host.
part_shared() {
  needs_nccl || return 0
  step "conformance kit over NCCL, one rank" 60 "$folder/roda-conformance" --plugin nccl --ranks 1 --memory cuda
  GPU_TEST_GPU=0 engine "two ranks on one card over NCCL" -n 2
  GPU_TEST_GPU=0 engine "four ranks on one card over NCCL" -n 4
}

# `build_python MODULES`: the extension module of horovod, beside its Python files, where Python has these.
build_python() {
  local python=$folder/python include
  if ! command -v c++ >/dev/null || ! python3 -c "import $1" 2>/dev/null; then
    leave_out "$part: it needs a C++ compiler and Python's $1"
    return 1
  fi
  [ -f "$python/horovod/_roda.abi3.so" ] && return
  include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$folder/libroda.so" ] || ln -s libroda.so.1 "$folder/libroda.so"
  step "compiling horovod's extension module" 150 c++ -std=c++20 -O1 -w -shared -fPIC -fvisibility=hidden -DNDEBUG \
    -DPy_LIMITED_API=0x03090000 -I"$python" -I"$python/plugins/abi" -I"$include" \
    "$python"/bindings/python/src/*.cpp -o "$python/horovod/_roda.abi3.so" -L"$folder" -lroda -Wl,-rpath,"\$ORIGIN/../.."
}

# `python_job WHAT RANKS ARGUMENT...`: Python on one card, in the folder of its files.
python_job() {
  local what=$1 ranks=$2
  shift 2
  step "$what" 120 env -C "$folder/python" PYTHONPATH="$folder/python${PYTHONPATH:+:$PYTHONPATH}" CUDA_VISIBLE_DEVICES=0 \
    OUTPUT="$output" LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
    "$folder/run_ranks" -n "$ranks" --seconds 115 "$(command -v python3)" "$@"
}

part_training() {
  build_python torch || return 0
  python_job "training, one rank" 1 training.py
  find_nccl && python_job "training, two ranks on one card over NCCL" 2 training.py
  find_nccl && python_job "tensors of all kinds, four ranks on one card over NCCL" 4 tensors.py
  find_nccl && python_job "the same of two ranks, and torch.compile" 2 tensors.py --compile
  HOROVOD_GPU_OPERATIONS=shm+tcp python_job "training, two ranks on one card, staged" 2 training.py
}

part_steps() {
  build_python torch || return 0
  python_job "steps, one rank" 1 steps.py
  find_nccl && python_job "steps, two ranks on one card over NCCL" 2 steps.py
}

part_overlap() {
  build_python torch || return 0
  python_job "overlap, two ranks on one card" 2 steps.py --profile
}

# The tests of horovod.jax, on arrays of the card. JAX would take most of its memory, and round what it multiplies.
part_jax() {
  build_python "jax, pytest, optax" || return 0
  export JAX_PLATFORMS=cuda,cpu XLA_PYTHON_CLIENT_PREALLOCATE=false JAX_DEFAULT_MATMUL_PRECISION=highest
  find_nccl && python_job "JAX, two ranks on one card over NCCL" 2 -m pytest -q -p no:cacheprovider tests/python/jax
  python_job "JAX, one rank" 1 -m pytest -q -p no:cacheprovider tests/python/jax
}

part_faults() {
  local job=(env GPU_TEST_DEVICE="$folder/roda_cuda.so" GPU_TEST_GPU=0 HOROVOD_ABORT_TIMEOUT_SECONDS=5
    LD_LIBRARY_PATH="$folder:$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$folder/run_ranks" -n 2 --dies 1 --seconds 55
    "$folder/gpu_faults" --gtest_brief=1 --gtest_filter=GpuFaults.ARankDies)
  find_nccl && step "a rank dies, over NCCL" 60 "${job[@]}"
  HOROVOD_GPU_OPERATIONS=tcp step "a rank dies, staged" 60 "${job[@]}"
}

# What two processes on one card exchange is staged through pinned memory.
part_staged() {
  export GPU_TEST_GPU=0
  engine "one rank" -n 1
  export GPU_TEST_STAGED=1
  HOROVOD_GPU_OPERATIONS=shm+tcp engine "two ranks of one host on one card, staged" -n 2
  HOROVOD_GPU_OPERATIONS=tcp engine "two hosts of one rank on one card, staged" -n 2 --hosts 2
  HOROVOD_GPU_OPERATIONS=shm+tcp HOROVOD_ENABLE_ASYNC_COMPLETION=1 \
    engine "the same on one host, completed in stream order" -n 2
}

# The hierarchical path on one card: each process has a communicator of its own inside its host, and something else
# carries the data between the two. shm reaches one host alone, whose processes a level of their own tells apart.
part_composed() {
  needs_nccl || return 0
  export GPU_TEST_GPU=0 HOROVOD_HIERARCHICAL_ALLREDUCE=1 HOROVOD_HIERARCHICAL_ALLGATHER=1
  for between in tcp ucx gloo; do
    if [ ! -f "$folder/roda_$between.so" ]; then
      leave_out "NCCL inside hosts and $between between them: it was not built"
      continue
    fi
    GPU_TEST_PLAN="reducescatter on each host by nccl/native, then allreduce across hosts by $between" \
      HOROVOD_GPU_OPERATIONS=nccl+$between \
      engine "two hosts of one rank on one card, NCCL inside and $between between" -n 2 --hosts 2
  done
  HOROVOD_GPU_OPERATIONS=nccl+tcp engine "two hosts of two ranks on one card, NCCL inside and TCP between" -n 4 --hosts 2
  GPU_TEST_PLAN="reducescatter on each card by nccl/native, then allreduce across cards of each host by shm" \
    HOROVOD_GPU_OPERATIONS=nccl+shm RODA_LEVELS=card=1,host \
    engine "two ranks of one host on one card, NCCL in each and shm between" -n 2
}

part_sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    leave_out "$part: there is no compute-sanitizer"
    return
  fi
  for tool in memcheck racecheck initcheck; do
    step "kernels under $tool" 70 compute-sanitizer --tool "$tool" --error-exitcode 9 "$folder/gpu_kernels" --gtest_brief=1
  done
}

part_cards() {
  needs_nccl || return 0
  unset RODA_TEST_NCCL_SHARED_GPU
  if [ "$gpus" -lt 2 ]; then
    leave_out "several cards: there are not two"
    return
  fi
  step "conformance kit over NCCL, two ranks" 100 "$folder/roda-conformance" --plugin nccl --ranks 2 --memory cuda
  HOROVOD_GPU_OPERATIONS=nccl engine "two cards over NCCL" -n 2
  if [ "$gpus" -ge 4 ]; then
    HOROVOD_GPU_OPERATIONS=nccl+tcp engine "two hosts of two cards, NCCL inside and TCP between" -n 4 --hosts 2
  fi
}

# --- all parts ------------------------------------------------------------------------------------------------------

# PART.json: each step, and what programs have measured (lines of `name value unit`).
write_json() {
  {
    echo "{\"part\": \"$part\", \"card\": \"$card\", \"seconds\": $1, \"steps\": ["
    awk -F'\t' '{
      printf("%s  {\"what\": \"%s\", \"result\": \"%s\", \"seconds\": %d}", (NR > 1 ? ",\n" : ""), $1, $2, $3)
    }' "$output/$part.steps"
    printf '],\n"figures": {'
    awk '/^[a-z0-9_.]+ [0-9.]+( [^ ]+)?$/ {
      printf("%s\n  \"%s\": [%s, \"%s\"]", (n++ > 0 ? "," : ""), $1, $2, $3)
    }' "$output/$part.log"
    printf '}}\n'
  } >"$output/$part.json"
}

run_part() {
  local begin=$SECONDS
  part=$1
  : >"$output/$part.steps"
  timeout --kill-after=10 240 "$0" --part "$part" "$folder" "$output" "$gpus" >"$output/$part.log" 2>&1 ||
    printf '%s\t%s\t%s\n' "$part" "failed: ended before its end" $((SECONDS - begin)) >>"$output/$part.steps"
  write_json $((SECONDS - begin))
  awk -F'\t' -v part="$part" '{ print part ": " $1 ": " $2 " (" $3 " s)" }' "$output/$part.steps"
  rm "$output/$part.steps"
}

find_card() {
  gpus=0
  if command -v nvidia-smi >/dev/null && nvidia-smi --list-gpus | grep -q '^GPU'; then
    gpus=$(nvidia-smi --list-gpus | grep -c '^GPU')
    card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -1)
  elif [ -n "${RODA_TEST_CUDA_LIBRARY:-}" ]; then
    card="NO CARD: a double stands in for one"
  else
    echo "There is no card here: nvidia-smi finds none. Nothing was run."
    echo '{"card": null, "parts": []}' >"$output/summary.json"
    exit 3
  fi
  echo "$card"
}

loads() {
  ! find "$folder" -maxdepth 1 -type f -perm -u+x -exec env LD_LIBRARY_PATH="$folder:$folder/lib" ldd {} + 2>&1 |
    grep 'not found'
}

rebuild() {
  echo "what was gathered does not load here, see above: it is built here; $output/rebuild.log"
  (
    cd "$root"
    meson setup build/there -Dpython=disabled --buildtype=release -Dunity=on -Dunity_size=20
    mapfile -t targets < <(meson introspect --targets build/there | python3 -c '
import json, sys
wanted = ("gpu_kernels", "gpu_bandwidth", "gpu_collectives", "gpu_faults", "run_ranks", "roda-conformance", "roda")
for target in json.load(sys.stdin):
    path = target["filename"][0].split("build/there/")[1]
    if target["name"] in wanted or (target["type"] == "shared module" and path.startswith(("transports/", "plugins/"))):
        print(path)')
    ninja -C build/there "${targets[@]}"
    gather build/there "$folder"
  ) >"$output/rebuild.log" 2>&1
}

run() {
  folder=$(realpath "$1")
  output=${2:-${OUT:-build/gpu}}
  mkdir -p "$output"
  output=$(realpath "$output")
  find_card
  loads || rebuild
  shift $(($# < 2 ? $# : 2))
  for each in "${@:-${all_parts[@]}}"; do
    run_part "$each"
    echo "$each" >>"$output/.parts"
  done
  {
    printf '{"card": "%s", "parts": [' "$card"
    printf '%s' "$(sed 's/.*/"&"/' "$output/.parts" | paste -sd,)"
    echo ']}'
  } >"$output/summary.json"
  rm "$output/.parts"
  local failed
  failed=$(cat "$output"/*.json | grep -c '"result": "failed' || true)
  echo "tests/gpu: $failed steps failed, in $SECONDS s; logs and figures are in $output"
  [ "$failed" -eq 0 ]
}

if [ "${1:-}" = --gather ] && [ $# -eq 3 ]; then
  gather "$2" "$3"
elif [ "${1:-}" = --part ]; then
  part=$2 folder=$3 output=$4 gpus=$5
  export folder HOROVOD_PLUGIN_PATH=$folder RODA_TEST_NCCL_SHARED_GPU=1 NCCL_SOCKET_IFNAME=lo
  "part_$part"
elif [ $# -ge 1 ] && [ -x "$1/gpu_kernels" ]; then
  run "$@"
else
  sed -n '2,18s/^# \{0,1\}//p' "$0"
  exit 2
fi
