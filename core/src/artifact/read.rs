//! Opens an artifact. The file is mapped, so opening takes constant time; header and graph are validated in full
//! when it is opened, code on first use, and the other digests on demand.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byoc_plugin_api::DType;
use bytes::Bytes;

use super::header::{Header, Tensor};
use super::manifest::{ConstantUse, Manifest, Region};
use super::{DIGEST, FORMAT, FORMAT_KEY, GRAPH, PRODUCER_KEY, check, digest_of, external, graph};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::file_kind::{FileKind, Wanted, mistaken};
use crate::map::map_file;
use crate::memory::{Shortage, room, titled};
use crate::overwrite::Input;

/// An open artifact. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Artifact {
    layout: Arc<Layout>,
    manifest: Arc<Manifest>,
    /// The bytes of constants that are in other files, by index; empty until they are attached.
    attached: Arc<BTreeMap<usize, Bytes>>,
}

/// The file and its sections.
#[derive(Debug)]
struct Layout {
    path: PathBuf,
    file: Bytes,
    header: Header,
    /// Where the data starts in the file.
    data: usize,
    by_name: HashMap<String, usize>,
    /// Which sections of code were compared with their digests.
    compared: Vec<AtomicBool>,
}

/// What `inspect` shows of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo<'a> {
    /// The name.
    pub name: &'a str,
    /// Element type; `u8` for code, graph and padding.
    pub dtype: DType,
    /// Shape, row-major.
    pub shape: &'a [usize],
    /// Number of bytes.
    pub bytes: u64,
    /// Where it is in the file, for people to read.
    pub offset: u64,
    /// BLAKE3 of the bytes, in hex; none for padding.
    pub digest: Option<&'a str>,
}

impl Artifact {
    /// Maps and checks the file at `path`.
    pub fn open(path: &Path) -> Result<Artifact> {
        Artifact::from_bytes(path, map_file(path)?)
    }

    /// An artifact in memory. `path` is its name in messages.
    pub fn from_bytes(path: &Path, file: Bytes) -> Result<Artifact> {
        let not_read =
            |cause: String| mistaken(path, &file, Wanted::Artifact).unwrap_or_else(|| unreadable(path, &file, &cause));
        let (header, data) = Header::decode(&file).map_err(not_read)?;
        check_version(path, &header)?;
        let by_name = header.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect();
        let compared = header.tensors.iter().map(|_| AtomicBool::new(false)).collect();
        let layout = Layout { path: path.to_owned(), file, header, data, by_name, compared };
        let manifest = layout.manifest().map_err(|cause| damaged(path, &cause))?;
        Ok(Artifact { layout: Arc::new(layout), manifest: Arc::new(manifest), attached: Arc::default() })
    }

    /// Where the file was.
    pub fn path(&self) -> &Path {
        &self.layout.path
    }

    /// Size of the file.
    pub fn size(&self) -> u64 {
        self.layout.file.len() as u64
    }

    /// The graph section.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The bytes of a section, without a copy. They are not compared with their digest: a constant may be large.
    pub fn section(&self, name: &str) -> Result<Bytes> {
        self.layout.index(name).map(|index| self.layout.bytes(&self.layout.header.tensors[index])).ok_or_else(|| {
            Diagnostic::new(Code::UnknownName, format!("'{}' has no section '{name}'", self.path().display()))
        })
    }

    /// The code of a region, without a copy. It is small, and it is what runs, so it is compared with its digest when it is
    /// first asked for.
    pub fn code(&self, region: &Region) -> Result<Bytes> {
        let bytes = self.section(&region.code)?;
        let compared = self.layout.index(&region.code).map(|index| (index, &self.layout.compared[index]));
        if let Some((index, compared)) = compared.filter(|(_, compared)| !compared.load(Ordering::Relaxed)) {
            let section = &self.layout.header.tensors[index];
            self.layout.verify(section).map_err(|cause| damaged(self.path(), &cause))?;
            compared.store(true, Ordering::Relaxed);
        }
        Ok(bytes)
    }

    /// Opens the other files that hold constants and compares what is read of them with the digests, so it takes time
    /// in proportion to those bytes; does nothing where all constants are in the artifact, or where it was done before.
    /// The files are looked for at their recorded paths from the artifact's folder, or in `constants_from`, under their
    /// names or paths. They must not be shortened or changed from then on.
    ///
    /// Errors with [`Code::ConstantSource`] where a file is missing, or not the one that the artifact was compiled from.
    pub fn attach(&mut self, constants_from: Option<&Path>) -> Result<()> {
        if self.attached.is_empty() {
            self.attached = Arc::new(external::attach(&self.manifest, self.path(), constants_from)?);
        }
        Ok(())
    }

    /// The files that the artifact takes constants from, where [`Artifact::attach`] looks for them.
    pub fn constant_files(&self, constants_from: Option<&Path>) -> Vec<Input> {
        let place = |file| external::locate(file, self.path(), constants_from);
        self.manifest.files.iter().map(|file| Input::new("constants of the artifact", place(file))).collect()
    }

    /// The bytes of the stored constant of that index; without a copy, except those in another file that have to be
    /// moved to be aligned to their element type. Errors where they are in another file that is not attached.
    pub fn stored(&self, index: usize) -> Result<Bytes> {
        let stored = self.manifest.constants.get(index).ok_or_else(|| self.no_constant())?;
        if stored.external.is_none() {
            return self.section(&stored.section);
        }
        self.attached.get(&index).cloned().ok_or_else(|| {
            let message = format!("'{}' has constants in other files, which are not attached", self.path().display());
            Diagnostic::new(Code::ConstantSource, message)
        })
    }

