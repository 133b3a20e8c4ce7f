//! Compiles and runs regions, and compares the two sets of kernels.

use crate::kernels::{Isa, Math, Threads, Unit};
use byoc_plugin_api::Backend;
use byoc_plugin_api::testing::{self, Compiled, Limit, RegionBuilder, Rng, Tensor, assert_close};

pub(super) fn json() -> &'static dyn Backend {
    testing::backend("json")
}

/// An empty region.
pub(super) fn empty() -> RegionBuilder {
    RegionBuilder::new("json")
}

/// Compiles with the given options, which must work.
pub(super) fn compile<'r>(net: &'r RegionBuilder, settings: &[(&str, &str)]) -> Compiled<'r> {
    net.compile(json(), settings).unwrap_or_else(|error| panic!("{}", error.message))
}

/// Runs on random inputs; symbols have the given sizes.
pub(super) fn run(
    net: &RegionBuilder,
    settings: &[(&str, &str)],
    threads: usize,
    symbols: &[(&str, usize)],
) -> Vec<Vec<f64>> {
    let compiled = compile(net, settings);
    let mut executable = compiled.load(threads).expect("load");
    let outputs = testing::run(net, executable.as_mut(), &net.inputs(1, symbols), symbols).expect("run");
    outputs.iter().map(Tensor::numbers).collect()
}

/// Compares all ways to compile with the reference kernels, at one and at two threads.
pub(super) fn check(net: &RegionBuilder, symbols: &[(&str, usize)]) {
    let expected = run(net, &[("kernels", "reference")], 1, symbols);
    // The last is computed by matrix units, which are emulated where there are none.
    let ways: [&[(&str, &str)]; 5] =
        [&[], &[("fusion", "false")], &[("pack", "false")], &[("winograd", "false")], &[("math", "bf16x6")]];
    for settings in ways {
        for threads in [1, 2] {
            for (found, expected) in run(net, settings, threads, symbols).iter().zip(&expected) {
                // Sums cancel.
                let limit = Limit::of_largest(1e-4, expected);
                assert_close(&format!("{settings:?}, {threads} threads"), found, expected, limit);
            }
        }
    }
}

/// Compares with the reference kernels on these inputs, at one and at two threads: every number is the same, or none.
pub(super) fn agree(net: &RegionBuilder, inputs: &[Tensor], symbols: &[(&str, usize)]) {
    let results = |kernels: &str, threads: usize| {
        let compiled = compile(net, &[("kernels", kernels)]);
        let mut executable = compiled.load(threads).expect("load");
        let outputs = testing::run(net, executable.as_mut(), inputs, symbols).expect("run");
        outputs.iter().map(|output| (output.sizes(), output.numbers())).collect::<Vec<_>>()
    };
    let expected = results("reference", 1);
    for threads in [1, 2] {
        for ((sizes, found), (wanted, expected)) in results("fast", threads).iter().zip(&expected) {
            assert_eq!(sizes, wanted);
            let same = |(found, expected): (&f64, &f64)| found == expected || found.is_nan() && expected.is_nan();
            let place = found.iter().zip(expected).position(|pair| !same(pair));
            let at = place.map(|place| (place, found[place], expected[place]));
            assert_eq!(at, None, "{threads} threads: place, found, expected");
        }
    }
}

/// The same on random inputs; symbols have the given sizes.
pub(super) fn exact(net: &RegionBuilder, symbols: &[(&str, usize)]) {
    agree(net, &net.inputs(1, symbols), symbols);
}

/// The calls of the compiled program, in order.
pub(super) fn calls(net: &RegionBuilder) -> Vec<String> {
    let code: serde_json::Value = serde_json::from_slice(&compile(net, &[]).code).expect("JSON");
    let steps = code["steps"].as_array().expect("steps");
    steps.iter().map(|step| call_of(step).to_owned()).collect()
}

/// The call of a step: a word, or a word and its parameters.
pub(super) fn call_of(step: &serde_json::Value) -> &str {
    let call = &step["call"];
    call.as_str().or_else(|| call.as_object()?.keys().next().map(String::as_str)).expect("call")
}

/// Threads of every instruction set: one, two and three, without matrix units.
pub(crate) fn configurations() -> impl Iterator<Item = Threads> {
    Isa::available().iter().flat_map(|&isa| [1, 2, 3].map(|count| Threads::with_isa(count, isa).with_amx(false)))
}

/// The same, then those that multiply bytes by matrix units.
pub(crate) fn byte_configurations() -> impl Iterator<Item = Threads> {
    configurations().chain(with_amx())
}

/// One thread and two that multiply bytes by matrix units, which are emulated where there are none. None, and a word of it, without
/// AVX512-VNNI, which comes with them.
#[expect(clippy::print_stderr, reason = "what is not tested is told")]
pub(crate) fn with_amx() -> Vec<Threads> {
    let threads: Vec<Threads> = [1, 2].map(Threads::new).into_iter().filter(Threads::has_amx).collect();
    if threads.is_empty() {
        eprintln!("not tested: products of bytes by matrix units need AVX512-VNNI");
    }
    threads
}

/// The integers that numbers are rounded to with one scale, and the scale, by the definition.
pub(crate) fn rounded(numbers: &[f32]) -> (Vec<i32>, f32) {
    let most = numbers.iter().fold(0f32, |most, number| most.max(number.abs()));
    let scale = most / 127.0;
    let level = |number: &f32| if most == 0.0 { 0 } else { (number * (1.0 / scale)).round_ties_even() as i32 };
    (numbers.iter().map(level).collect(), scale)
}

/// Random numbers from -1 to 1, multiples of 2^-23: sums of few are exact.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<f32> {
    let mut random = Rng::with_seed(seed);
    (0..len).map(|_| random.i32(-(1 << 23)..1 << 23) as f32 / (1 << 23) as f32).collect()
}

/// So many threads with matrix units, which are emulated where there are none, then with dot products of bf16, if this machine has them. None,
/// and a word of it, without AVX-512, which comes with both.
#[expect(clippy::print_stderr, reason = "what is not tested is told")]
pub(crate) fn with_units<const N: usize>(counts: [usize; N]) -> Vec<Threads> {
    if !Isa::Avx512.is_available() {
        eprintln!("not tested: matrix units and dot products of bf16 need AVX-512");
        return Vec::new();
    }
    let has_dots = is_x86_feature_detected!("avx512bf16");
    if !has_dots {
        eprintln!("not tested: dot products of bf16 need AVX512-BF16");
    }
    let units = [Unit::Tiles, Unit::Dots].into_iter().take(1 + usize::from(has_dots));
    assert_eq!(Unit::of(Math::Bf16x6), Some(Unit::Tiles), "the tests emulate what is not there");
    units.flat_map(|unit| counts.map(|count| Threads::with_unit(count, unit))).collect()
}

/// The largest error, over the largest number.
pub(crate) fn error_of_largest(got: &[f32], want: &[f64]) -> f64 {
    let largest = want.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    let off = got.iter().zip(want).fold(0.0_f64, |most, (got, want)| most.max((f64::from(*got) - want).abs()));
    off / largest
}

/// Whether a number is near the one of f32, or as little a number as that.
pub(crate) fn as_in_f32(got: f32, want: f32, error: f64) -> bool {
    let near = f64::from((got - want).abs()) <= error * (1.0 + f64::from(want.abs()));
    near || got == want || got.is_nan() && want.is_nan()
}
