#!/bin/sh
# The checks and timings that need a GPU, in at most nine minutes on one card and without network:
#
#     bench/gpu.sh [--rehearse]
#
# Needs a Python (PYTHON=...) with torch and triton. Wheels beside this script or in WHEELS=FOLDER (liger_kernel,
# cut_cross_entropy, pytest) are unpacked next to it for the comparison; without them ours is measured alone. JSON lines go
# to OUT/gpu.jsonl (OUT=. by default) as they come.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
out=${OUT:-.}
wheels=${WHEELS:-$here/wheels}
extra=$(mktemp -d)
trap 'rm -rf "$extra"' EXIT
for wheel in "$wheels"/*.whl; do
    [ -e "$wheel" ] && "$python" -m zipfile -e "$wheel" "$extra"
done
PYTHONPATH="$extra${PYTHONPATH:+:$PYTHONPATH}" timeout 540 "$python" "$here/gpu_loss.py" --seconds 480 "$@" |
    tee "$out/gpu.jsonl"
