//! The kernels of attention on the device, on the problems on which they are tested on the host, against loops in f64.

#[path = "../../../../backends/nvidia/tests/attention/cases.rs"]
mod cases;
#[path = "../../../../backends/nvidia/tests/attention/reference.rs"]
mod reference;

use byoc_nvidia::attention::{Spec, generate};
use byoc_nvidia::build::PRELUDE;
use byoc_nvidia::program::{BufferRef, Program, Tensor, Variant};
use byoc_plugin_api::testing::{Rng, decode};
use byoc_plugin_api::{DType, Dim};

use self::reference::Problem;
use crate::check::Check;
use crate::fixture::Fixture;
use crate::kernel::{Kernel, compiled};
use crate::report::Result;
use crate::wrong::Wrong;

/// The symbols of the problems.
const SYMBOLS: [&str; 4] = ["b", "s", "p", "none"];

pub(super) fn checks() -> Vec<Check> {
    let of = |(list, cases): (&'static str, cases::Cases)| {
        let numbered = cases().into_iter().enumerate();
        numbered.map(move |(at, spec)| {
            let name = format!("attention, {list} {}, {}", at + 1, title(&spec));
            Check::one(name.clone(), move |fixture| check(fixture, &name, &spec))
        })
    };
    cases::ALL.into_iter().flat_map(of).collect()
}

/// What is most likely to matter.
fn title(spec: &Spec) -> String {
    let Spec { dtype, heads, kv_heads, queries, keys, size, value_size, .. } = spec;
    format!("{dtype} {heads}/{kv_heads} heads of {size}/{value_size}, {queries} x {keys}")
}

fn check(fixture: &Fixture, name: &str, spec: &Spec) -> Result<String> {
    let inputs = 3 + usize::from(spec.mask.is_some());
    let at: Vec<_> = (0..inputs).map(BufferRef::Input).chain([BufferRef::Output(0)]).collect();
    let generated = generate(spec, "k0", &at)?;
    let cubin = compiled("attention", &format!("{PRELUDE}\n{}", generated.text), fixture.arch())?;
    fixture.ready()?;
    let mut random = Rng::with_seed(fixture.random(name).u64(..));
    let problem = Problem::random(spec, &cases::size, &mut random);
    let tensors: Vec<_> = [&problem.q, &problem.k, &problem.v].into_iter().chain(&problem.mask).collect();
    let tensor = |dtype: DType, count: usize| Tensor { dtype, shape: vec![Dim::Fixed(count)] };
    // The last input has no element that matters: its shape is what the symbols are.
    let symbols = SYMBOLS.map(|name| Dim::Symbolic(name.into())).to_vec();
    let known = tensors.iter().map(|values| tensor(values.dtype, values.values.len()));
    let program = Program {
        title: "attention".into(),
        inputs: known.chain([Tensor { dtype: DType::U8, shape: symbols.clone() }]).collect(),
        outputs: vec![tensor(spec.dtype, problem.count())],
        variants: vec![Variant {
            arch: fixture.arch().into(),
            scratch: Vec::new(),
            launches: vec![generated.launch.clone()],
        }],
        ..Program::default()
    };
    let mut kernel = Kernel::load(fixture, &program, &cubin)?;
    let shapes: Vec<Vec<i64>> = tensors
        .iter()
        .map(|values| vec![values.values.len() as i64])
        .chain([symbols.iter().map(|symbol| cases::size(symbol) as i64).collect()])
        .collect();
    let bytes: Vec<_> = tensors.iter().map(|values| values.bytes()).chain([vec![0]]).collect();
    let shaped: Vec<_> = bytes.iter().map(Vec::as_slice).zip(shapes.iter().map(Vec::as_slice)).collect();
    let output = kernel.run(&shaped, &[problem.count() as i64])?;
    compare(spec, &decode(spec.dtype, &output), &problem.solve())
}

/// Rows that see no key are NaN in both.
fn compare(spec: &Spec, found: &[f64], expected: &[f64]) -> Result<String> {
    let allowed = cases::allowed(spec.dtype);
    let part = |(&found, &expected): (&f64, &f64)| {
        let same = found.is_nan() && expected.is_nan();
        (found, expected, if same { 0.0 } else { (found - expected).abs() / allowed })
    };
    match Wrong::find(found.iter().zip(expected).map(part), spec.value_size) {
        Ok(part) => Ok(format!("{} elements, {part:.3} of what is allowed", found.len())),
        Err(wrong) => Err(wrong.text(found.len()).into()),
    }
}
