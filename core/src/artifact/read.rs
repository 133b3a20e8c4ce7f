//! Reads an artifact, or a variant of one. The file is mapped, so opening takes constant time; header and graph are validated in
//! full when it is opened, code on first use, and the other digests on demand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use byoc_plugin_api::DType;
use bytes::Bytes;

use super::external;
use super::file::{ArtifactFile, Layout, damaged};
use super::ledger::{LedgerRow, NodeSummary, ledger_section};
use super::ledger_reader::{LedgerReader, ReadLedger};
use super::manifest::{ConstantUse, Manifest, Region};
#[cfg(feature = "compiler")]
use super::{Contents, Section, code_sections};
use crate::diagnostic::{Code, Diagnostic, Result, dir_of};
use crate::memory::{Shortage, room, titled};
use crate::overwrite::{self, Input};

/// An open artifact; of a file with variants, one of them. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub(super) layout: Arc<Layout>,
    pub(super) manifest: Arc<Manifest>,
    /// The variant that it is; none where the file has no variants.
    pub(super) variant: Option<Arc<str>>,
    pub(super) ledger: Arc<LedgerReader>,
    /// The bytes of constants that are in other files, by index; empty until they are attached.
    pub(super) attached: Arc<BTreeMap<usize, Bytes>>,
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
    /// Maps and checks the file at `path`. Errors where it has several variants: [`ArtifactFile`] opens those.
    pub fn open(path: &Path) -> Result<Artifact> {
        ArtifactFile::open(path)?.only()
    }

    /// An artifact in memory. `path` is its name in messages.
    pub fn from_bytes(path: &Path, file: Bytes) -> Result<Artifact> {
        ArtifactFile::from_bytes(path, file)?.only()
    }

    /// The name of the variant that it is; none where the file has no variants.
    pub fn variant(&self) -> Option<&str> {
        self.variant.as_deref()
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

    /// The rows of its ledger. They are read when they are first asked for, for no run needs them, and compared with their digest
    /// and with the graph.
    ///
    /// Errors with [`Code::DamagedArtifact`] where they do not fit.
    pub fn ledger(&self) -> Result<&[LedgerRow]> {
        Ok(&self.told()?.constants)
    }

    /// The nodes that each region stands for, in the order of [`Manifest::regions`]; they are read as the rows of the ledger are.
    ///
    /// Errors as [`Artifact::ledger`] does.
    pub fn nodes(&self) -> Result<&[Vec<NodeSummary>]> {
        Ok(&self.told()?.nodes)
    }

    /// Those of one of its regions.
    ///
    /// Errors as [`Artifact::ledger`] does.
    pub fn nodes_of(&self, region: &Region) -> Result<&[NodeSummary]> {
        let mut regions = self.manifest().regions.iter().zip(self.nodes()?);
        Ok(regions.find(|(own, _)| own.symbol == region.symbol).map_or(&[][..], |(_, nodes)| nodes.as_slice()))
    }

    fn told(&self) -> Result<&ReadLedger> {
        let section = ledger_section(self.variant());
        self.ledger.get(&self.layout, &section, &self.manifest).map_err(|cause| damaged(self.path(), &cause))
    }

    /// The bytes of a section, without a copy. They are not compared with their digest: a constant may be large.
    pub fn section(&self, name: &str) -> Result<Bytes> {
        self.layout.tensor(name).map(|tensor| self.layout.bytes(tensor)).ok_or_else(|| {
            Diagnostic::new(Code::UnknownName, format!("'{}' has no section '{name}'", self.path().display()))
        })
    }

    /// The code of a region, without a copy. It is small, and it is what runs, so it is compared with its digest when it is
    /// first asked for.
    pub fn code(&self, region: &Region) -> Result<Bytes> {
        let bytes = self.section(&region.code)?;
        self.layout.compare_once(&region.code).map_err(|cause| damaged(self.path(), &cause))?;
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
            self.attached = Arc::new(external::attach(self.manifest(), self.path(), constants_from, &|| {
                self.ledger().unwrap_or_default()
            })?);
        }
        Ok(())
    }

    /// The files that the artifact, or another variant of its file, takes constants from, where [`Artifact::attach`] looks for them.
    pub fn constant_files(&self, constants_from: Option<&Path>) -> Vec<Input> {
        let place = |file| external::locate(file, self.path(), constants_from);
        self.layout.files.iter().map(|file| Input::new("constants of the artifact", place(file))).collect()
    }

    /// Errors where `output` is the artifact, or a file that it or another variant refers to; and where a file there would lose the files that the
    /// artifact refers to, for their paths are seen from its folder.
    pub fn check_output(&self, output: &Path) -> Result<()> {
        let mut inputs = self.constant_files(None);
        inputs.push(Input::new("the artifact", self.path()));
        overwrite::check(&[output], &inputs)?;
        let Some(first) = self.manifest().files.first() else { return Ok(()) };
        let place = |path: &Path| std::fs::canonicalize(dir_of(path)).ok();
        if place(self.path()) != place(output) {
            let message = format!("'{}' refers to '{}' from its folder", self.path().display(), first.path);
            return Err(Diagnostic::new(Code::Usage, message).hint("Write the output into the same folder"));
        }
        Ok(())
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

    /// Every section of the file, in its order; those of other variants as well.
    pub fn sections(&self) -> impl Iterator<Item = SectionInfo<'_>> {
        self.layout.sections()
    }

    /// Reads every byte of the file and compares it with the digests; [`Artifact::attach`] does so with other files. The
    /// error names the first section that is damaged.
    pub fn verify_digests(&self) -> Result<()> {
        self.layout.verify_all().map_err(|cause| damaged(self.path(), &cause))
    }

    /// Compares its code, its constants and its ledger with the digests; not those of other variants.
    pub fn verify_own_digests(&self) -> Result<()> {
        let (manifest, ledger) = (self.manifest(), ledger_section(self.variant()));
        let code = manifest.regions.iter().map(|region| &region.code);
        let stored = manifest.constants.iter().filter(|stored| stored.external.is_none()).map(|stored| &stored.section);
        let mut sections = code.chain(stored).chain([&ledger]);
        sections.try_for_each(|name| self.layout.compare_once(name)).map_err(|cause| damaged(self.path(), &cause))
    }

    /// The BLAKE3 digest of a section according to the header; not compared with the bytes.
    #[cfg(feature = "compiler")]
    pub(crate) fn digest_of(&self, section: &str) -> Option<[u8; 32]> {
        super::digest_bytes(self.layout.tensor(section)?.digest.as_deref()?)
    }

    /// What it is written from: the manifest, the ledger, its code and its constants. Sections keep their digests: a new one would vouch for a
    /// damaged section.
    #[cfg(feature = "compiler")]
    pub(crate) fn contents(&self) -> Result<Contents> {
        self.contents_with(self.manifest().clone(), &|_| None)
    }

    /// The same with a changed manifest, and other code where there is some for the region of that index.
    #[cfg(feature = "compiler")]
    pub(crate) fn contents_with(
        &self,
        mut manifest: Manifest,
        other: &dyn Fn(usize) -> Option<Bytes>,
    ) -> Result<Contents> {
        let mut sections = code_sections(&mut manifest, |index, region| match other(index) {
            Some(code) => Ok((code, None)),
            None => Ok((self.section(&region.code)?, self.digest_of(&region.code))),
        })?;
        for stored in manifest.constants.iter().filter(|stored| stored.external.is_none()) {
            let (bytes, digest) = (self.section(&stored.section)?, self.digest_of(&stored.section));
            sections.push(Section::of_stored(stored, bytes, digest));
        }
        Ok(Contents { manifest, ledger: self.ledger()?.to_vec(), nodes: self.nodes()?.to_vec(), sections })
    }
}
