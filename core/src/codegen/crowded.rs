//! Finds constants that would be stored in more than one form, so that the backends which pack them can be asked again.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use byoc_plugin_api::Claim;

use super::GeneratedRegion;
use crate::constants::{BaseId, digest};
use crate::diagnostic::Result;
use crate::ir::Model;
use crate::spool::{Spool, SpoolRange};

/// The forms in which one constant is to be stored.
#[derive(Default)]
struct Forms {
    /// Whether anybody reads the original.
    original: bool,
    /// The packed forms: element type's name and bytes.
    packed: Vec<(byoc_plugin_api::DType, SpoolRange)>,
}

/// Sets [`byoc_plugin_api::Constant::shared`] on every constant that a region packs while another form of it is needed
/// as well, and returns the regions in which it was not set before.
pub(super) fn mark(model: &Model, regions: &mut [GeneratedRegion], spool: &Spool) -> Result<BTreeSet<usize>> {
    let crowded = crowded(model, regions, spool)?;
    let mut marked = BTreeSet::new();
    for (index, region) in regions.iter_mut().enumerate() {
        let claims = region.plan.region.constants.iter_mut().zip(&region.plan.constants).zip(&region.claims);
        for ((constant, found), recorded) in claims {
            let packed = matches!(recorded.claim, Claim::Packed(_));
            if packed && !constant.shared && crowded.contains(&found.base) {
                constant.shared = true;
                marked.insert(index);
            }
        }
    }
    Ok(marked)
}

fn crowded(model: &Model, regions: &[GeneratedRegion], spool: &Spool) -> Result<HashSet<BaseId>> {
    let mut forms: BTreeMap<BaseId, Forms> = BTreeMap::new();
    for region in regions {
        for (constant, recorded) in region.plan.constants.iter().zip(&region.claims) {
            let forms = forms.entry(constant.base).or_default();
            match (&recorded.claim, recorded.packed) {
                (Claim::Host, _) => forms.original = true,
                (Claim::Packed(packed), Some(range)) => forms.packed.push((packed.dtype, range)),
                _ => {}
            }
        }
    }
    for graph in &model.entries {
        for constant in graph.outputs.iter().filter_map(|&output| graph.value(output).constant.as_ref()) {
            forms.entry(constant.base).or_default().original = true;
        }
    }
    let mut crowded = HashSet::new();
    for (base, forms) in forms {
        if forms.count(spool)? > 1 {
            crowded.insert(base);
        }
    }
    Ok(crowded)
}

impl Forms {
    fn count(&self, spool: &Spool) -> Result<usize> {
        // Bytes are hashed only where there is something to compare them with.
        let packed = match self.packed.as_slice() {
            [] | [_] => self.packed.len(),
            several => {
                let digests = several.iter().map(|&(dtype, range)| Ok((dtype, digest(&spool.bytes(range)?))));
                digests.collect::<Result<HashSet<_>>>()?.len()
            }
        };
        Ok(usize::from(self.original) + packed)
    }
}
