//! Memory of the device and of the file: weights once, an arena for values, and no leaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{Queueing, Session};
use byoc_plugin_api::DType;

use crate::fixture::{self, BACKEND, Compiled, Fixture, same};
use crate::net::{Net, Op};
use crate::reopen;
use crate::report::{Report, Result, ensure, failure};

/// Runs without a leak.
const RUNS: usize = 10_000;

/// Loads and drops without a leak.
const LOADS: usize = 200;

/// What a device may round an allocation up to.
const PAGE: u64 = 2 << 20;

/// What the driver may take for itself while a session is loaded, apart from what the session asked for: handles,
/// recordings, code of kernels that run for the first time. A guess, far below the weights that it is compared with.
const OWN: u64 = 32 << 20;

/// What resident memory of the process may grow by in all runs: far less than a kilobyte a run.
const HOST: u64 = 8 << 20;

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    let nets = (mlp(fixture), shared(fixture));
    let compile = |name, net: &Net| fixture.compile(name, &net.onnx(), &[BACKEND], &[]);
    let compiled = compile("memory", &nets.0).and_then(|one| Ok((one, compile("shared", &nets.1)?)));
    let (large, tied) = match compiled {
        Ok(compiled) => compiled,
        Err(error) => return report.check("compile", Err(error)),
    };
    report.check("file over weights", file(&nets.0, &large));
    report.check("weights once + arena, as counted", counted(fixture, &nets.0, &large));
    if fixture.quick && !fixture.is_stand_in() {
        let why = "what a driver takes for itself may be more than these weights";
        report.note(&format!("note  weights once + arena, by the driver: left out with --quick, {why}"));
    } else {
        report.check("weights once + arena, by the driver", driver(fixture, &nets.0, &large));
    }
    report.check("one weight of three regions", once(fixture, &nets.1, &tied));
    report.check("two artifacts at once", two(fixture, (&nets.0, &large), (&nets.1, &tied)));
    report.check("sessions one after another in a new process", reopen::check(fixture, &tied.path));
    report.check(&format!("{RUNS} runs leave nothing"), runs(fixture, &nets.1, &tied));
    report.check(&format!("{LOADS} loads leave nothing"), loads(fixture, &nets.1, &tied));
}

/// Four products of equal width.
fn mlp(fixture: &Fixture) -> Net {
    let (mut net, mut random) = (Net::new(DType::F32), fixture.random("memory"));
    let width = fixture.pick(4096, 512);
    let mut value = net.batch_input(&[1, width]);
    for _ in 0..4 {
        let w = net.constant(&mut random, &[width, width], 0.02);
        value = net.step(Op::MatMul, &[value, w]);
        value = net.step(Op::Relu, &[value]);
    }
    net
}

/// Three products with one and the same matrix.
fn shared(fixture: &Fixture) -> Net {
    let (mut net, mut random) = (Net::new(DType::F32), fixture.random("shared"));
    let width = fixture.pick(256, 16);
    let (mut value, w) = (net.batch_input(&[1, width]), net.constant(&mut random, &[width, width], 0.1));
    for _ in 0..3 {
        value = net.step(Op::MatMul, &[value, w]);
        value = net.step(Op::Relu, &[value]);
    }
    net
}

fn file(net: &Net, compiled: &Compiled) -> Result<String> {
    let weights = net.constant_bytes();
    let ratio = compiled.bytes as f64 / weights as f64;
    let text = format!("{} bytes for {weights} bytes of weights: {ratio:.4}", compiled.bytes);
    if ratio <= 1.01 { Ok(text) } else { failure(text) }
}

/// What a session says that it takes of the device: constants and arena.
fn taken(session: &Session) -> Result<(u64, u64)> {
    let [device] = session.devices().try_into().map_err(|_| "the session is on several devices, or none")?;
    Ok((device.constant_bytes as u64, device.arena_bytes as u64))
}

/// What goes through the domain is what the session says, and each weight is sent once.
fn counted(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("counted");
    let (weights, before) = (net.constant_bytes(), fixture.watch.device_bytes());
    ensure(before == 0, || format!("{before} bytes are held before a session is loaded"))?;
    fixture.watch.take();
    let mut session = fixture.load_watched(&compiled.path, Queueing::Recorded)?;
    let sent = fixture.watch.take().uploaded;
    ensure(sent == weights, || format!("{sent} bytes were sent for {weights} bytes of weights"))?;
    fixture::run(&mut session, &net.inputs(&mut random, 8))?;
    let (constants, arena) = taken(&session)?;
    ensure(constants == weights, || format!("constants are {constants} bytes, weights {weights}"))?;
    let held = fixture.watch.device_bytes();
    ensure(held == constants + arena, || format!("{held} bytes are held, {constants} + {arena} were said"))?;
    drop(session);
    let left = fixture.watch.device_bytes();
    ensure(left == 0, || format!("{left} bytes are held when the session is gone"))?;
    Ok(format!("{constants} + {arena} bytes"))
}

/// The driver has as much less as the session says. A session of the same kind is there before, so that what a process
/// takes once is taken.
fn driver(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("driver");
    let inputs = net.inputs(&mut random, 8);
    let load = |fixture: &Fixture| -> Result<Session> {
        let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
        (0..3).try_for_each(|_| fixture::run(&mut session, &inputs).map(drop))?;
        Ok(session)
    };
    let first = load(fixture)?;
    let (before, _) = fixture.gpu().memory()?;
    let second = load(fixture)?;
    let (after, _) = fixture.gpu().memory()?;
    let (constants, arena) = taken(&second)?;
    drop((first, second));
    let (used, said) = (before.saturating_sub(after), constants + arena);
    let text = format!("{used} bytes less are free, the session says {constants} + {arena}");
    // A stand-in rounds nothing, and takes nothing for itself.
    let most = if fixture.is_stand_in() { 0 } else { 2 * PAGE + OWN };
    // A page may be in use already.
    let holds = used <= said + most && used + PAGE.min(most) >= said;
    if holds { Ok(text) } else { failure(text) }
}

