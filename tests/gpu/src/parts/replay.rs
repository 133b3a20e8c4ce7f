//! Recorded work against work that is queued in every run: the same bits, for any earlier inputs and shapes. All memory but the weights is made NaN before each run.

use byoc_core::runtime::Queueing;
use byoc_plugin_api::DType;

use crate::check::Check;
use crate::fixture::{self, BACKEND, Compiled, Fixture, same, with_views};
use crate::net::{Net, Op};
use crate::report::{Result, ensure};
use crate::watch::{Activity, Poisoned};

pub(super) fn checks() -> Vec<Check> {
    type Found = fn(&Fixture, &Net, &Compiled) -> Result<String>;
    let all: [(&str, Found); 4] = [
        ("recorded and queued: same bits", bits),
        ("one sequence is recorded", recorded),
        ("a run does what it must, no more", steady),
        ("inputs and outputs that stay", resident),
    ];
    let check = |(name, found): (&str, Found)| {
        Check::one(name, move |fixture| {
            let net = chain(fixture);
            found(fixture, &net, &fixture.compile("replay", &net.onnx(), &[BACKEND], &[])?)
        })
    };
    all.map(check).into()
}

/// Three products, one after another.
fn chain(fixture: &Fixture) -> Net {
    let (mut net, mut random) = (Net::new(DType::F16), fixture.random("replay"));
    let width = fixture.pick(1024, 24);
    let mut value = net.batch_input(&[1, width]);
    for _ in 0..3 {
        let (w, b) = (net.constant(&mut random, &[width, width], 0.05), net.constant(&mut random, &[width], 0.05));
        let product = net.step(Op::MatMul, &[value, w]);
        let sum = net.step(Op::Add, &[product, b]);
        value = net.step(Op::Relu, &[sum]);
    }
    net
}

/// Both ways, with batches that change back and forth.
fn bits(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("bits");
    let batches = [4, 4, 4, 4, 9, 9, 9, 4, 4, 4, 1, 1, 1, 9];
    let inputs: Vec<_> = batches.iter().map(|&batch| net.inputs(&mut random, batch)).collect();
    let mut outputs = Vec::new();
    for queueing in [Queueing::Direct, Queueing::Recorded, Queueing::Waiting] {
        let mut session = Poisoned::load(fixture, &compiled.path, queueing)?;
        outputs.push(inputs.iter().map(|inputs| session.run(inputs)).collect::<Result<Vec<_>>>()?);
    }
    for other in &outputs[1..] {
        for (index, (found, expected)) in other.iter().zip(&outputs[0]).enumerate() {
            same(found, expected, &format!("run {} with a batch of {}", index + 1, batches[index]))?;
        }
    }
    let finite = outputs[0].iter().all(|output| output.floats().all(f64::is_finite));
    ensure(finite, || "there are outputs that are not finite".into())?;
    Ok(format!("{} runs of 3 kinds, batches of 1, 4 and 9", batches.len()))
}

/// The third run of the same shapes replays one recording, and nothing is said against it.
fn recorded(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("recorded");
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    for _ in 0..3 {
        fixture::run(&mut session, &net.inputs(&mut random, 5))?;
    }
    let [device] = session.devices().try_into().map_err(|_| "the session is on several devices, or none")?;
    ensure(device.unrecorded.is_empty(), || format!("not recorded: {}", device.unrecorded.join("; ")))?;
    ensure(device.recordings == 1, || format!("{} sequences are recorded, expected 1", device.recordings))?;
    let regions = session.times().len();
    ensure(regions == 3, || format!("the model is {regions} regions, expected 3"))?;
    Ok(format!("{regions} regions in 1 recording"))
}

/// From the third run on: one copy there, one back, one replay, no allocation.
fn steady(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    const RUNS: usize = 50;
    let mut random = fixture.random("steady");
    let mut session = fixture.load_watched(&compiled.path, Queueing::Recorded)?;
    let inputs = net.inputs(&mut random, 5);
    fixture::run(&mut session, &inputs)?;
    fixture::run(&mut session, &inputs)?;
    fixture.watch.take();
    let mut output = 0;
    for _ in 0..RUNS {
        output = fixture::run(&mut session, &inputs)?.bytes.len();
    }
    let each = |bytes: usize| (bytes * RUNS) as u64;
    let expected = Activity {
        allocations: 0,
        uploads: RUNS,
        uploaded: each(inputs[0].bytes.len()),
        downloads: RUNS,
        downloaded: each(output),
        replays: RUNS,
    };
    let seen = fixture.watch.take();
    ensure(seen == expected, || format!("{RUNS} runs did {seen:?}, expected {expected:?}"))?;
    Ok(format!(
        "{RUNS} runs: {} uploads, {} downloads, {} replays, no allocation",
        seen.uploads, seen.downloads, seen.replays
    ))
}

/// Runs that leave inputs and outputs on the device give what whole runs give, and copy nothing.
fn resident(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    const RUNS: usize = 5;
    let mut random = fixture.random("resident");
    let mut session = fixture.load_watched(&compiled.path, Queueing::Recorded)?;
    let [first, second] = [4, 4].map(|batch| net.inputs(&mut random, batch));
    fixture::run(&mut session, &first)?;
    let expected = fixture::run(&mut session, &second)?;
    fixture.watch.take();
    for _ in 0..RUNS {
        // What is given here is not looked at: the device has the inputs of the last whole run.
        with_views(&first, |views| Ok(session.run_resident(views)?))?;
    }
    let seen = fixture.watch.take();
    let nothing = Activity { replays: RUNS, ..Activity::default() };
    ensure(seen == nothing, || format!("{RUNS} resident runs did {seen:?}, expected {nothing:?}"))?;
    session.fetch()?;
    same(&fixture::first_output(&session)?, &expected, "the output after resident runs")?;
    Ok(format!("{RUNS} runs without a copy, then the output"))
}
