//! The `.npz` format: a zip file of `.npy` files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::npy::{self, Array};
use crate::tensor::Tensor;

/// Members are read into a buffer that starts no larger than this, whatever size a damaged file claims.
const FIRST_BUFFER: u64 = 64 << 20;

/// Every array of the file with its name, in the order of the file.
pub fn read(path: &Path) -> Result<Vec<(String, Array)>> {
    let bad = |cause: &str| Diagnostic::new(Code::BadInput, format!("'{}': {cause}", path.display()));
    let file = File::open(path).map_err(|error| Diagnostic::io(path, "open", &error))?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).map_err(|error| bad(&format!("it is no .npz file: {error}")))?;
    let mut arrays = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(|error| bad(&error.to_string()))?;
        let name = member.name().to_owned();
        let fail = |cause: &str| bad(&format!("array '{name}': {cause}"));
        let mut bytes = Vec::with_capacity(member.size().min(FIRST_BUFFER) as usize);
        member.read_to_end(&mut bytes).map_err(|error| fail(&error.to_string()))?;
        let array = npy::read(&bytes).map_err(|cause| fail(&cause))?;
        arrays.push((name.strip_suffix(".npy").unwrap_or(&name).to_owned(), array));
    }
    Ok(arrays)
}

/// Writes tensors with their names, uncompressed. The same tensors give the same bytes.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<()> {
    let failed = |error: std::io::Error| Diagnostic::io(path, "write", &error);
    let mut archive = ZipWriter::new(BufWriter::new(File::create(path).map_err(failed)?));
    for (name, tensor) in tensors {
        // Sizes of 4 GiB and more need the long form, which has to be chosen before.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(tensor.bytes().len() as u64 > u64::from(u32::MAX / 2));
        archive.start_file(format!("{name}.npy"), options).map_err(|error| failed(error.into()))?;
        npy::write(tensor, &mut archive).map_err(failed)?;
    }
    let file = archive.finish().map_err(|error| failed(error.into()))?;
    file.into_inner().map_err(|error| failed(error.into_error()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use byoc_plugin_api::DType;

    use super::*;

    fn tensor(shape: &[i64]) -> Tensor {
        let elements: i64 = shape.iter().product();
        let bytes = (0..elements as usize * 4).map(|byte| byte as u8).collect();
        Tensor::new(DType::F32, shape.to_vec(), bytes).expect("a tensor")
    }

    #[test]
    fn what_is_written_reads_back_in_order_and_the_bytes_repeat() {
        let folder = tempfile::tempdir().expect("folder");
        let paths = [folder.path().join("a.npz"), folder.path().join("b.npz")];
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
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.npz");
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

    #[test]
    fn an_empty_file_of_22_bytes_holds_nothing() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.npz");
        let mut bytes = b"PK\x05\x06".to_vec();
        bytes.resize(22, 0);
        std::fs::write(&path, bytes).expect("written");
        assert_eq!(read(&path).expect("read"), []);
    }

    #[test]
    fn other_files_are_errors() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("a.npz");
        std::fs::write(&path, b"\x93NUMPY").expect("written");
        let error = read(&path).expect_err("no zip");
        assert!(error.message.contains("a.npz': it is no .npz file: "), "{}", error.message);
    }
}
