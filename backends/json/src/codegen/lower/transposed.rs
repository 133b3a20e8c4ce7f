//! Transposed convolutions over two axes.

use byoc_plugin_api::{Dim, TransposedWindow};

use super::super::graph::Graph;
use super::super::lift::four;
use crate::kernels::{Activation, ConvKind, Math};
use crate::program::{Conv, Op, Step};

/// In place of a size that is not known: the windows of most nodes do not depend on it.
const ANY_SIZE: usize = 1 << 20;

pub(super) fn lower(graph: &Graph<'_>, step: &Step) -> Option<Step> {
    let (x, w, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let [channels, of_group, kernel @ ..] = four(&graph.fixed_shape(w)?, 1)?;
    let group = usize::try_from(step.int("group", 1)).ok().filter(|&group| group > 0)?;
    let ([_, depth, height, width], [_, filters, _, _]) = (graph.shape(x), graph.shape(y)) else { return None };
    let fits = *depth == Dim::Fixed(channels) && *filters == Dim::Fixed(of_group.checked_mul(group)?);
    if !fits || !channels.is_multiple_of(group) {
        return None;
    }
    let depends = step.has("output_shape") || step.text("auto_pad", "NOTSET") != "NOTSET";
    let size = |dim: &Dim| dim.fixed().or((!depends).then_some(ANY_SIZE));
    let window = TransposedWindow::over(&step.node()?, &[size(height)?, size(width)?], &kernel).ok()?;
    let conv = Conv {
        kind: ConvKind::Transposed,
        kernel,
        strides: window.strides.try_into().ok()?,
        pads: window.begin.try_into().ok()?,
        dilations: window.dilations.try_into().ok()?,
        group,
        act: Activation::None,
        math: Math::F32,
        rounded: false,
    };
    Some(Step {
        name: step.name.clone(),
        op: Op::Conv(conv),
        inputs: vec![Some(x), Some(w), step.input(2)],
        outputs: step.outputs.clone(),
    })
}
