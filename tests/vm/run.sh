#!/usr/bin/env bash
# Runs the tests of RDMA in a virtual machine with software RDMA devices, on a machine that has none.
#
# usage: run.sh BUILD REPORT.xml [PREFIX]
# BUILD is a compiled build folder. Where no virtual machine is to be had the report holds one skipped test, with the
# reason. The exit status is 0 unless a test failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd)
report=$2 prefix=${3:-}
results=$build/vm-results
# Emulated, everything takes six to twenty times as long as here: a whole run is two to five minutes.
LIMIT=${RODA_VM_SECONDS:-1200}

rm -rf "$results"
mkdir -p "$results"
status=0
"$here/run-in-rdma-vm.sh" --nics 4 --dir "$build" --timeout "$LIMIT" --log "$results/console" -- \
  "$here/guest.sh" "$build" "$results" "$prefix" 2> >(tee "$results/errors" >&2) || status=$?
exec python3 "$here/report.py" "$results" "$status" "$report"
