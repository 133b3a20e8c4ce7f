//! `Conv` over one to three spatial axes, as a matrix product of the weights with the unfolded input.

use byoc_plugin_api::Error;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayD, ArrayView2, ArrayViewMut2, s};

use super::array::{elements, shaped};
use super::call::{Call, Outputs};
use super::window::{AXES, Window};
use super::{FLOAT, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Conv", conv, &[FLOAT, SAME]),
];

/// Output positions that are unfolded at a time: enough for the product to be fast, few enough to stay small.
const BLOCK: usize = 4096;

/// `Conv`.
pub(crate) fn conv(call: &Call<'_, '_>) -> Outputs {
    let bias = call.optional(2).map(|bias| bias.to_f64().into_raw_vec_and_offset().0);
    call.rounded(convolve(call, call.input(0)?.to_f64(), call.input(1)?.to_f64(), bias)?)
}

/// The convolution that the node's attributes describe, of any input and weights.
pub(super) fn convolve(
    call: &Call<'_, '_>,
    x: ArrayD<f64>,
    weights: ArrayD<f64>,
    bias: Option<Vec<f64>>,
) -> Result<ArrayD<f64>, Error> {
    let (&[batch, channels, ref spatial @ ..], &[filters, depth, ref kernel @ ..]) = (x.shape(), weights.shape())
    else {
        return Err(Error::new("Conv needs tensors of rank 3 or more"));
    };
    let groups = usize::try_from(call.node.int("group", 1)).unwrap_or(0);
    if groups == 0 || filters % groups != 0 || depth.checked_mul(groups) != Some(channels) {
        return Err(Error::new(format!(
            "weights {:?} do not fit an input {:?} in {groups} groups",
            weights.shape(),
            x.shape()
        )));
    }
    let window = Window::new(call.node, spatial, Some(kernel))?;
    if bias.as_ref().is_some_and(|bias| bias.len() != filters) {
        return Err(Error::new("the bias of Conv does not have one element a filter"));
    }
    let shape = [&[batch, filters], window.output_shape()].concat();
    let mut y = vec![0.0; call.count(&shape)?];
    let (x, weights) = (x.view(), weights.view());
    let (x, weights) = (elements(&x), elements(&weights));
    let (size, positions): (usize, usize) = (spatial.iter().product(), window.output.iter().product());
    let taps = depth * kernel.iter().product::<usize>();
    let per_group = filters / groups;
    if let Some(bias) = &bias {
        for (plane, &bias) in y.chunks_mut(positions.max(1)).zip(bias.iter().cycle()) {
            plane.fill(bias);
        }
    }
    for start in (0..positions).step_by(BLOCK) {
        let end = (start + BLOCK).min(positions);
        let sources = sources(&window, start..end);
        for (n, g) in (0..batch).flat_map(|n| (0..groups).map(move |g| (n, g))) {
            let input = &x[(n * channels + g * depth) * size..][..depth * size];
            let first = g * per_group;
            let filter = ArrayView2::from_shape([per_group, taps], &weights[first * taps..][..per_group * taps]);
            let output = &mut y[(n * filters + first) * positions..][..per_group * positions];
            let output = ArrayViewMut2::from_shape([per_group, positions], output);
            let (Ok(filter), Ok(mut output)) = (filter, output) else {
                return Err(Error::new("the sizes of Conv do not match"));
            };
            let columns = unfold(&sources, input, depth);
            general_mat_mul(1.0, &filter, &columns, 1.0, &mut output.slice_mut(s![.., start..end]));
        }
    }
    shaped(&shape, y)
}

/// For each element of the kernel, the offset within a channel that each output position takes; none on padding.
fn sources(window: &Window, positions: std::ops::Range<usize>) -> Vec<Vec<Option<usize>>> {
    let [_, rows, columns] = window.input;
    let [depth, kernel_rows, kernel_columns] = window.kernel;
    let places: Vec<[usize; AXES]> = positions.map(|position| window.unravel(position)).collect();
    let source = |place: &[usize; AXES], tap: [usize; AXES]| {
        let d = window.source(0, place[0], tap[0])?;
        let h = window.source(1, place[1], tap[1])?;
        let w = window.source(2, place[2], tap[2])?;
        Some((d * rows + h) * columns + w)
    };
    let taps = (0..depth).flat_map(|d| (0..kernel_rows).flat_map(move |h| (0..kernel_columns).map(move |w| [d, h, w])));
    taps.map(|tap| places.iter().map(|place| source(place, tap)).collect()).collect()
}

/// One row for each channel and element of the kernel, one column for each output position; padding is 0.
fn unfold(sources: &[Vec<Option<usize>>], input: &[f64], channels: usize) -> Array2<f64> {
    let positions = sources.first().map_or(0, Vec::len);
    let mut unfolded = Array2::zeros((channels * sources.len(), positions));
    let rows = input
        .chunks((input.len() / channels.max(1)).max(1))
        .flat_map(|channel| sources.iter().map(move |tap| (channel, tap)));
    for (mut row, (channel, tap)) in unfolded.rows_mut().into_iter().zip(rows) {
        for (to, source) in row.iter_mut().zip(tap) {
            *to = source.map_or(0.0, |source| channel[source]);
        }
    }
    unfolded
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, list, tensor, text};

    #[test]
    fn windows_groups_and_padding() {
        let ones = |shape: &[usize]| tensor(shape, &vec![1f32; shape.iter().product()]);
        let line = |attributes: &[(&str, Attribute)]| {
            first("Conv", attributes, vec![counting(&[1, 1, 5]), ones(&[1, 1, 2]), tensor(&[1], &[0.5f32])]).1
        };
        assert_eq!(line(&[]), [3.5, 5.5, 7.5, 9.5]);
        assert_eq!(line(&[("dilations", list(&[3]))]), [5.5, 7.5]);
        assert_eq!(line(&[("strides", list(&[2])), ("auto_pad", text("SAME_UPPER"))]), [3.5, 7.5, 5.5]);
        assert_eq!(line(&[("strides", list(&[2])), ("auto_pad", text("SAME_LOWER"))]), [1.5, 5.5, 9.5]);
        let grouped = first("Conv", &[("group", Attribute::Int(2))], vec![counting(&[1, 2, 2]), counting(&[4, 1, 1])]);
        assert_eq!(grouped, (vec![1, 4, 2], vec![1.0, 2.0, 2.0, 4.0, 9.0, 12.0, 12.0, 16.0]));
        assert_eq!(first("Conv", &[], vec![ones(&[2, 3, 2, 2, 2]), ones(&[1, 3, 2, 2, 2])]).1, [24.0, 24.0]);
    }

    #[test]
    fn nothing_in_gives_the_bias_or_nothing() {
        let weights = || counting(&[1, 1, 2]);
        assert_eq!(first("Conv", &[], vec![counting(&[0, 1, 5]), weights()]).0, [0, 1, 4]);
        let pads = [("pads", list(&[2, 1]))];
        let padding = first("Conv", &pads, vec![counting(&[1, 1, 0]), weights(), counting(&[1])]);
        assert_eq!(padding, (vec![1, 1, 2], vec![1.0, 1.0]));
        assert!(all("Conv", &[], vec![counting(&[1, 2, 5]), weights()]).is_err());
    }
}
