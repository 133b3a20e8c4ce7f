//! Errors that a session recovers from, and their messages.

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::runtime::{DeviceName, LoadOptions, Queueing, Session};
use byoc_plugin_api::DType;

use crate::fixture::{self, BACKEND, Compiled, Fixture, with_views};
use crate::net::{Allowed, Net, Op};
use crate::report::{Report, Result, ensure, failure};

/// The width between the two products: only the device holds it, so that a batch need not fit into the host. So wide that
/// a batch of about 25,000 rows is too much for 80 GB: cublasLt may refuse millions of rows before memory is asked for.
const WIDTH: usize = 1 << 20;

/// A device that no machine has.
const NOBODY: u32 = 4095;

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    let net = wide(fixture);
    let compiled = match fixture.compile("errors", &net.onnx(), &[BACKEND], &[]) {
        Ok(compiled) => compiled,
        Err(error) => return report.check("compile", Err(error)),
    };
    report.check("more than the device holds", too_much(fixture, &net, &compiled));
    report.check("a device that is not there", nobody(fixture, &compiled));
}

/// From 1 element to many and back.
fn wide(fixture: &Fixture) -> Net {
    let (mut net, mut random) = (Net::new(DType::F32), fixture.random("errors"));
    let x = net.batch_input(&[1, 1]);
    let (up, down) = (net.constant(&mut random, &[1, WIDTH], 1.0), net.constant(&mut random, &[WIDTH, 1], 0.01));
    let hidden = net.step(Op::MatMul, &[x, up]);
    net.step(Op::MatMul, &[hidden, down]);
    net
}

/// A batch that needs more than all memory fails with the number of bytes, and smaller ones run before and after.
fn too_much(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("too much");
    let (_, all) = fixture.gpu().memory()?;
    let batch = (all + all / 4) as usize / (WIDTH * size_of::<f32>());
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    check(net, &mut session, &mut random)?;
    let error = match run_once(net, &mut session, &mut random, batch) {
        Ok(()) => return failure(format!("a batch of {batch} ran on a device with {all} bytes")),
        Err(error) => error,
    };
    check(net, &mut session, &mut random).map_err(|error| format!("after an error: {error}"))?;
    let needed = batch as u64 * (WIDTH * size_of::<f32>()) as u64;
    ensure(error.code == Code::Device, || format!("an error of another kind: {error}"))?;
    let told =
        error.message.split_once(" has no ").and_then(|(_, rest)| rest.split_once(" bytes for ")).map(|(n, _)| n);
    let bytes: u64 = told.and_then(|number| number.parse().ok()).unwrap_or(0);
    ensure(bytes >= needed, || format!("the error does not name {needed} bytes or more: {error}"))?;
    ensure(error.hint.is_some(), || format!("the error says no remedy: {error}"))?;
    Ok(error.to_string())
}

/// An error that is core's own, in place of one of the suite's.
fn run_once(
    net: &Net,
    session: &mut Session,
    random: &mut fastrand::Rng,
    batch: usize,
) -> std::result::Result<(), Diagnostic> {
    let inputs = net.inputs(random, batch);
    let mut answer = Ok(());
    // The only failures are those of the run.
    let _ = with_views(&inputs, |views| {
        answer = session.run(views);
        Ok(())
    });
    answer
}

/// A small batch gives the right result.
fn check(net: &Net, session: &mut Session, random: &mut fastrand::Rng) -> Result<()> {
    let inputs = net.inputs(random, 3);
    let found = fixture::run(session, &inputs)?;
    let (expected, sums) = net.evaluate(&inputs);
    Allowed::new(net.dtype, false, false).worst(&found, &expected, &sums)?;
    Ok(())
}

fn nobody(fixture: &Fixture, compiled: &Compiled) -> Result<String> {
    let name = DeviceName { kind: fixture.device.kind.clone(), ordinal: NOBODY };
    let options = LoadOptions { devices: vec![name.clone()], ..LoadOptions::default() };
    let error = match Session::open(&compiled.path, &fixture.registry, &options) {
        Ok(_) => return failure(format!("{name} was opened")),
        Err(error) => error,
    };
    let named = error.message.contains(&name.to_string()) && error.hint.is_some();
    ensure(error.code == Code::MissingRequirement && named, || format!("an error of another kind: {error}"))?;
    Ok(error.to_string())
}
