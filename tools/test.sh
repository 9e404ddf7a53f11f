#!/usr/bin/env bash
# Runs every test, or the suites named on the command line: structure native python judge tensorflow jax mxnet ray hosts
# faults curves vm fuzz sanitizers; or `full`, other versions of the frameworks; or `threads`, half an hour; or `wheel`, which
# builds the wheel and installs it; or `spark`, which fetches half a gigabyte and needs Java; or `torch-suite`, PyTorch's
# own tests of torch.distributed; or `quick`, what to run before each commit. Does all the set-up itself. The last line is
# the sum over all suites; the exit status is 0 only if nothing failed.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

SUITES=(structure native python judge tensorflow jax mxnet vm ray hosts faults curves fuzz sanitizers)
RESULTS=$ROOT/build/results
FAILED_STEPS=()
export PATH=$VENV/bin:$PATH

# A step that does not even produce a test report counts as one failure.
step_failed() {
  printf 'FAILED: %s\n' "$1" >&2
  FAILED_STEPS+=("$1")
}

# beside NAME COMMAND…: runs it while suites go on, until `done_beside NAME` waits for it or `stop_beside NAME` ends it.
declare -A BESIDE=()
beside() {
  local name=$1
  shift
  set -m # a process group of its own, to end it by
  "$@" >"build/logs/beside-$name.log" 2>&1 </dev/null &
  BESIDE[$name]=$!
  set +m
}
done_beside() {
  [[ -z ${BESIDE[$1]:-} ]] || wait "${BESIDE[$1]}" || true
  unset "BESIDE[$1]"
}
stop_beside() {
  if [[ -n ${BESIDE[$1]:-} ]]; then
    pkill --parent "${BESIDE[$1]}" || true # what has a process group of its own
    kill -- "-${BESIDE[$1]}" 2>/dev/null || true
  fi
  done_beside "$1"
}
trap 'for name in "${!BESIDE[@]}"; do stop_beside "$name"; done' EXIT

# build_folder DIR TARGET OPTIONS…: configures once, then compiles the target.
build_folder() {
  local dir=$1 target=$2
  shift 2
  if [[ ! -f $dir/build.ninja ]]; then
    rm -rf "$dir"
    logged "build/logs/$(basename "$dir")-setup.log" meson setup "$dir" -Dpython=disabled "$@" || return 1
  fi
  logged "build/logs/$(basename "$dir")-compile.log" ninja -C "$dir" -j "$JOBS" "$target"
}

# A target's sources go through the compiler together, as in the package (pyproject.toml): a third of the time.
UNITY=(-Dunity=on -Dunity_size=20)

