//! Domains: memory, copies, time, and what is said when something is wrong.

use byoc_nvidia::domain::CudaDomain;
use byoc_nvidia::locate::Library;
use byoc_nvidia_standins::{Child, FOLDER, both, build, copy, shield, temporary, tried};
use byoc_plugin_api::testing::Rng;
use byoc_plugin_api::{Domain, Error};

use crate::child::{self, refused};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("domain::bytes_come_back", bytes_come_back),
    ("domain::domains_of_a_device_share_its_context", domains_of_a_device_share_its_context),
    ("domain::calls_come_from_any_thread", calls_come_from_any_thread),
    ("domain::memory_runs_out", memory_runs_out),
    ("domain::marks_tell_the_time", marks_tell_the_time),
    ("domain::addresses_that_are_not_its_own", addresses_that_are_not_its_own),
    ("domain::work_that_goes_wrong", work_that_goes_wrong),
    ("domain::what_is_left_is_given_back", what_is_left_is_given_back),
    ("domain::a_thousand_rounds_leave_nothing", a_thousand_rounds_leave_nothing),
    ("domain::libraries_that_are_missing", libraries_that_are_missing),
    ("domain::functions_that_are_missing", functions_that_are_missing),
];

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    match action {
        "domain-round" => round(),
        "domain-two" => two(),
        "domain-threads" => threads(),
        "domain-memory" => memory(),
        "domain-marks" => marks(),
        "domain-wrong" => wrong(),
        "domain-fault" => fault(),
        "domain-left" => left(),
        "domain-rounds" => rounds(),
        _ => Err(Error::new(format!("no action {action}"))),
    }
}

/// The first device.
pub(crate) fn open() -> Result<CudaDomain, Error> {
    CudaDomain::open(0, &child::search_path(), &[])
}

/// Fresh memory that holds these bytes.
pub(crate) fn sent<const N: usize>(domain: &mut CudaDomain, bytes: [u8; N]) -> Result<u64, Error> {
    let address = domain.allocate(N as u64)?;
    // SAFETY: both ranges are of N bytes, and `bytes` stays until the copy is made.
    unsafe { domain.upload(address, bytes.as_ptr(), N) }?;
    domain.synchronize()?;
    Ok(address)
}

/// What memory holds.
pub(crate) fn got<const N: usize>(domain: &mut CudaDomain, address: u64) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    // SAFETY: both ranges are of N bytes, and `bytes` stays until the copy is made.
    unsafe { domain.download(bytes.as_mut_ptr(), address, N) }?;
    domain.synchronize()?;
    Ok(bytes)
}

fn round() -> Result<Vec<String>, Error> {
    let mut domain = CudaDomain::open(0, &child::search_path(), &[Library::CublasLt])?;
    let (info, mut random) = (domain.info(), Rng::with_seed(1));
    for most in [16, 5000, 300_000].repeat(20) {
        let bytes = random.usize(..most) + 1;
        let sent: Vec<u8> = (0..bytes).map(|_| random.u8(..)).collect();
        let (one, other) = (domain.allocate(bytes as u64)?, domain.allocate(bytes as u64)?);
        assert_eq!((one % 256, other % 256), (0, 0));
        let pinned = domain.allocate_host(bytes)?;
        let (mut got, start) = (vec![0; bytes], random.usize(..bytes));
        // SAFETY: all ranges are of `bytes`, or of what follows `start`; all stay until `synchronize`.
        unsafe {
            // To the first allocation, and back to page-locked memory; then the end of it once more, the
            // other way round.
            domain.upload(one, sent.as_ptr(), bytes)?;
            domain.download(pinned, one, bytes)?;
            domain.synchronize()?;
            domain.upload(other, pinned, bytes)?;
            domain.copy(one, other + start as u64, bytes - start)?;
            domain.download(got.as_mut_ptr(), one, bytes)?;
            domain.synchronize()?;
        }
        let expected = [&sent[start..], &sent[bytes - start..]].concat();
        assert!(got == expected, "{bytes} bytes, from {start}");
        // SAFETY: they came from this domain, and the work is done.
        unsafe {
            domain.release(one);
            domain.release(other);
            domain.release_host(pinned);
        }
    }
    Ok(vec![format!("{}, {} bytes, {}", info.title, info.memory, info.records), info.libraries.join(", ")])
}

const TITLE: &str = "stand-in 0, compute capability 9.0, 1073741824 bytes, true";

