#!/usr/bin/env bash
# The tests that need RDMA devices; runs inside the virtual machine (run.sh starts it there).
#
# usage: guest.sh BUILD RESULTS [PREFIX]
# Runs the tests whose names begin with PREFIX. Each writes RESULTS/NAME.log and a line "NAME STATUS SECONDS" in
# RESULTS/summary, for report.py. Ends with 1 if one failed.
set -u

build=$1 results=$2 prefix=${3:-}
plugins=$build/transports/verbs
kit=$build/plugins/conformance/roda-conformance
engine=$build/tests/multi/engine
failed=0
: >"$results/summary"
# What is not acknowledged in time is sent again, and software RoCE fails a read that it is asked for twice (remote access
# error, retries exceeded). On one emulated processor four ranks answer late: at 0.07 s six of ten runs of window.get
# failed, at 0.27 s one in some hundreds on a busy machine. So the wires that lose nothing wait for 2.1 s. Where a peer
# dies or a wire is cut, 0.27 s decide how long that takes to be seen.
readonly PATIENT=19 SOON=16
export RODA_TEST_VERBS_TIMEOUT=$PATIENT HOROVOD_PLUGIN_PATH=$plugins

# check NAME SECONDS COMMAND…
check() {
  local name=$1 limit=$2 status=0 started=$SECONDS
  shift 2
  [[ $name == "$prefix"* ]] || return 0
  timeout --kill-after=5 "$limit" "$@" >"$results/$name.log" 2>&1 || status=$?
  echo "$name $status $((SECONDS - started))" >>"$results/summary"
  printf '%-24s %s after %d s\n' "$name" "$([[ $status -eq 0 ]] && echo ok || echo "FAILED with $status")" \
    $((SECONDS - started))
  [[ $status -eq 0 ]] || failed=1
}

# conform NAME RANKS DEVICES SETTING…: the whole kit, or the cases that begin with $only.
conform() {
  local name=$1 ranks=$2 devices=$3 only_args=()
  shift 3
  [[ -z ${only:-} ]] || only_args=(--only "$only")
  check "$name" 280 env RODA_VERBS_DEVICES="$devices" "$@" \
    "$kit" --plugin verbs --ranks "$ranks" "${only_args[@]}"
}

# in_job NAME RANKS COMMAND…: ranks of a job over verbs; options of run_ranks may come first.
in_job() {
  local name=$1 ranks=$2
  shift 2
  check "$name" 250 env HOROVOD_CPU_OPERATIONS=verbs HOROVOD_DYNAMIC_PROCESS_SETS=1 RODA_VERBS_DEVICES=rxe1,rxe2 \
    "$engine/run_ranks" -n "$ranks" --seconds 240 "$@"
}

lossy() { # lossy PERCENT: on every wire
  local i
  for i in 1 2 3 4; do
    if [[ $1 -gt 0 ]]; then
      tc qdisc add dev "nic$i" root netem loss "$1%"
    else
      tc qdisc del dev "nic$i" root
    fi
  done
}

# shellcheck disable=SC2329 # called by name
found_usable() {
  local line
  line=$("$build/tools/info/roda-info" --plugins | grep -w verbs) || return 1
  echo "$line"
  [[ $line != *"not usable"* && $line != *"no RDMA"* ]]
}
export -f found_usable
export build

