//! Generates the GEMM kernel for sm_90a: `wgmma` on operands that TMA copies to shared memory.

use byoc_dim as dim;
use byoc_nvidia::build::PRELUDE;
use byoc_nvidia::program::{Argument, BufferRef, TensorMap};
use byoc_plugin_api::{DType, Dim, Error};

use super::Sizes;
use super::choice::{Schedule, Tile};
use super::emit::{activation, element, indices, offset_y, parameters};
use super::gemm::{Batch, Gemm, Order};

/// The headers of the kernel.
pub(crate) const PARTS: &[&str] = &[
    PRELUDE,
    include_str!("../kernels/epilogue.cuh"),
    include_str!("../kernels/tile_order.cuh"),
    WRITE,
    include_str!("../kernels/hopper.cuh"),
];

/// The header that writes its results.
pub(crate) const WRITE: &str = include_str!("../kernels/write.cuh");

/// Bytes of memory for its compilation: 0.9 GB were measured.
pub(crate) const MEMORY: u64 = 1000 << 20;

/// Elements of a row that one swizzle covers: 128 bytes of 16 bits.
const DEEP: usize = 64;

/// Whether the kernel supports a product: 16 bits, rows and strides that are multiples of 16 bytes for TMA, and no more
/// dimensions than a tensor map has.
pub(crate) fn takes(gemm: &Gemm) -> bool {
    let batches = |step: fn(&Batch) -> &Dim| gemm.batch.iter().filter(|batch| *step(batch) != Dim::Fixed(0)).count();
    gemm.dtype != DType::F32
        && gemm.alignment() == [8; 3]
        && gemm.x.order == Order::Rows
        && batches(|batch| &batch.x) <= 2
        && batches(|batch| &batch.w) <= 2
}

/// The kernel's text. Its parameters are the maps of x and w, the bias and c if there are any, y, and the sizes.
pub(crate) fn text(
    symbol: &str,
    gemm: &Gemm,
    tile: Tile,
    places: &[BufferRef],
    sizes: &mut Sizes,
) -> Result<String, Error> {
    let (&Gemm { n, k, alpha, .. }, Tile { m: tile_m, n: tile_n, .. }) = (gemm, tile);
    let (columns, splits) = (n.div_ceil(tile_n as usize), tile.blocks());
    let (rows, at_y) = (sizes.text(&gemm.m), offset_y(gemm, sizes));
    let (at_x, at_w) = (beyond(gemm, sizes, |batch| &batch.x), beyond(gemm, sizes, |batch| &batch.w));
    let counts: String = gemm.batch.iter().map(|batch| format!(" * {}", sizes.text(&batch.count))).collect();
    let map = |name: &str| format!("__grid_constant__ const Map {name}");
    let parameters = parameters(gemm, ["x", "w"].map(map), places, sizes)?;
    let bias = if gemm.bias.is_some() { "bias" } else { "nullptr" };
    let (c, beta) = (if gemm.beta.is_some() { "c + at_y" } else { "nullptr" }, gemm.beta.unwrap_or(0.0));
    let begins = begins(tile, places.get(1));
    let cluster = if splits > 1 { &format!("__cluster_dims__({splits}, 1, 1) ") } else { "" };
    // Registers are reallocated from producers to consumers: 168 of each of 384 threads are 40 and twice 232.
    let (fewer, more) = match tile.groups() {
        2 => ("    cutlass::arch::warpgroup_reg_dealloc<40>();\n", "    cutlass::arch::warpgroup_reg_alloc<232>();\n"),
        _ => ("", ""),
    };
    let kernel_type = kernel_type(symbol, gemm, tile)?;
    Ok(format!(
        "{kernel_type}
extern \"C\" __global__ void {cluster}__launch_bounds__({symbol}_::Kernel::kThreads, 1)
{symbol}({parameters}) {{
  using namespace {symbol}_;
  BYOC_SHARED(memory);
  int const m = int({rows}), n = {n}, k = {k}, rows = (m + {tile_m} - 1) / {tile_m}, columns = {columns};
  long long const tiles = (long long)rows * columns{counts};
  unsigned const place = blockIdx.x / {splits}, stride = gridDim.x / {splits}, rank = blockIdx.x % {splits};
  int const first = Kernel::part(k, rank), last = Kernel::part(k, rank + 1);
  Kernel kernel(memory, x, w);
  if (threadIdx.x < 128) {{
{fewer}    if (threadIdx.x >= 32 || !cute::elect_one_sync()) return;
    int step = 0, begun = 0;
    bool waited = false;
    for (long long tile = place; tile < tiles; tile += stride) {{
      [[maybe_unused]] int const z = int(tile / (rows * columns));
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      auto copy_x = [&](uint64_t *full, Element *to, int a, int b) {{ Kernel::copy(x, full, to, a, b{at_x}); }};
      auto copy_w = [&](uint64_t *full, Element *to, int a, int b) {{ Kernel::copy(w, full, to, a, b{at_w}); }};
      if (!waited) {{
{begins}        wait_for_earlier_kernels();
        waited = true;
      }}
      kernel.bring(step, begun, at.m * {tile_m}, at.n * {tile_n}, first, last, copy_x, copy_w);
    }}
  }} else {{
{more}    wait_for_earlier_kernels();
    int const turn = (threadIdx.x / 128 - 1) % Kernel::kTurns;
    int step = turn * (last - first);
    for (long long tile = place + turn * (long long)stride; tile < tiles; tile += Kernel::kTurns * (long long)stride) {{
      [[maybe_unused]] long long const z = tile / (rows * columns);
      TileCoord const at = tile_coord(int(tile % (rows * columns)), rows, columns);
      {at_y}
      kernel.multiply(step, last - first, at.m * {tile_m}, at.n * {tile_n}, m, n, {alpha:?}f, {beta:?}f, {bias}, {c}, y + at_y);
      step += (Kernel::kTurns - 1) * (last - first);
    }}
  }}
}}
"
    ))
}

