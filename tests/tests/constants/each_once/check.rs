//! What is checked of every case: the results are those of a compile for json alone, the file keeps its bound, and each
//! constant has the fate and stands in the file as often as the case says. Sizes are counted here, from the tensors that
//! the test made, and by searching the file; the ledger has to agree.

use std::path::PathBuf;
use std::sync::LazyLock;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::Ledger;
use byoc_core::artifact::{Fate, LedgerRow};
use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_tests::onnx::{self, Model, Type};
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::{engine, places};
use half::f16;
use tempfile::TempDir;

/// The file has at most so many percent of the bytes that it must have.
const MOST_PERCENT: u64 = 101;

/// How many bytes from the middle of a constant are searched in the file. Shorter ones are in any file by chance.
const PROBE: usize = 256;

/// The backends of the test's own plugin and the dynamic json backend, in no other way than any user would load them.
pub(crate) static BACKENDS: LazyLock<Registry> =
    LazyLock::new(|| engine::from_files(vec![places::plugin("claim_variants"), places::plugin("json")]));

/// A model, how it is compiled, and what has to come of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) model: Model,
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// In their order; json comes after them. Each must have a region.
    pub(crate) backends: &'static [&'static str],
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// Every constant of the model, and what it is folded into.
    pub(crate) constants: Vec<Expected>,
    /// Bytes that the file has beside each needed constant once: for the case says why.
    pub(crate) extra: usize,
    /// Allowed difference of results, in proportion to the largest.
    pub(crate) tolerance: f64,
}

/// What has to become of a constant.
pub(crate) struct Expected {
    pub(crate) constant: Constant,
    /// How often its bytes stand in the file.
    pub(crate) copies: usize,
    /// The fates of its rows in the ledger.
    pub(crate) fates: &'static [Fate],
    /// What the ledger notes on them.
    pub(crate) note: &'static str,
}

/// A constant that the test made.
#[derive(Clone)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) ty: Type,
    pub(crate) shape: Vec<i64>,
    pub(crate) bytes: Vec<u8>,
}

/// A case that passed.
pub(crate) struct Checked {
    pub(crate) artifact: Artifact,
    pub(crate) ledger: Ledger,
    /// The case's line of the table.
    pub(crate) line: String,
    _folder: TempDir,
}

/// Numbers between -0.05 and 0.05, so that products stay small.
pub(crate) fn numbers(seed: u64, count: i64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..count).map(|_| (next() - 0.5) / 10.0).collect()
}

impl Constant {
    /// A constant of f32.
    pub(crate) fn of(name: &'static str, shape: &[i64], values: &[f32]) -> Constant {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Constant { name, ty: Type::Float, shape: shape.to_vec(), bytes }
    }

    /// A weight of f32 whose values the seed gives.
    pub(crate) fn random(name: &'static str, shape: &[i64], seed: u64) -> Constant {
        Constant::of(name, shape, &numbers(seed, shape.iter().product()))
    }

    /// An integer of 64 bits.
    pub(crate) fn integer(name: &'static str, value: i64) -> Constant {
        Constant { name, ty: Type::Int64, shape: Vec::new(), bytes: value.to_le_bytes().to_vec() }
    }

    /// A constant of f16.
    pub(crate) fn half(name: &'static str, shape: &[i64], values: &[f32]) -> Constant {
        let bytes = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
        Constant { name, ty: Type::Float16, shape: shape.to_vec(), bytes }
    }

    /// The values of a constant of f32.
    pub(crate) fn values(&self) -> Vec<f32> {
        let (values, _) = self.bytes.as_chunks::<4>();
        values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    /// Adds it to a model.
    pub(crate) fn add_to(&self, model: Model) -> Model {
        model.tensor(onnx::tensor(self.name, self.ty, &self.shape, self.bytes.clone()))
    }

    /// What has to become of it.
    pub(crate) fn expect(&self, copies: usize, fates: &'static [Fate]) -> Expected {
        Expected { constant: self.clone(), copies, fates, note: "" }
    }

    /// It stands in the file once.
    pub(crate) fn stored(&self) -> Expected {
        self.expect(1, &[Fate::Stored])
    }
}

impl Expected {
    /// With a note in the ledger.
    pub(crate) fn noted(self, note: &'static str) -> Expected {
        Expected { note, ..self }
    }

