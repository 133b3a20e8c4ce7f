// What kernels for a device need to be compiled for the host, where their producer's code runs as one thread that starts no
// barrier. Shared memory is an array; its addresses count from `shared_memory`.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

static unsigned char *shared_memory;
inline unsigned __cvta_generic_to_shared(void const *at) { return unsigned((unsigned char const *)at - shared_memory); }
#define CUTE_CVTA_GENERIC_TO_SHARED_ACTIVATED 1

#define BYOC_ON_CPU
#define BYOC_CPU_PRELUDE inline float float_of_bits(u32 bits) { return *(float *)&bits; }
inline float __shfl_xor_sync(unsigned, float, int);
inline void __syncthreads() {}
inline constexpr struct { int x; } threadIdx{1};
using std::min;
