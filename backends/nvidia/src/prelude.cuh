// What generated kernels share. It includes no header: NVRTC alone compiles it. With BYOC_ON_CPU the device's own
// instructions are left out, and BYOC_CPU_PRELUDE supplies them for kernels that run on the host (standins/cpu).

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

#ifdef BYOC_ON_CPU
BYOC_CPU_PRELUDE
inline void wait_for_earlier_kernels() {}
#else

// Programmatic dependent launch, of sm_90 and newer: a kernel that is launched so may begin before those in front of it have
// ended. It waits here until they have and what they wrote is there, and then lets the one behind it begin. Every thread that
// reads or writes memory calls it before. A pointer to what another kernel writes is not `const *__restrict__` in the entry of a
// kernel: the compiler may load from there before the wait.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Dynamic shared memory, from its first byte.
#define BYOC_SHARED(name) extern __shared__ __align__(1024) u8 name[]

__device__ __forceinline__ float to_float(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ f16 to_f16(float x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
__device__ __forceinline__ f16 to_f16(double x) {
  f16 y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
  return y;
}
__device__ __forceinline__ bf16 to_bf16(float x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
__device__ __forceinline__ float float_of_bits(u32 bits) { return __uint_as_float(bits); }
// The value that the lane of number `lane ^ mask` has. All 32 lanes call it.
__device__ __forceinline__ float exchange(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
__device__ __forceinline__ double exchange(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
__device__ __forceinline__ i64 exchange(i64 x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

// Writes four numbers at once, to global memory at a multiple of their size: as a structure they are written one by one.
__device__ __forceinline__ void store_four(float* to, const float (&x)[4]) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :: "l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}
template <class Half>
__device__ __forceinline__ void store_four(Half* to, const Half (&x)[4]) {
  asm volatile("st.global.v4.u16 [%0], {%1, %2, %3, %4};"
               :: "l"(to), "h"(x[0].bits), "h"(x[1].bits), "h"(x[2].bits), "h"(x[3].bits) : "memory");
}

// d += a x b for a whole warp on its matrix unit (sm_80 and newer): `a` is 16 x 16, `b` 16 x 8, sums are float.
// All 32 lanes call it. With g = lane / 4 and t = lane % 4, and the lower index in the lower half of a register,
//   a[0]: row g,     columns 2t, 2t + 1        b[0]: rows 2t, 2t + 1, column g
//   a[1]: row g + 8, columns 2t, 2t + 1        b[1]: rows 2t + 8, 2t + 9, column g
//   a[2]: row g,     columns 2t + 8, 2t + 9    d[0], d[1]: row g,     columns 2t, 2t + 1
//   a[3]: row g + 8, columns 2t + 8, 2t + 9    d[2], d[3]: row g + 8, columns 2t, 2t + 1
// (PTX ISA, matrix fragments for mma.m16n8k16 with floating point types.)
__device__ __forceinline__ void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

__device__ __forceinline__ float to_float(bf16 x) { return float_of_bits(u32(x.bits) << 16); }
