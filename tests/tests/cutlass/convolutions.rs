//! The convolutions of cutlass, compiled by NVIDIA's compiler for both architectures and for one element type in a sample: every kind of template is a kernel that
//! keeps all it needs in registers. Nothing is run; that is done in the backend's own tests, on stand-ins.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use byoc_cutlass as _;
use byoc_nvidia::compile::CubinInfo;
use byoc_nvidia::program::Program;
use byoc_plugin_api::DType;
use byoc_plugin_api::testing::{RegionBuilder, backend, options};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, sample};

/// Set in processes that these tests start: the element type.
const TYPE: &str = "CUTLASS_CONV_TYPE";

/// What CUTLASS's template is filled in with, as kernels are called.
const CONVOLUTIONS: [&str; 7] = [
    "conv_T_128x64_few4_relu",
    "conv_T_128x128_relu",
    "conv_T_256x128_silu",
    "conv_T_128x64",
    "conv_T_256x128_add_then_relu",
    "conv_T_64x64_hardswish",
    "conv_T_128x64_fewU_leakyrelu_3c23d70a",
];

/// Kernels over images, one of each kind.
const IMAGES: [&str; 8] =
    ["few_to_nhwc_", "to_nchw_", "max_pool_", "average_pool_", "global_average_", "map_", "place_", "depthwise_"];

pub(crate) fn trials() -> Vec<Trial> {
    let types = sample::every(3, ["f16", "bf16", "f32"]);
    types.into_iter().map(|name| trial(format!("templates/{name}"), move || templates(name))).collect()
}

/// What a process does that these tests start.
pub(crate) fn child() -> Option<ExitCode> {
    std::env::var(TYPE).ok().map(|name| tell(&name))
}

fn templates(name: &str) -> Needed<()> {
    let compiler = data::compiler()?;
    let mut command = Command::new(std::env::current_exe().expect("the running program has a path"));
    compiler.set(&mut command);
    let output = command.env(TYPE, name).output().expect("the running program can be started again");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("it is text");
    println!("{said}");
    let unit = if name == "f32" { "4" } else { "8" };
    let mut expected: BTreeSet<String> =
        CONVOLUTIONS.iter().map(|kernel| kernel.replace('T', name).replace('U', unit)).collect();
    let inits: Vec<_> = expected.iter().map(|kernel| format!("{kernel}_init")).collect();
    expected.extend(inits);
    for arch in ["sm_80", "sm_90a"] {
        let lines = said.lines().filter_map(|line| line.strip_prefix(arch)).map(|line| line.split(' ').skip(1));
        let kernels: Vec<(&str, u32, u32)> = lines
            .map(|mut words| {
                let mut next = || words.next().expect("each line has three words");
                let (name, registers, local) = (next(), next(), next());
                (name, registers.parse().expect("a number"), local.parse().expect("a number"))
            })
            .collect();
        for &(name, registers, local) in &kernels {
            assert!(
                local == 0 && registers <= 255,
                "{name} for {arch}: {registers} registers, {local} bytes of memory"
            );
        }
        let found: BTreeSet<_> = kernels.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let conv: BTreeSet<_> = found.iter().filter(|name| name.starts_with("conv_")).cloned().collect();
        assert_eq!(conv, expected, "{arch}");
        for kind in IMAGES {
            assert!(found.iter().any(|name| name.starts_with(kind)), "there is no {kind} for {arch} in {found:?}");
        }
    }
    Ok(())
}

/// Compiles a region, and prints architecture, name, registers and local memory of each kernel.
fn tell(name: &str) -> ExitCode {
    let dtype = DType::all().find(|dtype| dtype.name() == name).expect("the parent names a type");
    let backend = backend("cutlass");
    let options = options(backend, &[("math", "tf32")]);
    let region = region(dtype);
    assert_eq!(region.check(backend, &options), Ok(()));
    let bytes = region.code(backend, &options).unwrap_or_else(|error| panic!("{error}"));
    let mut renamed = region;
    renamed.region.values.iter_mut().for_each(|value| value.name.push('_'));
    renamed.region.nodes.iter_mut().for_each(|node| node.name.push('_'));
    assert_eq!(renamed.code(backend, &options).as_ref(), Ok(&bytes), "the code does not depend on names");
    let (program, cubins) = Program::read(&bytes).expect("it was written just now");
    for variant in &program.variants {
        let numbers: BTreeSet<_> = variant.launches.iter().map(|launch| launch.cubin).collect();
        for number in numbers {
            let cubin = cubins.get(number).expect("it is there");
            for kernel in CubinInfo::of(&cubin).expect("it is a cubin").kernels() {
                println!("{} {} {} {}", variant.arch, kernel.name, kernel.registers, kernel.local);
            }
        }
    }
    println!("{} bytes of code", bytes.len());
    ExitCode::SUCCESS
}

/// A network with a layer for each tile, and one for each kernel over images.
fn region(dtype: DType) -> RegionBuilder {
    let mut net = RegionBuilder::of("cutlass", dtype);
    let x = net.input([1, 3, 120, 120]);
    let a = net.conv(x, 128, 3, 1, 1);
    let a = net.like("Relu", &[a], "");
    let b = net.conv(a, 128, 3, 1, 1);
    let b = net.like("Relu", &[b], "");
    let c = net.conv(b, 256, 3, 1, 1);
    let sigmoid = net.like("Sigmoid", &[c], "");
    let c = net.like("Mul", &[c, sigmoid], "");
    let d = net.conv(c, 64, 1, 1, 1);
    let e = net.conv(d, 256, 1, 1, 1);
    let e = net.like("Add", &[e, c], "");
    let e = net.like("Relu", &[e], "");
    let f = net.conv(e, 16 / dtype.unpacked_bytes(), 3, 4, 1);
    let f = net.like("HardSwish", &[f], "");
    let g = net.conv(f, 32, 3, 1, 1);
    let g = net.like("LeakyRelu", &[g], "");
    let h = net.conv(g, 32, 3, 1, 32);
    let window = "kernel_shape=[2,2] strides=[2,2]";
    let most = net.node("MaxPool", &[h], [1, 32, 15, 15], window);
    let mean = net.node("AveragePool", &[h], [1, 32, 15, 15], window);
    let tanh = net.like("Tanh", &[mean], "");
    let joined = net.node("Concat", &[most, tanh], [1, 64, 15, 15], "axis=1");
    let mean = net.node("GlobalAveragePool", &[joined], [1, 64, 1, 1], "");
    net.with(&[joined, mean])
}
