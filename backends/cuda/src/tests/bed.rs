//! Regions that are built and computed at once: the reference kernels say what each node gives, in `f64` where the region has
//! floats of any width, and the generated kernels run on the host's processor.

use std::collections::{BTreeMap, HashMap};

use byoc_json_backend::reference::{self, Array};
use byoc_nvidia::program::{Argument, Place};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::{
    Attribute, Constant, ConstantId, Constants, DType, Dim, INLINE_BYTES, Node, Region, TensorView, Value, dim, to_hex,
};
use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};

use crate::codegen::{Fused, fuse};

/// Sizes that are multiples of this have a name in regions with names.
pub(super) const NAMED: usize = 7;

/// A region with its tensors.
pub(super) struct Net {
    pub(super) region: Region,
    arrays: Vec<Array<'static>>,
    named: bool,
    seed: u64,
}

/// An operator's name and attributes.
pub(super) type Op<'a> = (&'a str, &'a [(&'a str, Attribute)]);

impl Net {
    pub(super) fn new(named: bool) -> Net {
        Net { region: Region::default(), arrays: Vec::new(), named, seed: 7 }
    }

    fn push(&mut self, dtype: DType, array: Array<'static>) -> usize {
        let size = |&size: &usize| match size / NAMED {
            _ if !self.named || size % NAMED != 0 || size == 0 => Dim::Fixed(size),
            1 => Dim::Symbolic("s".into()),
            times => Dim::Symbolic(format!("s*{times}")),
        };
        let shape = array.shape().iter().map(size).collect();
        self.region.values.push(Value { name: format!("v{}", self.arrays.len()), dtype, shape });
        self.arrays.push(array);
        self.arrays.len() - 1
    }

