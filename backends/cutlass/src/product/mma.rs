//! Generates the GEMM kernel by CUTLASS 2, for sm_80 and newer: `mma.sync` on operands that `cp.async` copies to shared
//! memory.

use byoc_nvidia::build::PRELUDE;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Error};

use super::Sizes;
use super::choice::Tile;
use super::emit::{activation, element, offsets, order, parameters};
use super::gemm::Gemm;

/// The headers of the kernel.
pub(crate) const PARTS: &[&str] = &[
    PRELUDE,
    include_str!("../kernels/epilogue.cuh"),
    include_str!("../kernels/tile_order.cuh"),
    include_str!("../kernels/product.cuh"),
];

/// Bytes of memory for its compilation: 350 MB were measured.
pub(crate) const MEMORY: u64 = 400 << 20;

/// The kernel's text. Its parameters are x, w, the bias and c if there are any, y, and the sizes.
pub(crate) fn text(
    symbol: &str,
    gemm: &Gemm,
    tile: Tile,
    places: &[BufferRef],
    sizes: &mut Sizes,
) -> Result<String, Error> {
    let Tile { m, n, k, warp: (warp_m, warp_n), stages, .. } = tile;
    let Gemm { n: size_n, k: size_k, alpha, x, w, .. } = gemm;
    let vector = gemm.bias.map_or(Ok("float"), element)?;
    let element = element(gemm.dtype)?;
    let [align_x, align_w, align_y] = gemm.alignment();
    let (order_x, order_w) = (order(x), order(w));
    let instruction = if gemm.dtype == DType::F32 { 8 } else { 16 };
    let (activation, source) = (activation(gemm.activation), gemm.beta.is_some());
    let (rows, offsets) = (sizes.text(&gemm.m), offsets(gemm, sizes));
    let factors = ["x", "w"].map(|name| format!("{element} const *{name}"));
    let parameters = parameters(gemm, factors, places, sizes)?;
    let columns = size_n.div_ceil(n as usize);
    let bias = if gemm.bias.is_some() { "bias" } else { "nullptr" };
    let (c, beta) = (if source { "c + at_y" } else { "nullptr" }, gemm.beta.unwrap_or(0.0));
    Ok(format!(
        "namespace {symbol}_ {{
using End = Finish<{element}, {vector}, {align_y}, {activation}, {source}>;
using Kernel = Product<{element}, {order_x}, {align_x}, {order_w}, {align_w}, GemmShape<{m}, {n}, {k}>,
                       GemmShape<{warp_m}, {warp_n}, {k}>, GemmShape<16, 8, {instruction}>, {stages}, End>;
}}
extern \"C\" __device__ int {symbol}_launch_info[] = {{
    {symbol}_::Kernel::kThreads, (int)sizeof({symbol}_::Kernel::Shared), {m}, {n}, {k}}};

extern \"C\" __global__ void __launch_bounds__({symbol}_::Kernel::kThreads)
{symbol}({parameters}) {{
  using namespace {symbol}_;
  BYOC_SHARED(memory);
  wait_for_earlier_kernels();
  int const m = int({rows}), n = {size_n}, k = {size_k}, rows = (m + {m} - 1) / {m}, columns = {columns};
  [[maybe_unused]] long long const z = blockIdx.x / (rows * columns);
{offsets}
  TileCoord const at = tile_coord(blockIdx.x % (rows * columns), rows, columns);
  Kernel::tile(*reinterpret_cast<Kernel::Shared *>(memory), End({alpha:?}f, {beta:?}f), m, n, k, at,
               x + at_x, {}, w + at_w, {}, {bias}, {c}, y + at_y);
}}
",
        x.distance, w.distance
    ))
}
