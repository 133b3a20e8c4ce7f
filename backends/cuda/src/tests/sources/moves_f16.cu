// Gather.
namespace k0_parts {
template <class ix>
__device__ __forceinline__ void body(const int *__restrict__ c0, const f16 *__restrict__ in0, f16 *__restrict__ out8) {
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 320) return;
  const ix x0 = i / 40 % 4;
  const int t0 = c0[x0];
  const ix x1 = within(i64(t0), ix(24));
  const ix x2 = i / 160;
  const ix x3 = i % 40;
  const ix x4 = (x2 * 24 + x1) * 40 + x3;
  const Pack<f16, 8> p0 = load<8>(in0 + x4);
  Pack<f16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t1 = to_float(p0.at[v]);
    q0.at[v] = to_f16(t1);
  }
  store(out8 + i, q0);
}
}

extern "C" __global__ void __launch_bounds__(256) k0(const int *c0, const f16 *in0, f16 *out8) {
  wait_for_earlier_kernels();
  k0_parts::body<int>(c0, in0, out8);
}

// Slice.
namespace k1_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out7) {
  const ix i = ix(blockIdx.x) * 256 + ix(threadIdx.x);
  if (i >= 480) return;
  const ix x0 = i % 10;
  const ix x1 = x0 * -3 + 30;
  const ix x2 = i / 10;
  const ix x3 = x2 * 40 + x1;
  const float t0 = to_float(in0[x3]);
  out7[i] = to_f16(t0);
}
}

extern "C" __global__ void __launch_bounds__(256) k1(const f16 *in0, f16 *out7) {
  wait_for_earlier_kernels();
  k1_parts::body<int>(in0, out7);
}

// Tile.
namespace k2_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out6) {
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 11520) return;
  const ix x0 = i / 5760;
  const ix x1 = i / 120 % 24;
  const ix x2 = i % 40;
  const ix x3 = (x0 * 24 + x1) * 40 + x2;
  const Pack<f16, 8> p0 = load<8>(in0 + x3);
  Pack<f16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    q0.at[v] = to_f16(t0);
  }
  store(out6 + i, q0);
}
}

extern "C" __global__ void __launch_bounds__(256) k2(const f16 *in0, f16 *out6) {
  wait_for_earlier_kernels();
  k2_parts::body<int>(in0, out6);
}

// Trilu.
namespace k3_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out5) {
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 1920) return;
  const ix x0 = i / 40 % 24;
  const Pack<f16, 8> p0 = load<8>(in0 + i);
  Pack<f16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const ix x1 = (i + v) % 40;
    const float t0 = to_float(p0.at[v]);
    const float t1 = x1 - x0 >= 0 ? t0 : float(0);
    q0.at[v] = to_f16(t1);
  }
  store(out5 + i, q0);
}
}

extern "C" __global__ void __launch_bounds__(256) k3(const f16 *in0, f16 *out5) {
  wait_for_earlier_kernels();
  k3_parts::body<int>(in0, out5);
}

// Pad.
namespace k4_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out4) {
  const ix i = ix(blockIdx.x) * 256 + ix(threadIdx.x);
  if (i >= 2288) return;
  const ix x0 = i / 44 % 26;
  const ix x1 = x0 - (1);
  const ix x2 = i % 44;
  const ix x3 = x2 - (2);
  const bool b0 = x1 >= 0 && x1 < 24 && x3 >= 0 && x3 < 40;
  const ix x4 = i / 1144;
  const ix x5 = (x4 * 24 + x1) * 40 + x3;
  const float t0 = b0 ? to_float(in0[x5]) : float(0);
  const float t1 = b0 ? t0 : float(0);
  out4[i] = to_f16(t1);
}
}

extern "C" __global__ void __launch_bounds__(256) k4(const f16 *in0, f16 *out4) {
  wait_for_earlier_kernels();
  k4_parts::body<int>(in0, out4);
}

