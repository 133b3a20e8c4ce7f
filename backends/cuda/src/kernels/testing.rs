//! Runs kernels on the host, for tests: tensors of any type as f64, and a node with its values as a region.

use std::collections::HashMap;

use byoc_dim as dim;
use byoc_nvidia::build::{GeneratedKernel, PRELUDE};
use byoc_nvidia::program::{Argument, BufferRef};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{RegionBuilder, Rng, Tensor, decode, encode};
use byoc_plugin_api::{Attribute, DType, Dim, Region};

/// The value of every symbol.
pub(super) const SYMBOL: usize = 3;

/// The size in a run.
pub(super) fn size(of: &Dim) -> usize {
    match of {
        Dim::Fixed(size) => *size,
        Dim::Symbolic(text) => {
            dim::eval(text, &HashMap::from([("n".to_owned(), SYMBOL)])).expect("its only symbol is n")
        }
    }
}

/// Numbers around 0 as the type has them.
pub(super) fn random(dtype: DType, count: usize, rng: &mut Rng) -> Vec<f64> {
    let most = if dtype.unpacked_bytes() == 1 { 100.0 } else { 1.0 };
    Tensor::random((dtype, [count]), -most..most, rng).numbers()
}

/// All kernels in one text.
pub(super) fn compiled(all: &[GeneratedKernel]) -> Kernels {
    let texts: Vec<_> = all.iter().map(|generated| generated.text.as_str()).collect();
    Kernels::compile(&format!("{PRELUDE}\n{}", texts.join("\n")))
}

/// Runs a kernel on inputs, and gives the elements of its result.
pub(super) fn run(
    kernels: &Kernels,
    of: &GeneratedKernel,
    dtype: DType,
    inputs: &[Vec<f64>],
    count: usize,
) -> Vec<f64> {
    let inputs: Vec<_> = inputs.iter().map(|values| Buffer::of(&encode(dtype, values))).collect();
    let output = Buffer::new::<u8>(count * dtype.unpacked_bytes());
    let launch = &of.launch;
    let parameter = |argument: &Argument| match argument {
        Argument::Pointer(BufferRef::Input(at)) => Param::Buffer(&inputs[*at]),
        Argument::Pointer(BufferRef::Output(0)) => Param::Buffer(&output),
        Argument::Size(dim) => Param::Size(size(dim) as i64),
        other => panic!("{other:?}"),
    };
    let parameters: Vec<_> = launch.arguments.iter().map(parameter).collect();
    let grid = [0, 1, 2].map(|axis| size(&launch.grid[axis]) as u32);
    kernels.launch(&launch.kernel, grid, launch.block, launch.shared, &parameters);
    decode(dtype, &output.read::<u8>())
}

/// Where a kernel of that many inputs finds them and its result.
pub(super) fn places(inputs: usize) -> Vec<BufferRef> {
    (0..inputs).map(BufferRef::Input).chain([BufferRef::Output(0)]).collect()
}

/// The largest difference, relative where numbers are above 1. Infinite where only one of two is NaN.
pub(super) fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let one = |(&found, &expected): (&f64, &f64)| match (found.is_nan(), expected.is_nan()) {
        (true, true) => 0.0,
        (false, false) if found == expected => 0.0,
        (false, false) => (found - expected).abs() / expected.abs().max(1.0),
        _ => f64::INFINITY,
    };
    found.iter().zip(expected).map(one).fold(0.0, f64::max)
}

/// A region of one node: types and shapes of its inputs and of its result, whose index is the last one.
pub(super) fn build(op: &str, values: &[(DType, &[usize])], attributes: &[(&str, Attribute)]) -> RegionBuilder {
    let mut build = RegionBuilder::new("cuda");
    let (result, operands) = values.split_last().expect("there is a result");
    let inputs: Vec<_> = operands.iter().map(|&ty| build.input(ty)).collect();
    let result = build.node(op, &inputs, *result, attributes);
    build.with(&[result])
}

/// The region alone.
pub(super) fn region(op: &str, values: &[(DType, &[usize])], attributes: &[(&str, Attribute)]) -> Region {
    build(op, values, attributes).region
}

/// Attributes as lists.
pub(super) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}
