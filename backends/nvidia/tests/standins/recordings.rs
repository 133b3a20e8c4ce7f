//! Recordings of a domain.

use byoc_nvidia_standins::tried;
use byoc_plugin_api::{Domain, Error};

use crate::child::refused;
use crate::domain::{got, open, sent};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("recordings::copies_are_replayed", copies_are_replayed),
    ("recordings::one_that_fails_leaves_the_stream_usable", one_that_fails_leaves_the_stream_usable),
    ("recordings::memory_that_was_freed", memory_that_was_freed),
];

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    match action {
        "recordings-replay" => replay(),
        "recordings-lost" => lost(),
        "recordings-freed" => freed(),
        _ => Err(Error::new(format!("no action {action}"))),
    }
}

fn replay() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, middle, to) = (sent(&mut domain, [1, 2, 3])?, domain.allocate(3)?, sent(&mut domain, [0; 3])?);
    domain.begin_recording()?;
    // SAFETY: all ranges are of 3 bytes.
    unsafe {
        domain.copy(middle, from, 3)?;
        domain.copy(to, middle, 3)?;
    }
    let first = domain.end_recording()?;
    domain.begin_recording()?;
    // SAFETY: as above.
    unsafe { domain.copy(to, middle + 1, 2) }?;
    let second = domain.end_recording()?;
    let mut lines = vec![format!("{:?}", got::<3>(&mut domain, to)?)];
    for recording in [first, second, second, first] {
        domain.replay(recording)?;
        lines.push(format!("{:?}", got::<3>(&mut domain, to)?));
    }
    // What is recorded is the work, not the bytes.
    // SAFETY: both ranges are of 3 bytes; the array is a constant.
    unsafe { domain.upload(from, [4u8, 5, 6].as_ptr(), 3) }?;
    domain.replay(first)?;
    lines.push(format!("{:?}", got::<3>(&mut domain, to)?));
    domain.forget(first);
    lines.push(refused(domain.replay(first)));
    domain.forget(first);
    lines.push(refused(domain.replay(second)));
    Ok(lines)
}

fn copies_are_replayed() {
    let (output, log) = tried("recordings-replay", &[]);
    let expected =
        "[0, 0, 0]\n[1, 2, 3]\n[2, 3, 3]\n[2, 3, 3]\n[1, 2, 3]\n[4, 5, 6]\ncuda:0 has no recording 1 ()\ndone";
    assert_eq!(output, expected);
    assert_eq!(log.matches("launch graph: 2 pieces of work\n").count(), 3, "{log}");
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn lost() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, to) = (sent(&mut domain, [1, 2, 3])?, sent(&mut domain, [0; 3])?);
    domain.begin_recording()?;
    let mut lines = vec![refused(domain.begin_recording()), refused(domain.synchronize()), refused(domain.allocate(4))];
    // Memory that cannot be given back now is given back in the end.
    let spare = from;
    // SAFETY: nothing uses it any more.
    unsafe { domain.release(spare) };
    lines.push(refused(domain.end_recording()));
    lines.push(refused(domain.end_recording()));
    lines.push(format!("{:?}", got::<3>(&mut domain, to)?));

    domain.begin_recording()?;
    // SAFETY: both ranges are of 3 bytes.
    unsafe { domain.copy(to, from, 3) }?;
    let (mut domain, elsewhere) = std::thread::spawn(move || {
        let ended = refused(domain.end_recording());
        (domain, ended)
    })
    .join()
    .expect("it does not panic");
    lines.push(elsewhere);
    let recording = domain.end_recording()?;
    domain.replay(recording)?;
    lines.push(format!("{:?}", got::<3>(&mut domain, to)?));

    // The stand-in makes one graph only, in this case.
    domain.begin_recording()?;
    lines.push(refused(domain.end_recording()));
    lines.push(refused(domain.synchronize()));
    Ok(lines)
}

fn one_that_fails_leaves_the_stream_usable() {
    let (output, log) = tried("recordings-lost", &[("STANDIN_GRAPHS", "1")]);
    let state = "CUDA_ERROR_ILLEGAL_STATE: the operation cannot be performed in the present state ()";
    let refused = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: operation not permitted when stream is capturing ()";
    let thread = "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: attempt to terminate a thread-local capture sequence from \
                  another thread ()";
    let expected = [
        format!("cuda:0 cannot record: {state}"),
        format!("cuda:0 cannot wait for its work: {refused}"),
        format!("cuda:0 cannot allocate 4 bytes: {refused}"),
        "cuda:0 cannot keep the recording: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous \
         error during capture ()"
            .into(),
        format!("cuda:0 cannot keep the recording: {state}"),
        "[0, 0, 0]".into(),
        format!("cuda:0 cannot keep the recording: {thread}"),
        "[1, 2, 3]".into(),
        "cuda:0 cannot keep the recording: CUDA_ERROR_OUT_OF_MEMORY: out of memory (Use a smaller batch, or another \
         device)"
            .into(),
        "done".into(),
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn freed() -> Result<Vec<String>, Error> {
    let mut domain = open()?;
    let (from, to) = (sent(&mut domain, [1, 2, 3])?, domain.allocate(3)?);
    domain.begin_recording()?;
    // SAFETY: both ranges are of 3 bytes.
    unsafe { domain.copy(to, from, 3) }?;
    let recording = domain.end_recording()?;
    // SAFETY: the stand-in looks before it copies.
    unsafe { domain.release(from) };
    Ok(vec![refused(domain.replay(recording)), refused(domain.synchronize())])
}

fn memory_that_was_freed() {
    let (output, log) = tried("recordings-freed", &[]);
    let cause = "earlier work on cuda:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory \
                 access was encountered (CUDA accepts no more work from this process: start it again)";
    assert_eq!(output, format!("done\n{cause}"));
    assert!(log.contains("copy 3\nfault in a copy of memory that was freed\n"), "{log}");
}
