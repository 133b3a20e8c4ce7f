//! `softmax(scale * Q K^T + mask) V` becomes one step. The transpositions that make heads of rows, and a cut of one
//! tensor into Q, K and V, are read through strides.

use byoc_plugin_api::{DType, Dim};

use super::graph::{Graph, Rewrite, Search};
use crate::kernels::Math;
use crate::program::{Attention, Op, Side, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(|search, index| search.attention(index));
}

/// The scores up to the softmax.
struct Scores {
    q: usize,
    k: usize,
    scale: f64,
    /// Whether a factor was met.
    scaled: bool,
    mask: Option<usize>,
    causal: bool,
    steps: Vec<usize>,
}

impl Search<'_, '_> {
    /// The attention around the softmax at `index`: the place of the new step, the step, and what it replaces.
    fn attention(&self, index: usize) -> Option<Rewrite> {
        let softmax = &self.graph.steps[index];
        let input = softmax.input(0)?;
        let last = [-1, 3].contains(&softmax.int("axis", -1));
        if softmax.onnx() != Some("Softmax") || !last || self.graph.shape(input).len() != 4 {
            return None;
        }
        let (product, matmul) = self.reader(softmax.output(0)?)?;
        if matmul.onnx() != Some("MatMul") || matmul.input(0) != softmax.output(0) {
            return None;
        }
        let mut scores = self.scores(input, Scores::new(index))?;
        let (q, q_side) = self.heads(scores.q, &mut scores.scale)?;
        let (k, k_side) = self.keys(scores.k, &mut scores.scale)?;
        let (v, v_side) = self.values(matmul.input(1)?)?;
        let mut output = matmul.output(0)?;
        let (q_shape, v_shape) = (self.graph.shape(scores.q), self.graph.shape(matmul.input(1)?));
        let [Dim::Fixed(heads), Dim::Fixed(head_dim)] = [&q_shape[1], &q_shape[3]] else { return None };
        let Dim::Fixed(value_dim) = &v_shape[3] else { return None };
        let whole = self.graph.shape(scores.k)[1] == q_shape[1] && v_shape[1] == q_shape[1] && v_shape[0] == q_shape[0];
        if !whole || self.graph.shape(scores.k)[0] != q_shape[0] || !self.graph.is_fast(output) {
            return None;
        }
        let mut at = product;
        scores.steps.push(product);
        let mut rows_first = false;
        if let Some((index, step)) = self.reader(output).filter(|(_, step)| transposes(step, &[0, 2, 1, 3])) {
            (at, output, rows_first) = (index, step.output(0)?, true);
            scores.steps.push(index);
        }
        let attention = Attention {
            heads: *heads,
            kv_heads: None,
            head_dim: *head_dim,
            value_dim: *value_dim,
            scale: scores.scale as f32,
            causal: scores.causal,
            sides: [q_side, k_side, v_side],
            rows_first,
            hidden_gives_zeros: false,
            math: Math::F32,
        };
        let op = Some(Op::Attention(attention)).filter(|op| op.check().is_ok() && (scores.scale as f32).is_finite())?;
        let inputs = vec![Some(q), Some(k), Some(v), scores.mask];
        let step = Step { name: softmax.name.clone(), op, inputs, outputs: vec![Some(output)] };
        Some(Rewrite { at, step, gone: scores.steps })
    }

