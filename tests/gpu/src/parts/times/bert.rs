//! The encoder of BERT-base with random weights: its products on the device, everything else on the host. Shows the
//! cost of copies between the two.

pub(crate) mod model;

use std::time::Duration;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{LoadOptions, Queueing, Session};
use byoc_plugin_api::DType;

use super::{close, medians, ms, shares, title};
use crate::fixture::{self, BACKEND, Fixture, HOST, with_views};
use crate::random;
use crate::report::{Report, Result, ensure};
use model::{Sizes, TINY};

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    let turn = fixture.turn();
    let sizes = fixture.pick(model::BASE, TINY);
    let mut random = fixture.random("bert");
    let onnx = model::encoder(&mut random, &sizes);
    let inputs = [random::tensor(&mut random, DType::F32, &[1, sizes.sequence, sizes.width], 1.0)];
    let expected = match host(fixture, &onnx, &inputs) {
        Ok(found) => found,
        Err(error) => return report.check("bert on the host", Err(error)),
    };
    let (output, time) = &expected;
    let Sizes { layers, width, sequence, .. } = sizes;
    let title = title(fixture, &format!("Encoder of BERT, {layers} layers of {width}, sequence of {sequence}"));
    let columns = ["on", "ms", "in copies", "on the device", "on the host", "uploads", "downloads", "file / weights"];
    let alone = [HOST.to_owned(), ms(*time)].into_iter().chain(["-"; 6].map(str::to_owned)).collect();
    report.row(&title, &columns, alone);
    report.check("bert on the host", Ok(format!("{} ms", ms(*time))));
    for (name, settings) in
        [("f32", &[][..]), ("tf32", &[("cublas.math", "tf32")]), ("gelu-tanh", &[("cublas.gelu-tanh", "true")])]
    {
        let found = device(fixture, &onnx, &inputs, output, &sizes, settings);
        let text = found.map(|cells| {
            let text = format!("{} ms, {} copies there, {} back, {} in copies", cells[0], cells[4], cells[5], cells[1]);
            let cells = [format!("{BACKEND} {name} + {HOST}")].into_iter().chain(cells).collect();
            report.row(&title, &columns, cells);
            text
        });
        report.check(&format!("bert {name}"), text);
    }
    drop(turn);
}

/// The same model on the host alone: what to compare with, and how long it takes. No reference, but of other code.
fn host(fixture: &Fixture, onnx: &[u8], inputs: &[Tensor]) -> Result<(Tensor, Duration)> {
    let compiled = fixture.compile("bert_host", onnx, &[HOST], &[])?;
    let mut session = Session::open(&compiled.path, &fixture.registry, &LoadOptions::default())?;
    let times = with_views(inputs, |views| medians(fixture.pick(2.0, 0.02), &mut [&mut || Ok(session.run(views)?)]))?;
    Ok((fixture::first_output(&session)?, times[0]))
}

/// Cells from the second column on.
fn device(
    fixture: &Fixture,
    onnx: &[u8],
    inputs: &[Tensor],
    expected: &Tensor,
    sizes: &Sizes,
    settings: &[(&str, &str)],
) -> Result<Vec<String>> {
    let compiled = fixture.compile("bert", onnx, &[BACKEND, HOST], settings)?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let products = session.times().iter().filter(|region| region.backend == BACKEND).count();
    ensure(products == sizes.products(), || format!("{products} of {} products are on the device", sizes.products()))?;
    let times = with_views(inputs, |views| medians(fixture.pick(2.0, 0.02), &mut [&mut || Ok(session.run(views)?)]))?;
    let values: Vec<_> = expected.floats().collect();
    let most = if settings.is_empty() { 1e-3 } else { 1e-2 };
    close(fixture::first_output(&session)?.floats(), &values, most)?;
    drop(session);
    let shares = shares(fixture, &compiled, inputs)?;
    let ratio = compiled.bytes as f64 / sizes.weight_bytes() as f64;
    ensure(fixture.quick || ratio <= 1.01, || format!("the file is {ratio:.4} times the weights"))?;
    let parts = [shares.copies, shares.device, shares.host].map(|part| shares.percent(part));
    let counts = [shares.uploads, shares.downloads].map(|count| count.to_string());
    Ok([ms(times[0])].into_iter().chain(parts).chain(counts).chain([format!("{ratio:.4}")]).collect())
}