// Pad.
namespace k5_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out3) {
  const ix i = ix(blockIdx.x) * 256 + ix(threadIdx.x);
  if (i >= 2288) return;
  const ix x0 = i / 44 % 26;
  const ix x1 = x0 - (1);
  const ix x2 = mirrored(ix(x1), ix(24));
  const ix x3 = i % 44;
  const ix x4 = x3 - (2);
  const ix x5 = mirrored(ix(x4), ix(40));
  const ix x6 = i / 1144;
  const ix x7 = (x6 * 24 + x2) * 40 + x5;
  const float t0 = to_float(in0[x7]);
  out3[i] = to_f16(t0);
}
}

extern "C" __global__ void __launch_bounds__(256) k5(const f16 *in0, f16 *out3) {
  wait_for_earlier_kernels();
  k5_parts::body<int>(in0, out3);
}

// Concat.
namespace k6_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out2) {
  const ix i = ix(blockIdx.x) * 256 + ix(threadIdx.x);
  if (i >= 3840) return;
  const ix x0 = i % 80;
  const bool b0 = x0 < 40;
  const ix x1 = i / 80;
  const ix x2 = x1 * 40 + x0;
  const float t0 = b0 ? to_float(in0[x2]) : float(0);
  const ix x3 = x0 - 40;
  const bool b1 = x0 >= 40;
  const ix x4 = x1 * 40 + x3;
  const float t1 = b1 ? to_float(in0[x4]) : float(0);
  const float t2 = x0 < 40 ? t0 : t1;
  out2[i] = to_f16(t2);
}
}

extern "C" __global__ void __launch_bounds__(256) k6(const f16 *in0, f16 *out2) {
  wait_for_earlier_kernels();
  k6_parts::body<int>(in0, out2);
}

// Concat.
namespace k7_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out1) {
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 3840) return;
  const ix x0 = i / 40 % 48;
  const bool b0 = x0 < 24;
  const ix x1 = i / 1920;
  const ix x2 = i % 40;
  const ix x3 = (x1 * 24 + x0) * 40 + x2;
  const Pack<f16, 8> p0 = b0 ? load<8>(in0 + x3) : Pack<f16, 8>{};
  const ix x4 = x0 - 24;
  const bool b1 = x0 >= 24;
  const ix x5 = (x1 * 24 + x4) * 40 + x2;
  const Pack<f16, 8> p1 = b1 ? load<8>(in0 + x5) : Pack<f16, 8>{};
  Pack<f16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = to_float(p1.at[v]);
    const float t2 = x0 < 24 ? t0 : t1;
    q0.at[v] = to_f16(t2);
  }
  store(out1 + i, q0);
}
}

extern "C" __global__ void __launch_bounds__(256) k7(const f16 *in0, f16 *out1) {
  wait_for_earlier_kernels();
  k7_parts::body<int>(in0, out1);
}

// Transpose.
namespace k8_parts {
template <class ix>
__device__ __forceinline__ void body(const f16 *__restrict__ in0, f16 *__restrict__ out0) {
  const ix left = ix(blockIdx.x) % 1 * 32;
  const ix top = ix(blockIdx.x) / 1 % 2 * 32;
  const ix o = ix(blockIdx.x) / 1 / 2;
  __shared__ f16 tile0[32][34];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const ix r = top + ix(threadIdx.x) % 32;
    const ix c = left + ix(threadIdx.x) / 32 + k * 8;
    if (r >= 40 || c >= 24) continue;
    const ix x0 = (o * 24 + c) * 40 + r;
    tile0[c - left][r - top] = in0[x0];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const ix c = left + ix(threadIdx.x) % 32;
    const ix r = top + ix(threadIdx.x) / 32 + k * 8;
    if (r >= 40 || c >= 24) continue;
    const float t0 = to_float(tile0[c - left][r - top]);
    const ix x1 = (o * 40 + r) * 24 + c;
    out0[x1] = to_f16(t0);
  }
}
}

extern "C" __global__ void __launch_bounds__(256) k8(const f16 *in0, f16 *out0) {
  wait_for_earlier_kernels();
  k8_parts::body<int>(in0, out0);
}
