// A stand-in for CUTLASS's header of this name: the convolution by loops, with the epilogue that is its argument.
//
// What it shows: sizes, addresses, layouts, the grid and the epilogue of a generated source; that channels are as many as
// the alignment asks for, and that filters are counted as the iterator does: with too few iterations pixels of the filter are
// left out, and what breaks another rule comes out as NaN. What it cannot show: that CUTLASS has such a kernel at all, and
// in which order it adds.

#pragma once

#include "cutlass/cutlass.h"

namespace cutlass {

namespace layout {
struct TensorNHWC {
  int n, h, w, c;
  struct Extent {
    int n, h, w, c;
  };
  static TensorNHWC packed(Extent extent) { return {extent.n, extent.h, extent.w, extent.c}; }
  bool is(int n_, int h_, int w_, int c_) const { return n == n_ && h == h_ && w == w_ && c == c_; }
};
} // namespace layout

namespace conv {

enum class Operator { kFprop };
enum class Mode { kCrossCorrelation, kConvolution };
enum class IteratorAlgorithm { kOptimized, kFixedChannels };
enum class StrideSupport { kStrided };
enum class SplitKMode { kSerial };

struct Conv2dProblemSize {
  int N, H, W, C, K, R, S, P, Q, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  Mode mode;
  Conv2dProblemSize(int N, int H, int W, int C, int K, int R, int S, int P, int Q, int pad_h, int pad_w, int stride_h,
                    int stride_w, int dilation_h, int dilation_w, Mode mode)
      : N(N), H(H), W(W), C(C), K(K), R(R), S(S), P(P), Q(Q), pad_h(pad_h), pad_w(pad_w), stride_h(stride_h),
        stride_w(stride_w), dilation_h(dilation_h), dilation_w(dilation_w), mode(mode) {}
};

// Tiles of `depth` along the dimension that is summed over: over all of the filter where the channels are few, over the
// channels of each of its pixels otherwise.
inline int standin_tiles(int depth, Conv2dProblemSize const &size, bool few) {
  int pixels = size.R * size.S;
  if (!few) return pixels * ((size.C + depth - 1) / depth);
  return (pixels + depth / size.C - 1) / (depth / size.C);
}
inline int implicit_gemm_k_iterations(Operator, int depth, Conv2dProblemSize const &size, IteratorAlgorithm algorithm) {
  return standin_tiles(depth, size, algorithm == IteratorAlgorithm::kFixedChannels);
}

namespace kernel {

template <class Element, class LayoutX, class ElementW, class LayoutW, class ElementY, class LayoutY, class Sum, class Class,
          class Arch, class Tile, class Warp, class Instruction, class Finish, class Swizzle, int STAGES, class Math,
          IteratorAlgorithm ITERATOR, StrideSupport STRIDES, int ALIGN_X, int ALIGN_W>
struct DefaultConv2dFpropWithBroadcast {
  struct Tensor {
    Element *data;
    layout::TensorNHWC layout;
  };
  struct Kernel {
    static const bool FEW = ITERATOR == IteratorAlgorithm::kFixedChannels;
    static const int kThreadCount = Tile::kM / Warp::kM * (Tile::kN / Warp::kN) * 32;
    struct SharedStorage {
      Element tiles[STAGES * (Tile::kM + Tile::kN) * Tile::kK];
    };
    struct Arguments {
      Conv2dProblemSize size;
      Tensor x, w, c, y;
      typename Finish::Params finish;
      void *vector;
      Arguments(Conv2dProblemSize const &size, Tensor x, Tensor w, Tensor c, Tensor y, typename Finish::Params finish,
                SplitKMode, void *vector)
          : size(size), x(x), w(w), c(c), y(y), finish(finish), vector(vector) {}
    };
    struct Params : Arguments {
      int gemm_k_iterations;
      // As in CUTLASS, this counts for one of the iterators.
      explicit Params(Arguments const &from) : Arguments(from), gemm_k_iterations(standin_tiles(Tile::kK, from.size, false)) {}
    };

    static bool is_right(Params const &p) {
      Conv2dProblemSize const &s = p.size;
      bool layouts = p.x.layout.is(s.N, s.H, s.W, s.C) && p.w.layout.is(s.K, s.R, s.S, s.C) &&
                     p.c.layout.is(s.N, s.P, s.Q, s.K) && p.y.layout.is(s.N, s.P, s.Q, s.K);
      bool channels = (FEW ? s.C == ALIGN_X : s.C % ALIGN_X == 0) && ALIGN_X == ALIGN_W;
      bool aligned = ((unsigned long)p.x.data | (unsigned long)p.w.data) % (ALIGN_X * sizeof(Element)) == 0 &&
                     ((unsigned long)p.y.data | (unsigned long)p.c.data | (unsigned long)p.vector) % 16 == 0;
      return layouts && channels && aligned && s.K % Finish::kElementsPerAccess == 0 && s.R <= 32 && s.S <= 32 &&
             s.mode == Mode::kCrossCorrelation && blockDim.x == kThreadCount;
    }

    static float sum(Params const &p, int n, int row, int column, int k) {
      Conv2dProblemSize const &s = p.size;
      int depth = FEW ? 1 : (s.C + Tile::kK - 1) / Tile::kK, each = FEW ? Tile::kK / s.C : 1;
      int pixels = min(s.R * s.S, p.gemm_k_iterations / depth * each);
      float total = 0;
      for (int pixel = 0; pixel < pixels; ++pixel) {
        int y = row * s.stride_h - s.pad_h + pixel / s.S * s.dilation_h;
        int x = column * s.stride_w - s.pad_w + pixel % s.S * s.dilation_w;
        if (y < 0 || y >= s.H || x < 0 || x >= s.W) continue;
        Element const *image = p.x.data + (((long long)n * s.H + y) * s.W + x) * s.C;
        Element const *filter = p.w.data + ((long long)k * s.R * s.S + pixel) * s.C;
        for (int c = 0; c < s.C; ++c) total += standin_widen(image[c]) * standin_widen(filter[c]);
      }
      return total;
    }

    void operator()(Params const &p, SharedStorage &) {
      const int WIDTH = Finish::kElementsPerAccess;
      Conv2dProblemSize const &s = p.size;
      Finish finish(p.finish);
      const bool right = is_right(p);
      for (int row = threadIdx.x; row < Tile::kM; row += blockDim.x) {
        int m = blockIdx.x * Tile::kM + row;
        if (m >= s.N * s.P * s.Q) return;
        for (int first = blockIdx.y * Tile::kN; first < min(s.K, int(blockIdx.y + 1) * Tile::kN); first += WIDTH) {
          long long at = (long long)m * s.K + first;
          Array<float, WIDTH> sums, bias;
          for (int i = 0; i < WIDTH; ++i) {
            bias[i] = p.vector ? ((float *)p.vector)[first + i] : 0.f;
            sums[i] = right ? sum(p, m / s.Q / s.P, m / s.Q % s.P, m % s.Q, first + i) : __builtin_nanf("");
          }
          Array<Element, WIDTH> y, none, source;
          if (finish.is_source_needed()) {
            for (int i = 0; i < WIDTH; ++i) source[i] = p.c.data[at + i];
            finish(y, none, sums, source, bias);
          } else {
            finish(y, none, sums, bias);
          }
          for (int i = 0; i < WIDTH; ++i) p.y.data[at + i] = y[i];
        }
      }
    }
  };
};

} // namespace kernel
} // namespace conv
} // namespace cutlass
