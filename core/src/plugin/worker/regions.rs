//! The worker's end of regions that run in it. The host says where in memory, which both sides map, their tensors lie.

use std::collections::BTreeMap;

use byoc_plugin_api::host::Library;
use byoc_plugin_api::{
    BoundConstant, BoundConstants, DType, Error, Executable, TensorView, TensorViewMut, contiguous_strides,
};
use bytes::Bytes;

use super::protocol::{Placed, SharedRegion, SharedRun, SharedTensor};
use super::shared::{bytes, constants, map};
use crate::map::SharedMemory;
use crate::plugin::Bound;

/// The regions that are loaded, by what the host calls them.
#[derive(Default)]
pub(super) struct Regions(BTreeMap<u64, Loaded>);

struct Loaded {
    bound: Bound<dyn Executable, Borrowed>,
    /// The memory of the last run.
    memory: Option<(u64, SharedMemory)>,
}

/// What an executable borrows.
struct Borrowed {
    code: Bytes,
    files: Vec<Bytes>,
    tensors: Vec<SharedTensor>,
    layouts: BTreeMap<u64, String>,
}

impl Borrowed {
    fn constants(&self) -> Result<BoundConstants<'_>, Error> {
        let layout = |id| self.layouts.get(&id).map(String::as_str);
        let views = constants(&self.tensors, &self.files)?;
        let bound = views.iter().map(|(id, view)| BoundConstant { id, layout: layout(id.0), view: *view });
        Ok(BoundConstants::new(bound.collect()))
    }
}

impl Regions {
    pub(super) fn load(&mut self, region: SharedRegion, environment: &[u8], plugin: &Library) -> Result<(), Error> {
        let SharedRegion { region, backend, code, constants, layouts } = region;
        let memory = Borrowed {
            code: bytes(&code)?,
            files: map(&constants.files)?,
            tensors: constants.tensors,
            layouts: layouts.into_iter().map(|(id, layout)| (id.0, layout)).collect(),
        };
        let bound = Bound::new(memory, |memory| plugin.load(backend, &memory.code, &memory.constants()?, environment))?;
        self.0.insert(region, Loaded { bound, memory: None });
        Ok(())
    }

    pub(super) fn run(&mut self, run: SharedRun) -> Result<(), Error> {
        let SharedRun { region, memory, generation, inputs, outputs } = run;
        let Loaded { bound, memory: last } = self.of(region)?;
        if last.as_ref().is_none_or(|(of, _)| *of != generation) {
            let opened = SharedMemory::open(&memory).map_err(|error| Error::new(error.message))?;
            *last = Some((generation, opened));
        }
        let (_, memory) = last.as_ref().ok_or_else(outside)?;
        let strides = |placed: &[Placed]| placed.iter().map(|it| contiguous_strides(&it.shape)).collect::<Vec<_>>();
        let (in_strides, out_strides) = (strides(&inputs), strides(&outputs));
        let tensors = inputs.iter().zip(&in_strides).map(|(placed, strides)| {
            let data = placed.address(memory)?;
            // SAFETY: so many bytes are mapped there, and the host leaves them alone until the run has ended.
            Ok(unsafe { TensorView::from_raw(data, placed.dtype, &placed.shape, strides) })
        });
        let tensors = tensors.collect::<Result<Vec<_>, Error>>()?;
        let results = outputs.iter().zip(&out_strides).map(|(placed, strides)| {
            let data = placed.address(memory)?;
            // SAFETY: as above; the places of a run do not overlap.
            Ok(unsafe { TensorViewMut::from_raw(data, placed.dtype, &placed.shape, strides) })
        });
        let mut results = results.collect::<Result<Vec<_>, Error>>()?;
        bound.executable().run(&tensors, &mut results)
    }

    pub(super) fn time_steps(&mut self, region: u64, on: bool) -> Result<(), Error> {
        self.of(region)?.bound.executable().time_steps(on)
    }

    /// The steps of a region's last run, as JSON.
    pub(super) fn steps(&mut self, region: u64) -> Result<Vec<u8>, Error> {
        Ok(serde_json::to_vec(&self.of(region)?.bound.executable().steps()?)?)
    }

    pub(super) fn free(&mut self, region: u64) {
        self.0.remove(&region);
    }

    fn of(&mut self, region: u64) -> Result<&mut Loaded, Error> {
        self.0.get_mut(&region).ok_or_else(|| Error::new(format!("region {region} is not in this worker")))
    }
}

fn outside() -> Error {
    Error::new("a tensor lies outside of the memory of its run")
}

impl Placed {
    /// Where it lies.
    fn address(&self, memory: &SharedMemory) -> Result<*mut u8, Error> {
        let bytes = bytes_of(self.dtype, &self.shape).ok_or_else(outside)?;
        memory.address(self.offset, bytes).ok_or_else(outside)
    }
}

fn bytes_of(dtype: DType, shape: &[i64]) -> Option<usize> {
    let shape: Option<Vec<usize>> = shape.iter().map(|&size| usize::try_from(size).ok()).collect();
    dtype.bytes_of(&shape?)
}
