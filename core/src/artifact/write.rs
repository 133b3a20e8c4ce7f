//! Writes an artifact: the layout is planned first, since all sizes are known; then every byte is written once, and hashed
//! unless its digest is known, and the digests are filled into the header. The file is replaced atomically.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use byoc_plugin_api::DType;
use bytes::Bytes;

use super::aligned::AlignedWriter;
use super::header::{Header, Tensor, byte_length, carrier};
use super::ledger::{LedgerRow, LedgerSection, NodeSummary};
use super::manifest::Manifest;
#[cfg(feature = "compiler")]
use super::manifest::Stored;
use super::{FORMAT_KEY, GRAPH, LEDGER, MAX_ALIGNMENT, PAD, PLAIN_FORMAT, PRODUCER_KEY, check, digest_text, graph};
use crate::atomic_file::{self, Scratch};
use crate::diagnostic::{Code, Diagnostic, Result};

/// What is hashed and gathered at a time: small enough to stay in the cache between the two.
const PIECE: usize = 256 * 1024;

/// Entries of at least this many bytes start at a page, so that they can be mapped and sent to devices by themselves.
const LARGE: usize = 1 << 20;

/// What every other entry is aligned to.
const SMALL_ALIGNMENT: u64 = 256;

/// Entries of fewer bytes are aligned to a line of the cache, enough for every vector unit: a quantised model has hundreds of
/// scales and biases, and each pad is an entry of the header as well.
const TINY: usize = 4096;

/// What those are aligned to.
const TINY_ALIGNMENT: u64 = 64;

/// The zeros of padding.
static ZEROS: [u8; MAX_ALIGNMENT as usize] = [0; MAX_ALIGNMENT as usize];

/// The contents of an artifact: the manifest, the ledger, and the sections that the manifest names.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The graph section.
    pub manifest: Manifest,
    /// The ledger: one or more rows for every constant of the model.
    pub ledger: Vec<LedgerRow>,
    /// The nodes that each region of the manifest stands for, in its order.
    pub nodes: Vec<Vec<NodeSummary>>,
    /// Code and constants.
    pub sections: Vec<Section>,
}

/// A named piece of an artifact.
#[derive(Clone, Debug)]
pub struct Section {
    /// The name, unique in the file.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// The bytes: as many as type and shape say.
    pub bytes: Bytes,
    /// BLAKE3 of the bytes, if known; a given digest is trusted.
    pub digest: Option<[u8; 32]>,
    /// Alignment of the first byte, a power of two up to [`MAX_ALIGNMENT`]; 0 where the format's own is enough.
    pub alignment: u64,
}

impl Section {
    /// A section of plain bytes.
    pub fn of_bytes(name: impl Into<String>, bytes: Bytes) -> Section {
        let shape = vec![bytes.len()];
        Section { name: name.into(), dtype: DType::U8, shape, bytes, digest: None, alignment: 0 }
    }

    /// The section of a stored constant. A given digest is trusted.
    #[cfg(feature = "compiler")]
    pub(crate) fn of_stored(stored: &Stored, bytes: Bytes, digest: Option<[u8; 32]>) -> Section {
        Section {
            name: stored.section.clone(),
            dtype: stored.dtype,
            shape: stored.shape.clone(),
            bytes,
            digest,
            alignment: stored.alignment,
        }
    }

    /// The alignment that it gets.
    fn alignment(&self) -> u64 {
        let own = match self.bytes.len() {
            0..TINY => TINY_ALIGNMENT,
            TINY..LARGE => SMALL_ALIGNMENT,
            _ => MAX_ALIGNMENT,
        };
        self.alignment.max(own)
    }

    fn check(&self) -> std::result::Result<(), String> {
        let Section { name, dtype, shape, bytes, alignment, .. } = self;
        if byte_length(*dtype, shape) != Some(bytes.len() as u64) {
            return Err(format!("section '{name}': {dtype}{shape:?} is not {} bytes", bytes.len()));
        }
        if *alignment > MAX_ALIGNMENT || !(*alignment == 0 || alignment.is_power_of_two()) {
            return Err(format!("section '{name}': cannot align to {alignment}"));
        }
        Ok(())
    }
}

/// Progress callback: sections done, sections in all, and the next section.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize, &str);

impl Contents {
    /// Writes the artifact to `path` atomically, and returns its size.
    pub fn write(&self, path: &Path, progress: Progress<'_>) -> Result<u64> {
        let plan = self.plan(path)?;
        atomic_file::write_with(path, |file| plan.stream(file, progress))
    }

    /// The bytes of the artifact, mapped from a file without a name. `name` is what it is called in messages.
    pub fn write_unnamed(&self, name: &Path, scratch: &Scratch, progress: Progress<'_>) -> Result<Bytes> {
        let plan = self.plan(name)?;
        scratch.mapped(|file| plan.stream(file, progress))
    }

    fn plan(&self, path: &Path) -> Result<Plan> {
        Plan::new(self).map_err(|cause| not_written(path, &cause))
    }
}

