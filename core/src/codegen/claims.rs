//! Records the claims of one region: exactly one for each of its constants, whatever the backend does.

use std::collections::HashMap;

use byoc_plugin_api::{Claim, ClaimSink, ConstantId, Error, Packed, Region, part_offsets};

use crate::artifact::MAX_ALIGNMENT;
use crate::artifact::manifest::ClaimKind;
use crate::cpu;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::spool::{Piece, Spool, SpoolRange};

/// Most bytes of the name of a layout, and most dimensions of what is packed. Both are stored in the artifact.
const LONGEST_LAYOUT: usize = 256;
const MOST_DIMENSIONS: usize = 64;

/// A claim as recorded.
#[derive(Clone, Debug)]
pub(crate) enum RecordedClaim {
    /// The region reads the original.
    Host,
    /// It reads these bytes.
    Packed(PackedConstant),
    /// Its code has the bytes.
    Embedded,
    /// It needs no bytes.
    Unused,
}

/// What a backend packed.
#[derive(Clone, Debug)]
pub(crate) struct PackedConstant {
    /// Layout, type, shape, alignment and processor features.
    pub(crate) form: Packed,
    /// The bytes: as many as type and shape say.
    pub(crate) bytes: SpoolRange,
    /// BLAKE3 of the bytes.
    pub(crate) digest: [u8; 32],
}

impl RecordedClaim {
    /// Which claim it is.
    pub(crate) fn kind(&self) -> ClaimKind {
        match self {
            RecordedClaim::Host => ClaimKind::Host,
            RecordedClaim::Packed(_) => ClaimKind::Packed,
            RecordedClaim::Embedded => ClaimKind::Embedded,
            RecordedClaim::Unused => ClaimKind::Unused,
        }
    }

    /// What was packed, if anything was.
    pub(crate) fn packed(&self) -> Option<&PackedConstant> {
        if let RecordedClaim::Packed(packed) = self { Some(packed) } else { None }
    }
}

/// Takes the claims of one region. The first error is kept: [`Recorder::finish`] returns it even if the backend
/// ignores it.
pub(crate) struct Recorder<'a> {
    region: &'a Region,
    backend: &'a str,
    spool: &'a mut Spool,
    /// Index of each constant in [`Region::constants`].
    index_of: HashMap<ConstantId, usize>,
    /// Parallel to [`Region::constants`].
    claims: Vec<Option<RecordedClaim>>,
    packing: Option<Packing>,
    failure: Option<Diagnostic>,
}

/// A packed constant whose bytes are still coming.
struct Packing {
    /// Index into [`Region::constants`].
    constant: usize,
    form: Packed,
    expected: u64,
    piece: Piece,
    hasher: blake3::Hasher,
}

impl<'a> Recorder<'a> {
    /// A recorder for the claims of `backend` on the constants of `region`; packed bytes go to `spool`.
    pub(crate) fn new(region: &'a Region, backend: &'a str, spool: &'a mut Spool) -> Self {
        let claims = vec![None; region.constants.len()];
        let index_of = region.constants.iter().enumerate().map(|(index, constant)| (constant.id, index)).collect();
        Recorder { region, backend, spool, index_of, claims, packing: None, failure: None }
    }

