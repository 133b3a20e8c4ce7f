//! What a file is, going by its contents: names of files mislead, and a file of another kind is not a damaged one.

mod protobuf;

use std::path::Path;

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::map::map_file;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// There is nothing in it.
    Empty,
    /// It begins as artifacts do; it may be damaged.
    Artifact,
    /// It begins as files of the safetensors format do, and is not an artifact.
    Safetensors,
    /// An ONNX model; it may end too early.
    Model,
    /// A tensor of ONNX, as in folders of test data.
    Tensor,
    /// A sequence of tensors of ONNX.
    Sequence,
    /// Arrays of NumPy with their names.
    Npz,
    /// An array of NumPy.
    Npy,
    /// An image in a format that is read: PNG, JPEG or BMP.
    Image,
    /// A text.
    Text,
    /// Another known format: what it is called, and how one gets a model from it, where that is known.
    Other(&'static str, Option<&'static str>),
    /// None of these.
    Unknown,
}

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// An artifact.
    Artifact,
    /// An ONNX model.
    Model,
    /// Values of inputs or outputs, in any of the forms that are read.
    Values,
    /// Arrays with their names.
    Npz,
    /// An array.
    Npy,
    /// A text.
    Text,
}

/// First bytes, what it is, and how one gets a model from it.
const SIGNATURES: &[(&[u8], FileKind)] = &[
    (b"\x93NUMPY", FileKind::Npy),
    (b"\x89PNG\r\n\x1a\n", FileKind::Image),
    (b"\xff\xd8\xff", FileKind::Image),
    (
        b"version https://git-lfs",
        FileKind::Other("a pointer of Git LFS", Some("Fetch the file itself with 'git lfs pull'")),
    ),
    (b"GGUF", FileKind::Other("a GGUF file", Some("Export the original model as ONNX"))),
    (b"\x89HDF", FileKind::Other("an HDF5 file", Some("Export the original model as ONNX"))),
    (b"\x7fELF", FileKind::Other("a program or a library", None)),
    (b"GIF8", FileKind::Other("a GIF image", None)),
    (b"II*\0", FileKind::Other("a TIFF image", None)),
    (b"MM\0*", FileKind::Other("a TIFF image", None)),
    (b"%PDF-", FileKind::Other("a PDF file", None)),
    (b"\x1f\x8b", FileKind::Other("a gzip file", Some("Unpack it with 'gunzip'"))),
];

/// Longest header of the safetensors format.
const SAFETENSORS_HEADER: u64 = 100_000_000;

/// So many bytes of a header tell whether it is that of an artifact.
const TELLING: usize = 24;

/// How many bytes of a file are looked at to tell whether it is a text, and where its metadata begins.
const HEAD: usize = 4096;

impl FileKind {
    /// What a file with these bytes is. Only its first bytes and the top level of Protocol Buffers are read.
    pub fn of(bytes: &[u8]) -> FileKind {
        if bytes.is_empty() {
            return FileKind::Empty;
        }
        if let Some(&(_, kind)) = SIGNATURES.iter().find(|(signature, _)| bytes.starts_with(signature)) {
            return kind;
        }
        zip(bytes)
            .or_else(|| is_bitmap(bytes).then_some(FileKind::Image))
            .or_else(|| (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")).then_some(WEBP))
            .or_else(|| safetensors(bytes))
            .or_else(|| protobuf::kind(bytes))
            .or_else(|| text(bytes))
            .unwrap_or(FileKind::Unknown)
    }

    /// What the file at `path` is. Errors where it cannot be read, or is not a regular file.
    pub fn of_file(path: &Path) -> Result<FileKind> {
        map_file(path).map(|bytes| FileKind::of(&bytes))
    }

    /// The same in words, such as `an ONNX model`.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::Empty => "empty",
            FileKind::Artifact => "an artifact",
            FileKind::Safetensors => "a safetensors file",
            FileKind::Model => "an ONNX model",
            FileKind::Tensor => "a tensor of ONNX",
            FileKind::Sequence => "a sequence of tensors of ONNX",
            FileKind::Npz => "an .npz file of arrays",
            FileKind::Npy => "an .npy file with an array",
            FileKind::Image => "an image",
            FileKind::Text => "a text file",
            FileKind::Other(name, _) => name,
            FileKind::Unknown => "of no known kind",
        }
    }
}

const WEBP: FileKind = FileKind::Other("a WebP image", None);