/// The error of contents that are no artifact.
pub(super) fn not_written(path: &Path, cause: &str) -> Diagnostic {
    Diagnostic::new(Code::DamagedArtifact, format!("cannot write '{}': {cause}", path.display()))
        .hint("This is a bug in byoc; please report it")
}

/// Every section in the order of the file.
pub(super) struct Plan {
    pub(super) header: Header,
    /// Parallel to the header's tensors: the bytes, and their digest where it is known.
    sources: Vec<(Bytes, Option<[u8; 32]>)>,
    pads: usize,
}

impl Plan {
    pub(super) fn new(contents: &Contents) -> std::result::Result<Plan, String> {
        let Contents { manifest, ledger, nodes, sections } = contents;
        if manifest.format > PLAIN_FORMAT {
            return Err(format!("its graph is of format {}, which is one with variants", manifest.format));
        }
        let graph = Section::of_bytes(GRAPH, graph::encode(manifest)?.into());
        let told = Section::of_bytes(LEDGER, graph::encode(&LedgerSection { constants: ledger, nodes })?.into());
        let plan = Plan::of([&graph, &told].into_iter().chain(sections), (manifest.format, &manifest.producer))?;
        let by_name = plan.header.by_name();
        check::check(manifest, &plan.header, &|name| by_name.get(name).copied())?;
        check::ledger(manifest, ledger, nodes)?;
        Ok(plan)
    }

    /// Lays the sections out, in a file of that format and by that producer. Its graphs are still to be checked against its header.
    pub(super) fn of<'a>(
        sections: impl Iterator<Item = &'a Section>,
        (format, producer): (u32, &str),
    ) -> std::result::Result<Plan, String> {
        let mut sections: Vec<&Section> = sections.collect();
        let mut names = HashSet::new();
        for section in &sections {
            section.check()?;
            if !names.insert(&section.name) {
                return Err(format!("it has two sections '{}'", section.name));
            }
        }
        // Large alignments first, and whole multiples of them before the rest: few sections then need a pad. The sort
        // is stable, so the order depends on nothing but the contents.
        sections.sort_by_key(|section| {
            let multiple = section.bytes.len().trailing_zeros().min(MAX_ALIGNMENT.trailing_zeros());
            (Reverse(section.alignment()), Reverse(multiple))
        });
        let mut plan = Plan { header: Header::default(), sources: Vec::new(), pads: 0 };
        let mut end = 0u64;
        for section in sections {
            let start = end.checked_next_multiple_of(section.alignment()).ok_or("the file would be too large")?;
            plan.pad(end, start);
            end = start.checked_add(section.bytes.len() as u64).ok_or("the file would be too large")?;
            let name = section.name.clone();
            let (dtype, shape) = carrier(section.dtype, &section.shape).ok_or("the file would be too large")?;
            let digest = Some(digest_text(&[0; blake3::OUT_LEN]));
            plan.header.tensors.push(Tensor { name: name.into(), dtype, shape, start, end, digest });
            plan.sources.push((section.bytes.clone(), section.digest));
        }
        plan.header.metadata.insert(FORMAT_KEY.into(), format.to_string());
        plan.header.metadata.insert(PRODUCER_KEY.into(), producer.to_owned());
        Ok(plan)
    }

    fn pad(&mut self, start: u64, end: u64) {
        let length = (end - start) as usize;
        if length > 0 {
            let name = format!("{PAD}{}", self.pads).into();
            self.pads += 1;
            self.header.tensors.push(Tensor { name, dtype: DType::U8, shape: vec![length], start, end, digest: None });
            self.sources.push((Bytes::from_static(&ZEROS[..length]), None));
        }
    }

    /// Writes everything to `out`, which must be empty, and returns the size.
    pub(super) fn stream(mut self, out: &mut (impl Write + Seek), progress: Progress<'_>) -> io::Result<u64> {
        let placeholder = self.header.encode().map_err(io::Error::other)?;
        let mut out = AlignedWriter::new(out);
        out.write_all(&placeholder)?;
        let count = self.sources.len();
        for (index, (tensor, (bytes, known))) in self.header.tensors.iter_mut().zip(&self.sources).enumerate() {
            progress(index, count, &tensor.name);
            let mut hasher = blake3::Hasher::new();
            for piece in bytes.chunks(PIECE) {
                if known.is_none() {
                    hasher.update(piece);
                }
                out.write_all(piece)?;
            }
            if !tensor.is_pad() {
                let digest = known.map_or_else(|| hasher.finalize(), blake3::Hash::from_bytes);
                tensor.digest = Some(digest_text(digest.as_bytes()));
            }
        }
        let header = self.header.encode().map_err(io::Error::other)?;
        debug_assert_eq!(header.len(), placeholder.len());
        let out = out.finish()?;
        out.seek(SeekFrom::Start(0))?;
        out.write_all(&header)?;
        out.flush()?;
        Ok(header.len() as u64 + self.header.tensors.last().map_or(0, |tensor| tensor.end))
    }
}
