//! The simulated device that other tests run regions on: what it computes, and that it takes nothing for granted.

mod bench;
mod panics;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use self::bench::{Bench, add, bytes, chain, floats, matmul, relu};
use byoc_plugin_api::{Backend, DevicePlan, DeviceTensor, Domain, Error};
use byoc_tests::places;
use byoc_tests::program::without_places;

/// The message of what must have failed.
#[track_caller]
fn message<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("it went well"),
        Err(error) => without_places(&error.message),
    }
}

/// The numbers that are in memory which nobody has written.
fn unwritten(values: &[f32]) -> bool {
    values.iter().all(|value| value.to_bits() == u32::MAX)
}

#[test]
fn what_is_there() {
    let bench = Bench::new();
    let domain = bench.open(0, &[("memory", "4096")]).expect("opens");
    let info = domain.info();
    assert_eq!((info.title.as_str(), info.memory, info.records), ("a simulated device", 4096, true));
    assert_eq!((domain.handles().device.device_type, domain.handles().device.device_id), (12, 0));
    assert!(!bench.open(1, &[("records", "false")]).expect("opens").info().records);
    let error = bench.open(2, &[]).err().expect("there is none");
    assert_eq!(error.message, "the simulator has no device sim:2");
    assert_eq!(error.hint.as_deref(), Some("It has sim:0 and sim:1"));
    let error = bench.open(0, &[("off", "true")]).err().expect("it is off");
    assert_eq!(
        (error.message.as_str(), error.hint.as_deref()),
        ("the simulator is switched off", Some("Leave out simdev.off"))
    );
    assert_eq!(
        message(
            bench.guest().runtime().device().expect("a device").open_domain(0, &bench.options("simdev-guest", &[]))
        ),
        "this backend opens no memory domain"
    );
}

#[test]
fn nothing_is_done_before_somebody_waits() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut up = bytes(&[1.0, 2.0]);
    let (mut down, mut early) = (bytes(&[7.0, 7.0]), bytes(&[7.0, 7.0]));
    let (a, b) = (domain.allocate(8).expect("memory"), domain.allocate(8).expect("memory"));
    // SAFETY: the buffers are as long as it says, and live longer than the domain's queue.
    unsafe {
        domain.download(early.as_mut_ptr(), a, 8).expect("queued");
        domain.upload(a, up.as_ptr(), 8).expect("queued");
        domain.copy(b, a, 8).expect("queued");
        domain.download(down.as_mut_ptr(), b, 8).expect("queued");
    }
    up.copy_from_slice(&bytes(&[3.0, 4.0]));
    assert_eq!(floats(&down), [7.0, 7.0]);
    domain.synchronize().expect("well");
    assert_eq!(floats(&down), [3.0, 4.0]);
    assert!(unwritten(&floats(&early)), "what was there before the upload");
}

#[test]
fn both_backends_pass_addresses_to_each_other() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let (x, w) = (device.upload(&[1.0, -2.0, 3.0, 4.0]), device.upload(&[1.0, 2.0, 0.5, -1.0]));
    let (product, scaled) = (device.empty(4), device.empty(4));
    let mut first = device.load("simdev", &matmul(), &[]).expect("loads");
    let mut second = device.load("simdev-guest", &chain("Mul", "Neg"), &[]).expect("loads");
    device.ready(&mut *first, &[(x, &[2, 2]), (w, &[2, 2])], &[(product, &[2, 2])]).expect("ready");
    device.ready(&mut *second, &[(product, &[2, 2]), (w, &[2, 2])], &[(scaled, &[2, 2])]).expect("ready");
    first.run().expect("queued");
    second.run().expect("queued");
    // x w = [[0, 4], [5, 2]]
    assert_eq!(device.download(scaled, 4), [-0.0, -8.0, -2.5, 2.0]);
}

#[test]
fn constants_are_read_as_they_are_viewed() {
    let bench = Bench::new();
    let mut domain = bench.open(1, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let x = device.upload(&[1.0, 1.0, 1.0, 1.0, 1.0, -10.0]);
    let y = device.empty(6);
    // Two rows of three, transposed: the columns of the bytes.
    let mut region =
        device.load_with_constant("simdev", &add(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2], &[1, 3]).expect("loads");
    device.ready(&mut *region, &[(x, &[3, 2])], &[(y, &[3, 2])]).expect("ready");
    region.run().expect("queued");
    assert_eq!(device.download(y, 6), [2.0, 5.0, 3.0, 6.0, 4.0, -4.0]);
}

#[test]
fn memory_is_limited_and_comes_unwritten() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[("memory", "1024")]).expect("opens");
    let first = domain.allocate(1000).expect("memory");
    assert!(first.is_multiple_of(256) && first >= 1 << 48, "{first:#x}");
    assert_eq!(message(domain.allocate(25)), "the simulator has 24 bytes free of 1024, and 25 were asked for");
    assert_eq!(message(domain.allocate(0)), "0 bytes were asked for");
    // SAFETY: nobody uses it.
    unsafe { domain.release(first) };
    domain.allocate(1024).expect("it was given back");
    let page_locked = domain.allocate_host(8).expect("memory");
    assert!(page_locked.addr().is_multiple_of(64));
    // SAFETY: eight bytes were asked for, and they are given back once.
    unsafe {
        assert!(unwritten(&floats(std::slice::from_raw_parts(page_locked, 8))));
        domain.release_host(page_locked);
    }
}

