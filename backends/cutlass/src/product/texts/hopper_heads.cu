namespace k0_ {
using Element = cutlass::half_t;
using Atom = cute::SM90_64x64x16_F32F16F16_SS<cute::GMMA::Major::K, cute::GMMA::Major::K>;
using Kernel = Hopper<Element, Atom, 2, 64, 8, false, float, Same, false>;
}
extern "C" __device__ int k0_launch_info[] = {
    k0_::Kernel::kThreads, k0_::Kernel::kShared, 128, 64, 64};

extern "C" __global__ void __launch_bounds__(k0_::Kernel::kThreads, 1)
k0(__grid_constant__ const Map x, __grid_constant__ const Map w, cutlass::half_t *y, long long s0) {
  using namespace k0_;
  BYOC_SHARED(memory);
  int const m = int(128), n = 64, k = 96, rows = (m + 128 - 1) / 128, columns = 1;
  long long const tiles = (long long)rows * columns * s0 * 12;
  Kernel kernel(memory, x, w);
  int step = 0;
  if (threadIdx.x < 128) {
    cutlass::arch::warpgroup_reg_dealloc<40>();
    if (threadIdx.x >= 32 || !cute::elect_one_sync()) return;
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      [[maybe_unused]] int const z = int(tile / (rows * columns));
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      auto copy_x = [&](uint64_t *full, Element *to, int a, int b) { Kernel::copy(x, full, to, a, b, int(z % 12), int(z / 12)); };
      auto copy_w = [&](uint64_t *full, Element *to, int a, int b) { Kernel::copy(w, full, to, a, b, int(z % 12)); };
      kernel.bring(step, at.m * 128, at.n * 64, k, copy_x, copy_w);
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<232>();
    for (long long tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      [[maybe_unused]] long long const z = tile / (rows * columns);
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      long long const at_y = z / 12 * 98304 + z % 12 * 8192;
      kernel.multiply(step, at.m * 128, at.n * 64, m, n, k, 1.0f, 0.0f, nullptr, nullptr, y + at_y);
    }
  }
}
