//! `GridSample`: elements between those of a tensor, at positions that another one gives.

use std::ops::{Add, Mul};

use byoc_plugin_api::{DType, Error};

use super::array::{Array, Item, elements, shaped};
use super::call::{Call, Outputs};
use super::{ANY, FLOAT, Kernel, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("GridSample", grid_sample, &[ANY, FLOAT])];

/// Most spatial axes: each multiplies the elements that a position is made of.
const AXES: usize = 5;

/// What is outside of the input.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// How an element is made of its neighbours.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// One axis of the input.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    align_corners: bool,
    mode: Mode,
    outside: Outside,
}

/// An element and its weight; none where the element is outside and counts as 0.
type Tap = (f64, Option<usize>);

impl Axis {
    /// The coordinate that -1 and 1 mark: centres of the outer elements, or their outer edges.
    fn edges(&self) -> (f64, f64) {
        if self.align_corners { (0.0, self.size as f64 - 1.0) } else { (-0.5, self.size as f64 - 0.5) }
    }

    /// A coordinate from -1 to 1 in elements. Halves decide between elements, so this is calculated in the type of the grid, or in
    /// single precision.
    fn place(&self, at: f64, double: bool) -> f64 {
        let size = self.size as f64;
        if double {
            return if self.align_corners { (at + 1.0) / 2.0 * (size - 1.0) } else { ((at + 1.0) * size - 1.0) / 2.0 };
        }
        let (at, size) = (at as f32, size as f32);
        let place = if self.align_corners { (at + 1.0) / 2.0 * (size - 1.0) } else { ((at + 1.0) * size - 1.0) / 2.0 };
        f64::from(place)
    }

    /// A place beyond the edges, reflected by them until it is between them.
    fn reflected(&self, place: f64) -> f64 {
        let (low, high) = self.edges();
        let range = high - low;
        let beyond = if place < low { low - place } else { place - high };
        if (low..=high).contains(&place) || range <= 0.0 {
            return place.clamp(low, high.max(low));
        }
        let rest = beyond % range;
        let from_low = (place < low) == ((beyond / range).floor() % 2.0 == 0.0);
        if from_low { low + rest } else { high - rest }
    }

    /// The element at a whole coordinate.
    fn element(&self, at: f64) -> Option<usize> {
        let last = self.size.checked_sub(1)?;
        let inside = match self.outside {
            Outside::Zeros if at < 0.0 || at > last as f64 => return None,
            Outside::Zeros | Outside::Border => at,
            Outside::Reflection => self.reflected(at),
        };
        Some((inside.max(0.0) as usize).min(last))
    }

    /// The elements that a coordinate of the grid is made of, and how many they are.
    fn taps(&self, at: f64, double: bool) -> ([Tap; 4], usize) {
        let mut place = self.place(at, double);
        if self.mode == Mode::Nearest {
            place = place.round_ties_even();
        }
        place = match self.outside {
            // The neighbours of a cubic one are at the border each by itself.
            Outside::Border if self.mode != Mode::Cubic => place.max(0.0).min((self.size as f64 - 1.0).max(0.0)),
            Outside::Zeros | Outside::Border => place,
            Outside::Reflection => self.reflected(place),
        };
        let first = place.floor();
        let x = place - first;
        let tap = |offset: f64, weight: f64| (weight, self.element(first + offset));
        let none = (0.0, None);
        match self.mode {
            Mode::Nearest => ([(1.0, self.element(place)), none, none, none], 1),
            Mode::Linear => ([tap(0.0, 1.0 - x), tap(1.0, x), none, none], 2),
            Mode::Cubic => {
                let taps =
                    [tap(-1.0, outer(x + 1.0)), tap(0.0, inner(x)), tap(1.0, inner(1.0 - x)), tap(2.0, outer(2.0 - x))];
                (taps, 4)
            }
        }
    }
}