    /// Whether somebody needs the constant.
    fn is_needed(&self) -> bool {
        !matches!(self.fates, [] | [Fate::Folded | Fate::Dropped])
    }
}

/// A model with these constants.
pub(crate) fn model(constants: &[&Constant]) -> Model {
    constants.iter().fold(Model::default(), |model, constant| constant.add_to(model))
}

/// An input of f32.
pub(crate) fn input(name: &str, shape: &[i64], seed: u64) -> (String, Tensor) {
    (name.to_owned(), Tensor::f32(shape, &numbers(seed, shape.iter().product())))
}

/// Compiles the case and checks everything that holds for each.
pub(crate) fn check(case: Case) -> Checked {
    let folder = places::temporary();
    let path = places::write(folder.path(), "model.onnx", case.model.clone().finish());
    let (own, reference) = (folder.path().join("own.byoc"), folder.path().join("reference.byoc"));
    let backends = [case.backends, &["json"]].concat();
    let report = engine::compile_with(&path, &own, &BACKENDS, &backends, case.settings).expect("compiles");
    engine::compile(&path, &reference, &BACKENDS, &["json"]).expect("compiles for json");
    same_results(&case, [own.clone(), reference]);

    let (artifact, file) = (Artifact::open(&own).expect("opens"), places::read(&own));
    artifact.verify_digests().expect("whole");
    for &backend in case.backends {
        assert!(artifact.manifest().regions.iter().any(|region| region.backend == backend), "{backend} has no region");
    }
    let ledger = Ledger::of(artifact.manifest(), artifact.ledger().expect("it fits"));
    assert_eq!(ledger, report.ledger, "the file's ledger is the compile's");
    case.constants.iter().for_each(|expected| expected.check(&ledger, &file));

    let needed = case.constants.iter().filter(|expected| expected.is_needed());
    let unique = needed.map(|expected| expected.constant.bytes.len() as u64).sum::<u64>();
    assert_eq!(ledger.totals.unique, unique, "the ledger counts other constants");
    let sections = artifact.sections().filter(|section| section.name.starts_with("const/"));
    assert_eq!(ledger.totals.stored, sections.map(|section| section.bytes).sum::<u64>());
    let must = unique + case.extra as u64;
    let size = file.len() as u64;
    assert_eq!(size, report.file_bytes);
    assert!(size * 100 <= must * MOST_PERCENT, "{size} bytes for {must}");
    Checked { line: line(case.name, unique, size, &ledger), artifact, ledger, _folder: folder }
}

fn same_results(case: &Case, artifacts: [PathBuf; 2]) {
    let [found, expected] = artifacts.map(|path| {
        let mut session = engine::load(&path, &BACKENDS, 2).expect("loads");
        engine::run(&mut session, &case.inputs).expect("runs")
    });
    assert_eq!(found.len(), expected.len());
    for ((name, found), (_, expected)) in found.iter().zip(&expected) {
        let scale = if expected.dtype == DType::Bool { 0.0 } else { expected.scale() };
        assert!(expected.bytes.is_empty() || scale > 0.0, "'{name}' is zero everywhere, which proves nothing");
        let tolerance = Tolerance { relative: 0.0, absolute: case.tolerance * scale };
        compare(found, expected, tolerance).unwrap_or_else(|what| panic!("'{name}' {what}"));
    }
}

impl Expected {
    fn check(&self, ledger: &Ledger, file: &[u8]) {
        let Constant { name, bytes, .. } = &self.constant;
        let rows = rows(ledger, name);
        let fates: Vec<_> = rows.iter().map(|row| row.fate).collect();
        assert_eq!(fates, self.fates, "`{name}`: {rows:?}");
        let notes: Vec<_> = rows.iter().filter_map(|row| without_places(row)).collect();
        assert_eq!(notes.join("; "), self.note, "`{name}`");
        assert!(rows.iter().all(|row| row.bytes == bytes.len() as u64), "`{name}`: {rows:?}");
        if bytes.len() >= PROBE {
            let start = (bytes.len() / 2).min(bytes.len() - PROBE);
            let probe = &bytes[start..start + PROBE];
            let copies = file.windows(PROBE).filter(|window| window == &probe).count();
            assert_eq!(copies, self.copies, "`{name}` stands in the file {copies} times");
        }
    }
}

/// A row's note without what the audit says of where in the code the bytes stand, which is the plugin's affair.
fn without_places(row: &LedgerRow) -> Option<String> {
    let parts = row.note.as_deref()?.split("; ").filter(|part| !part.starts_with("it is found verbatim at offset "));
    Some(parts.collect::<Vec<_>>().join("; ")).filter(|note| !note.is_empty())
}

/// The rows of the constant that the model has under this name.
pub(crate) fn rows<'a>(ledger: &'a Ledger, name: &str) -> Vec<&'a LedgerRow> {
    ledger.rows.iter().filter(|row| row.names.iter().any(|known| known == name)).collect()
}

/// The head of the table.
pub(crate) const HEAD: &str = "case                                 weights  file KiB    ratio    stored    packed  embedded    folded   dropped\n";

/// A line of the table: bytes of the different weights, the file, file over weights, and the ledger's sums in bytes;
/// below it what is in code, and what the ledger notes.
fn line(name: &str, unique: u64, size: u64, ledger: &Ledger) -> String {
    let totals = &ledger.totals;
    let (kib, ratio) = (size.div_ceil(1024), size as f64 / unique as f64);
    let mut line = format!("{name:<34} {unique:>9} {kib:>9} {ratio:>8.3}");
    for bytes in [totals.stored, totals.packed, totals.embedded, totals.folded, totals.dropped] {
        line += &format!(" {bytes:>9}");
    }
    for row in &ledger.rows {
        let embedded = (row.fate == Fate::Embedded).then(|| format!("in the code of {}", row.readers.join(", ")));
        for note in embedded.iter().chain(&without_places(row)) {
            line += &format!("\n  `{}`: {note}", row.names.join("`, `"));
        }
    }
    line + "\n"
}
