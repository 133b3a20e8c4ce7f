// Cast.
extern "C" __global__ void __launch_bounds__(256) k0(const bf16 *__restrict__ in0, int *__restrict__ out19) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 4;
  if (i >= 40) return;
  const Pack<bf16, 4> p0 = load<4>(in0 + i);
  Pack<int, 4> q0;
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    const float t0 = to_float(p0.at[v]);
    const int t1 = truncated<int>(double(t0));
    q0.at[v] = t1;
  }
  store(out19 + i, q0);
}

// Where.
extern "C" __global__ void __launch_bounds__(256) k1(const u8 *__restrict__ in3, const bf16 *__restrict__ in0, const bf16 *__restrict__ in1, bf16 *__restrict__ out18) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const ix x0 = i / 8;
  const bool t0 = in3[x0] != 0;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  const ix x1 = i % 8;
  const Pack<bf16, 8> p1 = load<8>(in1 + x1);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t1 = to_float(p0.at[v]);
    const float t2 = to_float(p1.at[v]);
    const float t3 = t0 ? t1 : t2;
    q0.at[v] = to_bf16(t3);
  }
  store(out18 + i, q0);
}

// Equal.
extern "C" __global__ void __launch_bounds__(256) k2(const i64 *__restrict__ in2, const i64 *__restrict__ c0, u8 *__restrict__ out17) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<i64, 8> p0 = load<8>(in2 + i);
  const ix x0 = i % 8;
  const Pack<i64, 8> p1 = load<8>(c0 + x0);
  Pack<u8, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const i64 t0 = p0.at[v];
    const i64 t1 = p1.at[v];
    const bool t2 = t0 == t1;
    q0.at[v] = u8(t2);
  }
  store(out17 + i, q0);
}

// Mod.
extern "C" __global__ void __launch_bounds__(256) k3(const i64 *__restrict__ in2, const i64 *__restrict__ c0, i64 *__restrict__ out16) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 2;
  if (i >= 40) return;
  const Pack<i64, 2> p0 = load<2>(in2 + i);
  const ix x0 = i % 8;
  const Pack<i64, 2> p1 = load<2>(c0 + x0);
  Pack<i64, 2> q0;
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    const i64 t0 = p0.at[v];
    const i64 t1 = p1.at[v];
    const i64 t2 = modulo(t0, t1);
    q0.at[v] = t2;
  }
  store(out16 + i, q0);
}

// Div.
extern "C" __global__ void __launch_bounds__(256) k4(const i64 *__restrict__ in2, const i64 *__restrict__ c0, i64 *__restrict__ out15) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 2;
  if (i >= 40) return;
  const Pack<i64, 2> p0 = load<2>(in2 + i);
  const ix x0 = i % 8;
  const Pack<i64, 2> p1 = load<2>(c0 + x0);
  Pack<i64, 2> q0;
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    const i64 t0 = p0.at[v];
    const i64 t1 = p1.at[v];
    const i64 t2 = divide(t0, t1);
    q0.at[v] = t2;
  }
  store(out15 + i, q0);
}

// Add.
extern "C" __global__ void __launch_bounds__(256) k5(const i64 *__restrict__ in2, const i64 *__restrict__ c0, i64 *__restrict__ out14) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 2;
  if (i >= 40) return;
  const Pack<i64, 2> p0 = load<2>(in2 + i);
  const ix x0 = i % 8;
  const Pack<i64, 2> p1 = load<2>(c0 + x0);
  Pack<i64, 2> q0;
#pragma unroll
  for (int v = 0; v < 2; ++v) {
    const i64 t0 = p0.at[v];
    const i64 t1 = p1.at[v];
    const i64 t2 = add(t0, t1);
    q0.at[v] = t2;
  }
  store(out14 + i, q0);
}

// Less.
extern "C" __global__ void __launch_bounds__(256) k6(const bf16 *__restrict__ in0, const bf16 *__restrict__ in1, u8 *__restrict__ out13) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  const ix x0 = i % 8;
  const Pack<bf16, 8> p1 = load<8>(in1 + x0);
  Pack<u8, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = to_float(p1.at[v]);
    const bool t2 = t0 < t1;
    q0.at[v] = u8(t2);
  }
  store(out13 + i, q0);
}

