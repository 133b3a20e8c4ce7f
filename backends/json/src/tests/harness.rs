//! Builds regions, compiles, binds and runs them, and compares the two sets of kernels.

use std::collections::{BTreeMap, HashMap};

use byoc_plugin_api::*;

/// A region under construction. Constants and inputs are pseudo-random.
pub(super) struct Net {
    pub(super) region: Region,
    pub(super) data: Vec<Vec<u8>>,
    seed: u32,
}

/// What core does between `constant_updater` and `load`, in memory.
#[derive(Default)]
pub(super) struct Store {
    pub(super) claims: BTreeMap<ConstantId, (Claim, Vec<f32>)>,
    bytes: Vec<u8>,
    last: Option<ConstantId>,
}

impl ClaimSink for Store {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.settle();
        assert!(self.claims.insert(id, (claim.clone(), Vec::new())).is_none(), "constant {id} is claimed twice");
        self.last = Some(id);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl Store {
    fn settle(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(id) = self.last.filter(|_| !bytes.is_empty()) {
            let floats = bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().expect("four")));
            self.claims.get_mut(&id).expect("claimed").1 = floats.collect();
        }
    }
}

impl Net {
    pub(super) fn new() -> Self {
        let region = Region { schema: SCHEMA.into(), symbol: "byoc_test_json_0".into(), ..Region::default() };
        Net { region, data: vec![], seed: 1 }
    }

