
struct acts_of_conv_f16_128x64_few8_add_then_relu {
  CUTLASS_HOST_DEVICE static float before(float x) { return x; }
  CUTLASS_HOST_DEVICE static float after(float x) { return x < 0.f ? 0.f : x; }
};
using of_conv_f16_128x64_few8_add_then_relu = Conv<cutlass::half_t, GemmShape<128, 64, 32>, GemmShape<64, 32, 32>,
    GemmShape<16, 8, 16>, 4, 8, IteratorAlgorithm::kFixedChannels, acts_of_conv_f16_128x64_few8_add_then_relu, true>;
extern "C" __device__ int conv_f16_128x64_few8_add_then_relu_launch_info[3] = {of_conv_f16_128x64_few8_add_then_relu::THREADS, int(sizeof(of_conv_f16_128x64_few8_add_then_relu::Shared)), int(sizeof(of_conv_f16_128x64_few8_add_then_relu::Params))};
extern "C" __global__ void __launch_bounds__(of_conv_f16_128x64_few8_add_then_relu::THREADS) conv_f16_128x64_few8_add_then_relu(__grid_constant__ of_conv_f16_128x64_few8_add_then_relu::Params const params) {
  BYOC_SHARED(memory);
  of_conv_f16_128x64_few8_add_then_relu::run(params, memory);
}
extern "C" __global__ void conv_f16_128x64_few8_add_then_relu_init(cutlass::half_t *x, cutlass::half_t *weights, cutlass::half_t *residual, cutlass::half_t *y,
    i64 n, i64 h, i64 w, i64 c, i64 k, i64 r, i64 s, i64 p, i64 q, i64 top, i64 left, i64 stride_h, i64 stride_w, i64 dilation_h, i64 dilation_w,
    of_conv_f16_128x64_few8_add_then_relu::Params *made) {
  of_conv_f16_128x64_few8_add_then_relu::init(x, weights, residual, y, int(n), int(h), int(w), int(c), int(k), int(r), int(s), int(p), int(q), int(top), int(left), int(stride_h), int(stride_w), int(dilation_h), int(dilation_w), made);
}
