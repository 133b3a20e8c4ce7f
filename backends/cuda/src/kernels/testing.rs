//! Runs kernels on the host, for tests: tensors of any type as f64, and a node with its values as a region.

use std::collections::HashMap;

use byoc_nvidia::build::{Generated, PRELUDE};
use byoc_nvidia::program::{Argument, Place};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::{Attribute, DType, Dim, Node, Region, Value, dim};
use fastrand::Rng;
use half::{bf16, f16};

/// What every symbol stands for.
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

/// What an element of that type holds of a number.
pub(super) fn rounded(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        DType::F32 => f64::from(value as f32),
        DType::U8 => f64::from(value as u8),
        DType::I8 => f64::from(value as i8),
        _ => value,
    }
}

/// Numbers around 0 as the type has them.
pub(super) fn random(dtype: DType, count: usize, rng: &mut Rng) -> Vec<f64> {
    let most = if dtype.size() == 1 { 100.0 } else { 1.0 };
    (0..count).map(|_| rounded(dtype, most * (2.0 * rng.f64() - 1.0))).collect()
}

fn buffer(dtype: DType, values: &[f64]) -> Buffer {
    let values = values.iter();
    match dtype {
        DType::F16 => Buffer::of(&values.map(|&value| f16::from_f64(value).to_bits()).collect::<Vec<_>>()),
        DType::BF16 => Buffer::of(&values.map(|&value| bf16::from_f64(value).to_bits()).collect::<Vec<_>>()),
        DType::F64 => Buffer::of(&values.copied().collect::<Vec<_>>()),
        DType::U8 => Buffer::of(&values.map(|&value| value as u8).collect::<Vec<_>>()),
        DType::I8 => Buffer::of(&values.map(|&value| value as i8).collect::<Vec<_>>()),
        _ => Buffer::of(&values.map(|&value| value as f32).collect::<Vec<_>>()),
    }
}

fn read(dtype: DType, buffer: &Buffer) -> Vec<f64> {
    match dtype {
        DType::F16 => buffer.read::<u16>().into_iter().map(|bits| f16::from_bits(bits).to_f64()).collect(),
        DType::BF16 => buffer.read::<u16>().into_iter().map(|bits| bf16::from_bits(bits).to_f64()).collect(),
        DType::F64 => buffer.read::<f64>(),
        DType::U8 => buffer.read::<u8>().into_iter().map(f64::from).collect(),
        DType::I8 => buffer.read::<i8>().into_iter().map(f64::from).collect(),
        _ => buffer.read::<f32>().into_iter().map(f64::from).collect(),
    }
}

/// Memory for a result that holds NaN, or -1.
fn room(dtype: DType, count: usize) -> Buffer {
    match dtype.size() {
        1 => Buffer::new::<u8>(count),
        2 => Buffer::new::<u16>(count),
        4 => Buffer::new::<f32>(count),
        _ => Buffer::new::<f64>(count),
    }
}

/// All kernels in one text.
pub(super) fn compiled(all: &[Generated]) -> Kernels {
    let texts: Vec<_> = all.iter().map(|generated| generated.text.as_str()).collect();
    Kernels::compile(&format!("{PRELUDE}\n{}", texts.join("\n")))
}

/// Runs a kernel on inputs, and gives the elements of its result.
pub(super) fn run(kernels: &Kernels, of: &Generated, dtype: DType, inputs: &[Vec<f64>], count: usize) -> Vec<f64> {
    let inputs: Vec<_> = inputs.iter().map(|values| buffer(dtype, values)).collect();
    let output = room(dtype, count);
    let launch = &of.launch;
    let parameter = |argument: &Argument| match argument {
        Argument::Pointer(Place::Input(at)) => Param::Buffer(&inputs[*at]),
        Argument::Pointer(Place::Output(0)) => Param::Buffer(&output),
        Argument::Size(dim) => Param::Size(size(dim) as i64),
        other => panic!("{other:?}"),
    };
    let parameters: Vec<_> = launch.arguments.iter().map(parameter).collect();
    let grid = [0, 1, 2].map(|axis| size(&launch.grid[axis]) as u32);
    kernels.launch(&launch.kernel, grid, launch.block, launch.shared, &parameters);
    read(dtype, &output)
}

/// Where a kernel of that many inputs finds them and its result.
pub(super) fn places(inputs: usize) -> Vec<Place> {
    (0..inputs).map(Place::Input).chain([Place::Output(0)]).collect()
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
pub(super) fn region(op: &str, values: &[(DType, &[usize])], attributes: &[(&str, Attribute)]) -> Region {
    let value = |(at, (dtype, shape)): (usize, &(DType, &[usize]))| Value {
        name: format!("v{at}"),
        dtype: *dtype,
        shape: shape.iter().map(|&size| Dim::Fixed(size)).collect(),
    };
    let inputs: Vec<_> = (0..values.len() - 1).collect();
    let node = Node {
        name: "node".into(),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(values.len() - 1)],
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    let values: Vec<_> = values.iter().enumerate().map(value).collect();
    Region { inputs, outputs: vec![values.len() - 1], values, nodes: vec![node], ..Region::default() }
}

/// Attributes as lists.
pub(super) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}
