//! Searches the code of every region for constants that the file stores as well. Embedded constants that are claimed are
//! allowed; undeclared copies would be stored twice.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::search::{Hit, PART, search};
use super::storage::Storage;
use crate::artifact::manifest::ClaimKind;
use crate::codegen::{Generated, GeneratedRegion};
use crate::constants::{Base, BaseId};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::memory::readable;
use crate::plugin::BackendIdentity;

/// The result of the audit.
#[derive(Default)]
pub(super) struct Findings {
    /// Constants that are in code and in the file's own sections.
    pub(super) duplicates: Vec<Diagnostic>,
    /// Constants that are in code and nowhere else, or as claimed: notes for their rows of the ledger.
    pub(super) notes: Vec<(BaseId, String)>,
}

/// Bytes that code must not hold without a claim.
struct Target {
    base: BaseId,
    /// The layout, if these are packed bytes.
    layout: Option<String>,
    bytes: Bytes,
    /// Whether the file stores the constant, in whatever form.
    stored: bool,
}

/// All copies of one target in the code of one region.
struct Copies {
    offset: usize,
    bytes: usize,
}

/// Searches the code of every region.
pub(super) fn audit(generated: &Generated, backends: &[BackendIdentity], storage: &Storage) -> Result<Findings> {
    let blobs: Vec<Bytes> =
        generated.regions.iter().map(|region| generated.spool.bytes(region.code)).collect::<Result<_>>()?;
    let targets = targets(generated, storage);
    let bytes: Vec<Bytes> = targets.iter().map(|target| target.bytes.clone()).collect();
    let mut copies: BTreeMap<(usize, usize), Copies> = BTreeMap::new();
    for Hit { blob, target, offset, len, .. } in search(&blobs, &bytes) {
        copies.entry((blob, target)).or_insert(Copies { offset, bytes: 0 }).bytes += len;
    }
    let mut findings = Findings::default();
    for ((region, target), copies) in copies {
        let region = &generated.regions[region];
        judge(generated, backends, region, &targets[target], &copies, &mut findings);
    }
    Ok(findings)
}

/// Every constant that some region was given, and every packed form, if it is large enough to be found.
fn targets(generated: &Generated, storage: &Storage) -> Vec<Target> {
    let mut originals: BTreeMap<BaseId, bool> = BTreeMap::new();
    let mut packed: BTreeMap<usize, BaseId> = BTreeMap::new();
    for (_, constant, used) in storage.of_regions(generated) {
        let base = constant.source.base;
        *originals.entry(base).or_default() |= used.is_some();
        if let Some(used) = used.filter(|used| storage.constants[used.constant].base.is_none()) {
            packed.entry(used.constant).or_insert(base);
        }
    }
    let originals = originals.into_iter().map(|(base, stored)| Target {
        base,
        layout: None,
        bytes: generated.model.constants.get(base).bytes.clone(),
        stored: stored || storage.of_base(base).is_some(),
    });
    let packed = packed.into_iter().map(|(index, base)| {
        let stored = &storage.constants[index];
        Target { base, layout: stored.layout.clone(), bytes: stored.bytes.clone(), stored: true }
    });
    originals.chain(packed).filter(|target| target.bytes.len() >= PART).collect()
}

fn judge(
    generated: &Generated,
    backends: &[BackendIdentity],
    region: &GeneratedRegion,
    target: &Target,
    copies: &Copies,
    findings: &mut Findings,
) {
    let backend = &backends[region.plan.backend].name;
    let symbol = &region.plan.region.symbol;
    let name = name(generated.model.constants.get(target.base), target.base);
    let size = readable(target.bytes.len() as u64);
    let part = if copies.bytes < target.bytes.len() {
        format!("{} of ", readable(copies.bytes as u64))
    } else {
        String::new()
    };
    let form = target.layout.as_ref().map(|layout| format!(" packed as '{layout}'")).unwrap_or_default();
    let offset = copies.offset;
    let constants = region.constants.iter().filter(|constant| constant.source.base == target.base);
    let mut claims: Vec<ClaimKind> = constants.map(|constant| constant.claim.kind()).collect();
    claims.sort_by_key(|claim| *claim != ClaimKind::Embedded);
    let claim = claims.first();
    if target.stored && claim != Some(&ClaimKind::Embedded) {
        let claimed = match claim {
            Some(claim) => format!(" and claims {claim:?}"),
            None => ", and another region's claim has it stored".to_owned(),
        };
        let found =
            format!("{backend}: region {symbol} embeds {part}`{name}` ({size}){form} verbatim at offset {offset}");
        findings.duplicates.push(duplicate(format!("{found}{claimed}")));
        return;
    }
    let claimed = match claim {
        Some(ClaimKind::Embedded) => ", as it claims".to_owned(),
        Some(claim) => format!(", and claims {claim:?}"),
        None => ", which was not given it".to_owned(),
    };
    let what = if part.is_empty() { "it" } else { &format!("{part}it") };
    let note = format!("{what}{form} is found verbatim at offset {offset} in the code of {symbol}{claimed}");
    findings.notes.push((target.base, note));
}

fn duplicate(message: String) -> Diagnostic {
    Diagnostic::new(Code::DuplicateConstant, message)
        .hint("The backend should claim Embedded, or read the bytes at load; --allow-duplicates makes this a warning")
}

/// The constant as messages have it.
pub(super) fn name(base: &Base, id: BaseId) -> String {
    base.names.first().cloned().unwrap_or_else(|| format!("constant {}", id.0))
}