# meson_tests NAME DIR OPTIONS…: runs a build folder's tests and keeps its reports. Twice as many as there are cores, since
# most of them wait much of the time.
meson_tests() {
  local name=$1 dir=$2 status=0
  shift 2
  rm -f "$dir"/*.xml "$dir/meson-logs/$name".*  # a crashed test leaves the report of the run before
  meson test -C "$dir" --no-rebuild --logbase "$name" --num-processes $((2 * JOBS)) --print-errorlogs "$@" </dev/null || status=$?
  cp "$dir/meson-logs/$name.json" "$RESULTS/$name.json" 2>/dev/null || { step_failed "$name: no report" && return; }
  cp "$dir/meson-logs/$name.junit.xml" "$RESULTS/$name.xml" 2>/dev/null || true
  [[ $status -eq 0 ]] || printf 'meson test ended with %d for %s\n' "$status" "$name" >&2
}

suite_structure() {
  pytest_report structure tests/structure
  python tools/code_sizes.py
}

# build_native OPTIONS…: built as the product is: with ccache what that has compiled is not compiled again.
build_native() { build_folder build/native all --buildtype=release "$@"; }

suite_native() {
  build_native "${UNITY[@]}" || { step_failed "native: build" && return; }
  if grep -B1 -A3 'warning:' build/logs/native-compile.log; then step_failed "native: the compiler warns"; fi
  python tools/check_sources.py build/native --jobs "$JOBS" || step_failed "native: sources by themselves, what locks guard"
  if is_chosen sanitizers; then # which run what else there is of the engine
    meson_tests native build/native --no-suite engine
    meson_tests native-engine build/native --suite plain
  else
    meson_tests native build/native
  fi
}

# Where there is no Clang what it alone can do is left out.
has_clang() {
  command -v clang++-16 >/dev/null || { say "Skipped: clang++-16 is not installed" && return 1; }
}

# build_sanitizers TARGET: of the engine in real processes, over what its tests use, or of what is fuzzed; with no more debug
# information than lines, and unoptimized: 4 minutes of one core, where -O1 takes about 9 and saves the tests 2. The other
# native tests under the sanitizers are a command in docs/testing.md: compiling them costs more than all the rest together.
build_sanitizers() {
  CC="ccache clang-16" CXX="ccache clang++-16" build_folder build/asan "$1" -Dfuzz=true -Dcuda=disabled \
    -Dtransports=loop,shm,tcp,gloo,mpi,ucx -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=0 -Ddebug=false \
    "-Dcpp_args=['-g1', '-fsanitize=fuzzer-no-link', '-Wno-pass-failed']" "${UNITY[@]}"
}

suite_sanitizers() {
  has_clang || return 0
  stop_beside builds
  build_sanitizers engine-tests || { step_failed "sanitizers: build" && return; }
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    meson_tests sanitizers build/asan --timeout-multiplier 4 --num-processes "$JOBS" --suite engine --no-suite plain
}

# Data races: the same tests under the thread sanitizer, half an hour, and so not part of every run. Of the libraries only
# gloo is in it: the others' own threads look like races to it, because they are not built with it. What failed is not
# taken down, so a helper's thread that has ended may be left.
suite_threads() {
  build_folder build/tsan engine-tests -Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Ddebug=false -Dcpp_args=-g1 \
    -Dcuda=disabled -Dtransports=loop,shm,tcp,gloo "${UNITY[@]}" || { step_failed "threads: build" && return; }
  TSAN_OPTIONS=report_thread_leaks=0:suppressions=$ROOT/tests/tsan.supp meson_tests threads build/tsan --timeout-multiplier 4 \
    --num-processes "$JOBS" --suite engine
}

# What tests, and the ranks of their jobs, are run by.
RANK_PYTHON=$VENV/bin/python

# pytest_report NAME FOLDER OPTIONS…: tests that need one process and start whatever else they need.
pytest_report() {
  local name=$1
  shift
  timeout --kill-after=10 "${REPORT_LIMIT:-600}" "$RANK_PYTHON" -m pytest -q "$@" --junitxml="$RESULTS/$name.xml" </dev/null || true
  [[ -s $RESULTS/$name.xml ]] || step_failed "$name: no report"
}

# spread_report NAME FOLDER OPTIONS…: the same for tests that wait half of their time: as many files at once as there are cores.
spread_report() {
  local spread=()
  "$VENV/bin/python" -c 'import xdist' 2>/dev/null && spread=(--numprocesses "$JOBS" --dist loadfile)
  pytest_report "$@" "${spread[@]}"
}

# A test that fails on one rank alone leaves the others waiting: they end with what they wait for.
STALL_LIMIT=180

# What the ranks run.
PARALLEL_TESTS=(tests/python/parallel)

# rank_tests NAME LAUNCHER…: every rank that the launcher's command line starts runs the same tests. Rank 0 is counted; the
# others may only fail.
rank_tests() {
  local report=$RESULTS/python-$1 status=0
  say "Python tests in a job: $1"
  mkdir -p "$report.ranks"
  shift
  # shellcheck disable=SC2016 # expanded by the rank's shell
  HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=$STALL_LIMIT timeout --kill-after=10 600 "$@" sh -c \
    'folder=$1; shift; exec "$@" --junitxml="$folder/rank${HOROVOD_RANK:-$OMPI_COMM_WORLD_RANK}.xml"' \
    sh "$report.ranks" "$RANK_PYTHON" -m pytest -q --color=no "${PARALLEL_TESTS[@]}" </dev/null >"$report.log" 2>&1 || status=$?
  if [[ $status -ne 0 ]]; then
    cat "$report.log"
  else
    grep '^\(\[0\].*\)\?[0-9]* passed' "$report.log" | head -n 1 || true
  fi
  if [[ -s $report.ranks/rank0.xml ]]; then
    cp "$report.ranks/rank0.xml" "$report.xml"
    grep -q '<failure\|<error' "$report.xml" && return # counted there
  fi
  [[ $status -eq 0 && -s $report.xml ]] || step_failed "${report##*/} ended with $status"
}

# In a job that Open MPI's mpirun starts, with no launcher of ours: mpirun_tests NP TRANSPORT.
mpirun_tests() {
  command -v mpirun.openmpi >/dev/null || return 0
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOROVOD_CPU_OPERATIONS=$2 \
    rank_tests "mpirun-np$1-$2" mpirun.openmpi -np "$1" -H "localhost:$1" -bind-to none -map-by slot \
    -x HOROVOD_CPU_OPERATIONS -x HOROVOD_STALL_SHUTDOWN_TIME_SECONDS
}

