// Writes the accumulators of a warpgroup after wgmma to memory.
#include "cutlass/array.h"
#include "cutlass/arch/memory.h"
#include "cutlass/numeric_conversion.h"
#include "cutlass/numeric_types.h"

// Four lanes have four words each; afterwards lane i has the i-th word of each of them.
__device__ inline void turn(u32 (&words)[4], int lane) {
  CUTLASS_PRAGMA_UNROLL
  for (int bit = 1; bit <= 2; bit *= 2) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i & bit) continue;
      u32 &low = words[i], &high = words[i | bit];
      u32 got = __shfl_xor_sync(0xffffffffu, lane & bit ? low : high, bit);
      (lane & bit ? low : high) = got;
    }
  }
}

using Pair = cutlass::Array<float, 2>;

template <class Element>
__device__ inline Pair wide(cutlass::Array<Element, 2> const &pair) {
  return cutlass::NumericArrayConverter<float, Element, 2>()(pair);
}

// Loads c for a tile of N columns from n0 on: of each 32 columns 16 bytes a lane, in the rows `row` and 8 below.
template <int N, bool Source>
struct Old {
  uint4 words[Source ? N / 16 : 1];

  template <class Element>
  __device__ void read(Element const *c, int row, int n0, int m, int n) {
    if constexpr (Source) {
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < N / 16; ++i) {
        int at_row = row + i % 2 * 8, at = n0 + i / 2 * 32 + threadIdx.x % 4 * 8;
        words[i] = {};
        if (at_row < m && at < n) words[i] = *reinterpret_cast<uint4 const *>(c + (long long)at_row * n + at);
      }
    }
  }
};

// A tile of N columns from n0 on, of which each lane has, of each 8 columns, two neighbours in the rows `row` and 8 below:
// `sum(i)` counts columns, then rows, then eights of columns. Four lanes have a row of 8 columns together: they exchange
// what they have of 32 columns, so that each of them reads and writes 16 bytes. All of c is read before: a load does not
// pass a store to what may be the same memory.
template <int N, class Activation, bool Source, class Element, class Vector, class Sum>
__device__ inline void write(Sum const &sum, Old<N, Source> const &old, int row, int n0, int m, int n, float alpha,
                             float beta, Vector const *bias, Element *y) {
  int lane = threadIdx.x % 4;
  CUTLASS_PRAGMA_UNROLL
  for (int from = 0; from < N; from += 32) {
    Pair added[4] = {};
    CUTLASS_PRAGMA_UNROLL
    for (int q = 0; q < 4; ++q) {
      int at = n0 + from + 8 * q + 2 * lane;
      if (!bias || at >= n) continue;
      cutlass::AlignedArray<Vector, 2> const both = *reinterpret_cast<cutlass::AlignedArray<Vector, 2> const *>(bias + at);
      added[q] = wide<Vector>(both);
    }
    CUTLASS_PRAGMA_UNROLL
    for (int below = 0; below < 2; ++below) {
      int own = n0 + from + 8 * lane;
      bool const inside = row + 8 * below < m && own < n;
      long long const at = (long long)(row + 8 * below) * n + own;
      u32 words[4] = {};
      if constexpr (Source) {
        uint4 const &got = old.words[from / 16 + below];
        words[0] = got.x, words[1] = got.y, words[2] = got.z, words[3] = got.w;
        turn(words, lane);
      }
      CUTLASS_PRAGMA_UNROLL
      for (int q = 0; q < 4; ++q) {
        int i = (from / 8 + q) * 4 + 2 * below;
        Pair result = added[q];
        if constexpr (Source) {
          Pair was = wide<Element>(reinterpret_cast<cutlass::Array<Element, 2> &>(words[q]));
          result[0] += beta * was[0];
          result[1] += beta * was[1];
        }
        result[0] = Activation::of(alpha * sum(i) + result[0]);
        result[1] = Activation::of(alpha * sum(i + 1) + result[1]);
        auto const narrow = cutlass::NumericArrayConverter<Element, float, 2>()(result);
        words[q] = reinterpret_cast<u32 const &>(narrow);
      }
      turn(words, lane);
      cutlass::Array<u32, 4> const all = {words[0], words[1], words[2], words[3]};
      cutlass::arch::global_store<cutlass::Array<u32, 4>, 16>(all, y + at, inside);
    }
  }
}
