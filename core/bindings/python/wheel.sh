#!/usr/bin/env bash
# Builds the wheel, with the program `byoc` in it, into target/wheels. It needs maturin (pip install maturin).
set -euo pipefail
cd "$(dirname "$0")"
root=$(git rev-parse --show-toplevel)

cargo build --release --package byoc
mkdir -p byoc.data/scripts
cp "${CARGO_TARGET_DIR:-$root/target}/release/byoc" byoc.data/scripts/byoc
maturin build --release "$@"