    pub(super) fn random(&mut self, len: usize) -> Vec<f32> {
        let mut next = || {
            self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.seed >> 8) as f32 / (1 << 24) as f32 * 2.0 - 1.0
        };
        (0..len).map(|_| next()).collect()
    }

    pub(super) fn value(&mut self, dtype: DType, shape: &[Dim]) -> usize {
        let name = format!("v{}", self.region.values.len());
        self.region.values.push(Value { name, dtype, shape: shape.to_vec() });
        self.region.values.len() - 1
    }

    pub(super) fn input(&mut self, shape: &[usize]) -> usize {
        self.symbolic_input(&dims(shape))
    }

    pub(super) fn symbolic_input(&mut self, shape: &[Dim]) -> usize {
        let value = self.value(DType::F32, shape);
        self.region.inputs.push(value);
        value
    }

    pub(super) fn bytes(&mut self, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> usize {
        let value = self.value(dtype, &dims(shape));
        let inline = (bytes.len() <= INLINE_BYTES).then(|| to_hex(&bytes));
        // Ids that are no indices: nothing may take them for any.
        let id = ConstantId(1000 + 7 * self.data.len() as u64);
        self.region.constants.push(Constant { id, value, inline, shared: false });
        self.data.push(bytes);
        value
    }

    pub(super) fn floats(&mut self, shape: &[usize], values: &[f32]) -> usize {
        self.bytes(DType::F32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub(super) fn number(&mut self, value: f32) -> usize {
        self.floats(&[], &[value])
    }

    pub(super) fn ints(&mut self, values: &[i64]) -> usize {
        self.bytes(DType::I64, &[values.len()], values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// A random constant.
    pub(super) fn weight(&mut self, shape: &[usize]) -> usize {
        let values = self.random(shape.iter().product());
        self.floats(shape, &values)
    }

    /// A random constant between 0.5 and 1.5.
    pub(super) fn positive(&mut self, shape: &[usize]) -> usize {
        let values: Vec<f32> = self.random(shape.iter().product()).iter().map(|value| 1.0 + value / 2.0).collect();
        self.floats(shape, &values)
    }

    /// A node with one f32 output.
    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[usize],
        out: &[usize],
        attributes: &[(&str, Attribute)],
    ) -> usize {
        self.symbolic_node(op, inputs, &dims(out), attributes)
    }

    pub(super) fn symbolic_node(
        &mut self,
        op: &str,
        inputs: &[usize],
        out: &[Dim],
        attributes: &[(&str, Attribute)],
    ) -> usize {
        let output = self.value(DType::F32, out);
        self.region.nodes.push(Node {
            name: format!("{op}_{}", self.region.nodes.len()),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().map(|&value| Some(value)).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        });
        output
    }

    /// A convolution with weights and a bias, with `pad` on every side.
    pub(super) fn conv(&mut self, x: usize, out: [usize; 4], kernel: usize, stride: i64, group: usize) -> usize {
        let channels = self.region.values[x].shape[1].fixed().expect("channels");
        let weights = self.weight(&[out[1], channels / group, kernel, kernel]);
        let bias = self.weight(&[out[1]]);
        let pad = (kernel / 2) as i64;
        let attributes = [
            ("pads", Attribute::Ints(vec![pad; 4])),
            ("strides", Attribute::Ints(vec![stride; 2])),
            ("group", Attribute::Int(group as i64)),
        ];
        self.node("Conv", &[x, weights, bias], &out, &attributes)
    }

    pub(super) fn norm(&mut self, x: usize) -> usize {
        let shape = self.region.values[x].fixed_shape().expect("fixed");
        let vector = [shape[1]];
        let inputs = [x, self.positive(&vector), self.weight(&vector), self.weight(&vector), self.positive(&vector)];
        self.node("BatchNormalization", &inputs, &shape, &[])
    }

    pub(super) fn output(&mut self, value: usize) {
        self.region.outputs.push(value);
    }

    /// Compiles with the given options.
    pub(super) fn compile(&self, settings: &[(&str, &str)]) -> Compiled {
        let backend = json();
        let options = Options::resolve(&backend.describe().options, settings.iter().copied()).expect("options");
        for node in &self.region.nodes {
            let mut candidate = self.region.clone();
            candidate.nodes = vec![node.clone()];
            backend.check(&candidate, &options).expect("accepted");
        }
        let shapes = self.shapes();
        let views = self.views(&shapes);
        let constants = Constants::new(views);
        let (mut code, mut again) = (Vec::new(), Vec::new());
        backend.codegen(&self.region, &constants, &options, &mut code).expect("codegen");
        backend.codegen(&self.region, &constants, &options, &mut again).expect("codegen");
        assert_eq!(code, again, "the same region gives the same bytes");
        let mut store = Store::default();
        let mut claims = Claims::new(&mut store);
        backend.constant_updater(&self.region, &constants, &code, &options, &mut claims).expect("claims");
        store.settle();
        assert_eq!(store.claims.len(), self.region.constants.len());
        Compiled { code, store, options }
    }

    fn shapes(&self) -> Vec<(Vec<i64>, Vec<i64>)> {
        let shape = |constant: &Constant| {
            let shape = self.region.values[constant.value].fixed_shape().expect("fixed");
            let shape: Vec<i64> = shape.into_iter().map(|size| size as i64).collect();
            let strides = contiguous_strides(&shape);
            (shape, strides)
        };
        self.region.constants.iter().map(shape).collect()
    }

    fn views<'a>(&'a self, shapes: &'a [(Vec<i64>, Vec<i64>)]) -> Vec<(ConstantId, TensorView<'a>)> {
        let constants = self.region.constants.iter().zip(shapes).zip(&self.data);
        constants
            .map(|((constant, (shape, strides)), bytes)| {
                let dtype = self.region.values[constant.value].dtype;
                // SAFETY: the bytes hold the contiguous tensor and live as long as the view.
                (constant.id, unsafe { TensorView::from_raw(bytes.as_ptr(), dtype, shape, strides) })
            })
            .collect()
    }

    /// Runs on random inputs; symbols have the given sizes.
    pub(super) fn run(&self, settings: &[(&str, &str)], threads: usize, symbols: &[(&str, usize)]) -> Vec<Vec<f32>> {
        let compiled = self.compile(settings);
        compiled.with_loaded(self, threads, |executable| {
            let inputs = self.inputs(symbols);
            self.call(executable, &inputs, symbols).expect("run")
        })
    }

    /// Random inputs of the size that the symbols give.
    pub(super) fn inputs(&self, symbols: &[(&str, usize)]) -> Vec<Vec<f32>> {
        let mut source = Net::new();
        let len = |value: usize| self.sizes(value, symbols).iter().product::<i64>() as usize;
        self.region.inputs.iter().map(|&value| source.random(len(value))).collect()
    }

    fn sizes(&self, value: usize, symbols: &[(&str, usize)]) -> Vec<i64> {
        let symbols: HashMap<String, usize> = symbols.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        let shape = byoc_plugin_api::dim::eval_shape(&self.region.values[value].shape, &symbols).expect("sizes");
        shape.into_iter().map(|size| size as i64).collect()
    }

    /// One call of `run`.
    pub(super) fn call(
        &self,
        executable: &mut dyn Executable,
        inputs: &[Vec<f32>],
        symbols: &[(&str, usize)],
    ) -> Result<Vec<Vec<f32>>, Error> {
        let shape = |&value: &usize| {
            let shape = self.sizes(value, symbols);
            let strides = contiguous_strides(&shape);
            (shape, strides)
        };
        let in_shapes: Vec<_> = self.region.inputs.iter().map(shape).collect();
        let out_shapes: Vec<_> = self.region.outputs.iter().map(shape).collect();
        let views: Vec<_> = inputs
            .iter()
            .zip(&in_shapes)
            .map(|(data, (shape, strides))| TensorView::from_slice(data, shape, strides).expect("input"))
            .collect();
        let len = |(shape, _): &(Vec<i64>, Vec<i64>)| shape.iter().product::<i64>() as usize;
        let mut data: Vec<Vec<f32>> = out_shapes.iter().map(|shape| vec![f32::NAN; len(shape)]).collect();
        let mut outputs: Vec<_> = data
            .iter_mut()
            .zip(&out_shapes)
            .map(|(data, (shape, strides))| TensorViewMut::from_slice(data, shape, strides).expect("output"))
            .collect();
        executable.run(&views, &mut outputs)?;
        Ok(data)
    }

    /// Compares all ways to compile with the reference kernels, at one and at two threads.
    pub(super) fn check(&self, symbols: &[(&str, usize)]) {
        let expected = self.run(&[("kernels", "reference")], 1, symbols);
        let ways: [&[(&str, &str)]; 3] = [&[], &[("fusion", "false")], &[("pack", "false")]];
        for settings in ways {
            for threads in [1, 2] {
                let found = self.run(settings, threads, symbols);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_close(found, expected, &format!("{settings:?}, {threads} threads"));
                }
            }
        }
    }

    /// The calls of the compiled program, in order.
    pub(super) fn calls(&self) -> Vec<String> {
        let code: serde_json::Value = serde_json::from_slice(&self.compile(&[]).code).expect("JSON");
        let steps = code["steps"].as_array().expect("steps");
        steps.iter().map(|step| step["call"].as_str().expect("call").to_owned()).collect()
    }
}

/// A compiled region.
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    pub(super) store: Store,
    options: Options,
}

