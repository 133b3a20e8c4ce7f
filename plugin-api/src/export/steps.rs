//! The functions of the ability `byoc.steps`: what a run consisted of.

use std::ffi::c_void;

use super::{Loaded, guard, write_json};
use crate::abi::Sink;
use crate::steps_table::StepsTable;

pub(super) const TABLE: &StepsTable = &StepsTable { struct_size: size_of::<StepsTable>(), time, read };

extern "C" fn time(executable: *mut c_void, on: u32, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the handle came from `load`, is not freed yet, and the host makes one call at a time.
        let loaded = unsafe { &mut *executable.cast::<Loaded>() };
        loaded.executable.call(|executable| executable.time_steps(on != 0))
    })
}

extern "C" fn read(executable: *mut c_void, out: Sink, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: as in `time`.
        let loaded = unsafe { &mut *executable.cast::<Loaded>() };
        write_json(out, &loaded.executable.call(|executable| executable.steps())?)
    })
}
