//! Runs the steps of a program in its buffers.

use byoc_plugin_api::{BoundConstants, Error, Executable, TensorView, TensorViewMut};

use super::plan::{Program, Source, Step};
use crate::tensor::{Tensor, View, broadcast_place, broadcast_shape, count, flat};

/// A program with its constants.
pub(super) struct Loaded {
    program: Program,
    constants: Vec<Tensor>,
    buffers: Vec<Vec<f32>>,
    /// The number of elements of each step in the first run.
    remembered: Vec<usize>,
}

impl Loaded {
    pub(super) fn new(program: Program, bound: &BoundConstants<'_>) -> Result<Loaded, Error> {
        let constant = |id| {
            let tensor = Tensor::copy(&bound.host(id)?)?;
            tensor.view()?;
            Ok(tensor)
        };
        let constants = program.constants.iter().map(|&id| constant(id)).collect::<Result<_, Error>>()?;
        let buffers = vec![Vec::new(); program.buffers];
        Ok(Loaded { program, constants, buffers, remembered: Vec::new() })
    }

    /// The shape of every step's result.
    fn shapes(&self, inputs: &[Tensor]) -> Result<Vec<Vec<usize>>, Error> {
        let mut shapes: Vec<Vec<usize>> = Vec::new();
        for step in &self.program.steps {
            let operands: Vec<&[usize]> =
                step.operands.iter().map(|source| self.shape(source, inputs, &shapes)).collect();
            let shape = match (step.op.as_str(), operands.as_slice()) {
                ("MatMul", [a, b]) => product_shape(a, b)?,
                _ => broadcast_shape(operands)?,
            };
            shapes.push(shape);
        }
        Ok(shapes)
    }

    fn shape<'a>(&'a self, source: &Source, inputs: &'a [Tensor], steps: &'a [Vec<usize>]) -> &'a [usize] {
        match *source {
            Source::Input(at) => inputs[at].shape(),
            Source::Constant(at) | Source::Zeros(at) => self.constants[at].shape(),
            Source::Step(at) => &steps[at],
        }
    }
}

/// The shape of a product; vectors have a dimension of size 1 while it is computed.
fn product_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, Error> {
    let (Some((&depth, left)), false) = (a.split_last(), b.is_empty()) else {
        return Err(Error::new("MatMul of a scalar"));
    };
    let (right, columns) = match *b {
        [ref right @ .., rows, columns] if rows == depth => (right, Some(columns)),
        [rows] if rows == depth => (&b[..0], None),
        _ => return Err(Error::new(format!("MatMul of {a:?} and {b:?}"))),
    };
    let (batch, rows) = match left {
        [batch @ .., rows] => (batch, Some(*rows)),
        [] => (left, None),
    };
    let mut shape = broadcast_shape([batch, right])?;
    shape.extend(rows);
    shape.extend(columns);
    Ok(shape)
}

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        if inputs.len() != self.program.inputs || outputs.len() != self.program.outputs {
            return Err(Error::new("the region has another number of inputs or outputs"));
        }
        let inputs = inputs.iter().map(Tensor::copy).collect::<Result<Vec<_>, _>>()?;
        let shapes = self.shapes(&inputs)?;
        if self.remembered.is_empty() {
            self.remembered = shapes.iter().map(|shape| count(shape)).collect();
        }
        for place in 0..self.program.order.len() {
            let at = self.program.order[place];
            let step = &self.program.steps[at];
            let result = self.compute(at, step, &inputs, &shapes)?;
            for &output in &step.outputs {
                Tensor::from_floats(&shapes[at], result.clone()).write(&mut outputs[output])?;
            }
            self.buffers[step.buffer] = result;
        }
        Ok(())
    }
}

