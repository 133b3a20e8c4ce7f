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

/// Runs that memory is watched over.
const WATCHED_RUNS: usize = 12;
/// Bytes that a run may take beside its tensors without a note.
const MOST_BESIDE: u64 = 16 << 20;

/// Runs several times, and tells what each run takes and does not give back, and what it takes at most, where that is too
/// much.
pub(crate) fn watch<E>(mut run: impl FnMut() -> Result<(), E>) -> Result<Vec<String>, E> {
    let mut kept = Vec::with_capacity(WATCHED_RUNS);
    let before = reset_peak();
    for _ in 0..WATCHED_RUNS {
        let allocated = allocated();
        run()?;
        kept.push(self::allocated().saturating_sub(allocated));
    }
    let beside = peak().zip(before).map_or(0, |(peak, before)| peak.saturating_sub(before));
    let mut told = Vec::new();
    if let Some(&least) = kept.iter().min().filter(|&&least| least > 0) {
        told.push(format!("each run keeps {least} bytes of memory or more"));
    }
    if beside > MOST_BESIDE {
        told.push(format!(
            "a run takes {} MiB of memory beside its tensors, and should allocate nothing",
            beside >> 20
        ));
    }
    Ok(told)
}

/// Bytes that this process has allocated and not given back, as far as the system's allocator counts them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn allocated() -> usize {
    // SAFETY: it only reads what the allocator counts.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// No allocator is asked here.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn allocated() -> usize {
    0
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
        drop(std::hint::black_box(vec![1u8; 256 << 20]));
        let grown = peak().expect("known") - before;
        // Other tests of this process take and give back memory meanwhile, which is far less than half of it.
        assert!(grown > 128 << 20, "{grown}");
    }
}