/// Copies from and to these places fail when somebody waits, and leave the device lost.
#[test]
fn wrong_addresses_are_found_when_they_are_used() {
    let bench = Bench::new();
    type Place = fn(&mut dyn Domain) -> u64;
    let cases: [(Place, &str); 4] = [
        (|_| 8, "0x8 is not an address of the simulator"),
        (|domain| domain.allocate(7).expect("memory"), "8 bytes at @1+0 leave its 7 bytes"),
        (|domain| domain.allocate(256).expect("memory") + 252, "8 bytes at @1+252 leave its 256 bytes"),
        (
            |domain| {
                let address = domain.allocate(8).expect("memory");
                // SAFETY: it is used afterwards, which is what is tested.
                unsafe { domain.release(address) };
                address
            },
            "@1 was released and is used",
        ),
    ];
    for (address, expected) in cases {
        let mut domain = bench.open(0, &[]).expect("opens");
        let (address, buffer) = (address(&mut *domain), bytes(&[1.0, 2.0]));
        // SAFETY: the buffer lives longer than the queue.
        unsafe { domain.upload(address, buffer.as_ptr(), 8).expect("queued") };
        assert_eq!(message(domain.synchronize()), expected);
        assert_eq!(message(domain.synchronize()), format!("the device is lost: {expected}"));
        assert_eq!(message(domain.allocate(8)), format!("the device is lost: {expected}"));
    }
}

#[test]
fn regions_are_strict_about_what_they_are_given() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let memory = device.empty(1024);
    let mut region = device.load("simdev", &relu(), &[("scratch", "64")]).expect("loads");
    assert_eq!(message(region.run()), "nothing was prepared");
    let shape: &[i64] = &[2, 2];
    let tensor = |address| DeviceTensor { address, dtype: byoc_plugin_api::DType::F32, shape };
    let (x, y) = (tensor(memory), tensor(memory + 256));
    assert_eq!(message(region.prepare(&[x], &[y], memory + 512)), "these shapes were not planned last");
    assert_eq!(message(region.plan(&[x], &[y])), "tensors have addresses, and nothing is planned yet");
    assert_eq!(message(region.plan(&[tensor(0)], &[])), "there are 1 inputs and 0 outputs");
    let wide = DeviceTensor { shape: &[4], ..tensor(0) };
    assert_eq!(message(region.plan(&[tensor(0)], &[wide])), "output 0 has shape [2, 2], and [4] was given");
    let plan = region.plan(&[tensor(0)], &[tensor(0)]).expect("planned");
    assert_eq!(plan, DevicePlan { scratch: 64, records: true, recordings_last: true });
    let cases = [
        (x, y, memory + 8, "scratch memory at @1+8 is not aligned to 256"),
        (tensor(memory + 4), y, memory + 512, "input 0 at @1+4 is not aligned to 256"),
        (x, tensor(memory), memory + 512, "output 0 overlaps input 0"),
        (x, y, memory, "scratch memory overlaps input 0"),
        (x, y, 0, "scratch memory: 0x0 is not an address of the simulator"),
        (tensor(memory + 4096), y, memory + 512, "input 0: 16 bytes at @1+4096 leave its 4096 bytes"),
    ];
    for (x, y, scratch, expected) in cases {
        assert_eq!(message(region.prepare(&[x], &[y], scratch)), expected);
    }
    region.prepare(&[x], &[y], memory + 512).expect("ready");
}

#[test]
fn scratch_memory_is_lost_with_every_run() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let (x, y) = (device.upload(&[1.0]), device.empty(1));
    let mut region = device.load("simdev", &relu(), &[("scratch", "8")]).expect("loads");
    let scratch = device.ready(&mut *region, &[(x, &[1])], &[(y, &[1])]).expect("ready");
    device.write(scratch, &[5.0, 6.0]);
    assert_eq!(device.download(scratch, 2), [5.0, 6.0]);
    region.run().expect("queued");
    assert_eq!(device.download(y, 1), [1.0]);
    assert!(unwritten(&device.download(scratch, 2)));
}