# Without the right to lock memory, and with a limit that no group fits in, the limit must be named.
# shellcheck disable=SC2329 # called by name
limit_is_named() { # limit_is_named KIT PLUGIN
  local said
  said=$(ulimit -l 64 && setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$1" --plugin "$2" --ranks 2 \
    --only group.form 2>&1)
  echo "  ${said//$'\n'/$'\n'  }"  # a failure is what is wanted here: report.py counts the cases of unindented lines
  [[ $said == *RLIMIT_MEMLOCK* && $said == *"64 KiB"* ]]
}
export -f limit_is_named

# What went over the virtual wires: a test that passes without them shows nothing.
sent_bytes() { echo $(($(cat /sys/class/net/nic1/statistics/tx_bytes) + $(cat /sys/class/net/nic2/statistics/tx_bytes))); }
# shellcheck disable=SC2329 # called by name
wire_was_used() {
  echo "$1 bytes before, $(sent_bytes) after"
  [[ $(sent_bytes) -gt $(($1 + 20000000)) ]]
}
export -f sent_bytes wire_was_used

check info 30 bash -c found_usable
before=$(sent_bytes)
conform kit-2-ranks-2-devices 2 rxe1,rxe2
[[ -n $prefix ]] || check wire-was-used 10 bash -c "wire_was_used $before"
conform kit-4-ranks-4-devices 4 rxe1,rxe2,rxe3,rxe4
only=p2p conform p2p-2-ranks-4-devices 2 rxe1,rxe2,rxe3,rxe4 RODA_TEST_VERBS_STRIPE_BYTES=4096
only=window conform window-2-ranks-4-devices 2 rxe1,rxe2,rxe3,rxe4 RODA_TEST_VERBS_STRIPE_BYTES=4096
only=p2p conform p2p-4-ranks-1-device 4 rxe1 RODA_TEST_VERBS_CREDITS=4 RODA_TEST_VERBS_EAGER_BYTES=256
only=p2p conform p2p-ipv6 2 rxe1,rxe2 RODA_VERBS_GID_INDEX="$RDMA_VM_GID_V6"
# own NAME RANKS SETTING…: what is asked of this transport beyond the kit.
own() {
  local name=$1 ranks=$2
  shift 2
  check "$name" 120 env RODA_TEST_VERBS_TIMEOUT="$SOON" RODA_TEST_VERBS_PROBE_MS=200 "$@" "$build/tests/vm/vm_verbs_cases" "$plugins/roda_verbs.so" "$ranks"
}
own own-2-ranks 2 RODA_VERBS_DEVICES=rxe1,rxe2
own own-3-ranks-4-devices 3 RODA_TEST_VERBS_STRIPE_BYTES=4096 RODA_TEST_VERBS_CREDITS=4
lossy 2
only=p2p conform p2p-packet-loss 2 rxe1,rxe2 RODA_TEST_VERBS_TIMEOUT="$SOON"
only=window conform window-packet-loss 2 rxe1,rxe2 RODA_TEST_VERBS_TIMEOUT="$SOON"
lossy 0
# UCX over the same devices (over IPv6: see UCX_IB_GID_INDEX in run-in-rdma-vm.sh), where it is built. Its groups take two
# seconds to form here.
ucx=$build/transports/ucx/roda_ucx.so
ucx_rc() { # ucx_rc NAME RANKS CASES
  [[ ! -e $ucx ]] || check "$1" 400 env UCX_TLS=rc_v,self UCX_NET_DEVICES=rxe1:1 \
    "$kit" --plugin "$ucx" --ranks "$2" --only "$3" --seconds 150
}
for cases in p2p window memory; do # groups, deaths and sleep are UCX's own, and have run over its TCP
  ucx_rc "ucx-rc-$cases-2-ranks" 2 "$cases"
done
ucx_rc ucx-rc-4-ranks 4 p2p.all_pairs
check memory-limit 30 bash -c "limit_is_named $kit verbs"
[[ ! -e $ucx ]] || check ucx-memory-limit 60 env UCX_TLS=rc_v,self UCX_NET_DEVICES=rxe1:1 \
  bash -c "limit_is_named $kit $ucx"
in_job engine-np2 2 "$engine/engine_collectives"
# Without the test of the engine's own queues, whose ten tensors of 32 MiB take 50 s here: two ranks have run it.
in_job engine-np4 4 "$engine/engine_collectives" --gtest_filter=-Allreduce.OvertakenTensorsGetTheirOwnResults
export RODA_TEST_VERBS_TIMEOUT=$SOON
for case in ARankDiesWhileOthersWaitForIt ARankDiesInMidCollective ARankDiesWhileItsChildLives; do
  in_job "engine-$case" 3 --dies 2 "$engine/engine_faults" --gtest_filter="*$case"
done
# Last: the interface stays down.
export RODA_TEST_VM_LINK=nic2 RODA_TEST_VM_PORT="rxe2 port 1"
in_job engine-link-down 2 "$build/tests/vm/vm_link_test"
exit "$failed"
