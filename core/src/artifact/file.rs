//! A file of artifacts: the header, the sections, and one graph, or one for each variant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::graph::MOST_BYTES;
use super::header::{Header, Tensor};
use super::ledger_reader::LedgerReader;
use super::manifest::{ConstantFile, Manifest};
use super::read::{Artifact, SectionInfo};
use super::variants::{VariantList, graph_section};
use super::{FORMAT, FORMAT_KEY, GRAPH, PLAIN_FORMAT, PRODUCER_KEY, check, digest_of, graph};
use crate::diagnostic::{Code, Diagnostic, Result, in_place_of};
use crate::file_kind::{FileKind, Wanted, mistaken};
use crate::map::map_file;

/// An open file: an artifact, or several variants of one that share what they have in common. A clone is the same one.
#[derive(Clone, Debug)]
pub struct ArtifactFile {
    layout: Arc<Layout>,
    /// The graph of a file without variants.
    plain: Option<Arc<Manifest>>,
    /// The names of the variants, the most wanted first.
    variants: Arc<[String]>,
}

impl ArtifactFile {
    /// Maps the file at `path`. What no variant has to do with is checked: the header, and which variants there are.
    pub fn open(path: &Path) -> Result<ArtifactFile> {
        ArtifactFile::from_bytes(path, map_file(path)?)
    }

    /// A file in memory. `path` is its name in messages.
    pub fn from_bytes(path: &Path, file: Bytes) -> Result<ArtifactFile> {
        let not_read =
            |cause: String| mistaken(path, &file, Wanted::Artifact).unwrap_or_else(|| unreadable(path, &file, &cause));
        let (header, data) = Header::decode(&file).map_err(not_read)?;
        let format = check_version(path, &header)?;
        let by_name = header.tensors.iter().enumerate().map(|(index, tensor)| (tensor.name.clone(), index)).collect();
        let compared = header.tensors.iter().map(|_| AtomicBool::new(false)).collect();
        let files = Vec::new();
        let layout = Layout { path: path.to_owned(), file, header, data, by_name, compared, files };
        let damaged = |cause: String| damaged(path, &cause);
        check::digests(&layout.header).map_err(damaged)?;
        if format <= PLAIN_FORMAT {
            let manifest = layout.plain().map_err(damaged)?;
            let layout = Arc::new(Layout { files: manifest.files.clone(), ..layout });
            return Ok(ArtifactFile { layout, plain: Some(Arc::new(manifest)), variants: [].into() });
        }
        let (variants, files) = layout.variants().map_err(damaged)?;
        let layout = Arc::new(Layout { files, ..layout });
        Ok(ArtifactFile { layout, plain: None, variants: variants.into() })
    }

    /// Where the file was.
    pub fn path(&self) -> &Path {
        &self.layout.path
    }

    /// Size of the file.
    pub fn size(&self) -> u64 {
        self.layout.file.len() as u64
    }

    /// The version of its format.
    pub fn format(&self) -> u32 {
        if self.plain.is_some() { PLAIN_FORMAT } else { FORMAT }
    }

    /// The names of its variants, the most wanted first; none where it is one artifact without variants.
    pub fn variants(&self) -> &[String] {
        &self.variants
    }

    /// The variant of that name. Of the file no more is read than the graph of that variant, which is checked.
    pub fn variant(&self, name: &str) -> Result<Artifact> {
        let names = || self.variants.iter().map(String::as_str);
        let Some(name) = names().find(|known| *known == name) else {
            let path = self.path().display();
            if self.variants.is_empty() {
                let error = Diagnostic::new(Code::UnknownName, format!("'{path}' has no variants"));
                return Err(error.hint("Leave the name of the variant out"));
            }
            let error = Diagnostic::new(Code::UnknownName, format!("'{path}' has no variant '{name}'"));
            return Err(error.hint(in_place_of(name, names())));
        };
        let (manifest, _) = self.layout.of_variant(name).map_err(|cause| damaged(self.path(), &cause))?;
        Ok(self.artifact(Arc::new(manifest), Some(name), LedgerReader::default()))
    }