    /// The elements of a constant in row-major order; copied only where a view has them in another. `value` is its name in
    /// messages.
    pub fn constant(&self, used: &ConstantUse, value: &str) -> Result<Bytes> {
        let base = self.stored(used.constant)?;
        let (dtype, view) = (self.manifest.constants[used.constant].dtype, &used.view);
        if !view.fits((base.len() as u64).saturating_mul(8) / dtype.bits() as u64) || !view.suits(dtype) {
            return Err(self.no_constant());
        }
        let elements = view.checked_elements().and_then(|elements| usize::try_from(elements).ok());
        let length = elements.and_then(|elements| dtype.bytes_for(elements)).unwrap_or(usize::MAX);
        if view.is_contiguous() {
            let start = view.first_byte(dtype);
            return Ok(base.slice(start..start + length));
        }
        let short = |shortage: Shortage| shortage.diagnostic(Code::RunFailed, titled(value, dtype, &view.shape));
        let mut bytes = room(length).map_err(short)?;
        view.append_to(&mut bytes, &base, dtype);
        Ok(bytes.into())
    }

    fn no_constant(&self) -> Diagnostic {
        Diagnostic::new(Code::UnknownName, format!("'{}' has no such constant", self.path().display()))
    }

    /// Every section, in the order of the file.
    pub fn sections(&self) -> impl Iterator<Item = SectionInfo<'_>> {
        let layout = &self.layout;
        layout.header.tensors.iter().map(|tensor| SectionInfo {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
            bytes: tensor.len(),
            offset: layout.data as u64 + tensor.start,
            digest: layout.digest(tensor),
        })
    }

    /// Reads every byte of the file and compares it with the digests; [`Artifact::attach`] does so with other files. The
    /// error names the first section that is damaged.
    pub fn verify_digests(&self) -> Result<()> {
        let mut sections = self.layout.header.tensors.iter();
        sections.try_for_each(|tensor| self.layout.verify(tensor)).map_err(|cause| damaged(self.path(), &cause))
    }

    /// The BLAKE3 digest of a section according to the header; not compared with the bytes.
    #[cfg(feature = "compiler")]
    pub(crate) fn digest_of(&self, section: &str) -> Option<[u8; 32]> {
        let section = &self.layout.header.tensors[self.layout.index(section)?];
        super::digest_bytes(self.layout.digest(section)?)
    }
}

impl Layout {
    /// What the graph section says, checked against the header.
    fn manifest(&self) -> std::result::Result<Manifest, String> {
        check::digests(&self.header)?;
        let section = self.index(GRAPH).ok_or_else(|| format!("it has no section '{GRAPH}'"))?;
        let section = &self.header.tensors[section];
        self.verify(section)?;
        let manifest = graph::decode(&self.bytes(section)).map_err(|cause| format!("section '{GRAPH}': {cause}"))?;
        let declared = (self.header.metadata.get(FORMAT_KEY), self.header.metadata.get(PRODUCER_KEY));
        if declared != (Some(&manifest.format.to_string()), Some(&manifest.producer)) {
            return Err(format!("section '{GRAPH}': its format and producer are not those of the header"));
        }
        check::check(&manifest, &self.header)?;
        Ok(manifest)
    }

    fn verify(&self, tensor: &Tensor) -> std::result::Result<(), String> {
        let bytes = self.bytes(tensor);
        if tensor.is_pad() {
            let zero = bytes.iter().all(|&byte| byte == 0);
            return zero.then_some(()).ok_or_else(|| format!("section '{}': padding is not zero", tensor.name));
        }
        if self.digest(tensor) != Some(digest_of(&bytes).as_str()) {
            return Err(format!("section '{}': its bytes do not have the digest of the header", tensor.name));
        }
        Ok(())
    }

    fn digest(&self, tensor: &Tensor) -> Option<&str> {
        self.header.metadata.get(&format!("{DIGEST}{}", tensor.name)).map(String::as_str)
    }

    /// The index of the section of that name.
    fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn bytes(&self, tensor: &Tensor) -> Bytes {
        self.file.slice(self.data + tensor.start as usize..self.data + tensor.end as usize)
    }
}

/// A file of another kind, and one that is newer than this build, are told apart from damage.
fn check_version(path: &Path, header: &Header) -> Result<()> {
    let path = path.display();
    let Some(text) = header.metadata.get(FORMAT_KEY) else {
        let message = format!("'{path}' is not an artifact: its header has no '{FORMAT_KEY}'");
        return Err(Diagnostic::new(Code::DamagedArtifact, message).hint("Artifacts are made by 'byoc compile'"));
    };
    match text.parse::<u32>() {
        Ok(1..=FORMAT) => Ok(()),
        Ok(format) if format > FORMAT => {
            let message = format!("'{path}' is written in format {format}; this byoc reads formats up to {FORMAT}");
            Err(Diagnostic::new(Code::ArtifactVersion, message)
                .hint("Update byoc, or compile the model again with this one"))
        }
        _ => Err(damaged(Path::new(&path.to_string()), &format!("its format is '{text}'"))),
    }
}

/// The error of a file without a header that can be read. What does not begin as artifacts do is not a damaged one.
fn unreadable(path: &Path, file: &[u8], cause: &str) -> Diagnostic {
    // As much of the length and of the header as there is.
    if FileKind::of(file) == FileKind::Artifact || file.len() <= 8 {
        return damaged(path, cause);
    }
    let message = format!("'{}' is not an artifact: it is of no known kind", path.display());
    Diagnostic::new(Code::DamagedArtifact, message).hint("Artifacts are made by 'byoc compile'")
}

fn damaged(path: &Path, cause: &str) -> Diagnostic {
    Diagnostic::new(Code::DamagedArtifact, format!("'{}' is damaged: {cause}", path.display()))
        .hint("Copy the file again, or compile the model again")
}
