//! `Col2Im`, which adds up blocks of an image, and `DeformConv`, a convolution at positions that a tensor moves.

use byoc_plugin_api::Error;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewD, ArrayViewMut2, s};

use super::array::{Array, Item, dims, each_number, elements, shaped};
use super::call::{Call, Outputs};
use super::number::Number;
use super::window::{AXES, Window};
use super::{ANY, FLOAT, I64, Kernel, SAME, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] =
    &[kernel("Col2Im", col_2_im, &[ANY, I64]), kernel("DeformConv", deform_conv, &[FLOAT, SAME])];

/// How the blocks of `Col2Im` lie on an image of any number of dimensions.
struct Blocks {
    image: Vec<usize>,
    window: byoc_plugin_api::Window,
    /// Blocks along each axis.
    count: Vec<usize>,
}

impl Blocks {
    fn of(call: &Call<'_, '_>) -> Result<Blocks, Error> {
        let list =
            |index: usize| call.ints(index).ok_or_else(|| Error::new("Col2Im needs image_shape and block_shape"));
        let (image, block) = (dims(&list(1)?)?, dims(&list(2)?)?);
        let window = byoc_plugin_api::Window::of(call.node, image.len(), Some(&block));
        let window = window.map_err(|refusal| Error::new(refusal.message))?;
        let count = |axis: usize| {
            let padded = image[axis].checked_add(window.begin[axis])?.checked_add(window.end[axis])?;
            Some(padded.checked_sub(window.span(axis)?)? / window.strides[axis] + 1)
        };
        let count: Option<Vec<usize>> = (0..image.len()).map(count).collect();
        let count = count.ok_or_else(|| Error::new(format!("blocks {block:?} do not fit an image {image:?}")))?;
        super::array::count(&count)?;
        Ok(Blocks { image, window, count })
    }

    /// Where an element of a block is in the image; none on padding.
    fn place(&self, mut element: usize, mut block: usize) -> Option<usize> {
        let (mut place, mut step) = (0, 1);
        for axis in (0..self.image.len()).rev() {
            let (size, count) = (self.window.kernel[axis], self.count[axis]);
            let padded = block % count * self.window.strides[axis] + element % size * self.window.dilations[axis];
            (element, block) = (element / size, block / count);
            let at = padded.checked_sub(self.window.begin[axis]).filter(|&at| at < self.image[axis])?;
            place += at * step;
            step *= self.image[axis];
        }
        Some(place)
    }
}

/// `Col2Im`: each element of the image is the sum of those of all blocks that are on it; of booleans, whether any is true.
pub(crate) fn col_2_im(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let blocks = Blocks::of(call)?;
    let [each, count] = [&blocks.window.kernel, &blocks.count].map(|sizes| sizes.iter().product::<usize>());
    let &[batch, rows, columns] = x.shape() else {
        return Err(Error::new(format!("Col2Im of {:?}, expected 3 dimensions", x.shape())));
    };
    if rows % each != 0 || columns != count {
        return Err(Error::new(format!("Col2Im of {:?} with {count} blocks of {each} elements", x.shape())));
    }
    let shape = [vec![batch, rows / each], blocks.image.clone()].concat();
    let total = call.count(&shape)?;
    if let Array::Bool(x) = x {
        let sums = summed(&x.mapv(u8::from).view(), &blocks, total);
        return Ok(vec![Item::wrap(shaped(&shape, sums.into_iter().map(|sum| sum != 0).collect())?)]);
    }
    each_number!(x, x => Ok(vec![Item::wrap(shaped(&shape, summed(&x.view(), &blocks, total))?)]))
}

/// The images, one after another. Floats are added up in `f64`.
fn summed<T: Number>(x: &ArrayViewD<'_, T>, blocks: &Blocks, total: usize) -> Vec<T> {
    let size = blocks.image.iter().product::<usize>();
    let [each, count] = [&blocks.window.kernel, &blocks.count].map(|sizes| sizes.iter().product::<usize>());
    let x = elements(x);
    if T::DTYPE.is_float() {
        let mut sums = vec![0.0; total];
        scatter(&x, (each, count, size), blocks, |place, value| sums[place] += value.to_f64());
        return sums.into_iter().map(T::from_f64).collect();
    }
    // A boolean is 1 or 0: 256 of them may be true.
    let mut sums = vec![T::default(); total];
    scatter(&x, (each, count, size), blocks, |place, value| sums[place] = sums[place].add(value));
    sums
}

fn scatter<T: Number>(
    x: &[T],
    (each, count, size): (usize, usize, usize),
    blocks: &Blocks,
    mut add: impl FnMut(usize, T),
) {
    for (plane, values) in x.chunks((each * count).max(1)).enumerate() {
        for (index, &value) in values.iter().enumerate() {
            if let Some(place) = blocks.place(index / count, index % count) {
                add(plane * size + place, value);
            }
        }
    }
}

