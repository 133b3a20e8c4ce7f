//! The reference kernels: every operator in plain `ndarray`, each family with its rows of the table in its own file. They are the oracle for
//! faster kernels, and the fallback.

mod array;
mod attention;
mod binary;
mod bits;
mod boxes;
mod call;
mod categories;
mod columns;
mod conv;
mod conv_transpose;
mod create;
mod det;
mod einsum;
mod features;
mod forest;
mod fourier;
mod gather;
mod grid_sample;
mod item;
mod linear_models;
mod matmul;
mod nbits;
mod norm;
mod number;
mod packing;
mod pool;
mod quantize;
mod random;
mod re2;
mod recurrent;
mod reduce;
mod regions;
mod resize;
mod rotary;
mod scores;
mod select;
mod shape;
mod slice;
mod softmax;
mod strings;
#[cfg(test)]
mod testing;
mod text_numbers;
mod texts;
mod tf_idf;
mod training;
mod trees;
mod types;
mod unary;
mod unpool;
mod window;

use byoc_plugin_api::{DType, Error, Node, TensorView, TensorViewMut, Texts};

pub use array::Array;
pub use packing::Packing;
pub use recurrent::{check as check_recurrent, checked_length};
pub use resize::{Given, Resized, Taps};
pub use strings::refusal;
pub use types::Types;

use call::{Call, Outputs};

type KernelFn = fn(&Call<'_, '_>) -> Outputs;

/// One operator: its name, its code, and the element types it takes (the last rule holds for all further inputs).
pub struct Kernel {
    /// The operator's name; with its domain before it and a dot between them, where that is not ONNX's own.
    pub op: &'static str,
    run: KernelFn,
    /// The types by input position.
    pub inputs: &'static [Types],
    /// Whether it moves elements without looking at them: those of types that Rust has not are bytes to it then.
    moves: bool,
}

const fn kernel(op: &'static str, run: KernelFn, inputs: &'static [Types]) -> Kernel {
    Kernel { op, run, inputs, moves: false }
}

/// The kernel of an operator that moves elements without looking at them.
const fn mover(op: &'static str, run: KernelFn, inputs: &'static [Types]) -> Kernel {
    Kernel { moves: true, ..kernel(op, run, inputs) }
}

const ANY: Types = Types::ANY;
/// Every type whose elements have bytes of their own.
const MOVED: Types = Types::ANY.or(Types::OPAQUE);
/// Every type, those that Rust has not among them.
const ALL: Types = MOVED.or(Types::SMALL);
const BOOL: Types = Types::BOOL;
const BYTE: Types = Types::BYTE;
const FLOAT: Types = Types::FLOAT;
const I64: Types = Types::I64;
const INDEX: Types = Types::INDEX;
const NUMBER: Types = Types::NUMBER;
const SAME: Types = Types::SAME;
const STRING: Types = Types::STRING;
const SIGNED: Types = Types::FLOAT.or(Types::SIGNED);
const WIDE: Types = Types::FLOAT.or(Types::WIDE);

/// The kernels of each family.
const FAMILIES: &[&[Kernel]] = &[
    attention::KERNELS,
    binary::KERNELS,
    bits::KERNELS,
    boxes::KERNELS,
    categories::KERNELS,
    columns::KERNELS,
    conv::KERNELS,
    conv_transpose::KERNELS,
    create::KERNELS,
    det::KERNELS,
    einsum::KERNELS,
    features::KERNELS,
    fourier::KERNELS,
    gather::KERNELS,
    grid_sample::KERNELS,
    linear_models::KERNELS,
    matmul::KERNELS,
    nbits::KERNELS,
    norm::KERNELS,
    pool::KERNELS,
    quantize::KERNELS,
    random::KERNELS,
    recurrent::KERNELS,
    reduce::KERNELS,
    regions::KERNELS,
    resize::KERNELS,
    rotary::KERNELS,
    select::KERNELS,
    shape::KERNELS,
    slice::KERNELS,
    softmax::KERNELS,
    strings::KERNELS,
    tf_idf::KERNELS,
    training::KERNELS,
    trees::KERNELS,
    unary::KERNELS,
    unpool::KERNELS,
];

