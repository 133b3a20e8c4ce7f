//! Attaching to a domain that another library opened, here the same one.

use std::ptr::null_mut;

use byoc_nvidia::attached_domain::AttachedDomain;
use byoc_nvidia::domain::CudaDomain;
use byoc_nvidia::{device, locate};
use byoc_nvidia_standins::tried;
use byoc_plugin_api::dlpack::DLDevice;
use byoc_plugin_api::{Domain, DomainHandles, Error};
use cudarc::driver::result;

use crate::child::{self, refused};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("join::a_region_shares_context_and_queue", a_region_shares_context_and_queue),
    ("join::handles_of_something_else", handles_of_something_else),
];

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    match action {
        "join-share" => share(),
        "join-others" => others(),
        _ => Err(Error::new(format!("no action {action}"))),
    }
}

fn share() -> Result<Vec<String>, Error> {
    let mut domain = CudaDomain::open(0, &child::search_path(), &[])?;
    let (from, to) = (domain.allocate(4)?, domain.allocate(4)?);
    let (data, mut got) = ([1u8, 2, 3, 4], [0u8; 4]);
    // SAFETY: both ranges are of 4 bytes, and are left alone until `synchronize`.
    unsafe { domain.upload(from, data.as_ptr(), 4) }?;
    let attached = AttachedDomain::new(&domain.handles(), &locate::driver(&child::search_path())?)?;
    let same = attached.stream().cast() == domain.handles().queue;
    let line = format!("{same} {}", attached.device());
    // On a thread that no context is current on.
    let region = std::thread::spawn(move || -> Result<(), Error> {
        let copy = || {
            // SAFETY: both ranges are the domain's; the stream is the one that `from` is written on.
            unsafe { result::memcpy_dtod_async(to, from, 4, attached.stream()) }
        };
        let outside = copy().err().map(device::explain);
        assert_eq!(outside.as_deref(), Some("CUDA_ERROR_INVALID_CONTEXT: invalid device context"));
        let entered = attached.enter()?;
        // Where it is current already, it stays so.
        drop(attached.enter()?);
        copy().map_err(|cause| attached.device().failed("copy", cause))?;
        drop(entered);
        assert!(copy().is_err(), "no context is current, as before");
        Ok(())
    });
    region.join().expect("it does not panic")?;
    // SAFETY: as above.
    unsafe { domain.download(got.as_mut_ptr(), to, 4) }?;
    domain.synchronize()?;
    Ok(vec![line, format!("{got:?}")])
}

fn a_region_shares_context_and_queue() {
    let (output, log) = tried("join-share", &[]);
    assert_eq!(output, "true cuda:0 stand-in 0, compute capability 9.0\n[1, 2, 3, 4]");
    let expected = "retain 0: 1\ncreate stream\nallocate 4\nallocate 4\nupload 4\nretain 0: 2\ncopy 4\n\
                    release 0: 1, 8 bytes live\ndownload 4\nsynchronize stream\nsynchronize stream\nfree 4\nfree 4\n\
                    destroy stream\nrelease 0: 0, 0 bytes live";
    assert_eq!(log, expected);
}

fn others() -> Result<Vec<String>, Error> {
    let domain = CudaDomain::open(0, &child::search_path(), &[])?;
    let (driver, handles) = (locate::driver(&child::search_path())?, domain.handles());
    let device = |device_type, device_id| DomainHandles { device: DLDevice { device_type, device_id }, ..handles };
    let cases = [
        device(1, 0),
        device(2, -1),
        device(2, 2),
        device(2, 1),
        DomainHandles { context: null_mut(), ..handles },
        DomainHandles { queue: null_mut(), ..handles },
    ];
    Ok(cases.iter().map(|handles| refused(AttachedDomain::new(handles, &driver))).collect())
}

fn handles_of_something_else() {
    let (output, log) = tried("join-others", &[("STANDIN_DEVICES", "2")]);
    let other = |ordinal: u32| {
        format!(
            "the context of the domain cuda:{ordinal} is not the one that libcuda 13.0 (DIR/libcuda.so.1) gives \
             (Have one libcuda.so.1 in BYOC_CUDA_PATH and LD_LIBRARY_PATH)"
        )
    };
    let expected = [
        "the domain is a device of DLPack's type 1, but CUDA's are of type 2 ()".into(),
        "there is no device cuda:-1 ()".into(),
        "the driver for CUDA 13.0 (DIR/libcuda.so.1) finds no device cuda:2 (It finds cuda:0, cuda:1)".into(),
        other(1),
        other(0),
        "the domain cuda:0 has no stream of its own ()".into(),
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    assert!(log.ends_with("destroy stream\nrelease 0: 0, 0 bytes live"), "{log}");
    assert!(log.contains("retain 1: 1\nrelease 1: 0, 0 bytes live\n"), "{log}");
}
