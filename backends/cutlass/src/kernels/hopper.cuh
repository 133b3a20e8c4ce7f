// A warp-specialised, persistent GEMM for sm_90a: one producer warp loads tiles of x and w to shared memory by TMA, in a
// pipeline of stages, and consumer warpgroups multiply them by wgmma and write y. A block iterates over tiles of y, so that
// the next tiles are loaded while y is written, but with split-K. There are three schedules:
// - cooperative: the groups share a tile, each with 64 of its rows;
// - ping-pong: two groups have tiles of their own in turn, so that one multiplies while the other writes;
// - split-K: the blocks of a cluster share a tile, each with a part of K, and add their sums through distributed shared memory.
#pragma nv_diag_suppress 20044
#include <cuda/std/cstdint>
#include "cute/tensor.hpp"
#include "cute/arch/cluster_sm90.hpp"
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

// Reads shared memory of a block of the cluster, at the address that it has in this one.
__device__ inline float read_block(float const *from, int block) {
  float value;
  u32 const at = cute::set_block_rank(cute::cast_smem_ptr_to_uint(from), block);
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
  return value;
}

// Atom is the wgmma instruction. Groups consumer warpgroups have a tile of M x N together; with PingPong each has one. The
// Splits blocks of a cluster share K. With ByRows w is stored as K x N, else as N x K.
template <class Element, class Atom, int Groups, bool PingPong, int Splits, int M, int N, int Stages, bool ByRows,
          class Vector, class Activation, bool Source>
struct Hopper {
  // Consumer groups that read a stage; tiles that a block has at a time; instructions for the rows of a thread.
  static constexpr int kReaders = PingPong ? 1 : Groups, kTurns = PingPong ? Groups : 1, kRows = M / (64 * kReaders);
  static constexpr int kThreads = 128 * (Groups + 1);
  static_assert(!PingPong || Groups == 2, "two groups take turns");
  static_assert(Splits == 1 || (!PingPong && kRows == 1), "a block of a cluster has one tile, of 64 rows a group");
  using ByK = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using ByN = cute::GMMA::Layout_MN_SW128_Atom<Element>;
  template <int Rows>
  using Deep = cute::Shape<cute::Int<Rows>, cute::Int<DEEP>, cute::Int<Stages>>;
  using LayoutX = decltype(cute::tile_to_shape(ByK{}, Deep<M>{}));
  // A copy brings 64 columns, in which the rows of K are contiguous.
  using KFirst = cute::Step<cute::_2, cute::_1, cute::_3>;
  using LayoutW = cute::conditional_t<ByRows, decltype(cute::tile_to_shape(ByN{}, Deep<N>{}, KFirst{})),
                                      decltype(cute::tile_to_shape(ByK{}, Deep<N>{}))>;
  using Beside = cute::Layout<cute::Shape<cute::Int<kReaders>, cute::_1, cute::_1>>;
  using Mma = decltype(cute::make_tiled_mma(Atom{}, Beside{}));
  struct Storage {
    alignas(1024) Element x[cute::cosize_v<LayoutX>];
    alignas(1024) Element w[cute::cosize_v<LayoutW>];
    float sums[Splits > 1 ? M * N : 1];
    uint64_t full[Stages], empty[Stages];
    // With ping-pong: a group may begin its next tile when the other has begun all products of the tile before it.
    uint64_t order[2];
  };
  static constexpr int kShared = int(sizeof(Storage)) + 1024;
  using Full = cutlass::arch::ClusterTransactionBarrier;
  using Empty = cutlass::arch::ClusterBarrier;

  Storage &shared;
  // Tiles that the group has multiplied.
  int round = 0;

  __device__ static Storage &storage(u8 *memory) {
    return *reinterpret_cast<Storage *>((reinterpret_cast<uint64_t>(memory) + 1023) & ~uint64_t(1023));
  }

  __device__ Hopper(u8 *memory, Map const &x, Map const &w) : shared(storage(memory)) {
    if (threadIdx.x == 0) {
      cute::prefetch_tma_descriptor(reinterpret_cast<cute::TmaDescriptor const *>(&x));
      cute::prefetch_tma_descriptor(reinterpret_cast<cute::TmaDescriptor const *>(&w));
      for (int i = 0; i < Stages; ++i) {
        Full::init(&shared.full[i], 1);
        Empty::init(&shared.empty[i], 4 * kReaders);
      }
      if (PingPong) Empty::init(&shared.order[0], 4), Empty::init(&shared.order[1], 4);
      cutlass::arch::fence_barrier_init();
    }
    __syncthreads();
  }

  // The step of K at which a block's part begins, and with the next rank the one at which it ends.
  __device__ static int part(int k, int rank) { return (k + DEEP - 1) / DEEP * rank / Splits; }

  template <class... At>
  __device__ static void copy(Map const &map, uint64_t *full, Element *to, At... at) {
    auto const hint = uint64_t(cute::TMA::CacheHintSm90::EVICT_NORMAL);
    if constexpr (sizeof...(At) == 2) cute::SM90_TMA_LOAD_2D::copy(&map, full, hint, to, at...);
    if constexpr (sizeof...(At) == 3) cute::SM90_TMA_LOAD_3D::copy(&map, full, hint, to, at...);
    if constexpr (sizeof...(At) == 4) cute::SM90_TMA_LOAD_4D::copy(&map, full, hint, to, at...);
  }

