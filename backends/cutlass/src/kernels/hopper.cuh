// A warp-specialised, persistent GEMM for sm_90a: one producer warp loads tiles of x and w to shared memory by TMA, in a
// pipeline of stages, and consumer warpgroups multiply them by wgmma and write y. A block iterates over tiles of y, so that
// the next tiles are loaded while y is written.
#pragma nv_diag_suppress 20044
#include <cuda/std/cstdint>
#include "cute/tensor.hpp"
#include "cute/arch/copy_sm90.hpp"
#include "cute/arch/copy_sm90_desc.hpp"
#include "cute/arch/copy_sm90_tma.hpp"
#include "cute/atom/mma_atom.hpp"
#include "cute/atom/mma_traits_sm90_gmma.hpp"
#include "cutlass/arch/barrier.h"
#include "cutlass/arch/reg_reconfig.h"
#include "cutlass/numeric_types.h"

// A tensor map, as the driver makes it.
struct alignas(64) Map {
  char bytes[128];
};

// The elements of K in a tile: a row of 128 bytes, which is what one swizzle covers.
constexpr int DEEP = 64;

// Atom is the wgmma instruction. With ByRows w is stored as K x N, else as N x K.
template <class Element, class Atom, int Groups, int N, int Stages, bool ByRows, class Vector, class Activation,
          bool Source>
struct Hopper {
  static constexpr int M = 64 * Groups, kThreads = 128 * (Groups + 1);
  using ByK = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using ByN = cute::GMMA::Layout_MN_SW128_Atom<Element>;
  template <int Rows>
  using Deep = cute::Shape<cute::Int<Rows>, cute::Int<DEEP>, cute::Int<Stages>>;
  using LayoutX = decltype(cute::tile_to_shape(ByK{}, Deep<M>{}));
  // A copy brings 64 columns, in which the rows of K are contiguous.
  using KFirst = cute::Step<cute::_2, cute::_1, cute::_3>;
  using LayoutW = cute::conditional_t<ByRows, decltype(cute::tile_to_shape(ByN{}, Deep<N>{}, KFirst{})),
                                      decltype(cute::tile_to_shape(ByK{}, Deep<N>{}))>;
  using Beside = cute::Layout<cute::Shape<cute::Int<Groups>, cute::_1, cute::_1>>;
  using Mma = decltype(cute::make_tiled_mma(Atom{}, Beside{}));
  struct Storage {
    alignas(1024) Element x[cute::cosize_v<LayoutX>];
    alignas(1024) Element w[cute::cosize_v<LayoutW>];
    uint64_t full[Stages], empty[Stages];
  };
  static constexpr int kShared = int(sizeof(Storage)) + 1024;
  using Full = cutlass::arch::ClusterTransactionBarrier;
  using Empty = cutlass::arch::ClusterBarrier;

  Storage &shared;

  __device__ static Storage &storage(u8 *memory) {
    return *reinterpret_cast<Storage *>((reinterpret_cast<uint64_t>(memory) + 1023) & ~uint64_t(1023));
  }

  __device__ Hopper(u8 *memory, Map const &x, Map const &w) : shared(storage(memory)) {
    if (threadIdx.x == 0) {
      cute::prefetch_tma_descriptor(reinterpret_cast<cute::TmaDescriptor const *>(&x));
      cute::prefetch_tma_descriptor(reinterpret_cast<cute::TmaDescriptor const *>(&w));
      for (int i = 0; i < Stages; ++i) {
        Full::init(&shared.full[i], 1);
        Empty::init(&shared.empty[i], 4 * Groups);
      }
      cutlass::arch::fence_barrier_init();
    }
    __syncthreads();
  }

  template <class... At>
  __device__ static void copy(Map const &map, uint64_t *full, Element *to, At... at) {
    auto const hint = uint64_t(cute::TMA::CacheHintSm90::EVICT_NORMAL);
    if constexpr (sizeof...(At) == 2) cute::SM90_TMA_LOAD_2D::copy(&map, full, hint, to, at...);
    if constexpr (sizeof...(At) == 3) cute::SM90_TMA_LOAD_3D::copy(&map, full, hint, to, at...);
    if constexpr (sizeof...(At) == 4) cute::SM90_TMA_LOAD_4D::copy(&map, full, hint, to, at...);
  }

  // Loads the operands of a tile of y; `step` counts over all tiles of the block. The last arguments are functions that copy x
  // and w, given where from and to.
  template <class CopyX, class CopyW>
  __device__ void bring(int &step, int m, int n, int k, CopyX copy_x, CopyW copy_w) {
    for (int from = 0; from < k; from += DEEP, ++step) {
      int stage = step % Stages;
      Empty::wait(&shared.empty[stage], step / Stages % 2 ^ 1);
      Full::arrive_and_expect_tx(&shared.full[stage], (M + N) * DEEP * sizeof(Element));
      copy_x(&shared.full[stage], shared.x + stage * M * DEEP, from, m);
      Element *to = shared.w + stage * N * DEEP;
      if constexpr (ByRows) {
        CUTE_UNROLL
        for (int j = 0; j < N; j += 64) copy_w(&shared.full[stage], to + j * DEEP, n + j, from);
      } else {
        copy_w(&shared.full[stage], to, from, n);
      }
    }
  }

  // Multiplies the loaded tiles, and writes a tile of y: rows from m0 and columns from n0 on.
  __device__ void multiply(int &step, int m0, int n0, int m, int n, int k, float alpha, float beta, Vector const *bias,
                           Element const *c, Element *y) {
    using namespace cute;
    int thread = threadIdx.x - 128;
    Mma mma;
    auto mine = mma.get_thread_slice(thread);
    Tensor x = mine.make_fragment_A(mine.partition_A(make_tensor(make_smem_ptr(shared.x), LayoutX{})));
    Tensor w = mine.make_fragment_B(mine.partition_B(make_tensor(make_smem_ptr(shared.w), LayoutW{})));
    Tensor sum = partition_fragment_C(mma, Shape<Int<M>, Int<N>>{});
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    int const end = step + (k + DEEP - 1) / DEEP;
    for (int first = step; step < end; ++step) {
      int stage = step % Stages;
      Full::wait(&shared.full[stage], step / Stages % 2);
      warpgroup_fence_operand(sum);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int i = 0; i < size<2>(x); ++i) {
        gemm(mma, x(_, _, i, stage), w(_, _, i, stage), sum);
        mma.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      // All but the last one are done, so what the one before read may be overwritten.
      warpgroup_wait<1>();
      if (step > first && thread % 32 == 0) Empty::arrive(&shared.empty[(step - 1) % Stages]);
    }
    int const row = m0 + thread / 32 * 16 + thread % 32 / 4;
    Old<N, Source> old;
    old.read(c, row, n0, m, n);
    warpgroup_wait<0>();
    warpgroup_fence_operand(sum);
    if (thread % 32 == 0) Empty::arrive(&shared.empty[(end - 1) % Stages]);
    write<N, Activation>(sum, old, row, n0, m, n, alpha, beta, bias, y);
  }
};
