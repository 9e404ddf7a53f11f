#!/usr/bin/env bash
# Runs every test, or the suites named on the command line: structure native python curves sanitizers.
# Does all the set-up itself. The last line is the sum over all suites; the exit status is 0 only if nothing failed.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

SUITES=(structure native python curves sanitizers)
RESULTS=$ROOT/build/results
FAILED_STEPS=()
export PATH=$VENV/bin:$PATH

# A step that does not even produce a test report counts as one failure.
step_failed() {
  printf 'FAILED: %s\n' "$1" >&2
  FAILED_STEPS+=("$1")
}

# build_folder DIR OPTIONS…: configures once, then compiles.
build_folder() {
  local dir=$1
  shift
  if [[ ! -f $dir/build.ninja ]]; then
    rm -rf "$dir"
    logged "build/logs/$(basename "$dir")-setup.log" meson setup "$dir" -Dpython=disabled "$@" || return 1
  fi
  logged "build/logs/$(basename "$dir")-compile.log" ninja -C "$dir" -j "$JOBS"
}

# meson_tests NAME DIR OPTIONS…: runs a build folder's tests and keeps its reports.
meson_tests() {
  local name=$1 dir=$2 status=0
  shift 2
  rm -f "$dir"/*.xml "$dir/meson-logs/$name".*  # a crashed test leaves the report of the run before
  meson test -C "$dir" --no-rebuild --logbase "$name" --num-processes "$JOBS" --print-errorlogs "$@" </dev/null || status=$?
  cp "$dir/meson-logs/$name.json" "$RESULTS/$name.json" 2>/dev/null || { step_failed "$name: no report" && return; }
  cp "$dir/meson-logs/$name.junit.xml" "$RESULTS/$name.xml" 2>/dev/null || true
  [[ $status -eq 0 ]] || printf 'meson test ended with %d for %s\n' "$status" "$name" >&2
}

suite_structure() {
  python -m pytest -q tests/structure --junitxml="$RESULTS/structure.xml" </dev/null || true
  [[ -s $RESULTS/structure.xml ]] || step_failed "structure: no report"
  python tools/code_sizes.py
}

suite_native() {
  build_folder build/native || { step_failed "native: build" && return; }
  meson_tests native build/native
}

suite_sanitizers() {
  build_folder build/asan -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dtools=disabled ||
    { step_failed "sanitizers: build" && return; }
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 meson_tests sanitizers build/asan --timeout-multiplier 4
}

suite_python() {
  local np
  for np in 1 2 4; do
    say "Python tests on $np processes"
    local report=$RESULTS/python-np$np status=0
    mkdir -p "$report.ranks"
    # shellcheck disable=SC2016 # expanded by the rank's shell
    timeout --kill-after=10 420 horovodrun -np "$np" sh -c \
      'exec "$1" -m pytest -q -x tests/python --junitxml="$2/rank$HOROVOD_RANK.xml"' \
      sh "$VENV/bin/python" "$report.ranks" </dev/null || status=$?
    # Every rank runs the same tests; rank 0 is counted, the others may only fail.
    cp "$report.ranks/rank0.xml" "$report.xml" 2>/dev/null || status=1
    [[ $status -eq 0 ]] || step_failed "python: np $np ended with $status"
  done
}

suite_curves() {
  python tools/check_curves.py --junit "$RESULTS/curves.xml" </dev/null || true
  [[ -s $RESULTS/curves.xml ]] || step_failed "curves: no report"
}

chosen=("$@")
[[ ${#chosen[@]} -gt 0 ]] || chosen=("${SUITES[@]}")
for suite in "${chosen[@]}"; do
  [[ " ${SUITES[*]} " == *" $suite "* ]] || die "no suite '$suite'; there are: ${SUITES[*]}"
done

ensure_all
rm -rf "$RESULTS"
mkdir -p "$RESULTS"
for suite in "${chosen[@]}"; do
  say "Suite: $suite"
  started=$SECONDS
  "suite_$suite"
  printf -- '-- %s took %d s\n' "$suite" $((SECONDS - started))
done
say "All suites took $SECONDS s"
exec python tools/count_tests.py "$RESULTS" "${FAILED_STEPS[@]}"