    /// The claims, parallel to [`Region::constants`]. `outcome` is what the backend said of its own work: where it
    /// failed because a claim was refused or the disk is full, that is the error.
    pub(crate) fn finish(mut self, outcome: Result<()>) -> Result<Vec<RecordedClaim>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        outcome?;
        self.end_packing()?;
        let missing: Vec<_> = (0..self.claims.len()).filter(|&index| self.claims[index].is_none()).collect();
        if let [first, rest @ ..] = missing.as_slice() {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            return Err(self.broken(format!("it does not claim {}{more}", self.name(*first))));
        }
        Ok(self.claims.into_iter().flatten().collect())
    }

    fn take(&mut self, id: ConstantId, claim: &Claim) -> Result<()> {
        self.end_packing()?;
        let Some(&index) = self.index_of.get(&id) else {
            return Err(self.broken(format!("it claims constant {id}, which the region does not have")));
        };
        if let Some(before) = &self.claims[index] {
            let (before, now) = (before.kind(), kind(claim));
            return Err(self.broken(format!("it claims {} twice, as {before:?} and as {now:?}", self.name(index))));
        }
        let Claim::Packed(form) = claim else {
            self.claims[index] = Some(match claim {
                Claim::Embedded => RecordedClaim::Embedded,
                Claim::Unused => RecordedClaim::Unused,
                Claim::Host | Claim::Packed(_) => RecordedClaim::Host,
            });
            return Ok(());
        };
        let expected = check(form).map_err(|cause| self.wrong_bytes(format!("{}: {cause}", self.name(index))))?;
        let piece = Piece::new(format!("packed {} of region {}", self.name(index), self.region.symbol));
        let (form, hasher) = (form.clone(), blake3::Hasher::new());
        self.packing = Some(Packing { constant: index, form, expected, piece, hasher });
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(packing) = &mut self.packing else {
            return Err(self.wrong_bytes(format!("it writes {} bytes without a packed claim before them", bytes.len())));
        };
        if packing.piece.len() + bytes.len() as u64 > packing.expected {
            let (index, expected) = (packing.constant, packing.expected);
            return Err(
                self.wrong_bytes(format!("it writes more than the {expected} bytes of packed {}", self.name(index)))
            );
        }
        packing.hasher.update(bytes);
        if packing.piece.push(self.spool, bytes).is_err()
            && let Some(packing) = self.packing.take()
        {
            // `finish` reports the same failure with its region.
            packing.piece.finish(self.spool)?;
        }
        Ok(())
    }

    fn end_packing(&mut self) -> Result<()> {
        let Some(Packing { constant, form, expected, piece, hasher }) = self.packing.take() else { return Ok(()) };
        let found = piece.len();
        if found != expected {
            let name = self.name(constant);
            return Err(self.wrong_bytes(format!("it writes {found} of the {expected} bytes of packed {name}")));
        }
        let (bytes, digest) = (piece.finish(self.spool)?, *hasher.finalize().as_bytes());
        self.claims[constant] = Some(RecordedClaim::Packed(PackedConstant { form, bytes, digest }));
        Ok(())
    }

    /// The constant as messages have it.
    fn name(&self, index: usize) -> String {
        let constant = &self.region.constants[index];
        let name = self.region.values.get(constant.value).map_or("?", |value| value.name.as_str());
        format!("constant {} (`{name}`)", constant.id)
    }

    fn broken(&self, cause: String) -> Diagnostic {
        let message = format!("{}: region {}: {cause}", self.backend, self.region.symbol);
        Diagnostic::new(Code::BadClaim, message)
            .hint("The backend's constant_updater must claim each constant of its region exactly once")
    }

    /// The error for packed bytes that contradict their claim.
    fn wrong_bytes(&self, cause: String) -> Diagnostic {
        self.broken(cause).hint("Report this to the backend's maker")
    }

    fn keep(&mut self, result: Result<()>) -> std::result::Result<(), Error> {
        if let Err(failure) = result {
            self.failure.get_or_insert(failure);
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(Error::new(failure.message.clone())),
        }
    }
}

impl ClaimSink for Recorder<'_> {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> std::result::Result<(), Error> {
        let result = if self.failure.is_some() { Ok(()) } else { self.take(id, claim) };
        self.keep(result)
    }

    fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), Error> {
        let result = if self.failure.is_some() { Ok(()) } else { self.put(bytes) };
        self.keep(result)
    }
}

