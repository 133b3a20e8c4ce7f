//! What can be told of an ELF file without opening it as a library: whether it is whole, and the bytes of a section.
//! `dlopen` maps segments without asking how long the file is: a truncated library kills the process with SIGBUS, which
//! nobody can catch. Offsets are those of the 64-bit headers in the System V ABI. Files may be hostile.

/// A 64-bit little-endian ELF file.
struct Elf<'a>(&'a [u8]);

impl<'a> Elf<'a> {
    /// `None` for another format. The dynamic loader refuses those by itself.
    fn of(bytes: &'a [u8]) -> Option<Elf<'a>> {
        bytes.starts_with(b"\x7fELF\x02\x01").then_some(Elf(bytes))
    }

    fn bytes(&self, at: u64, size: u64) -> Option<&'a [u8]> {
        self.0.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(size)?).ok()?)
    }

    fn number(&self, at: u64, size: u64) -> Option<u64> {
        Some(self.bytes(at, size)?.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// The bytes of the section header `index`.
    fn section(&self, index: u64) -> Option<Elf<'a>> {
        let (table, size) = (self.number(40, 8)?, self.number(58, 2)?);
        self.bytes(table.checked_add(index * size)?, size).map(Elf)
    }

    /// What the section with that header holds.
    fn contents(&self, header: &Elf<'_>) -> Option<&'a [u8]> {
        self.bytes(header.number(24, 8)?, header.number(32, 8)?)
    }
}

/// Errors when a loadable segment of the ELF file `bytes` lies outside it.
pub(crate) fn check_segments(bytes: &[u8]) -> Result<(), String> {
    const PT_LOAD: u64 = 1;
    let Some(elf) = Elf::of(bytes) else { return Ok(()) };
    let field = |at: u64, size: u64| elf.number(at, size).ok_or("truncated ELF file");
    let (table, entry_size, entries) = (field(32, 8)?, field(54, 2)?, field(56, 2)?);
    for index in 0..entries {
        let damaged = "damaged ELF header";
        let entry = table.checked_add(index * entry_size).filter(|&entry| entry < u64::MAX - 64).ok_or(damaged)?;
        if field(entry, 4)? != PT_LOAD {
            continue;
        }
        let end = field(entry + 8, 8)?.checked_add(field(entry + 32, 8)?).ok_or(damaged)?;
        if end > bytes.len() as u64 {
            return Err(format!("truncated ELF file: {} bytes, its segments need {end}", bytes.len()));
        }
    }
    Ok(())
}

/// The bytes of the first section of that name; `None` where there is none that can be read.
pub(crate) fn section<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let elf = Elf::of(bytes)?;
    let (count, names) = (elf.number(60, 2)?, elf.number(62, 2)?);
    let names = elf.contents(&elf.section(names)?)?;
    let found = (0..count).filter_map(|index| elf.section(index)).find(|header| {
        let at = header.number(0, 4).and_then(|at| usize::try_from(at).ok());
        let rest = at.and_then(|at| names.get(at..)).and_then(|rest| rest.strip_prefix(name.as_bytes()));
        rest.is_some_and(|rest| rest.first() == Some(&0))
    })?;
    elf.contents(&found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_binary() -> Vec<u8> {
        std::fs::read(std::env::current_exe().expect("path")).expect("readable")
    }

    #[test]
    fn own_binary_is_whole_and_every_cut_is_seen() {
        let bytes = own_binary();
        assert_eq!(check_segments(&bytes), Ok(()));
        let cut = check_segments(&bytes[..4096]).expect_err("cut");
        assert!(cut.starts_with("truncated ELF file: "), "{cut}");
        assert_eq!(check_segments(&bytes[..40]), Err("truncated ELF file".into()));
        assert_eq!(check_segments(b"no ELF"), Ok(()));
    }

    #[test]
    fn sections_are_found_by_their_whole_names() {
        let bytes = own_binary();
        let interpreter = section(&bytes, ".interp").expect("an executable has one");
        assert!(interpreter.starts_with(b"/") && interpreter.ends_with(b"\0"));
        assert_eq!(section(&bytes, ".inter"), None);
        assert_eq!(section(&bytes[..bytes.len() / 2], ".interp"), None);
        assert_eq!(section(b"no ELF", ".interp"), None);
    }

    /// A file of two sections, small enough that every byte of it can be changed.
    fn small() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        for (at, value) in [(32, 64), (54, 56), (56, 1), (40, 120), (58, 64), (60, 2), (62, 0)] {
            put(at, value);
        }
        let mut header = |numbers: &[(usize, u8)], size: usize| {
            let start = bytes.len();
            bytes.resize(start + size, 0);
            numbers.iter().for_each(|(at, value)| bytes[start + at] = *value);
        };
        header(&[(0, 1), (8, 0), (32, 255)], 56); // a loadable segment
        header(&[(0, 6), (24, 248), (32, 7)], 64); // the names
        header(&[(0, 0), (24, 255), (32, 5)], 64); // .byoc
        bytes.extend(b".byoc\0\0hello");
        bytes
    }

    /// Whatever the bytes are, the answer is an answer.
    #[test]
    fn hostile_files_do_no_harm() {
        let whole = small();
        assert_eq!((check_segments(&whole), section(&whole, ".byoc")), (Ok(()), Some(b"hello".as_slice())));
        let look = |bytes: &[u8]| drop((check_segments(bytes), section(bytes, ".byoc")));
        for length in 0..whole.len() {
            look(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                look(&bytes);
                // Numbers as large as they get: sums of two of them do not fit.
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(value);
                look(&bytes);
            }
        }
    }
}
