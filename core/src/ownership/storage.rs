//! Decides what is stored: maps every claim and every constant output to one stored constant.

use std::collections::HashMap;

use byoc_plugin_api::DType;
use bytes::Bytes;

use crate::artifact::manifest::ConstantUse;
use crate::codegen::{Generated, GeneratedRegion, PackedConstant, RecordedClaim, RegionConstant};
use crate::constants::{BaseId, ConstantRef, View};
use crate::diagnostic::Result;
use crate::ir::ValueId;

/// A constant of which the file holds the bytes.
pub(super) struct StoredConstant {
    /// The original, if the bytes are not only a packed form.
    pub(super) base: Option<BaseId>,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Bytes,
    /// BLAKE3 of the bytes.
    pub(super) digest: [u8; 32],
    /// The layout of packed bytes: that of the first region that packed them.
    pub(super) layout: Option<String>,
    pub(super) alignment: u64,
}

/// A constant that no region reads.
pub(super) struct OutsideUse {
    /// The value of the graph that it is.
    pub(super) value: ValueId,
    pub(super) used: ConstantUse,
    /// `<graph>/<output>`, or `<entry>/<node>` for control flow.
    pub(super) reader: String,
}

/// Every stored constant, and what each reader reads.
#[derive(Default)]
pub(crate) struct Storage {
    pub(super) constants: Vec<StoredConstant>,
    /// For each region and each of its constants: the bytes, where the claim has any. See [`Storage::of_region`].
    regions: Vec<Vec<Option<ConstantUse>>>,
    /// For each graph the constants that are read outside of regions: outputs, and what control flow is given.
    pub(super) outside: Vec<Vec<OutsideUse>>,
    by_base: HashMap<BaseId, usize>,
    /// By element type and hash. The layout tag is not part of it: it says how a region reads the bytes,
    /// and the region's binding keeps it. So a packed form that equals an original, or that of another layout, is
    /// stored once as well.
    by_content: HashMap<(DType, [u8; 32]), usize>,
}

impl Storage {
    /// Finds what is stored: originals in the order in which regions and then outputs and control flow first read them, then packed
    /// bytes.
    pub(crate) fn find(generated: &Generated) -> Result<Storage> {
        let mut storage = Storage::default();
        for region in &generated.regions {
            let uses = region.constants.iter().map(|constant| match constant.claim {
                RecordedClaim::Host => Some(storage.original(generated, &constant.source)),
                _ => None,
            });
            let uses = uses.collect();
            storage.regions.push(uses);
        }
        for graph in &generated.model.entries {
            let outputs = graph.outputs.iter().map(|&id| (id, format!("{}/{}", graph.entry(), graph.value(id).name)));
            let control = graph.nodes.iter().filter(|node| graph.is_run_by_core(node));
            let control = control.flat_map(|node| {
                let reader = format!("{}/{}", graph.entry(), node.name);
                node.inputs.iter().flatten().map(move |&id| (id, reader.clone()))
            });
            let constants = outputs.chain(control);
            let constants = constants.filter_map(|(id, reader)| Some((id, reader, graph.value(id).constant.as_ref()?)));
            let uses = constants.map(|(value, reader, constant)| OutsideUse {
                value,
                used: storage.original(generated, constant),
                reader,
            });
            let uses = uses.collect();
            storage.outside.push(uses);
        }
        for (index, region) in generated.regions.iter().enumerate() {
            for (position, constant) in region.constants.iter().enumerate() {
                if let Some(packed) = constant.claim.packed() {
                    let bytes = generated.spool.bytes(packed.bytes)?;
                    storage.regions[index][position] = Some(storage.packed(packed, bytes));
                }
            }
        }
        Ok(storage)
    }

    /// The constants of the region of that index, each with the bytes that it reads, if it reads any.
    pub(super) fn of_region<'a>(
        &'a self,
        index: usize,
        region: &'a GeneratedRegion,
    ) -> impl Iterator<Item = (&'a RegionConstant, Option<&'a ConstantUse>)> {
        region.constants.iter().zip(self.regions[index].iter().map(Option::as_ref))
    }

    /// As [`Storage::of_region`], of all regions.
    pub(super) fn of_regions<'a>(
        &'a self,
        generated: &'a Generated,
    ) -> impl Iterator<Item = (usize, &'a RegionConstant, Option<&'a ConstantUse>)> {
        let regions = generated.regions.iter().enumerate();
        regions.flat_map(|(index, region)| {
            self.of_region(index, region).map(move |(constant, used)| (index, constant, used))
        })
    }

    fn original(&mut self, generated: &Generated, constant: &ConstantRef) -> ConstantUse {
        let base = generated.model.constants.get(constant.base);
        let index = *self.by_base.entry(constant.base).or_insert_with(|| {
            self.constants.push(StoredConstant {
                base: Some(constant.base),
                dtype: base.dtype,
                shape: base.shape.clone(),
                bytes: base.bytes.clone(),
                digest: base.digest,
                layout: None,
                alignment: 0,
            });
            self.by_content.insert((base.dtype, base.digest), self.constants.len() - 1);
            self.constants.len() - 1
        });
        ConstantUse { constant: index, view: constant.view.clone() }
    }

    fn packed(&mut self, PackedConstant { form, digest, .. }: &PackedConstant, bytes: Bytes) -> ConstantUse {
        let index = *self.by_content.entry((form.dtype, *digest)).or_insert_with(|| {
            self.constants.push(StoredConstant {
                base: None,
                dtype: form.dtype,
                shape: form.shape.clone(),
                bytes,
                digest: *digest,
                layout: Some(form.layout.clone()),
                alignment: 0,
            });
            self.constants.len() - 1
        });
        // Alignments are powers of two, so the largest is a multiple of all.
        let stored = &mut self.constants[index];
        stored.alignment = stored.alignment.max(form.alignment);
        ConstantUse { constant: index, view: View::contiguous(&form.shape) }
    }

    /// The stored constant that an original is, if it is stored.
    pub(super) fn of_base(&self, base: BaseId) -> Option<usize> {
        self.by_base.get(&base).copied()
    }
}
