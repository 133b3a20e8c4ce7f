#!/bin/bash
# Runs a stage of the suite on a machine with a GPU, from what pack.sh packed: docs/gpu.md says what each answers.
#
#   tests/gpu/stage.sh SUITE.tar.xz OUT STAGE...
#
# Each stage writes OUT/STAGE.log as it goes. PyTorch, where it is there, compiles in the background of the first stage, is
# timed by `peers`, and writes OUT/peers.log.
set -u
archive=$1 out=$2
shift 2
place=${BYOC_SUITE_DIR:-/tmp/byoc-gpu-suite}
[ -d "$place/suite" ] || { mkdir -p "$place" && tar -C "$place" -xJf "$archive"; }
export BYOC_CUDA_PATH=${BYOC_CUDA_PATH:+$BYOC_CUDA_PATH:}$place/suite/headers BYOC_CACHE_DIR=$place/suite/cache
# The wheels of PyTorch's environment have NVRTC and cublasLt; the toolkit has the memory checker.
VIRTUAL_ENV=${VIRTUAL_ENV:-$(python3 -c 'import sys; print(sys.prefix)')} && export VIRTUAL_ENV
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) && export CUDA_HOME=${CUDA_HOME:-$(dirname "$(dirname "$(readlink -f "$nvcc")")")}
export PYTHONUNBUFFERED=1
suite() { "$place/suite/bin/byoc-gpu-suite" --seed "$(cat "$place/suite/seed")" "$@"; }
peers=${BYOC_PEERS:-"24x1024x16x128x1 24x1024x16x128x8 24x1024x16x128x32 24x1024x16x512x1 24x1024x16x512x8 24x1024x16x512x32"}

for stage in "$@"; do
    start=$SECONDS
    case $stage in
    first) parts="environment probes" ;;
    right) parts="correctness tiles kernels attention replay memory errors" ;;
    environment | probes | correctness | tiles | kernels | attention | replay | memory | errors | operators | times | choices | checker)
        parts=$stage
        ;;
    compile-peers)
        # shellcheck disable=SC2086 # A list of sizes.
        python3 "$place/suite/bin/others.py" --after "$place/go" $peers > "$out/peers.log" 2>&1 &
        continue
        ;;
    peers)
        touch "$place/go"
        wait
        cat "$out/peers.log"
        continue
        ;;
    *)
        echo "there is no stage '$stage'" >&2
        exit 2
        ;;
    esac
    # shellcheck disable=SC2046 # A list of parts.
    suite $(printf -- '--only %s ' $parts) 2>&1 | tee "$out/$stage.log" | grep --line-buffered -v '^ok'
    echo "$stage: $((SECONDS - start)) s, $(grep -c '^ok' "$out/$stage.log") ok, $(grep -c '^FAIL' "$out/$stage.log") failed"
done
