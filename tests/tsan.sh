#!/usr/bin/env bash
# Data races in the C library itself: all of its crates are compiled with ThreadSanitizer, and so are the programs of the embed subject
# that use threads. In the subject's own tests only the programs are.
#
#   tests/tsan.sh
#
# It needs gcc and nm. The sanitizer is an unstable option of the compiler, which is told to take those. The standard library is the one
# that there is, without it: the slow paths of its locks are replaced (tests/tsan.c), and what it cannot see beside them is in
# tests/tsan.supp.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(realpath -m "${CARGO_TARGET_DIR:-target}/tsan")
host=$(rustc --version --verbose | sed -n 's/^host: //p')
library=$work/$host/debug
export BYOC_TSAN_LIBRARY=$library
export BYOC_TSAN_RUNTIME
BYOC_TSAN_RUNTIME=$(echo "$(rustc --print sysroot)/lib/rustlib/$host"/lib/librustc*rt.tsan.a)

# A target is named so that build scripts and macros stay without it.
build() {
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$work \
        cargo rustc --package byoc-c --target "$host" --crate-type cdylib -- "$@"
}
build

# The first build tells what the slow paths are called.
names=() wraps=()
for path in MUTEX_LOCK=5mutex5futex.*14lock_contended RWLOCK_READ=6rwlock5futex.*14read_contended RWLOCK_WRITE=6rwlock5futex.*15write_contended; do
    symbol=$(nm "$library/libbyoc.so" | sed -n "s/^[0-9a-f]* t \(_R.*std3sys4sync${path#*=}\)$/\1/p" | head -n 1)
    [[ -n $symbol ]] || { echo "tsan.sh: the standard library has no ${path%%=*} as it was known" >&2; exit 1; }
    names+=("-D${path%%=*}=__wrap_$symbol") wraps+=("-Clink-arg=-Wl,--wrap=$symbol")
done
cc -c -O1 -fPIC -fsanitize=thread "${names[@]}" tests/tsan.c -o "$work/locks.o"
build "${wraps[@]}" "-Clink-arg=$work/locks.o"

cargo test --package byoc-tests --test embed -- threads
