//! `Conv` over one to three spatial axes, channels first, with a fused epilogue.
//!
//! Groups with enough filters are computed as a tiled implicit GEMM (`tiled.cuh`), others directly, one element per thread
//! (`direct.cuh`). Sums are f32, and f32 is not rounded to TF32.

pub(crate) mod epilogue;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use byoc_dim as dim;
use byoc_nvidia::build::GeneratedKernel;
use byoc_nvidia::program::{Argument, BufferRef, Launch};
use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode, Region};

use super::window::{Window, shape};

/// Threads of a block, with one element each.
const THREADS: u32 = 256;
/// Groups of fewer filters are computed directly.
const FEW_FILTERS: usize = 8;
/// Loops over windows of up to this size are unrolled.
const UNROLLED: usize = 64;
/// Fewest blocks that keep a device busy: most have about as many multiprocessors.
const ENOUGH: usize = 128;

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConvSpec {
    pub(crate) dtype: DType,
    pub(crate) window: Window,
    /// Batch size.
    pub(crate) batch: Dim,
    pub(crate) groups: usize,
    /// Channels of the input in a group.
    pub(crate) depth: usize,
    /// Channels of the result in a group.
    pub(crate) filters: usize,
    /// Whether there is a bias.
    pub(crate) bias: bool,
    /// Whether there is a residual: a tensor of the shape of the result.
    pub(crate) residual: bool,
    pub(crate) activation: Activation,
}

/// The activation of each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activation {
    None,
    /// Numbers below 0 become 0.
    Relu,
    /// Numbers outside become these.
    Clip {
        low: f32,
        high: f32,
    },
}

/// A tile of filters by windows: its size, the part of a thread, and the step along the inner dimension.
#[derive(Clone, Copy)]
struct Tile {
    rows: usize,
    columns: usize,
    own_rows: usize,
    own_columns: usize,
    step: usize,
}

/// The largest first.
const TILES: [Tile; 5] = [
    Tile { rows: 128, columns: 128, own_rows: 8, own_columns: 8, step: 8 },
    Tile { rows: 64, columns: 128, own_rows: 8, own_columns: 8, step: 8 },
    Tile { rows: 64, columns: 64, own_rows: 8, own_columns: 4, step: 16 },
    Tile { rows: 32, columns: 64, own_rows: 4, own_columns: 4, step: 16 },
    Tile { rows: 32, columns: 32, own_rows: 4, own_columns: 4, step: 16 },
];

/// Reads a convolution.
pub(crate) fn read(region: &Region, node: &Node) -> Result<ConvSpec, Refusal> {
    let (Some(x), Some(w), Some(y)) = (node.input(0), node.input(1), node.output(0)) else {
        return Err(Refusal::new(RefusalCode::Other, "a convolution needs an input and weights"));
    };
    if node.op != "Conv" {
        return Err(Refusal::new(RefusalCode::Other, format!("'{}' is not a convolution", node.name)));
    }
    let dtype = region.values[x].dtype;
    if ![DType::F32, DType::F16, DType::BF16].contains(&dtype) {
        let message = format!("'{}' is {dtype}; supported are f32, f16 and bf16", region.values[x].name);
        return Err(Refusal::new(RefusalCode::Type, message));
    }
    let window = Window::read(region, node, x, y, Some(w))?;
    let fixed = |value: usize, axis: usize| {
        let value = &region.values[value];
        let unknown = || shape(format!("the channels of '{}' are not known", value.name));
        value.shape.get(axis).and_then(Dim::fixed).ok_or_else(unknown)
    };
    let groups = usize::try_from(node.int("group", 1)).unwrap_or(0);
    let (channels, filters, depth) = (fixed(x, 1)?, fixed(w, 0)?, fixed(w, 1)?);
    if groups == 0 || filters % groups != 0 || depth * groups != channels || groups > 65535 {
        return Err(shape(format!("'{}' has {groups} groups, which do not fit its channels", node.name)));
    }
    if filters == 0 || depth == 0 || window.positions() == 0 {
        return Err(shape(format!("'{}' has nothing to compute", node.name)));
    }
    let spec = ConvSpec {
        dtype,
        window,
        batch: region.values[x].shape[0].clone(),
        groups,
        depth,
        filters: filters / groups,
        bias: node.input(2).is_some(),
        residual: false,
        activation: Activation::None,
    };
    let too_large = |_| shape(format!("'{}' has too many elements", node.name));
    spec.launched().map_err(too_large)?;
    if spec.is_looked_up() && spec.depth.saturating_mul(spec.window.input.iter().product()) > i32::MAX as usize {
        return Err(shape(format!(
            "'{}' has more elements in the channels of a group than 32 bits can count",
            node.name
        )));
    }
    Ok(spec)
}

