//! Layer normalisation that exporters write in pieces becomes one step.

use super::graph::{Graph, Rewrite, Search};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(|search, index| search.norm(index));
}

impl Search<'_, '_> {
    /// `d / sqrt(mean(d^2) + eps) * scale + bias` with `d = x - mean(x)`, found at its division.
    fn norm(&self, index: usize) -> Option<Rewrite> {
        let div = &self.graph.steps[index];
        if div.onnx() != Some("Div") || !self.graph.is_fast(div.output(0)?) {
            return None;
        }
        let (centred, deviation) = (div.input(0)?, div.input(1)?);
        let (sub_at, sub) = self.node(centred, "Sub")?;
        let x = sub.input(0)?;
        let (mean_at, mean) = self.node(sub.input(1)?, "ReduceMean")?;
        let (sqrt_at, sqrt) = self.node(deviation, "Sqrt")?;
        let (eps_at, add) = self.node(sqrt.input(0)?, "Add")?;
        let (variance, eps) = match (self.graph.scalar(add.input(0)?), self.graph.scalar(add.input(1)?)) {
            (None, Some(eps)) => (add.input(0)?, eps),
            (Some(eps), None) => (add.input(1)?, eps),
            _ => return None,
        };
        let (variance_at, variance) = self.node(variance, "ReduceMean")?;
        let (square_at, square) = self.producer(variance.input(0)?)?;
        let squared = match square.onnx()? {
            "Pow" => square.input(0) == Some(centred) && self.graph.scalar(square.input(1)?) == Some(2.0),
            "Mul" => square.inputs == [Some(centred), Some(centred)],
            _ => false,
        };
        let axis = self.graph.shape(x).len().checked_sub(1)?;
        let rows = [mean, variance].iter().all(|step| self.is_last_axis(step, axis));
        if mean.input(0) != Some(x) || !squared || !rows || !eps.is_finite() {
            return None;
        }
        let (mul_at, mul) = self.reader(div.output(0)?).filter(|(_, step)| step.onnx() == Some("Mul"))?;
        let scale = self.vector(mul, div.output(0)?, x)?;
        let mut steps = vec![sub_at, mean_at, sqrt_at, eps_at, variance_at, square_at, index, mul_at];
        let (mut at, mut output, mut bias) = (mul_at, mul.output(0)?, None);
        if let Some((index, add)) = self.reader(output).filter(|(_, step)| step.onnx() == Some("Add"))
            && let Some(vector) = self.vector(add, output, x)
        {
            (at, output, bias) = (index, add.output(0)?, Some(vector));
            steps.push(index);
        }
        let op = Op::LayerNorm { axis, eps, rms: false };
        let inputs = vec![Some(x), Some(scale), bias];
        let step = Step { name: div.name.clone(), op, inputs, outputs: vec![Some(output)] };
        self.hidden(&steps, output).then_some(Rewrite { at, step, gone: steps })
    }

    fn is_last_axis(&self, step: &Step, axis: usize) -> bool {
        let axes = step.input(1).and_then(|axes| self.graph.ints(axes));
        step.int("keepdims", 1) == 1 && axes.is_some_and(|axes| axes == [-1] || axes == [axis as i64])
    }

    /// The operand beside `value` if it has one element for each of the last axis of `x`.
    fn vector(&self, step: &Step, value: usize, x: usize) -> Option<usize> {
        let other = if step.input(0) == Some(value) { step.input(1)? } else { step.input(0)? };
        let shape = self.graph.shape(other);
        (self.graph.is_fast(other) && shape.len() == 1 && shape.last() == self.graph.shape(x).last()).then_some(other)
    }
}