    /// The next of a row of numbers that look random.
    pub(super) fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below
    }

    /// Elements of all types of floats: sixteenths between -2 and 2; of integers: up to 50.
    fn elements(&mut self, dtype: DType, shape: &[usize]) -> Array<'static> {
        let count = shape.iter().product();
        let element = |net: &mut Net| match dtype {
            DType::Bool => net.random(2) as f64,
            dtype if dtype.is_float() => net.random(65) as f64 / 16.0 - 2.0,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => net.random(50) as f64,
            _ => net.random(100) as f64 - 50.0,
        };
        let values = (0..count).map(|_| element(self)).collect();
        array(dtype, shape, values)
    }

    pub(super) fn input(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let array = self.elements(dtype, shape);
        let value = self.push(dtype, array);
        self.region.inputs.push(value);
        value
    }

    pub(super) fn input_of(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> usize {
        let value = self.push(dtype, array(dtype, shape, values.to_vec()));
        self.region.inputs.push(value);
        value
    }

    pub(super) fn constant(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let array = self.elements(dtype, shape);
        self.fix(dtype, array)
    }

    pub(super) fn constant_of(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> usize {
        self.fix(dtype, array(dtype, shape, values.to_vec()))
    }

    pub(super) fn ints(&mut self, values: &[i64]) -> usize {
        let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        self.constant_of(DType::I64, &[values.len()], &values)
    }

    fn fix(&mut self, dtype: DType, array: Array<'static>) -> usize {
        let named = std::mem::replace(&mut self.named, false);
        let bytes = bytes(dtype, &array);
        let value = self.push(dtype, array);
        self.named = named;
        let inline = (bytes.len() <= INLINE_BYTES).then(|| to_hex(&bytes));
        let id = ConstantId(self.region.constants.len() as u64);
        self.region.constants.push(Constant { id, value, inline, shared: false });
        value
    }

    /// A node with one output of the type of its first input, or of what it always gives.
    pub(super) fn node(&mut self, op: Op<'_>, inputs: &[usize]) -> usize {
        self.nodes(op, &inputs.iter().map(|&input| Some(input)).collect::<Vec<_>>(), &[None])[0]
    }

    /// A node with outputs, some of given types.
    pub(super) fn nodes(
        &mut self,
        (op, attributes): Op<'_>,
        inputs: &[Option<usize>],
        types: &[Option<DType>],
    ) -> Vec<usize> {
        let attributes: BTreeMap<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let own = inputs.iter().flatten().map(|&input| self.region.values[input].dtype).find(|dtype| dtype.is_float());
        let wanted: Vec<Option<DType>> = types
            .iter()
            .map(|&dtype| dtype.filter(|_| op == "Cast").or(if op == "Cast" { None } else { Some(DType::F64) }))
            .collect();
        let first = self.arrays.len();
        let outputs = (0..types.len()).map(|output| Some(first + output)).collect();
        let node = Node {
            name: format!("n{first}"),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.to_vec(),
            outputs,
            attributes,
        };
        let arrays = inputs.iter().map(|input| input.map(|input| self.arrays[input].clone())).collect();
        let results = reference::compute(&node, arrays, &wanted).unwrap_or_else(|error| panic!("{op}: {error}"));
        for (result, &dtype) in results.into_iter().zip(types) {
            let float = result.dtype().is_float();
            let dtype = dtype.unwrap_or(if float { own.unwrap_or(DType::F32) } else { result.dtype() });
            let result = if float { Array::from_f64(DType::F64, result.to_f64()) } else { result };
            self.push(dtype, result);
        }
        self.region.nodes.push(node);
        (first..self.arrays.len()).collect()
    }

    pub(super) fn output(&mut self, value: usize) -> &mut Net {
        self.region.outputs.push(value);
        self
    }

    pub(super) fn shape(&self, value: usize) -> Vec<usize> {
        self.arrays[value].shape().to_vec()
    }

    pub(super) fn dtype(&self, value: usize) -> DType {
        self.region.values[value].dtype
    }

    /// Its kernels.
    pub(super) fn fuse(&self) -> Fused {
        let bytes: Vec<Vec<u8>> = self.region.constants.iter().map(|constant| self.bytes(constant.value)).collect();
        let shapes: Vec<Vec<i64>> = self.region.constants.iter().map(|constant| self.lengths(constant.value)).collect();
        let strides: Vec<Vec<i64>> = shapes.iter().map(|shape| byoc_plugin_api::contiguous_strides(shape)).collect();
        let views = self.region.constants.iter().enumerate().map(|(index, constant)| {
            let dtype = self.region.values[constant.value].dtype;
            let view =
                TensorView::from_bytes(&bytes[index], dtype, &shapes[index], &strides[index]).expect("it is in range");
            (constant.id, view)
        });
        let constants = Constants::new(views.collect());
        fuse(&self.region, &constants).unwrap_or_else(|error| panic!("{error}\n{:#?}", self.region.nodes))
    }

    fn bytes(&self, value: usize) -> Vec<u8> {
        bytes(self.region.values[value].dtype, &self.arrays[value])
    }

    fn lengths(&self, value: usize) -> Vec<i64> {
        self.arrays[value].shape().iter().map(|&size| size as i64).collect()
    }

    /// Runs kernels whose symbols begin with a prefix, with that for the size with a name and as much of the inputs as there
    /// is then, and gives the outputs.
    fn run(&self, kernels: &Kernels, prefix: &str, fused: &Fused, named: usize) -> Vec<Buffer> {
        let symbols = HashMap::from([("s".to_owned(), named)]);
        let size = |size: &Dim| dim::eval(&size.to_string(), &symbols).expect("its symbols are known");
        let length = |value: usize| {
            let value = &self.region.values[value];
            value.shape.iter().map(size).product::<usize>() * value.dtype.size()
        };
        let buffer = |value: usize| Buffer::of(&self.bytes(value)[..length(value)]);
        let inputs: Vec<Buffer> = self.region.inputs.iter().map(|&input| buffer(input)).collect();
        let constants = fused.program.constants.iter().map(|constant| {
            buffer(self.region.constants.iter().find(|known| known.id == constant.id).expect("it is there").value)
        });
        let constants: Vec<Buffer> = constants.collect();
        let outputs: Vec<Buffer> =
            self.region.outputs.iter().map(|&output| Buffer::new::<u8>(length(output))).collect();
        let scratch: Vec<Buffer> = fused.variant.scratch.iter().map(|bytes| Buffer::new::<u8>(size(bytes))).collect();
        for launch in &fused.variant.launches {
            let grid = launch.grid.each_ref().map(|blocks| size(blocks) as u32);
            if grid.contains(&0) {
                continue;
            }
            let parameter = |argument: &Argument| match argument {
                Argument::Pointer(Place::Input(at)) => Param::Pointer(inputs[*at].address()),
                Argument::Pointer(Place::Constant(at)) => Param::Pointer(constants[*at].address()),
                Argument::Pointer(Place::Output(at)) => Param::Pointer(outputs[*at].address()),
                Argument::Pointer(Place::Scratch(at)) => Param::Pointer(scratch[*at].address()),
                Argument::Size(own) => Param::Size(size(own) as i64),
                other => panic!("{other:?}"),
            };
            let parameters: Vec<Param<'_>> = launch.arguments.iter().map(parameter).collect();
            kernels.launch(&format!("{prefix}{}", launch.kernel), grid, launch.block, launch.shared, &parameters);
        }
        outputs
    }

    /// What it gives where the size with a name is 0.
    pub(super) fn of_nothing(&self) -> Vec<Vec<f64>> {
        let fused = self.fuse();
        let kernels = Kernels::compile(&fused.source.as_ref().expect("it computes something").text);
        let outputs = self.run(&kernels, "", &fused, 0);
        let found = |(&output, buffer): (&usize, &Buffer)| floats(self.dtype(output), &buffer.read::<u8>());
        self.region.outputs.iter().zip(&outputs).map(found).collect()
    }

    /// Runs kernels whose symbols begin with a prefix, and compares the outputs.
    fn check(&self, what: &str, kernels: &Kernels, prefix: &str, fused: &Fused) {
        let outputs = self.run(kernels, prefix, fused, NAMED);
        for (&output, buffer) in self.region.outputs.iter().zip(&outputs) {
            self.compare(what, output, &buffer.read::<u8>(), fused);
        }
    }

    fn compare(&self, what: &str, output: usize, found: &[u8], fused: &Fused) {
        let dtype = self.region.values[output].dtype;
        let expected: Vec<f64> = self.arrays[output].to_f64().iter().copied().collect();
        let found = floats(dtype, found);
        let tolerance = match dtype {
            DType::F32 => 2e-5,
            DType::F64 => 1e-12,
            DType::F16 => 4e-3,
            DType::BF16 => 3e-2,
            _ => 0.0,
        };
        for (index, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let expected = if dtype == DType::F64 { expected } else { rounded(dtype, expected) };
            let same = found == expected || (found.is_nan() && expected.is_nan());
            let near = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
            if !same && !near {
                let text = fused.source.as_ref().map_or("", |source| kernels_of(&source.text));
                panic!("{what}: output {output} has {found} in place of {expected} at {index}\n{text}");
            }
        }
    }
}

/// The kernels of a source, without what stands before them.
pub(super) fn kernels_of(text: &str) -> &str {
    let end = "return x;\n}\n";
    text.rfind(end).map_or(text, |at| &text[at + end.len()..])
}

/// Runs regions, all of them compiled at once, and compares what they give.
pub(super) fn check(nets: &[(String, Net)]) {
    let fused: Vec<Fused> = nets.iter().map(|(_, net)| net.fuse()).collect();
    for (chunk, (nets, fused)) in nets.chunks(64).zip(fused.chunks(64)).enumerate() {
        let mut text = String::new();
        for (index, fused) in fused.iter().enumerate() {
            let Some(source) = &fused.source else { continue };
            let own = kernels_of(&source.text);
            if text.is_empty() {
                text = source.text[..source.text.len() - own.len()].to_owned();
            }
            // Functions that are launched, and namespaces of what only they need.
            let own = own.replace("_parts", &format!("_parts{index}"));
            text += &own.replace(") k", &format!(") n{index}_k"));
        }
        if text.is_empty() {
            continue;
        }
        let kernels = Kernels::compile(&text);
        for (index, ((what, net), fused)) in nets.iter().zip(fused).enumerate() {
            net.check(&format!("{what} ({chunk})"), &kernels, &format!("n{index}_"), fused);
        }
    }
}

fn array(dtype: DType, shape: &[usize], values: Vec<f64>) -> Array<'static> {
    let values = ArrayD::from_shape_vec(IxDyn(shape), values).expect("as many elements");
    Array::from_f64(if dtype.is_float() { DType::F64 } else { dtype }, values)
}

