// A GEMM on tensor cores, by CUTLASS's threadblock-level mainloop and epilogue: as CUTLASS's own kernels, with a strided
// batch and with both C and a bias.
#pragma nv_diag_suppress 20044
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/threadblock/default_epilogue_simt.h"
#include "cutlass/epilogue/threadblock/default_epilogue_tensor_op.h"
#include "cutlass/epilogue/threadblock/default_epilogue_with_broadcast.h"
#include "cutlass/gemm/threadblock/default_mma.h"
#include "cutlass/layout/matrix.h"

using cutlass::gemm::GemmShape;
using Rows = cutlass::layout::RowMajor;
using Columns = cutlass::layout::ColumnMajor;

template <class Element, class LayoutX, int AlignX, class LayoutW, int AlignW, class Tile, class Warp, class Instruction,
          int Stages, class Finish>
struct Product {
  using Mma = typename cutlass::gemm::threadblock::DefaultMma<
      Element, LayoutX, AlignX, Element, LayoutW, AlignW, float, Rows, cutlass::arch::OpClassTensorOp,
      cutlass::arch::Sm80, Tile, Warp, Instruction, Stages, cutlass::arch::OpMultiplyAdd>::ThreadblockMma;
  using Epilogue = typename cutlass::epilogue::threadblock::DefaultEpilogueWithBroadcastTensorOp<
      Tile, typename Mma::Operator, Tile::kK / Warp::kK, Element, Element, typename Finish::ElementVector, Finish,
      Finish::kElementsPerAccess>::Epilogue;
  using Output = typename Epilogue::OutputTileIterator;
  union Shared {
    typename Mma::SharedStorage mma;
    typename Epilogue::SharedStorage epilogue;
  };
  static int const kThreads = 32 * Mma::WarpCount::kCount;

  // One tile of y = finish(x w), where x is m by k, w is k by n, and `ldx` and `ldw` are the distances of their rows or
  // columns. The rows of c and y are contiguous.
  __device__ static void tile(Shared &shared, Finish const &finish, int m, int n, int k, TileCoord at, Element const *x,
                              long long ldx, Element const *w, long long ldw,
                              typename Finish::ElementVector const *bias, Element const *c, Element *y) {
    int thread = threadIdx.x, warp = cutlass::canonical_warp_idx_sync(), lane = threadIdx.x % 32;
    int row = at.m * Tile::kM, column = at.n * Tile::kN;
    typename Mma::IteratorA from_x({LayoutX(ldx)}, const_cast<Element *>(x), {m, k}, thread, {row, 0});
    typename Mma::IteratorB from_w({LayoutW(ldw)}, const_cast<Element *>(w), {k, n}, thread, {0, column});
    typename Mma::FragmentC sum;
    sum.clear();
    Mma(shared.mma, thread, warp, lane)((k + Tile::kK - 1) / Tile::kK, sum, from_x, from_w, sum);

    typename Output::Params rows_of_y{Rows(n)};
    Output from_c(rows_of_y, const_cast<Element *>(c), {m, n}, thread, {row, column});
    Output to_y(rows_of_y, y, {m, n}, thread, {row, column});
    typename Epilogue::TensorTileIterator none(rows_of_y, nullptr, {m, n}, thread, {row, column});
    Epilogue end(shared.epilogue, thread, warp, lane);
    end(finish, bias ? bias + column : nullptr, to_y, sum, from_c, none, {m, n}, {row, column});
  }
};