// Max.
extern "C" __global__ void __launch_bounds__(256) k7(const bf16 *__restrict__ in0, const bf16 *__restrict__ in1, bf16 *__restrict__ out12) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  const ix x0 = i % 8;
  const Pack<bf16, 8> p1 = load<8>(in1 + x0);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = to_float(p1.at[v]);
    const float t2 = larger(t0, t1);
    q0.at[v] = to_bf16(t2);
  }
  store(out12 + i, q0);
}

// Div.
extern "C" __global__ void __launch_bounds__(256) k8(const bf16 *__restrict__ in0, const bf16 *__restrict__ in1, bf16 *__restrict__ out11) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  const ix x0 = i % 8;
  const Pack<bf16, 8> p1 = load<8>(in1 + x0);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = to_float(p1.at[v]);
    const float t2 = t0 / t1;
    q0.at[v] = to_bf16(t2);
  }
  store(out11 + i, q0);
}

// Gelu.
extern "C" __global__ void __launch_bounds__(256) k9(const bf16 *__restrict__ in0, bf16 *__restrict__ out10) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = 0.5f * t0 * (1.0f + erff(t0 * 0.70710677f));
    q0.at[v] = to_bf16(t1);
  }
  store(out10 + i, q0);
}

// HardSwish.
extern "C" __global__ void __launch_bounds__(256) k10(const bf16 *__restrict__ in0, bf16 *__restrict__ out9) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = t0 * smaller(larger(t0 / 6.0f + 0.5f, 0.0f), 1.0f);
    q0.at[v] = to_bf16(t1);
  }
  store(out9 + i, q0);
}

// Elu.
extern "C" __global__ void __launch_bounds__(256) k11(const bf16 *__restrict__ in0, bf16 *__restrict__ out8) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = t0 < float(0) ? 1.0f * expm1f(t0) : t0;
    q0.at[v] = to_bf16(t1);
  }
  store(out8 + i, q0);
}

// Mish.
extern "C" __global__ void __launch_bounds__(256) k12(const bf16 *__restrict__ in0, bf16 *__restrict__ out7) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = t0 * tanhf(softplus(t0));
    q0.at[v] = to_bf16(t1);
  }
  store(out7 + i, q0);
}

// Softplus.
extern "C" __global__ void __launch_bounds__(256) k13(const bf16 *__restrict__ in0, bf16 *__restrict__ out6) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = softplus(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out6 + i, q0);
}

// Sigmoid.
extern "C" __global__ void __launch_bounds__(256) k14(const bf16 *__restrict__ in0, bf16 *__restrict__ out5) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = sigmoid(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out5 + i, q0);
}

// Tanh.
extern "C" __global__ void __launch_bounds__(256) k15(const bf16 *__restrict__ in0, bf16 *__restrict__ out4) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = tanhf(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out4 + i, q0);
}

// Erf.
extern "C" __global__ void __launch_bounds__(256) k16(const bf16 *__restrict__ in0, bf16 *__restrict__ out3) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = erff(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out3 + i, q0);
}

// Cos.
extern "C" __global__ void __launch_bounds__(256) k17(const bf16 *__restrict__ in0, bf16 *__restrict__ out2) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = cosf(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out2 + i, q0);
}

// Sin.
extern "C" __global__ void __launch_bounds__(256) k18(const bf16 *__restrict__ in0, bf16 *__restrict__ out1) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = sinf(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out1 + i, q0);
}

// Exp.
extern "C" __global__ void __launch_bounds__(256) k19(const bf16 *__restrict__ in0, bf16 *__restrict__ out0) {
  wait_for_earlier_kernels();
  using ix = int;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 8;
  if (i >= 40) return;
  const Pack<bf16, 8> p0 = load<8>(in0 + i);
  Pack<bf16, 8> q0;
#pragma unroll
  for (int v = 0; v < 8; ++v) {
    const float t0 = to_float(p0.at[v]);
    const float t1 = expf(t0);
    q0.at[v] = to_bf16(t1);
  }
  store(out0 + i, q0);
}
