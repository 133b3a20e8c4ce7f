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
struct GeluErf {
  __device__ static float of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
};
// Division is x times the reciprocal: within 2 units of the last place, and 0 where the divisor is above 2^126 and the
// quotient below 2^-119.
//
// x times the sigmoid of 2 sqrt(2 / pi) (x + 0.044715 x^3), which is 0.5 x (1 + tanh(...)).
struct GeluTanh {
  __device__ static float of(float x) {
    float twice = 1.5957691216057308f * (x + 0.044715f * x * x * x);
    return __fdividef(x, 1.0f + __expf(-twice));
  }
};
struct Silu {
  __device__ static float of(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
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