/// Output positions that are gathered at a time.
const BLOCK: usize = 1024;

/// Sizes of a `DeformConv`.
struct Deformed<'a> {
    window: Window,
    channels: usize,
    groups: usize,
    offset_groups: usize,
    taps: usize,
    offset: &'a [f64],
    mask: Option<&'a [f64]>,
}

impl Deformed<'_> {
    /// The elements that a tap of a position is made of, with their weights: neighbours along each axis, without those outside.
    fn neighbours(&self, n: usize, group: usize, tap: usize, position: usize) -> Vec<(usize, f64)> {
        let positions: usize = self.window.output.iter().product();
        let at = self.window.unravel(position);
        let [_, rows, columns] = self.window.kernel;
        let taps = [tap / columns / rows, tap / columns % rows, tap % columns];
        let row = (n * self.offset_groups + group) * self.taps + tap;
        let mask = self.mask.map_or(1.0, |mask| mask[row * positions + position]);
        let mut found = vec![(0, mask)];
        for axis in AXES - self.window.rank..AXES {
            let moved = row * self.window.rank + axis - (AXES - self.window.rank);
            let place = (at[axis] * self.window.stride[axis] + taps[axis] * self.window.dilation[axis]) as f64
                - self.window.begin[axis] as f64
                + self.offset[moved * positions + position];
            let (low, size) = (place.floor(), self.window.input[axis]);
            let near = [(low, 1.0 - (place - low)), (low + 1.0, place - low)];
            let inside = near.into_iter().filter(|(at, _)| *at >= 0.0 && *at < size as f64);
            let inside: Vec<_> = inside.map(|(at, weight)| (at as usize, weight)).collect();
            let join = |&(offset, weight): &(usize, f64)| {
                inside.iter().map(move |&(at, more)| (offset * size + at, weight * more)).collect::<Vec<_>>()
            };
            found = found.iter().flat_map(join).collect();
        }
        found
    }
}

/// `DeformConv`: each element of the kernel takes what is between elements at a position of its own, 0 outside of the input.
pub(crate) fn deform_conv(call: &Call<'_, '_>) -> Outputs {
    let [x, weights, offset] = [0, 1, 2].map(|index| call.input(index).map(Array::to_f64));
    let (x, weights, offset) = (x?, weights?, offset?);
    let (bias, mask) = (call.optional(3).map(Array::to_f64), call.optional(4).map(Array::to_f64));
    let (&[batch, channels, ref spatial @ ..], &[filters, depth, ref kernel @ ..]) = (x.shape(), weights.shape())
    else {
        return Err(Error::new("DeformConv needs tensors of rank 3 or more"));
    };
    let [groups, offset_groups] =
        ["group", "offset_group"].map(|name| usize::try_from(call.node.int(name, 1)).unwrap_or(0));
    let divided = groups > 0 && offset_groups > 0 && filters % groups == 0 && channels % offset_groups == 0;
    if !divided || depth.checked_mul(groups) != Some(channels) {
        let (weights, x) = (weights.shape(), x.shape());
        return Err(Error::new(format!("weights {weights:?} do not fit an input {x:?} in {groups} groups")));
    }
    let window = Window::new(call.node, spatial, Some(kernel))?;
    let taps: usize = kernel.iter().product();
    let moved = |rows: usize| [&[batch, offset_groups * taps * rows], window.output_shape()].concat();
    let fits = bias.as_ref().is_none_or(|bias| bias.len() == filters)
        && mask.as_ref().is_none_or(|mask| mask.shape() == moved(1))
        && offset.shape() == moved(kernel.len());
    if !fits {
        return Err(Error::new("offset, bias or mask of DeformConv do not fit its input"));
    }
    let shape = [&[batch, filters], window.output_shape()].concat();
    let mut y = vec![0.0; call.count(&shape)?];
    let positions: usize = window.output.iter().product();
    if let Some(bias) = &bias {
        for (plane, &bias) in y.chunks_mut(positions.max(1)).zip(bias.iter().cycle()) {
            plane.fill(bias);
        }
    }
    let [x, weights, offset] = [&x, &weights, &offset].map(|array| array.as_slice().unwrap_or_default());
    let mask = mask.as_ref().and_then(|mask| mask.as_slice());
    let deformed = Deformed { window, channels, groups, offset_groups, taps, offset, mask };
    for (n, start) in (0..batch).flat_map(|n| (0..positions).step_by(BLOCK).map(move |start| (n, start))) {
        let image = &x[n * channels * spatial.iter().product::<usize>()..];
        let output = &mut y[n * filters * positions..][..filters * positions];
        add_block(&deformed, (n, start..(start + BLOCK).min(positions)), image, weights, output)?;
    }
    call.rounded(shaped(&shape, y)?)
}

