//! The plugin with the simulated device, opened as core opens it, and small regions to run on it.

use byoc_plugin_api::host::LoadedBackend;
use byoc_plugin_api::{
    Backend, BoundConstant, Constant, ConstantId, Constants, DType, DeviceConstant, DeviceConstants, DeviceExecutable,
    DeviceTensor, Dim, Domain, Environment, Error, Node, Options, Region, SCHEMA, TensorView, Value,
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

/// Types and ranks are all that code is generated from.
fn value(rank: usize) -> Value {
    Value { name: "v".into(), dtype: DType::F32, shape: vec![Dim::Symbolic("n".into()); rank] }
}

fn node(op: &str, inputs: &[usize], output: usize) -> Node {
    Node {
        name: op.to_lowercase(),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(output)],
        attributes: Default::default(),
    }
}

fn region(symbol: &str, values: usize, inputs: &[usize], nodes: Vec<Node>) -> Region {
    Region {
        schema: SCHEMA.into(),
        symbol: symbol.into(),
        values: vec![value(2); values],
        inputs: inputs.to_vec(),
        outputs: vec![values - 1],
        nodes,
        ..Region::default()
    }
}

/// The larger of 0 and the input.
pub(crate) fn relu() -> Region {
    region("relu", 2, &[0], vec![node("Relu", &[0], 1)])
}

/// The product of two inputs.
pub(crate) fn matmul() -> Region {
    region("matmul", 3, &[0, 1], vec![node("MatMul", &[0, 1], 2)])
}

/// An operator of one operand behind one of two.
pub(crate) fn chain(first: &str, second: &str) -> Region {
    region("chain", 4, &[0, 1], vec![node(first, &[0, 1], 2), node(second, &[2], 3)])
}

/// An input plus constant 5.
pub(crate) fn add() -> Region {
    let constant = Constant { id: ConstantId(5), value: 1, inline: None, shared: false };
    Region { constants: vec![constant], ..region("add", 3, &[0], vec![node("Add", &[0, 1], 2)]) }
}

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench { backends: byoc_plugin_api::host::open(&places::plugin("isle")).expect("it opens").backends }
    }

    fn backend(&self, name: &str) -> &LoadedBackend {
        self.backends.iter().find(|backend| backend.describe().name == name).expect("it is there")
    }

    pub(crate) fn ferry(&self) -> &LoadedBackend {
        self.backend("ferry")
    }

    /// All options of a backend, with these settings.
    pub(crate) fn options(&self, backend: &str, settings: &[(&str, &str)]) -> Options {
        let description = self.backend(backend).describe();
        let specs = [description.options, description.run_options].concat();
        Options::resolve(&specs, settings.iter().copied()).expect("there are such options")
    }

    pub(crate) fn open(&self, ordinal: u32, settings: &[(&str, &str)]) -> Result<Box<dyn Domain>, Error> {
        self.backend("isle").open_domain(ordinal, &self.options("isle", settings))
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
        region: &Region,
        settings: &[(&str, &str)],
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        self.load_bound(backend, region, settings, &DeviceConstants::new(Vec::new()))
    }

    /// Loads a region with constant 5: a view, of that shape and with these strides, of these values.
    pub(crate) fn load_with_constant(
        &mut self,
        backend: &str,
        region: &Region,
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
        region: &Region,
        settings: &[(&str, &str)],
        constants: &DeviceConstants<'static>,
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        let options = self.bench.options(backend, settings);
        let backend = self.bench.backend(backend);
        let mut code = Vec::new();
        backend.codegen(region, &Constants::new(Vec::new()), &options, &mut code)?;
        // Tests are short, and their regions live as long as they like.
        let code: &'static [u8] = code.leak();
        backend.load_on(code, constants, &Environment { threads: 1, options }, &self.domain.handles())
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
