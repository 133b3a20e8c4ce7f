//! What a layer multiplies its input and its state by.

use byoc_plugin_api::Error;
use ndarray::{Array2, Array3, ArrayView2, Axis, Ix3, s};

use super::super::call::Call;
use super::super::quantize::Levels;

/// A row for each gate and hidden element, and a column for each element of what it is multiplied with.
#[derive(Clone, Copy)]
pub(super) struct Factor<'a> {
    /// Where there are scales, integers without their zero points.
    rows: ArrayView2<'a, f64>,
    /// The scale of each row.
    scales: Option<&'a [f32]>,
}

impl<'a> Factor<'a> {
    /// The rows from this one on.
    pub(super) fn from(self, first: usize) -> Factor<'a> {
        let scales = self.scales.map(|scales| &scales[first..]);
        Factor { rows: self.rows.slice_move(s![first.., ..]), scales }
    }

    /// How `x` is quantised before it is multiplied, if it is.
    pub(super) fn levels(&self, x: impl Iterator<Item = f64>) -> Option<Levels> {
        self.scales.map(|_| Levels::of(x.map(|x| x as f32)))
    }

    /// The product of each row of `x` with each row: of quantised ones that of integers, which is exact, scaled in `f32`.
    pub(super) fn product(&self, x: &Array2<f64>, levels: Option<Levels>) -> Array2<f64> {
        let (Some(scales), Some(levels)) = (self.scales, levels) else { return x.dot(&self.rows.t()) };
        let integers = x.mapv(|x| levels.number(x as f32) - f64::from(levels.zero));
        let mut sums = integers.dot(&self.rows.t());
        for (mut column, scale) in sums.columns_mut().into_iter().zip(scales) {
            let scale = levels.scale * scale;
            column.mapv_inplace(|sum| f64::from(sum as f32 * scale));
        }
        sums
    }
}

/// The weights of all directions, [directions, gates * hidden, columns].
pub(super) struct Weights {
    /// Where there are scales, integers without their zero points.
    pub(super) rows: Array3<f64>,
    /// Of each direction, the scale of each row.
    scales: Option<Vec<Vec<f32>>>,
}

impl Weights {
    /// Those of an input of floats.
    pub(super) fn real(rows: Array3<f64>) -> Weights {
        Weights { rows, scales: None }
    }

    /// Those of an input of integers, [directions, columns, gates * hidden]; scales and zero points are at the inputs `scale` and
    /// behind it: one for each direction, or one for each of its rows.
    pub(super) fn quantised(call: &Call<'_, '_>, index: usize, scale: usize) -> Result<Weights, Error> {
        let mut rows = super::ranked::<Ix3>(call, index)?.permuted_axes([0, 2, 1]).as_standard_layout().into_owned();
        let (directions, count, _) = rows.dim();
        let all = |index: usize| -> Result<Vec<Vec<f64>>, Error> {
            let array = call.input(index)?;
            let numbers: Vec<f64> = array.to_f64().into_iter().collect();
            let each = match *array.shape() {
                [found] if found == directions => 1,
                [found, each] if found == directions && each == count && each > 0 => each,
                ref other => {
                    let expected = format!("[{directions}] or [{directions}, {count}]");
                    return Err(Error::new(format!(
                        "input {index} of {} has the shape {other:?}, expected {expected}",
                        call.node.op
                    )));
                }
            };
            Ok(numbers.chunks(each).map(|list| list.iter().copied().cycle().take(count).collect()).collect())
        };
        let zeros = all(scale + 1)?;
        for (mut direction, zeros) in rows.axis_iter_mut(Axis(0)).zip(&zeros) {
            for (mut row, zero) in direction.rows_mut().into_iter().zip(zeros) {
                row.mapv_inplace(|weight| weight - zero);
            }
        }
        let scales = all(scale)?.into_iter().map(|list| list.into_iter().map(|scale| scale as f32).collect());
        Ok(Weights { rows, scales: Some(scales.collect()) })
    }

    /// Those of a direction.
    pub(super) fn of(&self, direction: usize) -> Factor<'_> {
        let scales = self.scales.as_ref().map(|scales| scales[direction].as_slice());
        Factor { rows: self.rows.index_axis(Axis(0), direction), scales }
    }
}
