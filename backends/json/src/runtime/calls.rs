//! Turns steps into calls: each family of kernels has a file that checks shapes and sets up parameters.

use byoc_plugin_api::Error;

use super::memory::Io;
use super::plan::Sharing;
use crate::kernels::{BLOCK, Threads};
use crate::program::{Op, Program, Step, Value};

mod attention;
mod columns;
mod convert;
mod elementwise;
mod fallback;
mod image;
mod integer;
mod movement;
mod nbits;
mod norm;
mod places;
mod product;
mod quantised;
mod recurrent;
mod sampling;
mod scale_filters;
mod unequal;

/// A kernel with everything that follows from shapes. Runs without allocation unless it is a reference kernel.
pub(super) trait Call: Send {
    /// Computes the outputs of the step.
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error>;

    /// What it is computed as, in profiles, where that is not what the types say.
    fn computed_as(&self) -> Option<&'static str> {
        None
    }
}

/// A call, and what it needs.
pub(super) struct Ready {
    pub(super) call: Box<dyn Call>,
    /// f32 values of scratch.
    pub(super) scratch: usize,
    pub(super) sharing: Sharing,
}

impl Ready {
    /// A call that needs no scratch and shares no memory.
    pub(super) fn new(call: impl Call + 'static) -> Self {
        Ready { call: Box::new(call), scratch: 0, sharing: Sharing::default() }
    }
}

/// A step with the shapes of its values.
pub(super) struct Signature<'p> {
    program: &'p Program,
    pub(super) step: &'p Step,
    shapes: &'p [Vec<usize>],
    strides: &'p [Option<&'p [i64]>],
    pub(super) threads: &'p Threads,
}

impl<'p> Signature<'p> {
    /// `strides` are those of each value that is a constant and not contiguous.
    pub(super) fn new(
        program: &'p Program,
        step: &'p Step,
        shapes: &'p [Vec<usize>],
        strides: &'p [Option<&'p [i64]>],
        threads: &'p Threads,
    ) -> Self {
        Signature { program, step, shapes, strides, threads }
    }

    /// Shape of the input at this position.
    pub(super) fn input(&self, index: usize) -> Result<&'p [usize], Error> {
        let value = self.step.input(index).ok_or_else(|| Error::new(format!("input {index} is missing")))?;
        Ok(&self.shapes[value])
    }

    /// Shape of the output at this position.
    pub(super) fn output(&self, index: usize) -> Result<&'p [usize], Error> {
        let value = self.step.output(index).ok_or_else(|| Error::new(format!("output {index} is missing")))?;
        Ok(&self.shapes[value])
    }

    /// The value at an input.
    pub(super) fn input_value(&self, index: usize) -> Option<&'p Value> {
        self.step.input(index).map(|value| &self.program.values[value])
    }

    /// The value at an output.
    pub(super) fn output_value(&self, index: usize) -> Option<&'p Value> {
        self.step.output(index).map(|value| &self.program.values[value])
    }

    /// Strides of an input that is a constant and not contiguous.
    pub(super) fn strides(&self, index: usize) -> Option<&'p [i64]> {
        self.strides[self.step.input(index)?]
    }

    /// Whether every output is empty: then there is nothing to compute.
    fn is_empty(&self) -> bool {
        self.step.outputs.iter().flatten().all(|&value| self.shapes[value].contains(&0))
    }
}

/// Nothing to compute.
pub(super) struct Nothing;

impl Call for Nothing {
    fn run(&self, _: &mut Io<'_, '_>) -> Result<(), Error> {
        Ok(())
    }
}

/// Sets up the kernel of a step. Where there is nothing to compute, the shapes must go together all the same.
pub(super) fn prepare(signature: &Signature<'_>) -> Result<Ready, Error> {
    let ready = set_up(signature)?;
    // A reference kernel checks the shapes itself, when it runs.
    let checked = !matches!(signature.step.op, Op::Reference { .. });
    Ok(if checked && signature.is_empty() { Ready::new(Nothing) } else { ready })
}