# One run for each thing that differs: one process, the default choice, more ranks than cores over sockets, an odd number of
# ranks that mpirun starts over its MPI, and some of all without that.
suite_python() {
  REPORT_LIMIT=1200 spread_report python tests/programs tests/python/single # compilers are at work beside
  rank_tests np1 horovodrun -np 1
  rank_tests np2 horovodrun -np 2
  command -v mpirun.openmpi >/dev/null || HOROVOD_CPU_OPERATIONS=shm rank_tests np3-shm horovodrun -np 3
  HOROVOD_CPU_OPERATIONS=gloo rank_tests np4-gloo horovodrun -np 4
  mpirun_tests 3 mpi
  local PARALLEL_TESTS=(tests/python/parallel/test_{errors,gather,process_sets}.py)
  mpirun_tests 2 shm
  PARALLEL_TESTS=(tests/python/frontends)
  rank_tests frontends-np2 horovodrun -np 2
  PARALLEL_TESTS=(tests/python/keras)
  KERAS_BACKEND=torch rank_tests keras-torch-np2 horovodrun -np 2
  in_framework mains pytest_report mains tests/python/single/test_starting.py -k main_of
}

# What jobs in the environments of other frameworks import, and where tests of two frameworks find PyTorch.
link_site() {
  mkdir -p build/site
  ln -sfn "$("$VENV/bin/python" -c 'import horovod; print(horovod.__path__[0])')" build/site/horovod
  RODA_TEST_TORCH=$("$VENV/bin/python" -c 'import torch; print(torch.__path__[0].rsplit("/", 1)[0])')
  RODA_TEST_JAX=$(echo "$ROOT"/build/venvs/jax/lib/python*/site-packages) # which need not be there
  export RODA_TEST_TORCH RODA_TEST_JAX
}

# Has an environment find PyTorch, and what else .venv has, behind its own packages.
find_torch() {
  printf '%s\n' "$RODA_TEST_TORCH" >"$("$RANK_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
}

# in_framework NAME COMMAND…: in the framework's environment.
in_framework() {
  if ! ensure_framework "$1"; then
    [[ $1 != @(spark|*_oldest) ]] || step_failed "$1: it is not to be had" # only who asks for it runs these
    return 0
  fi
  link_site
  local -x PYTHONPATH=$ROOT/build/site
  local RANK_PYTHON=$ROOT/build/venvs/$1/bin/python
  "${@:2}"
}

# programs NAME: those of tests/programs whose names begin so.
programs() {
  pytest_report "programs-${1%%[_ ]*}" tests/programs -k "$1"
}

# Runs a job of the front whose framework is in this environment.
FORMATS=tests/python/single/test_wire_formats.py

# What help(), type checkers and docs/compatibility.md say of the package, for the frameworks that are in this environment.
LISTED=tests/python/single/test_compatibility.py
SEEN=(tests/python/single/test_help.py tests/python/single/test_types.py "$LISTED")

# The same package under TensorFlow, which does not go into one environment with torch.
suite_tensorflow() {
  local PARALLEL_TESTS=(tests/python/tensorflow)
  rank_tests tensorflow-np2 horovodrun -np 2
  PARALLEL_TESTS=(tests/python/keras)
  rank_tests keras-np2 horovodrun -np 2
  pytest_report tensorflow tests/python/tensorflow_jobs "$FORMATS" "${SEEN[@]}"
  programs "tensorflow or keras_"
}

# full_job NAME FOLDER: in the environment of the moment, which need not be able to import the torch of .venv.
full_job() {
  local PARALLEL_TESTS=("$2")
  RODA_TEST_TORCH='' RODA_TEST_JAX='' rank_tests "$1" horovodrun -np 2
}

# The oldest versions that install here, and Keras 2 there and on the newest TensorFlow.
suite_full() {
  in_framework tensorflow_oldest full_job tensorflow-oldest-np2 tests/python/tensorflow
  TF_USE_LEGACY_KERAS=1 in_framework tensorflow_oldest full_job keras-oldest-np2 tests/python/keras
  in_framework jax_oldest full_job jax-oldest-np2 tests/python/jax
  ensure_framework tensorflow || return 0
  # Without what it depends on, or it brings another TensorFlow.
  build/venvs/tensorflow/bin/python -m pip install -q --no-compile --no-deps tf-keras </dev/null ||
    step_failed "full: tf-keras is not to be had"
  TF_USE_LEGACY_KERAS=1 in_framework tensorflow full_job keras-2-np2 tests/python/keras
}