fn rounded(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 => f16::from_f64(value).to_f64(),
        DType::BF16 => bf16::from_f64(value).to_f64(),
        _ => value,
    }
}

fn bytes(dtype: DType, array: &Array<'static>) -> Vec<u8> {
    if !dtype.is_float() {
        let bytes = |value: i64| value.to_le_bytes()[..dtype.size()].to_vec();
        return array.to_ints().into_iter().flat_map(bytes).collect();
    }
    let bytes = |value: &f64| match dtype {
        DType::F32 => (*value as f32).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(*value).to_le_bytes().to_vec(),
        _ => bf16::from_f64(*value).to_le_bytes().to_vec(),
    };
    array.to_f64().iter().flat_map(bytes).collect()
}

fn floats(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let number = |bytes: &[u8]| {
        let low = |from: &[u8]| from.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        let bits = low(bytes);
        match dtype {
            DType::F32 => f32::from_bits(bits as u32).into(),
            DType::F64 => f64::from_bits(bits),
            DType::F16 => f16::from_bits(bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(bits as u16).to_f64(),
            DType::I8 => f64::from(bits as u8 as i8),
            DType::I16 => f64::from(bits as u16 as i16),
            DType::I32 => f64::from(bits as u32 as i32),
            DType::I64 => bits as i64 as f64,
            _ => bits as f64,
        }
    };
    bytes.chunks_exact(dtype.size()).map(number).collect()
}
