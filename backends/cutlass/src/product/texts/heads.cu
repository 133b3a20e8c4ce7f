namespace k0_ {
using End = Finish<cutlass::half_t, float, 8, Same, false>;
using Kernel = Product<cutlass::half_t, Rows, 8, Columns, 8, GemmShape<128, 64, 32>,
                       GemmShape<64, 32, 32>, GemmShape<16, 8, 16>, 5, End>;
}
extern "C" __device__ int k0_launch_info[] = {
    k0_::Kernel::kThreads, (int)sizeof(k0_::Kernel::Shared), 128, 64, 32};

extern "C" __global__ void __launch_bounds__(k0_::Kernel::kThreads)
k0(cutlass::half_t const *x, cutlass::half_t const *w, cutlass::half_t *y, long long s0, long long s1) {
  using namespace k0_;
  BYOC_SHARED(memory);
  wait_for_earlier_kernels();
  int const m = int(128), n = 64, k = 96, rows = (m + 128 - 1) / 128, columns = 1;
  [[maybe_unused]] long long const z = blockIdx.x / (rows * columns);
  long long const at_x = z / 12 * s1 + z % 12 * 12288;
  long long const at_w = z % 12 * 6144;
  long long const at_y = z / 12 * 98304 + z % 12 * 8192;
  TileCoord const at = tile_coord(blockIdx.x % (rows * columns), rows, columns);
  Kernel::tile(*reinterpret_cast<Kernel::Shared *>(memory), End(1.0f, 0.0f), m, n, k, at,
               x + at_x, 96, w + at_w, 96, nullptr, nullptr, y + at_y);
}
