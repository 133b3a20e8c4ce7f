// Add, Reshape, Transpose.
extern "C" __global__ void __launch_bounds__(256) k0(const float *__restrict__ in0, const float *__restrict__ c0, float *__restrict__ out0, const i64 n0, const i64 n1, const i64 n2, const i64 n3) {
  using ix = i64;
  const ix i = (ix(blockIdx.x) * 256 + ix(threadIdx.x)) * 4;
  if (i >= n3) return;
  const ix x0 = i / n0;
  const ix x1 = i / 64 % n1;
  const ix x2 = i / n2 % 3;
  const ix x3 = i % 64;
  const ix x4 = ((x0 * n1 + x1) * 3 + x2) * 64 + x3;
  const Pack<float, 4> p0 = load<4>(in0 + x4);
  const ix x5 = x2 * 64 + x3;
  const Pack<float, 4> p1 = load<4>(c0 + x5);
  Pack<float, 4> q0;
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    const float t0 = p0.at[v];
    const float t1 = p1.at[v];
    const float t2 = t0 + t1;
    q0.at[v] = t2;
  }
  store(out0 + i, q0);
}
