//! Allocations whose sizes come from models and files. A failed allocation is an error instead of an abort, and so is one
//! beyond memory and swap, which the system would grant and then kill the process for.

use std::alloc::Layout;
use std::fmt;
use std::sync::OnceLock;

use byoc_plugin_api::{DType, Error};

use crate::diagnostic::{Code, Diagnostic};

/// A refused allocation. Its text follows the name of what needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    bytes: usize,
    /// What the machine has, where that is less.
    machine: Option<u64>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = readable(self.bytes as u64);
        match self.machine {
            Some(machine) => write!(f, "needs {needed} of memory, and this machine has {}", readable(machine)),
            None => write!(f, "needs {needed} of memory, which the system does not give"),
        }
    }
}

impl Shortage {
    fn hint(self) -> &'static str {
        match self.machine {
            Some(_) => "Choose smaller shapes, or a machine with more memory",
            None => "Free memory, or raise the limit on it (ulimit -v)",
        }
    }

    /// The error of that code; `what` needs the memory.
    pub fn diagnostic(self, code: Code, what: impl fmt::Display) -> Diagnostic {
        Diagnostic::new(code, format!("{what} {self}")).hint(self.hint())
    }

    /// The same, as backends have errors.
    pub fn error(self, what: impl fmt::Display) -> Error {
        Error::new(format!("{what} {self}")).hint(self.hint())
    }
}

/// A tensor, as messages have it: `value 'y' f32[2,3]`.
pub fn titled<T: fmt::Display>(name: &str, dtype: DType, shape: &[T]) -> String {
    let sizes: Vec<_> = shape.iter().map(T::to_string).collect();
    format!("value '{name}' {dtype}[{}]", sizes.join(","))
}

/// Makes room for so many more bytes.
pub fn grow(bytes: &mut Vec<u8>, more: usize) -> Result<(), Shortage> {
    let wanted = bytes.len().saturating_add(more);
    bytes.try_reserve(more).map_err(|_| Shortage { bytes: wanted, machine: None })
}

/// An error where this machine does not have so many bytes, with what it swaps to.
pub fn check(bytes: usize) -> Result<(), Shortage> {
    match machine() {
        Some(machine) if bytes as u64 > machine => Err(Shortage { bytes, machine: Some(machine) }),
        _ => Ok(()),
    }
}

/// An empty vector with room for so many elements.
pub fn room<T>(count: usize) -> Result<Vec<T>, Shortage> {
    let bytes = count.saturating_mul(size_of::<T>());
    check(bytes)?;
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| Shortage { bytes, machine: None })?;
    Ok(vector)
}

/// A copy.
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>, Shortage> {
    let mut copy = room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// So many zeros. What is large takes memory only where it is written.
pub fn zeroed(bytes: usize) -> Result<Vec<u8>, Shortage> {
    check(bytes)?;
    let short = Shortage { bytes, machine: None };
    // An alignment that every allocation has: for a larger one the allocator writes all the zeros itself.
    let layout = Layout::array::<u8>(bytes).map_err(|_| short)?;
    if bytes == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the layout is not empty.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(short);
    }
    // SAFETY: the block is of the global allocator, with the layout of a vector of that capacity, and all of it is zero.
    Ok(unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

/// Bytes of memory of this machine, and of what it swaps to; `None` where that is not known.
fn machine() -> Option<u64> {
    static MACHINE: OnceLock<Option<u64>> = OnceLock::new();
    *MACHINE.get_or_init(|| total(&std::fs::read_to_string("/proc/meminfo").ok()?))
}

/// Bytes of memory of this machine; `None` where that is not known.
#[cfg(target_os = "linux")]
pub(crate) fn physical() -> Option<u64> {
    line(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")
}

/// The sum of what `/proc/meminfo` has as memory and as swap.
fn total(text: &str) -> Option<u64> {
    line(text, "MemTotal:")?.checked_add(line(text, "SwapTotal:").unwrap_or(0))
}

/// The bytes that the line of `/proc/meminfo` with that key gives.
fn line(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// A number of bytes as messages and tables have it, in units of 1024: `417.6 MiB`.
pub fn readable(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would round to 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_units_of_1024() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_525, "1.0 MiB"),
            (417_649_312, "398.3 MiB"),
            (2_500_000_000_000_000, "2273.7 TiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(readable(bytes), text);
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_that_says_why() {
        for bytes in [usize::MAX, 1 << 62] {
            let machine = readable(machine().expect("Linux tells"));
            let expected = format!("'y' needs {} of memory, and this machine has {machine}", readable(bytes as u64));
            assert_eq!(zeroed(bytes).expect_err("too much").error("'y'").message, expected);
            assert_eq!(room::<u8>(bytes).expect_err("too much").error("'y'").message, expected);
        }
        assert_eq!(room::<u64>(usize::MAX).expect_err("too much").bytes, usize::MAX);
        let refused = Shortage { bytes: 2_000_000_000, machine: None };
        let text = "[B703] 'y' needs 1.9 GiB of memory, which the system does not give. Free memory, or raise the limit on it (ulimit -v)";
        assert_eq!(refused.diagnostic(Code::RunFailed, "'y'").to_string(), text);
    }

    #[test]
    fn memory_is_zero_and_as_long_as_asked_for() {
        for bytes in [0, 1, 100, 1 << 20] {
            assert_eq!(zeroed(bytes).expect("little"), vec![0; bytes]);
            assert_eq!(copy(&vec![7; bytes]).expect("little"), vec![7; bytes]);
        }
    }

    #[test]
    fn swap_counts_as_memory() {
        assert_eq!(total("MemTotal:       16 kB\nMemFree: 1 kB\nSwapTotal:       4 kB\n"), Some(20 << 10));
        assert_eq!(total("MemTotal: 16 kB\n"), Some(16 << 10));
        assert_eq!(total(""), None);
    }
}
