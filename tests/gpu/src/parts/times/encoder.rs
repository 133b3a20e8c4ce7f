//! The encoder of BERT in f16, all of it on the device: products compiled for their sizes, everything else in kernels
//! between them.

use std::time::Duration;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{LoadOptions, Queueing, RegionTime, Session};
use byoc_plugin_api::DType;

use super::bert::model::{self, Sizes, TINY};
use super::{close, ms, shares, title, whole_and_resident};
use crate::check::{Check, Prepared};
use crate::fixture::{self, BACKEND, Fixture, HOST, PRODUCTS, REST};
use crate::parts::Scope;
use crate::random;
use crate::report::{Report, Result, ensure};

/// How many sequences there are at once.
const BATCHES: [usize; 3] = [1, 8, 32];

/// The models.
fn all(scope: &Scope) -> Vec<(&'static str, Sizes)> {
    if scope.quick {
        return [1, 3].map(|batch| ("tiny", Sizes { dtype: DType::F16, batch, ..TINY })).into();
    }
    let base = ("BERT-base", Sizes { dtype: DType::F16, ..model::BASE });
    let large = [128, 512]
        .into_iter()
        .flat_map(|sequence| BATCHES.map(|batch| ("BERT-large", Sizes { sequence, batch, ..model::LARGE })));
    [base].into_iter().chain(large).collect()
}

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let check = |(name, sizes): (&str, Sizes)| {
        let name = format!("{name} f16, sequence of {}, batch {}", sizes.sequence, sizes.batch);
        Check::several(name.clone(), move |fixture, report| timed(fixture, report, &name, &sizes))
    };
    all(scope).into_iter().map(check).collect()
}

fn timed(fixture: &Fixture, report: &mut Report, name: &str, sizes: &Sizes) {
    let columns = ["model", "ms", "ms resident", "regions", "device bytes / weights", "file / weights"];
    let found = device(fixture, sizes, name, report).map(|cells| {
        let text = format!("{} ms, {} ms resident, {} of the weights on the device", cells[0], cells[1], cells[3]);
        let cells = [name.to_owned()].into_iter().chain(cells).collect();
        report.row(&title(fixture, "Encoder of BERT, all on the device"), &columns, cells);
        text
    });
    let found = found.or_else(|error| if error.is::<Prepared>() { Ok(error.to_string()) } else { Err(error) });
    report.check(name, found);
}

/// The encoder with random weights, the same ones for every batch.
fn encoder(fixture: &Fixture, sizes: &Sizes) -> Vec<u8> {
    model::encoder(&mut fixture.random("encoder"), sizes)
}

/// One sequence.
fn sentence(fixture: &Fixture, sizes: &Sizes) -> Tensor {
    let one = Sizes { batch: 1, ..*sizes };
    random::tensor(&mut fixture.random("sentence"), DType::F16, &one.shape(), 1.0)
}

/// What the same model gives on the host alone for one sequence: no reference, but other code.
fn host(fixture: &Fixture, sizes: &Sizes, sentence: &Tensor) -> Result<Vec<f64>> {
    let one = Sizes { batch: 1, ..*sizes };
    let compiled = fixture.compile("encoder_host", &encoder(fixture, &one), &[HOST], &[])?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let mut session =
        Session::open(&compiled.path, &fixture.registry, &LoadOptions { threads, ..LoadOptions::default() })?;
    Ok(fixture::run(&mut session, std::slice::from_ref(sentence))?.floats().collect())
}

/// Cells from the second column on. The input is the same sentence again and again, so all results are those of one.
fn device(fixture: &Fixture, sizes: &Sizes, name: &str, report: &mut Report) -> Result<Vec<String>> {
    let compiled = fixture.compile("encoder", &encoder(fixture, sizes), &[PRODUCTS, BACKEND, REST, HOST], &[])?;
    fixture.ready()?;
    let sentence = sentence(fixture, sizes);
    let expected = host(fixture, sizes, &sentence)?;
    let shape = sizes.shape().map(|size| size as i64);
    let inputs = [Tensor::new(DType::F16, shape.to_vec(), sentence.bytes.repeat(sizes.batch))];
    let _turn = fixture.turn()?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let times = session.times();
    let (regions, on_host) = (times.len(), times.iter().filter(|region| region.backend == HOST).count());
    drop(times);
    ensure(on_host == 0, || format!("{on_host} of {regions} regions are on the host"))?;
    let [whole, resident] = whole_and_resident(fixture, &mut session, &inputs)?;
    let found: Vec<_> = fixture::run(&mut session, &inputs)?.floats().collect();
    let held: u64 = session.devices().iter().map(|device| device.constant_bytes as u64).sum();
    drop(session);
    // f16 keeps 11 bits, and each layer rounds what it gives to the next.
    found.chunks(expected.len()).try_for_each(|one| close(one.iter().copied(), &expected, 2e-2).map(drop))?;
    let shares = shares(fixture, &compiled, &inputs)?;
    layer(fixture, &shares.regions, sizes, name, report);
    let copies = (shares.uploads, shares.downloads);
    ensure(copies == (1, 1), || format!("{copies:?} copies to and from the device, for one input and one output"))?;
    let [file, held] = [compiled.bytes, held].map(|bytes| bytes as f64 / sizes.weight_bytes() as f64);
    ensure(fixture.quick || file <= 1.01, || format!("the file is {file:.4} times the weights"))?;
    ensure(fixture.quick || held <= 1.01, || format!("the device holds {held:.4} times the weights"))?;
    Ok(vec![ms(whole), ms(resident), regions.to_string(), format!("{held:.4}"), format!("{file:.4}")])
}

/// The mean time of each region of a layer.
fn layer(fixture: &Fixture, times: &[RegionTime], sizes: &Sizes, name: &str, report: &mut Report) {
    let regions = times.len() / sizes.layers;
    let columns = ["model", "region of a layer", "backend", "microseconds"];
    let title = title(fixture, "Regions of a layer of BERT, times taken on the device");
    for at in 0..regions {
        let all = times.iter().skip(at).step_by(regions);
        let micros = all.map(|region| region.time.as_secs_f64() * 1e6).sum::<f64>() / sizes.layers as f64;
        let operators: Vec<_> = times[at].steps.iter().map(|step| step.operator.as_str()).collect();
        let what = format!("{} {}", at + 1, operators.join(", "));
        let cells = vec![name.to_owned(), what, times[at].backend.clone(), format!("{micros:.2}")];
        report.row(&title, &columns, cells);
    }
    let all: Duration = times.iter().map(|region| region.time).sum();
    let cells = vec![name.to_owned(), "all layers".into(), String::new(), format!("{:.1}", all.as_secs_f64() * 1e6)];
    report.row(&title, &columns, cells);
}
