//! The encoder of BERT in f16, all of it on the device: products compiled for their sizes, everything else in kernels
//! between them. Beside it, in the same run, what else the machine has that runs such a model.

use std::path::Path;
use std::process::Command;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{LoadOptions, Queueing, Session};
use byoc_plugin_api::DType;

use super::bert::model::{self, Sizes, TINY};
use super::{close, ms, shares, title, whole_and_resident};
use crate::fixture::{self, BACKEND, Fixture, HOST, PRODUCTS, REST};
use crate::random;
use crate::report::{Report, Result, ensure};

/// Times onnxruntime and PyTorch: a line of name and milliseconds for each that is there.
const OTHERS: &str = include_str!("others.py");

/// How many sequences there are at once.
const BATCHES: [usize; 3] = [1, 8, 32];

/// The models, each for its batches.
fn all(fixture: &Fixture) -> Vec<(&'static str, Sizes, &'static [usize])> {
    if fixture.quick {
        return vec![("tiny", Sizes { dtype: DType::F16, ..TINY }, &[1, 3])];
    }
    let base = ("BERT-base", Sizes { dtype: DType::F16, ..model::BASE }, &BATCHES[..1]);
    let large = |sequence| ("BERT-large", Sizes { sequence, ..model::LARGE }, &BATCHES[..]);
    vec![base, large(128), large(512)]
}

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    let mut table = Vec::new();
    for (name, one, batches) in all(fixture) {
        let name = format!("{name} f16, sequence of {}", one.sequence);
        let sentence = random::tensor(&mut fixture.random("sentence"), DType::F16, &one.shape(), 1.0);
        let expected = match host(fixture, &one, &sentence) {
            Ok(expected) => expected,
            Err(error) => {
                report.check(&format!("{name}, on the host"), Err(error));
                continue;
            }
        };
        for &batch in batches {
            let name = format!("{name}, batch {batch}");
            let found = device(fixture, &Sizes { batch, ..one }, &sentence, &expected, report);
            let text = found.map(|cells| {
                let text = format!("{} ms, {} ms resident; {}", cells[0], cells[1], cells[4]);
                table.push([name.clone()].into_iter().chain(cells).collect());
                text
            });
            report.check(&name, text);
        }
    }
    let columns = ["model", "ms", "ms resident", "regions", "file / weights", "others, ms"];
    report.table(&title(fixture, "Encoder of BERT, all on the device"), &columns, &table);
}

/// The encoder with random weights, the same ones for every batch.
fn encoder(fixture: &Fixture, sizes: &Sizes) -> Vec<u8> {
    model::encoder(&mut fixture.random("encoder"), sizes)
}

/// What the same model gives on the host alone: no reference, but other code.
fn host(fixture: &Fixture, sizes: &Sizes, sentence: &Tensor) -> Result<Vec<f64>> {
    let compiled = fixture.compile("encoder_host", &encoder(fixture, sizes), &[HOST], &[])?;
    let mut session = Session::open(&compiled.path, &fixture.registry, &LoadOptions::default())?;
    Ok(fixture::run(&mut session, std::slice::from_ref(sentence))?.floats().collect())
}

/// Cells from the second column on. The input is the same sentence again and again, so all results are those of one.
fn device(
    fixture: &Fixture,
    sizes: &Sizes,
    sentence: &Tensor,
    expected: &[f64],
    report: &Report,
) -> Result<Vec<String>> {
    let onnx = encoder(fixture, sizes);
    let others = others(&fixture.write("encoder", &onnx)?, sizes, report);
    let compiled = fixture.compile("encoder", &onnx, &[PRODUCTS, BACKEND, REST, HOST], &[])?;
    let shape = sizes.shape().map(|size| size as i64);
    let inputs = [Tensor::new(DType::F16, shape.to_vec(), sentence.bytes.repeat(sizes.batch))];
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let times = session.times();
    let (regions, on_host) = (times.len(), times.iter().filter(|region| region.backend == HOST).count());
    drop(times);
    ensure(on_host == 0, || format!("{on_host} of {regions} regions are on the host"))?;
    let [whole, resident] = whole_and_resident(fixture, &mut session, &inputs)?;
    let found: Vec<_> = fixture::run(&mut session, &inputs)?.floats().collect();
    drop(session);
    // f16 keeps 11 bits, and each layer rounds what it gives to the next.
    found.chunks(expected.len()).try_for_each(|one| close(one.iter().copied(), expected, 2e-2).map(drop))?;
    let shares = shares(fixture, &compiled, &inputs)?;
    let copies = (shares.uploads, shares.downloads);
    ensure(copies == (1, 1), || format!("{copies:?} copies to and from the device, for one input and one output"))?;
    let ratio = compiled.bytes as f64 / sizes.weight_bytes() as f64;
    ensure(fixture.quick || ratio <= 1.01, || format!("the file is {ratio:.4} times the weights"))?;
    Ok(vec![ms(whole), ms(resident), regions.to_string(), format!("{ratio:.4}"), others])
}

/// The times of others for the same model, as far as the machine has them.
fn others(model: &Path, sizes: &Sizes, report: &Report) -> String {
    let Sizes { layers, width, heads, sequence, batch, .. } = *sizes;
    let numbers = [layers, width, heads, sequence, batch].map(|number| number.to_string());
    let output = Command::new("python3").args(["-c", OTHERS]).arg(model).args(numbers).output();
    let text = match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().replace('\n', ", "),
        Ok(output) => {
            report.note(&format!("note  others: {}", String::from_utf8_lossy(&output.stderr).trim_end()));
            String::new()
        }
        Err(_) => String::new(),
    };
    if text.is_empty() { "none".into() } else { text }
}
