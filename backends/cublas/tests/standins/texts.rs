//! The code as text, and who owns the constants of a region.

use byoc_nvidia_standins::{Child, shield, temporary};
use byoc_plugin_api::testing::RegionBuilder;
use byoc_plugin_api::{Attribute, DType, Error, OptionKind};

use crate::{backend, options};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("texts::a_layer_with_bias_and_gelu", a_layer_with_bias_and_gelu),
    ("texts::a_gemm_with_a_residual", a_gemm_with_a_residual),
    ("texts::a_convolution", a_convolution),
    ("texts::claims", every_constant_has_a_claim),
    ("texts::nothing_of_cuda_is_needed", nothing_of_cuda_is_needed),
];

#[track_caller]
fn text(net: &RegionBuilder, settings: &[(&str, &str)]) -> String {
    let options = options(settings);
    assert_eq!(net.check(backend(), &options), Ok(()));
    String::from_utf8(net.code(backend(), &options).expect("what is taken has code")).expect("it is JSON")
}

/// A fully connected layer of BERT, in f16.
fn layer() -> RegionBuilder {
    let mut net = RegionBuilder::of("cublas", DType::F16);
    let x = net.input("[batch,length,64]");
    let w = net.weight([64, 96]);
    let bias = net.weight([96]);
    let shape = "[batch,length,96]";
    let y = net.node("MatMul", &[x, w], shape, &[]);
    let sum = net.node("Add", &[bias, y], shape, &[]);
    let gelu = net.node("Gelu", &[sum], shape, &[("approximate", Attribute::String("tanh".into()))]);
    net.with(&[gelu])
}

fn a_layer_with_bias_and_gelu() {
    assert_eq!(text(&layer(), &[]), include_str!("texts/layer.json"));
}

fn a_gemm_with_a_residual() {
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[8,16]");
    let w = net.weight([24, 16]);
    let c = net.input("[8,24]");
    let attributes = [("transB", Attribute::Int(1)), ("alpha", Attribute::Float(0.5)), ("beta", Attribute::Float(0.1))];
    let y = net.node("Gemm", &[x, w, c], "[8,24]", &attributes);
    assert_eq!(text(&net.with(&[y]), &[("math", "tf32")]), include_str!("texts/gemm.json"));
}

fn a_convolution() {
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[batch,8,rows,6]");
    let w = net.weight([4, 8, 1, 1]);
    let shape = "[batch,4,rows,6]";
    let y = net.node("Conv", &[x, w], shape, &[]);
    let relu = net.node("Relu", &[y], shape, &[]);
    assert_eq!(text(&net.with(&[relu]), &[]), include_str!("texts/conv.json"));
}

/// The claims of a region as words.
fn claims(net: &RegionBuilder, settings: &[(&str, &str)]) -> Vec<&'static str> {
    net.claims(backend(), &options(settings)).expect("each is claimed").words()
}

fn every_constant_has_a_claim() {
    // Weights and biases stay the host's.
    assert_eq!(claims(&layer(), &[]), ["host"; 2]);

    // The numbers of a GELU are in the code as its name.
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[2,3]");
    let w = net.weight([3, 5]);
    let shape = "[2,5]";
    let y = net.node("MatMul", &[x, w], shape, &[]);
    let [root, one, half] = [std::f64::consts::SQRT_2, 1.0, 0.5].map(|number| net.number(number));
    let scaled = net.node("Div", &[y, root], shape, &[]);
    let curve = net.node("Erf", &[scaled], shape, &[]);
    let gate = net.node("Add", &[curve, one], shape, &[]);
    let scaled = net.node("Mul", &[gate, half], shape, &[]);
    let gelu = net.node("Mul", &[y, scaled], shape, &[]);
    let net = net.with(&[gelu]);
    assert_eq!(claims(&net, &[("gelu-tanh", "true")]), ["host", "embedded", "embedded", "embedded"]);
    assert!(text(&net, &[("gelu-tanh", "true")]).contains("\"activation\": \"gelu_tanh\""));

    // What is multiplied by 0 is not needed.
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[2,3]");
    let [w, c] = [[3, 5], [1, 5]].map(|shape| net.weight(shape));
    let y = net.node("Gemm", &[x, w, c], shape, &[("beta", Attribute::Float(0.0))]);
    assert_eq!(claims(&net.with(&[y]), &[]), ["host", "unused"]);
}

/// In a process that finds no library of CUDA.
fn nothing_of_cuda_is_needed() {
    let scratch = temporary();
    let child = Child::new("compile").with("LD_LIBRARY_PATH", shield(scratch.path()));
    assert_eq!(child.output(scratch.path()), "cublas 1, libraries of CUDA: []");
}

/// Does all that a compile does, and returns which libraries it opened.
pub(crate) fn compile() -> Result<Vec<String>, Error> {
    let description = backend().describe();
    let kinds: Vec<_> = description.options.iter().map(|option| &option.kind).collect();
    assert!(matches!(kinds.as_slice(), [OptionKind::Choice(_), OptionKind::Bool]), "{kinds:?}");
    assert!(!backend().patterns(&options(&[]))?.is_empty());
    text(&layer(), &[]);
    claims(&layer(), &[]);
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let files: Vec<_> = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
    let ours: Vec<_> =
        files.into_iter().filter(|file| file.contains("libcuda") || file.contains("libcublas")).collect();
    Ok(vec![format!("{} {}, libraries of CUDA: {ours:?}", description.name, description.code_version)])
}
