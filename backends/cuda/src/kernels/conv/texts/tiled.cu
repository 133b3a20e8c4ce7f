// {"cubin":0,"kernel":"k0","grid":[64,2,1],"waits":true,"block":[256,1,1],"shared":0,"arguments":[{"pointer":{"input":0}},{"pointer":{"input":1}},{"pointer":{"input":2}},{"pointer":{"input":3}},{"pointer":{"output":0}}]}
namespace k0_parts {

enum : int {
  IN_D = 1, IN_H = 32, IN_W = 32,
  OUT_D = 1, OUT_H = 32, OUT_W = 32,
  KERNEL_D = 1, KERNEL_H = 3, KERNEL_W = 3,
  STRIDE_D = 1, STRIDE_H = 1, STRIDE_W = 1,
  DILATION_D = 1, DILATION_H = 1, DILATION_W = 1,
  BEGIN_D = 0, BEGIN_H = 1, BEGIN_W = 1,
  END_D = 0, END_H = 1, END_W = 1,
};
constexpr bool INSIDE = false;
using T = float;
constexpr int GROUPS = 1;
constexpr int DEPTH = 2;
constexpr int FILTERS = 130;
constexpr int CHANNELS = 2;
constexpr int INNER = 18;
constexpr int POSITIONS = 1024;
constexpr bool POINT = false;
constexpr int TILE_ROWS = 128, TILE_COLUMNS = 128, STEP = 8;
constexpr int OWN_ROWS = 8, OWN_COLUMNS = 8;

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
  return sum < 0.0f ? 0.0f : sum;
}

// A convolution as an implicit GEMM: a block computes a tile of filters by windows, in steps along the INNER elements of a
// window. Tiles are in shared memory as floats; the next one is prefetched into registers. The offsets of a window's
// elements come from a table, so that no step divides.

constexpr int LANES = TILE_COLUMNS / OWN_COLUMNS, THREADS = TILE_ROWS / OWN_ROWS * LANES;
constexpr int STEPS = (INNER + STEP - 1) / STEP;
constexpr int W_EACH = INNER % 4 == 0 ? 4 : 1, X_EACH = POINT && POSITIONS % 4 == 0 ? 4 : 1;
constexpr int W_LOADS = TILE_ROWS * STEP / W_EACH / THREADS, X_LOADS = TILE_COLUMNS * STEP / X_EACH / THREADS;
constexpr int X_LANES = TILE_COLUMNS / X_EACH;
static_assert(W_LOADS * W_EACH * THREADS == TILE_ROWS * STEP && THREADS % X_LANES == 0, "threads load whole tiles");

// An element of a window: its coordinates and its offset, relative to the window's first one.
struct alignas(16) Tap { int depth, row, column, offset; };

struct Tiles {
  float w[2][STEP][TILE_ROWS + 4], x[2][STEP][TILE_COLUMNS + 4];
  Tap taps[2][STEP];
};

// The windows of which a thread loads elements.
struct Place {
  i64 at;
  int depth, row, column;
  bool there;
};

__device__ __forceinline__ Place place_of(i64 window, i64 windows, int group) {
  const i64 image = window / POSITIONS;
  const int position = int(window % POSITIONS);
  Place place;
  place.there = window < windows;
  place.column = position % OUT_W * STRIDE_W - BEGIN_W;
  place.row = position / OUT_W % OUT_H * STRIDE_H - BEGIN_H;
  place.depth = position / OUT_W / OUT_H * STRIDE_D - BEGIN_D;
  place.at = (image * CHANNELS + group * DEPTH) * i64(IN_D * IN_H * IN_W) +
             (i64(place.depth) * IN_H + place.row) * IN_W + place.column;
  return place;
}

__device__ __forceinline__ Tap tap_of(int inner) {
  const int tap = inner % (KERNEL_D * KERNEL_H * KERNEL_W), channel = inner / (KERNEL_D * KERNEL_H * KERNEL_W);
  Tap found;
  found.column = tap % KERNEL_W * DILATION_W;
  found.row = tap / KERNEL_W % KERNEL_H * DILATION_H;
  found.depth = tap / KERNEL_W / KERNEL_H * DILATION_D;
  found.offset = channel * (IN_D * IN_H * IN_W) + (found.depth * IN_H + found.row) * IN_W + found.column;
  return found;
}

// The prefetched elements of the next tiles.
struct Coming {
  float w[W_LOADS][W_EACH], x[X_LOADS][X_EACH];
};

