//! Batch normalisation, and products and sums with constants by channel, go into the weights and the bias of the
//! convolution before them. Where there is none, they become one affine step.

use byoc_plugin_api::{ConstantId, DType, Dim};

use super::graph::{Edges, Graph, Rewrite};
use super::integer::Dequantised;
use super::lift::four;
use super::window::Window;
use crate::constants::{Numbers, Part, Recipe};
use crate::kernels::{Activation, ConvKind, ConvParams, Math};
use crate::program::{Conv, Op, Step};

/// What the options allow.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// Whether steps are fused.
    pub(super) fusion: bool,
    /// Whether convolutions may be computed by fewer multiplications.
    pub(super) winograd: bool,
}

/// Lowers every convolution and batch normalisation that has a fast kernel.
pub(super) fn run(graph: &mut Graph<'_>, wanted: Wanted) {
    // No rewrite changes who reads what the steps of another one make.
    let edges = graph.edges();
    let mut rewrites = Vec::new();
    let mut gone = vec![false; graph.steps.len()];
    for index in 0..graph.steps.len() {
        let lowered = match graph.steps[index].onnx().filter(|_| !gone[index]) {
            Some("Conv") => convolution(graph, &edges, index, wanted),
            Some("BatchNormalization") => affine(graph, &edges, index, wanted.fusion),
            _ => None,
        };
        if let Some(rewrite) = lowered {
            rewrite.gone.iter().for_each(|&step| gone[step] = true);
            rewrites.push(rewrite);
        }
    }
    graph.apply(rewrites);
}

