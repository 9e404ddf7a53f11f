#!/usr/bin/env bash
# Raw UCX between two processes of this host, by ucx_perftest (Debian: ucx-utils), printed as `roda-conformance --measure` does.
#
# usage: UCX_TLS=tcp,self ucx_raw.sh latency|bandwidth ROUNDS BYTES… [-- OPTION OF UCX_PERFTEST…]
set -euo pipefail

kind=$1 rounds=$2
shift 2
sizes=()
while [[ $# -gt 0 && $1 != -- ]]; do
  sizes+=("$1")
  shift
done
[[ $# -eq 0 ]] || shift
test=tag_lat column=2
if [[ $kind == bandwidth ]]; then
  test=tag_bw column=6
  set -- -O 32 "$@"
fi

measure() { # measure BYTES OPTION…
  local bytes=$1 port=$((20000 + RANDOM % 20000)) figure=''
  shift
  set -- -p "$port" -t "$test" -s "$bytes" -n "$rounds" -w 100 -f -v "$@"
  ucx_perftest "$@" >/dev/null &
  # Refused until the server listens.
  while [[ -z $figure ]] && kill -0 $! 2>/dev/null; do
    figure=$(ucx_perftest localhost "$@" 2>/dev/null | awk -F, -v column="$column" 'NF > 5 { found = $column } END { print found }') || true
  done
  wait
  case $kind in
    latency) echo "latency $bytes bytes median $figure us" ;;
    bandwidth) awk -v bytes="$bytes" -v figure="$figure" 'BEGIN { print "bandwidth " bytes " bytes " figure * 1.048576 " MB/s" }' ;;
  esac
}

for bytes in "${sizes[@]}"; do measure "$bytes" "$@"; done
