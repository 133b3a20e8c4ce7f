//! Loads code and constants as an executable, which computes as the DSP would: with rounded weights, in f32.

use byoc_plugin_api::{BoundConstants, Environment, Error, Executable, HostRuntime, TensorView, TensorViewMut};

use crate::Tarn;
use crate::codegen::{Op, Program, Windows};
use crate::packing::{Matrix, unpack};

struct Loaded {
    program: Program,
    weights: Matrix,
    bias: Vec<f32>,
    /// What the sums of one place are added up in.
    sums: Vec<f32>,
}

impl HostRuntime for Tarn {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let program: Program = serde_json::from_slice(code)?;
        let Program { rows, columns, .. } = program;
        let elements = constants.iter().map(|constant| constant.view.byte_len()).max().unwrap_or_default();
        if rows.checked_mul(columns).is_none_or(|count| count > elements.saturating_mul(2)) {
            return Err(Error::new("damaged code: a matrix that is larger than its constant"));
        }
        let sizes = (rows, columns, matches!(program.op, Op::Conv(_)));
        let weights = unpack(constants, program.weights, program.form, sizes, program.bug == "scale-of-next")?;
        let bias = match program.bias {
            Some(id) => constants.host(id)?.to_vec::<f32>()?,
            None => vec![0.0; columns],
        };
        if weights.elements.len() != rows * columns || bias.len() != columns {
            return Err(Error::new("damaged code: constants of other sizes"));
        }
        byoc_plugin_api::log(format!("{rows} x {columns} weights as {:?}", program.form));
        Ok(Box::new(Loaded { sums: vec![0.0; columns], program, weights, bias }))
    }
}

fn f32s<'a>(view: &TensorView<'a>) -> Result<&'a [f32], Error> {
    view.as_slice().ok_or_else(|| Error::new("expected f32"))
}

fn sizes(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&size| size as usize).collect()
}

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let ([x], [y, others @ ..]) = (inputs, outputs) else { return Err(Error::new("expected one input")) };
        let (data, in_shape, out_shape) = (f32s(x)?, sizes(x.shape()), sizes(y.shape()));
        let out = y.as_mut_slice::<f32>().ok_or_else(|| Error::new("expected f32"))?;
        match &self.program.op {
            Op::MatMul if in_shape.last() == Some(&self.weights.rows) => {
                for (row, out) in data.chunks(self.weights.rows.max(1)).zip(out.chunks_mut(self.weights.columns.max(1)))
                {
                    out.fill(0.0);
                    for (x, weights) in row.iter().zip(0..) {
                        add(out, *x, self.weights.row(weights));
                    }
                }
            }
            Op::Conv(windows) if in_shape.len() == 4 && out_shape.len() == 4 => {
                convolve(windows, &self.weights, &self.bias, &mut self.sums, (data, &in_shape), (out, &out_shape))?;
            }
            _ => return Err(Error::new("damaged code: an input of another shape")),
        }
        if self.program.bug == "plus-one" {
            out.iter_mut().for_each(|value| *value += 1.0);
        }
        for (other, is_behind) in others.iter_mut().zip(self.program.relu.iter().skip(1)) {
            let other = other.as_mut_slice::<f32>().filter(|other| other.len() == out.len());
            let other = other.ok_or_else(|| Error::new("expected outputs of one size"))?;
            other.copy_from_slice(out);
            relu(other, *is_behind);
        }
        relu(out, self.program.relu.first().is_some_and(|&is_behind| is_behind));
        Ok(())
    }
}

fn relu(values: &mut [f32], is_wanted: bool) {
    if is_wanted {
        values.iter_mut().filter(|value| **value < 0.0).for_each(|value| *value = 0.0);
    }
}

fn add(sums: &mut [f32], x: f32, weights: &[f32]) {
    sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += x * weight);
}

fn convolve(
    windows: &Windows,
    weights: &Matrix,
    bias: &[f32],
    sums: &mut [f32],
    (x, shape): (&[f32], &[usize]),
    (y, out_shape): (&mut [f32], &[usize]),
) -> Result<(), Error> {
    let Windows { kernel, strides, dilations, begin, groups } = windows;
    let (&[_, channels, height, width], &[images, filters, rows, columns]) = (shape, out_shape) else {
        return Err(Error::new("expected four dimensions"));
    };
    let taps = kernel.iter().product::<usize>();
    if *groups == 0 || channels / groups * taps != weights.rows || filters != weights.columns {
        return Err(Error::new("damaged code: weights of another shape"));
    }
    let place = |axis: usize, window: usize, tap: usize, size: usize| {
        (window * strides[axis] + tap * dilations[axis]).checked_sub(begin[axis]).filter(|&at| at < size)
    };
    let of_group = filters / groups;
    for at in 0..images * rows * columns {
        let (image, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
        sums.copy_from_slice(bias);
        for group in 0..*groups {
            let mine = group * of_group..(group + 1) * of_group;
            for index in 0..weights.rows {
                let (channel, tap) = (group * (channels / groups) + index / taps, index % taps);
                let (down, right) = (tap / kernel[1], tap % kernel[1]);
                let Some(from) = place(0, row, down, height).zip(place(1, column, right, width)) else { continue };
                let x = x[((image * channels + channel) * height + from.0) * width + from.1];
                add(&mut sums[mine.clone()], x, &weights.row(index)[mine.clone()]);
            }
        }
        for (filter, sum) in sums.iter().enumerate() {
            y[((image * filters + filter) * rows + row) * columns + column] = *sum;
        }
    }
    Ok(())
}
