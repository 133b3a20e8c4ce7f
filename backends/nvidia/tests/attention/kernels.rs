//! Kernels of many forms, each run on the host and compared with loops in f64.

use byoc_nvidia::attention::{Effect, Mask, Spec, generate};
use byoc_nvidia::build::{GeneratedKernel, PRELUDE};
use byoc_nvidia::program::{Argument, BufferRef};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{Rng, decode};
use byoc_plugin_api::{DType, Dim};

use crate::cases::{ALL, allowed, plain, rows, size, symbol};
use crate::reference::{Problem, Tensor};

/// Runs what was generated, and gives the largest difference to what the loops give.
fn difference(spec: &Spec, generated: &GeneratedKernel, kernels: &Kernels, rng: &mut Rng) -> f64 {
    let problem = Problem::random(spec, &size, rng);
    let inputs: Vec<_> = [&problem.q, &problem.k, &problem.v].into_iter().chain(&problem.mask).collect();
    let inputs: Vec<_> = inputs.into_iter().map(|tensor: &Tensor| Buffer::of(&tensor.bytes())).collect();
    let output = Buffer::new::<u8>(problem.count() * spec.dtype.unpacked_bytes());
    let launch = &generated.launch;
    let parameter = |argument: &Argument| match argument {
        Argument::Pointer(BufferRef::Input(at)) => Param::Buffer(&inputs[*at]),
        Argument::Pointer(BufferRef::Output(0)) => Param::Buffer(&output),
        Argument::Size(dim) => Param::Size(size(dim) as i64),
        other => panic!("{other:?}"),
    };
    let parameters: Vec<_> = launch.arguments.iter().map(parameter).collect();
    let grid = [0, 1, 2].map(|axis| size(&launch.grid[axis]) as u32);
    kernels.launch(&launch.kernel, grid, launch.block, launch.shared, &parameters);
    let found = decode(spec.dtype, &output.read::<u8>());
    let pairs = found.iter().zip(problem.solve());
    let difference = |(found, expected): (&f64, f64)| match (found.is_nan(), expected.is_nan()) {
        (true, true) => 0.0,
        (false, false) => (found - expected).abs(),
        _ => f64::INFINITY,
    };
    pairs.map(difference).fold(0.0, f64::max)
}

/// Runs the problems of a list.
fn compare(list: usize) {
    let specs = ALL[list].1();
    let mut rng = Rng::with_seed(7);
    let generate = |(number, spec): (usize, &Spec)| {
        let inputs = (0..3 + usize::from(spec.mask.is_some())).map(BufferRef::Input);
        let at: Vec<_> = inputs.chain([BufferRef::Output(0)]).collect();
        generate(spec, &format!("k{number}"), &at).expect("it has sizes that can be counted")
    };
    let all: Vec<_> = specs.iter().enumerate().map(generate).collect();
    let texts: Vec<_> = all.iter().map(|generated| generated.text.as_str()).collect();
    let kernels = Kernels::compile(&format!("{PRELUDE}\n{}", texts.join("\n")));
    for (spec, generated) in specs.iter().zip(&all) {
        let most = allowed(spec.dtype);
        let found = difference(spec, generated, &kernels, &mut rng);
        assert!(found <= most, "{found} for {spec:?}");
    }
}

#[test]
fn head_sizes() {
    compare(0);
}

#[test]
fn lengths_heads_and_scores() {
    compare(1);
}

#[test]
fn masks() {
    compare(2);
}

#[test]
fn layouts() {
    compare(3);
}

#[test]
fn sizes_of_the_run() {
    compare(4);
}

#[test]
fn long() {
    compare(5);
}

#[test]
fn warpgroups() {
    compare(6);
}

#[test]
fn texts() {
    let mask = |effect: Effect, shape: [Dim; 4]| Some(Mask { effect, shape, short: false });
    let open = [symbol("b"), 1.into(), 1.into(), symbol("s")];
    let bert = Spec {
        batch: symbol("b"),
        heads: 12,
        kv_heads: 12,
        queries: symbol("s"),
        keys: symbol("s"),
        size: 64,
        value_size: 64,
        mask: mask(Effect::Added(DType::F32), open),
        q: rows(768, 0),
        k: rows(768, 0),
        v: rows(768, 0),
        y: rows(768, 0),
        ..plain(DType::F16)
    };
    let causal = mask(Effect::Fills { hides: false, fill: f32::MIN }, [1.into(), 1.into(), 40.into(), 40.into()]);
    let cases = [("bert", bert), ("gpt", Spec { mask: causal, ..plain(DType::F32) })];
    for (name, spec) in cases {
        let at = [
            BufferRef::Input(0),
            BufferRef::Input(1),
            BufferRef::Input(2),
            BufferRef::Constant(0),
            BufferRef::Output(0),
        ];
        let generated = generate(&spec, "k0", &at).expect("it has sizes that can be counted");
        let launch = serde_json::to_string(&generated.launch).expect("it is plain data");
        let found = format!("// {launch}\n{}", generated.text);
        let path = format!("{}/tests/attention/texts/{name}.cu", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &found).expect("the checkout can be written");
        }
        let expected = std::fs::read_to_string(&path).expect("it is in the checkout");
        assert!(found == expected, "{name} has changed: UPDATE_GOLDEN=1 rewrites it");
    }
}
