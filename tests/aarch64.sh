#!/usr/bin/env bash
# byoc for aarch64 Linux: built by cross compilers, run under qemu, and compared with byoc for x86-64; each runs what the other
# compiled. For Debian 12 on x86-64 and Linux 6.7 or newer.
#
#   tests/aarch64.sh
#   BYOC_X86_64=$PWD/target/release/byoc tests/aarch64.sh    # with a program of the same sources that is there already
#
# It changes the system in one thing: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user are installed where they are not there.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
work=$(realpath -m "${CARGO_TARGET_DIR:-target}/aarch64")
mkdir -p "$work/binfmt"

# byoc starts itself again, as a worker and as the child of the kit, so the kernel has to know who runs programs for aarch64.
# What is registered in namespaces of this script's own is gone when it ends.
if [[ ${1-} != --in-namespaces ]]; then
    if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null || [[ ! -d /usr/aarch64-linux-gnu/include ]]; then
        apt-get update --quiet
        apt-get install --quiet --yes --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    fi
    exec unshare --user --map-root-user --mount "$PWD/tests/aarch64.sh" --in-namespaces
fi
mount -t binfmt_misc none "$work/binfmt"
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf %s ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64):POCF" >"$work/binfmt/register"
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu

# Debian's newest Rust with the standard library of both processors, unpacked and not installed. apt has lists of its own for
# them, so that the system's stay those of one architecture.
root=$work/root
if [[ ! -x $work/rustc ]]; then
    rm -rf "$work"/{debs,root}
    mkdir -p "$work"/{lists/partial,cache/archives/partial,debs,root}
    : >"$work/status"
    cat >"$work/apt.conf" <<END
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
END
    export APT_CONFIG=$work/apt.conf
    apt-get update --quiet
    # All that rustc needs but the C library, and the standard library once more.
    readarray -t needed < <(apt-cache depends --recurse -i libstd-rust-web-dev | grep '^\w' | grep -vx libc6)
    (cd "$work/debs" && apt-get download --quiet rustc-web "${needed[@]}" libstd-rust-web-dev:arm64)
    for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/root"; done
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s --sysroot %s "$@"\n' \
        "$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu" "$root/usr/bin/rustc" "$root/usr" >"$work/rustc"
    chmod +x "$work/rustc"
fi

# One compiler for both processors; no optimisation when it links, for the sake of time.
export RUSTC=$work/rustc CARGO_TARGET_DIR=$work/build CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
build() { cargo build --locked --release --target "$1-unknown-linux-gnu" "${@:2}"; }
build aarch64 -p byoc-cli -p byoc-template -p byoc-claim-variants
build x86_64 -p byoc-claim-variants
[[ -n ${BYOC_X86_64-} ]] || build x86_64 -p byoc-cli
aarch64() { "$CARGO_TARGET_DIR/aarch64-unknown-linux-gnu/release/byoc" "$@"; }
x86_64() { "${BYOC_X86_64:-$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/release/byoc}" "$@"; }
plugin() { echo "$CARGO_TARGET_DIR/$1-unknown-linux-gnu/release/libbyoc_$2.so"; }

# Runs a command of which the status is known, and a part of what it prints.
check() {
    local name=$1 status=$2 text=$3 found=0 printed
    printed=$("${@:4}" 2>&1) || found=$?
    if [[ $found != "$status" || $printed != *"$text"* ]]; then
        printf 'FAILED %s: %s\nexpected status %s and "%s", found status %s and:\n%s\n' \
            "$name" "${*:4}" "$status" "$text" "$found" "$printed"
        exit 1
    fi
    echo "ok $name"
}

rm -rf "$work/files"
mkdir "$work/files" && cd "$work/files"
check 'quickstart on aarch64' 0 'probabilities  ok' aarch64 quickstart --dir tour
check 'the kit on the template, on aarch64' 0 ' 0 failed' aarch64 plugin test "$(plugin aarch64 template)"

# Weights in the layout of json's kernels, or as the model has them: neither is for one processor.
for pack in true false; do
    for machine in x86_64 aarch64; do
        check "pack=$pack, compiled on $machine" 0 written \
            $machine compile tour/model.onnx -o $machine.byoc --backend-opt cpu.pack=$pack
    done
    check "pack=$pack, the same file from both" 0 '' cmp {x86_64,aarch64}.byoc
    for machine in x86_64 aarch64; do
        check "pack=$pack, checked on $machine" 0 'this machine can run it' $machine check x86_64.byoc
        check "pack=$pack, run on $machine" 0 probabilities $machine run x86_64.byoc --fill random -o $machine.npz
    done
    # But for rounding: products of few rows add up in as many sums as a processor has registers for.
    check "pack=$pack, the same outputs from both" 0 "" x86_64 verify x86_64.byoc --fill random --reference aarch64.npz
done

# The layout of a plugin may be for some alone. A product of x with a weight of 2 x 8 elements, as protobuf:
python3 - <<'END'
bytes_of = lambda number, value: bytes([number << 3 | 2, len(value) & 127 | 128, len(value) >> 7]) + value
field = lambda number, value: bytes([number << 3, value]) if isinstance(value, int) else bytes_of(number, value)
shape = lambda sizes: field(2, b"".join(field(1, field(1, size)) for size in sizes))
tensor = lambda name, sizes: field(1, name) + field(2, field(1, field(1, 1) + shape(sizes)))
node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"MatMul")
weight = field(1, 2) + field(1, 8) + field(2, 1) + field(8, b"w") + field(9, b"abc?" * 16)
graph = field(1, node) + field(2, b"g") + field(5, weight) + field(11, tensor(b"x", [4, 2])) + field(12, tensor(b"y", [4, 8]))
open("product.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
END
with_plugin() { "$@" --plugin "$(plugin "$1" claim_variants)"; }
check 'packed by a plugin, for AVX2' 0 written \
    with_plugin x86_64 compile product.onnx -o avx2.byoc --backend panels --backend-opt panels.feature=avx2
refused="'avx2.byoc' has constants packed for processors with avx2, which this one lacks"
check 'aarch64: check names AVX2' 3 "entry main cannot be loaded: [B604] $refused" with_plugin aarch64 check avx2.byoc
check 'aarch64: run names AVX2' 3 "error: [B604] $refused" with_plugin aarch64 run avx2.byoc --fill ones
check 'packed by a plugin, for all' 0 written with_plugin x86_64 compile product.onnx -o all.byoc --backend panels
for machine in x86_64 aarch64; do
    check "all.byoc, run on $machine" 0 '' with_plugin $machine run all.byoc --fill random -o all.$machine.npz
done
check 'all.byoc, the same outputs from both' 0 '' cmp all.{x86_64,aarch64}.npz
