// Softmax.
namespace k0_parts {
template <class ix>
__device__ __forceinline__ void body(const double *__restrict__ in6, double *__restrict__ out9) {
  const int lane = threadIdx.x;
  const ix row = blockIdx.x;
  double r0 = -double(float_of_bits(0x7f800000u));
  for (ix c = lane * 2; c < 32768; c += 1024) {
    const ix x0 = row * 32768 + c;
    const Pack<double, 2> p0 = load<2>(in6 + x0);
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const double t0 = p0.at[v];
      r0 = Max::of(r0, t0);
    }
  }
  const double t1 = of_block<Max, 512>(r0);
  double r1 = double(0);
  for (ix c = lane * 2; c < 32768; c += 1024) {
    const ix x1 = row * 32768 + c;
    const Pack<double, 2> p1 = load<2>(in6 + x1);
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const double t2 = p1.at[v];
      const double t3 = exp(t2 - t1);
      r1 = Sum::of(r1, t3);
    }
  }
  const double t4 = of_block<Sum, 512>(r1);
  for (ix c = lane * 2; c < 32768; c += 1024) {
    const ix x2 = row * 32768 + c;
    const Pack<double, 2> p2 = load<2>(in6 + x2);
    Pack<double, 2> q0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const double t5 = p2.at[v];
      const double t6 = exp(t5 - t1);
      const double t7 = t6 / t4;
      q0.at[v] = t7;
    }
    store(out9 + x2, q0);
  }
}
}

extern "C" __global__ void __launch_bounds__(512) k0(const double *in6, double *out9) {
  wait_for_earlier_kernels();
  k0_parts::body<int>(in6, out9);
}

// Softmax.
namespace k1_parts {
template <class ix>
__device__ __forceinline__ void body(const double *__restrict__ in5, double *__restrict__ out8) {
  const int lane = threadIdx.x;
  const ix row = blockIdx.x;
  double t0[16];
  double t2[16];
  double r0 = -double(float_of_bits(0x7f800000u));
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const ix c = (k * 1024 + lane) * 2;
    const ix x0 = row * 16384 + c;
    const Pack<double, 2> p0 = load<2>(in5 + x0);
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      t0[k * 2 + v] = p0.at[v];
      r0 = Max::of(r0, t0[k * 2 + v]);
    }
  }
  const double t1 = of_block<Max, 1024>(r0);
  double r1 = double(0);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      t2[k * 2 + v] = exp(t0[k * 2 + v] - t1);
      r1 = Sum::of(r1, t2[k * 2 + v]);
    }
  }
  const double t3 = of_block<Sum, 1024>(r1);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const ix c = (k * 1024 + lane) * 2;
    const ix x1 = row * 16384 + c;
    Pack<double, 2> q0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const double t4 = t2[k * 2 + v] / t3;
      q0.at[v] = t4;
    }
    store(out8 + x1, q0);
  }
}
}

extern "C" __global__ void __launch_bounds__(1024) k1(const double *in5, double *out8) {
  wait_for_earlier_kernels();
  k1_parts::body<int>(in5, out8);
}

// Softmax.
namespace k2_parts {
template <class ix>
__device__ __forceinline__ void body(const double *__restrict__ in4, double *__restrict__ out7) {
  const int lane = threadIdx.x % 32;
  const ix row = blockIdx.x;
  double t0[2];
  double t2[2];
  double r0 = -double(float_of_bits(0x7f800000u));
#pragma unroll
  for (int k = 0; k < 1; ++k) {
    const ix c = (k * 32 + lane) * 2;
    const ix x0 = row * 64 + c;
    const Pack<double, 2> p0 = load<2>(in4 + x0);
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      t0[k * 2 + v] = p0.at[v];
      r0 = Max::of(r0, t0[k * 2 + v]);
    }
  }
  const double t1 = of_lanes<Max, 32>(r0);
  double r1 = double(0);
#pragma unroll
  for (int k = 0; k < 1; ++k) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      t2[k * 2 + v] = exp(t0[k * 2 + v] - t1);
      r1 = Sum::of(r1, t2[k * 2 + v]);
    }
  }
  const double t3 = of_lanes<Sum, 32>(r1);
#pragma unroll
  for (int k = 0; k < 1; ++k) {
    const ix c = (k * 32 + lane) * 2;
    const ix x1 = row * 64 + c;
    Pack<double, 2> q0;
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const double t4 = t2[k * 2 + v] / t3;
      q0.at[v] = t4;
    }
    store(out7 + x1, q0);
  }
}
}

