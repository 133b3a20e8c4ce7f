// The epilogue of a GEMM: y = activation(alpha * product + beta * c + bias), in float.
#include "cutlass/array.h"
#include "cutlass/numeric_conversion.h"

struct Same {
  __device__ static float of(float x) { return x; }
};
// NaN stays NaN.
struct Relu {
  __device__ static float of(float x) { return x < 0.0f ? 0.0f : x; }
};
// Both are within 2 units of the last place. What is less than normal counts as 0.
#ifndef BYOC_ON_CPU
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float two_to(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
inline float reciprocal(float x) { return 1.0f / x; }
inline float two_to(float x) { return exp2f(x); }
#endif

// 0.5 x (1 + erf(x / sqrt(2))), for which CUDA's erff takes almost twice the instructions, as
// max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, with erfc by 7.1.26 of Abramowitz and Stegun: at most 4e-7 off, and less than half a
// unit of f16 where |x| < 4. The coefficients are halved. |x| is limited so that nothing infinite is multiplied with 0; a NaN
// stays, by the power.
struct GeluErf {
  __device__ static float of(float x) {
    float const size = fminf(fabsf(x), 30.0f), t = reciprocal(fmaf(size, 0.23164189f, 1.0f));
    float tail = fmaf(t, 0.530702715f, -0.726576014f);
    tail = fmaf(t, tail, 0.710706871f);
    tail = fmaf(t, tail, -0.142248368f);
    tail = fmaf(t, tail, 0.127414796f);
    return fmaf(-size * t * tail, two_to(x * x * -0.72134752f), fmaxf(x, 0.0f));
  }
};
// x times the sigmoid of 2 sqrt(2 / pi) (x + 0.044715 x^3), which is 0.5 x (1 + tanh(...)); the constants are for powers of 2.
struct GeluTanh {
  __device__ static float of(float x) {
    return x * reciprocal(1.0f + two_to(x * fmaf(x * x, -0.10294324f, -2.3022082f)));
  }
};
struct Silu {
  __device__ static float of(float x) { return x * reciprocal(1.0f + two_to(x * -1.44269504f)); }
};

// An output operator in the form that CUTLASS's EpilogueWithBroadcast asks for.
template <class Element, class Vector, int Width, class Activation, bool Source>
struct Finish {
  using ElementOutput = Element;
  using ElementC = Element;
  using ElementZ = Element;
  using ElementT = Element;
  using ElementAccumulator = float;
  using ElementCompute = float;
  using ElementVector = Vector;
  static int const kElementsPerAccess = Width;
  static int const kCount = Width;
  static bool const kIsSingleSource = true;
  static bool const kStoreZ = true;
  static bool const kStoreT = false;
  using Floats = cutlass::Array<float, Width>;
  using Elements = cutlass::Array<Element, Width>;
  struct Params {};

  float alpha, beta;
  __device__ Finish(float alpha, float beta) : alpha(alpha), beta(beta) {}
  __device__ bool is_source_needed() const { return Source; }
  __device__ void set_k_partition(int, int) {}

  __device__ void operator()(Elements &z, Elements &, Floats const &product, Elements const &c,
                             Floats const &bias) const {
    Floats wide = cutlass::NumericArrayConverter<float, Element, Width>()(c), result;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Width; ++i) result[i] = Activation::of(alpha * product[i] + (beta * wide[i] + bias[i]));
    z = cutlass::NumericArrayConverter<Element, float, Width>()(result);
  }
  __device__ void operator()(Elements &z, Elements &, Floats const &product, Floats const &bias) const {
    Floats result;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < Width; ++i) result[i] = Activation::of(alpha * product[i] + bias[i]);
    z = cutlass::NumericArrayConverter<Element, float, Width>()(result);
  }
};
