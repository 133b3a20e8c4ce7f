//! Whole regions run on the host, as they would on a device: the generated sources, compiled by g++ with a stand-in for
//! CUTLASS's template, launched as the code says; against loops over the tensors of the model.

use std::collections::HashMap;

use byoc_dim as dim;
use byoc_json_backend as _;
use byoc_nvidia::program::{Argument, BufferRef, Launch, Made};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{Limit, RegionBuilder, assert_close, backend, decode};
use byoc_plugin_api::{Attribute, ConstantAccess, DType, Dim};

use super::build::{build, ints, mobile, residual};
use crate::conv::lower::lower;
use crate::conv::net::Conv;
use crate::conv::pack;
use crate::conv::program::{Draft, draft};

const CUTLASS: &str = include_str!("../../../../nvidia/standins/cutlass/cutlass/cutlass.h");
const FPROP: &str =
    include_str!("../../../../nvidia/standins/cutlass/cutlass/conv/kernel/default_conv2d_fprop_with_broadcast.h");

/// A kernel that writes what a cubin exports of a convolution.
fn tell(name: &str) -> String {
    format!(
        "extern \"C\" __global__ void {name}_tell(int *to) {{ for (int i = 0; i < 3; ++i) to[i] = {name}_launch_info[i]; }}\n"
    )
}

/// Images that the batch has, where its size is not known when the region is compiled.
const BATCH: usize = 3;

fn kernels(text: &str) -> Kernels {
    let include = |name: &str| format!("#include \"cutlass/{name}\"");
    let fprop = FPROP.replace(&include("cutlass.h"), "").replace("#pragma once", "");
    let marks =
        text.split("int ").skip(1).filter_map(|rest| rest.split_once("_launch_info[3]")).map(|(name, _)| tell(name));
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
    fn at(&self, place: BufferRef) -> &Buffer {
        match place {
            BufferRef::Input(at) => &self.inputs[at],
            BufferRef::Output(at) => &self.outputs[at],
            BufferRef::Constant(at) => &self.constants[at],
            BufferRef::Scratch(at) => &self.scratch[at],
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
            let launch_info = Buffer::new::<i32>(3);
            kernels.launch(&format!("{}_tell", launch.kernel), [1; 3], [1; 3], 0, &[Param::Buffer(&launch_info)]);
            let [threads, shared, bytes] = launch_info.read::<i32>()[..] else { panic!("three numbers") };
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

/// The packed weights of a region.
fn constants(build: &RegionBuilder) -> Vec<Buffer> {
    let net = lower(&build.region, true).expect("it is taken");
    let given = build.views(ConstantAccess::Both);
    let packed = |conv: &Conv| {
        let (weights, kernel) = (&conv.weights, conv.window.kernel);
        let mut bytes = Vec::new();
        let view = |id| Ok(*given.get(id).expect("it is there"));
        pack::pack(weights, kernel, net.dtype, &view, &mut bytes).expect("it can be packed");
        assert_eq!(bytes.len(), pack::elements(weights, kernel, net.dtype) * net.dtype.unpacked_bytes());
        Buffer::of(&bytes)
    };
    net.convolutions().map(packed).collect()
}

/// Runs a region and compares its results. The largest difference may be that part of the largest number.
fn compare(build: &RegionBuilder, dtype: DType, part: f64) {
    let net = lower(&build.region, true).expect("it is taken");
    let Draft { program, sources, scratch, launches } = draft(&net, &build.region).expect("it can be drafted");
    let symbols = [("batch", BATCH)];
    let inputs = build.inputs(1, &symbols);
    let room = |&value: &usize| {
        Buffer::new::<u8>(build.sizes_for(value, &symbols).iter().product::<usize>() * dtype.unpacked_bytes())
    };
    let mut memory = Memory {
        symbols: HashMap::from([("batch".to_owned(), BATCH)]),
        inputs: inputs.iter().map(|input| Buffer::of(input.memory())).collect(),
        outputs: build.region.outputs.iter().map(room).collect(),
        constants: constants(build),
        scratch: Vec::new(),
    };
    assert_eq!(program.constants.len(), memory.constants.len());
    memory.scratch = scratch.iter().map(|bytes| Buffer::new::<u8>(memory.size(bytes))).collect();
    let compiled: Vec<_> = sources.iter().map(|source| kernels(&source.text)).collect();
    launches.iter().for_each(|launch| memory.launch(&compiled[launch.cubin], launch));
    let expected = build.exact(backend("json"), &[("kernels", "reference")], &inputs, &symbols);
    for (position, (found, expected)) in memory.outputs.iter().zip(&expected).enumerate() {
        let found = decode(dtype, &found.read::<u8>());
        assert_close(&format!("{dtype} output {position}"), &found, expected, Limit::of_largest(part, expected));
    }
}

/// Each type, with how far off its rounding may be after several layers.
const TYPES: [(DType, f64); 3] = [(DType::F32, 2e-6), (DType::F16, 4e-3), (DType::BF16, 3e-2)];

#[test]
fn a_residual_network() {
    for (dtype, part) in TYPES {
        compare(&residual(dtype, Dim::Symbolic("batch".into()), 30), dtype, part);
    }
}

#[test]
fn a_mobile_network() {
    for (dtype, part) in TYPES {
        compare(&mobile(dtype, 2.into(), 13), dtype, part);
    }
}

/// Windows with steps, gaps and borders that differ in both directions.
#[test]
fn odd_windows() {
    let (mut build, x) = build(DType::F16, [2, 11, 17, 12]);
    let weights = build.weight([20, 11, 3, 2]);
    let window = [("strides", ints(&[2, 1])), ("dilations", ints(&[2, 3])), ("pads", ints(&[1, 2, 3, 0]))];
    let y = build.node("Conv", &[x, weights], "f16[2,20,9,11]", &window);
    let y = build.like("LeakyRelu", &[y], "");
    let kernel = ("kernel_shape", ints(&[3, 2]));
    let window = [kernel.clone(), ("dilations", ints(&[3, 1]))];
    let most = build.node("MaxPool", &[y], "f16[2,20,3,10]", &window);
    let window = [kernel, ("pads", ints(&[1, 0, 1, 1])), ("count_include_pad", Attribute::Int(1))];
    let mean = build.node("AveragePool", &[y], "f16[2,20,9,11]", &window);
    compare(&build.with(&[most, mean]), DType::F16, 2e-3);
}

/// Sums with images from outside, one of which the region gives back changed; and a result that is read on.
#[test]
fn sums_and_results_within() {
    let (mut build, x) = build(DType::BF16, [2, 8, 6, 6]);
    let other = build.input("bf16[2,16,6,6]");
    let a = build.conv(x, 16, 3, 1, 1);
    let sum = build.like("Add", &[other, a], "");
    let b = build.conv(sum, 16, 1, 1, 1);
    let clipped = build.like("Clip", &[b], "");
    let product = build.like("Mul", &[clipped, other], "");
    compare(&build.with(&[sum, product]), DType::BF16, 2e-2);
}
