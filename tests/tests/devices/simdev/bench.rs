//! The plugin with the simulated device, opened as core opens it, and small regions to run on it.

use byoc_plugin_api::host::LoadedBackend;
use byoc_plugin_api::testing::{RegionBuilder, options};
use byoc_plugin_api::{
    Backend, BoundConstant, Constant, ConstantId, DType, DeviceConstant, DeviceConstants, DeviceExecutable,
    DeviceTensor, Domain, Environment, Error, Options, TensorView,
};
use byoc_tests::places;

/// The plugin.
pub(crate) struct Bench {
    backends: Vec<LoadedBackend>,
}

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

/// A region of operators one behind the other on tensors of as many rows as columns: types and ranks are all that code is
/// generated from.
fn region(symbol: &str, inputs: usize, ops: &[&str]) -> RegionBuilder {
    let mut net = RegionBuilder::new("simdev");
    net.region.symbol = symbol.into();
    let mut operands: Vec<_> = (0..inputs).map(|_| net.input("[n,n]")).collect();
    for op in ops {
        operands = vec![net.node(op, &operands, "[n,n]", "")];
    }
    net.with(&operands)
}

/// The larger of 0 and the input.
pub(crate) fn relu() -> RegionBuilder {
    region("relu", 1, &["Relu"])
}

/// The product of two inputs.
pub(crate) fn matmul() -> RegionBuilder {
    region("matmul", 2, &["MatMul"])
}

/// An operator of one operand behind one of two.
pub(crate) fn chain(first: &str, second: &str) -> RegionBuilder {
    region("chain", 2, &[first, second])
}

/// An input plus constant 5.
pub(crate) fn add() -> RegionBuilder {
    let mut net = region("add", 2, &["Add"]);
    let constant = Constant { id: ConstantId(5), value: net.region.inputs.remove(1), inline: None, shared: false };
    net.region.constants.push(constant);
    net
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench { backends: byoc_plugin_api::host::open(&places::plugin("simdev")).expect("it opens").backends }
    }

    fn backend(&self, name: &str) -> &LoadedBackend {
        self.backends.iter().find(|backend| backend.describe().name == name).expect("it is there")
    }

    pub(crate) fn guest(&self) -> &LoadedBackend {
        self.backend("simdev-guest")
    }

    /// All options of a backend, with these settings.
    pub(crate) fn options(&self, backend: &str, settings: &[(&str, &str)]) -> Options {
        options(self.backend(backend), settings)
    }

    pub(crate) fn open(&self, ordinal: u32, settings: &[(&str, &str)]) -> Result<Box<dyn Domain>, Error> {
        self.backend("simdev").runtime().device()?.open_domain(ordinal, &self.options("simdev", settings))
    }

    pub(crate) fn device<'a>(&'a self, domain: &'a mut dyn Domain) -> Device<'a> {
        Device { bench: self, domain }
    }
}

/// An open domain with what makes it handy.
pub(crate) struct Device<'a> {
    bench: &'a Bench,
    pub(crate) domain: &'a mut dyn Domain,
}

impl Device<'_> {
    /// Memory for so many elements.
    pub(crate) fn empty(&mut self, elements: usize) -> u64 {
        self.domain.allocate(elements as u64 * 4).expect("memory")
    }

    pub(crate) fn write(&mut self, address: u64, values: &[f32]) {
        let bytes = bytes(values);
        // SAFETY: the bytes live until they are copied.
        unsafe { self.domain.upload(address, bytes.as_ptr(), bytes.len()).expect("queued") };
        self.domain.synchronize().expect("well");
    }

    pub(crate) fn upload(&mut self, values: &[f32]) -> u64 {
        let address = self.empty(values.len());
        self.write(address, values);
        address
    }

    pub(crate) fn download(&mut self, address: u64, elements: usize) -> Vec<f32> {
        let mut bytes = vec![0; elements * 4];
        // SAFETY: nobody looks at the bytes before they are copied.
        unsafe { self.domain.download(bytes.as_mut_ptr(), address, bytes.len()).expect("queued") };
        self.domain.synchronize().expect("well");
        floats(&bytes)
    }

    pub(crate) fn load(
        &mut self,
        backend: &str,
        region: &RegionBuilder,
        settings: &[(&str, &str)],
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        self.load_bound(backend, region, settings, &DeviceConstants::new(Vec::new()))
    }

    /// Loads a region with constant 5: a view, of that shape and with these strides, of these values.
    pub(crate) fn load_with_constant(
        &mut self,
        backend: &str,
        region: &RegionBuilder,
        values: &'static [f32],
        shape: &'static [i64],
        strides: &'static [i64],
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        let address = self.upload(values);
        // SAFETY: the test gives a view within the values.
        let view = unsafe { TensorView::from_raw(values.as_ptr().cast(), DType::F32, shape, strides) };
        let bound = BoundConstant { id: ConstantId(5), layout: None, view };
        let constants = DeviceConstants::new(vec![DeviceConstant { bound, address }]);
        self.load_bound(backend, region, &[], &constants)
    }

    fn load_bound(
        &mut self,
        backend: &str,
        region: &RegionBuilder,
        settings: &[(&str, &str)],
        constants: &DeviceConstants<'static>,
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        let options = self.bench.options(backend, settings);
        let backend = self.bench.backend(backend);
        let code = region.code(backend, &options)?;
        // Tests are short, and their regions live as long as they like.
        let code: &'static [u8] = code.leak();
        backend.runtime().device()?.load(code, constants, &Environment { threads: 1, options }, &self.domain.handles())
    }

    /// Plans and prepares; the address of the scratch memory.
    pub(crate) fn ready(
        &mut self,
        region: &mut dyn DeviceExecutable,
        inputs: &[(u64, &[i64])],
        outputs: &[(u64, &[i64])],
    ) -> Result<u64, Error> {
        fn of<'a>(list: &[(u64, &'a [i64])], planned: bool) -> Vec<DeviceTensor<'a>> {
            let tensor = |&(address, shape): &(u64, &'a [i64])| DeviceTensor {
                address: if planned { address } else { 0 },
                dtype: DType::F32,
                shape,
            };
            list.iter().map(tensor).collect()
        }
        let plan = region.plan(&of(inputs, false), &of(outputs, false))?;
        let scratch = if plan.scratch > 0 { self.domain.allocate(plan.scratch)? } else { 0 };
        region.prepare(&of(inputs, true), &of(outputs, true), scratch)?;
        Ok(scratch)
    }
}
