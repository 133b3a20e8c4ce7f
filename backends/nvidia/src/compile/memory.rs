//! Checks that there is enough memory for a compilation. A template of CUTLASS may need gigabytes, and a process that runs
//! out of memory is killed, or makes the system kill others.

use std::fs::read_to_string;

use byoc_plugin_api::Error;

const MIB: u64 = 1 << 20;

/// What this process and its machine have, in bytes; `None` where that is not limited or not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// The limit of this process: `RLIMIT_DATA`, which `--plugin-memory` sets in the processes of plugins.
    limit: Option<u64>,
    /// How much of it is used.
    used: u64,
    /// What is free on the machine.
    machine: Option<u64>,
}

const RAISE: &str = "Raise --plugin-memory";

impl Room {
    fn now() -> Room {
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let machine = read_to_string("/proc/meminfo").unwrap_or_default();
        let used = field(&status, "VmData:").unwrap_or_default();
        Room { limit: limit(), used, machine: field(&machine, "MemAvailable:") }
    }

    fn check(&self, what: &str, needed: u64) -> Result<(), Error> {
        let short = |room: &Option<u64>| room.is_some_and(|room| room < needed);
        let mib = |bytes: Option<u64>| bytes.unwrap_or_default() / MIB;
        let takes = format!("{what} takes about {} MiB of memory", needed.div_ceil(MIB));
        let process = self.limit.map(|limit| limit.saturating_sub(self.used));
        if short(&process) {
            return Err(Error::new(format!("{takes}, and this process may take {} MiB more", mib(process))).hint(RAISE));
        }
        if short(&self.machine) {
            let error = Error::new(format!("{takes}, and this machine has {} MiB free", mib(self.machine)));
            return Err(error.hint("End other programs, or compile on a machine with more"));
        }
        Ok(())
    }
}

/// Checks that there are `needed` bytes for what `what` says.
pub(super) fn check(what: &str, needed: u64) -> Result<(), Error> {
    if needed == 0 { Ok(()) } else { Room::now().check(what, needed) }
}

/// The error of a compilation in which an allocation failed.
pub(super) fn ran_out(what: &str) -> Error {
    match limit() {
        Some(limit) => Error::new(format!("{what} took more than {} MiB of memory", limit / MIB)).hint(RAISE),
        None => Error::new(format!("{what} took more memory than there is")),
    }
}

#[cfg(target_os = "linux")]
fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Data).current
}

#[cfg(not(target_os = "linux"))]
fn limit() -> Option<u64> {
    None
}

/// A number of kB in one of the kernel's tables, as bytes.
fn field(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(room: Room, needed: u64) -> String {
        let told = |error: Error| format!("{} ({})", error.message, error.hint.unwrap_or_default());
        room.check("compiling k for sm_80", needed).map_or_else(told, |()| "enough".into())
    }

    #[test]
    fn the_narrower_one_is_named() {
        let room = |limit, machine| Room { limit, used: 100 * MIB, machine };
        assert_eq!(told(room(None, None), u64::MAX), "enough");
        assert_eq!(told(room(Some(500 * MIB), Some(400 * MIB)), 400 * MIB), "enough");
        let takes = "compiling k for sm_80 takes about 401 MiB of memory";
        let process = format!("{takes}, and this process may take 400 MiB more (Raise --plugin-memory)");
        assert_eq!(told(room(Some(500 * MIB), None), 400 * MIB + 1), process);
        let none = format!("{takes}, and this process may take 0 MiB more (Raise --plugin-memory)");
        assert_eq!(told(room(Some(50 * MIB), None), 401 * MIB), none);
        let hint = "End other programs, or compile on a machine with more";
        let machine = format!("{takes}, and this machine has 400 MiB free ({hint})");
        assert_eq!(told(room(None, Some(400 * MIB)), 401 * MIB), machine);
    }

    #[test]
    fn tables_of_the_kernel() {
        let table = "VmPeak:\t  9 kB\nVmData:\t    2048 kB\nThreads:\t1\n";
        assert_eq!(
            (field(table, "VmData:"), field(table, "Threads:"), field(table, "VmRSS:")),
            (Some(2 * MIB), None, None)
        );
        assert!(check("compiling k for sm_80", MIB).is_ok());
    }
}
