//! A check that an ELF file is whole. `dlopen` maps segments without asking how long the file is: a truncated library
//! kills the process with SIGBUS, which nobody can catch.

/// Errors when a loadable segment of the 64-bit little-endian ELF file `bytes` lies outside it. Other formats are not
/// judged here; the dynamic loader refuses those by itself.
pub(crate) fn check_segments(bytes: &[u8]) -> Result<(), String> {
    const PT_LOAD: u64 = 1;
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Ok(());
    }
    let field = |at: u64, size: usize| -> Result<u64, String> {
        let at = usize::try_from(at).map_err(|_| "damaged ELF header".to_owned())?;
        let end = at.checked_add(size).filter(|&end| end <= bytes.len()).ok_or("truncated ELF file")?;
        Ok(bytes[at..end].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    // Offsets of the ELF-64 header and program header, from the System V ABI.
    let (table, entry_size, entries) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    for index in 0..entries {
        let entry = table.checked_add(index * entry_size).ok_or("damaged ELF header")?;
        if field(entry, 4)? != PT_LOAD {
            continue;
        }
        let end = field(entry + 8, 8)?.checked_add(field(entry + 32, 8)?).ok_or("damaged ELF header")?;
        if end > bytes.len() as u64 {
            return Err(format!("truncated ELF file: {} bytes, its segments need {end}", bytes.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_segments;

    #[test]
    fn own_binary_is_whole_and_every_cut_is_seen() {
        let path = std::env::current_exe().expect("path");
        let bytes = std::fs::read(path).expect("readable");
        assert_eq!(check_segments(&bytes), Ok(()));
        let cut = check_segments(&bytes[..4096]).expect_err("cut");
        assert!(cut.starts_with("truncated ELF file: "), "{cut}");
        assert_eq!(check_segments(&bytes[..40]), Err("truncated ELF file".into()));
        assert_eq!(check_segments(b"no ELF"), Ok(()));
    }
}
