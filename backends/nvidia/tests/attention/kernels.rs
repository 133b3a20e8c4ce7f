//! Kernels of many forms, each run on the host and compared with loops in f64.

use std::collections::HashMap;

use byoc_dim as dim;
use byoc_nvidia::attention::{Effect, Layout, Mask, Spec, generate};
use byoc_nvidia::build::{GeneratedKernel, PRELUDE};
use byoc_nvidia::program::{Argument, BufferRef};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{Rng, decode};
use byoc_plugin_api::{DType, Dim};

use crate::reference::{Problem, Tensor};

/// One of each kernel. What differs between f16 and bf16 is in all of their head sizes.
const TYPES: [DType; 2] = [DType::F16, DType::F32];

fn plain(dtype: DType) -> Spec {
    Spec {
        dtype,
        batch: 1.into(),
        heads: 2,
        kv_heads: 2,
        queries: 40.into(),
        keys: 40.into(),
        size: 32,
        value_size: 32,
        scale: 0.2,
        softcap: 0.0,
        causal: false,
        mask: None,
        q: Layout::HeadsFirst,
        k: Layout::HeadsFirst,
        v: Layout::HeadsFirst,
        y: Layout::HeadsFirst,
    }
}

fn symbol(text: &str) -> Dim {
    Dim::Symbolic(text.into())
}

fn rows(width: usize, start: usize) -> Layout {
    Layout::RowsFirst { width, start }
}

/// The sizes of symbols in these tests. No key is there where they are counted by `none`.
fn size(of: &Dim) -> usize {
    let symbols = [("b", 2), ("s", 45), ("p", 30), ("none", 0)].map(|(name, size)| (name.to_owned(), size));
    match of {
        Dim::Fixed(size) => *size,
        Dim::Symbolic(text) => dim::eval(text, &HashMap::from(symbols)).expect("its symbols are known"),
    }
}

/// Runs what was generated, and gives the largest difference to what the loops give.
fn difference(spec: &Spec, generated: &GeneratedKernel, kernels: &Kernels, rng: &mut Rng) -> f64 {
    let problem = Problem::random(spec, &size, rng);
    let inputs: Vec<_> = [&problem.q, &problem.k, &problem.v].into_iter().chain(&problem.mask).collect();
    let inputs: Vec<_> = inputs.into_iter().map(Tensor::buffer).collect();
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

fn compare(specs: &[Spec]) {
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
        // Weights are rounded to the type before they are multiplied, and so is the result.
        let most = match spec.dtype {
            DType::F32 => 5e-6,
            DType::F16 => 4e-3,
            _ => 3e-2,
        };
        let found = difference(spec, generated, &kernels, &mut rng);
        assert!(found <= most, "{found} for {spec:?}");
    }
}

#[test]
fn head_sizes() {
    let sizes = [(8, 8), (16, 16), (64, 64), (72, 40), (128, 128), (192, 128), (256, 256)];
    let types = [DType::F16, DType::BF16, DType::F32];
    let specs = types.iter().flat_map(|&dtype| {
        let tails = Spec { heads: 1, kv_heads: 1, queries: 37.into(), keys: 70.into(), ..plain(dtype) };
        sizes.map(|(size, value_size)| Spec { size, value_size, scale: 1.0 / (size as f32).sqrt(), ..tails.clone() })
    });
    compare(&specs.collect::<Vec<_>>());
}

#[test]
fn lengths_heads_and_scores() {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let long = |queries: usize, keys: usize| Spec { queries: queries.into(), keys: keys.into(), ..plain(dtype) };
        [
            Spec { causal: true, heads: 4, ..long(150, 150) },
            Spec { causal: true, softcap: 1.5, ..long(90, 33) },
            Spec { causal: true, batch: 2.into(), ..long(33, 130) },
            Spec { scale: -0.3, ..long(20, 70) },
            Spec { batch: 2.into(), heads: 40, kv_heads: 8, size: 16, value_size: 16, ..long(64, 64) },
            long(1, 1),
        ]
    });
    compare(&specs.collect::<Vec<_>>());
}

fn masked(dtype: DType, effect: Effect, shape: [usize; 4]) -> Spec {
    let mask = Mask { effect, shape: shape.map(Dim::Fixed), short: ![1, 77].contains(&shape[3]) };
    Spec { batch: 2.into(), queries: 50.into(), keys: 77.into(), mask: Some(mask), ..plain(dtype) }
}

#[test]
fn masks() {
    let shapes = [[1, 1, 1, 77], [2, 1, 1, 77], [2, 2, 50, 77], [1, 2, 1, 77], [1, 1, 50, 1], [1, 1, 50, 60]];
    let specs = TYPES.iter().flat_map(|&dtype| {
        let added =
            shapes.map(|shape| masked(dtype, Effect::Added(if shape[0] == 1 { DType::F32 } else { dtype }), shape));
        let fills = [(false, f32::NEG_INFINITY), (false, f32::MIN), (true, -1e4)];
        let fills = fills.map(|(hides, fill)| masked(dtype, Effect::Fills { hides, fill }, [2, 1, 50, 77]));
        added.into_iter().chain(fills)
    });
    compare(&specs.collect::<Vec<_>>());
}

#[test]
fn layouts() {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let three = Spec { batch: 2.into(), heads: 3, kv_heads: 3, ..plain(dtype) };
        [
            Spec { q: rows(96, 0), k: rows(96, 0), v: rows(96, 0), y: rows(96, 0), ..three.clone() },
            Spec { q: rows(288, 0), k: rows(288, 96), v: rows(288, 192), y: rows(96, 0), ..three },
            Spec { heads: 4, kv_heads: 1, value_size: 16, q: rows(128, 0), y: rows(64, 0), ..plain(dtype) },
        ]
    });
    compare(&specs.collect::<Vec<_>>());
}

#[test]
fn sizes_of_the_run() {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let effect = Effect::Added(DType::F32);
        let mask = Mask { effect, shape: [symbol("b"), 1.into(), symbol("s"), symbol("p + s")], short: false };
        let open = Spec { batch: symbol("b"), queries: symbol("s"), keys: symbol("s"), ..plain(dtype) };
        [
            Spec { keys: symbol("p + s"), mask: Some(mask), ..open.clone() },
            Spec { causal: true, q: rows(64, 0), k: rows(64, 0), y: rows(64, 0), ..open.clone() },
            // Without keys the result is 0.
            Spec { keys: symbol("none"), ..open },
        ]
    });
    compare(&specs.collect::<Vec<_>>());
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
