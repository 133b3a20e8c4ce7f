//! How much memory a case takes: the highest resident size of this process while it runs, as Linux counts it.

use std::fs;

/// Starts to count anew; the resident size now, in bytes. `None` where the system does not tell.
pub(crate) fn reset_peak() -> Option<u64> {
    // "5" sets the peak to what is resident now (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5").ok()?;
    field("VmRSS:")
}

/// The highest resident size since then, in bytes.
pub(crate) fn peak() -> Option<u64> {
    field("VmHWM:")
}

fn field(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix(name))?;
    text.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_and_given_back_shows() {
        let Some(before) = reset_peak() else { return assert!(peak().is_none(), "half of it is there") };
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        let grown = peak().expect("known") - before;
        assert!(grown > 60 << 20, "{grown}");
    }
}