fn bytes_come_back() {
    let (output, log) = tried("domain-round", &[]);
    let libraries = "libcuda 13.0 (DIR/libcuda.so.1), libcublasLt 13.0 (DIR/libcublasLt.so.13)";
    assert_eq!(output, format!("{TITLE}\n{libraries}"));
    assert!(log.ends_with("destroy stream\nrelease 0: 0, 0 bytes live"), "{log}");
    assert_eq!(log.matches("\nallocate ").count(), 180);
    assert_eq!(log.matches("\nfree ").count(), 180);
}

fn two() -> Result<Vec<String>, Error> {
    let (mut one, mut two) = (open()?, open()?);
    let other = CudaDomain::open(1, &child::search_path(), &[])?;
    let (first, second, third) = (one.handles(), two.handles(), other.handles());
    let device = format!("{:?} {:?} {:?}", first.device, second.device, third.device);
    let same = [first.context == second.context, first.context == third.context, first.queue == second.queue];
    // Another device's context is current now. What one domain holds, the other of that device reads.
    let address = sent(&mut one, [7, 8, 9])?;
    let read = got::<3>(&mut two, address)?;
    drop(one);
    Ok(vec![device, format!("{same:?} {read:?}"), refused(two.synchronize())])
}

fn domains_of_a_device_share_its_context() {
    let (output, log) = tried("domain-two", &[("STANDIN_DEVICES", "2")]);
    let device = |id| format!("DLDevice {{ device_type: 2, device_id: {id} }}");
    let devices = [device(0), device(0), device(1)].join(" ");
    assert_eq!(output, format!("{devices}\n[true, false, false] [7, 8, 9]\ndone"));
    let expected = "retain 0: 1\ncreate stream\nretain 0: 2\ncreate stream\nretain 1: 1\ncreate stream\n";
    assert!(log.starts_with(expected), "{log}");
    assert!(log.contains("destroy stream\nrelease 0: 1, 0 bytes live\n"), "{log}");
    for end in ["destroy stream\nrelease 0: 0, 0 bytes live", "destroy stream\nrelease 1: 0, 0 bytes live"] {
        assert!(log.contains(end), "{log}");
    }
    assert!(!log.contains("left over"), "{log}");
}

/// Does something on a thread on which no context is current.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn threads() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, to) = (elsewhere(|| domain.allocate(3))?, elsewhere(|| domain.allocate(3))?);
    let host = elsewhere(|| domain.allocate_host(3).map(<*mut u8>::expose_provenance))?;
    let mut got = [0u8; 3];
    elsewhere(|| domain.mark(0))?;
    // SAFETY: all ranges are of 3 bytes, and stay until `synchronize`; nothing uses what is given back.
    unsafe {
        elsewhere(|| domain.upload(from, [1u8, 2, 3].as_ptr(), 3))?;
        elsewhere(|| domain.copy(to, from, 3))?;
        elsewhere(|| domain.download(got.as_mut_ptr(), to, 3))?;
        elsewhere(|| domain.synchronize())?;
        elsewhere(|| domain.mark(1))?;
        let seconds = elsewhere(|| domain.elapsed(0, 1))?;
        let recording = elsewhere(|| domain.begin_recording().and_then(|()| domain.end_recording()))?;
        elsewhere(|| domain.replay(recording))?;
        elsewhere(|| domain.forget(recording));
        elsewhere(|| domain.release(from));
        elsewhere(|| domain.release_host(std::ptr::with_exposed_provenance_mut(host)));
        elsewhere(|| drop(domain));
        Ok(vec![format!("{got:?} {seconds}")])
    }
}

fn calls_come_from_any_thread() {
    let (output, log) = tried("domain-threads", &[]);
    assert_eq!(output, "[1, 2, 3] 0.003");
    let end = "launch graph: 0 pieces of work\nsynchronize stream\nfree 3\nfree 3 on the host\nsynchronize stream\n\
               free 3\ndestroy stream\nrelease 0: 0, 0 bytes live";
    assert!(log.ends_with(end), "{log}");
}

fn memory() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let first = domain.allocate(600)?;
    let second = refused(domain.allocate(600));
    // SAFETY: nothing uses either address.
    unsafe {
        domain.release(first);
        domain.release(first + 1);
    }
    domain.allocate(1000)?;
    Ok(vec![second, refused(domain.allocate(u64::MAX)), refused(domain.allocate_host(1 << 60))])
}

