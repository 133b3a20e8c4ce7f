// A thread computes one window. Neighbouring threads have neighbouring windows of a row.

__device__ __forceinline__ void pool(const T* x, T* y, i64 count) {
  const i64 at = i64(blockIdx.x) * THREADS + threadIdx.x;
  if (at >= count) return;
  const i64 plane = at / (OUT_D * OUT_H * OUT_W);
  const int position = int(at % (OUT_D * OUT_H * OUT_W));
  const int column = position % OUT_W * STRIDE_W, row = position / OUT_W % OUT_H * STRIDE_H;
  const int layer = position / OUT_W / OUT_H * STRIDE_D;
  const T* from = x + plane * (IN_D * IN_H * IN_W);
  Sum sum = MAXIMUM ? lowest() : Sum(0);
  int counted = 0;
#pragma unroll UNROLL
  for (int d = 0; d < KERNEL_D; d++) {
    const int in_d = layer + d * DILATION_D - BEGIN_D;
#pragma unroll UNROLL
    for (int h = 0; h < KERNEL_H; h++) {
      const int in_h = row + h * DILATION_H - BEGIN_H;
#pragma unroll UNROLL
      for (int w = 0; w < KERNEL_W; w++) {
        const int in_w = column + w * DILATION_W - BEGIN_W;
        const bool on = INSIDE || (u32(in_d) < IN_D && u32(in_h) < IN_H && u32(in_w) < IN_W);
        if (on) {
          const Sum value = widen(from[(in_d * IN_H + in_h) * IN_W + in_w]);
          // NaN is the largest.
          if (MAXIMUM) sum = value > sum || value != value ? value : sum;
          else sum += value;
        }
        // Padding may count, what hangs over it does not.
        counted += PADDING_COUNTS ? in_d < IN_D + END_D && in_h < IN_H + END_H && in_w < IN_W + END_W : on;
      }
    }
  }
  narrow(y[at], MAXIMUM ? sum : sum / counted);
}

