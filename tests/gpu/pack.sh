#!/bin/sh
# Packs what a machine with a GPU needs to run the suite: the programs, the kernels that its checks compile, and the headers
# to compile others. Needs the Python environment of docs/testing.md with NVRTC and CUTLASS's headers, active or as $VIRTUAL_ENV.
#
#   tests/gpu/pack.sh FOLDER [ARCH] [SEED]
#
# leaves FOLDER/suite.tar.xz (about 20 MB), for tests/gpu/stage.sh, and keeps FOLDER/cache for the next time.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
arch=${2:-sm_90a} seed=${3:-1}
mkdir -p "$1"
to=$(cd "$1" && pwd)
packages=$(echo "${VIRTUAL_ENV:?name the environment with NVRTC in VIRTUAL_ENV}"/lib/python3.*/site-packages)

cd "$here"
cargo build --release -p byoc-gpu-suite -p byoc-cublas -p byoc-cutlass -p byoc-cuda
mkdir -p "$to/suite/bin" "$to/suite/headers/include"
cp target/release/byoc-gpu-suite target/release/libbyoc_cublas.so target/release/libbyoc_cutlass.so \
    target/release/libbyoc_cuda.so tests/gpu/others.py "$to/suite/bin"
# Every check fails where its kernels do not compile, which is better known here than there.
BYOC_CACHE_DIR="$to/cache" "$to/suite/bin/byoc-gpu-suite" --prepare "$arch" --seed "$seed" --jobs 2
cp -r "$packages/nvidia/cu13/include/." "$packages/cutlass_library/source/include/." "$to/suite/headers/include"
rm -rf "$to/suite/cache"
cp -r "$to/cache" "$to/suite/cache"
echo "$seed" > "$to/suite/seed"
tar -C "$to" -c suite | xz -T2 -6 > "$to/suite.tar.xz"
ls -l "$to/suite.tar.xz"
