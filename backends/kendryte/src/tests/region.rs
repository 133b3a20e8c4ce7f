//! Regions from ONNX nodes to results: built by hand or at random, compiled, run in the simulator, and compared with a
//! plain computation in `f64`.

mod build;
mod float;
mod limits;
mod random;
mod shapes;

use byoc_plugin_api::{Constants, Error, Options, TensorView, TensorViewMut, contiguous_strides};

use self::build::Build;
use crate::kmodel::Kmodel;
use crate::trailer::Trailer;
use crate::{KendryteBackend, runtime};

/// The options with these settings.
fn options(settings: &[(&str, &str)]) -> Options {
    use byoc_plugin_api::Backend;
    Options::resolve(&KendryteBackend.describe().options, settings.iter().copied()).expect("valid settings")
}

/// The code of a region whose values were observed for `samples` random inputs.
fn compile(build: &Build, settings: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
    use byoc_plugin_api::Backend;
    KendryteBackend.check(&build.region, &options(settings)).map_err(|refusal| Error::new(refusal.to_string()))?;
    let shapes = build.constants.iter().map(|(value, data)| (build.shape(*value), data));
    let shapes: Vec<_> = shapes.map(|(shape, data)| (shape.clone(), contiguous_strides(&shape), data)).collect();
    let views = shapes
        .iter()
        .map(|(shape, strides, data)| TensorView::from_slice(data.as_slice(), shape, strides).expect("a tensor"));
    let ids = build.region.constants.iter().map(|constant| constant.id);
    let constants = Constants::new(ids.zip(views).collect());
    let mut code = Vec::new();
    KendryteBackend.codegen(&build.region, &constants, &options(settings), &mut code)?;
    Ok(code)
}

/// The outputs of a compiled region.
fn run(build: &Build, code: &[u8], input: &[f32]) -> Vec<Vec<f32>> {
    let mut executable = runtime::load(code, 1).expect("the code can run");
    let shape = build.shape(build.region.inputs[0]);
    let strides = contiguous_strides(&shape);
    let view = TensorView::from_slice(input, &shape, &strides).expect("a tensor");
    let shapes: Vec<_> = build.region.outputs.iter().map(|&output| build.shape(output)).collect();
    let strides: Vec<_> = shapes.iter().map(|shape| contiguous_strides(shape)).collect();
    let mut results: Vec<_> =
        shapes.iter().map(|shape| vec![f32::NAN; shape.iter().product::<i64>() as usize]).collect();
    let views = results.iter_mut().zip(shapes.iter().zip(&strides));
    let mut views: Vec<_> = views
        .map(|(data, (shape, strides))| {
            TensorViewMut::from_slice(data.as_mut_slice(), shape, strides).expect("a tensor")
        })
        .collect();
    executable.run(&[view], &mut views).expect("it runs");
    results
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
    let results = run(build, &code, &input);
    let exact = float::evaluate(build, &input);
    let pairs = build.region.outputs.iter().zip(&results);
    pairs.map(|(&output, result)| ratio(&exact[output], result)).collect()
}

fn ratio(exact: &[f64], result: &[f32]) -> f64 {
    assert_eq!(exact.len(), result.len());
    let signal: f64 = exact.iter().map(|x| x * x).sum();
    let noise: f64 = exact.iter().zip(result).map(|(x, y)| (x - f64::from(*y)).powi(2)).sum();
    if noise == 0.0 { f64::INFINITY } else { 10.0 * (signal / noise).log10() }
}
