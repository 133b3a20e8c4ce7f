//! Poolings over one or two spatial axes, and over all of them.

use byoc_plugin_api::{Error, Window};

use super::{Windows, two};
use crate::call::{Call, refused};
use crate::tensor::{Tensor, View, count};

pub(super) fn pool(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let Some(shape) = call.wanted.as_ref().filter(|shape| shape.len() == x.shape.len() && shape.len() > 2) else {
        return Err(Error::new("the shape of a pooling is told by the region"));
    };
    let (spatial, axes) = (&x.shape[2..], x.shape.len() - 2);
    let mut windows = Windows::of(&Window::over(call.node, spatial, None).map_err(refused)?);
    let size = two(spatial, 1);
    let floor = [windows.count(0, size[0]), windows.count(1, size[1])];
    let padded = [0, 1].map(|axis| windows.begin[axis] + size[axis] + windows.end[axis]);
    if call.has("pool-pads-swapped") {
        windows.begin = windows.end;
    }
    if call.has("pool-strides-swapped") && axes == 2 {
        windows.strides.swap(0, 1);
    }
    if call.has("pool-kernel-swapped") && axes == 2 {
        windows.kernel.swap(0, 1);
    }
    if call.has("pool-dilation-ignored") {
        windows.dilations = [1, 1];
    }
    let pooled = Pooled { call, x, windows, size, padded };
    Ok(Tensor::of(shape, |index| {
        let mut window = two(&index[2..], 0);
        for axis in 0..2 {
            if call.has("pool-ceil-ignored") && window[axis] >= floor[axis] {
                window[axis] = floor[axis].saturating_sub(1);
            }
        }
        let channel = if call.has("pool-channels-16") { index[1] % 16 } else { index[1] };
        pooled.at((index[0] * x.shape[1] + channel) * size[0] * size[1], window)
    }))
}

struct Pooled<'a> {
    call: &'a Call<'a>,
    x: View<'a>,
    windows: Windows,
    /// Height and width of the input.
    size: [usize; 2],
    /// The same with padding.
    padded: [usize; 2],
}

impl Pooled<'_> {
    /// The result of a window of the image that begins at a place of the input.
    fn at(&self, image: usize, window: [usize; 2]) -> f32 {
        let Pooled { call, x, windows, size, padded } = self;
        let is_max = call.node.op == "MaxPool";
        let (mut values, mut padding, mut beyond) = (Vec::new(), 0, 0);
        for ky in 0..windows.kernel[0] {
            for kx in 0..windows.kernel[1] {
                let at =
                    [0, 1].map(|axis| window[axis] * windows.strides[axis] + [ky, kx][axis] * windows.dilations[axis]);
                let places = [0, 1].map(|axis| windows.place(axis, window[axis], [ky, kx][axis], size[axis]));
                match places {
                    [Some(y), Some(z)] => values.push(x.nth(image + y * size[1] + z)),
                    _ if at[0] < padded[0] && at[1] < padded[1] => padding += 1,
                    _ => beyond += 1,
                }
            }
        }
        match is_max {
            true => self.maximum(&values, padding),
            false => self.average(&values, padding, beyond),
        }
    }

    fn maximum(&self, values: &[f32], padding: usize) -> f32 {
        let call = self.call;
        let zero = call.has("max-padding-zero") && padding > 0 || call.has("max-from-zero");
        let start = if zero { 0.0 } else { f32::NEG_INFINITY };
        let nan = !call.has("max-nan");
        values.iter().fold(start, |most, &value| maximum(most, value, nan))
    }

    fn average(&self, values: &[f32], padding: usize, beyond: usize) -> f32 {
        let call = self.call;
        let mut counts = call.node.int("count_include_pad", 0) != 0;
        if call.has("average-include-pad-ignored") {
            counts = false;
        }
        if call.has("average-include-pad-always") {
            counts = true;
        }
        let mut elements = if counts { values.len() + padding } else { values.len() };
        if call.has("average-overhang") && counts {
            elements += beyond;
        }
        values.iter().sum::<f32>() / elements as f32
    }
}

/// The greater of two numbers; NaN stays, if that is wanted.
pub(crate) fn maximum(a: f32, b: f32, nan: bool) -> f32 {
    if nan && (a.is_nan() || b.is_nan()) { f32::NAN } else { a.max(b) }
}

pub(super) fn global(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    if x.shape.len() < 3 {
        return Err(Error::new(format!("{} of {:?}", call.node.op, x.shape)));
    }
    let elements = count(&x.shape[2..]);
    let shape: Vec<usize> = x.shape[..2].iter().copied().chain(x.shape[2..].iter().map(|_| 1)).collect();
    Ok(Tensor::of(&shape, |index| {
        let image = (index[0] * x.shape[1] + index[1]) * elements;
        let mut values = (image..image + elements).map(|place| x.nth(place));
        if call.node.op == "GlobalMaxPool" {
            let start = if call.has("global-max-from-zero") { 0.0 } else { f32::NEG_INFINITY };
            return values.fold(start, |most, value| maximum(most, value, true));
        }
        if call.has("global-average-one-axis") {
            let row = x.shape.last().copied().unwrap_or(1);
            return values.take(row).sum::<f32>() / row as f32;
        }
        let divisor = if call.has("global-average-square") { x.shape[2] * x.shape[2] } else { elements };
        values.by_ref().sum::<f32>() / divisor as f32
    }))
}