    /// Follows the scores back to the product of Q and K.
    fn scores(&self, value: usize, mut found: Scores) -> Option<Scores> {
        self.reader(value)?;
        let (index, step) = self.producer(value)?;
        let masked = found.mask.is_some() || found.causal;
        found.steps.push(index);
        match step.onnx()? {
            "MatMul" => {
                (found.q, found.k) = (step.input(0)?, step.input(1)?);
                let ranks = [found.q, found.k].map(|value| self.graph.shape(value).len());
                (ranks == [4, 4]).then_some(found)
            }
            "Mul" | "Div" => {
                let (inner, factor) = self.scaled(step)?;
                found.scale *= factor;
                found.scaled = true;
                self.scores(inner, found)
            }
            // A mask that was scaled with the scores is not what the kernel adds.
            "Add" if !masked && !found.scaled => {
                let (a, b) = (step.input(0)?, step.input(1)?);
                let with = |scores: usize, mask: usize| {
                    let fits = self.graph.is_fast(mask) && self.graph.shape(scores) == self.graph.shape(value);
                    let found = Scores { mask: Some(mask), steps: found.steps.clone(), ..found };
                    if fits { self.scores(scores, found) } else { None }
                };
                with(a, b).or_else(|| with(b, a))
            }
            "Where" if !masked && !found.scaled => {
                let fill = self.graph.scalar(step.input(2)?)?;
                found.causal = fill < -1e4 && self.is_lower_triangle(step.input(0)?, step.input(1)?);
                if found.causal { self.scores(step.input(1)?, found) } else { None }
            }
            _ => None,
        }
    }

    /// A product with a number: the other operand and the number.
    fn scaled(&self, step: &Step) -> Option<(usize, f64)> {
        let (a, b) = (step.input(0)?, step.input(1)?);
        let number = |value: usize| self.graph.scalar(value).filter(|number| number.is_finite()).map(f64::from);
        let scaled = match (step.onnx()?, number(a), number(b)) {
            ("Mul", _, Some(factor)) => (a, factor),
            ("Mul", Some(factor), None) => (b, factor),
            ("Div", None, Some(divisor)) if divisor != 0.0 => (a, 1.0 / divisor),
            _ => return None,
        };
        (self.graph.shape(scaled.0) == self.graph.shape(step.output(0)?)).then_some(scaled)
    }

    /// Whether the condition is true at and below the diagonal of square scores, and nowhere else.
    fn is_lower_triangle(&self, condition: usize, scores: usize) -> bool {
        let (Some(shape), Some(scores)) = (self.graph.fixed_shape(condition), self.graph.fixed_shape(scores)) else {
            return false;
        };
        let &[ref lead @ .., rows, columns] = shape.as_slice() else { return false };
        let view = self.graph.constant(condition).and_then(|constant| self.graph.view_by_id(constant.id));
        let Some(view) = view.filter(|view| view.has_data() && view.dtype() == DType::Bool) else { return false };
        if lead.iter().any(|&size| size != 1) || rows != columns || scores[2..] != [rows, columns] {
            return false;
        }
        let (mut at, mut lower) = (0, true);
        view.for_each_element(|byte| {
            lower &= (byte[0] != 0) == (at % columns <= at / columns);
            at += 1;
        });
        lower
    }

    /// Where the heads `[batch, head, row, column]` of `value` come from. A factor on the way goes into the scale.
    pub(super) fn heads(&self, value: usize, scale: &mut f64) -> Option<(usize, Side)> {
        if let Some(found) = self.strided_heads(value, false, Some(scale)) {
            return Some(found);
        }
        let (value, factor) = self.unscaled(value);
        if factor != 1.0 && self.graph.shape(value).len() != 4 {
            return None;
        }
        *scale *= factor;
        match self.producer(value).filter(|(_, step)| transposes(step, &[0, 2, 1, 3])) {
            Some((_, step)) => self.rows(step.input(0)?, scale),
            None => Some((value, Side::HeadsFirst)),
        }
    }

    /// Where the heads of the values are: with the factors they have, as these are none of the scores.
    pub(super) fn values(&self, value: usize) -> Option<(usize, Side)> {
        let mut factor = 1.0;
        let heads = self.strided_heads(value, false, None).or_else(|| self.heads(value, &mut factor));
        heads.filter(|_| factor == 1.0)
    }

