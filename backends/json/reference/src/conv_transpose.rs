//! `ConvTranspose` over one to three spatial axes: a matrix product of the weights with the input, whose rows are added up where the
//! windows lie on the output.

use byoc_plugin_api::{Error, TransposedWindow};
use ndarray::ArrayView2;
use ndarray::linalg::Dot;

use super::array::{elements, shaped};
use super::call::{Call, Outputs};
use super::window::{AXES, filled};
use super::{FLOAT, Kernel, SAME, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("ConvTranspose", conv_transpose, &[FLOAT, SAME])];

/// Input positions that are multiplied at a time: enough for the product to be fast, few enough to stay small.
const BLOCK: usize = 4096;

/// `ConvTranspose`.
pub(crate) fn conv_transpose(call: &Call<'_, '_>) -> Outputs {
    let (x, weights) = (call.input(0)?.to_f64(), call.input(1)?.to_f64());
    let (&[batch, channels, ref spatial @ ..], &[depth, per_group, ref kernel @ ..]) = (x.shape(), weights.shape())
    else {
        return Err(Error::new("ConvTranspose needs tensors of rank 3 or more"));
    };
    if !(1..=AXES).contains(&spatial.len()) || kernel.len() != spatial.len() {
        return Err(Error::new(format!("ConvTranspose over {} spatial axes", spatial.len())));
    }
    let groups = usize::try_from(call.node.int("group", 1)).unwrap_or(0);
    if groups == 0 || channels != depth || channels % groups != 0 {
        let (weights, x) = (weights.shape(), x.shape());
        return Err(Error::new(format!("weights {weights:?} do not fit an input {x:?} in {groups} groups")));
    }
    let window = TransposedWindow::over(call.node, spatial, kernel).map_err(|refusal| Error::new(refusal.message))?;
    let filters = per_group.checked_mul(groups).ok_or_else(|| Error::new("ConvTranspose has too many groups"))?;
    let shape = [&[batch, filters], window.output.as_slice()].concat();
    let mut y = vec![0.0; call.count(&shape)?];
    let [size, positions, taps] = [spatial, &window.output, kernel].map(|sizes| sizes.iter().product::<usize>());
    if let Some(bias) = call.optional(2).map(|bias| bias.to_f64()) {
        if bias.len() != filters {
            return Err(Error::new("the bias of ConvTranspose does not have one element a filter"));
        }
        for (plane, &bias) in y.chunks_mut(positions.max(1)).zip(bias.iter().cycle()) {
            plane.fill(bias);
        }
    }
    let (x, weights) = (x.view(), weights.view());
    let (x, weights) = (elements(&x), elements(&weights));
    let per = channels / groups;
    for start in (0..size).step_by(BLOCK) {
        let block = start..(start + BLOCK).min(size);
        let targets = targets(&window, spatial, block.clone());
        for (n, g) in (0..batch).flat_map(|n| (0..groups).map(move |g| (n, g))) {
            let input = ArrayView2::from_shape([per, size], &x[(n * channels + g * per) * size..][..per * size]);
            let filter = &weights[g * per * per_group * taps..][..per * per_group * taps];
            let filter = ArrayView2::from_shape([per, per_group * taps], filter);
            let (Ok(input), Ok(filter)) = (input, filter) else {
                return Err(Error::new("the sizes of ConvTranspose do not match"));
            };
            let product = filter.t().dot(&input.slice(ndarray::s![.., block.clone()]));
            for (row, values) in product.rows().into_iter().enumerate() {
                let plane = &mut y[(n * filters + g * per_group + row / taps) * positions..][..positions];
                for (value, target) in values.iter().zip(&targets[row % taps]) {
                    if let Some(target) = target {
                        plane[*target] += value;
                    }
                }
            }
        }
    }
    call.rounded(shaped(&shape, y)?)
}

/// For each element of the kernel, the offset within an output channel that each input position adds to; none where it is cut off.
fn targets(window: &TransposedWindow, spatial: &[usize], positions: std::ops::Range<usize>) -> Vec<Vec<Option<usize>>> {
    let ones = |sizes: &[usize]| filled(sizes, 1);
    let (kernel, strides, dilations) = (ones(&window.kernel), ones(&window.strides), ones(&window.dilations));
    let (begin, output, [_, rows, columns]) = (filled(&window.begin, 0), ones(&window.output), ones(spatial));
    let target = |axis: usize, position: usize, tap: usize| {
        let place = position * strides[axis] + tap * dilations[axis];
        place.checked_sub(begin[axis]).filter(|&place| place < output[axis])
    };
    let one = |position: usize, [d, h, w]: [usize; AXES]| {
        let depth = target(0, position / columns / rows, d)?;
        let row = target(1, position / columns % rows, h)?;
        Some((depth * output[1] + row) * output[2] + target(2, position % columns, w)?)
    };
    let taps = (0..kernel[0]).flat_map(|d| (0..kernel[1]).flat_map(move |h| (0..kernel[2]).map(move |w| [d, h, w])));
    taps.map(|tap| positions.clone().map(|position| one(position, tap)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, list, tensor};

    #[test]
    fn windows_add_up_where_they_overlap() {
        let line = |attributes: &[(&str, Attribute)]| {
            let weights = tensor(&[1, 1, 2], &[1f32, 10.0]);
            first("ConvTranspose", attributes, vec![counting(&[1, 1, 3]), weights, tensor(&[1], &[0.5f32])]).1
        };
        assert_eq!(line(&[]), [1.5, 12.5, 23.5, 30.5]);
        assert_eq!(line(&[("strides", list(&[2]))]), [1.5, 10.5, 2.5, 20.5, 3.5, 30.5]);
        assert_eq!(line(&[("dilations", list(&[2])), ("pads", list(&[1, 0]))]), [2.5, 13.5, 20.5, 30.5]);
        let wider = [("strides", list(&[3])), ("output_padding", list(&[2])), ("pads", list(&[1, 3]))];
        assert_eq!(line(&wider), [10.5, 0.5, 2.5, 20.5, 0.5, 3.5]);
        assert_eq!(line(&[("output_shape", list(&[6]))]), [1.5, 12.5, 23.5, 30.5, 0.5, 0.5]);
        let grouped =
            first("ConvTranspose", &[("group", Attribute::Int(2))], vec![counting(&[1, 2, 2]), counting(&[2, 2, 1])]);
        assert_eq!(grouped, (vec![1, 4, 2], vec![1.0, 2.0, 2.0, 4.0, 9.0, 12.0, 12.0, 16.0]));
    }

    #[test]
    fn nothing_in_gives_the_bias_and_wrong_sizes_are_errors() {
        let empty =
            first("ConvTranspose", &[], vec![tensor::<f32>(&[1, 1, 0], &[]), counting(&[1, 1, 3]), counting(&[1])]);
        assert_eq!(empty, (vec![1, 1, 2], vec![1.0, 1.0]));
        let error = |attributes: &[(&str, Attribute)], weights: &[usize]| {
            let found = all("ConvTranspose", attributes, vec![counting(&[1, 2, 3]), counting(weights)]);
            found.expect_err("sizes that do not fit").message
        };
        assert_eq!(error(&[], &[3, 1, 1]), "weights [3, 1, 1] do not fit an input [1, 2, 3] in 1 groups");
        assert_eq!(
            error(&[("group", Attribute::Int(0))], &[2, 1, 1]),
            "weights [2, 1, 1] do not fit an input [1, 2, 3] in 0 groups"
        );
        assert_eq!(error(&[("pads", list(&[9, 0]))], &[2, 1, 1]), "'node' has sizes that leave no output");
    }
}
