// {"cubin":0,"kernel":"k0","grid":[3,2,1],"waits":true,"block":[128,1,1],"shared":13824,"arguments":[{"pointer":{"input":0}},{"pointer":{"input":1}},{"pointer":{"input":2}},{"pointer":{"constant":0}},{"pointer":{"output":0}}]}
namespace k0_parts {

using T = float;
using Mask = u8;
constexpr int ROWS = 16, KEYS = 32;
constexpr int SIZE = 32, VALUE_SIZE = 32;
constexpr bool CAUSAL = false;
constexpr float SCALE = 2e-1f;
constexpr float UNIT = 1.442695e0f;
constexpr float SOFTCAP = 0e0f;
constexpr i64 Q_ROW = 32;
constexpr i64 K_ROW = 32;
constexpr i64 V_ROW = 32;
constexpr i64 Y_ROW = 32;

// Helpers of the attention kernels: copies to shared memory, rows of a mask, powers of two.

#ifndef BYOC_ON_CPU
// Begins a copy of 16 bytes to shared memory; zeros where `there` is not set.
__device__ __forceinline__ void copy_16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(u32(__cvta_generic_to_shared(to))), "l"(from), "r"(there ? 16 : 0));
}
// Waits for the copies that this thread began.
__device__ __forceinline__ void copies_are_there() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
inline void copy_16(void* to, const void* from, bool there) {
  for (int i = 0; i < 4; i++) static_cast<u32*>(to)[i] = there ? static_cast<const u32*>(from)[i] : 0;
}
inline void copies_are_there() {}
inline float power_of_two(float x) { return exp2f(x); }
#endif

__device__ __forceinline__ float infinite() { return float_of_bits(0x7f800000u); }

__device__ __forceinline__ float score_of(float product) {
  const float score = product * SCALE;
  return SOFTCAP > 0.0f ? tanhf(score / SOFTCAP) * SOFTCAP : score;
}

// Begins to copy `rows` rows of `size` elements, the first of them number `first` of `length`. Rows that are not there
// and what the padded row has more than `size` become zeros.
template <int ROWS_OF_TILE, int SIZE, int PADDED, int STRIDE, int ALL, class T>
__device__ __forceinline__ void copy_rows(T* to, const T* from, i64 row_stride, int first, int length) {
  constexpr int EACH = 16 / int(sizeof(T)), CHUNKS = PADDED / EACH;
#pragma unroll
  for (int begin = 0; begin < ROWS_OF_TILE * CHUNKS; begin += ALL) {
    const int chunk = begin + int(threadIdx.x);
    if (ROWS_OF_TILE * CHUNKS % ALL != 0 && chunk >= ROWS_OF_TILE * CHUNKS) break;
    const int row = chunk / CHUNKS, column = chunk % CHUNKS * EACH;
    const bool there = first + row < length && column < SIZE;
    copy_16(to + row * STRIDE + column, there ? from + i64(first + row) * row_stride + column : from, there);
  }
}

// What a query's score for a key is when the mask has been applied.
__device__ __forceinline__ float masked(
    float score, const Mask* mask, int row, int key, int queries, int keys) {
  if (key >= keys) return -infinite();
  // Rows behind the last query are computed and not written.
  if (row >= queries) return score;
  const Mask found = mask[i64(row) * 40 + key];
  return !found ? -3.4028235e38f : score;
}

// Attention in f32: a thread has a few queries, every eighth key of a tile, and the same rows of the result.

constexpr int THREADS = 128, LANES = 8, OWN = ROWS / 16, EACH = KEYS / LANES;
__device__ constexpr int padded(int size) { return (size + 31) / 32 * 32; }
constexpr int WIDTH = SIZE, VALUES = padded(VALUE_SIZE), STRIDE = WIDTH + 4, VALUE_STRIDE = VALUES + 4;
constexpr int WEIGHT_STRIDE = KEYS + 4;
constexpr int SHARED = 4 * (ROWS * (STRIDE + WEIGHT_STRIDE) + KEYS * (STRIDE + VALUE_STRIDE));

struct Sums {
  float4 values[OWN][VALUES / 32];
  float largest[OWN], total[OWN];
};

__device__ __forceinline__ float4 four(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ __forceinline__ void scores_of(float (&scores)[OWN][EACH], const float* own, const float* keys, int lane) {
#pragma unroll
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < EACH; j++) scores[i][j] = 0.0f;
#pragma unroll 4
  for (int at = 0; at < WIDTH; at += 4) {
    float4 a[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++) a[i] = four(own + i * STRIDE + at);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      const float4 b = four(keys + (lane + j * LANES) * STRIDE + at);
#pragma unroll
      for (int i = 0; i < OWN; i++)
        scores[i][j] += a[i].x * b.x + a[i].y * b.y + a[i].z * b.z + a[i].w * b.w;
    }
  }
}