/// The parameter of cubic convolution (R. Keys, "Cubic convolution interpolation for digital image processing", 1981).
const A: f64 = -0.75;

/// Its weight of elements at most one away.
fn inner(x: f64) -> f64 {
    ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
}

/// Its weight of elements between one and two away.
fn outer(x: f64) -> f64 {
    ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
}

fn axes(call: &Call<'_, '_>, spatial: &[usize]) -> Result<Vec<Axis>, Error> {
    let mode = match call.node.string("mode", "linear") {
        "nearest" => Mode::Nearest,
        "linear" => Mode::Linear,
        "cubic" => Mode::Cubic,
        other => return Err(Error::new(format!("GridSample with the mode '{other}'"))),
    };
    let outside = match call.node.string("padding_mode", "zeros") {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(Error::new(format!("GridSample with the padding mode '{other}'"))),
    };
    let align_corners = call.node.int("align_corners", 0) != 0;
    Ok(spatial.iter().map(|&size| Axis { size, align_corners, mode, outside }).collect())
}

/// `GridSample`.
pub(crate) fn grid_sample(call: &Call<'_, '_>) -> Outputs {
    let (x, grid) = (call.input(0)?, call.input(1)?);
    let (&[batch, channels, ref spatial @ ..], &[grids, ref wanted @ .., coordinates]) = (x.shape(), grid.shape())
    else {
        return Err(Error::new("GridSample needs tensors of rank 3 or more"));
    };
    let rank = spatial.len();
    if !(1..=AXES).contains(&rank) || wanted.len() != rank || coordinates != rank || grids != batch {
        return Err(Error::new(format!("GridSample of {:?} at {:?}", x.shape(), grid.shape())));
    }
    let axes = axes(call, spatial)?;
    let double = grid.dtype() == DType::F64;
    let shape = [&[batch, channels], wanted].concat();
    call.count(&shape)?;
    let grid = grid.to_f64();
    let (grid, positions) = (elements(&grid.view()).into_owned(), wanted.iter().product());
    let places = Places { axes: &axes, grid: &grid, positions, double };
    // In single precision, what is given so; each element is a sum of few.
    if let Array::F32(x) = x {
        let y = places.sample(&elements(&x.view()), batch, channels);
        return Ok(vec![Item::wrap(shaped(&shape, y)?)]);
    }
    let y = places.sample(&elements(&x.to_f64().view()), batch, channels);
    Ok(vec![Array::from_f64(x.dtype(), shaped(&shape, y)?)])
}

/// Where to sample.
struct Places<'a> {
    axes: &'a [Axis],
    grid: &'a [f64],
    /// Samples of a plane.
    positions: usize,
    double: bool,
}

impl Places<'_> {
    fn sample<T: Item + Add<Output = T> + Mul<Output = T>>(&self, x: &[T], batch: usize, channels: usize) -> Vec<T> {
        let size: usize = self.axes.iter().map(|axis| axis.size).product();
        let mut y = vec![T::default(); batch * channels * self.positions];
        let (mut taps, mut spare, mut typed) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..batch * self.positions {
            let (n, position) = (at / self.positions, at % self.positions);
            combine(self.axes, &self.grid[at * self.axes.len()..], self.double, &mut taps, &mut spare);
            typed.clear();
            // What is outside counts as 0 whatever its weight is, but for NaN.
            typed.extend(taps.iter().map(|&(weight, place)| (T::from_f64(weight), place)));
            for channel in n * channels..(n + 1) * channels {
                let plane = &x[channel * size..][..size];
                let value = |&(weight, place): &(T, Option<usize>)| weight * place.map_or(T::default(), |at| plane[at]);
                y[channel * self.positions + position] = typed.iter().map(value).fold(T::default(), |a, b| a + b);
            }
        }
        y
    }
}

