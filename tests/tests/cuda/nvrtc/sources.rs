//! CUDA C++ that the tests compile.

/// Exports numbers, and has arguments of 12 bytes.
pub(crate) const PLAIN: &str = r#"
extern "C" __device__ int k_launch_info[3] = {7, -8, 9};

extern "C" __global__ void k_plain(float *values, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) values[at] += 1;
}
"#;

/// Has an array of 256 bytes that registers cannot hold, 40 bytes of shared memory, and a function that is not inlined.
pub(crate) const BUSY: &str = r#"
extern "C" __device__ __noinline__ float called(float x) { return x * x + 1; }

extern "C" __global__ void k_busy(float *values, int count) {
    __shared__ float shared[10];
    float local[64];
    for (int i = 0; i < 64; i++) local[i] = values[i * count];
    for (int i = 0; i < count; i++) local[(i * 7 + count) & 63] += local[i & 63];
    shared[threadIdx.x % 10] = called(local[count & 63]);
    __syncthreads();
    for (int i = 0; i < 64; i++) values[i] = local[i] + shared[3];
}
"#;

/// In half precision.
pub(crate) const HALF: &str = r#"
#include <cuda_fp16.h>

extern "C" __global__ void k_half(__half2 *values) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    values[at] = __hmax2(__hfma2(values[at], __float2half2_rn(2), __float2half2_rn(1)), __float2half2_rn(0));
}
"#;

/// `d = relu(a x w^T + bias)` on CUTLASS 2.x: `a` of `m` by `k`, `w` of `n` by `k`, in half precision. The parameters are
/// built in the kernel, and a launch needs no more than the exported numbers: threads, bytes of shared memory, tile.
pub(crate) const CUTLASS: &str = r#"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/linear_combination_relu.h"
#include "cutlass/gemm/kernel/default_gemm.h"

using Half = cutlass::half_t;
using Rows = cutlass::layout::RowMajor;
using Tile = cutlass::gemm::GemmShape<128, 128, 32>;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>;
using Relu = cutlass::epilogue::thread::LinearCombinationRelu<
    Half, 8, float, float, cutlass::epilogue::thread::ScaleType::NoBetaScaling>;
using Gemm = cutlass::gemm::kernel::DefaultGemm<
    Half, Rows, 8, Half, cutlass::layout::ColumnMajor, 8, Half, Rows, float, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, Tile, cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>, Relu,
    Swizzle, 4, false, cutlass::arch::OpMultiplyAdd>::GemmKernel;

extern "C" __device__ int k_launch_info[5] = {
    Gemm::kThreadCount, (int)sizeof(Gemm::SharedStorage), Tile::kM, Tile::kN, Tile::kK};

extern "C" __global__ void __launch_bounds__(Gemm::kThreadCount, 1)
k_gemm(Half *a, Half *w, Half *bias, Half *d, int m, int n, int k) {
    extern __shared__ __align__(16) char shared[];
    cutlass::gemm::GemmCoord size(m, n, k);
    auto grid = Swizzle().get_tiled_shape(size, {Tile::kM, Tile::kN, Tile::kK}, 1);
    Gemm::Params params(size, grid, {a, Rows(k)}, {w, cutlass::layout::ColumnMajor(k)}, {bias, Rows(0)}, {d, Rows(n)},
                        Relu::Params(1.0f), nullptr);
    Gemm()(params, *reinterpret_cast<Gemm::SharedStorage *>(shared));
}
"#;