/// The kernel called `name`. Its arguments are the input, the weights, the bias and the residual if there are any, and the
/// result.
pub(crate) fn generate(spec: &ConvSpec, name: &str, at: &[BufferRef]) -> GeneratedKernel {
    // `read` has checked the sizes.
    let (windows, grid) = spec.launched().unwrap_or((Dim::Fixed(0), [const { Dim::Fixed(0) }; 3]));
    let threads = spec.threads();
    let mut text = format!("namespace {name}_parts {{\n\n");
    text += &spec.window.constants();
    text += &spec.constants();
    text += include_str!("elements.cuh");
    text += &activation(spec.activation);
    text += if spec.is_direct() { include_str!("conv/direct.cuh") } else { include_str!("conv/tiled.cuh") };
    let read = [("x", true), ("w", true), ("bias", spec.bias), ("residual", spec.residual)];
    let there = read.iter().filter(|(_, there)| *there);
    let mut parameters: Vec<_> = there.map(|(what, _)| format!("const {name}_parts::T* {what}")).collect();
    parameters.push(format!("{name}_parts::T* y"));
    parameters.extend(windows.fixed().is_none().then(|| "i64 windows".to_owned()));
    let or_none = |there: bool, name: &'static str| if there { name } else { "nullptr" };
    let given = windows.fixed().map_or_else(|| "windows".to_owned(), |windows| windows.to_string());
    let _ = write!(
        text,
        "}}\n\nextern \"C\" __global__ void __launch_bounds__({threads}, 1) {name}(\n    {}) {{\n  wait_for_earlier_kernels();\n  \
         {name}_parts::convolve(x, w, {}, {}, y, {given});\n}}\n",
        parameters.join(", "),
        or_none(spec.bias, "bias"),
        or_none(spec.residual, "residual"),
    );
    let mut arguments: Vec<_> = at.iter().map(|&place| Argument::Pointer(place)).collect();
    arguments.extend(windows.fixed().is_none().then(|| Argument::Size(windows.clone())));
    let launch = Launch {
        cubin: 0,
        kernel: name.to_owned(),
        grid,
        block: [threads, 1, 1],
        persistent: false,
        waits: true,
        shared: 0,
        arguments,
        nodes: Vec::new(),
        only: None,
    };
    GeneratedKernel { text, launch }
}

impl ConvSpec {
    fn is_direct(&self) -> bool {
        self.filters < FEW_FILTERS
    }

    /// Whether the offsets within a window come from a table, of 32 bits.
    fn is_looked_up(&self) -> bool {
        !self.is_direct() && !self.window.is_point()
    }

    /// The largest tile that makes enough blocks, or the smallest.
    fn tile(&self) -> Tile {
        let enough = |tile: &&Tile| {
            let windows = self.batch.fixed().unwrap_or(ENOUGH) * self.window.positions();
            let blocks = windows.div_ceil(tile.columns) * self.filters.div_ceil(tile.rows) * self.groups;
            blocks >= ENOUGH && (tile.rows == 32 || self.filters.next_multiple_of(tile.rows) < 2 * self.filters)
        };
        TILES.iter().find(enough).copied().unwrap_or(TILES[TILES.len() - 1])
    }

    fn threads(&self) -> u32 {
        let tile = self.tile();
        if self.is_direct() { THREADS } else { (tile.rows * tile.columns / tile.own_rows / tile.own_columns) as u32 }
    }

    /// The number of windows, and the grid.
    fn launched(&self) -> Result<(Dim, [Dim; 3]), dim::DimError> {
        let windows = dim::mul(&self.batch, &Dim::Fixed(self.window.positions()))?;
        if self.is_direct() {
            let count = dim::mul(&windows, &Dim::Fixed(self.groups * self.filters))?;
            let blocks = dim::ceil_div(&count, &Dim::Fixed(THREADS as usize))?;
            return Ok((windows, [blocks, Dim::Fixed(1), Dim::Fixed(1)]));
        }
        let tile = self.tile();
        let columns = dim::ceil_div(&windows, &Dim::Fixed(tile.columns))?;
        Ok((windows, [columns, Dim::Fixed(self.filters.div_ceil(tile.rows)), Dim::Fixed(self.groups)]))
    }

    fn constants(&self) -> String {
        let kind = match self.dtype {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            _ => "float",
        };
        let taps: usize = self.window.kernel.iter().product();
        let mut text = format!("using T = {kind};\n");
        let numbers = [
            ("GROUPS", self.groups),
            ("DEPTH", self.depth),
            ("FILTERS", self.filters),
            ("CHANNELS", self.groups * self.depth),
            ("INNER", self.depth * taps),
            ("POSITIONS", self.window.positions()),
        ];
        numbers.iter().for_each(|(name, number)| _ = writeln!(text, "constexpr int {name} = {number};"));
        if self.is_direct() {
            let unroll = if taps <= UNROLLED { taps } else { 1 };
            let _ = writeln!(text, "constexpr int THREADS = {THREADS}, UNROLL = {unroll};\n");
            return text;
        }
        let Tile { rows, columns, own_rows, own_columns, step } = self.tile();
        let _ = writeln!(text, "constexpr bool POINT = {};", self.window.is_point());
        let _ = writeln!(text, "constexpr int TILE_ROWS = {rows}, TILE_COLUMNS = {columns}, STEP = {step};");
        let _ = writeln!(text, "constexpr int OWN_ROWS = {own_rows}, OWN_COLUMNS = {own_columns};\n");
        text
    }
}

fn activation(activation: Activation) -> String {
    // NaN stays NaN.
    let body = match activation {
        Activation::None => "return sum;".to_owned(),
        Activation::Relu => "return sum < 0.0f ? 0.0f : sum;".to_owned(),
        Activation::Clip { low, high } => {
            let number = |number: f32| format!("float_of_bits(0x{:08x}u)", number.to_bits());
            let (low, high) = (number(low), number(high));
            format!("const float y = sum < {low} ? {low} : sum;\n  return y > {high} ? {high} : y;")
        }
    };
    format!("__device__ __forceinline__ float activation(float sum) {{\n  {body}\n}}\n\n")
}
