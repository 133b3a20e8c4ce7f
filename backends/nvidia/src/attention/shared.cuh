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
