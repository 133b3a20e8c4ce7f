//! Whole regions run on the host, as they would on a device: the generated sources, compiled by g++ with a stand-in for
//! CUTLASS's template, launched as the code says; against loops over the tensors of the model.

use std::collections::HashMap;

use byoc_nvidia::program::{Argument, Launch, Made, Place};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::{Attribute, Constants, DType, Dim, TensorView, contiguous_strides, dim};
use half::{bf16, f16};

use super::build::{Build, ints, mobile, residual};
use super::reference;
use crate::conv::lower::lower;
use crate::conv::pack;
use crate::conv::program::{Draft, draft};

const CUTLASS: &str = include_str!("../../../../nvidia/standins/cutlass/cutlass/cutlass.h");
const FPROP: &str =
    include_str!("../../../../nvidia/standins/cutlass/cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h");

/// A kernel that writes what a cubin exports of a convolution.
fn tell(name: &str) -> String {
    format!(
        "extern \"C\" __global__ void {name}_tell(int *to) {{ for (int i = 0; i < 3; ++i) to[i] = {name}_facts[i]; }}\n"
    )
}

/// Images that the batch has, where its size is not known when the region is compiled.
const BATCH: usize = 3;

fn kernels(text: &str) -> Kernels {
    let include = |name: &str| format!("#include \"cutlass/{name}\"");
    let fprop = FPROP.replace(&include("cutlass.h"), "").replace("#pragma once", "");
    let marks = text.split("int ").skip(1).filter_map(|rest| rest.split_once("_facts[3]")).map(|(name, _)| tell(name));
    let tells: String = marks.collect();
    let text = text
        .replace(&include("cutlass.h"), &CUTLASS.replace("#pragma once", ""))
        .replace(&include("conv/kernel/default_conv2d_fprop_with_broadcast.h"), &fprop);
    Kernels::compile(&(text + &tells))
}

/// Memory of a region.
struct Memory {
    symbols: HashMap<String, usize>,
    inputs: Vec<Buffer>,
    outputs: Vec<Buffer>,
    constants: Vec<Buffer>,
    scratch: Vec<Buffer>,
}

impl Memory {
    fn at(&self, place: Place) -> &Buffer {
        match place {
            Place::Input(at) => &self.inputs[at],
            Place::Output(at) => &self.outputs[at],
            Place::Constant(at) => &self.constants[at],
            Place::Scratch(at) => &self.scratch[at],
        }
    }

    fn size(&self, dim: &Dim) -> usize {
        dim::eval_shape(std::slice::from_ref(dim), &self.symbols).expect("the size is known")[0]
    }

    fn param(&self, argument: &Argument) -> Param<'_> {
        match argument {
            Argument::Pointer(place) => Param::Buffer(self.at(*place)),
            Argument::Size(dim) => Param::Size(self.size(dim) as i64),
            other => panic!("{other:?}"),
        }
    }

    fn launch(&self, kernels: &Kernels, launch: &Launch) {
        let grid = launch.grid.each_ref().map(|dim| self.size(dim) as u32);
        if let [Argument::Made(Made { kernel, arguments, .. })] = launch.arguments.as_slice() {
            let facts = Buffer::new::<i32>(3);
            kernels.launch(&format!("{}_tell", launch.kernel), [1; 3], [1; 3], 0, &[Param::Buffer(&facts)]);
            let [threads, shared, bytes] = facts.read::<i32>()[..] else { panic!("three numbers") };
            let made = Buffer::new::<u8>(bytes as usize);
            let mut parameters: Vec<_> = arguments.iter().map(|argument| self.param(argument)).collect();
            parameters.push(Param::Buffer(&made));
            kernels.launch(kernel, [1; 3], [1; 3], 0, &parameters);
            let made = made.read::<u8>();
            kernels.launch(&launch.kernel, grid, [threads as u32, 1, 1], shared as u32, &[Param::Bytes(&made)]);
        } else {
            let parameters: Vec<_> = launch.arguments.iter().map(|argument| self.param(argument)).collect();
            kernels.launch(&launch.kernel, grid, launch.block, launch.shared, &parameters);
        }
    }
}

fn rounded(dtype: DType, x: f32) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::BF16 => bf16::from_f32(x).to_f32(),
        _ => x,
    }
}

fn buffer(dtype: DType, data: &[f32]) -> Buffer {
    match dtype {
        DType::F16 => Buffer::of(&data.iter().map(|&x| f16::from_f32(x).to_bits()).collect::<Vec<_>>()),
        DType::BF16 => Buffer::of(&data.iter().map(|&x| bf16::from_f32(x).to_bits()).collect::<Vec<_>>()),
        _ => Buffer::of(data),
    }
}

fn numbers(dtype: DType, buffer: &Buffer) -> Vec<f32> {
    match dtype {
        DType::F16 => buffer.read::<u16>().into_iter().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::BF16 => buffer.read::<u16>().into_iter().map(|bits| bf16::from_bits(bits).to_f32()).collect(),
        _ => buffer.read(),
    }
}