impl Loaded {
    /// The elements that a step gives.
    fn compute(&self, at: usize, step: &Step, inputs: &[Tensor], shapes: &[Vec<usize>]) -> Result<Vec<f32>, Error> {
        let mut zeros = Vec::new();
        for source in &step.operands {
            zeros.push(vec![0.0; if let Source::Zeros(at) = source { count(self.constants[*at].shape()) } else { 0 }]);
        }
        let mut operands = Vec::new();
        for (source, zeros) in step.operands.iter().zip(&zeros) {
            let shape = self.shape(source, inputs, shapes);
            operands.push(match *source {
                Source::Input(at) => inputs[at].view()?,
                Source::Constant(at) => self.constants[at].view()?,
                Source::Step(at) => View { data: &self.buffers[self.program.steps[at].buffer], shape },
                Source::Zeros(_) => View { data: zeros, shape },
            });
        }
        let shape = &shapes[at];
        let mut result = match (step.copies, step.op.as_str()) {
            (Some(operand), _) => elements(shape, |index| operands[operand].broadcast(index)),
            (None, "MatMul") => self.product(step, operands[0], operands[1], shape),
            (None, op) if step.in_place => overwritten(op, &operands, shape),
            (None, op) => elements(shape, |index| function(op, &operands, index)),
        };
        if self.program.bug == "batch-remembered" {
            result.iter_mut().skip(self.remembered[at]).for_each(|value| *value = 0.0);
        }
        Ok(result)
    }

    fn product(&self, step: &Step, a: View<'_>, b: View<'_>, shape: &[usize]) -> Vec<f32> {
        let depth = a.shape.last().copied().unwrap_or(1);
        let (a_batch, b_batch) =
            (&a.shape[..a.shape.len().saturating_sub(2)], &b.shape[..b.shape.len().saturating_sub(2)]);
        let inner = usize::from(a.shape.len() > 1) + usize::from(b.shape.len() > 1);
        let [rows, columns] = [
            if a.shape.len() > 1 { a.shape[a.shape.len() - 2] } else { 1 },
            if b.shape.len() > 1 { b.shape[b.shape.len() - 1] } else { 1 },
        ];
        let before = &self.buffers[step.buffer];
        let mut left = a.data.to_vec();
        elements(shape, |index| {
            let (batch, within) = index.split_at(shape.len() - inner);
            let row = if a.shape.len() > 1 { within[0] } else { 0 };
            let column = if b.shape.len() > 1 { within[within.len() - 1] } else { 0 };
            let from =
                [broadcast_place(batch, a_batch) * rows * depth, broadcast_place(batch, b_batch) * depth * columns];
            let mut sum = 0.0;
            if self.program.bug == "matmul-not-cleared" {
                sum = before.get(flat(index, shape)).copied().unwrap_or(0.0);
            }
            for k in 0..depth {
                let x = left.get(from[0] + row * depth + k).copied().unwrap_or(0.0);
                sum += x * b.nth(from[1] + k * columns + column);
            }
            if step.in_place
                && let Some(place) = left.get_mut(flat(index, shape))
            {
                *place = sum;
            }
            sum
        })
    }
}

/// The elements of a result, each computed from its index.
fn elements(shape: &[usize], value: impl FnMut(&[usize]) -> f32) -> Vec<f32> {
    let result = Tensor::of(shape, value);
    result.view().map(|view| view.data.to_vec()).unwrap_or_default()
}

fn function(op: &str, operands: &[View<'_>], index: &[usize]) -> f32 {
    let x = operands[0].broadcast(index);
    let y = operands.get(1).map_or(0.0, |view| view.broadcast(index));
    match op {
        "Add" => x + y,
        "Sub" => x - y,
        "Mul" => x * y,
        "Neg" => -x,
        "Sigmoid" => 1.0 / (1.0 + (-x).exp()),
        _ if x < 0.0 => 0.0,
        _ => x,
    }
}

/// As [`function`], where each result takes the place of an element of the left operand.
fn overwritten(op: &str, operands: &[View<'_>], shape: &[usize]) -> Vec<f32> {
    let mut left = operands[0].data.to_vec();
    left.resize(left.len().max(count(shape)), 0.0);
    let mut place = 0;
    elements(shape, |index| {
        let mut operands = operands.to_vec();
        operands[0].data = &left;
        let value = function(op, &operands, index);
        left[place] = value;
        place += 1;
        value
    })
}
