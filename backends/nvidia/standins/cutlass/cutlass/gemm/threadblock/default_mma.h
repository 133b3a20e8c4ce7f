// A stand-in for CUTLASS's header of this name, for kernels that run on the host: one tile of a product, by loops. What is
// read is checked as CUTLASS's iterators take it: accesses of as many elements as the template says begin at a multiple of
// their size, and nothing is read beyond the matrix. Where it is not so, results are NaN.

#pragma once

#include "cutlass/cutlass.h"


namespace cutlass {

struct MatrixCoord {
  int row, column;
};

namespace layout {
struct RowMajor {
  long long stride;
  explicit RowMajor(long long stride = 0) : stride(stride) {}
  long long operator()(int row, int column) const { return row * stride + column; }
  int along(MatrixCoord size) const { return size.column; }
};
struct ColumnMajor {
  long long stride;
  explicit ColumnMajor(long long stride = 0) : stride(stride) {}
  long long operator()(int row, int column) const { return row + column * stride; }
  int along(MatrixCoord size) const { return size.row; }
};
} // namespace layout

inline int canonical_warp_idx_sync() { return int(threadIdx.x) / 32; }

// A matrix in memory, from a tile of it on.
template <class Element, class Layout, int Width> struct StandinMatrix {
  struct Params {
    Layout layout;
  };
  Layout layout;
  Element *at;
  MatrixCoord size, from;
  bool fits;

  StandinMatrix(Params const &params, Element *at, MatrixCoord size, int, MatrixCoord from)
      : layout(params.layout), at(at), size(size), from(from),
        fits((unsigned long long)at % (Width * sizeof(Element)) == 0 && layout.stride % Width == 0 &&
             layout.along(size) % Width == 0) {}
  bool inside(int row, int column) const { return from.row + row < size.row && from.column + column < size.column; }
  Element *place(int row, int column) const { return at + layout(from.row + row, from.column + column); }
  float get(int row, int column) const {
    if (!inside(row, column)) return 0;
    return fits ? standin_widen(*place(row, column)) : NAN;
  }
};

namespace gemm {
namespace threadblock {

// A thread has pieces of 8 columns: those whose number is its own, counted along the rows of the tile in turn.
template <class Element, class LayoutA, int AlignA, class ElementB, class LayoutB, int AlignB, class Accumulator, class LayoutC,
          class Class, class Arch, class Tile, class Warp, class Instruction, int Stages, class Operation>
struct DefaultMma {
  struct ThreadblockMma {
    struct WarpCount {
      static const int kCount = Tile::kM / Warp::kM * (Tile::kN / Warp::kN);
    };
    struct Operator {
      static const int kThreads = 32 * WarpCount::kCount;
    };
    struct SharedStorage {
      Element stages[Stages][(Tile::kM + Tile::kN) * Tile::kK];
    };
    struct FragmentC {
      float at[Tile::kM * Tile::kN / Operator::kThreads];
      void clear() { __builtin_memset(at, 0, sizeof at); }
    };
    using IteratorA = StandinMatrix<Element, LayoutA, AlignA>;
    using IteratorB = StandinMatrix<ElementB, LayoutB, AlignB>;

    int thread;
    ThreadblockMma(SharedStorage &shared, int thread, int warp, int lane) : thread(thread) {
      // As much shared memory as CUTLASS has is there.
      if (thread == 0) __builtin_memset(&shared, 0, sizeof shared);
    }
    void operator()(int steps, FragmentC &sum, IteratorA const &a, IteratorB const &b, FragmentC const &) const {
      for (int i = 0; i < int(sizeof sum.at / sizeof *sum.at); ++i) {
        int at = (i / 8 * Operator::kThreads + thread) * 8 + i % 8;
        for (int k = 0; k < steps * Tile::kK; ++k) sum.at[i] += a.get(at / Tile::kN, k) * b.get(k, at % Tile::kN);
      }
    }
  };
};

} // namespace threadblock
} // namespace gemm
} // namespace cutlass
