// A stand-in for CUTLASS's header of this name, for kernels that run on the host: what follows a tile of a product, by
// loops over the pieces that the stand-in for default_mma.h leaves to each thread.

#pragma once

#include "cutlass/gemm/threadblock/default_mma.h"

namespace cutlass {
namespace epilogue {
namespace threadblock {

template <class Tile, class Operator, int PartitionsK, class Element, class ElementT, class Vector, class Finish, int Width>
struct DefaultEpilogueWithBroadcastTensorOp {
  struct Epilogue {
    using OutputTileIterator = StandinMatrix<Element, layout::RowMajor, Width>;
    using TensorTileIterator = StandinMatrix<ElementT, layout::RowMajor, Width>;
    struct SharedStorage {};
    using Elements = Array<Element, Width>;
    using Floats = Array<float, Width>;

    int thread;
    Epilogue(SharedStorage &, int thread, int warp, int lane) : thread(thread) {}

    template <class Sum>
    void operator()(Finish const &finish, Vector const *bias, OutputTileIterator to, Sum const &sum, OutputTileIterator from,
                    TensorTileIterator const &, MatrixCoord size, MatrixCoord offset) const {
      for (int i = 0; i < int(sizeof sum.at / sizeof *sum.at); i += Width) {
        int at = (i / 8 * Operator::kThreads + thread) * 8 + i % 8, row = at / Tile::kN, column = at % Tile::kN;
        Floats product, added;
        Elements c, z, none;
        for (int j = 0; j < Width; ++j) {
          product[j] = to.fits ? sum.at[i + j] : NAN;
          added[j] = bias && offset.column + column < size.column ? standin_widen(bias[column + j]) : 0;
        }
        if (!to.inside(row, column)) continue;
        if (finish.is_source_needed()) {
          for (int j = 0; j < Width; ++j) c[j] = *from.place(row, column + j);
          finish(z, none, product, c, added);
        } else {
          finish(z, none, product, added);
        }
        for (int j = 0; j < Width; ++j) *to.place(row, column + j) = z[j];
      }
    }
  };
};

} // namespace threadblock
} // namespace epilogue
} // namespace cutlass
