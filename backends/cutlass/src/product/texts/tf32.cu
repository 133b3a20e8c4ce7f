namespace k0_ {
using End = Finish<float, float, 4, Silu, false>;
using Kernel = Product<float, Rows, 4, Rows, 4, GemmShape<128, 128, 16>,
                       GemmShape<64, 64, 16>, GemmShape<16, 8, 8>, 4, End>;
}
extern "C" __device__ int k0_launch_info[] = {
    k0_::Kernel::kThreads, (int)sizeof(k0_::Kernel::Shared), 128, 128, 16};

extern "C" __global__ void __launch_bounds__(k0_::Kernel::kThreads)
k0(float const *x, float const *w, float *y) {
  using namespace k0_;
  BYOC_SHARED(memory);
  wait_for_earlier_kernels();
  int const m = int(512), n = 3072, k = 768, rows = (m + 128 - 1) / 128, columns = 24;
  [[maybe_unused]] long long const z = blockIdx.x / (rows * columns);
  long long const at_x = 0;
  long long const at_w = 0;
  long long const at_y = 0;
  TileCoord const at = tile_coord(blockIdx.x % (rows * columns), rows, columns);
  Kernel::tile(*reinterpret_cast<Kernel::Shared *>(memory), End(0.125f, 0.0f), m, n, k, at,
               x + at_x, 768, w + at_w, 3072, nullptr, nullptr, y + at_y);
}