// Online softmax: makes weights of scores, and rescales the partial sums to the new largest score.
__device__ __forceinline__ void weigh(float (&scores)[OWN][EACH], Sums& sums, float* weights, int lane) {
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    float largest = sums.largest[i];
#pragma unroll
    for (int j = 0; j < EACH; j++) largest = fmaxf(largest, scores[i][j]);
#pragma unroll
    for (int mask = 1; mask < LANES; mask *= 2) largest = fmaxf(largest, exchange(largest, mask));
    // As long as all keys are hidden their weights are 0, and not NaN.
    const float from = largest == -infinite() ? 0.0f : largest;
    const float keep = power_of_two((sums.largest[i] - from) * UNIT);
    float total = sums.total[i] * keep;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
      const float weight = power_of_two((scores[i][j] - from) * UNIT);
      weights[i * WEIGHT_STRIDE + lane + j * LANES] = weight;
      total += weight;
    }
#pragma unroll
    for (int part = 0; part < VALUES / 32; part++) {
      float4& value = sums.values[i][part];
      value.x *= keep, value.y *= keep, value.z *= keep, value.w *= keep;
    }
    sums.total[i] = total;
    sums.largest[i] = largest;
  }
}

__device__ __forceinline__ void add_values(Sums& sums, const float* weights, const float* values, int lane) {
#pragma unroll 2
  for (int key = 0; key < KEYS; key += 4) {
    float weight[OWN][4];
#pragma unroll
    for (int i = 0; i < OWN; i++) {
      const float4 found = four(weights + i * WEIGHT_STRIDE + key);
      weight[i][0] = found.x, weight[i][1] = found.y, weight[i][2] = found.z, weight[i][3] = found.w;
    }
#pragma unroll
    for (int next = 0; next < 4; next++)
#pragma unroll
      for (int part = 0; part < VALUES / 32; part++) {
        const float4 value = four(values + (key + next) * VALUE_STRIDE + part * 32 + lane * 4);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
          float4& sum = sums.values[i][part];
          sum.x += weight[i][next] * value.x, sum.y += weight[i][next] * value.y;
          sum.z += weight[i][next] * value.z, sum.w += weight[i][next] * value.w;
        }
      }
  }
}

__device__ __forceinline__ void attend(
    u8* shared, const T* q, const T* k, const T* v, const Mask* mask, T* y, int queries, int keys) {
  float* all = reinterpret_cast<float*>(shared);
  float* key_tile = all + ROWS * STRIDE;
  float* value_tile = key_tile + KEYS * STRIDE;
  // Blocks with the most keys begin first.
  const int first = int(CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * ROWS;
  const int lane = int(threadIdx.x) % LANES, row = int(threadIdx.x) / LANES * OWN;
  const float* own = all + row * STRIDE;
  float* weights = value_tile + KEYS * VALUE_STRIDE + row * WEIGHT_STRIDE;
  const int end = CAUSAL && first + ROWS < keys ? first + ROWS : keys;
  copy_rows<ROWS, SIZE, WIDTH, STRIDE, THREADS>(all, q, Q_ROW, first, queries);
  Sums sums;
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    for (int part = 0; part < VALUES / 32; part++) sums.values[i][part] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    sums.largest[i] = -infinite(), sums.total[i] = 0.0f;
  }
  for (int begin = 0; begin < end; begin += KEYS) {
    copy_rows<KEYS, SIZE, WIDTH, STRIDE, THREADS>(key_tile, k, K_ROW, begin, keys);
    copy_rows<KEYS, VALUE_SIZE, VALUES, VALUE_STRIDE, THREADS>(value_tile, v, V_ROW, begin, keys);
    copies_are_there();
    __syncthreads();
    float scores[OWN][EACH];
    scores_of(scores, own, key_tile, lane);
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
      for (int j = 0; j < EACH; j++)
        scores[i][j] =
            masked(score_of(scores[i][j]), mask, first + row + i, begin + lane + j * LANES, queries, keys);
    weigh(scores, sums, weights, lane);
    // A row of weights is read by the lanes that wrote it.
    __syncwarp();
    add_values(sums, weights, value_tile, lane);
    __syncthreads();
  }
  copies_are_there();
#pragma unroll
  for (int i = 0; i < OWN; i++) {
    float total = sums.total[i];
#pragma unroll
    for (int mask = 1; mask < LANES; mask *= 2) total += exchange(total, mask);
    const float factor = keys == 0 ? 0.0f : 1.0f / total;
    if (first + row + i >= queries) continue;
#pragma unroll
    for (int part = 0; part < VALUES / 32; part++) {
      const float4 sum = sums.values[i][part];
      const float values[4] = {sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};
      const int column = part * 32 + lane * 4;
      if (column < VALUE_SIZE) store_four(y + i64(first + row + i) * Y_ROW + column, values);
    }
  }
}
static_assert(SHARED == 13824, "the launch gives as much");

}

extern "C" __global__ void __launch_bounds__(128, 1) k0(
    const k0_parts::T* q, const k0_parts::T* k, const k0_parts::T* v, const k0_parts::Mask* mask, k0_parts::T* y) {
  BYOC_SHARED(shared);
  wait_for_earlier_kernels();
  constexpr i64 queries = 40;
  constexpr i64 keys = 40;
  const i64 batch = blockIdx.z, head = blockIdx.y, kv_head = head / 1;
  k0_parts::attend(
      shared,
      q + (batch * 2 + head) * queries * 32,
      k + (batch * 2 + kv_head) * keys * 32,
      v + (batch * 2 + kv_head) * keys * 32,
      mask,
      y + (batch * 2 + head) * queries * 32,
      int(queries), int(keys));
}
