#!/usr/bin/env bash
# What a release ships, into target/dist: an archive with the program, the plugins, the C library, headers, manual pages and
# completions; the wheel; the crates; and for all of it the licences of what is compiled in, and an SBOM (CycloneDX). No time, random
# number or path of the machine goes in, so that two runs of one commit can be compared.
#
# It needs binutils, maturin (pip install maturin), cargo-about (cargo install --locked --features cli cargo-about) and cargo-cyclonedx
# (cargo install --locked cargo-cyclonedx).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=byoc-$version-$(uname -m)-linux
out=$root/target/dist
stage=$out/stage/$name

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# A build of its own: no path of this machine is in it.
export CARGO_TARGET_DIR=$out/build CARGO_INCREMENTAL=0
export RUSTFLAGS="--remap-path-prefix=$root=/byoc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
plugins=(cublas cutlass cuda)

rm -rf "$out/stage" && mkdir -p "$stage/bin" "$stage/lib/byoc/plugins" "$stage/share/man/man1" "$stage/share/completions"
# Apart, as wheel.sh builds it: together cargo would turn on features of both.
cargo build --release --locked --package byoc-cli
cargo build --release --locked "${plugins[@]/#/--package=byoc-}"
core/bindings/c/install.sh "$stage"
python3 cli/number_names.py "$stage/lib/libbyoc.a"
cp plugin-api/include/*.h "$stage/include/"
cp "$CARGO_TARGET_DIR/release/byoc" "$stage/bin/"
for plugin in "${plugins[@]}"; do cp "$CARGO_TARGET_DIR/release/libbyoc_$plugin.so" "$stage/lib/byoc/plugins/"; done
"$stage/bin/byoc" man >"$stage/share/man/man1/byoc.1"
for verb in $("$stage/bin/byoc" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | grep -vx help); do
    "$stage/bin/byoc" man "$verb" >"$stage/share/man/man1/byoc-$verb.1"
done
for shell in bash fish zsh; do "$stage/bin/byoc" completions "$shell" >"$stage/share/completions/byoc.$shell"; done

cargo about generate --locked --fail --config cli/about.toml --output-file "$stage/THIRD-PARTY-LICENSES.html" cli/about.hbs
cp LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$stage/"
cargo cyclonedx --format json --manifest-path cli/Cargo.toml --override-filename byoc.cdx
# It would have a random number, the time and the place of this run.
time=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
sed -e '/"serialNumber"/d' -e "s/\"timestamp\": \"[^\"]*\"/\"timestamp\": \"$time\"/" -e "s#file://$root#file:///byoc#g" cli/byoc.cdx.json >"$stage/byoc.cdx.json"
# Of each member cargo-cyclonedx writes one beside its manifest.
git clean --quiet --force -- '*.cdx.json'

tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$out/stage" -c "$name" | gzip -9n >"$out/$name.tar.gz"

BYOC_LICENCES=$stage/THIRD-PARTY-LICENSES.html core/bindings/python/wheel.sh --out "$out"
cargo package --locked --no-verify --quiet $(cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
print(*("--package=" + it["name"] for it in json.load(sys.stdin)["packages"] if it["publish"] is None))')
cp "$CARGO_TARGET_DIR"/package/*.crate "$out/"
(cd "$out" && sha256sum -- *.tar.gz *.whl *.crate >SHA256SUMS && cat SHA256SUMS)
