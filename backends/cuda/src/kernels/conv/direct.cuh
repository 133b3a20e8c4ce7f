// A convolution with few channels or filters in a group: a thread computes one element of the result.

__device__ __forceinline__ void convolve(
    const T* x, const T* w, const T* bias, const T* residual, T* y, i64 windows) {
  const i64 at = i64(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= windows * (GROUPS * FILTERS)) return;
  const int position = int(at % POSITIONS), filter = int(at / POSITIONS % (GROUPS * FILTERS));
  const i64 image = at / POSITIONS / (GROUPS * FILTERS);
  const int column = position % OUT_W * STRIDE_W - BEGIN_W, row = position / OUT_W % OUT_H * STRIDE_H - BEGIN_H;
  const int layer = position / OUT_W / OUT_H * STRIDE_D - BEGIN_D;
  const T* from = x + (image * CHANNELS + filter / FILTERS * DEPTH) * (IN_D * IN_H * IN_W);
  const T* by = w + i64(filter) * INNER;
  float sum = bias ? widen(bias[filter]) : 0.0f;
  for (int channel = 0; channel < DEPTH; channel++, from += IN_D * IN_H * IN_W, by += KERNEL_D * KERNEL_H * KERNEL_W) {
#pragma unroll UNROLL
    for (int d = 0; d < KERNEL_D; d++) {
#pragma unroll UNROLL
      for (int h = 0; h < KERNEL_H; h++) {
#pragma unroll UNROLL
        for (int k = 0; k < KERNEL_W; k++) {
          const int in_d = layer + d * DILATION_D, in_h = row + h * DILATION_H, in_w = column + k * DILATION_W;
          if (INSIDE || (u32(in_d) < IN_D && u32(in_h) < IN_H && u32(in_w) < IN_W))
            sum += widen(from[(in_d * IN_H + in_h) * IN_W + in_w]) * widen(by[(d * KERNEL_H + h) * KERNEL_W + k]);
        }
      }
    }
  }
  narrow(y[at], activation(residual ? sum + widen(residual[at]) : sum));
}

