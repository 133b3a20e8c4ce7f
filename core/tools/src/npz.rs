//! The `.npz` format: a zip file of `.npy` files.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::file::{self, Patient};
use crate::npy::{self, Array};
use crate::tensor::Tensor;

/// Every array of the file with its name, in the order of the file.
pub fn read(path: &Path) -> Result<Vec<(String, Array)>> {
    let file = file::open(path)?;
    match FileKind::of_file(path)? {
        FileKind::Npz | FileKind::Unknown => read_from(path, BufReader::new(file)),
        kind => Err(mistaken_for(path, kind, Wanted::Npz)),
    }
}

/// The same of a file that is open; `path` is for messages.
pub fn read_from(path: &Path, file: impl Read + Seek) -> Result<Vec<(String, Array)>> {
    let bad = |cause: &str| Diagnostic::new(Code::BadInput, format!("'{}': {cause}", path.display()));
    let mut archive = ZipArchive::new(file).map_err(|error| {
        bad(&format!("it is not a whole .npz file: {error}")).hint("Copy it again, or write it again")
    })?;
    let mut arrays = Vec::new();
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| bad(&error.to_string()))?;
        let name = member.name().to_owned();
        let fail = |cause: &str| bad(&format!("array '{name}': {cause}"));
        let array = npy::read_from(&mut member).map_err(|cause| fail(&cause))?;
        // The checksum of a member is compared when its end is read.
        match member.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(fail("it has more bytes than its header says")),
            Err(error) => return Err(fail(&error.to_string())),
        }
        arrays.push((name.strip_suffix(".npy").unwrap_or(&name).to_owned(), array));
    }
    Ok(arrays)
}

/// Writes tensors with their names, uncompressed. The same tensors give the same bytes.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    atomic_file::write_with(path, |file| {
        let mut file = Patient::new(BufWriter::new(file));
        pack(&mut file, tensors)?;
        file.finish()
    })
}

fn pack(file: impl Write + Seek, tensors: &[(String, Tensor)]) -> io::Result<()> {
    let mut archive = ZipWriter::new(file);
    for (name, tensor) in tensors {
        // Sizes of 4 GiB and more need the long form, which has to be chosen before.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(tensor.bytes().len() as u64 > u64::from(u32::MAX / 2));
        archive.start_file(format!("{name}.npy"), options)?;
        npy::write(tensor, &mut archive)?;
    }
    archive.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use byoc_plugin_api::DType;

    use super::*;

    fn tensor(shape: &[i64]) -> Tensor {
        let elements: i64 = shape.iter().product();
        let bytes = (0..elements as usize * 4).map(|byte| byte as u8).collect();
        Tensor::new(DType::F32, shape.to_vec(), bytes).expect("a tensor")
    }

    #[test]
    fn what_is_written_reads_back_in_order_and_the_bytes_repeat() {
        let dir = tempfile::tempdir().expect("folder");
        let paths = [dir.path().join("a.npz"), dir.path().join("b.npz")];
        let tensors =
            [("z/x:0".to_owned(), tensor(&[2, 3])), ("a".to_owned(), tensor(&[])), ("e".to_owned(), tensor(&[0]))];
        for path in &paths {
            write(path, &tensors).expect("written");
        }
        let found = read(&paths[0]).expect("read");
        for ((name, array), (expected_name, expected)) in found.into_iter().zip(&tensors) {
            assert_eq!(&name, expected_name);
            assert_eq!(array.into_tensor(DType::F32).as_ref(), Ok(expected));
        }
        assert_eq!(std::fs::read(&paths[0]).expect("a"), std::fs::read(&paths[1]).expect("b"));
    }

    #[test]
    fn compressed_members_read_too() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("a.npz");
        let mut npy = Vec::new();
        crate::npy::write(&tensor(&[64]), &mut npy).expect("to memory");
        let mut archive = ZipWriter::new(File::create(&path).expect("file"));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        archive.start_file("x.npy", options).expect("member");
        archive.write_all(&npy).expect("data");
        archive.finish().expect("finished");
        let (name, array) = read(&path).expect("read").remove(0);
        assert_eq!((name.as_str(), array.into_tensor(DType::F32)), ("x", Ok(tensor(&[64]))));
    }

    /// A member that a header of 8 bytes of data is in, with this data.
    fn member(path: &Path, data: &[u8]) {
        let mut npy = Vec::new();
        crate::npy::write(&tensor(&[2]), &mut npy).expect("to memory");
        npy.truncate(npy.len() - 8);
        let mut archive = ZipWriter::new(File::create(path).expect("file"));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        archive.start_file("x.npy", options).expect("member");
        archive.write_all(&npy).and_then(|()| archive.write_all(data)).expect("data");
        archive.finish().expect("finished");
    }

    #[test]
    fn damaged_members_are_errors() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("a.npz");
        let cause = || {
            read(&path).map(drop).map_err(|error| error.message.rsplit_once(": ").map(|(_, cause)| cause.to_owned()))
        };
        let bad = |cause: &str| Err(Some(cause.to_owned()));
        member(&path, b"89abcdef");
        assert_eq!(cause(), Ok(()));
        let mut bytes = std::fs::read(&path).expect("read");
        let at = bytes.windows(8).position(|window| window == b"89abcdef").expect("stored");
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert_eq!(cause(), bad("Invalid checksum"));
        member(&path, b"89abcde");
        assert_eq!(cause(), bad("it is cut short"));
        member(&path, b"89abcdefg");
        assert_eq!(cause(), bad("it has more bytes than its header says"));
    }

    #[test]
    fn an_empty_file_of_22_bytes_holds_nothing() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("a.npz");
        let mut bytes = b"PK\x05\x06".to_vec();
        bytes.resize(22, 0);
        std::fs::write(&path, bytes).expect("written");
        assert_eq!(read(&path).expect("read"), []);
    }

    #[test]
    fn other_files_are_errors() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("a.npz");
        std::fs::write(&path, b"\x93NUMPY").expect("written");
        let error = read(&path).expect_err("no zip");
        let ending = "a.npz' is not an .npz file: it is an .npy file with an array";
        assert!(error.message.ends_with(ending), "{}", error.message);
        std::fs::write(&path, b"\0\0").expect("written");
        let error = read(&path).expect_err("no zip");
        assert!(error.message.contains("a.npz': it is not a whole .npz file: "), "{}", error.message);
    }
}
