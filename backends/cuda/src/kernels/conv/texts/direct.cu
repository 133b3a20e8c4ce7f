// {"cubin":0,"kernel":"k0","grid":["floor((n*1323 + 255)/256)",1,1],"waits":true,"block":[256,1,1],"shared":0,"arguments":[{"pointer":{"input":0}},{"pointer":{"input":1}},{"pointer":{"output":0}},{"size":"n*49"}]}
namespace k0_parts {

enum : int {
  IN_D = 1, IN_H = 13, IN_W = 13,
  OUT_D = 1, OUT_H = 7, OUT_W = 7,
  KERNEL_D = 1, KERNEL_H = 3, KERNEL_W = 3,
  STRIDE_D = 1, STRIDE_H = 2, STRIDE_W = 2,
  DILATION_D = 1, DILATION_H = 1, DILATION_W = 1,
  BEGIN_D = 0, BEGIN_H = 1, BEGIN_W = 1,
  END_D = 0, END_H = 1, END_W = 1,
};
constexpr bool INSIDE = false;
using T = float;
constexpr int GROUPS = 9;
constexpr int DEPTH = 2;
constexpr int FILTERS = 3;
constexpr int CHANNELS = 18;
constexpr int INNER = 18;
constexpr int POSITIONS = 49;
constexpr int THREADS = 256, UNROLL = 9;

// Conversions between tensor elements and float; four at a time where they are aligned.

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ float widen(f16 x) { return to_float(x); }
__device__ __forceinline__ float widen(bf16 x) { return to_float(x); }
__device__ __forceinline__ int widen(i8 x) { return x; }
__device__ __forceinline__ int widen(u8 x) { return x; }
__device__ __forceinline__ void narrow(float& y, float x) { y = x; }
__device__ __forceinline__ void narrow(double& y, double x) { y = x; }
__device__ __forceinline__ void narrow(f16& y, float x) { y = to_f16(x); }
__device__ __forceinline__ void narrow(bf16& y, float x) { y = to_bf16(x); }
__device__ __forceinline__ void narrow(i8& y, int x) { y = i8(x); }
__device__ __forceinline__ void narrow(u8& y, int x) { y = u8(x); }

template <class Element>
struct alignas(4 * sizeof(Element)) Four { Element at[4]; };

__device__ __forceinline__ float activation(float sum) {
  return sum;
}

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

}

extern "C" __global__ void __launch_bounds__(256, 1) k0(
    const k0_parts::T* x, const k0_parts::T* w, k0_parts::T* y, i64 windows) {
  wait_for_earlier_kernels();
  k0_parts::convolve(x, w, nullptr, nullptr, y, windows);
}