/// The number of bytes of a packed claim, if it is one that can be stored.
fn check(packed: &Packed) -> std::result::Result<u64, String> {
    let Packed { layout, alignment, dtype, shape, cpu_features, parts, .. } = packed;
    if layout.is_empty() {
        return Err("its packed layout has no name".into());
    }
    if layout.len() > LONGEST_LAYOUT || layout.contains(char::is_control) {
        let name: String = layout.chars().filter(|char| !char.is_control()).take(LONGEST_LAYOUT).collect();
        return Err(format!("its packed layout '{name}' is not a name of one line and up to {LONGEST_LAYOUT} bytes"));
    }
    if shape.len() > MOST_DIMENSIONS {
        return Err(format!("packed in {} dimensions, and at most {MOST_DIMENSIONS} are stored", shape.len()));
    }
    if *alignment > MAX_ALIGNMENT || !(*alignment == 0 || alignment.is_power_of_two()) {
        return Err(format!("an alignment of {alignment} is not a power of two up to {MAX_ALIGNMENT}"));
    }
    if let Some(name) = cpu_features.iter().find(|name| !cpu::FEATURES.contains(&name.as_str())) {
        return Err(format!("there is no processor feature '{name}'"));
    }
    let elements = shape.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
    let bytes = elements
        .and_then(|elements| Some(dtype.bytes_for(usize::try_from(elements).ok()?)? as u64))
        .ok_or_else(|| format!("packed as {dtype}{shape:?} it has more bytes than can be counted"))?;
    let of_parts = part_offsets(parts).map(|(_, bytes)| bytes as u64);
    if !parts.is_empty() && of_parts != Some(bytes) {
        let found = of_parts.map_or("more bytes than can be counted".to_owned(), |bytes| format!("{bytes} bytes"));
        return Err(format!("packed as {dtype}{shape:?} it has {bytes} bytes, and its parts have {found}"));
    }
    Ok(bytes)
}

