// Add, Add, LayerNormalization.
namespace k0_parts {
template <class ix>
__device__ __forceinline__ void body(const float *__restrict__ in0, const float *__restrict__ c0, const float *__restrict__ in1, float *__restrict__ out0, const float *__restrict__ c1, const float *__restrict__ c2, float *__restrict__ out1) {
  const int lane = threadIdx.x % 32;
  const ix row = blockIdx.x;
  float t4[24];
  float t7[24];
  float r0 = float(0);
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const ix c = (k * 32 + lane) * 4;
    const ix x0 = row * 768 + c;
    const Pack<float, 4> p0 = load<4>(in0 + x0);
    const Pack<float, 4> p1 = load<4>(c0 + c);
    const Pack<float, 4> p2 = load<4>(in1 + x0);
    Pack<float, 4> q0;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float t0 = p0.at[v];
      const float t1 = p1.at[v];
      const float t2 = t0 + t1;
      const float t3 = p2.at[v];
      t4[k * 4 + v] = t2 + t3;
      q0.at[v] = t4[k * 4 + v];
      r0 = Sum::of(r0, t4[k * 4 + v]);
    }
    store(out0 + x0, q0);
  }
  const float t5 = of_lanes<Sum, 32>(r0);
  const float t6 = t5 / 768.0f;
  float r1 = float(0);
#pragma unroll
  for (int k = 0; k < 6; ++k) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      t7[k * 4 + v] = t4[k * 4 + v] - t6;
      const float t8 = t7[k * 4 + v] * t7[k * 4 + v];
      r1 = Sum::of(r1, t8);
    }
  }
  const float t9 = of_lanes<Sum, 32>(r1);
  const float t10 = t9 / 768.0f;
  const float t11 = 1.0f / sqrtf(t10 + 1e-5f);
#pragma unroll
  for (int k = 0; k < 6; ++k) {
    const ix c = (k * 32 + lane) * 4;
    const Pack<float, 4> p3 = load<4>(c1 + c);
    const Pack<float, 4> p4 = load<4>(c2 + c);
    const ix x1 = row * 768 + c;
    Pack<float, 4> q1;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float t12 = p3.at[v];
      const float t13 = p4.at[v];
      const float t14 = t7[k * 4 + v] * t11 * t12 + t13;
      q1.at[v] = t14;
    }
    store(out1 + x1, q1);
  }
}
}

extern "C" __global__ void __launch_bounds__(32) k0(const float *in0, const float *c0, const float *in1, float *out0, const float *c1, const float *c2, float *out1) {
  wait_for_earlier_kernels();
  k0_parts::body<int>(in0, c0, in1, out0, c1, c2, out1);
}
