//! Generates the code of a region: which operator, in which form its weights are, and where its operands come from.

use std::io::Write;

use byoc_plugin_api::{ConstantId, Error, Generated, Job, Node, Region, Window};
use serde::{Deserialize, Serialize};

use crate::packing::Form;

/// The code of a region.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) op: Op,
    /// The weights as a matrix: a row for each product that is added up, a column for each channel of the output.
    pub(crate) weights: ConstantId,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) form: Form,
    pub(crate) bias: Option<ConstantId>,
    /// Of each output whether it is behind the `Relu`; one that is not is what the convolution gives.
    pub(crate) relu: Vec<bool>,
    pub(crate) bug: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    MatMul,
    Conv(Windows),
}

/// How the windows of a convolution lie.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Windows {
    pub(crate) kernel: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) dilations: Vec<usize>,
    pub(crate) begin: Vec<usize>,
    pub(crate) groups: usize,
}

/// The shape of the weights.
pub(crate) fn weights(region: &Region) -> Result<(ConstantId, Vec<usize>), Error> {
    let value = region.nodes[0].input(1).ok_or_else(|| Error::new("there are no weights"))?;
    let constant = region.constant(value).ok_or_else(|| Error::new("the weights are not constant"))?;
    let shape = region.values[value].fixed_shape().ok_or_else(|| Error::new("the weights have no known size"))?;
    Ok((constant.id, shape))
}

/// In which form the weights of the region are. Where somebody else has them too, as they are: they are packed at load then.
pub(crate) fn form(job: &Job<'_>) -> Result<Form, Error> {
    let region = job.region;
    let (id, _) = weights(region)?;
    if region.constants.iter().any(|constant| constant.id == id && constant.shared) {
        return Ok(Form::Original);
    }
    Ok(match (region.nodes[0].op.as_str(), job.options.text("matrices")) {
        ("Conv", _) => Form::Filters,
        // 8 bits hold no infinity and no NaN.
        (_, "int8") if elements(job)?.iter().all(|element| element.is_finite()) => Form::Int8,
        _ => Form::Panels,
    })
}

/// The weights as the model has them, row-major.
pub(crate) fn elements(job: &Job<'_>) -> Result<Vec<f32>, Error> {
    let view = job.constants.get(weights(job.region)?.0).ok_or_else(|| Error::new("the weights are not there"))?;
    view.to_vec()
}

pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let (region, node) = (job.region, &job.region.nodes[0]);
    let (id, shape) = weights(region)?;
    let (op, rows, columns) = match node.op.as_str() {
        "Conv" => (Op::Conv(windows(node, &shape)?), shape[1..].iter().product(), shape[0]),
        _ => (Op::MatMul, shape[0], shape[1]),
    };
    let bias = node.input(2).and_then(|value| region.constant(value)).map(|constant| constant.id);
    let program = Program {
        op,
        weights: id,
        rows,
        columns,
        form: form(job)?,
        bias,
        relu: region.outputs.iter().map(|&value| is_made_by(region.nodes.get(1), value)).collect(),
        bug: job.options.text("bug").to_owned(),
    };
    serde_json::to_writer(code, &program)?;
    Ok(Generated::default())
}

fn is_made_by(node: Option<&Node>, value: usize) -> bool {
    node.is_some_and(|node| node.output(0) == Some(value))
}

fn windows(node: &Node, weights: &[usize]) -> Result<Windows, Error> {
    let window = Window::of(node, 2, Some(&weights[2..])).map_err(|refusal| Error::new(refusal.message))?;
    let groups = usize::try_from(node.int("group", 1)).map_err(|_| Error::new("a group that is negative"))?;
    let Window { kernel, strides, dilations, begin, .. } = window;
    Ok(Windows { kernel, strides, dilations, begin, groups })
}
