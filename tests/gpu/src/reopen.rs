//! A process in which only one session at a time has the device open, as users' programs have it. The suite itself keeps the
//! device open, so it starts itself once more for that.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use byoc_conformance::tensor::Tensor;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{DeviceName, LoadOptions, Queueing, Session};
use byoc_plugin_api::Dim;
use fastrand::Rng;

use crate::args::Args;
use crate::fixture::{self, Fixture, same};
use crate::random;
use crate::report::{Result, ensure, failure};

/// Sessions, one after another.
const SESSIONS: usize = 3;

/// Runs of each: the second one records, the third one replays.
const RUNS: usize = 3;

/// Rows of the input.
const ROWS: usize = 4;

/// Starts the process on an artifact of one input and one output, and compares what its sessions give with what one gives
/// here.
pub(crate) fn check(fixture: &Fixture, artifact: &Path) -> Result<String> {
    let expected = session(&fixture.registry, &fixture.device, artifact, fixture.seed)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--reopen").arg(artifact);
    command.args(fixture.plugin_arguments());
    command.args(["--device", &fixture.device.to_string(), "--seed", &fixture.seed.to_string()]);
    let output = command.output()?;
    if !output.status.success() {
        return failure(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    let holds = output.stdout == expected.bytes.repeat(SESSIONS);
    ensure(holds, || "what the process gives are other bits".into())?;
    Ok(format!("{SESSIONS} sessions of {RUNS} runs, the same bits as here"))
}

/// The process: writes the output of each session to the standard output.
pub(crate) fn child(args: &Args, artifact: &Path, seed: u64) -> Result<()> {
    let (registry, mut out) = (fixture::registry(&fixture::plugins(args)?)?, std::io::stdout().lock());
    for _ in 0..SESSIONS {
        out.write_all(&session(&registry, &args.device, artifact, seed)?.bytes)?;
    }
    Ok(out.flush()?)
}

/// Opens a session, runs it and drops it: the output, which is the same in all runs.
fn session(registry: &Registry, device: &DeviceName, artifact: &Path, seed: u64) -> Result<Tensor> {
    let options = LoadOptions { devices: vec![device.clone()], queueing: Queueing::Recorded, ..LoadOptions::default() };
    let mut session = Session::open(artifact, registry, &options)?;
    let port = session.inputs().into_iter().next().ok_or("the artifact has no input")?;
    let Some(&Dim::Fixed(width)) = port.shape.last() else { return failure("the artifact's input has no width") };
    let input = [random::tensor(&mut Rng::with_seed(seed), port.dtype, &[ROWS, width], 1.0)];
    let output = fixture::run(&mut session, &input)?;
    for index in 1..RUNS {
        same(&fixture::run(&mut session, &input)?, &output, &format!("run {}", index + 1))?;
    }
    Ok(output)
}
