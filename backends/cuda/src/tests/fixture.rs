//! Regions that are built and computed at once: the reference kernels say what each node gives, in `f64` where the region has
//! floats of any width, and the generated kernels run on the host's processor.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use byoc_dim as dim;
use byoc_json_backend::reference::{self, Array};
use byoc_nvidia::program::{Argument, BufferRef};
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{Limit, RegionBuilder, Type, compare, decode, encode, rounded};
use byoc_plugin_api::{Attribute, ConstantAccess, DType, Dim};
use ndarray::{ArrayD, IxDyn};

use crate::codegen::{Fused, fuse};

/// Sizes that are multiples of this have a name in regions with names.
pub(super) const NAMED: usize = 7;

/// A region with its tensors, which the reference kernels compute while it is built.
pub(super) struct Net {
    build: RegionBuilder,
    arrays: Vec<Array<'static>>,
    named: bool,
}

impl Deref for Net {
    type Target = RegionBuilder;

    fn deref(&self) -> &RegionBuilder {
        &self.build
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut RegionBuilder {
        &mut self.build
    }
}

/// An operator's name and attributes.
pub(super) type Op<'a> = (&'a str, &'a [(&'a str, Attribute)]);

impl Net {
    pub(super) fn new(named: bool) -> Net {
        Net { build: RegionBuilder::new("cuda"), arrays: Vec::new(), named }
    }

    /// The type of a tensor, whose sizes may have names.
    fn type_of(&self, dtype: DType, array: &Array<'_>) -> Type {
        let size = |&size: &usize| match size / NAMED {
            _ if !self.named || size % NAMED != 0 || size == 0 => Dim::Fixed(size),
            1 => Dim::Symbolic("s".into()),
            times => Dim::Symbolic(format!("s*{times}")),
        };
        Type { dtype: Some(dtype), shape: array.shape().iter().map(size).collect() }
    }

    /// A random number.
    pub(super) fn draw(&mut self, below: usize) -> usize {
        self.build.random.usize(..below)
    }

    /// Elements of all types of floats: sixteenths between -2 and 2; of integers: up to 50.
    fn elements(&mut self, dtype: DType, shape: &[usize]) -> Vec<f64> {
        let (range, step) = match dtype {
            DType::Bool => (0..2, 1.0),
            dtype if dtype.is_float() => (-32..33, 16.0),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0..50, 1.0),
            _ => (-50..50, 1.0),
        };
        let random = &mut self.build.random;
        (0..shape.iter().product()).map(|_| f64::from(random.i32(range.clone())) / step).collect()
    }

    pub(super) fn input(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let values = self.elements(dtype, shape);
        self.input_of(dtype, shape, &values)
    }

    pub(super) fn input_of(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> usize {
        let array = array(dtype, shape, values);
        let ty = self.type_of(dtype, &array);
        self.arrays.push(array);
        self.build.input(ty)
    }

    pub(super) fn constant(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let values = self.elements(dtype, shape);
        self.constant_of(dtype, shape, &values)
    }

    pub(super) fn constant_of(&mut self, dtype: DType, shape: &[usize], values: &[f64]) -> usize {
        self.arrays.push(array(dtype, shape, values));
        self.build.numbers((dtype, shape), values)
    }

    pub(super) fn ints(&mut self, values: &[i64]) -> usize {
        let numbers: Vec<f64> = values.iter().map(|&value| value as f64).collect();
        self.constant_of(DType::I64, &[values.len()], &numbers)
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
        let own = inputs.iter().flatten().map(|&input| self.dtype(input)).find(|dtype| dtype.is_float());
        let wanted: Vec<Option<DType>> = types
            .iter()
            .map(|&dtype| dtype.filter(|_| op == "Cast").or(if op == "Cast" { None } else { Some(DType::F64) }))
            .collect();
        let made = self.build.nodes(op, inputs, &vec!["[]".into(); types.len()], attributes);
        let node = self.build.region.nodes.last().expect("it was just made");
        let arrays = inputs.iter().map(|input| input.map(|input| self.arrays[input].clone())).collect();
        let results = reference::compute(node, arrays, &wanted).unwrap_or_else(|error| panic!("{op}: {error}"));
        for ((result, &dtype), &value) in results.into_iter().zip(types).zip(&made) {
            let float = result.dtype().is_float();
            let dtype = dtype.unwrap_or(if float { own.unwrap_or(DType::F32) } else { result.dtype() });
            let result = if float { Array::from_f64(DType::F64, result.to_f64()) } else { result };
            let ty = self.type_of(dtype, &result);
            let to = &mut self.build.region.values[value];
            (to.dtype, to.shape) = (dtype, ty.shape);
            self.arrays.push(result);
        }
        made
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
        fuse(&self.region, &self.views(ConstantAccess::Both))
            .unwrap_or_else(|error| panic!("{error}\n{:#?}", self.region.nodes))
    }

    /// Runs kernels whose symbols begin with a prefix, with that for the size with a name and as much of the inputs as there
    /// is then, and gives the outputs.
    fn run(&self, kernels: &Kernels, prefix: &str, fused: &Fused, named: usize) -> Vec<Buffer> {
        let symbols = HashMap::from([("s".to_owned(), named)]);
        let size = |size: &Dim| dim::eval(&size.to_string(), &symbols).expect("its symbols are known");
        let length = |value: usize| {
            let value = &self.region.values[value];
            value.shape.iter().map(size).product::<usize>() * value.dtype.unpacked_bytes()
        };
        let buffer = |&value: &usize| {
            let numbers: Vec<_> = self.arrays[value].to_f64().iter().copied().collect();
            Buffer::of(&encode(self.dtype(value), &numbers)[..length(value)])
        };
        let inputs: Vec<Buffer> = self.region.inputs.iter().map(buffer).collect();
        let constants = fused.program.constants.iter().map(|constant| {
            buffer(&self.region.constants.iter().find(|known| known.id == constant.id).expect("it is there").value)
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
                Argument::Pointer(BufferRef::Input(at)) => Param::Pointer(inputs[*at].address()),
                Argument::Pointer(BufferRef::Constant(at)) => Param::Pointer(constants[*at].address()),
                Argument::Pointer(BufferRef::Output(at)) => Param::Pointer(outputs[*at].address()),
                Argument::Pointer(BufferRef::Scratch(at)) => Param::Pointer(scratch[*at].address()),
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
        let found = |(&output, buffer): (&usize, &Buffer)| decode(self.dtype(output), &buffer.read::<u8>());
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
        let dtype = self.dtype(output);
        let expected: Vec<f64> = self.arrays[output].to_f64().iter().map(|&number| rounded(dtype, number)).collect();
        let limit = Limit::above(
            match dtype {
                DType::F32 => 2e-5,
                DType::F64 => 1e-12,
                DType::F16 => 4e-3,
                DType::BF16 => 3e-2,
                _ => 0.0,
            },
            1.0,
        );
        if let Err(difference) = compare(&decode(dtype, found), &expected, limit.with_nan()) {
            let text = fused.source.as_ref().map_or("", |source| kernels_of(&source.text));
            panic!("{what}: output {output}: {difference}\n{text}");
        }
    }
}

/// The kernels of a source, without prelude and helpers.
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

fn array(dtype: DType, shape: &[usize], values: &[f64]) -> Array<'static> {
    let values = ArrayD::from_shape_vec(IxDyn(shape), values.to_vec()).expect("as many elements");
    Array::from_f64(if dtype.is_float() { DType::F64 } else { dtype }, values)
}