impl Compiled {
    /// Binds what was claimed and loads, which must work.
    pub(super) fn with_loaded<T>(&self, net: &Net, threads: usize, then: impl FnOnce(&mut dyn Executable) -> T) -> T {
        self.load(net, threads, |loaded| then(loaded.expect("load").as_mut()))
    }

    /// Binds what was claimed and loads.
    pub(super) fn load<T>(
        &self,
        net: &Net,
        threads: usize,
        then: impl FnOnce(Result<Box<dyn Executable + '_>, Error>) -> T,
    ) -> T {
        let shapes = net.shapes();
        let originals = net.views(&shapes);
        let packed_shapes: Vec<_> = self.store.claims.values().map(|(_, data)| [data.len() as i64]).collect();
        let mut bound = Vec::new();
        for ((id, (claim, data)), shape) in self.store.claims.iter().zip(&packed_shapes) {
            let original = originals.iter().find(|(known, _)| known == id).expect("known").1;
            match claim {
                Claim::Host => bound.push(BoundConstant { id: *id, layout: None, view: original }),
                Claim::Packed(packed) => {
                    assert_eq!(packed.shape.iter().product::<usize>(), data.len());
                    let view = TensorView::from_slice(data, shape, &[1]).expect("packed");
                    bound.push(BoundConstant { id: *id, layout: Some(&packed.layout), view });
                }
                Claim::Embedded | Claim::Unused => {}
            }
        }
        let environment = Environment { threads, options: self.options.clone() };
        let bound = BoundConstants::new(bound);
        then(json().load(&self.code, &bound, &environment))
    }
}

pub(super) fn dims(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&size| Dim::Fixed(size)).collect()
}

pub(super) fn json() -> &'static dyn Backend {
    registered().into_iter().find(|backend| backend.describe().name == "json").expect("registered")
}

/// Relative to the largest value: sums cancel.
pub(super) fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f32, |scale, value| scale.max(value.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-4 * scale, "{what}: element {i} is {a}, expected {b}");
    }
}
