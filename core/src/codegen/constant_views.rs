//! Constants of a region as borrowed, strided views for backends, never copied.

use byoc_plugin_api::{ConstantId, Constants, TensorView};

use crate::constants::{Base, ConstantTable};
use crate::partition::RegionPlan;

/// Shapes and strides that the views borrow.
pub(crate) struct ConstantViews<'a> {
    entries: Vec<Entry<'a>>,
    with_data: bool,
}

struct Entry<'a> {
    id: ConstantId,
    shape: Vec<i64>,
    strides: Vec<i64>,
    base: &'a Base,
    offset: usize,
}

impl<'a> ConstantViews<'a> {
    /// The constants of `plan`, with their bytes if `with_data`.
    pub(crate) fn new(table: &'a ConstantTable, plan: &RegionPlan, with_data: bool) -> Self {
        let entries = plan.constants().map(|(constant, found)| Entry {
            id: constant.id,
            shape: found.view.shape.iter().map(|&size| size as i64).collect(),
            strides: found.view.strides.clone(),
            base: table.get(found.base),
            offset: found.view.first_byte(table.get(found.base).dtype),
        });
        ConstantViews { entries: entries.collect(), with_data }
    }

    /// The views.
    pub(crate) fn constants(&self) -> Constants<'_> {
        Constants::new(self.iter().collect())
    }

    /// The views, each with its id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConstantId, TensorView<'_>)> {
        self.entries.iter().map(|entry| (entry.id, entry.view(self.with_data)))
    }
}

impl Entry<'_> {
    fn view(&self, with_data: bool) -> TensorView<'_> {
        let bytes = &self.base.bytes[self.offset..];
        let data = if with_data { bytes.as_ptr() } else { std::ptr::null() };
        // SAFETY: views in the constant table stay within their base, whose bytes live as long as the table.
        unsafe { TensorView::from_raw(data, self.base.dtype, &self.shape, &self.strides) }
    }
}
