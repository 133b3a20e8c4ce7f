//! What can be told of an ELF file without opening it as a library: which processor it is for, whether it is complete, and the
//! bytes of a section.
//! `dlopen` maps segments without asking how long the file is: a truncated library kills the process with SIGBUS, which
//! nobody can catch. Files may be hostile.

use std::env::consts::ARCH;

use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, ReadRef};

/// Errors when the 64-bit little-endian ELF file `bytes` is for another processor, of which the dynamic loader says that there is
/// no such file, or when a loadable segment lies outside it. Other formats are left to that loader, which refuses them by itself.
pub(crate) fn check_library(bytes: &[u8]) -> Result<(), String> {
    const DAMAGED: &str = "damaged ELF header";
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Ok(());
    }
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(|_| "truncated ELF file")?;
    let processor = match header.e_machine(LittleEndian) {
        EM_AARCH64 => "aarch64",
        EM_X86_64 => "x86_64",
        _ => ARCH,
    };
    if processor != ARCH {
        return Err(format!("it is for {processor}, and this program is for {ARCH}"));
    }
    let segments = header.program_headers(LittleEndian, bytes).map_err(|_| DAMAGED)?;
    for segment in segments.iter().filter(|segment| segment.p_type(LittleEndian) == PT_LOAD) {
        let (start, size) = segment.file_range(LittleEndian);
        let end = start.checked_add(size).ok_or(DAMAGED)?;
        if end > bytes.len() as u64 {
            return Err(format!("truncated ELF file: {} bytes, its segments need {end}", bytes.len()));
        }
    }
    Ok(())
}

/// The bytes of the first section of that name; `None` where there is none that can be read.
pub(crate) fn section<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let sections = header.sections(LittleEndian, bytes).ok()?;
    let (_, section) = sections.section_by_name(LittleEndian, name.as_bytes())?;
    let (start, size) = section.file_range(LittleEndian)?;
    bytes.read_bytes_at(start, size).ok()
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
        assert_eq!(check_library(&bytes), Ok(()));
        let cut = check_library(&bytes[..4096]).expect_err("cut");
        assert!(cut.starts_with("truncated ELF file: "), "{cut}");
        assert_eq!(check_library(&bytes[..40]), Err("truncated ELF file".into()));
        assert_eq!(check_library(b"no ELF"), Ok(()));
    }

    #[test]
    fn another_processor_is_named() {
        let mut bytes = own_binary();
        let other = if ARCH == "aarch64" { EM_X86_64 } else { EM_AARCH64 };
        bytes[18..20].copy_from_slice(&other.0.to_le_bytes());
        let error = check_library(&bytes).expect_err("it is for another processor");
        assert!(
            error.starts_with("it is for ") && error.ends_with(&format!(", and this program is for {ARCH}")),
            "{error}"
        );
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
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let mut put = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        for (at, value) in [(32, 64), (54, 56), (56, 1), (40, 120), (58, 64), (60, 2), (62, 1), (20, 1), (52, 64)] {
            put(at, value);
        }
        let mut header = |numbers: &[(usize, u8)], size: usize| {
            let start = bytes.len();
            bytes.resize(start + size, 0);
            numbers.iter().for_each(|(at, value)| bytes[start + at] = *value);
        };
        header(&[(0, 1), (8, 0), (32, 255)], 56); // a loadable segment
        header(&[(0, 0), (4, 1), (24, 255), (32, 5)], 64); // .byoc
        header(&[(0, 6), (4, 3), (24, 248), (32, 7)], 64); // the names
        bytes.extend(b".byoc\0\0hello");
        bytes
    }

    /// Whatever the bytes are, the answer is an answer.
    #[test]
    fn hostile_files_do_no_harm() {
        let whole = small();
        assert_eq!((check_library(&whole), section(&whole, ".byoc")), (Ok(()), Some(b"hello".as_slice())));
        let look = |bytes: &[u8]| drop((check_library(bytes), section(bytes, ".byoc")));
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