/// Every operator there is a kernel for.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    FAMILIES.iter().copied().flatten()
}

fn find(op: &str) -> Option<&'static Kernel> {
    kernels().find(|kernel| kernel.op == op)
}

/// The name under which a node's operator has a kernel.
pub fn qualified(node: &Node) -> String {
    if node.domain.is_empty() { node.op.clone() } else { format!("{}.{}", node.domain, node.op) }
}

/// Whether there is a kernel of that name.
pub fn knows(op: &str) -> bool {
    find(op).is_some()
}

/// Whether the kernel for `op` takes inputs of these element types, given by position; if not, why.
pub fn supports(op: &str, inputs: &[Option<DType>]) -> Result<(), String> {
    match find(op) {
        Some(kernel) => types::check(op, kernel.inputs, inputs),
        None => Err(format!("there is no kernel for {op}")),
    }
}

/// Runs one node on arrays. `outputs` are the wanted element types where they are known; only `Cast` and the statistics
/// of `LayerNormalization` depend on them. Returns every output the operator has, wanted or not.
pub fn compute(
    node: &Node,
    inputs: Vec<Option<Array<'_>>>,
    outputs: &[Option<DType>],
) -> Result<Vec<Array<'static>>, Error> {
    compute_with(node, inputs, outputs, None)
}

/// The same, with the table of texts that handles stand for.
pub fn compute_with(
    node: &Node,
    inputs: Vec<Option<Array<'_>>>,
    outputs: &[Option<DType>],
    texts: Option<&dyn Texts>,
) -> Result<Vec<Array<'static>>, Error> {
    compute_as(node, inputs, (outputs, None), texts)
}

/// The same, where output 0 must have that shape.
fn compute_as(
    node: &Node,
    inputs: Vec<Option<Array<'_>>>,
    (outputs, shape): (&[Option<DType>], Option<&[usize]>),
    texts: Option<&dyn Texts>,
) -> Result<Vec<Array<'static>>, Error> {
    let compute = || {
        let op = qualified(node);
        let kernel = find(&op).ok_or_else(|| Error::new(format!("there is no kernel for {op}")))?;
        let dtypes: Vec<Option<DType>> = inputs.iter().map(|input| input.as_ref().map(Array::dtype)).collect();
        types::check(&node.op, kernel.inputs, &dtypes).map_err(Error::new)?;
        let code = |dtype: &DType| kernel.moves && Types::SMALL.has(*dtype);
        match dtypes.first().copied().flatten().filter(code) {
            Some(dtype) => {
                let codes = inputs.into_iter().map(|input| input.map(Array::into_codes)).collect();
                let moved = (kernel.run)(&Call::new(node, codes, (outputs, shape), texts))?;
                Ok(moved.into_iter().map(|output| output.into_typed(dtype)).collect())
            }
            None => (kernel.run)(&Call::new(node, inputs, (outputs, shape), texts)),
        }
    };
    compute().map_err(|error: Error| error.at(&node.name))
}

