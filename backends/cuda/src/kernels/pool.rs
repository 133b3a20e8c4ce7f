//! `MaxPool` and `AveragePool` over one to three spatial axes, of tensors with channels first.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use byoc_dim as dim;
use byoc_nvidia::build::GeneratedKernel;
use byoc_nvidia::program::{Argument, BufferRef, Launch};
use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode, Region};

use super::window::{Window, shape};

const THREADS: u32 = 256;
/// Loops over windows of up to this size are unrolled.
const UNROLLED: usize = 64;

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PoolSpec {
    pub(crate) kind: Kind,
    pub(crate) dtype: DType,
    pub(crate) window: Window,
    /// Elements of the result.
    pub(crate) count: Dim,
}

/// The reduction of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its largest element.
    Maximum,
    /// The mean of its elements; padding may count as zeros.
    Mean { padding_counts: bool },
}

/// Reads a pooling.
pub(crate) fn read(region: &Region, node: &Node) -> Result<PoolSpec, Refusal> {
    let kind = match node.op.as_str() {
        "MaxPool" => Kind::Maximum,
        "AveragePool" => Kind::Mean { padding_counts: node.int("count_include_pad", 0) != 0 },
        _ => return Err(Refusal::new(RefusalCode::Other, format!("'{}' is not a pooling", node.name))),
    };
    if node.output(1).is_some() {
        let message = format!("'{}' outputs indices, which the kernel does not compute", node.name);
        return Err(Refusal::new(RefusalCode::Attribute, message));
    }
    let (Some(x), Some(y)) = (node.input(0), node.output(0)) else {
        return Err(Refusal::new(RefusalCode::Other, "a pooling needs an input"));
    };
    let dtype = region.values[x].dtype;
    let floats = [DType::F32, DType::F64, DType::F16, DType::BF16];
    let pooled = floats.contains(&dtype) || kind == Kind::Maximum && [DType::I8, DType::U8].contains(&dtype);
    if !pooled {
        let message = format!("'{}' is {dtype}, which poolings do not support", region.values[x].name);
        return Err(Refusal::new(RefusalCode::Type, message));
    }
    let window = Window::read(region, node, x, y, None)?;
    let count = dim::product(&region.values[y].shape).and_then(|count| count.to_dim());
    let count = count.map_err(|error| shape(error.to_string()))?;
    if dim::ceil_div(&count, &Dim::Fixed(THREADS as usize)).is_err() {
        return Err(shape(format!("'{}' has too many elements", region.values[y].name)));
    }
    Ok(PoolSpec { kind, dtype, window, count })
}

/// The kernel called `name`. Its arguments are the input and the result.
pub(crate) fn generate(spec: &PoolSpec, name: &str, at: &[BufferRef]) -> GeneratedKernel {
    let mut text = format!("namespace {name}_parts {{\n\n");
    text += &spec.window.constants();
    text += &constants(spec);
    text += include_str!("elements.cuh");
    text += include_str!("pool/pool.cuh");
    let count = spec.count.fixed();
    let parameter = if count.is_some() { "" } else { ", i64 count" };
    let given = count.map_or_else(|| "count".to_owned(), |count| count.to_string());
    let _ = write!(
        text,
        "}}\n\nextern \"C\" __global__ void __launch_bounds__({THREADS}) {name}(\n    \
         const {name}_parts::T* x, {name}_parts::T* y{parameter}) {{\n  wait_for_earlier_kernels();\n  {name}_parts::pool(x, y, {given});\n}}\n"
    );
    let mut arguments: Vec<_> = at.iter().map(|&place| Argument::Pointer(place)).collect();
    arguments.extend(count.is_none().then(|| Argument::Size(spec.count.clone())));
    let blocks = dim::ceil_div(&spec.count, &Dim::Fixed(THREADS as usize));
    let launch = Launch {
        cubin: 0,
        kernel: name.to_owned(),
        // `read` has checked the sizes.
        grid: [blocks.unwrap_or(Dim::Fixed(0)), Dim::Fixed(1), Dim::Fixed(1)],
        block: [THREADS, 1, 1],
        persistent: false,
        waits: true,
        shared: 0,
        arguments,
        nodes: Vec::new(),
        only: None,
    };
    GeneratedKernel { text, launch }
}

fn constants(spec: &PoolSpec) -> String {
    let (kind, sum, lowest) = match spec.dtype {
        DType::F64 => ("double", "double", "-double(float_of_bits(0x7f800000u))"),
        DType::F16 => ("f16", "float", "-float_of_bits(0x7f800000u)"),
        DType::BF16 => ("bf16", "float", "-float_of_bits(0x7f800000u)"),
        DType::I8 => ("i8", "int", "-128"),
        DType::U8 => ("u8", "int", "0"),
        _ => ("float", "float", "-float_of_bits(0x7f800000u)"),
    };
    let taps: usize = spec.window.kernel.iter().product();
    let mut text = format!(
        "using T = {kind};\nusing Sum = {sum};\n__device__ __forceinline__ Sum lowest() {{ return {lowest}; }}\n"
    );
    let _ = writeln!(text, "constexpr int THREADS = {THREADS}, UNROLL = {};", if taps <= UNROLLED { taps } else { 1 });
    let _ = writeln!(text, "constexpr bool MAXIMUM = {};", spec.kind == Kind::Maximum);
    let padding_counts = spec.kind == Kind::Mean { padding_counts: true };
    let _ = writeln!(text, "constexpr bool PADDING_COUNTS = {padding_counts};\n");
    text
}
