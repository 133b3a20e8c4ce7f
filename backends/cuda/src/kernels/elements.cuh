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