#[test]
fn a_fault_is_told_when_somebody_waits() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[("fault", "Relu")]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let (x, y) = (device.upload(&[1.0]), device.empty(1));
    let mut region = device.load("simdev", &relu(), &[]).expect("loads");
    device.ready(&mut *region, &[(x, &[1])], &[(y, &[1])]).expect("ready");
    region.run().expect("queued");
    assert_eq!(message(device.domain.synchronize()), "a kernel wrote outside of its memory");
    assert_eq!(message(region.run()), "the device is lost: a kernel wrote outside of its memory");
    assert_eq!(message(device.domain.mark(0)), "the device is lost: a kernel wrote outside of its memory");
}

#[test]
fn work_is_recorded_and_replayed() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let (x, y) = (device.upload(&[-1.0, 2.0]), device.empty(2));
    let mut region = device.load("simdev", &relu(), &[]).expect("loads");
    device.ready(&mut *region, &[(x, &[2])], &[(y, &[2])]).expect("ready");
    device.domain.begin_recording().expect("begins");
    region.run().expect("recorded");
    let recording = device.domain.end_recording().expect("ends");
    assert!(unwritten(&device.download(y, 2)), "recorded and not done");
    device.domain.replay(recording).expect("queued");
    assert_eq!(device.download(y, 2), [0.0, 2.0]);
    device.write(x, &[3.0, -4.0]);
    device.domain.replay(recording).expect("queued");
    assert_eq!(device.download(y, 2), [3.0, 0.0]);
    device.domain.forget(recording);
    assert_eq!(message(device.domain.replay(recording)), "there is no recording 1");
    assert_eq!(message(device.domain.end_recording()), "no recording has begun");
}

/// What may not be recorded is an error, and so is the end of that recording.
#[test]
fn a_recording_takes_runs_only() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let (x, y) = (device.upload(&[1.0]), device.empty(1));
    let mut region = device.load("simdev", &relu(), &[("unrecordable", "true")]).expect("loads");
    device.ready(&mut *region, &[(x, &[1])], &[(y, &[1])]).expect("ready");
    let mut buffer = [0u8; 4];
    let address = buffer.as_mut_ptr();
    type Call<'a> = &'a mut dyn FnMut(&mut dyn Domain) -> Result<(), Error>;
    let cases: [(&str, Call<'_>); 9] = [
        ("allocate", &mut |domain| domain.allocate(8).map(drop)),
        ("allocate_host", &mut |domain| domain.allocate_host(8).map(drop)),
        // SAFETY: nothing is queued.
        ("upload", &mut |domain| unsafe { domain.upload(x, address, 4) }),
        // SAFETY: nothing is queued.
        ("download", &mut |domain| unsafe { domain.download(address, x, 4) }),
        // SAFETY: nothing is queued.
        ("copy", &mut |domain| unsafe { domain.copy(y, x, 4) }),
        ("mark", &mut |domain| domain.mark(1)),
        ("synchronize", &mut |domain| domain.synchronize()),
        ("begin_recording", &mut |domain| domain.begin_recording()),
        ("plan", &mut |_| {
            let one = DeviceTensor { address: 0, dtype: byoc_plugin_api::DType::F32, shape: &[1] };
            region.plan(&[one], &[one]).map(drop)
        }),
    ];
    for (what, call) in cases {
        device.domain.begin_recording().expect("begins");
        let expected = format!("{what} was called during a recording");
        assert_eq!(message(call(device.domain)), expected);
        assert_eq!(message(device.domain.end_recording()), format!("the recording is lost: {expected}"));
    }
    device.domain.begin_recording().expect("begins");
    assert_eq!(message(region.run()), "it cannot be recorded, as its plan says");
    device.domain.end_recording().expect("ends");
    let mut other = bench.open(0, &[("records", "false")]).expect("opens");
    assert_eq!(message(other.begin_recording()), "this domain records nothing");
}

#[test]
fn time_passes_as_it_is_told() {
    let bench = Bench::new();
    let mut domain = bench.open(0, &[]).expect("opens");
    let mut device = bench.device(&mut *domain);
    let elements = 1 << 17;
    let (x, y) = (device.empty(elements), device.empty(elements));
    let mut region = device.load("simdev", &relu(), &[]).expect("loads");
    let shape = [elements as i64];
    device.ready(&mut *region, &[(x, &shape)], &[(y, &shape)]).expect("ready");
    device.domain.mark(0).expect("queued");
    region.run().expect("queued");
    device.domain.mark(1).expect("queued");
    assert_eq!(message(device.domain.elapsed(0, 1)), "the queue has not passed mark 1");
    // SAFETY: the ranges are apart.
    unsafe { device.domain.copy(x, y, 4).expect("queued") };
    device.domain.mark(2).expect("queued");
    device.domain.synchronize().expect("well");
    assert_eq!(device.domain.elapsed(0, 1).expect("passed"), 0.5e-3);
    assert!((device.domain.elapsed(1, 2).expect("passed") - 1e-3).abs() < 1e-12);
}

