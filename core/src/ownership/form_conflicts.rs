//! Finds constants that would be stored in more than one form, so that the backends which pack them can be asked again.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_plugin_api::DType;

use super::storage::{OutsideUse, Storage};
use crate::codegen::{Generated, RecordedClaim};
use crate::constants::BaseId;

/// Type and hash of bytes: constants of several models that have the same are one.
type Content = (DType, [u8; 32]);

/// The forms in which each original is stored, of one model or of several variants.
#[derive(Default)]
pub(crate) struct Forms(HashMap<Content, HashSet<Content>>);

impl Forms {
    /// Those of one model.
    pub(crate) fn of(generated: &Generated, storage: &Storage) -> Forms {
        let mut forms = Forms::default();
        forms.add(generated, storage);
        forms
    }

    /// Adds those of another one.
    pub(crate) fn add(&mut self, generated: &Generated, storage: &Storage) {
        let stored = |index: usize| (storage.constants[index].dtype, storage.constants[index].digest);
        for (_, constant, used) in storage.of_regions(generated) {
            let form = used.map(|used| stored(used.constant));
            self.0.entry(content(generated, constant.source.base)).or_default().extend(form);
        }
        for OutsideUse { used, .. } in storage.outside.iter().flatten() {
            if let Some(base) = storage.constants[used.constant].base {
                self.0.entry(content(generated, base)).or_default().insert(stored(used.constant));
            }
        }
    }

    fn several(&self, content: Content) -> bool {
        self.0.get(&content).is_some_and(|forms| forms.len() > 1)
    }
}

fn content(generated: &Generated, base: BaseId) -> Content {
    let base = generated.model.constants.get(base);
    (base.dtype, base.digest)
}

/// Sets [`byoc_plugin_api::Constant::shared`] on every constant that a region packs while another form of it is stored as
/// well, and returns the regions in which it was not set before. Each round sets further ones, so the loop terminates.
pub(crate) fn mark_shared(generated: &mut Generated, forms: &Forms) -> BTreeSet<usize> {
    let mut again = BTreeSet::new();
    let Generated { model, regions, .. } = generated;
    for (index, region) in regions.iter_mut().enumerate() {
        for (parameter, constant) in region.plan.region.constants.iter_mut().zip(&region.constants) {
            let packed = matches!(constant.claim, RecordedClaim::Packed(_));
            let base = model.constants.get(constant.source.base);
            if packed && !parameter.shared && forms.several((base.dtype, base.digest)) {
                parameter.shared = true;
                again.insert(index);
            }
        }
    }
    again
}