fn memory_runs_out() {
    let (output, log) = tried("domain-memory", &[("STANDIN_MEMORY", "1000")]);
    let cause = "CUDA_ERROR_OUT_OF_MEMORY: out of memory (Use a smaller batch, or another device)";
    let expected = format!(
        "cuda:0 cannot allocate 600 bytes with 400 of 1000 free: {cause}\n\
         cuda:0 cannot allocate 18446744073709551615 bytes with 0 of 1000 free: {cause}\n\
         cuda:0 cannot allocate 1152921504606846976 bytes of page-locked host memory: {cause}"
    );
    assert_eq!(output, expected);
    assert!(!log.contains("no allocation") && log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn marks() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let address = sent(&mut domain, [1; 8])?;
    domain.mark(4)?;
    got::<8>(&mut domain, address)?;
    domain.mark(0)?;
    let once = domain.elapsed(4, 0)?;
    (0..3).try_for_each(|_| got::<8>(&mut domain, address).map(drop))?;
    domain.mark(0)?;
    domain.synchronize()?;
    let again = domain.elapsed(4, 0)?;
    domain.begin_recording()?;
    domain.mark(0)?;
    domain.end_recording()?;
    let lines = [domain.elapsed(4, 0), domain.elapsed(4, 5), domain.elapsed(6, 4)].map(refused);
    Ok([vec![format!("{once} {again}")], lines.to_vec()].concat())
}

/// A piece of work takes the stand-in a millisecond.
fn marks_tell_the_time() {
    let captured = "CUDA_ERROR_CAPTURED_EVENT: operation not permitted on an event last recorded in a capturing stream";
    let expected = format!(
        "0.001 0.004\ncuda:0 cannot tell the time from mark 4 to mark 0: {captured} ()\ncuda:0 has no mark 5 ()\n\
         cuda:0 has no mark 6 ()"
    );
    let (output, log) = tried("domain-marks", &[]);
    assert_eq!(output, expected);
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
    // Drivers before CUDA 12.8, and later ones without the old name.
    let scratch = temporary();
    for name in ["cuEventElapsedTime_v2", "cuEventElapsedTime"] {
        let folder = scratch.path().join(name);
        build(&folder, "libcuda", "libcuda.so.1", &[name]);
        let child = Child::new("domain-marks").with(FOLDER, &folder).with("LD_LIBRARY_PATH", shield(scratch.path()));
        assert_eq!(child.output(&folder), expected);
    }
}

fn wrong() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (live, freed, bytes) = (domain.allocate(4)?, domain.allocate(4)?, [0u8; 8]);
    // SAFETY: the stand-in says no where memory is not live or not as long.
    unsafe {
        domain.release(freed);
        let lines = [
            domain.upload(freed, bytes.as_ptr(), 4),
            domain.upload(live, bytes.as_ptr(), 5),
            domain.copy(live + 2, live, 3),
            domain.download(bytes.clone().as_mut_ptr(), 0, 4),
            domain.replay(3),
            domain.synchronize(),
        ];
        domain.forget(3);
        Ok(lines.map(refused).to_vec())
    }
}

fn addresses_that_are_not_its_own() {
    let (output, _) = tried("domain-wrong", &[]);
    let cause = "CUDA_ERROR_INVALID_VALUE: invalid argument ()";
    let expected = format!(
        "cuda:0 cannot copy 4 bytes from the host: {cause}\ncuda:0 cannot copy 5 bytes from the host: {cause}\n\
         cuda:0 cannot copy 3 bytes: {cause}\ncuda:0 cannot copy 4 bytes to the host: {cause}\n\
         cuda:0 has no recording 3 ()\ndone"
    );
    assert_eq!(output, expected);
}

fn fault() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, to) = (sent(&mut domain, [1; 8])?, domain.allocate(8)?);
    domain.allocate_host(8)?;
    domain.mark(0)?;
    // SAFETY: both ranges are of 8 bytes.
    let queued = unsafe { domain.copy(to, from, 8) };
    let lines = [refused(queued), refused(domain.synchronize()), refused(domain.allocate(8))];
    // On another thread, where a panic would be heard of.
    let ended = std::thread::spawn(move || drop(domain)).join().is_ok();
    Ok([lines.to_vec(), vec![ended.to_string(), refused(open())]].concat())
}

fn work_that_goes_wrong() {
    let (output, log) = tried("domain-fault", &[("STANDIN_FAULT", "2")]);
    let cause = "earlier work on cuda:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory \
                 access was encountered (CUDA accepts no more work from this process: start it again)";
    assert_eq!(output, format!("done\n{cause}\n{cause}\ntrue\n{cause}"));
    // The device takes nothing back, but the context is let go, twice.
    assert_eq!(log.matches("\nrelease 0: 0, 16 bytes live\n").count(), 2, "{log}");
}

