namespace k0_ {
using End = Finish<cutlass::half_t, float, 8, GeluErf, true>;
using Kernel = Product<cutlass::half_t, Rows, 8, Rows, 8, GemmShape<256, 128, 32>,
                       GemmShape<64, 64, 32>, GemmShape<16, 8, 16>, 3, End>;
}
extern "C" __device__ int k0_launch_info[] = {
    k0_::Kernel::kThreads, (int)sizeof(k0_::Kernel::Shared), 256, 128, 32};

extern "C" __global__ void __launch_bounds__(k0_::Kernel::kThreads)
k0(cutlass::half_t const *x, cutlass::half_t const *w, float const *bias, cutlass::half_t const *c, cutlass::half_t *y, long long s0) {
  using namespace k0_;
  BYOC_SHARED(memory);
  wait_for_earlier_kernels();
  int const m = int(s0), n = 3072, k = 768, rows = (m + 256 - 1) / 256, columns = 24;
  [[maybe_unused]] long long const z = blockIdx.x / (rows * columns);
  long long const at_x = 0;
  long long const at_w = 0;
  long long const at_y = 0;
  TileCoord const at = tile_coord(blockIdx.x % (rows * columns), rows, columns);
  Kernel::tile(*reinterpret_cast<Kernel::Shared *>(memory), End(1.0f, 0.5f), m, n, k, at,
               x + at_x, 768, w + at_w, 3072, bias, c + at_y, y + at_y);
}