extern "C" __global__ void __launch_bounds__(32) k2(const double *in4, double *out7) {
  wait_for_earlier_kernels();
  k2_parts::body<int>(in4, out7);
}

// ReduceMax.
namespace k3_parts {
template <class ix>
__device__ __forceinline__ void body(const i64 *__restrict__ in3, i64 *__restrict__ out6) {
  const int lane = threadIdx.x % 32;
  const ix row = blockIdx.x;
  i64 r0 = i64(u64(1) << 63);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const ix c = (k * 32 + lane) * 2;
    if (c < 70) {
      const ix x0 = row * 70 + c;
      const Pack<i64, 2> p0 = load<2>(in3 + x0);
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const i64 t0 = p0.at[v];
        r0 = Max::of(r0, i64(t0));
      }
    }
  }
  const i64 t1 = i64(of_lanes<Max, 32>(r0));
  const i64 t2 = i64(t1);
  if (lane == 0) out6[row] = t2;
}
}

extern "C" __global__ void __launch_bounds__(32) k3(const i64 *in3, i64 *out6) {
  wait_for_earlier_kernels();
  k3_parts::body<int>(in3, out6);
}

// ReduceSum.
namespace k4_parts {
template <class ix>
__device__ __forceinline__ void body(const i64 *__restrict__ in3, i64 *__restrict__ out5) {
  const int lane = threadIdx.x % 32;
  const ix row = blockIdx.x;
  i64 r0 = i64(0);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const ix c = (k * 32 + lane) * 2;
    if (c < 70) {
      const ix x0 = row * 70 + c;
      const Pack<i64, 2> p0 = load<2>(in3 + x0);
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const i64 t0 = p0.at[v];
        r0 = Sum::of(r0, i64(t0));
      }
    }
  }
  const i64 t1 = i64(of_lanes<Sum, 32>(r0));
  const i64 t2 = i64(t1);
  if (lane == 0) out5[row] = t2;
}
}

extern "C" __global__ void __launch_bounds__(32) k4(const i64 *in3, i64 *out5) {
  wait_for_earlier_kernels();
  k4_parts::body<int>(in3, out5);
}

// Softmax.
namespace k5_parts {
template <class ix>
__device__ __forceinline__ void body(const float *__restrict__ in2, float *__restrict__ out4) {
  const int lane = threadIdx.x;
  const ix row = blockIdx.x;
  float r0 = -float(float_of_bits(0x7f800000u));
  for (ix c = lane; c < 40001; c += 512) {
    const ix x0 = row * 40001 + c;
    const float t0 = in2[x0];
    r0 = Max::of(r0, t0);
  }
  const float t1 = of_block<Max, 512>(r0);
  float r1 = float(0);
  for (ix c = lane; c < 40001; c += 512) {
    const ix x1 = row * 40001 + c;
    const float t2 = in2[x1];
    const float t3 = expf(t2 - t1);
    r1 = Sum::of(r1, t3);
  }
  const float t4 = of_block<Sum, 512>(r1);
  for (ix c = lane; c < 40001; c += 512) {
    const ix x2 = row * 40001 + c;
    const float t5 = in2[x2];
    const float t6 = expf(t5 - t1);
    const float t7 = t6 / t4;
    out4[x2] = t7;
  }
}
}

extern "C" __global__ void __launch_bounds__(512) k5(const float *in2, float *out4) {
  wait_for_earlier_kernels();
  k5_parts::body<int>(in2, out4);
}

// Softmax.
namespace k6_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in1, f16 *__restrict__ out3) {
  const int lane = threadIdx.x;
  const ix row = blockIdx.x;
  float t0[24];
  float t2[24];
  float r0 = -float(float_of_bits(0x7f800000u));
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const ix c = (k * 256 + lane) * 8;
    if (c < 6000) {
      const ix x0 = row * 6000 + c;
      const Pack<f16, 8> p0 = load<8>(in1 + x0);
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        t0[k * 8 + v] = to_float(p0.at[v]);
        r0 = Max::of(r0, t0[k * 8 + v]);
      }
    }
  }
  const float t1 = of_block<Max, 256>(r0);
  float r1 = float(0);
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const ix c = (k * 256 + lane) * 8;
    if (c < 6000) {
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        t2[k * 8 + v] = expf(t0[k * 8 + v] - t1);
        r1 = Sum::of(r1, t2[k * 8 + v]);
      }
    }
  }
  const float t3 = of_block<Sum, 256>(r1);
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    const ix c = (k * 256 + lane) * 8;
    if (c < 6000) {
      const ix x1 = row * 6000 + c;
      Pack<f16, 8> q0;
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        const float t4 = t2[k * 8 + v] / t3;
        q0.at[v] = to_f16(t4);
      }
      store(out3 + x1, q0);
    }
  }
}
}