fn left() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, to) = (sent(&mut domain, [1; 8])?, domain.allocate(8)?);
    domain.allocate_host(100)?;
    (0..3).try_for_each(|number| domain.mark(number))?;
    for _ in 0..2 {
        domain.begin_recording()?;
        // SAFETY: both ranges are of 8 bytes.
        unsafe { domain.copy(to, from, 8) }?;
        domain.end_recording()?;
    }
    domain.begin_recording()?;
    drop(domain);
    // A recording that its own thread cannot end.
    let mut domain = open()?;
    domain.begin_recording()?;
    let ended = std::thread::spawn(move || drop(domain)).join().is_ok();
    Ok(vec![ended.to_string()])
}

fn what_is_left_is_given_back() {
    let (output, log) = tried("domain-left", &[]);
    assert_eq!(output, "true");
    let first = "begin capture\nend capture: 0 pieces of work\nsynchronize stream\nfree 8\nfree 8\n\
                 free 100 on the host\ndestroy stream\nrelease 0: 0, 0 bytes live\nretain 0: 1\n";
    assert!(log.contains(first), "{log}");
    let second = "begin capture\nsynchronize stream\ndestroy stream\nrelease 0: 0, 0 bytes live";
    assert!(log.ends_with(second), "{log}");
}

const ROUNDS: usize = 1000;

fn rounds() -> Result<Vec<String>, Error> {
    for _ in 0..ROUNDS {
        let mut domain = open()?;
        let (from, to) = (sent(&mut domain, [1; 8])?, domain.allocate(8)?);
        domain.mark(0)?;
        domain.begin_recording()?;
        // SAFETY: both ranges are of 8 bytes.
        unsafe { domain.copy(to, from, 8) }?;
        let recording = domain.end_recording()?;
        domain.replay(recording)?;
        assert_eq!(got(&mut domain, to)?, [1; 8]);
    }
    Ok(Vec::new())
}

fn a_thousand_rounds_leave_nothing() {
    let (_, log) = tried("domain-rounds", &[]);
    let mut times = std::collections::BTreeMap::new();
    log.lines().for_each(|line| *times.entry(line).or_insert(0) += 1);
    let expected = [
        ("allocate 8", 2),
        ("begin capture", 1),
        ("copy 8", 1),
        ("create stream", 1),
        ("destroy stream", 1),
        ("download 8", 1),
        ("end capture: 1 pieces of work", 1),
        ("free 8", 2),
        ("launch graph: 1 pieces of work", 1),
        ("release 0: 0, 0 bytes live", 1),
        ("retain 0: 1", 1),
        ("synchronize stream", 3),
        ("upload 8", 1),
    ];
    assert_eq!(times.into_iter().collect::<Vec<_>>(), expected.map(|(line, count)| (line, count * ROUNDS)));
}

fn libraries_that_are_missing() {
    let scratch = temporary();
    let said = |folder: &str| {
        let shield = shield(scratch.path());
        let child = Child::new("domain-round").with(FOLDER, scratch.path().join(folder));
        child.with("LD_LIBRARY_PATH", shield).output(scratch.path())
    };
    let driver = "there is no libcuda.so.1 in DIR/none, the loader's path (Install NVIDIA's driver 525 or newer, or name \
                  the folder of libcuda.so.1 in BYOC_CUDA_PATH)";
    assert_eq!(said("none"), driver);
    copy(&both().join("libcuda.so.1"), &scratch.path().join("one/libcuda.so.1"));
    let cublaslt = "there is no libcublasLt.so.13 or libcublasLt.so.12 in DIR/one, the loader's path (Try `pip install \
                    nvidia-cublas==13.0.*`, or name its folder in BYOC_CUDA_PATH)";
    assert_eq!(said("one"), cublaslt);
}

/// Those that only domains call; `locate::functions_that_are_missing` tries others.
fn functions_that_are_missing() {
    let (scratch, mut domains) = (temporary(), 0);
    for names in Library::Driver.functions() {
        let domain = ["Capture", "MemHost", "MemcpyDtoD", "EventElapsed", "GraphLaunch"];
        if !domain.iter().any(|part| names.contains(part)) {
            continue;
        }
        domains += 1;
        let folder = scratch.path().join(names);
        build(&folder, "libcuda", "libcuda.so.1", &names.split(" or ").collect::<Vec<_>>());
        let child = Child::new("domain-marks").with(FOLDER, &folder).with("LD_LIBRARY_PATH", shield(scratch.path()));
        let hint = "Install NVIDIA's driver 525 or newer, or name the folder of libcuda.so.1 in BYOC_CUDA_PATH";
        let expected = format!("libcuda (DIR/libcuda.so.1) has no function {names} ({hint})");
        assert_eq!(child.output(&folder), expected);
    }
    assert_eq!(domains, 6);
}
