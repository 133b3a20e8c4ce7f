// {"cubin":0,"kernel":"k0","grid":["floor((s + 63)/64)",12,"b"],"waits":true,"block":[128,1,1],"shared":46080,"arguments":[{"pointer":{"input":0}},{"pointer":{"input":1}},{"pointer":{"input":2}},{"pointer":{"constant":0}},{"pointer":{"output":0}},{"size":"s"},{"size":"s"}]}
namespace k0_parts {

using T = f16;
using Mask = float;
constexpr int ROWS = 64, KEYS = 64;
constexpr int SIZE = 64, VALUE_SIZE = 64;
constexpr bool CAUSAL = false;
constexpr bool FOLDED = false, WHOLE_TILES = false;
constexpr float SCALE = 2e-1f;
constexpr float UNIT = 1.442695e0f;
constexpr float SOFTCAP = 0e0f;
constexpr i64 Q_ROW = 768;
constexpr i64 K_ROW = 768;
constexpr i64 V_ROW = 768;
constexpr i64 Y_ROW = 768;

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
  const Mask found = mask[key];
  return score + found;
}

// Attention on tensor cores: a warp has 16 queries, whose scores for a tile of keys, weights and sums stay in registers.
// The layout of fragments is that of mma.m16n8k16: lane / 4 is the row, lane % 4 the pair of columns.