extern "C" __global__ void __launch_bounds__(256) k6(const f16 *in1, f16 *out3) {
  wait_for_earlier_kernels();
  k6_parts::body<int>(in1, out3);
}

// ArgMax.
namespace k7_parts {
template <class ix>
__device__ __forceinline__ void body(const float *__restrict__ in0, i64 *__restrict__ out2) {
  const int lane = threadIdx.x % 16;
  const ix row = smaller(ix(blockIdx.x) * 2 + ix(threadIdx.x) / 16, ix(48 - 1));
  Best<float> r0 = Best<float>{float(0), -1};
#pragma unroll
  for (int k = 0; k < 1; ++k) {
    const ix c = (k * 16 + lane) * 2;
    if (c < 20) {
      const ix x0 = row * 20 + c;
      const Pack<float, 2> p0 = load<2>(in0 + x0);
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const float t0 = p0.at[v];
        const ix x1 = (c + v);
        r0 = ArgMax<false>::of(r0, Best<float>{t0, x1});
      }
    }
  }
  const i64 t1 = of_lanes<ArgMax<false>, 16>(r0).at;
  if (lane == 0) out2[row] = t1;
}
}

extern "C" __global__ void __launch_bounds__(32) k7(const float *in0, i64 *out2) {
  wait_for_earlier_kernels();
  k7_parts::body<int>(in0, out2);
}

// ReduceMean.
namespace k8_parts {
template <class ix>
__device__ __forceinline__ void body(const float *__restrict__ in0, float *__restrict__ out1) {
  const int lane = threadIdx.x % 16;
  const ix row = smaller(ix(blockIdx.x) * 2 + ix(threadIdx.x) / 16, ix(16 - 1));
  float r0 = float(0);
#pragma unroll
  for (int k = 0; k < 1; ++k) {
    const ix c = (k * 16 + lane) * 4;
    if (c < 60) {
      const ix x0 = c / 20;
      const ix x1 = c % 20;
      const ix x2 = (x0 * 16 + row) * 20 + x1;
      const Pack<float, 4> p0 = load<4>(in0 + x2);
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        const float t0 = p0.at[v];
        r0 = Sum::of(r0, t0);
      }
    }
  }
  const float t1 = of_lanes<Sum, 16>(r0);
  const float t2 = t1 / 60.0f;
  const float t3 = t2;
  if (lane == 0) out1[row] = t3;
}
}

extern "C" __global__ void __launch_bounds__(32) k8(const float *in0, float *out1) {
  wait_for_earlier_kernels();
  k8_parts::body<int>(in0, out1);
}

// Softmax.
namespace k9_parts {
template <class ix>
__device__ __forceinline__ void body(const float *__restrict__ in0, float *__restrict__ out0) {
  const ix row = ix(blockIdx.x) * 32 + ix(threadIdx.x);
  if (row >= 60) return;
  const ix x0 = row / 20;
  const ix x1 = row % 20;
  float r0 = -float(float_of_bits(0x7f800000u));
  for (ix c = 0; c < 16; c += 1) {
    const ix x2 = (x0 * 16 + c) * 20 + x1;
    const float t0 = in0[x2];
    r0 = Max::of(r0, t0);
  }
  const float t1 = r0;
  float r1 = float(0);
  for (ix c = 0; c < 16; c += 1) {
    const ix x3 = (x0 * 16 + c) * 20 + x1;
    const float t2 = in0[x3];
    const float t3 = expf(t2 - t1);
    r1 = Sum::of(r1, t3);
  }
  const float t4 = r1;
  for (ix c = 0; c < 16; c += 1) {
    const ix x4 = (x0 * 16 + c) * 20 + x1;
    const float t5 = in0[x4];
    const float t6 = expf(t5 - t1);
    const float t7 = t6 / t4;
    out0[x4] = t7;
  }
}
}

extern "C" __global__ void __launch_bounds__(32) k9(const float *in0, float *out0) {
  wait_for_earlier_kernels();
  k9_parts::body<int>(in0, out0);
}