fn kind(claim: &Claim) -> ClaimKind {
    match claim {
        Claim::Host => ClaimKind::Host,
        Claim::Packed(_) => ClaimKind::Packed,
        Claim::Embedded => ClaimKind::Embedded,
        Claim::Unused => ClaimKind::Unused,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use byoc_plugin_api::{Claims, Constant, DType, SCHEMA, Value};

    use super::*;

    fn region(symbol: &str, constants: usize) -> Region {
        let value = |name: String| Value { name, dtype: DType::F32, shape: vec![1.into()] };
        let constant = |value| Constant { id: ConstantId(value as u64), value, inline: None, shared: false };
        Region {
            schema: SCHEMA.into(),
            symbol: symbol.into(),
            values: (0..constants).map(|index| value(format!("w{index}"))).collect(),
            constants: (0..constants).map(constant).collect(),
            ..Region::default()
        }
    }

    /// A constant_updater for a region of two constants, `w0` and `w1`.
    type Updater = fn(&mut Claims<'_>) -> std::result::Result<(), byoc_plugin_api::Error>;

    fn record(updater: Updater) -> Result<usize> {
        let mut spool = Spool::new(&crate::atomic_file::Scratch::temporary()).expect("spool");
        let region = region("byoc_main_acme_0", 2);
        let mut recorder = Recorder::new(&region, "acme", &mut spool);
        let outcome = updater(&mut Claims::new(&mut recorder));
        let outcome = outcome.map_err(|error| Diagnostic::new(Code::BackendFailed, error.message));
        recorder.finish(outcome).map(|claims| claims.len())
    }

    fn tile(shape: &[usize]) -> Packed {
        Packed::new("tile", DType::F32, shape)
    }
    const A: ConstantId = ConstantId(0);
    const B: ConstantId = ConstantId(1);

    /// Invalid claims, with their errors.
    const BAD: [(Updater, &str); 17] = [
        (|_| Ok(()), "it does not claim constant 0 (`w0`) and 1 more"),
        (|c| c.host(A), "it does not claim constant 1 (`w1`)"),
        (|c| c.host(ConstantId(9)), "it claims constant 9, which the region does not have"),
        (|c| c.host(A).and(c.embedded(A)), "it claims constant 0 (`w0`) twice, as Host and as Embedded"),
        (
            |c| {
                let _ = c.host(ConstantId(9));
                let _ = c.host(A);
                c.host(B).or(Ok(()))
            },
            "it claims constant 9, which the region does not have",
        ),
        (
            |c| {
                c.packed(A, tile(&[2]))?.write_all(&[0; 7])?;
                c.host(B)
            },
            "it writes 7 of the 8 bytes of packed constant 0 (`w0`)",
        ),
        (
            |c| {
                c.host(B)?;
                c.packed(A, tile(&[2])).map(drop)
            },
            "it writes 0 of the 8 bytes of packed constant 0 (`w0`)",
        ),
        (
            |c| Ok(c.packed(A, tile(&[2]))?.write_all(&[0; 9])?),
            "it writes more than the 8 bytes of packed constant 0 (`w0`)",
        ),
        (
            |c| c.packed(A, Packed::new("", DType::F32, &[2])).map(drop),
            "constant 0 (`w0`): its packed layout has no name",
        ),
        (
            |c| c.packed(A, Packed::new("a\n\u{1b}[31mb", DType::F32, &[2])).map(drop),
            "constant 0 (`w0`): its packed layout 'a[31mb' is not a name of one line and up to 256 bytes",
        ),
        (
            |c| c.packed(A, tile(&[1; 65])).map(drop),
            "constant 0 (`w0`): packed in 65 dimensions, and at most 64 are stored",
        ),
        (
            |c| c.packed(A, tile(&[1 << 40, 1 << 20, 8])).map(drop),
            "constant 0 (`w0`): packed as f32[1099511627776, 1048576, 8] it has more bytes than can be counted",
        ),
        (
            |c| c.packed(A, tile(&[2]).aligned(48)).map(drop),
            "constant 0 (`w0`): an alignment of 48 is not a power of two up to 4096",
        ),
        (
            |c| c.packed(A, tile(&[2]).aligned(8192)).map(drop),
            "constant 0 (`w0`): an alignment of 8192 is not a power of two up to 4096",
        ),
        (
            |c| c.packed(A, tile(&[2]).for_features(&["avx2", "avx9000"])).map(drop),
            "constant 0 (`w0`): there is no processor feature 'avx9000'",
        ),
        (
            |c| c.packed(A, tile(&[usize::MAX, 2])).map(drop),
            "constant 0 (`w0`): packed as f32[18446744073709551615, 2] it has more bytes than can be counted",
        ),
        (
            |c| c.packed(A, tile(&[usize::MAX])).map(drop),
            "constant 0 (`w0`): packed as f32[18446744073709551615] it has more bytes than can be counted",
        ),
    ];

    #[test]
    fn each_constant_has_exactly_one_claim() {
        let good: [Updater; 2] = [
            |c| c.unused(B).and(c.embedded(A)),
            |c| {
                c.packed(A, tile(&[1000, 2]))?.write_all(&[1; 8000])?;
                c.packed(B, tile(&[0, 2]))?;
                Ok(())
            },
        ];
        for updater in good {
            assert_eq!(record(updater), Ok(2));
        }
        for (updater, expected) in BAD {
            let error = record(updater).expect_err(expected);
            assert_eq!(error.code, Code::BadClaim);
            assert_eq!(error.message, format!("acme: region byoc_main_acme_0: {expected}"));
        }
        let error = record(|_| Err(byoc_plugin_api::Error::new("its own reason"))).expect_err("own");
        assert_eq!(error.message, "its own reason");
    }

    #[test]
    fn bytes_need_a_packed_claim_before_them() {
        let mut spool = Spool::new(&crate::atomic_file::Scratch::temporary()).expect("spool");
        let region = region("byoc_main_acme_0", 1);
        let mut recorder = Recorder::new(&region, "acme", &mut spool);
        recorder.claim(ConstantId(0), &Claim::Host).expect("claim");
        recorder.write(b"abc").expect_err("no claim");
        let error = recorder.finish(Ok(())).expect_err("kept");
        assert_eq!(
            error.message,
            "acme: region byoc_main_acme_0: it writes 3 bytes without a packed claim before them"
        );
    }
}
