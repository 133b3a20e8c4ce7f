//! Generates a convolution kernel: CUTLASS's template for a type, tile, alignment and epilogue. Sizes are arguments, so that
//! the layers of a model share kernels.

use byoc_nvidia::build::{PRELUDE, Source};
use byoc_nvidia::compile::Needs;
use byoc_plugin_api::DType;

use super::net::{Act, Conv, Image};
use super::tile::Tile;

/// The parameters of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fprop {
    pub(crate) dtype: DType,
    pub(crate) tile: Tile,
    /// Elements of one access of the images.
    alignment: usize,
    /// Whether an image has no more channels than that, so that a tile covers several pixels of the filter.
    few: bool,
    before: Option<Act>,
    residual: bool,
    after: Option<Act>,
}

/// Bytes of memory for the compilation, NVRTC's 110 MB included, and for each kernel: 400 MB were measured for seven.
const MEMORY: u64 = 360 << 20;
const MEMORY_EACH: u64 = 10 << 20;

const TEMPLATE: &str = include_str!("fprop.cuh");

impl Fprop {
    /// The source for a convolution.
    pub(crate) fn of(conv: &Conv, dtype: DType, x: &Image, y: &Image) -> Fprop {
        let unit = 16 / dtype.unpacked_bytes();
        let few = x.has_few_channels(dtype);
        let tile = if few { Tile::of_few_channels() } else { Tile::of(y.batch.fixed(), y.pixels(), y.pitch) };
        let (alignment, residual) = (x.pitch.min(unit), conv.residual.is_some());
        Fprop { dtype, tile, alignment, few, before: conv.before, residual, after: conv.after }
    }

    /// The kernel's name, unique for its parameters.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("conv_{}_{}", self.dtype, self.tile);
        if self.few {
            name += &format!("_few{}", self.alignment);
        }
        let acts = [(self.before, ""), (self.after, "then_")];
        let [before, after] =
            acts.map(|(act, what)| act.map(|act| format!("_{what}{}", act.name())).unwrap_or_default());
        name + &before + if self.residual { "_add" } else { "" } + &after
    }

    /// The kernel, its launch info, and the kernel that makes its arguments.
    pub(super) fn text(&self) -> String {
        let (element, instruction) = match self.dtype {
            DType::F16 => ("cutlass::half_t", 16),
            DType::BF16 => ("cutlass::bfloat16_t", 16),
            _ => ("float", 8),
        };
        let Tile { block: [m, n], warp: [warp_m, warp_n], stages, .. } = self.tile;
        let depth = self.tile.depth(self.dtype);
        let iterator = if self.few { "kFixedChannels" } else { "kOptimized" };
        let act = |act: Option<Act>| act.map_or_else(|| "x".to_owned(), Act::text);
        let (before, after) = (act(self.before), act(self.after));
        let (name, launch_info, init) = (self.name(), launch_info(&self.name()), init(&self.name()));
        let Fprop { alignment, residual, .. } = self;
        let sizes = [
            "n",
            "h",
            "w",
            "c",
            "k",
            "r",
            "s",
            "p",
            "q",
            "top",
            "left",
            "stride_h",
            "stride_w",
            "dilation_h",
            "dilation_w",
        ];
        let (declared, given) =
            (sizes.map(|size| format!("i64 {size}")).join(", "), sizes.map(|size| format!("int({size})")).join(", "));
        format!(
            "
struct acts_of_{name} {{
  CUTLASS_HOST_DEVICE static float before(float x) {{ return {before}; }}
  CUTLASS_HOST_DEVICE static float after(float x) {{ return {after}; }}
}};
using of_{name} = Conv<{element}, GemmShape<{m}, {n}, {depth}>, GemmShape<{warp_m}, {warp_n}, {depth}>,
    GemmShape<16, 8, {instruction}>, {stages}, {alignment}, IteratorAlgorithm::{iterator}, acts_of_{name}, {residual}>;
extern \"C\" __device__ int {launch_info}[3] = {{of_{name}::THREADS, int(sizeof(of_{name}::Shared)), int(sizeof(of_{name}::Params))}};
extern \"C\" __global__ void __launch_bounds__(of_{name}::THREADS) {name}(__grid_constant__ of_{name}::Params const params) {{
  BYOC_SHARED(memory);
  of_{name}::run(params, memory);
}}
extern \"C\" __global__ void {init}({element} *x, {element} *weights, {element} *residual, {element} *y,
    {declared},
    of_{name}::Params *made) {{
  of_{name}::init(x, weights, residual, y, {given}, made);
}}
"
        )
    }
}

/// The global with the launch info: threads of a block, bytes of shared memory, bytes of arguments.
pub(crate) fn launch_info(kernel: &str) -> String {
    format!("{kernel}_launch_info")
}

/// The name of the kernel of one thread that makes the arguments.
pub(crate) fn init(kernel: &str) -> String {
    format!("{kernel}_init")
}

/// One source for several kernels: they share the headers, most of the compilation, and the names, most of a cubin.
pub(crate) fn source(kernels: &[Fprop]) -> Source {
    let texts: String = kernels.iter().map(Fprop::text).collect();
    let needs = Needs { cutlass: true, ..Needs::default() };
    let memory = MEMORY + MEMORY_EACH * kernels.len() as u64;
    Source { name: "convolutions".into(), text: format!("{PRELUDE}{TEMPLATE}{texts}"), needs, memory }
}