/// Adds the products of the weights with what is gathered for a run of positions of image `n`.
fn add_block(
    deformed: &Deformed<'_>,
    (n, block): (usize, std::ops::Range<usize>),
    image: &[f64],
    weights: &[f64],
    output: &mut [f64],
) -> Result<(), Error> {
    let Deformed { channels, groups, offset_groups, taps, .. } = *deformed;
    let size: usize = deformed.window.input.iter().product();
    let positions: usize = deformed.window.output.iter().product();
    let mut columns = ndarray::Array2::zeros((channels * taps, block.len()));
    let shared = channels / offset_groups;
    for (group, tap) in (0..offset_groups).flat_map(|group| (0..taps).map(move |tap| (group, tap))) {
        for (column, position) in block.clone().enumerate() {
            let neighbours = deformed.neighbours(n, group, tap, position);
            for channel in group * shared..(group + 1) * shared {
                let plane = &image[channel * size..][..size];
                columns[[channel * taps + tap, column]] =
                    neighbours.iter().map(|&(at, weight)| weight * plane[at]).sum();
            }
        }
    }
    let (inner, filters) = (channels / groups * taps, output.len() / positions.max(1) / groups);
    for group in 0..groups {
        let filter = ArrayView2::from_shape([filters, inner], &weights[group * filters * inner..][..filters * inner]);
        let target = &mut output[group * filters * positions..][..filters * positions];
        let target = ArrayViewMut2::from_shape([filters, positions], target);
        let (Ok(filter), Ok(mut target)) = (filter, target) else {
            return Err(Error::new("the sizes of DeformConv do not match"));
        };
        let part = columns.slice(s![group * inner..(group + 1) * inner, ..]);
        general_mat_mul(1.0, &filter, &part, 1.0, &mut target.slice_mut(s![.., block.clone()]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, ints, list, tensor};

    #[test]
    fn blocks_add_up_where_they_overlap() {
        let fold = |inputs| first("Col2Im", &[], inputs);
        let ones = tensor(&[1, 2, 2], &[1f32; 4]);
        assert_eq!(fold(vec![ones, ints(&[1, 3]), ints(&[1, 2])]), (vec![1, 1, 1, 3], vec![1.0, 2.0, 1.0]));
        let wide = tensor(&[1, 4, 1], &[1i8, 2, 3, 4]);
        assert_eq!(fold(vec![wide, ints(&[2]), ints(&[2])]), (vec![1, 2, 2], vec![1.0, 2.0, 3.0, 4.0]));
        let bools = tensor(&[1, 2, 2], &[true, true, true, false]);
        assert_eq!(fold(vec![bools, ints(&[3]), ints(&[2])]).1, [1.0, 1.0, 0.0]);
        let padded = [("pads", list(&[1, 0])), ("strides", list(&[2]))];
        let values = tensor(&[1, 2, 2], &[1f32, 2.0, 4.0, 8.0]);
        assert_eq!(first("Col2Im", &padded, vec![values, ints(&[3]), ints(&[2])]).1, [4.0, 2.0, 8.0]);
        let error = all("Col2Im", &[], vec![counting(&[1, 3, 2]), ints(&[3]), ints(&[2])]).expect_err("three rows");
        assert_eq!(error.message, "Col2Im of [1, 3, 2] with 2 blocks of 2 elements");
        let error = all("Col2Im", &[], vec![counting(&[1, 3, 2]), ints(&[1]), ints(&[3])]).expect_err("too long");
        assert_eq!(error.message, "blocks [3] do not fit an image [1]");
    }

    #[test]
    fn taps_are_moved_and_masked() {
        let inputs = |offset: &[f32], mask| {
            let weights = tensor(&[1, 1, 1, 2], &[1f32, 10.0]);
            vec![counting(&[1, 1, 1, 3]), weights, tensor(&[1, 4, 1, 2], offset), None, mask]
        };
        assert_eq!(first("DeformConv", &[], inputs(&[0.0; 8], None)).1, [21.0, 32.0]);
        // The first tap half an element to the right, the second one down by half, and far away.
        let offset = [0.0, 0.0, 0.5, 0.5, 0.5, 9.0, 0.0, 0.0];
        assert_eq!(first("DeformConv", &[], inputs(&offset, None)).1, [11.5, 2.5]);
        let mask = tensor(&[1, 2, 1, 2], &[1f32, 0.0, 0.5, 2.0]);
        assert_eq!(first("DeformConv", &[], inputs(&[0.0; 8], mask)).1, [11.0, 60.0]);
        let wrong = tensor(&[1, 1, 1, 2], &[1f32, 1.0]);
        let error = all("DeformConv", &[], inputs(&[0.0; 8], wrong)).expect_err("another mask");
        assert_eq!(error.message, "offset, bias or mask of DeformConv do not fit its input");
        assert!(first("DeformConv", &[], inputs(&[f32::NAN; 8], None)).1.iter().all(|&value| value == 0.0));
    }
}
