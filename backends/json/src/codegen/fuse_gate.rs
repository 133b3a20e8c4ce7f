//! Activations that exporters write in pieces, `x * gate(x) * constant`, become one function: Gelu by erf and by tanh,
//! SiLU, HardSwish.

use super::graph::{Graph, Rewrite, Search};
use crate::kernels::{Activation, Unary};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(|search, index| search.product(search.gate(index)?));
}

/// The part of an activation that is multiplied with `x`.
struct Gate {
    x: usize,
    value: usize,
    /// What all constant factors of the product must come to.
    factor: f32,
    act: Activation,
    steps: Vec<usize>,
}

impl Search<'_, '_> {
    /// The gate that the function at `index` makes.
    fn gate(&self, index: usize) -> Option<Gate> {
        let step = &self.graph.steps[index];
        let (input, output) = (step.input(0)?, step.output(0)?);
        if !self.graph.is_fast(input) {
            return None;
        }
        let gate = |x, value, factor, act, steps| Some(Gate { x, value, factor, act, steps });
        match step.onnx()? {
            "Sigmoid" => gate(input, output, 1.0, Activation::Silu, vec![index]),
            "HardSigmoid" => {
                let (alpha, beta) = (step.float("alpha", 0.2), step.float("beta", 0.5));
                gate(input, output, 1.0, Activation::HardSwish { alpha, beta }, vec![index])
            }
            "Clip" => {
                let ends = [1, 2].map(|end| step.input(end).and_then(|value| self.graph.scalar(value)));
                let (before, add) = self.node(input, "Add")?;
                let (x, three) = self.with_number(add)?;
                let act = Activation::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 };
                if ends != [Some(0.0), Some(6.0)] || three != 3.0 {
                    return None;
                }
                gate(x, output, 1.0 / 6.0, act, vec![before, index])
            }
            "Erf" => {
                let (before, x) = self.divided(input, std::f32::consts::SQRT_2)?;
                let (plus, value) = self.plus_one(output)?;
                gate(x, value, 0.5, Activation::GeluErf, vec![before, index, plus])
            }
            "Tanh" => {
                let (x, mut steps) = self.cubic(input)?;
                let (plus, value) = self.plus_one(output)?;
                steps.extend([index, plus]);
                gate(x, value, 0.5, Activation::GeluTanh, steps)
            }
            _ => None,
        }
    }

    /// `x` where `value` is `x / divisor`.
    fn divided(&self, value: usize, divisor: f32) -> Option<(usize, usize)> {
        self.reader(value)?;
        if let Some((index, step)) = self.node(value, "Div") {
            let number = self.graph.scalar(step.input(1)?)?;
            return self.close(number, divisor).then_some((index, step.input(0)?));
        }
        let (index, step) = self.node(value, "Mul")?;
        let (x, number) = self.with_number(step)?;
        self.close(number, 1.0 / divisor).then_some((index, x))
    }

    fn plus_one(&self, value: usize) -> Option<(usize, usize)> {
        let (index, step) = self.reader(value).filter(|(_, step)| step.onnx() == Some("Add"))?;
        let (_, one) = self.with_number(step)?;
        (one == 1.0).then_some((index, step.output(0)?))
    }

    /// `x` where `value` is `sqrt(2 / pi) * (x + 0.044715 x^3)`.
    fn cubic(&self, value: usize) -> Option<(usize, Vec<usize>)> {
        let (outer, scaled) = self.node(value, "Mul")?;
        let (sum, factor) = self.with_number(scaled)?;
        let (plus, add) = self.node(sum, "Add")?;
        if !self.close(factor, 0.797_884_6) {
            return None;
        }
        let (a, b) = (add.input(0)?, add.input(1)?);
        [(a, b), (b, a)].into_iter().find_map(|(x, term)| {
            let (inner, term) = self.node(term, "Mul")?;
            let (cube, factor) = self.with_number(term)?;
            let mut steps = vec![outer, plus, inner];
            steps.extend(self.cube(cube, x)?);
            self.close(factor, 0.044_715).then_some((x, steps))
        })
    }

    /// The steps that make `value` the cube of `x`.
    fn cube(&self, value: usize, x: usize) -> Option<Vec<usize>> {
        if let Some((index, pow)) = self.node(value, "Pow") {
            let three = self.graph.scalar(pow.input(1)?) == Some(3.0);
            return (three && pow.input(0) == Some(x)).then_some(vec![index]);
        }
        let (index, step) = self.node(value, "Mul")?;
        let square = step.inputs.iter().flatten().copied().find(|&input| input != x)?;
        let (inner, of) = self.node(square, "Mul")?;
        let fits = step.inputs.contains(&Some(x)) && of.inputs == [Some(x), Some(x)];
        fits.then_some(vec![index, inner])
    }

    /// Exporters round their constants in different ways, and types of 16 bits do.
    fn close(&self, a: f32, b: f32) -> bool {
        (a - b).abs() <= self.graph.rounding().max(1e-4) * b.abs()
    }

    /// Follows products from the gate on until they are `x * gate * factor`.
    fn product(&self, gate: Gate) -> Option<Rewrite> {
        let (mut value, mut factor, mut met, mut steps) = (gate.value, 1.0, false, gate.steps);
        loop {
            let (index, step) = self.reader(value)?;
            steps.push(index);
            let other = if step.input(0) == Some(value) { step.input(1)? } else { step.input(0)? };
            match (step.onnx()?, self.graph.scalar(other)) {
                ("Mul", Some(number)) => factor *= number,
                ("Div", Some(number)) if step.input(0) == Some(value) => factor /= number,
                ("Mul", None) if !met && other == gate.x => met = true,
                ("Mul", None) if !met => {
                    let (before, scaled) = self.reader(other).and_then(|_| self.node(other, "Mul"))?;
                    let (x, number) = self.with_number(scaled)?;
                    if x != gate.x {
                        return None;
                    }
                    factor *= number;
                    met = true;
                    steps.push(before);
                }
                _ => return None,
            }
            value = step.output(0)?;
            if met && self.close(factor, gate.factor) {
                let one_shape = self.graph.shape(value) == self.graph.shape(gate.x);
                let op = Op::Unary { function: Unary::Act(gate.act) };
                let name = step.name.clone();
                let step = Step { name, op, inputs: vec![Some(gate.x)], outputs: vec![Some(value)] };
                let hidden = self.hidden(&steps, value);
                return (one_shape && hidden).then_some(Rewrite { at: index, step, gone: steps });
            }
        }
    }
}