/// Runs one node, with the table of texts where it has some. `inputs` and `outputs` are in the node's own order, `None` for one that is absent or unwanted.
/// Outputs must be contiguous and aligned, and have the type and shape that the operator gives.
pub fn run(
    node: &Node,
    inputs: &[Option<TensorView<'_>>],
    outputs: &mut [Option<TensorViewMut<'_>>],
    texts: Option<&dyn Texts>,
) -> Result<(), Error> {
    let at = |error: Error| error.at(&node.name);
    let arrays: Result<Vec<_>, Error> =
        inputs.iter().map(|input| input.as_ref().map(Array::from_view).transpose()).collect();
    let dtypes: Vec<Option<DType>> = outputs.iter().map(|output| output.as_ref().map(TensorViewMut::dtype)).collect();
    let first = outputs.first().and_then(Option::as_ref).map(TensorViewMut::shape);
    let shape: Option<Vec<usize>> = first.map(|shape| shape.iter().map(|&size| size as usize).collect());
    let results = compute_as(node, arrays.map_err(at)?, (&dtypes, shape.as_deref()), texts)?;
    for (index, output) in outputs.iter_mut().enumerate() {
        let Some(output) = output else { continue };
        let result = results.get(index).ok_or_else(|| at(Error::new(format!("{} has no output {index}", node.op))))?;
        result.store(output).map_err(at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_checked_by_position() {
        let (f32, i64, bool) = (Some(DType::F32), Some(DType::I64), Some(DType::Bool));
        type Case<'a> = (&'a str, &'a [Option<DType>], Option<&'a str>);
        let cases: [Case<'_>; 7] = [
            ("Add", &[f32, f32], None),
            ("Add", &[f32, i64], Some("input 1 of Add is i64, unlike input 0")),
            ("Add", &[bool, bool], Some("Add does not take bool as input 0")),
            ("Concat", &[i64, i64, None, i64], None),
            ("Gather", &[bool, i64], None),
            ("Slice", &[f32, i64, i64, f32], Some("Slice does not take f32 as input 3")),
            ("Nothing", &[], Some("there is no kernel for Nothing")),
        ];
        for (op, inputs, expected) in cases {
            assert_eq!(supports(op, inputs).err().as_deref(), expected, "{op} {inputs:?}");
        }
    }

    #[test]
    fn results_go_where_they_are_wanted_and_errors_name_the_node() {
        let (x, mut y) = ([3f32, -1.0], [false; 2].map(byoc_plugin_api::Bool8::from));
        let view = || TensorView::from_slice(&x, &[2], &[1]).ok();
        let mut mask = [TensorViewMut::from_slice(&mut y, &[2], &[1]).ok()];
        let node = testing::node("Dropout", 2, &[]);
        let [mask] = mask.each_mut().map(Option::take);
        run(&node, &[view()], &mut [None, mask], None).expect("run");
        assert!(y.iter().all(|value| value.get()));
        let mut y = [0f64; 2];
        let error = run(
            &testing::node("Relu", 1, &[]),
            &[view()],
            &mut [TensorViewMut::from_slice(&mut y, &[2], &[1]).ok()],
            None,
        );
        let error = error.expect_err("another type");
        assert_eq!(error.message, "computed f32 [2] for an output of f64 [2]");
        assert_eq!(error.node.as_deref(), Some("node"));
    }

    /// The output is compared before it is computed: a padding of 2^30 is refused at once.
    #[test]
    fn outputs_of_another_size_are_not_computed() {
        let one = [("kernel_shape", testing::list(&[1])), ("pads", testing::list(&[0, 1 << 30]))];
        let two = [("kernel_shape", testing::list(&[2]))];
        let cases = [("MaxPool", &one[..], "[1, 1, 1073741826]"), ("AveragePool", &two, "[1, 1, 1]")];
        for (op, attributes, computed) in cases {
            let (x, mut y) = ([3f32, -1.0], [0f32; 2]);
            let input = TensorView::from_slice(&x, &[1, 1, 2], &[2, 2, 1]).ok();
            let output = TensorViewMut::from_slice(&mut y, &[1, 1, 2], &[2, 2, 1]).ok();
            let error =
                run(&testing::node(op, 1, attributes), &[input], &mut [output], None).expect_err("another size");
            assert_eq!(error.message, format!("{op} computes {computed} for an output of [1, 1, 2]"));
        }
    }

    #[test]
    fn scalars_and_empty_tensors_work_everywhere() {
        use testing::{all, tensor};
        for op in ["Relu", "Abs", "Sigmoid", "Erf", "Identity", "Neg", "Gelu"] {
            for shape in [&[][..], &[0], &[2, 0, 3]] {
                let x = tensor(shape, &vec![0.5f32; shape.iter().product()]);
                assert_eq!(all(op, &[], vec![x]).expect("output")[0].shape(), shape, "{op}");
            }
        }
        for op in ["Add", "Mul", "Less", "Max", "Pow", "MatMul"] {
            let x = || tensor::<f32>(&[0, 2, 2], &[]);
            assert_eq!(all(op, &[], vec![x(), x()]).expect("output")[0].shape(), [0, 2, 2], "{op}");
        }
    }
}
