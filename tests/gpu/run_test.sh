#!/usr/bin/env bash
# tests/gpu/run.sh BUILD FOLDER without a card: what is gathered holds together (nothing of it would be loaded from
# elsewhere, and it is small enough), there is a word where there is no card, and over the doubles parts run and tell.
set -euo pipefail

run=$(dirname "$0")/run.sh
build=$1 folder=$2
"$run" --gather "$build" "$folder"

if ! command -v nvidia-smi >/dev/null; then
  code=0
  text=$(env -u RODA_TEST_CUDA_LIBRARY "$run" "$folder" "$folder/none") || code=$?
  [[ $code = 3 && $text = *"There is no card here"* ]]
fi

rm -rf "$folder/results" "$folder/failing"
"$run" "$folder" "$folder/results" kernels shared faults
python3 - "$folder/results" <<'EOF'
import json, pathlib, sys

folder = pathlib.Path(sys.argv[1])
assert json.loads((folder / "summary.json").read_text())["parts"] == ["kernels", "shared", "faults"]
for name, steps in (("kernels", 2), ("shared", 3), ("faults", 2)):
    part = json.loads((folder / f"{name}.json").read_text())
    assert len(part["steps"]) == steps and "NO CARD" in part["card"], part
    assert (folder / f"{name}.log").stat().st_size > 0
EOF
# What fails is told, and keeps no other part from running.
code=0
text=$(RODA_CUDA_DOUBLE_INIT_ERROR=100 "$run" "$folder" "$folder/failing" kernels shared 2>&1) || code=$?
[[ $code = 1 && $text = *"kernels: kernels: failed"* && $text = *"shared: engine"*failed* ]]
