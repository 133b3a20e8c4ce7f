// A stand-in for CUTLASS's header of this name, for kernels that run on the host (standins/cpu): the parts that generated
// sources name. 16-bit types are those of the prelude before it.

#pragma once

#define NAN __builtin_nanf("")

#define CUTLASS_HOST_DEVICE inline
#define CUTLASS_DEVICE inline
#define CUTLASS_PRAGMA_UNROLL

namespace cutlass {

using half_t = f16;
using bfloat16_t = bf16;

inline float standin_widen(float x) { return x; }
inline float standin_widen(f16 x) { return to_float(x); }
inline float standin_widen(bf16 x) { return to_float(x); }
inline void standin_narrow(float x, float &y) { y = x; }
inline void standin_narrow(float x, f16 &y) { y = to_f16(x); }
inline void standin_narrow(float x, bf16 &y) { y = to_bf16(x); }

template <class T, int N> struct Array {
  T at[N];
  T &operator[](int i) { return at[i]; }
  T const &operator[](int i) const { return at[i]; }
};

template <class T, int N> struct alignas(N * sizeof(T)) AlignedArray : Array<T, N> {};

template <class To, class From, int N> struct NumericArrayConverter {
  Array<To, N> operator()(Array<From, N> const &from) const {
    Array<To, N> to;
    for (int i = 0; i < N; ++i) standin_narrow(standin_widen(from[i]), to[i]);
    return to;
  }
};

namespace gemm {
template <int M, int N, int K> struct GemmShape {
  static const int kM = M, kN = N, kK = K;
};
namespace threadblock {
template <int> struct GemmIdentityThreadblockSwizzle {};
} // namespace threadblock
} // namespace gemm

namespace arch {
struct OpClassTensorOp {};
struct OpMultiplyAdd {};
struct Sm80 {};
// Elsewhere than at a multiple of their size, bytes are not written.
template <class T, int Bytes> void global_store(T const &from, void *to, bool guard) {
  if (guard && (unsigned long long)to % Bytes == 0) __builtin_memcpy(to, &from, Bytes);
}
} // namespace arch

} // namespace cutlass
