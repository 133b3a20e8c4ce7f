//! Decides which bytes the file stores: for every claim and every constant output, the one home of what it reads.

use std::collections::HashMap;

use byoc_plugin_api::{Claim, DType, Packed};
use bytes::Bytes;

use crate::artifact::manifest::{ConstantUse, ConstantView};
use crate::codegen::{Generated, GeneratedRegion, RecordedClaim};
use crate::constants::{BaseId, ConstantRef, View, digest};
use crate::diagnostic::{Code, Diagnostic, Result};

/// A constant of which the file holds the bytes.
pub(super) struct Home {
    /// The original, unless the bytes are a packed form only.
    pub(super) base: Option<BaseId>,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Bytes,
    /// BLAKE3 of the bytes.
    pub(super) digest: [u8; 32],
    /// The layout of packed bytes: that of the first region which packed them so.
    pub(super) layout: Option<String>,
    pub(super) alignment: u64,
}

/// Every home, and what each reader reads.
#[derive(Default)]
pub(super) struct Homes {
    pub(super) homes: Vec<Home>,
    /// For each region and each of its constants: the bytes, where the claim has any.
    pub(super) regions: Vec<Vec<Option<ConstantUse>>>,
    /// For each entry: (position among the outputs, the constant that the output is).
    pub(super) outputs: Vec<Vec<(usize, ConstantUse)>>,
    by_base: HashMap<BaseId, usize>,
    /// By element type and hash. The layout tag is no part of it: it says how a region reads the bytes,
    /// and the region's binding keeps it. So a packed form that equals an original, or that of another layout, is
    /// stored once as well.
    by_content: HashMap<(DType, [u8; 32]), usize>,
}

impl Homes {
    /// Finds the homes: those of originals in the order in which regions and then outputs first read them, then those
    /// of packed bytes.
    pub(super) fn find(generated: &Generated) -> Result<Homes> {
        let mut homes = Homes::default();
        for region in &generated.regions {
            let pairs = region.plan.constants.iter().zip(&region.claims);
            let uses = pairs.map(|(constant, recorded)| match recorded.claim {
                Claim::Host => Some(homes.original(generated, constant)),
                _ => None,
            });
            let uses = uses.collect();
            homes.regions.push(uses);
        }
        for graph in &generated.model.entries {
            let constants = graph.outputs.iter().map(|&id| graph.value(id).constant.as_ref());
            let constants = constants.enumerate().filter_map(|(index, constant)| Some((index, constant?)));
            let uses = constants.map(|(index, constant)| (index, homes.original(generated, constant))).collect();
            homes.outputs.push(uses);
        }
        for (index, region) in generated.regions.iter().enumerate() {
            for (constant, recorded) in region.claims.iter().enumerate() {
                if let Claim::Packed(packed) = &recorded.claim {
                    let bytes = packed_bytes(generated, region, recorded, packed)?;
                    homes.regions[index][constant] = Some(homes.packed(packed, bytes));
                }
            }
        }
        Ok(homes)
    }

    fn original(&mut self, generated: &Generated, constant: &ConstantRef) -> ConstantUse {
        let base = generated.model.constants.get(constant.base);
        let home = *self.by_base.entry(constant.base).or_insert_with(|| {
            self.homes.push(Home {
                base: Some(constant.base),
                dtype: base.dtype,
                shape: base.shape.clone(),
                bytes: base.bytes.clone(),
                digest: base.digest,
                layout: None,
                alignment: 0,
            });
            self.by_content.insert((base.dtype, base.digest), self.homes.len() - 1);
            self.homes.len() - 1
        });
        ConstantUse { constant: home, view: (&constant.view).into() }
    }

    fn packed(&mut self, packed: &Packed, bytes: Bytes) -> ConstantUse {
        let digest = digest(&bytes);
        let home = *self.by_content.entry((packed.dtype, digest)).or_insert_with(|| {
            self.homes.push(Home {
                base: None,
                dtype: packed.dtype,
                shape: packed.shape.clone(),
                bytes,
                digest,
                layout: Some(packed.layout.clone()),
                alignment: 0,
            });
            self.homes.len() - 1
        });
        // Alignments are powers of two, so the largest is a multiple of all.
        self.homes[home].alignment = self.homes[home].alignment.max(packed.alignment);
        ConstantUse { constant: home, view: ConstantView::from(&View::contiguous(&packed.shape)) }
    }

    /// The home of an original, if it has one.
    pub(super) fn of_base(&self, base: BaseId) -> Option<usize> {
        self.by_base.get(&base).copied()
    }
}

fn packed_bytes(
    generated: &Generated,
    region: &GeneratedRegion,
    recorded: &RecordedClaim,
    packed: &Packed,
) -> Result<Bytes> {
    let range = recorded.packed.unwrap_or_default();
    let bytes = generated.spool.bytes(range)?;
    let elements = packed.shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
    if elements.and_then(|elements| elements.checked_mul(packed.dtype.size())) != Some(bytes.len()) {
        let (dtype, shape, symbol) = (packed.dtype, &packed.shape, &region.plan.region.symbol);
        let message = format!("region {symbol}: {} packed bytes are not {dtype}{shape:?}", bytes.len());
        return Err(Diagnostic::new(Code::BadClaim, message));
    }
    Ok(bytes)
}