impl Wanted {
    fn name(self) -> &'static str {
        match self {
            Wanted::Artifact => "an artifact",
            Wanted::Model => "an ONNX model",
            Wanted::Values => "a file of values",
            Wanted::Npz => "an .npz file",
            Wanted::Npy => "an .npy file",
            Wanted::Text => "a text file",
        }
    }

    /// The error that a file is not what it is read as.
    pub fn code(self) -> Code {
        match self {
            Wanted::Artifact => Code::DamagedArtifact,
            Wanted::Model => Code::NotOnnx,
            Wanted::Values | Wanted::Npz | Wanted::Npy | Wanted::Text => Code::BadInput,
        }
    }

    fn is(self, kind: FileKind) -> bool {
        match self {
            Wanted::Artifact => kind == FileKind::Artifact,
            Wanted::Model => kind == FileKind::Model,
            Wanted::Npz => kind == FileKind::Npz,
            Wanted::Npy => kind == FileKind::Npy,
            Wanted::Text => kind == FileKind::Text,
            Wanted::Values => {
                matches!(kind, FileKind::Npz | FileKind::Npy | FileKind::Tensor | FileKind::Sequence | FileKind::Image)
            }
        }
    }

    /// What to do with a file of that kind.
    fn hint(self, path: &Path, kind: FileKind) -> String {
        let values =
            matches!(kind, FileKind::Npz | FileKind::Npy | FileKind::Image | FileKind::Tensor | FileKind::Sequence);
        match (self, kind) {
            (Wanted::Artifact, FileKind::Model) => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                format!("Compile it first: byoc compile {} -o {stem}.byoc", path.display())
            }
            (Wanted::Model, FileKind::Artifact) => "Name the model that it was compiled from".into(),
            (Wanted::Artifact | Wanted::Model, _) if values => "Values of inputs are given with --input".into(),
            (Wanted::Artifact, FileKind::Other(..) | FileKind::Safetensors) => {
                "Artifacts are made by 'byoc compile'".into()
            }
            (Wanted::Model, FileKind::Other(_, Some(remedy))) => remedy.into(),
            (Wanted::Model, FileKind::Safetensors) => "Export the original model as ONNX".into(),
            (Wanted::Artifact, _) => "Copy the file again, or compile the model again".into(),
            (Wanted::Model, _) => "Is the file complete, and was it exported as ONNX?".into(),
            (Wanted::Npz, _) => "Write the arrays with NumPy's savez".into(),
            (Wanted::Npy, _) => "Write the array with NumPy's save".into(),
            (Wanted::Text, _) => "Name a file of plain text".into(),
            (Wanted::Values, _) => {
                "Inputs are .npz and .npy files, tensors of ONNX (.pb), and PNG, JPEG and BMP images".into()
            }
        }
    }
}

/// The error that the file, which has these bytes, is of another kind than it is read as; `None` where it is of that kind, or of no
/// known one.
pub fn mistaken(path: &Path, bytes: &[u8], wanted: Wanted) -> Option<Diagnostic> {
    let kind = FileKind::of(bytes);
    (kind != FileKind::Unknown && !wanted.is(kind)).then(|| mistaken_for(path, kind, wanted))
}

/// The error that the file at `path` is of that kind, and not what it is read as.
pub fn mistaken_for(path: &Path, kind: FileKind, wanted: Wanted) -> Diagnostic {
    let message = format!("'{}' is not {}: it is {}", path.display(), wanted.name(), kind.name());
    Diagnostic::new(wanted.code(), message).hint(wanted.hint(path, kind))
}

/// Where a model ends too early, in words: `it ends after 50 bytes, within its graph`. `None` where it does not.
pub fn model_cut(bytes: &[u8]) -> Option<String> {
    let place = protobuf::model_cut(bytes)?;
    let count = bytes.len();
    Some(format!("it ends after {count} {}, {place}", if count == 1 { "byte" } else { "bytes" }))
}

/// A zip archive: of NumPy's arrays, of PyTorch, or another.
fn zip(bytes: &[u8]) -> Option<FileKind> {
    /// Where the length of the first member's name is, and the name.
    const LENGTH: usize = 26;
    const NAME: usize = 30;
    const ARCHIVE: FileKind =
        FileKind::Other("a zip archive", Some("Unpack it; a PyTorch checkpoint is exported with torch.onnx.export"));
    // One without members has only its end.
    if bytes.starts_with(b"PK\x05\x06") {
        return Some(FileKind::Npz);
    }
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    let length =
        bytes.get(LENGTH..LENGTH + 2).map_or(0, |length| usize::from(u16::from_le_bytes([length[0], length[1]])));
    let name = bytes.get(NAME..NAME + length).unwrap_or_default();
    Some(if name.ends_with(b".npy") { FileKind::Npz } else { ARCHIVE })
}

/// A BMP image: its size in the head, then four bytes that are zero.
fn is_bitmap(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BM") && bytes.get(6..10) == Some(&[0; 4]) && bytes.len() > 26
}

