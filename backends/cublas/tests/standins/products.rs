//! Random products of every kind, end to end, against plain loops.

use byoc_nvidia_standins::tried;
use byoc_plugin_api::testing::{Limit, RegionBuilder, Rng, Tensor, compare};
use byoc_plugin_api::{DType, Error};

use crate::case::Case;
use crate::device::{Device, Ready};
use crate::{backend, exact, options};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[("products::random_products", random_products)];

/// Regions for each element type.
const REGIONS: usize = 200;

/// A type and the largest relative error of a result that is rounded to it once.
const TYPES: [(DType, f64); 4] = [(DType::F32, 2e-6), (DType::F16, 1e-3), (DType::BF16, 8e-3), (DType::F64, 1e-13)];

fn random_products() {
    let (output, log) = tried("products", &[]);
    let lines: Vec<_> = output.lines().collect();
    let right = TYPES.map(|(dtype, _)| format!("{dtype}: {REGIONS} regions right"));
    assert_eq!(lines, right);
    for what in ["matmul NN ", "matmul NT ", "matmul TN ", "matmul TT ", "batch 6 ", "epilogue 36", "launch graph"] {
        assert!(log.contains(what), "no {what} in all products");
    }
    // One that was left over would be alive for good.
    let count = |what| log.matches(what).count();
    assert!(count("no descriptions live") >= REGIONS * TYPES.len(), "something leaks");
    assert_eq!((count("no descriptions live"), count("create cublasLt")), (count("choose an algorithm"), 1));
    // The handle's context stays.
    assert!(log.ends_with("release 0: 1, 0 bytes live"), "something leaks");
}

/// Computes all regions of all types.
pub(crate) fn act() -> Result<Vec<String>, Error> {
    let mut device = Device::open(&[])?;
    let mut lines = Vec::new();
    for (dtype, tolerance) in TYPES {
        let mut random = Rng::with_seed(11);
        let (mut right, mut refused) = (0, 0);
        while right < REGIONS {
            let case = Case::new(&mut random, dtype);
            if let Err(refusal) = case.net.check(backend(), &options(&[])) {
                // Where a batch that is not known broadcasts twice; and where a row that is the whole product, and one
                // number, are both added.
                let reasons = ["depends on sizes not known yet", "is one more tensor to add than a call supports"];
                assert!(reasons.iter().any(|reason| refusal.message.ends_with(reason)), "{refusal}");
                refused += 1;
                continue;
            }
            run(&mut device, &mut random, &case, tolerance)
                .map_err(|error| Error::new(format!("{dtype} {right}: {} {:#?}", error.message, case.net.region)))?;
            right += 1;
        }
        assert!(refused < REGIONS / 10, "{refused} are refused");
        lines.push(format!("{dtype}: {REGIONS} regions right"));
    }
    Ok(lines)
}

fn run(device: &mut Device, random: &mut Rng, case: &Case, tolerance: f64) -> Result<(), Error> {
    let net = &case.net;
    let code = net.code(backend(), &options(&[]))?;
    let mut ready = device.load(net, &code)?;
    for sizes in &case.sizes {
        once(device, random, net, &mut ready, sizes, tolerance)?;
    }
    device.unload(ready);
    Ok(())
}

/// Runs a region with these sizes, twice.
fn once(
    device: &mut Device,
    random: &mut Rng,
    net: &RegionBuilder,
    ready: &mut Ready<'_>,
    sizes: &[(&str, usize)],
    tolerance: f64,
) -> Result<(), Error> {
    let mut input = |&value: &usize| {
        let ty = (net.region.values[value].dtype, net.sizes_for(value, sizes));
        Tensor::random(ty, -2.0..2.0, random)
    };
    let inputs: Vec<_> = net.region.inputs.iter().map(&mut input).collect();
    let tensors = device.tensors(net, &inputs, sizes)?;
    let scratch = tensors.prepare(device, ready)?;
    if random.u8(..4) == 0 {
        device.domain.begin_recording()?;
        let recorded = ready.executable.run();
        let recording = device.domain.end_recording()?;
        recorded?;
        device.domain.replay(recording)?;
        device.domain.replay(recording)?;
        device.domain.forget(recording);
    } else {
        ready.executable.run()?;
        ready.executable.run()?;
    }
    let got = device.result(tensors)?;
    if scratch > 0 {
        device.release(scratch);
    }
    // NaN is never near.
    compare(&got, &exact(net, &inputs, sizes), Limit::above(tolerance, 0.05))
        .map_err(|difference| Error::new(format!("{difference}; sizes {sizes:?}")))
}
