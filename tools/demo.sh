#!/usr/bin/env bash
# Trains a CNN on scikit-learn's handwritten digits on four processes over Gloo. Does all the set-up itself: of a ready wheel
# (RODA_WHEEL, or one in dist/ or build/wheels/dist/ that is younger than the sources), or else of a build.
set -euo pipefail
# shellcheck source=tools/lib/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

ensure_installed
mkdir -p build/demo
rm -f build/demo/timeline.*.json
log=build/demo/train.log page=build/demo/trace.html

say "Training examples/pytorch_digits.py on 4 processes over Gloo"
export HOROVOD_CPU_OPERATIONS=gloo
"$VENV/bin/horovodrun" -np 4 "$VENV/bin/python" examples/pytorch_digits.py --timeline 'build/demo/timeline.{rank}.json' "$@" \
  2>&1 | tee "$log"

say "Where the time of a step went"
"$VENV/bin/roda-trace" build/demo/timeline.*.json -o "$page"

say "Done"
printf 'Log:   %s\n' "$log"
printf 'Page:  %s (open it in a browser)\n' "$page"
printf 'Next:  .venv/bin/horovodrun -np 4 .venv/bin/python your_script.py\n'