fn safetensors(bytes: &[u8]) -> Option<FileKind> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    if u64::from_le_bytes(*length) > SAFETENSORS_HEADER || rest.first() != Some(&b'{') {
        return None;
    }
    // Metadata comes first, in the order of its keys: digests before the version.
    let head = String::from_utf8_lossy(&rest[..rest.len().min(HEAD)]);
    let is_ours = ["\"b3:", "\"byoc_"].iter().any(|key| head.contains(key));
    Some(if is_ours || head.len() < TELLING { FileKind::Artifact } else { FileKind::Safetensors })
}

fn text(bytes: &[u8]) -> Option<FileKind> {
    let head = &bytes[..bytes.len().min(HEAD)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a character.
        Err(error) if head.len() < bytes.len() && error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if text.contains(|char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r' | '\x0c' | '\x1b')) {
        return None;
    }
    let markup = text.trim_start_matches('\u{feff}').starts_with('<');
    Some(if markup { FileKind::Other("a text in HTML or XML", Some("Download the raw file")) } else { FileKind::Text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_content() {
        let member = |name: &str| {
            let mut zip = b"PK\x03\x04".to_vec();
            zip.resize(26, 0);
            zip.extend((name.len() as u16).to_le_bytes());
            zip.extend([0; 2]);
            zip.extend(name.bytes());
            zip
        };
        let lfs = FileKind::Other("a pointer of Git LFS", Some("Fetch the file itself with 'git lfs pull'"));
        let of_safetensors = |json: &str| [&(json.len() as u64).to_le_bytes()[..], json.as_bytes()].concat();
        let mut bitmap = b"BM\x1a\0\0\0\0\0\0\0".to_vec();
        bitmap.resize(30, 0);
        let cases: [(Vec<u8>, FileKind); 16] = [
            (vec![], FileKind::Empty),
            (b"\x93NUMPY\x01\0".into(), FileKind::Npy),
            (member("x.npy"), FileKind::Npz),
            (b"PK\x05\x06".into(), FileKind::Npz),
            (member("archive/data.pkl"), zip(b"PK\x03\x04").expect("a zip")),
            (b"\x89PNG\r\n\x1a\n...".into(), FileKind::Image),
            (b"\xff\xd8\xff\xe0".into(), FileKind::Image),
            (bitmap, FileKind::Image),
            (b"version https://git-lfs.github.com/spec/v1\n".into(), lfs),
            (of_safetensors("{\"__metadata__\":{\"byoc_format\":\"1\"}}"), FileKind::Artifact),
            (of_safetensors("{\"__metadata__\":{\"format\":\"pt\"}}"), FileKind::Safetensors),
            (b"just a text".into(), FileKind::Text),
            ("é".repeat(3000).into_bytes(), FileKind::Text),
            (b"<!doctype html>".into(), text(b"<").expect("a text")),
            (b"not a text\0".into(), FileKind::Unknown),
            (b"\xff\xfe".into(), FileKind::Unknown),
        ];
        for (bytes, kind) in cases {
            assert_eq!(FileKind::of(&bytes), kind, "{}", String::from_utf8_lossy(&bytes));
        }
        // The head ends within a character.
        assert_eq!(FileKind::of(&[b"a", "é".repeat(3000).as_bytes()].concat()), FileKind::Text);
    }

    #[test]
    fn mistakes_say_what_the_file_is_and_what_to_do() {
        let told = |bytes: &[u8], wanted| mistaken(Path::new("a/m.bin"), bytes, wanted).map(|error| error.to_string());
        assert_eq!(told(b"\x93NUMPY", Wanted::Npy), None);
        assert_eq!(told(b"\0\x01", Wanted::Npy), None);
        let text =
            "[B602] 'a/m.bin' is not an artifact: it is a text file. Copy the file again, or compile the model again";
        assert_eq!(told(b"text", Wanted::Artifact).as_deref(), Some(text));
        let array = "[B101] 'a/m.bin' is not an ONNX model: it is an .npy file with an array. Values of inputs are given with --input";
        assert_eq!(told(b"\x93NUMPY", Wanted::Model).as_deref(), Some(array));
        let empty = "[B701] 'a/m.bin' is not an .npz file: it is empty. Write the arrays with NumPy's savez";
        assert_eq!(told(b"", Wanted::Npz).as_deref(), Some(empty));
        let model = "[B602] 'a/m.bin' is not an artifact: it is an ONNX model. Compile it first: byoc compile a/m.bin -o m.byoc";
        let error = mistaken_for(Path::new("a/m.bin"), FileKind::Model, Wanted::Artifact);
        assert_eq!(error.to_string(), model);
    }
}