/// This test again in a process of its own, which the environment tells from the first one.
const CHILD: &str = "BYOC_SIMDEV_LOG";

fn in_child(test: &str) -> (std::process::Output, String) {
    let folder = places::temporary();
    let log = folder.path().join("log");
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.args(["--exact", &format!("simdev::{test}"), "--nocapture", "--test-threads=1"]).env(CHILD, &log);
    let output = command.output().expect("it runs");
    (output, String::from_utf8(places::read(&log)).expect("text"))
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn every_call_is_a_line() {
    if !is_child() {
        let (output, log) = in_child("every_call_is_a_line");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = "open 1\nallocate 8 -> @1\nupload 8 to @1+0\nallocate 8 -> @2\nload relu\nplan relu\n\
                        allocate 256 -> @3\nprepare relu\nmark 0\nbegin\nrun relu\nend -> 1\nreplay 1\n\
                        download 4 from @2+4\nsynchronize\nelapsed 0 0\ncopy 4 from @2+0 to @1+0\n\
                        allocate_host 5 -> h1\nrelease_host h1\nforget 1\nallocate 0\nfree relu\nrelease @2\nclose\n";
        assert_eq!(log, expected);
        return;
    }
    let bench = Bench::new();
    let mut domain = bench.open(1, &[]).expect("opens");
    let mut buffer = bytes(&[1.0, 2.0]);
    let x = domain.allocate(8).expect("memory");
    // SAFETY: the buffer lives longer than the queue.
    unsafe { domain.upload(x, buffer.as_ptr(), 8).expect("queued") };
    let y = domain.allocate(8).expect("memory");
    let mut device = bench.device(&mut *domain);
    let mut region = device.load("simdev", &relu(), &[("scratch", "256")]).expect("loads");
    device.ready(&mut *region, &[(x, &[2])], &[(y, &[2])]).expect("ready");
    domain.mark(0).expect("queued");
    domain.begin_recording().expect("begins");
    region.run().expect("recorded");
    let recording = domain.end_recording().expect("ends");
    domain.replay(recording).expect("queued");
    // SAFETY: the buffer lives longer than the queue, and the ranges are apart.
    unsafe {
        domain.download(buffer.as_mut_ptr(), y + 4, 4).expect("queued");
        domain.synchronize().expect("well");
        domain.elapsed(0, 0).expect("passed");
        domain.copy(x, y, 4).expect("queued");
        let page_locked = domain.allocate_host(5).expect("memory");
        domain.release_host(page_locked);
    }
    domain.forget(recording);
    domain.allocate(0).expect_err("nothing");
    drop(region);
    // SAFETY: nobody uses it.
    unsafe { domain.release(y) };
}

/// A mistake of the host in a call that gives no answer ends the process.
#[track_caller]
fn ends_the_process(test: &str, expected: &str, mistake: impl FnOnce(Bench, Box<dyn Domain>)) {
    if is_child() {
        let bench = Bench::new();
        let domain = bench.open(0, &[]).expect("opens");
        return mistake(bench, domain);
    }
    let (output, _) = in_child(test);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let expected = format!("the simulator ends this process: {expected}\n");
    assert!(output.status.signal().is_some() && stderr.ends_with(&expected), "{} {stderr}", output.status);
}

#[test]
fn memory_is_released_once() {
    ends_the_process("memory_is_released_once", "release: @1 was released before", |_, mut domain| {
        let address = domain.allocate(8).expect("memory");
        // SAFETY: none: this is the mistake.
        unsafe {
            domain.release(address);
            domain.release(address);
        }
    });
}

#[test]
fn regions_go_before_their_domain() {
    ends_the_process("regions_go_before_their_domain", "close: 1 regions are still loaded", |bench, mut domain| {
        let region = bench.device(&mut *domain).load("simdev-guest", &relu(), &[]).expect("loads");
        drop(domain);
        drop(region);
    });
}

#[test]
fn regions_go_when_their_work_is_done() {
    ends_the_process(
        "regions_go_when_their_work_is_done",
        "free relu: its work is still queued",
        |bench, mut domain| {
            let mut device = bench.device(&mut *domain);
            let (x, y) = (device.upload(&[1.0]), device.empty(1));
            let mut region = device.load("simdev", &relu(), &[]).expect("loads");
            device.ready(&mut *region, &[(x, &[1])], &[(y, &[1])]).expect("ready");
            region.run().expect("queued");
            drop(region);
        },
    );
}