#ifndef BYOC_ON_CPU
template <class Rows>
__device__ __forceinline__ void four_tiles(u32 (&to)[4], Rows rows, int lane) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(u32(__cvta_generic_to_shared(rows(lane)))));
}
template <class Rows>
__device__ __forceinline__ void four_turned(u32 (&to)[4], Rows rows, int lane) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(u32(__cvta_generic_to_shared(rows(lane)))));
}
__device__ __forceinline__ u32 pair(f16, float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ u32 pair(bf16, float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
#else
// `rows(lane)` is where the lane says that a row of a tile of 8 x 8 begins: lanes 8 i to 8 i + 7 say it for tile i.
template <class Rows>
inline void four_tiles(u32 (&to)[4], Rows rows, int lane) {
  for (int i = 0; i < 4; i++) {
    const T* row = rows(8 * i + lane / 4) + lane % 4 * 2;
    to[i] = row[0].bits | u32(row[1].bits) << 16;
  }
}
template <class Rows>
inline void four_turned(u32 (&to)[4], Rows rows, int lane) {
  for (int i = 0; i < 4; i++) {
    const int row = 8 * i + lane % 4 * 2;
    to[i] = rows(row)[lane / 4].bits | u32(rows(row + 1)[lane / 4].bits) << 16;
  }
}
inline u32 pair(f16, float low, float high) { return to_f16(low).bits | u32(to_f16(high).bits) << 16; }
inline u32 pair(bf16, float low, float high) { return to_bf16(low).bits | u32(to_bf16(high).bits) << 16; }
#endif

__device__ __forceinline__ void multiply(f16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_f16(d, a, b); }
__device__ __forceinline__ void multiply(bf16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_bf16(d, a, b); }

__device__ constexpr int padded(int size) { return (size + 15) / 16 * 16; }
constexpr int THREADS = 2 * ROWS;
constexpr int WIDTH = padded(SIZE), VALUES = padded(VALUE_SIZE), STRIDE = WIDTH + 8, VALUE_STRIDE = VALUES + 8;
// Rows are padded by 8 elements against bank conflicts.
constexpr int OWN_STRIDE = STRIDE > VALUE_STRIDE ? STRIDE : VALUE_STRIDE;
// On sm_90a the four warps of a block multiply their 64 rows at once by wgmma.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool GROUPED = ROWS == 64 && KEYS == 64 && SIZE % 64 == 0 && VALUE_SIZE % 64 == 0;
#else
constexpr bool GROUPED = false;
#endif
// If registers cannot hold the queries beside the sums, they are loaded again for each tile. Neither do they with wgmma:
// NVRTC 13.0 puts the weights into the same registers.
constexpr bool HELD = WIDTH <= 128 && VALUES <= 128 && !GROUPED;
constexpr int SHARED = int(sizeof(T)) * (ROWS * OWN_STRIDE + 2 * KEYS * (STRIDE + VALUE_STRIDE));

// The second factor of wgmma lies in shared memory in rows of 128 bytes, in which pieces of 16 bytes are exchanged by the number
// of the row (the 128-byte swizzle).
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Where in a tile of 64 rows an element of that row and column begins: one panel of 64 columns after another.
__device__ __forceinline__ int swizzled(int row, int column) {
  return column / 64 * 4096 + row * 64 + ((column % 64 / 8) ^ (row % 8)) * 8;
}

// The matrix descriptor: its address, 8192 bytes from 64 columns to the next 64, which there are not, 1024 bytes from 8 rows to
// the next 8, and the swizzle of 128 bytes.
__device__ __forceinline__ u64 descriptor(const T* tile) {
  const u64 address = u32(__cvta_generic_to_shared(tile)) >> 4 & 0x3fff;
  return address | u64(8192 >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

// d = a x b, or with what is there added: a is 64 x 16, in fragments, and b 16 x 64; turned, its rows are contiguous.
#define GROUP_MULTIPLY(TYPE) \
  template <bool TURNED> \
  __device__ __forceinline__ void group_multiply(TYPE, float (&d)[8][4], const u32 (&a)[4], u64 b, bool adds) { \
    asm volatile( \
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." #TYPE "." #TYPE " {" \
        "%0, %1, %2, %3, %4, %5, %6, %7, " \
        "%8, %9, %10, %11, %12, %13, %14, %15, " \
        "%16, %17, %18, %19, %20, %21, %22, %23, " \
        "%24, %25, %26, %27, %28, %29, %30, %31}, " \
        "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n" \
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
          "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
          "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
          "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
          "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), \
          "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
          "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
          "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(adds)), "n"(int(TURNED))); \
  }
GROUP_MULTIPLY(f16)
GROUP_MULTIPLY(bf16)
#undef GROUP_MULTIPLY

// Products that follow read what registers and shared memory have now.
__device__ __forceinline__ void group_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Waits for all products.
__device__ __forceinline__ void group_wait() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Keeps the compiler from moving what is in registers over the products that read or write it.
__device__ __forceinline__ void keep(float (&d)[8][4]) {
#pragma unroll
  for (int i = 0; i < 32; i++) asm volatile("" : "+f"(d[i / 4][i % 4]) :: "memory");
}
template <int N>
__device__ __forceinline__ void keep(u32 (&a)[N][4]) {
#pragma unroll
  for (int i = 0; i < 4 * N; i++) asm volatile("" : "+r"(a[i / 4][i % 4]) :: "memory");
}
// What this thread copied is there for products.
__device__ __forceinline__ void copies_for_group() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#else
__device__ __forceinline__ int swizzled(int, int) { return 0; }
__device__ __forceinline__ void copies_for_group() {}
#endif

// Copies tiles of keys or values, one after another: a thread has the pieces of 16 bytes of one column, a step of rows
// apart, so that each costs one instruction. Only where the threads have whole columns.
template <int SIZE, int PADDED, int STRIDE, i64 ROW>
struct Columns {
  static constexpr int CHUNKS = PADDED / 8, STEP = THREADS >= CHUNKS ? THREADS / CHUNKS : 1;
  static constexpr bool FIT = THREADS % CHUNKS == 0 && KEYS % STEP == 0;
  static_assert(!GROUPED || (FIT && STEP % 8 == 0), "a thread's rows have the same place among 8");
  const T* from;
  T* to;
  int row;
  bool inside;

  __device__ __forceinline__ Columns(const T* all, T* tiles) {
    const int column = int(threadIdx.x) % CHUNKS * 8;
    row = int(threadIdx.x) / CHUNKS;
    inside = SIZE == PADDED || column < SIZE;
    from = all + row * ROW + column;
    to = tiles + (GROUPED ? swizzled(row, column) : row * STRIDE + column);
  }

  // Begins to copy the next tile, of which so many rows are left.
  __device__ __forceinline__ void next(int stage, int left) {
#pragma unroll
    for (int i = 0; i < KEYS; i += STEP)
      copy_16(to + stage * KEYS * STRIDE + i * (GROUPED ? 64 : STRIDE), from + i * ROW, inside && (WHOLE_TILES || row + i < left));
    from += KEYS * ROW;
  }
};

struct Sums {
  float values[VALUES / 8][4];
  // The largest score of each of the two rows, and the sum of this lane's weights.
  float largest[2], total[2];
};

__device__ __forceinline__ void queries_of(u32 (&to)[4], const T* own, int step, int lane) {
  four_tiles(to, [&](int lane) { return own + lane % 16 * OWN_STRIDE + step * 16 + lane / 16 * 8; }, lane);
}

// The scores of a warp's queries for a tile of keys.
__device__ __forceinline__ void scores_of(
    float (&scores)[KEYS / 8][4], const u32 (&held)[HELD ? WIDTH / 16 : 1][4], const T* own, const T* keys, int lane) {
#pragma unroll
  for (int tile = 0; tile < KEYS / 8; tile++)
    for (int i = 0; i < 4; i++) scores[tile][i] = 0.0f;
#pragma unroll
  for (int step = 0; step < WIDTH / 16; step++) {
    u32 a[4];
    if (HELD) for (int i = 0; i < 4; i++) a[i] = held[HELD ? step : 0][i];
    else queries_of(a, own, step, lane);
#pragma unroll
    for (int tile = 0; tile < KEYS / 8; tile += 2) {
      u32 b[4];
      four_tiles(b, [&](int lane) {
        return keys + (tile * 8 + lane / 16 * 8 + lane % 8) * STRIDE + step * 16 + lane / 8 % 2 * 8;
      }, lane);
      const u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      multiply(T(), scores[tile], a, low);
      multiply(T(), scores[tile + 1], a, high);
    }
  }
}

// 2 to the power of what a score is above another, in the unit of weights.
__device__ __forceinline__ float weight_of(float score, float from) {
  return power_of_two(FOLDED ? fmaf(score, UNIT, -from * UNIT) : (score - from) * UNIT);
}

// Online softmax: makes weights of scores, and rescales the partial sums to the new largest score.
__device__ __forceinline__ void weigh(float (&scores)[KEYS / 8][4], Sums& sums) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float largest = sums.largest[half];
#pragma unroll
    for (int tile = 0; tile < KEYS / 8; tile++)
      largest = fmaxf(largest, fmaxf(scores[tile][2 * half], scores[tile][2 * half + 1]));
    largest = fmaxf(largest, exchange(largest, 1));
    largest = fmaxf(largest, exchange(largest, 2));
    // As long as all keys are hidden their weights are 0, and not NaN.
    const float from = largest == -infinite() ? 0.0f : largest;
    const float keep = weight_of(sums.largest[half], from);
    float total = sums.total[half] * keep;
#pragma unroll
    for (int tile = 0; tile < KEYS / 8; tile++)
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; i++) {
        scores[tile][i] = weight_of(scores[tile][i], from);
        total += scores[tile][i];
      }
    // After a few tiles the largest score is rarely a new one.
    if (keep != 1.0f)
#pragma unroll
      for (int tile = 0; tile < VALUES / 8; tile++) {
        sums.values[tile][2 * half] *= keep;
        sums.values[tile][2 * half + 1] *= keep;
      }
    sums.total[half] = total;
    sums.largest[half] = largest;
  }
}

// Adds the values of a tile, by the weights of a warp's queries.
__device__ __forceinline__ void add_values(const float (&weights)[KEYS / 8][4], Sums& sums, const T* values, int lane) {
#pragma unroll
  for (int step = 0; step < KEYS / 16; step++) {
    const float (&left)[4] = weights[2 * step], (&right)[4] = weights[2 * step + 1];
    const u32 a[4] = {pair(T(), left[0], left[1]), pair(T(), left[2], left[3]),
                      pair(T(), right[0], right[1]), pair(T(), right[2], right[3])};
#pragma unroll
    for (int tile = 0; tile < VALUES / 8; tile += 2) {
      u32 b[4];
      four_turned(b, [&](int lane) {
        return values + (step * 16 + lane % 16) * VALUE_STRIDE + tile * 8 + lane / 16 * 8;
      }, lane);
      const u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      multiply(T(), sums.values[tile], a, low);
      multiply(T(), sums.values[tile + 1], a, high);
    }
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The same for a group of warps. Templates, since they are for tiles of 64 keys only.
template <int TILES>
__device__ __forceinline__ void group_scores(float (&scores)[TILES][4], const T* own, const T* keys, int lane) {
  u32 a[WIDTH / 16][4];
#pragma unroll
  for (int step = 0; step < WIDTH / 16; step++) queries_of(a[step], own, step, lane);
  keep(a);
  group_begin();
#pragma unroll
  for (int step = 0; step < WIDTH / 16; step++)
    group_multiply<false>(T(), scores, a[step], descriptor(keys + step / 4 * 4096 + step % 4 * 16), step > 0);
  group_wait();
  keep(scores);
  keep(a);
}

template <int TILES>
__device__ __forceinline__ void group_values(const float (&weights)[TILES][4], Sums& sums, const T* values) {
  u32 a[TILES / 2][4];
#pragma unroll
  for (int step = 0; step < TILES / 2; step++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const float (&from)[4] = weights[2 * step + i / 2];
      a[step][i] = pair(T(), from[i % 2 * 2], from[i % 2 * 2 + 1]);
    }
  float (*panels)[8][4] = reinterpret_cast<float (*)[8][4]>(sums.values);
  keep(a);
#pragma unroll
  for (int panel = 0; panel < VALUES / 64; panel++) keep(panels[panel]);
  group_begin();
#pragma unroll
  for (int panel = 0; panel < VALUES / 64; panel++)
#pragma unroll
    for (int step = 0; step < TILES / 2; step++)
      group_multiply<true>(T(), panels[panel], a[step], descriptor(values + panel * 4096 + step * 16 * 64), true);
  group_wait();
#pragma unroll
  for (int panel = 0; panel < VALUES / 64; panel++) keep(panels[panel]);
  keep(a);
}
#else
template <int TILES>
__device__ __forceinline__ void group_scores(float (&)[TILES][4], const T*, const T*, int) {}
template <int TILES>
__device__ __forceinline__ void group_values(const float (&)[TILES][4], Sums&, const T*) {}
#endif

// Divides by the sums of weights and writes the rows, 16 bytes a thread, by way of the memory of the queries.
__device__ __forceinline__ void write(Sums& sums, T* own, T* all, T* y, int first, int queries, int keys, int lane) {
  __syncthreads();
#pragma unroll
  for (int half = 0; half < 2; half++) {
    float total = sums.total[half];
    total += exchange(total, 1);
    total += exchange(total, 2);
    const float factor = keys == 0 ? 0.0f : 1.0f / total;
    u32* row = reinterpret_cast<u32*>(own + (lane / 4 + 8 * half) * OWN_STRIDE) + lane % 4;
#pragma unroll
    for (int tile = 0; tile < VALUES / 8; tile++)
      row[tile * 4] = pair(T(), sums.values[tile][2 * half] * factor, sums.values[tile][2 * half + 1] * factor);
  }
  __syncthreads();
  constexpr int CHUNKS = VALUE_SIZE / 8;
#pragma unroll
  for (int begin = 0; begin < ROWS * CHUNKS; begin += THREADS) {
    const int chunk = begin + int(threadIdx.x), row = chunk / CHUNKS, column = chunk % CHUNKS * 8;
    if (ROWS * CHUNKS % THREADS != 0 && chunk >= ROWS * CHUNKS) break;
    if (first + row < queries)
      *reinterpret_cast<uint4*>(y + i64(first + row) * Y_ROW + column) =
          *reinterpret_cast<const uint4*>(all + row * OWN_STRIDE + column);
  }
}

__device__ __forceinline__ void attend(
    u8* shared, const T* q, const T* k, const T* v, const Mask* mask, T* y, int queries, int keys) {
  T* all = reinterpret_cast<T*>(shared);
  T* key_tiles = all + ROWS * OWN_STRIDE;
  T* value_tiles = key_tiles + 2 * KEYS * STRIDE;
  // Blocks with the most keys begin first.
  const int first = int(CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * ROWS;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, row = first + warp * 16 + lane / 4;
  T* own = all + warp * 16 * OWN_STRIDE;
  const int end = CAUSAL && first + ROWS < keys ? first + ROWS : keys;
  using KeyColumns = Columns<SIZE, WIDTH, STRIDE, K_ROW>;
  using ValueColumns = Columns<VALUE_SIZE, VALUES, VALUE_STRIDE, V_ROW>;
  KeyColumns some_keys(k, key_tiles);
  ValueColumns some_values(v, value_tiles);
  const auto fetch = [&](int tile) {
    const int stage = tile % 2;
    if (KeyColumns::FIT && ValueColumns::FIT) {
      some_keys.next(stage, keys - tile * KEYS);
      some_values.next(stage, keys - tile * KEYS);
      return;
    }
    copy_rows<KEYS, SIZE, WIDTH, STRIDE, THREADS>(key_tiles + stage * KEYS * STRIDE, k, K_ROW, tile * KEYS, keys);
    copy_rows<KEYS, VALUE_SIZE, VALUES, VALUE_STRIDE, THREADS>(
        value_tiles + stage * KEYS * VALUE_STRIDE, v, V_ROW, tile * KEYS, keys);
  };
  copy_rows<ROWS, SIZE, WIDTH, OWN_STRIDE, THREADS>(all, q, Q_ROW, first, queries);
  if (end > 0) fetch(0);
  Sums sums;
#pragma unroll
  for (int tile = 0; tile < VALUES / 8; tile++)
    for (int i = 0; i < 4; i++) sums.values[tile][i] = 0.0f;
  for (int half = 0; half < 2; half++) sums.largest[half] = -infinite(), sums.total[half] = 0.0f;
  u32 held[HELD ? WIDTH / 16 : 1][4];
  for (int tile = 0; tile * KEYS < end; tile++) {
    copies_are_there();
    copies_for_group();
    __syncthreads();
    if (HELD && tile == 0)
#pragma unroll
      for (int step = 0; step < WIDTH / 16; step++) queries_of(held[HELD ? step : 0], own, step, lane);
    if ((tile + 1) * KEYS < end) fetch(tile + 1);
    float scores[KEYS / 8][4];
    const T* tile_of_keys = key_tiles + tile % 2 * KEYS * STRIDE;
    if constexpr (GROUPED) group_scores(scores, own, tile_of_keys, lane);
    else scores_of(scores, held, own, tile_of_keys, lane);
#pragma unroll
    for (int part = 0; part < KEYS / 8; part++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int at = row + i / 2 * 8, key = tile * KEYS + part * 8 + lane % 4 * 2 + i % 2;
        scores[part][i] = masked(score_of(scores[part][i]), mask, at, key, queries, keys);
      }
    weigh(scores, sums);
    const T* tile_of_values = value_tiles + tile % 2 * KEYS * VALUE_STRIDE;
    if constexpr (GROUPED) group_values(scores, sums, tile_of_values);
    else add_values(scores, sums, tile_of_values, lane);
  }
  copies_are_there();
  write(sums, own, all, y, first, queries, keys, lane);
}
static_assert(SHARED == 46080, "the launch gives as much");

}

extern "C" __global__ void __launch_bounds__(128, 1) k0(
    const k0_parts::T* q, const k0_parts::T* k, const k0_parts::T* v, const k0_parts::Mask* mask, k0_parts::T* y, i64 queries, i64 keys) {
  BYOC_SHARED(shared);
  wait_for_earlier_kernels();
  const i64 batch = blockIdx.z, head = blockIdx.y, kv_head = head / 1;
  k0_parts::attend(
      shared,
      q + batch * queries * 768 + 0 + head * 64,
      k + batch * keys * 768 + 0 + kv_head * 64,
      v + batch * keys * 768 + 0 + kv_head * 64,
      mask + batch * 1 * keys,
      y + batch * queries * 768 + 0 + head * 64,
      int(queries), int(keys));
}