/// The statement that loads the first of w before other kernels are waited for, if none of them computes it.
fn begins(tile: Tile, w: Option<&BufferRef>) -> String {
    match w {
        Some(BufferRef::Constant(_)) => {
            format!("        begun = kernel.begin(at.n * {}, first, last, copy_w);\n", tile.n)
        }
        _ => String::new(),
    }
}

/// The type of the kernel, and what the host has to know of it.
fn kernel_type(symbol: &str, gemm: &Gemm, tile: Tile) -> Result<String, Error> {
    let Tile { m: tile_m, n: tile_n, k: deep, stages, schedule, .. } = tile;
    let vector = gemm.bias.map_or(Ok("float"), element)?;
    let element = element(gemm.dtype)?;
    let instruction = if gemm.dtype == DType::F16 { "F32F16F16" } else { "F32BF16BF16" };
    let (by_rows, major) = if gemm.w.order == Order::Rows { (true, "MN") } else { (false, "K") };
    let (activation, source) = (activation(gemm.activation), gemm.beta.is_some());
    let (groups, ping_pong, splits) = (tile.groups(), schedule == Schedule::PingPong, tile.blocks());
    Ok(format!(
        "namespace {symbol}_ {{
using Element = {element};
using Atom = cute::SM90_64x{tile_n}x16_{instruction}_SS<cute::GMMA::Major::K, cute::GMMA::Major::{major}>;
using Kernel = Hopper<Element, Atom, {groups}, {ping_pong}, {splits}, {tile_m}, {tile_n}, {stages}, {by_rows}, {vector},
                      {activation}, {source}>;
}}
extern \"C\" __device__ int {symbol}_launch_info[] = {{
    {symbol}_::Kernel::kThreads, {symbol}_::Kernel::kShared, {tile_m}, {tile_n}, {deep}}};
"
    ))
}

/// The batch coordinates of a copy, the innermost first.
fn beyond(gemm: &Gemm, sizes: &mut Sizes, step: fn(&Batch) -> &Dim) -> String {
    let indices = indices(gemm, sizes);
    let moving = indices.iter().zip(&gemm.batch).rev().filter(|(_, batch)| *step(batch) != Dim::Fixed(0));
    moving.map(|(index, _)| format!(", int({index})")).collect()
}

/// The tensor maps of x and w. One copy brings a tile of x; of w a tile if column-major, or 64 of its columns if row-major.
pub(crate) fn maps(gemm: &Gemm, tile: Tile, x: BufferRef, w: BufferRef) -> Result<[Argument; 2], Error> {
    let (n, k, deep) = (Dim::Fixed(gemm.n), Dim::Fixed(gemm.k), DEEP as u32);
    let of_x = map(gemm, x, [k.clone(), gemm.m.clone()], gemm.x.distance, [deep, tile.m], |batch| &batch.x)?;
    let of_w = match gemm.w.order {
        Order::Rows => map(gemm, w, [n, k], gemm.w.distance, [deep, deep], |batch| &batch.w)?,
        Order::Columns => map(gemm, w, [k, n], gemm.w.distance, [deep, tile.n], |batch| &batch.w)?,
    };
    Ok([of_x, of_w].map(Argument::TensorMap))
}

fn map(
    gemm: &Gemm,
    at: BufferRef,
    sizes: [Dim; 2],
    distance: usize,
    block: [u32; 2],
    step: fn(&Batch) -> &Dim,
) -> Result<TensorMap, Error> {
    let bytes = Dim::Fixed(gemm.dtype.unpacked_bytes());
    let (mut sizes, mut block) = (sizes.to_vec(), block.to_vec());
    let mut strides = vec![Dim::Fixed(distance * gemm.dtype.unpacked_bytes())];
    for batch in gemm.batch.iter().rev().filter(|batch| *step(batch) != Dim::Fixed(0)) {
        sizes.push(batch.count.clone());
        strides.push(dim::mul(step(batch), &bytes)?);
        block.push(1);
    }
    Ok(TensorMap { at, dtype: gemm.dtype, sizes, strides, block, swizzle: 128 })
}
