#!/usr/bin/env bash
# Builds the wheel into target/wheels, with the program `byoc` and the C library in it. It needs maturin (pip install maturin); for a
# wheel that is passed on also cargo-about (cargo install --locked --features cli cargo-about), which gathers the licences of what is compiled in.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)

cargo build --release --package byoc-cli
mkdir -p byoc.data/scripts
cp "${CARGO_TARGET_DIR:-$root/target}/release/byoc" byoc.data/scripts/byoc

rm -rf python/byoc/c
../c/install.sh python/byoc/c
# It is larger than the whole wheel.
rm python/byoc/c/lib/libbyoc.a python/byoc/c/lib/pkgconfig/byoc-static.pc

cp "$root/LICENSE-MIT" "$root/LICENSE-APACHE" .
if [ -n "${BYOC_LICENCES:-}" ]; then
    cp "$BYOC_LICENCES" THIRD-PARTY-LICENSES.html
elif cargo about --version >/dev/null 2>&1; then
    (cd "$root" && cargo about generate --config cli/about.toml cli/about.hbs --output-file core/bindings/python/THIRD-PARTY-LICENSES.html)
else
    echo "wheel.sh: without cargo-about the wheel does not have the licences of what is compiled in" >&2
fi
maturin build --release "$@"