# And under JAX.
suite_jax() {
  local PARALLEL_TESTS=(tests/python/jax)
  rank_tests jax-np2 horovodrun -np 2
  PARALLEL_TESTS=(tests/python/keras)
  KERAS_BACKEND=jax rank_tests keras-jax-np2 horovodrun -np 2
  pytest_report jax tests/python/jax_jobs "$FORMATS" "${SEEN[@]}"
}

# And under MXNet.
suite_mxnet() {
  local -x PYTHONWARNINGS=ignore
  local PARALLEL_TESTS=(tests/python/mxnet tests/python/single/test_help.py "$LISTED")
  rank_tests mxnet-np2 horovodrun -np 2
  PARALLEL_TESTS=(tests/python/mxnet/test_training.py) # where several ranks leave one out
  rank_tests mxnet-np3 horovodrun -np 3
  pytest_report mxnet "$FORMATS"
  programs mxnet_
}

# A Ray cluster on this machine, which waits half of its time: the suites after it go on beside it.
suite_ray() {
  find_torch
  pytest_report ray-listed "$LISTED" # apart: its folder has a conftest.py of the same name
  programs ray_
  beside ray pytest_report ray tests/python/ray
}

# What to run before each commit: everything in one process, the transports that need no library, jobs of two ranks.
# Where it sets up the build, each source is compiled by itself, which shows an include that one forgot.
suite_quick() {
  suite_structure
  build_native || { step_failed "quick: build" && return; }
  meson_tests quick-unit build/native --suite unit
  meson_tests quick-jobs build/native loop_3 shm_3 tcp_3 engine-default-np2 engine-dtypes-np2 engine-mismatch-np2
  PARALLEL_TESTS=(tests/python/parallel/test_{allreduce,errors,gather,optimizer,process_sets}.py)
  rank_tests np2 horovodrun -np 2
}

# The wheel for any machine: what is in it, and jobs in fresh environments without a compiler.
suite_wheel() {
  ensure_packages debootstrap buildah # bare root file systems to install it in, and an image
  tools/build_wheels.sh || { step_failed "wheel: build" && return; }
  REPORT_LIMIT=3600 pytest_report wheel tests/wheel
}

# A Spark cluster on this machine: not part of every run, because it needs Java.
suite_spark() {
  if ! command -v java >/dev/null; then
    step_failed "spark: no Java; on Debian: apt-get install openjdk-17-jre-headless"
    return
  fi
  find_torch
  KERAS_BACKEND=torch pytest_report spark-listed "$LISTED" # apart: its folder has a conftest.py of the same name
  programs spark_
  KERAS_BACKEND=torch REPORT_LIMIT=1800 pytest_report spark tests/python/spark
}

# judge OPTIONS…: torch's own tests of torch.distributed over this backend; what passes over Gloo alone fails.
judge() {
  "$VENV/bin/python" -c 'import expecttest' 2>/dev/null || { say "Skipped: expecttest is not installed" && return; }
  "$VENV/bin/python" tests/torch_suite/run.py "$@" --junit "$RESULTS/judge.xml" </dev/null || true
  [[ -s $RESULTS/judge.xml ]] || step_failed "judge: no report"
}

# Some of them, a minute and a half.
suite_judge() { judge --part; }

# All of them by both names, a quarter of an hour and so not part of every run; TORCH_SUITE_NP="2 3 4" has other ranks.
suite_torch-suite() {
  local ranks
  read -ra ranks <<<"${TORCH_SUITE_NP:-2 3}"
  judge --whole --name gloo roda --np "${ranks[@]}"
}

# Jobs across network namespaces that stand for hosts; skipped with the reason where none can be made.
suite_hosts() {
  spread_report hosts tests/hosts
}

# Faults of every kind in jobs of every kind, as many as begin in FAULTS_SECONDS: with FAULTS_SEED others than last time.
# And who hangs or slows 20 jobs, half a minute.
suite_faults() {
  python tests/faults/run.py --seed "${FAULTS_SEED:-7}" --seconds "${FAULTS_SECONDS:-40}" --junit "$RESULTS/faults.xml" </dev/null || true
  [[ -s $RESULTS/faults.xml ]] || step_failed "faults: no report"
  python tests/faults/who.py --only missing swallowed order mismatched pipeline debugger spins stopped input backward \
    --seed "${FAULTS_SEED:-7}" --seeds 2 --at-once 6 --most-ranks 3 --framework numpy --seconds 3 --junit "$RESULTS/who.xml" </dev/null || true
  [[ -s $RESULTS/who.xml ]] || step_failed "faults: no report of who.py"
}

