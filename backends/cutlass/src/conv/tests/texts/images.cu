struct of_depthwise_bf16_40_14_14_7_7_3_3_2_2_1_1_1_1_hardswish {
  __device__ static float of(float x) { return x < -3.f ? 0.f : x > 3.f ? x : x * (x + 3.f) / 6.f; }
};
extern "C" __global__ void __launch_bounds__(256) depthwise_bf16_40_14_14_7_7_3_3_2_2_1_1_1_1_hardswish(const bf16 *x, const bf16 *weights, bf16 *y, i64 count) {
  depthwise<bf16, of_depthwise_bf16_40_14_14_7_7_3_3_2_2_1_1_1_1_hardswish, Window<14, 14, 7, 7, 3, 3, 2, 2, 1, 1, 1, 1>, 40>(x, weights, y, count);
}
extern "C" __global__ void __launch_bounds__(256) global_average_bf16_49_40(const bf16 *x, bf16 *y) {
  global_average<bf16, 49, 40>(x, y);
}
struct of_map_bf16_mul_49_40 {
  __device__ static float of(float x, float y) { return x * y; }
};
extern "C" __global__ void __launch_bounds__(256) map_bf16_mul_49_40(const bf16 *a, const bf16 *b, bf16 *y, i64 count) {
  map_two<bf16, of_map_bf16_mul_49_40, 49, 40, true>(a, b, y, count);
}
extern "C" __global__ void __launch_bounds__(256) average_pool_bf16_40_7_7_7_7_3_3_1_1_1_1_1_1(const bf16 *x, bf16 *y, i64 count) {
  average_pool<bf16, Window<7, 7, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1>, 40, false, 0, 0>(x, y, count);
}
struct of_map_bf16_tanh {
  __device__ static float of(float x) { return tanhf(x); }
};
extern "C" __global__ void __launch_bounds__(256) map_bf16_tanh(const bf16 *x, bf16 *y, i64 count) {
  map_one<bf16, of_map_bf16_tanh>(x, y, count);
}
extern "C" __global__ void __launch_bounds__(256) place_bf16_40_96_0(const bf16 *x, bf16 *y, i64 count) {
  place<bf16, 40, 96, 0>(x, y, count);
}
extern "C" __global__ void __launch_bounds__(256) place_bf16_40_96_40(const bf16 *x, bf16 *y, i64 count) {
  place<bf16, 40, 96, 40>(x, y, count);
}
extern "C" __global__ void __launch_bounds__(256) place_bf16_16_96_80(const bf16 *x, bf16 *y, i64 count) {
  place<bf16, 16, 96, 80>(x, y, count);
}
extern "C" __global__ void __launch_bounds__(256) to_nchw_bf16_90_49_96(const bf16 *x, bf16 *y) {
  to_nchw<bf16, 90, 49, 96>(x, y);
}
