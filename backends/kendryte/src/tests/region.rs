//! Regions from ONNX nodes to results: built by hand or at random, compiled, run in the simulator, and compared with a
//! plain computation in `f64`.

mod budget;
mod build;
mod image;
mod limits;
mod padding;
mod quantized;
mod random;
mod shapes;

use byoc_plugin_api::Error;
use byoc_plugin_api::testing::{backend, run};

use self::build::Build;
use crate::kmodel::Kmodel;
use crate::trailer::Trailer;
use crate::{KendryteBackend, runtime};

/// The code of a region whose values were observed.
fn compile(build: &Build, settings: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
    build.compile(&KendryteBackend, settings).map(|compiled| compiled.code)
}

/// Compiles a region and runs it on one of the inputs it was observed with: what every emitted file must keep, and how far the results are from the
/// plain computation, as a signal-to-noise ratio in decibels for each output.
fn ratios(build: &mut Build, settings: &[(&str, &str)]) -> Vec<f64> {
    build.observe(4);
    let code = compile(build, settings).expect("it compiles");
    let (file, trailer) = Trailer::split(&code).expect("code");
    let trailer = trailer.expect("a trailer");
    let kmodel = Kmodel::parse(file).expect("a kmodel");
    assert_eq!(kmodel.check(), []);
    assert_eq!(crate::kmodel::placement::check(file).expect("a kmodel"), []);
    assert_eq!(kmodel.emit().expect("a kmodel"), file);
    assert_eq!(trailer.outputs.len(), build.region.outputs.len());
    let input = build.sample(1);
    let mut executable = runtime::load(&code, 1).expect("the code can run");
    let results = run(build, executable.as_mut(), std::slice::from_ref(&input), &[]).expect("it runs");
    let exact = build.exact(backend("json"), &[("kernels", "reference")], &[input], &[]);
    exact.iter().zip(&results).map(|(exact, result)| ratio(exact, &result.numbers())).collect()
}

fn ratio(exact: &[f64], result: &[f64]) -> f64 {
    assert_eq!(exact.len(), result.len());
    let signal: f64 = exact.iter().map(|x| x * x).sum();
    let noise: f64 = exact.iter().zip(result).map(|(x, y)| (x - y).powi(2)).sum();
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}