suite_curves() {
  python tools/check_curves.py --junit "$RESULTS/curves.xml" </dev/null || true
  [[ -s $RESULTS/curves.xml ]] || step_failed "curves: no report"
}

# RDMA, in a virtual machine with software devices; skipped with the reason where none is to be had. The machine keeps one
# core busy and the suites after it go on beside it.
suite_vm() {
  build_native "${UNITY[@]}" || { step_failed "vm: build" && return; }
  beside vm nice -n 10 tests/vm/run.sh build/native "$RESULTS/vm.xml"
}

# end_beside SUITE: of one that goes on beside others.
end_beside() {
  [[ -n ${BESIDE[$1]:-} ]] || return 0
  say "Waiting for suite: $1"
  done_beside "$1"
  cat "build/logs/beside-$1.log"
  [[ -s $RESULTS/$1.xml ]] || step_failed "$1: no report"
}

# Readers of bytes from elsewhere, FUZZ_SECONDS of each target.
suite_fuzz() {
  has_clang || return 0
  stop_beside builds
  build_sanitizers fuzz || { step_failed "fuzz: build" && return; }
  build_beside
  python tools/fuzz.py build/asan --seconds "${FUZZ_SECONDS:-4}" --jobs "$JOBS" --junit "$RESULTS/fuzz.xml" ||
    [[ -s $RESULTS/fuzz.xml ]] || step_failed "fuzz: no report"
}

# Seconds of processor of all that this shell has waited for by now: a run takes half of these on two busy cores.
PROCESSOR=0
read_processor() {
  times >build/logs/times # in this shell: another, as in a pipe or $(…), knows only of its own
  PROCESSOR=$(awk -F'[ms ]+' 'END { printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' build/logs/times)
}

is_chosen() { [[ " ${chosen[*]} " == *" $1 "* ]]; }

# What later suites are built of, while earlier ones leave cores idle.
build_later() {
  renice -n 10 "$BASHPID"
  JOBS=1
  has_clang || return 0
  if is_chosen fuzz; then build_sanitizers fuzz; fi
  if is_chosen sanitizers; then build_sanitizers engine-tests; fi
}
build_beside() {
  [[ $JOBS -eq 1 || -n ${BESIDE[builds]:-} ]] || beside builds build_later
}

# Frameworks' environments are made while the compiler runs: that is mostly waiting for the network.
make_environments() {
  for name in "${chosen[@]}"; do
    [[ -z ${FRAMEWORKS[$name]:-} ]] || ensure_framework "$name" || true
  done
}

chosen=("$@")
[[ ${#chosen[@]} -gt 0 ]] || chosen=("${SUITES[@]}")
for suite in "${chosen[@]}"; do
  [[ " ${SUITES[*]} quick full threads wheel spark torch-suite " == *" $suite "* ]] ||
    die "no suite '$suite'; there are: ${SUITES[*]}, full, threads, wheel, spark, torch-suite and quick"
done

mkdir -p build/logs
ensure_packages "${APT_PACKAGES[@]}"
beside environments make_environments
ensure_venv "${PYTHON_PACKAGES[@]}"
beside checkers ensure_checkers
ensure_product
done_beside checkers
cat build/logs/beside-checkers.log
rm -rf "$RESULTS"
mkdir -p "$RESULTS"
for suite in "${chosen[@]}"; do
  say "Suite: $suite"
  read_processor
  started=$SECONDS used=$PROCESSOR
  [[ structure,native,quick,full,threads,wheel,spark,torch-suite != *$suite* ]] && build_beside
  if [[ -n ${FRAMEWORKS[$suite]:-} ]]; then
    done_beside environments
    in_framework "$suite" "suite_$suite"
  else
    "suite_$suite"
  fi
  read_processor
  printf -- '-- %s took %d s, %d s of processor\n' "$suite" $((SECONDS - started)) $((PROCESSOR - used))
done
stop_beside builds
end_beside ray
end_beside vm
read_processor
say "All suites took $SECONDS s, $PROCESSOR s of processor, with all that came before them"
exec python tools/count_tests.py "$RESULTS" "${FAILED_STEPS[@]}"
