//! Panics in every function of a domain and of a region on it: each stays in the plugin.

use byoc_plugin_api::{Domain, Error};

use super::bench::{Bench, relu};
use super::message;

/// The name of a call, and the call.
type Panics<'a> = (&'a str, &'a dyn Fn(&mut dyn Domain) -> Result<(), Error>);

#[test]
fn a_panic_is_an_error_of_the_call() {
    let bench = Bench::new();
    let place = std::ptr::dangling_mut::<u8>();
    // SAFETY: of all of these: nothing comes to be done.
    let calls: [Panics<'_>; 11] = [
        ("allocate", &|domain| domain.allocate(8).map(drop)),
        ("allocate_host", &|domain| domain.allocate_host(8).map(drop)),
        ("upload", &|domain| unsafe { domain.upload(0, place, 8) }),
        ("download", &|domain| unsafe { domain.download(place, 0, 8) }),
        ("copy", &|domain| unsafe { domain.copy(0, 0, 8) }),
        ("synchronize", &|domain| domain.synchronize()),
        ("mark", &|domain| domain.mark(0)),
        ("elapsed", &|domain| domain.elapsed(0, 0).map(drop)),
        ("begin_recording", &|domain| domain.begin_recording()),
        ("end_recording", &|domain| domain.end_recording().map(drop)),
        ("replay", &|domain| domain.replay(1)),
    ];
    for (call, make) in calls {
        let mut domain = bench.open(0, &[("panic", call)]).expect("opens");
        assert_eq!(message(make(&mut *domain)), format!("backend panicked: as asked in {call}"));
    }
    for call in ["open_domain", "info", "handles"] {
        assert_eq!(message(bench.open(0, &[("panic", call)])), format!("backend panicked: as asked in {call}"));
    }
}

/// Calls that give no answer go well as far as the host can see.
#[test]
fn a_panic_in_a_call_without_answer_ends_there() {
    let bench = Bench::new();
    for call in ["release", "release_host", "forget", "close"] {
        let mut domain = bench.open(0, &[("panic", call)]).expect("opens");
        let (device, host) = (domain.allocate(8).expect("memory"), domain.allocate_host(8).expect("memory"));
        // SAFETY: nobody uses them.
        unsafe {
            domain.release(device);
            domain.release_host(host);
        }
        domain.forget(1);
    }
}

#[test]
fn a_panic_of_a_region_is_an_error_of_the_call() {
    let bench = Bench::new();
    for call in ["load_on", "plan", "prepare", "run", "free"] {
        let mut domain = bench.open(0, &[]).expect("opens");
        let mut device = bench.device(&mut *domain);
        let (x, y) = (device.upload(&[1.0]), device.empty(1));
        let panicked = device.load("simdev-guest", &relu(), &[("panic", call)]).and_then(|mut region| {
            device.ready(&mut *region, &[(x, &[1])], &[(y, &[1])])?;
            region.run()?;
            device.domain.synchronize()
        });
        match call {
            "free" => panicked.expect("nobody is told"),
            _ => assert_eq!(message(panicked), format!("backend panicked: as asked in {call}")),
        }
        // Nor may the domain close while a region is there whose end has panicked.
        if call == "free" {
            std::mem::forget(domain);
        }
    }
}
