#!/usr/bin/env bash
# Puts the C library, its header, and what pkg-config and CMake need to find it, below a folder that can be moved as a whole.
#
#     core/bindings/c/install.sh /usr/local              # builds the shared and the static library first
#     core/bindings/c/install.sh /usr/local libbyoc.so   # a library that is built already; a static one may follow
set -euo pipefail
prefix=${1:?the folder to install into, such as /usr/local}
shared=${2:-}
static=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)

if [ -z "$shared" ]; then
    (cd "$root" && cargo rustc --release --package byoc-c --crate-type cdylib,staticlib)
    built=${CARGO_TARGET_DIR:-$root/target}/release
    shared=$built/libbyoc.so
    static=$built/libbyoc.a
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)

mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/lib/cmake/byoc"
install -m 644 "$here/include/byoc.h" "$prefix/include/byoc.h"
install -m 755 "$shared" "$prefix/lib/libbyoc.so"
if [ -n "$static" ]; then
    install -m 644 "$static" "$prefix/lib/libbyoc.a"
    sed "s/@VERSION@/$version/" "$here/package/byoc-static.pc" >"$prefix/lib/pkgconfig/byoc-static.pc"
fi
sed "s/@VERSION@/$version/" "$here/package/byoc.pc" >"$prefix/lib/pkgconfig/byoc.pc"
for file in byoc-config.cmake byoc-config-version.cmake; do
    sed "s/@VERSION@/$version/" "$here/package/$file" >"$prefix/lib/cmake/byoc/$file"
done