  // Begins to fill a stage: with the part of w from that step of K on.
  template <class CopyW>
  __device__ void bring_w(int stage, int n, int from, CopyW copy_w) {
    Full::arrive_and_expect_tx(&shared.full[stage], (M + N) * DEEP * sizeof(Element));
    Element *to = shared.w + stage * N * DEEP;
    if constexpr (ByRows) {
      CUTE_UNROLL
      for (int j = 0; j < N; j += 64) copy_w(&shared.full[stage], to + j * DEEP, n + j, from);
    } else {
      copy_w(&shared.full[stage], to, from, n);
    }
  }

  // Begins to fill the first stages, as far as no kernel before this one writes what is copied; how many steps they are.
  template <class CopyW>
  __device__ int begin(int n, int first, int last, CopyW copy_w) {
    int const steps = min(last - first, Stages);
    for (int step = 0; step < steps; ++step) bring_w(step, n, (first + step) * DEEP, copy_w);
    return steps;
  }

  // Loads the operands of a tile of y, of the steps of K from `first` to `last`; `step` counts over all tiles of the block, of
  // which `begun` steps have been begun. The last arguments are functions that copy x and w, given where from and to.
  template <class CopyX, class CopyW>
  __device__ void bring(int &step, int begun, int m, int n, int first, int last, CopyX copy_x, CopyW copy_w) {
    for (int from = first * DEEP; from < last * DEEP; from += DEEP, ++step) {
      int stage = step % Stages;
      if (step >= begun) {
        Empty::wait(&shared.empty[stage], step / Stages % 2 ^ 1);
        bring_w(stage, n, from, copy_w);
      }
      copy_x(&shared.full[stage], shared.x + stage * M * DEEP, from, m);
    }
  }

  // Multiplies as many loaded steps, and writes a tile of y: rows from m0 and columns from n0 on.
  __device__ void multiply(int &step, int steps, int m0, int n0, int m, int n, float alpha, float beta, Vector const *bias,
                           Element const *c, Element *y) {
    using namespace cute;
    int thread = (threadIdx.x - 128) % (128 * kReaders);
    Mma mma;
    auto mine = mma.get_thread_slice(thread);
    Tensor x = mine.make_fragment_A(mine.partition_A(make_tensor(make_smem_ptr(shared.x), LayoutX{})));
    Tensor w = mine.make_fragment_B(mine.partition_B(make_tensor(make_smem_ptr(shared.w), LayoutW{})));
    Tensor sum = partition_fragment_C(mma, Shape<Int<M>, Int<N>>{});
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    int const end = step + steps, group = threadIdx.x / 128 - 1;
    // Otherwise the group would take a stage that has come for the other one, two turns of the ring earlier, for its own.
    if (PingPong && (group > 0 || round > 0)) Empty::wait(&shared.order[group], (round - 1 + group) % 2);
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
    if (PingPong && thread % 32 == 0) Empty::arrive(&shared.order[1 - group]);
    ++round;
    int const row = m0 + thread / 32 * 16 + thread % 32 / 4;
    if constexpr (Splits == 1) {
      Old<N, Source> old[kRows];
      CUTE_UNROLL
      for (int i = 0; i < kRows; ++i) old[i].read(c, row + 64 * i, n0, m, n);
      wait_for_all(sum, end);
      CUTE_UNROLL
      for (int i = 0; i < kRows; ++i) {
        write<N, Activation>(sum(_, i, _), old[i], row + 64 * i, n0, m, n, alpha, beta, bias, y);
      }
    } else {
      wait_for_all(sum, end);
      // Columns of y that one block writes, of which the last blocks may have none, and the sums of a thread in them.
      constexpr int kColumns = N / Splits < 32 ? 32 : N / Splits, kSums = kColumns / 2;
      int const rank = block_rank_in_cluster(), at = rank * kColumns;
      float *own = shared.sums + thread;
      CUTE_UNROLL
      for (int i = 0; i < size(sum); ++i) own[i * 128 * kReaders] = sum(i);
      cluster_arrive();
      Old<kColumns, Source> old;
      if (at < N) old.read(c, row, n0 + at, m, n);
      cluster_wait();
      if (at < N) {
        Tensor all = make_tensor<float>(Shape<Int<kSums>>{});
        CUTE_UNROLL
        for (int i = 0; i < kSums; ++i) {
          all(i) = 0.0f;
          CUTE_UNROLL
          for (int block = 0; block < Splits; ++block) all(i) += read_block(own + (rank * kSums + i) * 128 * kReaders, block);
        }
        write<kColumns, Activation>(all, old, row, n0 + at, m, n, alpha, beta, bias, y);
      }
      // Nobody ends while others read what it has.
      cluster_arrive();
      cluster_wait();
    }
  }

  // Waits for the last products, and gives their stage back.
  template <class Sum>
  __device__ void wait_for_all(Sum &sum, int end) {
    cute::warpgroup_wait<0>();
    cute::warpgroup_fence_operand(sum);
    if (threadIdx.x % 32 == 0) Empty::arrive(&shared.empty[(end - 1) % Stages]);
  }
};