fn convolution(graph: &mut Graph<'_>, edges: &Edges, index: usize, wanted: Wanted) -> Option<Rewrite> {
    let step = graph.steps[index].clone();
    let (x, w, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let bias = step.input(2);
    if ![x, w, y].into_iter().chain(bias).all(|value| graph.is_fast(value)) {
        return None;
    }
    let shape = four(&graph.fixed_shape(w)?, 1)?;
    let group = usize::try_from(step.int("group", 1)).ok().filter(|&group| group > 0)?;
    if !shape[0].is_multiple_of(group) || graph.shape(x).get(1) != Some(&Dim::Fixed(shape[1] * group)) {
        return None;
    }
    let window = Window::of(&step, graph.shape(x), graph.shape(y), Some(&shape[2..]))?;
    let mut conv = Conv {
        kind: ConvKind::Plain,
        kernel: window.kernel,
        strides: window.strides,
        pads: [window.pads[0], window.pads[1]],
        dilations: window.dilations,
        group,
        act: Activation::None,
        math: Math::F32,
        rounded: false,
    };
    Op::Conv(conv.clone()).check().ok()?;
    let chain = match (graph.constant(w).map(|constant| constant.id), constant_or_absent(graph, bias)) {
        (Some(weights), Some(start)) => {
            let chain = if wanted.fusion { chain(graph, edges, index, shape[0]) } else { Chain::new(index, y) };
            conv.kind = pick(&conv, &shape, wanted.winograd);
            let parts = chain.parts.clone();
            let recipe = Recipe::Weights { weights, kind: conv.kind.packing(), shape, group, parts, dtype: DType::F32 };
            let identity = conv.kind == ConvKind::Plain && chain.parts.is_empty();
            let packed = if identity { w } else { graph.derive(recipe)? };
            let bias = match (bias, chain.parts.is_empty()) {
                (bias, true) => bias,
                _ => {
                    let (channels, start) = (shape[0], start.map(Numbers::Floats));
                    Some(graph.derive(Recipe::Shift { channels, start, parts: chain.parts.clone() })?)
                }
            };
            (packed, bias, chain)
        }
        // Weights that are computed at run time cannot be packed.
        _ => (w, bias, Chain::new(index, y)),
    };
    let (packed, bias, chain) = chain;
    let at = *chain.steps.last()?;
    let inputs = vec![Some(x), Some(packed), bias];
    let step = Step { name: step.name, op: Op::Conv(conv), inputs, outputs: vec![Some(chain.output)] };
    Some(Rewrite { at, step, gone: chain.steps })
}

/// `Some(id)` of a constant bias, `Some(None)` without one, `None` for one that is computed.
fn constant_or_absent(graph: &Graph<'_>, bias: Option<usize>) -> Option<Option<ConstantId>> {
    match bias {
        None => Some(None),
        Some(bias) => graph.constant(bias).map(|constant| Some(constant.id)),
    }
}

fn pick(conv: &Conv, shape: &[usize; 4], winograd: bool) -> ConvKind {
    let image = [1, shape[1] * conv.group, 1, 1];
    let params = ConvParams { act: Activation::None, ..conv.params(&image, &[1, shape[0], 1, 1]) };
    match ConvKind::pick(&params) {
        ConvKind::Winograd if !winograd => ConvKind::Blocked,
        kind => kind,
    }
}

/// A normalisation as a factor and an offset for each channel, with what follows it where steps are fused.
pub(super) fn affine(graph: &mut Graph<'_>, edges: &Edges, index: usize, fusion: bool) -> Option<Rewrite> {
    let step = graph.steps[index].clone();
    let x = step.input(0)?;
    let Some(&Dim::Fixed(channels)) = graph.shape(x).get(1) else { return None };
    if !graph.is_fast(x) || graph.shape(x).len() != 4 {
        return None;
    }
    let first = part(graph, edges, &step, x, channels)?;
    let mut chain = if fusion { chain(graph, edges, index, channels) } else { Chain::new(index, step.output(0)?) };
    chain.parts.insert(0, first);
    let scale = graph.derive(Recipe::Scale { channels, parts: chain.parts.clone() })?;
    let shift = graph.derive(Recipe::Shift { channels, start: None, parts: chain.parts.clone() })?;
    let inputs = vec![Some(x), Some(scale), Some(shift)];
    let at = *chain.steps.last()?;
    let outputs = vec![Some(chain.output)];
    let step = Step { name: step.name, op: Op::Affine { act: Activation::None }, inputs, outputs };
    Some(Rewrite { at, step, gone: chain.steps })
}

/// Steps that follow each other, each the only reader of the one before.
struct Chain {
    steps: Vec<usize>,
    parts: Vec<Part>,
    output: usize,
}

impl Chain {
    fn new(index: usize, output: usize) -> Self {
        Chain { steps: vec![index], parts: Vec::new(), output }
    }
}

/// What can be folded behind the step at `index`.
fn chain(graph: &Graph<'_>, edges: &Edges, index: usize, channels: usize) -> Chain {
    let mut chain = Chain::new(index, graph.steps[index].output(0).unwrap_or_default());
    while let Some(reader) = edges.reader(chain.output) {
        let step = &graph.steps[reader];
        let (Some(part), Some(output)) = (part(graph, edges, step, chain.output, channels), step.output(0)) else {
            break;
        };
        chain.parts.push(part);
        chain.steps.push(reader);
        chain.output = output;
    }
    chain
}

/// The step as a function of each channel of `x`, if it is one.
fn part(graph: &Graph<'_>, edges: &Edges, step: &Step, x: usize, channels: usize) -> Option<Part> {
    match step.onnx()? {
        "BatchNormalization" => {
            let inference = step.int("training_mode", 0) == 0 && step.outputs[1..].iter().all(Option::is_none);
            let vector = |index: usize| {
                let value = step.input(index)?;
                let fits = graph.fixed_shape(value)? == [channels] && graph.values[value].dtype == DType::F32;
                numbers(graph, edges, value).filter(|_| fits)
            };
            let norm = Part::Norm {
                scale: vector(1)?,
                bias: vector(2)?,
                mean: vector(3)?,
                variance: vector(4)?,
                eps: step.float("epsilon", 1e-5),
            };
            (inference && step.input(0) == Some(x)).then_some(norm)
        }
        op @ ("Mul" | "Add") => {
            let other = match (step.input(0)?, step.input(1)?) {
                (a, b) if a == x => b,
                (a, b) if b == x => a,
                _ => return None,
            };
            let same = graph.shape(step.output(0)?) == graph.shape(x);
            let list = numbers(graph, edges, other).filter(|_| same && by_channel(graph, other, x, channels))?;
            Some(if op == "Mul" { Part::Mul(list) } else { Part::Add(list) })
        }
        _ => None,
    }
}

/// The numbers of a constant, as it is or dequantised.
fn numbers(graph: &Graph<'_>, edges: &Edges, value: usize) -> Option<Numbers> {
    match graph.constant(value) {
        Some(constant) => Some(Numbers::Floats(constant.id)),
        None => Dequantised::of_integers(graph, &graph.steps[edges.producer(value)?])?.numbers(graph),
    }
}

/// Whether the value has one number, or one for each channel of `x`.
fn by_channel(graph: &Graph<'_>, value: usize, x: usize, channels: usize) -> bool {
    let Some(shape) = graph.fixed_shape(value) else { return false };
    if graph.values[value].dtype != DType::F32 || shape.len() > graph.shape(x).len() {
        return false;
    }
    // From behind, the channel axis is the one before the image's.
    let axis = shape.len().checked_sub(graph.shape(x).len() - 1);
    let by_channel = shape.iter().enumerate().all(|(i, &size)| size == 1 || (Some(i) == axis && size == channels));
    by_channel && (shape.iter().product::<usize>() == 1 || axis.is_some())
}