    /// Where the keys are, given as `[batch, head, column, row]`.
    fn keys(&self, value: usize, scale: &mut f64) -> Option<(usize, Side)> {
        if let Some(found) = self.strided_heads(value, true, Some(scale)) {
            return Some(found);
        }
        let (value, factor) = self.unscaled(value);
        *scale *= factor;
        let (_, step) = self.producer(value)?;
        let source = step.input(0)?;
        if let Some(matrices) = self.turned(value) {
            self.heads(matrices, scale)
        } else if transposes(step, &[0, 2, 3, 1]) {
            self.rows(source, scale)
        } else if transposes(step, &[0, 1, 3, 2]) {
            self.heads(source, scale)
        } else {
            None
        }
    }

    /// The `[batch, head, row, column]` of which `value` is `[batch, head, column, row]`, by way of a list of matrices, as PyTorch's newer
    /// exporter writes it.
    fn turned(&self, value: usize) -> Option<usize> {
        let view_of = |value: usize| self.producer(value).filter(|(_, step)| step.op == Op::View)?.1.input(0);
        let (_, transpose) = self.producer(view_of(value)?).filter(|(_, step)| transposes(step, &[0, 2, 1]))?;
        let list = transpose.input(0)?;
        let source = view_of(list)?;
        let ([a, b, rows, columns], [_, r, c]) = (self.graph.shape(source), self.graph.shape(list)) else {
            return None;
        };
        let expected = [a, b, columns, rows].map(Dim::clone);
        ([r, c] == [rows, columns] && self.graph.shape(value) == expected).then_some(source)
    }

    /// The value without a factor that only this use of it has.
    pub(super) fn unscaled(&self, value: usize) -> (usize, f64) {
        let scaled = self.reader(value).and_then(|_| self.producer(value)).and_then(|(_, step)| self.scaled(step));
        scaled.unwrap_or((value, 1.0))
    }

    /// Where the rows `[batch, row, head, column]` of `value` are: as they are, or cut out of wider ones.
    fn rows(&self, value: usize, scale: &mut f64) -> Option<(usize, Side)> {
        let (value, factor) = self.unscaled(value);
        *scale *= factor;
        let [_, _, Dim::Fixed(heads), Dim::Fixed(columns)] = self.graph.shape(value) else { return None };
        let whole = (value, Side::RowsFirst { width: heads * columns, start: 0 });
        Some(self.cut(value, heads * columns).unwrap_or(whole))
    }

    /// The tensor that the rows of `value` are cut from along its last axis.
    fn cut(&self, value: usize, used: usize) -> Option<(usize, Side)> {
        let (_, view) = self.producer(value).filter(|(_, step)| step.op == Op::View)?;
        self.part(view.input(0)?, used)
    }

    /// The tensor that a `Split` along the last axis has cut `part` from.
    pub(super) fn part(&self, part: usize, used: usize) -> Option<(usize, Side)> {
        let (_, split) = self.producer(part).filter(|(_, step)| step.onnx() == Some("Split"))?;
        let source = split.input(0)?;
        let (shape, rank) = (self.graph.shape(source), self.graph.shape(source).len() as i64);
        let last = [-1, rank - 1].contains(&split.int("axis", 0));
        let width = shape.last()?.fixed()?;
        if !last || self.graph.shape(part).last()?.fixed()? != used {
            return None;
        }
        let before = split.outputs.iter().take_while(|&&output| output != Some(part));
        let size = |output: &Option<usize>| self.graph.shape((*output)?).last()?.fixed();
        let start = before.map(size).sum::<Option<usize>>()?;
        Some((source, Side::RowsFirst { width, start }))
    }
}

impl Scores {
    fn new(softmax: usize) -> Self {
        Scores { q: 0, k: 0, scale: 1.0, scaled: false, mask: None, causal: false, steps: vec![softmax] }
    }
}

fn transposes(step: &Step, perm: &[i64]) -> bool {
    step.onnx() == Some("Transpose") && step.ints("perm") == Some(perm)
}
