//! The memory of this process: the most that was resident, and what of it are mapped files. Known on Linux only.

use std::ops::Range;

use serde::Serialize;

/// The most memory that was resident, in bytes, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeakMemory {
    /// All of it.
    #[serde(rename = "peak_bytes")]
    pub peak: u64,
    /// Pages of mapped artifacts, models and constants, which the system can drop and read again.
    #[serde(rename = "mapped_file_bytes")]
    pub mapped: u64,
    /// What sessions have planned for values between regions.
    #[serde(rename = "arena_bytes")]
    pub arena: u64,
    /// The rest: the program, code of regions, inputs, outputs, and what backends have allocated.
    #[serde(rename = "other_bytes")]
    pub other: u64,
}

impl PeakMemory {
    /// That of this process until now. `arena` is what its sessions have planned. `None` where the system does not tell.
    pub fn now(arena: u64) -> Option<PeakMemory> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let peak = peak(&status)?;
        let mapped = resident(&maps, &byoc_core::mapped_files());
        Some(PeakMemory { peak, mapped, arena, other: peak.saturating_sub(mapped + arena) })
    }
}

/// Forgets what was resident before, so that the most is that from now on. Does nothing where the system cannot do so.
pub fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The line `VmHWM:  1234 kB`.
fn peak(status: &str) -> Option<u64> {
    status.lines().find_map(|line| kilobytes(line, "VmHWM:"))
}

fn kilobytes(line: &str, key: &str) -> Option<u64> {
    let number = line.strip_prefix(key)?.trim().strip_suffix("kB")?;
    Some(number.trim().parse::<u64>().ok()? * 1024)
}

/// The resident bytes of mappings that begin in one of the ranges.
fn resident(smaps: &str, ranges: &[Range<usize>]) -> u64 {
    let (mut sum, mut counts) = (0, false);
    for line in smaps.lines() {
        // The head of a mapping: `7f00-7f10 r--p 00000000 08:01 42 /path`.
        let start = line.split_once('-').and_then(|(start, _)| usize::from_str_radix(start, 16).ok());
        if let Some(start) = start {
            counts = ranges.iter().any(|range| range.contains(&start));
        } else if counts {
            sum += kilobytes(line, "Rss:").unwrap_or(0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_system_are_read() {
        assert_eq!(peak("Name:\tbyoc\nVmPeak:\t  9999 kB\nVmHWM:\t   1234 kB\n"), Some(1234 * 1024));
        assert_eq!(peak("Name:\tbyoc\n"), None);
        let smaps = "1000-3000 r--p 00000000 08:01 42 /a-file\nSize: 8 kB\nRss:   4 kB\nVmFlags: rd\n\
                     3000-5000 r--p 00002000 08:01 42 /a-file\nRss:   8 kB\n\
                     9000-a000 rw-p 00000000 00:00 0 [heap]\nRss:   4 kB\n";
        assert_eq!(resident(smaps, std::slice::from_ref(&(0x1000..0x5000))), 12 * 1024);
        assert_eq!(resident(smaps, &[0x9000..0x9001, 0x20000..0x30000]), 4 * 1024);
        assert_eq!(resident(smaps, &[]), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn parts_are_within_the_sum() {
        let found = PeakMemory::now(4096).expect("Linux tells");
        assert!(found.peak > 0 && found.arena == 4096 && found.mapped + found.arena + found.other >= found.peak);
    }
}
