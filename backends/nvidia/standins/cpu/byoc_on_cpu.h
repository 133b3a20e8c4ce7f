/* Lets the text of a generated kernel compile as C++ for the host, and run there: g++ -DBYOC_ON_CPU -include this.
 *
 * The text begins with the prelude (backends/nvidia/src/prelude.cuh), which leaves device-only instructions to this header. The
 * threads of a block are fibers on one thread of the host (threads.h), and the blocks run one after another: the order is
 * a legal one of a device, so right kernels compute the right thing. What it shows beyond results: memory of a block that
 * is read before it is written (it holds NaN), writes past the end of dynamic shared memory, and a barrier or an
 * exchange that some threads do not reach. What it cannot show: races that this order hides, the memory model, and speed.
 *
 * The text ends with BYOC_KERNEL(name) for each kernel (libnvrtc/compile.c appends it). */

#ifndef BYOC_ON_CPU_H
#define BYOC_ON_CPU_H

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDACC_RTC__ 1

/* Function-local variables that begin as zero: shared.ld collects them, and nothing else here is one. */
#define __shared__ static

#include "threads.h"
#include "vectors.h"
#include "functions.h"
#include "warp.h"
#include "launch.h"

#define BYOC_SHARED(name) unsigned char *const name = byoc_cpu::dynamic_shared

/* Where the prelude has its types: what it has of a device's instructions. */
#define BYOC_CPU_PRELUDE                                                                                                   \
    static inline float to_float(f16 x) { return byoc_cpu_f16_value(x.bits); }                                             \
    static inline f16 to_f16(float x) { return {byoc_cpu_f16_bits(x)}; }                                                   \
    static inline f16 to_f16(double x) { return {byoc_cpu_f16_bits(x)}; }                                                  \
    static inline bf16 to_bf16(float x) { return {byoc_cpu_bf16_bits(x)}; }                                                \
    static inline float float_of_bits(u32 bits) { return __uint_as_float(bits); }                                          \
    static inline float exchange(float x, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, x, mask); }                      \
    static inline double exchange(double x, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, x, mask); }                    \
    static inline i64 exchange(i64 x, int mask) { return __shfl_xor_sync(0xFFFFFFFFu, x, mask); }                          \
    template <class T> static inline void store_four(T *to, const T (&x)[4]) {                                             \
        for (int i = 0; i < 4; i++) to[i] = x[i];                                                                          \
    }                                                                                                                      \
    static inline float byoc_cpu_of_f16(u16 bits) { return byoc_cpu_f16_value(bits); }                                     \
    static inline float byoc_cpu_of_bf16(u16 bits) { return __uint_as_float(u32(bits) << 16); }                            \
    static inline void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {                                      \
        byoc_cpu_mma(d, a, b, byoc_cpu_of_f16);                                                                            \
    }                                                                                                                      \
    static inline void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {                                     \
        byoc_cpu_mma(d, a, b, byoc_cpu_of_bf16);                                                                           \
    }

#endif