template <int EACH>
__device__ __forceinline__ void load(float (&to)[EACH], const T* from, bool there) {
  if (!there) {
    for (int i = 0; i < EACH; i++) to[i] = 0.0f;
  } else if (EACH == 4) {
    const Four<T> four = *reinterpret_cast<const Four<T>*>(from);
    for (int i = 0; i < EACH; i++) to[i] = widen(four.at[i % 4]);
  } else {
    to[0] = widen(from[0]);
  }
}

__device__ __forceinline__ void fetch(
    Coming& coming, const Tiles& tiles, const T* x, const T* w, const Place& place, int first_filter, int step) {
  const int thread = int(threadIdx.x);
#pragma unroll
  for (int i = 0; i < W_LOADS; i++) {
    const int unit = thread + i * THREADS, filter = unit / (STEP / W_EACH);
    const int inner = step * STEP + unit % (STEP / W_EACH) * W_EACH;
    const bool there = first_filter + filter < FILTERS && (INNER % STEP == 0 || inner < INNER);
    load<W_EACH>(coming.w[i], w + i64(first_filter + filter) * INNER + inner, there);
  }
#pragma unroll
  for (int i = 0; i < X_LOADS; i++) {
    const int own = thread / X_LANES + i * (THREADS / X_LANES), inner = step * STEP + own;
    bool there = place.there && (INNER % STEP == 0 || inner < INNER);
    if (POINT) {
      load<X_EACH>(coming.x[i], x + (place.at + i64(inner) * (IN_D * IN_H * IN_W)), there);
    } else {
      const Tap tap = tiles.taps[step % 2][own];
      if (!INSIDE)
        there = there && u32(place.depth + tap.depth) < IN_D && u32(place.row + tap.row) < IN_H &&
                u32(place.column + tap.column) < IN_W;
      load<X_EACH>(coming.x[i], x + (place.at + tap.offset), there);
    }
  }
}

__device__ __forceinline__ void take(Tiles& tiles, const Coming& coming, int stage) {
  const int thread = int(threadIdx.x);
#pragma unroll
  for (int i = 0; i < W_LOADS; i++) {
    const int unit = thread + i * THREADS;
#pragma unroll
    for (int j = 0; j < W_EACH; j++)
      tiles.w[stage][unit % (STEP / W_EACH) * W_EACH + j][unit / (STEP / W_EACH)] = coming.w[i][j];
  }
#pragma unroll
  for (int i = 0; i < X_LOADS; i++)
#pragma unroll
    for (int j = 0; j < X_EACH; j++)
      tiles.x[stage][thread / X_LANES + i * (THREADS / X_LANES)][thread % X_LANES * X_EACH + j] = coming.x[i][j];
}

// A thread has groups of four neighbouring rows and columns.
template <int OWN, int TILE>
__device__ __forceinline__ void own(float (&to)[OWN], const float* from, int lane) {
#pragma unroll
  for (int group = 0; group < OWN / 4; group++) {
    const Four<float> four = *reinterpret_cast<const Four<float>*>(from + group * (TILE / (OWN / 4)) + lane * 4);
    for (int i = 0; i < 4; i++) to[group * 4 + i] = four.at[i];
  }
}

__device__ __forceinline__ void multiply(float (&sums)[OWN_ROWS][OWN_COLUMNS], const Tiles& tiles, int stage) {
#pragma unroll
  for (int inner = 0; inner < STEP; inner++) {
    float w[OWN_ROWS], x[OWN_COLUMNS];
    own<OWN_ROWS, TILE_ROWS>(w, tiles.w[stage][inner], int(threadIdx.x) / LANES);
    own<OWN_COLUMNS, TILE_COLUMNS>(x, tiles.x[stage][inner], int(threadIdx.x) % LANES);
#pragma unroll
    for (int i = 0; i < OWN_ROWS; i++)
#pragma unroll
      for (int j = 0; j < OWN_COLUMNS; j++) sums[i][j] += w[i] * x[j];
  }
}

// Where the element of a filter and a window is in the result.
__device__ __forceinline__ i64 at_of(i64 window, int filter, int group) {
  return (window / POSITIONS * (GROUPS * FILTERS) + group * FILTERS + filter) * POSITIONS + window % POSITIONS;
}