/// The packed weights of a region.
fn constants(build: &Build) -> Vec<Buffer> {
    let net = lower(&build.region, true).expect("it is taken");
    let strides: Vec<_> = build.constants.iter().map(|(_, shape, _)| contiguous_strides(shape)).collect();
    let entries = build.constants.iter().zip(&strides).map(|((id, shape, data), strides)| {
        (*id, TensorView::from_slice(data, shape, strides).expect("the shape fits"))
    });
    let given = Constants::new(entries.collect());
    let packed = |conv| {
        let mut bytes = Vec::new();
        let view = |id| Ok(*given.get(id).expect("it is there"));
        pack::pack(conv, net.dtype, &view, &mut bytes).expect("it can be packed");
        assert_eq!(bytes.len(), pack::elements(conv, net.dtype) * net.dtype.size());
        Buffer::of(&bytes)
    };
    net.convolutions().map(packed).collect()
}

/// Runs a region and compares its results. The largest difference may be that part of the largest number.
fn compare(build: &mut Build, dtype: DType, part: f64) {
    let net = lower(&build.region, true).expect("it is taken");
    let Draft { program, sources, scratch, launches } = draft(&net, &build.region).expect("it can be drafted");
    let count = |build: &Build, value: usize| reference::shape(&build.region, value, BATCH).iter().product::<usize>();
    let sizes: Vec<_> = build.region.inputs.iter().map(|&input| count(build, input)).collect();
    let data: Vec<Vec<f32>> =
        sizes.iter().map(|&size| build.random(size).into_iter().map(|x| rounded(dtype, x)).collect()).collect();
    let mut memory = Memory {
        symbols: HashMap::from([("batch".to_owned(), BATCH)]),
        inputs: data.iter().map(|data| buffer(dtype, data)).collect(),
        outputs: build
            .region
            .outputs
            .iter()
            .map(|&value| buffer(dtype, &vec![f32::NAN; count(build, value)]))
            .collect(),
        constants: constants(build),
        scratch: Vec::new(),
    };
    assert_eq!(program.constants.len(), memory.constants.len());
    memory.scratch = scratch.iter().map(|bytes| Buffer::new::<u8>(memory.size(bytes))).collect();
    let compiled: Vec<_> = sources.iter().map(|source| kernels(&source.text)).collect();
    launches.iter().for_each(|launch| memory.launch(&compiled[launch.cubin], launch));
    let expected = reference::run(build, BATCH, &data);
    for (position, output) in build.region.outputs.iter().enumerate() {
        let (found, expected) = (numbers(dtype, &memory.outputs[position]), &expected[output].data);
        let largest = expected.iter().fold(0f64, |most, x| most.max(x.abs()));
        for (at, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let off = (f64::from(found) - expected).abs();
            assert!(off <= part * largest, "{dtype} output {position} at {at}: {found}, not {expected}, of {largest}");
        }
    }
}

/// Each type, with how far off its rounding may be after several layers.
const TYPES: [(DType, f64); 3] = [(DType::F32, 2e-6), (DType::F16, 4e-3), (DType::BF16, 3e-2)];

#[test]
fn a_residual_network() {
    for (dtype, part) in TYPES {
        compare(&mut residual(dtype, Dim::Symbolic("batch".into()), 30), dtype, part);
    }
}

#[test]
fn a_mobile_network() {
    for (dtype, part) in TYPES {
        compare(&mut mobile(dtype, 2.into(), 13), dtype, part);
    }
}

/// Windows with steps, gaps and borders that differ in both directions.
#[test]
fn odd_windows() {
    let mut build = Build::new(DType::F16);
    let x = build.input(&[2, 11, 17, 12].map(Dim::from));
    let weights = build.weights(&[20, 11, 3, 2]);
    let window = [("strides", ints(&[2, 1])), ("dilations", ints(&[2, 3])), ("pads", ints(&[1, 2, 3, 0]))];
    let y = build.node("Conv", &[x, weights], &window, [2, 20, 9, 11].map(Dim::from).to_vec());
    let y = build.same("LeakyRelu", &[y]);
    let kernel = ("kernel_shape", ints(&[3, 2]));
    let most = build.node(
        "MaxPool",
        &[y],
        &[kernel.clone(), ("dilations", ints(&[3, 1]))],
        [2, 20, 3, 10].map(Dim::from).to_vec(),
    );
    let window = [kernel, ("pads", ints(&[1, 0, 1, 1])), ("count_include_pad", Attribute::Int(1))];
    let mean = build.node("AveragePool", &[y], &window, [2, 20, 9, 11].map(Dim::from).to_vec());
    compare(&mut build.with(&[most, mean]), DType::F16, 2e-3);
}

/// Sums with images from outside, one of which the region gives back changed; and a result that is read on.
#[test]
fn sums_and_results_within() {
    let mut build = Build::new(DType::BF16);
    let (x, other) = (build.input(&[2, 8, 6, 6].map(Dim::from)), build.input(&[2, 16, 6, 6].map(Dim::from)));
    let a = build.conv(x, 16, 3, 1);
    let sum = build.same("Add", &[other, a]);
    let b = build.conv(sum, 16, 1, 1);
    let clipped = build.same("Clip", &[b]);
    let product = build.same("Mul", &[clipped, other]);
    compare(&mut build.with(&[sum, product]), DType::BF16, 2e-2);
}