/// A weight that several regions read is uploaded and stored once.
fn once(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    fixture.watch.take();
    let session = fixture.load_watched(&compiled.path, Queueing::Recorded)?;
    let seen = fixture.watch.take();
    let (regions, weights) = (session.times().len(), net.constant_bytes());
    ensure(regions == 3, || format!("the model is {regions} regions, expected 3"))?;
    let expected = (1, weights);
    ensure((seen.uploads, seen.uploaded) == expected, || format!("sent are {seen:?}, expected {weights} bytes once"))?;
    let (constants, _) = taken(&session)?;
    ensure(constants == weights, || format!("constants are {constants} bytes, weights {weights}"))?;
    Ok(format!("{regions} regions, 1 upload of {weights} bytes"))
}

/// Sessions of two artifacts, each on a thread of its own, give what each gives alone and record all, while a third thread
/// loads and drops sessions.
fn two(fixture: &Fixture, one: (&Net, &Compiled), other: (&Net, &Compiled)) -> Result<String> {
    let count = fixture.pick(200, 20);
    let work = |(net, compiled): (&Net, &Compiled), name: &str| -> Result<Vec<Tensor>> {
        let mut random = fixture.random(name);
        let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
        let run = |index: usize| {
            let inputs = net.inputs(&mut random, [2, 2, 2, 5][index % 4]);
            let found = fixture::run(&mut session, &inputs)?;
            let why: Vec<_> = session.devices().into_iter().flat_map(|device| device.unrecorded).collect();
            ensure(why.is_empty(), || format!("run {} was not recorded: {}", index + 1, why.join("; ")))?;
            Ok(found)
        };
        (0..count).map(run).collect()
    };
    let alone = (work(one, "one")?, work(other, "other")?);
    let (ended, over) = (|_| "a thread panicked", AtomicBool::new(false));
    let loads = || -> Result<usize> {
        let mut count = 0;
        while count == 0 || !over.load(Ordering::Relaxed) {
            drop(fixture.load(&fixture.registry, &other.1.path, Queueing::Recorded)?);
            count += 1;
        }
        Ok(count)
    };
    let together = std::thread::scope(|scope| -> Result<_> {
        let (first, second) = (scope.spawn(|| work(one, "one")), scope.spawn(|| work(other, "other")));
        let third = scope.spawn(loads);
        let (first, second) = (first.join(), second.join());
        over.store(true, Ordering::Relaxed);
        let third = third.join().map_err(ended)?.map_err(|error| format!("loads beside two sessions: {error}"))?;
        Ok((first.map_err(ended)??, second.map_err(ended)??, third))
    })?;
    for (found, expected) in [(&together.0, &alone.0), (&together.1, &alone.1)] {
        for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
            same(found, expected, &format!("run {} beside another session", index + 1))?;
        }
    }
    Ok(format!("2 threads, {count} runs each, all recorded, the same bits as alone; {} loads meanwhile", together.2))
}

/// Free memory of the device and resident memory of the process, before and after.
fn left(fixture: &Fixture, work: impl FnOnce() -> Result<()>) -> Result<(u64, u64)> {
    let (free, resident) = (fixture.gpu().memory()?.0, resident_bytes()?);
    work()?;
    Ok((free.saturating_sub(fixture.gpu().memory()?.0), resident_bytes()?.saturating_sub(resident)))
}

fn runs(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("runs");
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let inputs = net.inputs(&mut random, 4);
    let mut run = |count: usize| (0..count).try_for_each(|_| fixture::run(&mut session, &inputs).map(drop));
    run(RUNS / 100)?;
    let start = Instant::now();
    // Others on the device count, too: a page is allowed, and what is more than that must be so twice.
    let most = if fixture.is_stand_in() { 0 } else { PAGE };
    let fits = |(device, host): (u64, u64)| device <= most && host <= HOST;
    let mut found = left(fixture, || run(RUNS))?;
    if !fits(found) {
        found = left(fixture, || run(RUNS))?;
    }
    let (device, host) = found;
    let text = format!("{:.1} s, {device} bytes on the device, {host} on the host", start.elapsed().as_secs_f64());
    if fits(found) { Ok(text) } else { failure(text) }
}

fn loads(fixture: &Fixture, net: &Net, compiled: &Compiled) -> Result<String> {
    let mut random = fixture.random("loads");
    let inputs = net.inputs(&mut random, 4);
    let load = |count: usize| {
        (0..count).try_for_each(|_| {
            let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
            (0..3).try_for_each(|_| fixture::run(&mut session, &inputs).map(drop))
        })
    };
    load(LOADS / 10)?;
    let start = Instant::now();
    let (device, host) = left(fixture, || load(LOADS))?;
    let text = format!("{:.1} s, {device} bytes on the device, {host} on the host", start.elapsed().as_secs_f64());
    // Less than a page a load would need hundreds of loads to be told from what the driver keeps for later use.
    let most = if fixture.is_stand_in() { 0 } else { 4 * PAGE };
    if device <= most && host <= 4 * HOST { Ok(text) } else { failure(text) }
}

/// Resident memory of this process, by Linux.
fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the system tells no VmRSS")?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kibibytes * 1024)
}
