//! Transposed convolutions of two spatial axes: each element of the input has a window on the output.

use byoc_plugin_api::{Error, TransposedWindow};

use super::two;
use crate::call::{Call, refused};
use crate::tensor::{Tensor, View};

pub(super) fn convolution(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, w, bias) = (call.x(0)?, call.x(1)?, call.maybe(2)?);
    let (&[batch, channels, height, width], &[_, each, _, _]) = (x.shape, w.shape) else {
        return Err(Error::new(format!("ConvTranspose of {:?} with weights {:?}", x.shape, w.shape)));
    };
    let window = TransposedWindow::over(call.node, &[height, width], &w.shape[2..]).map_err(refused)?;
    let group = usize::try_from(call.node.int("group", 1)).unwrap_or(1).max(1);
    let output = two(&window.output, 1);
    let more = two(&call.sizes("output_padding").unwrap_or_default(), 0);
    let sums = Sums { call, x, w, window: planted(call, window), channels, each, group };
    Ok(Tensor::of(&[batch, each * group, output[0], output[1]], |index| {
        let bias = if call.has("deconv-bias-ignored") { 0.0 } else { bias.map_or(0.0, |bias| bias.nth(index[1])) };
        let added = index[2] + more[0] >= output[0] && more[0] > 0 || index[3] + more[1] >= output[1] && more[1] > 0;
        if call.has("deconv-output-padding-ignored") && added {
            return bias;
        }
        sums.at(index) + bias
    }))
}

/// The windows with what is planted in them.
fn planted(call: &Call<'_>, mut window: TransposedWindow) -> TransposedWindow {
    if call.has("deconv-pads-swapped")
        && let Some(pads) = call.sizes("pads")
    {
        window.begin = pads[pads.len() / 2..].to_vec();
    }
    if call.has("deconv-strides-swapped") {
        window.strides.reverse();
    }
    if call.has("deconv-dilation-ignored") {
        window.dilations = vec![1; 2];
    }
    window
}

struct Sums<'a> {
    call: &'a Call<'a>,
    x: View<'a>,
    w: View<'a>,
    window: TransposedWindow,
    channels: usize,
    /// Output channels of a group.
    each: usize,
    group: usize,
}

impl Sums<'_> {
    fn at(&self, index: &[usize]) -> f32 {
        let Sums { call, x, w, window, channels, each, group } = self;
        let depth = channels / group;
        let (own, kernel) = (index[1] / each, [window.kernel[0], window.kernel[1]]);
        let mut sum = 0.0;
        for c in own * depth..(own + 1) * depth {
            let read = if call.has("deconv-group-first") { c % depth } else { c };
            for ky in 0..kernel[0] {
                for kx in 0..kernel[1] {
                    let (Some(y), Some(z)) = (self.source(0, index[2], ky), self.source(1, index[3], kx)) else {
                        continue;
                    };
                    let mut weight = [c, index[1] % each, ky, kx];
                    if call.has("deconv-kernel-turned") {
                        weight = [c, index[1] % each, kernel[0] - 1 - ky, kernel[1] - 1 - kx];
                    }
                    let value = match call.has("deconv-weights-transposed") {
                        true => w.nth(((weight[1] * channels + c) * kernel[0] + weight[2]) * kernel[1] + weight[3]),
                        false => w.at(&weight),
                    };
                    sum += x.at(&[index[0], read, y, z]) * value;
                }
            }
        }
        sum
    }

    /// The element of the input whose window has that element at a place of the output, if there is one.
    fn source(&self, axis: usize, output: usize, element: usize) -> Option<usize> {
        let Sums { x, window, .. } = self;
        let from = (output + window.begin[axis]).checked_sub(element * window.dilations[axis])?;
        let place = from / window.strides[axis];
        (from.is_multiple_of(window.strides[axis]) && place < x.shape[2 + axis]).then_some(place)
    }
}