// The first of four neighbouring windows. Those of the same image are contiguous.
__device__ __forceinline__ i64 window_of(int four) {
  return i64(blockIdx.x) * TILE_COLUMNS + four * (TILE_COLUMNS / (OWN_COLUMNS / 4)) + int(threadIdx.x) % LANES * 4;
}

// Adds the bias of a filter and the residual to its sums.
__device__ __forceinline__ void add(
    float (&sums)[OWN_COLUMNS], const T* bias, const T* residual, i64 windows, int filter, int group) {
  const float all = bias ? widen(bias[group * FILTERS + filter]) : 0.0f;
#pragma unroll
  for (int four = 0; four < OWN_COLUMNS / 4; four++) {
    const i64 first = window_of(four);
    float each[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (residual && POSITIONS % 4 == 0) {
      load<4>(each, residual + at_of(first, filter, group), first < windows);
    } else if (residual) {
      for (int j = 0; j < 4; j++)
        if (first + j < windows) each[j] = widen(residual[at_of(first + j, filter, group)]);
    }
    for (int j = 0; j < 4; j++) {
      const float sum = sums[four * 4 + j] + all;
      sums[four * 4 + j] = residual ? sum + each[j] : sum;
    }
  }
}

__device__ __forceinline__ void write(const float (&sums)[OWN_COLUMNS], T* y, i64 windows, int filter, int group) {
#pragma unroll
  for (int four = 0; four < OWN_COLUMNS / 4; four++) {
    const i64 first = window_of(four);
    T values[4];
    for (int j = 0; j < 4; j++) narrow(values[j], activation(sums[four * 4 + j]));
    if (POSITIONS % 4 == 0) {
      if (first < windows) store_four(y + at_of(first, filter, group), values);
    } else {
      for (int j = 0; j < 4; j++)
        if (first + j < windows) y[at_of(first + j, filter, group)] = values[j];
    }
  }
}

// Residuals of four filters at a time are loaded before any result is stored, since a load waits for an earlier store. More
// filters need more registers.
__device__ __forceinline__ void finish(
    float (&sums)[OWN_ROWS][OWN_COLUMNS], const T* bias, const T* residual, T* y, i64 windows, int group) {
#pragma unroll
  for (int four = 0; four < OWN_ROWS / 4; four++) {
    const int first =
        int(blockIdx.y) * TILE_ROWS + four * (TILE_ROWS / (OWN_ROWS / 4)) + int(threadIdx.x) / LANES * 4;
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (first + i < FILTERS) add(sums[four * 4 + i], bias, residual, windows, first + i, group);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (first + i < FILTERS) write(sums[four * 4 + i], y, windows, first + i, group);
  }
}

__device__ __forceinline__ void convolve(
    const T* x, const T* w, const T* bias, const T* residual, T* y, i64 windows) {
  __shared__ Tiles tiles;
  const int thread = int(threadIdx.x), group = int(blockIdx.z), first_filter = int(blockIdx.y) * TILE_ROWS;
  const T* own_w = w + i64(group) * FILTERS * INNER;
  const Place place = place_of(i64(blockIdx.x) * TILE_COLUMNS + thread % X_LANES * X_EACH, windows, group);
  if (!POINT && thread < 2 * STEP) tiles.taps[thread / STEP][thread % STEP] = tap_of(thread);
  __syncthreads();
  float sums[OWN_ROWS][OWN_COLUMNS];
#pragma unroll
  for (int i = 0; i < OWN_ROWS; i++)
    for (int j = 0; j < OWN_COLUMNS; j++) sums[i][j] = 0.0f;
  Coming coming;
  fetch(coming, tiles, x, own_w, place, first_filter, 0);
  take(tiles, coming, 0);
  __syncthreads();
  for (int step = 0; step < STEPS; step++) {
    if (step + 1 < STEPS) fetch(coming, tiles, x, own_w, place, first_filter, step + 1);
    if (!POINT && thread < STEP) tiles.taps[step % 2][thread] = tap_of((step + 2) * STEP + thread);
    multiply(sums, tiles, step % 2);
    if (step + 1 < STEPS) take(tiles, coming, (step + 1) % 2);
    __syncthreads();
  }
  finish(sums, bias, residual, y, windows, group);
}

}

extern "C" __global__ void __launch_bounds__(256, 1) k0(
    const k0_parts::T* x, const k0_parts::T* w, const k0_parts::T* bias, const k0_parts::T* residual, k0_parts::T* y) {
  wait_for_earlier_kernels();
  k0_parts::convolve(x, w, bias, residual, y, 8192);
}
