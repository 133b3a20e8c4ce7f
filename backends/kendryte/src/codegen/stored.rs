//! The constants of a region as layers want them: numbers, or the bytes of a model that is quantised.

use byoc_plugin_api::{DType, Error, Node, TensorView};

use super::Network;
use crate::given::{SIGN, Stored, check_step, one_zero, stored};
use crate::quantize::Weights;

/// Weights, one row an output: `[oc][ic][kh][kw]`, `[c][kh][kw]` when depthwise, `[out][in]`.
pub(super) enum Rows {
    Real(Vec<f32>),
    /// `(byte - zero) * step`, with a step for each output.
    Levels {
        bytes: Vec<u8>,
        zero: u8,
        steps: Vec<f32>,
    },
}

impl Rows {
    /// For quantisation.
    pub(super) fn weights(&self) -> Weights<'_> {
        match self {
            Rows::Real(weights) => Weights::Real(weights),
            Rows::Levels { bytes, zero, steps } => Weights::Levels { bytes, zero: *zero, steps },
        }
    }

    /// As numbers.
    pub(super) fn real(self) -> Vec<f32> {
        match self {
            Rows::Real(weights) => weights,
            Rows::Levels { bytes, zero, steps } => {
                let size = (bytes.len() / steps.len().max(1)).max(1);
                let real = |(index, &byte): (usize, &u8)| (f32::from(byte) - f32::from(zero)) * steps[index / size];
                bytes.iter().enumerate().map(real).collect()
            }
        }
    }

    /// Of a matrix with an output in each column.
    pub(super) fn transposed(self, columns: usize) -> Rows {
        match self {
            Rows::Real(weights) => Rows::Real(transposed(&weights, columns)),
            Rows::Levels { bytes, zero, steps } => Rows::Levels { bytes: transposed(&bytes, columns), zero, steps },
        }
    }

    /// All of them times a number.
    pub(super) fn times(mut self, factor: f32) -> Rows {
        match &mut self {
            Rows::Real(numbers) | Rows::Levels { steps: numbers, .. } => {
                numbers.iter_mut().for_each(|number| *number *= factor);
            }
        }
        self
    }
}

fn transposed<T: Copy>(matrix: &[T], columns: usize) -> Vec<T> {
    (0..columns).flat_map(|column| matrix.iter().skip(column).step_by(columns).copied()).collect()
}

impl Network<'_> {
    fn missing(&self, value: usize) -> Error {
        Error::new(format!("the bytes of '{}' are not there", self.region.values[value].name))
    }

    fn view(&self, value: usize) -> Result<&TensorView<'_>, Error> {
        let constant = self.region.constant(value).ok_or_else(|| self.missing(value))?;
        self.constants.get(constant.id).ok_or_else(|| self.missing(value))
    }

    /// The elements of a constant, or of what is dequantised of one.
    pub(super) fn floats(&self, value: usize) -> Result<Vec<f32>, Error> {
        let Stored { value: tensor, node } = stored(self.region, value).ok_or_else(|| self.missing(value))?;
        let Some(node) = node else { return self.view(tensor)?.to_vec::<f32>() };
        let integers = self.integers(tensor)?;
        let (steps, zeros) = (self.steps(node, integers.len())?, self.zeros(node, integers.len())?);
        let real = |((&integer, step), zero): ((&i64, f32), i64)| (integer - zero) as f32 * step;
        Ok(integers.iter().zip(steps).zip(zeros).map(real).collect())
    }

    pub(super) fn input(&self, node: &Node, index: usize) -> Result<Option<Vec<f32>>, Error> {
        node.input(index).map(|value| self.floats(value)).transpose()
    }

    /// Weights as they are, for this many outputs.
    pub(super) fn rows(&self, value: usize, outputs: usize) -> Result<Rows, Error> {
        let Stored { value: tensor, node } = stored(self.region, value).ok_or_else(|| self.missing(value))?;
        let Some(node) = node else { return Ok(Rows::Real(self.view(tensor)?.to_vec::<f32>()?)) };
        let name = &self.region.values[tensor].name;
        let (steps, zeros) = (self.steps(node, outputs)?, self.zeros(node, outputs)?);
        steps.iter().try_for_each(|&step| check_step(name, step.into())).map_err(super::refused)?;
        let zero = one_zero(name, &zeros).map_err(super::refused)?;
        let view = self.view(tensor)?;
        let (bytes, zero) = if view.dtype() == DType::I8 {
            (view.to_vec::<i8>()?.into_iter().map(|weight| weight as u8 ^ SIGN).collect(), zero + i64::from(SIGN))
        } else {
            (view.to_vec::<u8>()?, zero)
        };
        Ok(Rows::Levels { bytes, zero: zero as u8, steps })
    }

    /// The scales of a node that dequantises, one for each of `count`.
    fn steps(&self, node: &Node, count: usize) -> Result<Vec<f32>, Error> {
        let scale = node.input(1).ok_or_else(|| Error::new("a scale is missing").at(&node.name))?;
        Ok(each(self.view(scale)?.to_vec::<f32>()?, count))
    }

    /// The zero points of a node that dequantises, one for each of `count`.
    fn zeros(&self, node: &Node, count: usize) -> Result<Vec<i64>, Error> {
        let zeros = node.input(2).map_or_else(|| Ok(vec![0]), |zeros| self.integers(zeros))?;
        Ok(each(zeros, count))
    }

    fn integers(&self, value: usize) -> Result<Vec<i64>, Error> {
        let view = self.view(value)?;
        match view.dtype() {
            DType::I8 => Ok(view.to_vec::<i8>()?.into_iter().map(i64::from).collect()),
            DType::U8 => Ok(view.to_vec::<u8>()?.into_iter().map(i64::from).collect()),
            _ => Ok(view.to_vec::<i32>()?.into_iter().map(i64::from).collect()),
        }
    }
}

/// One for each: what is one for all is repeated.
fn each<T: Copy>(list: Vec<T>, count: usize) -> Vec<T> {
    match *list.as_slice() {
        [one] => vec![one; count],
        _ => list,
    }
}