/// The elements of a plane that a position is made of, into `all`. Its coordinates are those of the axes from the last one on.
fn combine(axes: &[Axis], at: &[f64], double: bool, all: &mut Vec<Tap>, spare: &mut Vec<Tap>) {
    all.clear();
    all.push((1.0, Some(0)));
    for (axis, &at) in axes.iter().zip(at[..axes.len()].iter().rev()) {
        let (taps, count) = axis.taps(at, double);
        std::mem::swap(all, spare);
        all.clear();
        for &(weight, place) in &*spare {
            let within = |at: Option<usize>| Some(place? * axis.size + at?);
            all.extend(taps[..count].iter().map(|&(more, at)| (weight * more, within(at))));
        }
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, tensor, text};

    /// Samples of 1, 2, 3, 4 at coordinates whose centres are at -0.75, -0.25, 0.25 and 0.75.
    fn line(mode: &str, outside: &str, at: &[f32]) -> Vec<f64> {
        let attributes = [("mode", text(mode)), ("padding_mode", text(outside))];
        let grid = tensor(&[1, at.len(), 1], at);
        first("GridSample", &attributes, vec![counting(&[1, 1, 4]), grid]).1
    }

    #[test]
    fn modes_and_what_is_outside() {
        assert_eq!(line("linear", "zeros", &[-0.75, 0.0, -1.0, 1.25]), [1.0, 2.5, 0.5, 0.0]);
        assert_eq!(line("linear", "border", &[-1.0, 1.5, f32::INFINITY]), [1.0, 4.0, 4.0]);
        // Reflected by the edges at -1 and 1.
        assert_eq!(line("linear", "reflection", &[-1.25, 1.75, 2.25, -3.25]), [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(line("nearest", "zeros", &[-0.5, 0.0, 0.5, 1.1]), [1.0, 3.0, 3.0, 0.0]);
        assert_eq!(line("nearest", "reflection", &[1.25]), [4.0]);
        assert_eq!(line("cubic", "border", &[-0.25, 0.0]), [2.0, 2.5]);
        // Half an element in front of the first: its weights are -0.09375 and 0.59375, twice.
        assert_eq!(line("cubic", "border", &[-1.0]), [0.59375 + 0.59375 - 0.09375 + 2.0 * -0.09375]);
        assert!(line("linear", "zeros", &[f32::NAN])[0].is_nan());
        for outside in ["zeros", "border", "reflection"] {
            assert!(line("cubic", outside, &[f32::MAX, f32::MIN, f32::NEG_INFINITY]).len() == 3, "{outside}");
        }
    }

    #[test]
    fn corners_are_centres_where_they_are_aligned() {
        let attributes = [("align_corners", Attribute::Int(1))];
        // The last axis comes first.
        let grid = tensor(&[1, 1, 3, 2], &[-1f32, 1.0, 1.0, -1.0, 0.0, 0.0]);
        let (shape, values) = first("GridSample", &attributes, vec![counting(&[1, 2, 2, 3]), grid]);
        assert_eq!((shape, values), (vec![1, 2, 1, 3], vec![4.0, 3.0, 3.5, 10.0, 9.0, 9.5]));
        let one = [attributes[0].clone(), ("padding_mode", text("reflection"))];
        let grid = tensor(&[1, 2, 1], &[-5f32, 7.0]);
        assert_eq!(first("GridSample", &one, vec![counting(&[1, 1, 1]), grid]).1, [1.0, 1.0]);
    }

    #[test]
    fn nothing_to_sample_is_zero_and_wrong_sizes_are_errors() {
        let empty = vec![tensor::<f32>(&[1, 1, 0], &[]), tensor(&[1, 1, 1], &[0f32])];
        assert_eq!(first("GridSample", &[("padding_mode", text("border"))], empty).1, [0.0]);
        let error =
            all("GridSample", &[], vec![counting(&[1, 1, 4]), counting(&[1, 1, 2])]).expect_err("two coordinates");
        assert_eq!(error.message, "GridSample of [1, 1, 4] at [1, 1, 2]");
    }
}