    /// The only artifact in it. Errors where it has several variants.
    pub fn only(&self) -> Result<Artifact> {
        match (&self.plain, &*self.variants) {
            (Some(manifest), _) => Ok(self.artifact(manifest.clone(), None, LedgerReader::default())),
            (None, [name]) => self.variant(name),
            (None, names) => {
                let message = format!("'{}' has the variants {}", self.path().display(), names.join(", "));
                Err(Diagnostic::new(Code::UnknownName, message).hint("Choose one with --variant"))
            }
        }
    }

    /// Each of its variants, or the one artifact that it is, all of them checked: every section is one of somebody's.
    pub fn all(&self) -> Result<Vec<Artifact>> {
        if let Some(manifest) = &self.plain {
            return Ok(vec![self.artifact(manifest.clone(), None, LedgerReader::default())]);
        }
        let damaged = |cause: String| damaged(self.path(), &cause);
        let (mut all, mut bytes, ledger) = (Vec::new(), 0, LedgerReader::default());
        for name in &*self.variants {
            let (manifest, own) = self.layout.of_variant(name).map_err(damaged)?;
            bytes += own;
            if bytes > MOST_BYTES {
                return Err(damaged(format!("its graphs hold more than {MOST_BYTES} bytes")));
            }
            all.push(self.artifact(Arc::new(manifest), Some(name), ledger.beside()));
        }
        let graphs: Vec<_> = self.variants.iter().zip(&all).map(|(name, it)| (&**name, it.manifest())).collect();
        check::all_are_used(&graphs, &self.layout.header).map_err(damaged)?;
        let used = |file: &ConstantFile| all.iter().any(|artifact| artifact.manifest().files.contains(file));
        match self.layout.files.iter().find(|file| !used(file)) {
            Some(file) => Err(damaged(format!("file '{}': no variant has a constant in it", file.path))),
            None => Ok(all),
        }
    }

    /// Every section, in the order of the file.
    pub fn sections(&self) -> impl Iterator<Item = SectionInfo<'_>> {
        self.layout.sections()
    }

    /// Reads every byte of the file and compares it with the digests. The error names the first section that is damaged.
    pub fn verify_digests(&self) -> Result<()> {
        self.layout.verify_all().map_err(|cause| damaged(self.path(), &cause))
    }

    fn artifact(&self, manifest: Arc<Manifest>, variant: Option<&str>, ledger: LedgerReader) -> Artifact {
        let (layout, variant) = (self.layout.clone(), variant.map(Arc::from));
        Artifact { layout, manifest, variant, ledger: Arc::new(ledger), attached: Arc::default() }
    }
}

/// The file and its sections.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) path: PathBuf,
    pub(super) file: Bytes,
    header: Header,
    /// Where the data starts in the file.
    data: usize,
    by_name: HashMap<Arc<str>, usize>,
    /// Which sections of code were compared with their digests.
    compared: Vec<AtomicBool>,
    /// The other files that hold constants of any variant.
    pub(super) files: Vec<ConstantFile>,
}

impl Layout {
    /// The graph of a file without variants, checked against the header.
    fn plain(&self) -> std::result::Result<Manifest, String> {
        let (manifest, _): (Manifest, u64) = self.json(GRAPH)?;
        self.check_written(manifest.format, &manifest.producer)?;
        check::check(&manifest, &self.header, &|name| self.tensor(name))?;
        Ok(manifest)
    }

    /// The names of the variants, and the other files of all of them.
    fn variants(&self) -> std::result::Result<(Vec<String>, Vec<ConstantFile>), String> {
        let (list, _): (VariantList, u64) = self.json(GRAPH)?;
        self.check_written(list.format, &list.producer)?;
        list.check().map_err(|cause| format!("section '{GRAPH}': {cause}"))?;
        Ok((list.variants.into_iter().map(|listed| listed.name).collect(), list.files))
    }

