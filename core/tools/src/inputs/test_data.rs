//! Folders of ONNX's test data: `input_0.pb`, `input_1.pb` and so on in the order of the graph's inputs, `output_0.pb` and so on
//! in that of its outputs.

use std::path::{Path, PathBuf};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};
use byoc_core::onnx::{FileTensor, read_tensor};
use byoc_core::runtime::PortInfo;

use super::bad;
use crate::file;
use crate::tensor::Tensor;

/// All files of the folder that are read.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    ["input", "output"].into_iter().flat_map(|kind| numbered(folder, kind).unwrap_or_default()).collect()
}

/// The tensors of the inputs, one for each port from the first on, with their files.
pub(super) fn inputs(folder: &Path, ports: &[PortInfo]) -> Result<Vec<(PathBuf, Tensor)>> {
    let files = numbered(folder, "input")?;
    if files.is_empty() && !ports.is_empty() {
        let error = bad(format!("the folder '{}' has no input_0.pb", folder.display()));
        return Err(error.hint("A folder of test data has input_0.pb, input_1.pb and so on"));
    }
    let files = read_all(folder, "inputs", files, ports)?;
    files.into_iter().map(|file| Ok((file.clone(), read(&file)?.1))).collect()
}

/// The outputs that a folder of test data expects, by the names of the ports.
///
/// Errors where there are none, where there are more than ports, or where a file is not a tensor.
pub fn expected_outputs(folder: &Path, ports: &[PortInfo]) -> Result<Vec<(String, Tensor)>> {
    let files = numbered(folder, "output")?;
    if files.is_empty() {
        let error = bad(format!("the folder '{}' has no output_0.pb", folder.display()));
        return Err(error.hint("Name what to compare with: --reference OUT.npz or --model MODEL.onnx"));
    }
    let files = read_all(folder, "outputs", files, ports)?;
    files.iter().zip(ports).map(|(file, port)| Ok((port.name.clone(), read(file)?.1))).collect()
}

/// The files, if there are no more of them than ports.
fn read_all(folder: &Path, what: &str, files: Vec<PathBuf>, ports: &[PortInfo]) -> Result<Vec<PathBuf>> {
    if files.len() <= ports.len() {
        return Ok(files);
    }
    let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
    let (folder, found, names) = (folder.display(), files.len(), names.join(", "));
    Err(bad(format!("the folder '{folder}' has {found} {what}, and the entry has {}: {names}", ports.len()))
        .hint("Is it the test data of this model?"))
}

/// The files of one kind, by their numbers, which count from 0.
fn numbered(folder: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Diagnostic::io(folder, "read the folder", &error);
    let mut files: Vec<(usize, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('_')?.strip_suffix(".pb"));
        files.extend(number.and_then(|number| number.parse().ok()).map(|number| (number, path)));
    }
    files.sort();
    if let Some((index, _)) = files.iter().enumerate().find(|(index, (number, _))| index != number) {
        let last = files.last().map_or(0, |(number, _)| *number);
        let folder = folder.display();
        return Err(bad(format!("the folder '{folder}' has {kind}_{last}.pb and no {kind}_{index}.pb"))
            .hint("Is the folder complete?"));
    }
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// The tensor of a file, with its own name.
pub(crate) fn read(path: &Path) -> Result<(String, Tensor)> {
    file::open(path)?;
    match FileKind::of_file(path)? {
        FileKind::Tensor => {}
        FileKind::Sequence => return Err(is_sequence(path)),
        kind => return Err(mistaken_for(path, kind, Wanted::Values)),
    }
    let bytes = std::fs::read(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
    let read = read_tensor(path, bytes.into())?;
    Ok((read.name.clone(), tensor(path, read)?))
}

/// The tensor of a file.
pub(super) fn tensor(path: &Path, read: FileTensor) -> Result<Tensor> {
    let shape = read.shape.iter().map(|&size| size as i64).collect();
    Tensor::new(read.dtype, shape, read.bytes.to_vec()).ok_or_else(|| {
        Diagnostic::new(Code::BadTensor, format!("'{}': its bytes do not fit its shape", path.display()))
    })
}

/// The error that a file holds a sequence.
pub(super) fn is_sequence(path: &Path) -> Diagnostic {
    bad(format!("'{}' is a sequence of tensors of ONNX, and single tensors only are read", path.display()))
        .hint("Give its tensors as arrays x.0, x.1 and so on of an .npz file")
}
