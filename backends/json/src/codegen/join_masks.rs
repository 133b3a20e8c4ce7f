//! Attention in windows, as PyTorch writes it, adds a bias to the scores, sees them as one list of windows for each image, adds
//! a mask for each window, and sees them as before. Of one image the two terms are added to each other first, without the views:
//! then they are one mask of an attention.

use byoc_plugin_api::DType;

use super::graph::{Graph, Search};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    // One at a time, as joining moves steps.
    while let Some(terms) = find(graph) {
        terms.join(graph);
    }
}

fn find(graph: &Graph<'_>) -> Option<Terms> {
    let search = Search::new(graph);
    (0..graph.steps.len()).find_map(|index| search.terms(index))
}

/// Scores, and the two terms that are added to them.
struct Terms {
    scores: usize,
    bias: usize,
    mask: usize,
    /// The sum of the three, seen as the scores are.
    sum: usize,
    /// The sum of scores and bias, its view, the sum of that and the mask, the view of it; in this order.
    steps: [usize; 4],
}

impl Search<'_, '_> {
    /// The terms of the scores under the softmax at `index`.
    fn terms(&self, index: usize) -> Option<Terms> {
        let softmax = &self.graph.steps[index];
        let sum = softmax.input(0).filter(|_| softmax.onnx() == Some("Softmax"))?;
        let (last, masked) = self.viewed(sum)?;
        let (second, add) = self.only(masked, "Add")?;
        let of_a_sum = |value: usize| self.viewed(value).is_some_and(|(_, source)| self.only(source, "Add").is_some());
        let (seen, mask) = self.sides(add, of_a_sum)?;
        let (view, biased) = self.viewed(seen)?;
        let (first, add) = self.only(biased, "Add")?;
        let is_scores = |value: usize| self.reader(value).is_some() && self.node(value, "MatMul").is_some();
        let (scores, bias) = self.sides(add, is_scores)?;
        let shape = self.graph.fixed_shape(scores)?;
        let windows = |value: usize| self.graph.fixed_shape(value)?.strip_prefix(&[1]).map(<[_]>::to_vec);
        let is_scores_shape = |value: usize| self.graph.fixed_shape(value).as_ref() == Some(&shape);
        let one_image =
            windows(seen)? == shape && windows(masked)? == shape && [biased, sum].into_iter().all(is_scores_shape);
        // Each term lacks some of the axes, and both together have all: else their sum would be another shape than is written here.
        let (mask_shape, bias_shape) = (windows(mask)?, self.graph.fixed_shape(bias)?);
        let both = mask_shape.len() == 4 && bias_shape.len() == 4;
        let both = both && (0..4).all(|axis| mask_shape[axis].max(bias_shape[axis]) == shape[axis]);
        let fits = one_image && both && [scores, bias, mask].iter().all(|&value| self.graph.is_fast(value));
        fits.then_some(Terms { scores, bias, mask, sum, steps: [first, view, second, last] })
    }

    /// The view that writes a value which is read once, and what it is of.
    fn viewed(&self, value: usize) -> Option<(usize, usize)> {
        self.reader(value)?;
        let (index, step) = self.producer(value).filter(|(_, step)| step.op == Op::View)?;
        Some((index, step.input(0)?))
    }

    /// The node of that operator that writes a value which is read once.
    fn only(&self, value: usize, op: &str) -> Option<(usize, &Step)> {
        self.reader(value)?;
        self.node(value, op)
    }

    /// The operand for which `is_first` holds, and the other.
    fn sides(&self, add: &Step, is_first: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let (a, b) = (add.input(0)?, add.input(1)?);
        if is_first(a) { Some((a, b)) } else { is_first(b).then_some((b, a)) }
    }
}

impl Terms {
    /// Writes the steps anew, where the last ones were: the mask may be computed behind the scores.
    fn join(self, graph: &mut Graph<'_>) {
        let [first, view, second, last] = self.steps;
        let windows = graph.shape(self.mask)[1..].to_vec();
        let flat = graph.add_value(DType::F32, windows, false);
        let both = graph.add_value(DType::F32, graph.shape(self.scores).to_vec(), false);
        let step = |index: usize, inputs: &[usize], output: usize| Step {
            inputs: inputs.iter().map(|&input| Some(input)).collect(),
            outputs: vec![Some(output)],
            ..graph.steps[index].clone()
        };
        let flatten = step(view, &[self.mask], flat);
        let join = step(first, &[flat, self.bias], both);
        let add = step(second, &[self.scores, both], self.sum);
        graph.steps.splice(last..=last, [flatten, join, add]);
        for index in [second, view, first] {
            graph.steps.remove(index);
        }
    }
}
