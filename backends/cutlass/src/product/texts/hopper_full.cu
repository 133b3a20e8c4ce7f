namespace k0_ {
using Element = cutlass::half_t;
using Atom = cute::SM90_64x192x16_F32F16F16_SS<cute::GMMA::Major::K, cute::GMMA::Major::MN>;
using Kernel = Hopper<Element, Atom, 2, false, 1, 128, 192, 5, true, float,
                      GeluErf, true>;
}
extern "C" __device__ int k0_launch_info[] = {
    k0_::Kernel::kThreads, k0_::Kernel::kShared, 128, 192, 64};

extern "C" __global__ void __launch_bounds__(k0_::Kernel::kThreads, 1)
k0(__grid_constant__ const Map x, __grid_constant__ const Map w, float const *bias, cutlass::half_t const *c, cutlass::half_t *y, long long s0) {
  using namespace k0_;
  BYOC_SHARED(memory);
  int const m = int(s0), n = 3072, k = 768, rows = (m + 128 - 1) / 128, columns = 16;
  long long const tiles = (long long)rows * columns;
  unsigned const place = blockIdx.x / 1, stride = gridDim.x / 1, rank = blockIdx.x % 1;
  int const first = Kernel::part(k, rank), last = Kernel::part(k, rank + 1);
  Kernel kernel(memory, x, w);
  if (threadIdx.x < 128) {
    cutlass::arch::warpgroup_reg_dealloc<40>();
    if (threadIdx.x >= 32 || !cute::elect_one_sync()) return;
    int step = 0, begun = 0;
    bool waited = false;
    for (long long tile = place; tile < tiles; tile += stride) {
      [[maybe_unused]] int const z = int(tile / (rows * columns));
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      auto copy_x = [&](uint64_t *full, Element *to, int a, int b) { Kernel::copy(x, full, to, a, b); };
      auto copy_w = [&](uint64_t *full, Element *to, int a, int b) { Kernel::copy(w, full, to, a, b); };
      if (!waited) {
        begun = kernel.begin(at.n * 192, first, last, copy_w);
        wait_for_earlier_kernels();
        waited = true;
      }
      kernel.bring(step, begun, at.m * 128, at.n * 192, first, last, copy_x, copy_w);
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<232>();
    wait_for_earlier_kernels();
    int const turn = (threadIdx.x / 128 - 1) % Kernel::kTurns;
    int step = turn * (last - first);
    for (long long tile = place + turn * (long long)stride; tile < tiles; tile += Kernel::kTurns * (long long)stride) {
      [[maybe_unused]] long long const z = tile / (rows * columns);
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      long long const at_y = 0;
      kernel.multiply(step, last - first, at.m * 128, at.n * 192, m, n, 1.0f, 0.5f, bias, c + at_y, y + at_y);
      step += (Kernel::kTurns - 1) * (last - first);
    }
  }
}