fn set_up(signature: &Signature<'_>) -> Result<Ready, Error> {
    let step = signature.step;
    match &step.op {
        Op::View => view(signature),
        Op::Reference { .. } => {
            let node = step.node().ok_or_else(|| Error::new("the step is not a node"))?;
            Ok(Ready::new(fallback::Reference::new(node, signature.unequal())))
        }
        Op::Conv(conv) => image::conv(signature, conv),
        Op::Gemm(gemm) => product::gemm(signature, gemm),
        Op::Pool(pool) => image::pool(signature, pool),
        Op::GlobalPool { max } => image::global_pool(signature, *max),
        Op::Affine { act } => image::affine(signature, *act),
        Op::Lrn { size, alpha, beta, bias } => image::lrn(signature, *size, *alpha, *beta, *bias),
        Op::ToBlocked => image::convert(signature, true),
        Op::FromBlocked => image::convert(signature, false),
        Op::Unary { function } => elementwise::unary(signature, *function),
        Op::Binary { function, act } => elementwise::binary(signature, *function, *act),
        Op::Softmax { axis, log } => norm::softmax(signature, *axis, *log),
        Op::LayerNorm { axis, eps, rms } => norm::layer_norm(signature, *axis, *eps, *rms),
        Op::Reduce { function, from, to } => norm::reduce(signature, *function, *from, *to),
        Op::Transpose { perm } => movement::permute(signature, perm),
        Op::Concat { axis } => movement::concat(signature, *axis),
        Op::Split { axis } => movement::split(signature, *axis),
        Op::Slice { starts, steps } => movement::slice(signature, starts, steps),
        Op::Columns { packed } => columns::columns(signature, packed),
        Op::Convert => convert::convert(signature),
        Op::ScaleFilters { filters } => scale_filters::scale(signature, *filters),
        Op::Gather { axis } => movement::gather(signature, *axis),
        Op::Expand => movement::expand(signature),
        Op::Choose => places::choose(signature),
        Op::Scatter { axis } => places::scatter(signature, *axis),
        Op::Resize { attributes } => sampling::resize(signature, attributes),
        Op::GridSample(sample) => sampling::grid_sample(signature, sample),
        Op::TopK { smallest } => sampling::top_k(signature, *smallest),
        Op::Pad { axes } => places::pad(signature, axes),
        Op::Recurrent(layer) => recurrent::recurrent(signature, layer),
        Op::Attention(attention) => attention::attention(signature, attention),
        Op::IntegerGemm(gemm) => integer::gemm(signature, gemm),
        Op::IntegerConv(conv) => integer::conv(signature, conv),
        Op::IntegerPool(pool) => integer::pool(signature, pool),
        Op::IntegerAverage(average) => quantised::average(signature, average),
        Op::IntegerMean => quantised::mean(signature),
        Op::IntegerAffine { act } => quantised::affine(signature, *act),
        Op::Combine(combine) => quantised::combine(signature, combine),
        Op::Quantize => quantised::quantise(signature),
        Op::Dequantize { axis } => quantised::dequantise(signature, *axis),
        Op::DynamicQuantize => quantised::dynamic(signature),
        Op::NBits(nbits) => nbits::nbits(signature, nbits),
        Op::Lookup { table } => quantised::lookup(signature, table),
    }
}

/// The error of a step whose shapes do not go together.
fn bad_shapes(signature: &Signature<'_>) -> Error {
    let shapes = |values: &[Option<usize>]| {
        let one =
            |value: &Option<usize>| value.map_or_else(|| "-".into(), |value| format!("{:?}", signature.shapes[value]));
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let (inputs, outputs) = (shapes(&signature.step.inputs), shapes(&signature.step.outputs));
    let error = Error::new(format!("no kernel for the shapes {inputs} to {outputs}"));
    match signature.unequal() {
        Some(unequal) => unequal.explain(error),
        None => error,
    }
}

/// A view shows no more bytes than there are.
fn view(signature: &Signature<'_>) -> Result<Ready, Error> {
    let (Some(from), Some(to)) = (signature.input_value(0), signature.output_value(0)) else {
        return Err(Error::new("a view of nothing"));
    };
    let (input, output) = (signature.input(0)?, signature.output(0)?);
    let same = input.iter().product::<usize>() == output.iter().product::<usize>();
    let same_order = match (from.blocked, to.blocked, input) {
        (false, false, _) => true,
        // An image of one pixel: its channels are the same in both layouts. A last block that is not full is there in
        // NCHW16c only.
        (_, _, &[n, c, 1, 1]) => input == output && (c.is_multiple_of(BLOCK) || n == 1 && !to.blocked),
        _ => false,
    };
    if same && from.dtype == to.dtype && same_order {
        return Ok(Ready::new(Nothing));
    }
    Err(Error::new(format!("{} {input:?} cannot be seen as {} {output:?}", from.dtype, to.dtype)))
}