    /// The graph of a variant, checked against the header, and how many bytes of JSON it is.
    fn of_variant(&self, name: &str) -> std::result::Result<(Manifest, u64), String> {
        let section = graph_section(name);
        let (manifest, bytes): (Manifest, u64) = self.json(&section)?;
        if manifest.format != PLAIN_FORMAT {
            return Err(format!("section '{section}': its format is {}", manifest.format));
        }
        if let Some(file) = manifest.files.iter().find(|file| !self.files.contains(file)) {
            return Err(format!("section '{section}': the list of variants does not have its file '{}'", file.path));
        }
        check::check_variant(&manifest, name, &|name| self.tensor(name))?;
        Ok((manifest, bytes))
    }

    /// What a section of compressed JSON holds, compared with its digest, and how many bytes of JSON it is.
    pub(super) fn json<T: DeserializeOwned>(&self, section: &str) -> std::result::Result<(T, u64), String> {
        let tensor = self.tensor(section).ok_or_else(|| format!("it has no section '{section}'"))?;
        self.verify(tensor)?;
        graph::decode(&self.bytes(tensor)).map_err(|cause| format!("section '{section}': {cause}"))
    }

    fn check_written(&self, format: u32, producer: &str) -> std::result::Result<(), String> {
        let metadata = |key| self.header.metadata.get(key).map(String::as_str);
        match (metadata(FORMAT_KEY), metadata(PRODUCER_KEY)) == (Some(format.to_string().as_str()), Some(producer)) {
            true => Ok(()),
            false => Err(format!("section '{GRAPH}': its format and producer are not those of the header")),
        }
    }

    fn verify(&self, tensor: &Tensor) -> std::result::Result<(), String> {
        let bytes = self.bytes(tensor);
        if tensor.is_pad() {
            let zero = bytes.iter().all(|&byte| byte == 0);
            return zero.then_some(()).ok_or_else(|| format!("section '{}': padding is not zero", tensor.name));
        }
        if tensor.digest.as_deref() != Some(digest_of(&bytes).as_str()) {
            return Err(format!("section '{}': its bytes do not have the digest of the header", tensor.name));
        }
        Ok(())
    }

    /// Compares every byte with the digests.
    pub(super) fn verify_all(&self) -> std::result::Result<(), String> {
        self.header.tensors.iter().try_for_each(|tensor| self.verify(tensor))
    }

    /// Compares a section with its digest when it is first asked for.
    pub(super) fn compare_once(&self, name: &str) -> std::result::Result<(), String> {
        let Some(index) = self.by_name.get(name).copied() else { return Ok(()) };
        if !self.compared[index].load(Ordering::Relaxed) {
            self.verify(&self.header.tensors[index])?;
            self.compared[index].store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The section of that name.
    pub(super) fn tensor(&self, name: &str) -> Option<&Tensor> {
        Some(&self.header.tensors[*self.by_name.get(name)?])
    }

    pub(super) fn bytes(&self, tensor: &Tensor) -> Bytes {
        self.file.slice(self.data + tensor.start as usize..self.data + tensor.end as usize)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = SectionInfo<'_>> {
        self.header.tensors.iter().map(|tensor| SectionInfo {
            name: &tensor.name,
            dtype: tensor.dtype,
            shape: &tensor.shape,
            bytes: tensor.len(),
            offset: self.data as u64 + tensor.start,
            digest: tensor.digest.as_deref(),
        })
    }
}

/// The format of the file. A file of another kind, and one that is newer than this build, are told apart from damage.
fn check_version(path: &Path, header: &Header) -> Result<u32> {
    let path = path.display();
    let Some(text) = header.metadata.get(FORMAT_KEY) else {
        let message = format!("'{path}' is not an artifact: its header has no '{FORMAT_KEY}'");
        return Err(Diagnostic::new(Code::DamagedArtifact, message).hint("Artifacts are made by 'byoc compile'"));
    };
    match text.parse::<u32>() {
        Ok(format @ 1..=FORMAT) => Ok(format),
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

pub(super) fn damaged(path: &Path, cause: &str) -> Diagnostic {
    Diagnostic::new(Code::DamagedArtifact, format!("'{}' is damaged: {cause}", path.display()))
        .hint("Copy the file again, or compile the model again")
}
