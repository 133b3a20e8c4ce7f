
#include "cutlass/cutlass.h"
#include "cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h"

// Convolutions of images in NHWC by implicit GEMM: CUTLASS's template with our epilogue and launch code.

using cutlass::gemm::GemmShape;
using cutlass::conv::IteratorAlgorithm;
using Nhwc = cutlass::layout::TensorNHWC;

// The epilogue for 16 bytes of results: adds a bias, and a residual if there is one. Acts has the functions applied `before`
// the residual is added, and `after`.
template <class Element, class Acts, bool RESIDUAL> struct Finish {
  static int const kElementsPerAccess = 16 / int(sizeof(Element));
  static int const kCount = kElementsPerAccess;
  static bool const kIsSingleSource = true;
  static bool const kIsHeavy = false;
  static bool const kStoreZ = true;
  static bool const kStoreT = false;
  using ElementOutput = Element;
  using ElementD = Element;
  using ElementC = Element;
  using ElementZ = Element;
  using ElementT = Element;
  using ElementAccumulator = float;
  using ElementCompute = float;
  using ElementVector = float;
  using Floats = cutlass::Array<float, kCount>;
  using Elements = cutlass::Array<Element, kCount>;
  using FragmentAccumulator = Floats;
  using FragmentCompute = Floats;
  using FragmentC = Elements;
  using FragmentZ = Elements;
  using FragmentT = Elements;
  struct Params {};

  CUTLASS_HOST_DEVICE Finish(Params const &) {}
  CUTLASS_HOST_DEVICE bool is_source_needed() const { return RESIDUAL; }
  CUTLASS_HOST_DEVICE void set_k_partition(int, int) {}

  CUTLASS_HOST_DEVICE void operator()(Elements &y, Elements &, Floats const &sum, Elements const &residual,
                                      Floats const &bias) const {
    Floats values = cutlass::NumericArrayConverter<float, Element, kCount>()(residual);
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) values[i] = Acts::after(Acts::before(sum[i] + bias[i]) + values[i]);
    y = cutlass::NumericArrayConverter<Element, float, kCount>()(values);
  }
  CUTLASS_HOST_DEVICE void operator()(Elements &y, Elements &, Floats const &sum, Floats const &bias) const {
    Floats values;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kCount; ++i) values[i] = Acts::before(sum[i] + bias[i]);
    y = cutlass::NumericArrayConverter<Element, float, kCount>()(values);
  }
};

template <class Element, class Tile, class Warp, class Instruction, int STAGES, int ALIGNMENT, IteratorAlgorithm ITERATOR,
          class Acts, bool RESIDUAL>
struct Conv {
  using Kernel = typename cutlass::conv::kernel::DefaultConv2dFpropWithBroadcast<
      Element, Nhwc, Element, Nhwc, Element, Nhwc, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Tile, Warp,
      Instruction, Finish<Element, Acts, RESIDUAL>, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>, STAGES,
      cutlass::arch::OpMultiplyAdd, ITERATOR, cutlass::conv::StrideSupport::kStrided, ALIGNMENT, ALIGNMENT>::Kernel;
  using Params = typename Kernel::Params;
  using Shared = typename Kernel::SharedStorage;
  static int const THREADS = Kernel::kThreadCount;

  __device__ static void run(Params const &params, void *shared) { Kernel()(params, *static_cast<Shared *>(shared)); }

  // Lowers the arguments, which CUTLASS usually does on the host. The biases follow the weights.
  __device__ static void init(Element *x, Element *weights, Element *residual, Element *y, int n, int h, int w, int c,
                              int k, int r, int s, int p, int q, int top, int left, int stride_h, int stride_w,
                              int dilation_h, int dilation_w, Params *made) {
    cutlass::conv::Conv2dProblemSize size(n, h, w, c, k, r, s, p, q, top, left, stride_h, stride_w, dilation_h,
                                          dilation_w, cutlass::conv::Mode::kCrossCorrelation);
    Nhwc out = Nhwc::packed({n, p, q, k});
    typename Kernel::Arguments arguments(size, {x, Nhwc::packed({n, h, w, c})}, {weights, Nhwc::packed({k, r, s, c})},
                                         {residual, out}, {y, out}, {}, cutlass::conv::SplitKMode::kSerial,
                                         weights + i64(k) * r * s * c);
    Params params(arguments);
    // The constructor counts as if every pixel of the filter took a tile of K, which is so for one of the iterators only.
    params.gemm_k_iterations = cutlass::conv::implicit_gemm_k_iterations(cutlass::conv::Operator::kFprop, Tile::kK, size,
                                                                         ITERATOR);
    *made = params;
  }
};
