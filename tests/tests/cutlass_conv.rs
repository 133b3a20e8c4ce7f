//! The convolutions of cutlass, compiled by NVIDIA's compiler for both architectures: every kind of template is a kernel that
//! keeps all it needs in registers. Nothing is run; that is done in the backend's own tests, on stand-ins.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use byoc_cutlass as _;
use byoc_nvidia::compile::Facts;
use byoc_nvidia::program::Program;
use byoc_plugin_api::{
    Attribute, Constant, ConstantId, Constants, DType, Node, Options, Region, SCHEMA, Value, registered,
};
use byoc_tests::trial::{Needed, trial};
use byoc_tests::{data, trial as trials};

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

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(TYPE) {
        return tell(&name);
    }
    let tests = ["f16", "bf16", "f32"].map(|name| trial(format!("templates/{name}"), move || templates(name)));
    trials::run(tests.into()).exit_code()
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
    let backends = registered();
    let backend = backends.iter().find(|backend| backend.describe().name == "cutlass").expect("it is linked");
    let specs = backend.describe().options;
    let options = Options::resolve(&specs, [("math", "tf32")]).expect("it has the option");
    let region = region(dtype);
    assert_eq!(backend.check(&region, &options), Ok(()));
    let code = |region: &Region| {
        let mut code = Vec::new();
        backend.codegen(region, &Constants::new(Vec::new()), &options, &mut code).map(|()| code)
    };
    let bytes = code(&region).unwrap_or_else(|error| panic!("{error}"));
    let mut renamed = region;
    renamed.values.iter_mut().for_each(|value| value.name.push('_'));
    renamed.nodes.iter_mut().for_each(|node| node.name.push('_'));
    assert_eq!(code(&renamed).as_ref(), Ok(&bytes), "the code does not depend on names");
    let (program, cubins) = Program::read(&bytes).expect("it was written just now");
    for variant in &program.variants {
        let numbers: BTreeSet<_> = variant.launches.iter().map(|launch| launch.cubin).collect();
        for number in numbers {
            let cubin = cubins.get(number).expect("it is there");
            for kernel in Facts::of(&cubin).expect("it is a cubin").kernels() {
                println!("{} {} {} {}", variant.arch, kernel.name, kernel.registers, kernel.local);
            }
        }
    }
    println!("{} bytes of code", bytes.len());
    ExitCode::SUCCESS
}

/// Adds values and nodes to a region.
struct Build(Region, DType);

impl Build {
    fn value(&mut self, shape: &[usize]) -> usize {
        let shape = shape.iter().map(|&size| size.into()).collect();
        self.0.values.push(Value { name: format!("v{}", self.0.values.len()), dtype: self.1, shape });
        self.0.values.len() - 1
    }

    fn constant(&mut self, shape: &[usize]) -> usize {
        let value = self.value(shape);
        let id = ConstantId(self.0.constants.len() as u64);
        self.0.constants.push(Constant { id, value, inline: None, shared: false });
        value
    }

    fn node(&mut self, op: &str, inputs: &[usize], attributes: &[(&str, &[i64])], shape: &[usize]) -> usize {
        let output = self.value(shape);
        self.0.nodes.push(Node {
            name: format!("{op}{output}"),
            op: op.into(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: attributes
                .iter()
                .map(|(name, ints)| ((*name).into(), Attribute::Ints(ints.to_vec())))
                .collect(),
            domain: String::new(),
        });
        output
    }

    fn shape(&self, value: usize) -> Vec<usize> {
        self.0.values[value].fixed_shape().expect("sizes are known")
    }

    /// A convolution with as many pixels as there were, divided by `stride`.
    fn conv(&mut self, x: usize, channels: usize, kernel: usize, stride: usize) -> usize {
        let [n, c, h, w] = self.shape(x)[..] else { panic!("no image") };
        let weights = self.constant(&[channels, c, kernel, kernel]);
        let (pad, step) = ((kernel / 2) as i64, stride as i64);
        let shape = [n, channels, h.div_ceil(stride), w.div_ceil(stride)];
        self.node("Conv", &[x, weights], &[("pads", &[pad; 4]), ("strides", &[step; 2])], &shape)
    }

    fn same(&mut self, op: &str, inputs: &[usize]) -> usize {
        let shape = self.shape(inputs[0]);
        self.node(op, inputs, &[], &shape)
    }
}

/// A network with a layer for each tile, and one for each kernel over images.
fn region(dtype: DType) -> Region {
    let region = Region { schema: SCHEMA.into(), symbol: "byoc_test_cutlass_0".into(), ..Region::default() };
    let mut build = Build(region, dtype);
    let x = build.value(&[1, 3, 120, 120]);
    build.0.inputs.push(x);
    let a = build.conv(x, 128, 3, 1);
    let a = build.same("Relu", &[a]);
    let b = build.conv(a, 128, 3, 1);
    let b = build.same("Relu", &[b]);
    let c = build.conv(b, 256, 3, 1);
    let sigmoid = build.same("Sigmoid", &[c]);
    let c = build.same("Mul", &[c, sigmoid]);
    let d = build.conv(c, 64, 1, 1);
    let e = build.conv(d, 256, 1, 1);
    let e = build.same("Add", &[e, c]);
    let e = build.same("Relu", &[e]);
    let few = 16 / dtype.size();
    let f = build.conv(e, few, 3, 4);
    let f = build.same("HardSwish", &[f]);
    let g = build.conv(f, 32, 3, 1);
    let g = build.same("LeakyRelu", &[g]);
    let weights = build.constant(&[32, 1, 3, 3]);
    let h = build.node("Conv", &[g, weights], &[("pads", &[1; 4])], &[1, 32, 30, 30]);
    if let Some(node) = build.0.nodes.last_mut() {
        node.attributes.insert("group".into(), Attribute::Int(32));
    }
    let window: [(&str, &[i64]); 2] = [("kernel_shape", &[2, 2]), ("strides", &[2, 2])];
    let most = build.node("MaxPool", &[h], &window, &[1, 32, 15, 15]);
    let mean = build.node("AveragePool", &[h], &window, &[1, 32, 15, 15]);
    let tanh = build.same("Tanh", &[mean]);
    let joined = build.node("Concat", &[most, tanh], &[], &[1, 64, 15, 15]);
    if let Some(node) = build.0.nodes.last_mut() {
        node.attributes.insert("axis".into(), Attribute::Int(1));
    }
    let mean = build.node("GlobalAveragePool", &[joined], &[], &[1, 64, 1, 1]);
    build.0.outputs = vec![joined, mean];
    build.0.validate().expect("it is well formed");
    build.0
}
