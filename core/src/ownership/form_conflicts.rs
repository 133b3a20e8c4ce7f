//! Finds constants that would be stored in more than one form, so that the backends which pack them can be asked again.

use std::collections::{BTreeMap, BTreeSet};

use super::storage::{OutsideUse, Storage};
use crate::codegen::{Generated, RecordedClaim};
use crate::constants::BaseId;

/// Sets [`byoc_plugin_api::Constant::shared`] on every constant that a region packs while another form of it is stored as
/// well, and returns the regions in which it was not set before. Each round sets further ones, so the loop terminates.
pub(crate) fn mark_shared(generated: &mut Generated, storage: &Storage) -> BTreeSet<usize> {
    let mut forms: BTreeMap<BaseId, BTreeSet<usize>> = BTreeMap::new();
    for (_, constant, used) in storage.of_regions(generated) {
        forms.entry(constant.source.base).or_default().extend(used.map(|used| used.constant));
    }
    for OutsideUse { used, .. } in storage.outside.iter().flatten() {
        if let Some(base) = storage.constants[used.constant].base {
            forms.entry(base).or_default().insert(used.constant);
        }
    }
    let mut again = BTreeSet::new();
    for (index, region) in generated.regions.iter_mut().enumerate() {
        for (parameter, constant) in region.plan.region.constants.iter_mut().zip(&region.constants) {
            let packed = matches!(constant.claim, RecordedClaim::Packed(_));
            if packed && !parameter.shared && forms[&constant.source.base].len() > 1 {
                parameter.shared = true;
                again.insert(index);
            }
        }
    }
    again
}
