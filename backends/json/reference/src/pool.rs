//! Pooling: `MaxPool` (with indices), `AveragePool`, `LpPool`, and each of them over all that there is.

use byoc_plugin_api::Error;
use ndarray::ArrayViewD;

use super::array::{Item, each, elements, shaped};
use super::call::{Call, Outputs};
use super::reduce::fold;
use super::window::{AXES, Window};
use super::{FLOAT, Kernel, Types, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("AveragePool", average_pool, &[FLOAT]),
    kernel("GlobalAveragePool", global_average_pool, &[FLOAT]),
    kernel("GlobalLpPool", global_lp_pool, &[FLOAT]),
    kernel("GlobalMaxPool", global_max_pool, &[FLOAT]),
    kernel("LpPool", lp_pool, &[FLOAT]),
    kernel("MaxPool", max_pool, &[FLOAT.or(Types::BYTE)]),
];

/// The windows of a pooling node, and the number of images times channels.
fn windows(call: &Call<'_, '_>) -> Result<(Window, usize, Vec<usize>), Error> {
    let shape = call.input(0)?.shape();
    let [batch, channels, spatial @ ..] = shape else {
        return Err(Error::new(format!("{} needs a tensor of rank 3 or more", call.node.op)));
    };
    let window = Window::new(call.node, spatial, None)?;
    let output = [&shape[..2], window.output_shape()].concat();
    call.count(&output)?;
    Ok((window, batch * channels, output))
}

/// `MaxPool`; NaN wins. An index counts over the whole input, in row-major or column-major order of the spatial axes.
pub(crate) fn max_pool(call: &Call<'_, '_>) -> Outputs {
    let (window, planes, shape) = windows(call)?;
    let column_major = call.node.int("storage_order", 0) != 0;
    each!(call.input(0)?, x => {
        let (values, indices) = largest(&window, &x.view(), planes, column_major);
        Ok(vec![Item::wrap(shaped(&shape, values)?), Item::wrap(shaped(&shape, indices)?)])
    })
}

fn largest<T: Item>(window: &Window, x: &ArrayViewD<'_, T>, planes: usize, column_major: bool) -> (Vec<T>, Vec<i64>) {
    let [depth, rows, columns] = window.input;
    let size = depth * rows * columns;
    let positions: usize = window.output.iter().product();
    let x = elements(x);
    let (mut values, mut indices) = (Vec::with_capacity(planes * positions), Vec::with_capacity(planes * positions));
    for plane in 0..planes {
        let x = &x[plane * size..(plane + 1) * size];
        for position in 0..positions {
            let mut best: Option<(T, [usize; AXES])> = None;
            window.visit(window.unravel(position), |at| {
                let value = x[(at[0] * rows + at[1]) * columns + at[2]];
                if best.is_none_or(|(best, _)| value > best || value.is_nan() && !best.is_nan()) {
                    best = Some((value, at));
                }
            });
            // A window that is on padding only has no largest element.
            let (value, [d, h, w]) = best.unwrap_or((T::from_f64(f64::NEG_INFINITY), [0; AXES]));
            let offset = if column_major { (w * rows + h) * depth + d } else { (d * rows + h) * columns + w };
            values.push(value);
            indices.push((plane * size + offset) as i64);
        }
    }
    (values, indices)
}

/// `AveragePool`. With `count_include_pad` the padding counts as zeros, but never what hangs over it (`ceil_mode`).
pub(crate) fn average_pool(call: &Call<'_, '_>) -> Outputs {
    let (window, planes, shape) = windows(call)?;
    let include = call.node.int("count_include_pad", 0) != 0;
    let [depth, rows, columns] = window.input;
    let size = depth * rows * columns;
    let positions: usize = window.output.iter().product();
    let x = call.input(0)?.to_f64();
    let x = x.view();
    let x = elements(&x);
    let mut y = Vec::with_capacity(planes * positions);
    for (plane, position) in (0..planes).flat_map(|plane| (0..positions).map(move |position| (plane, position))) {
        let position = window.unravel(position);
        let (mut sum, mut count) = (0.0, 0);
        window.visit(position, |[d, h, w]| {
            sum += x[plane * size + (d * rows + h) * columns + w];
            count += 1;
        });
        y.push(sum / if include { window.padded_count(position) } else { count } as f64);
    }
    call.rounded(shaped(&shape, y)?)
}

/// The power of a norm.
fn power(call: &Call<'_, '_>) -> Result<f64, Error> {
    match call.node.int("p", 2) {
        power @ 1.. => Ok(power as f64),
        other => Err(Error::new(format!("{} with p = {other}", call.node.op))),
    }
}

/// `LpPool`: the norm of each window; padding counts as zeros.
pub(crate) fn lp_pool(call: &Call<'_, '_>) -> Outputs {
    let (window, planes, shape) = windows(call)?;
    let power = power(call)?;
    let [depth, rows, columns] = window.input;
    let size = depth * rows * columns;
    let positions: usize = window.output.iter().product();
    let x = call.input(0)?.to_f64();
    let x = x.view();
    let x = elements(&x);
    let mut y = Vec::with_capacity(planes * positions);
    for (plane, position) in (0..planes).flat_map(|plane| (0..positions).map(move |position| (plane, position))) {
        let mut sum = 0.0;
        window.visit(window.unravel(position), |[d, h, w]| {
            sum += x[plane * size + (d * rows + h) * columns + w].abs().powf(power);
        });
        y.push(sum.powf(1.0 / power));
    }
    call.rounded(shaped(&shape, y)?)
}

/// `GlobalLpPool`.
pub(crate) fn global_lp_pool(call: &Call<'_, '_>) -> Outputs {
    let power = power(call)?;
    let x = call.input(0)?.to_f64();
    let spatial: Vec<usize> = (2..x.ndim()).collect();
    let norm = |values: &[f64]| values.iter().map(|value| value.abs().powf(power)).sum::<f64>().powf(1.0 / power);
    call.rounded(fold(&x.view(), &spatial, true, norm)?)
}

/// `GlobalAveragePool`.
pub(crate) fn global_average_pool(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?.to_f64();
    let spatial: Vec<usize> = (2..x.ndim()).collect();
    call.rounded(fold(&x.view(), &spatial, true, |values| values.iter().sum::<f64>() / values.len() as f64)?)
}

/// `GlobalMaxPool`; NaN wins.
pub(crate) fn global_max_pool(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?.to_f64();
    let spatial: Vec<usize> = (2..x.ndim()).collect();
    let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, Item::larger);
    call.rounded(fold(&x.view(), &spatial, true, largest)?)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, list, tensor};

    #[test]
    fn averages_count_padding_but_no_overhang() {
        let base = [("kernel_shape", list(&[3])), ("strides", list(&[2])), ("pads", list(&[1, 0]))];
        let with = |extra: &[(&str, i64)]| {
            let extra = extra.iter().map(|&(name, value)| (name, Attribute::Int(value)));
            first("AveragePool", &base.iter().cloned().chain(extra).collect::<Vec<_>>(), vec![counting(&[1, 1, 5])]).1
        };
        assert_eq!(with(&[]), [1.5, 3.0]);
        assert_eq!(with(&[("count_include_pad", 1)]), [1.0, 3.0]);
        assert_eq!(with(&[("count_include_pad", 1), ("ceil_mode", 1)]), [1.0, 3.0, 4.5]);
    }

    #[test]
    fn indices_count_in_either_order_and_nan_wins() {
        let kernel = ("kernel_shape", list(&[2, 2]));
        for (order, expected) in [(0, [4, 5, 10, 11]), (1, [3, 5, 9, 11])] {
            let attributes = [kernel.clone(), ("storage_order", Attribute::Int(order))];
            let outputs = all("MaxPool", &attributes, vec![counting(&[1, 2, 2, 3])]).expect("pool");
            assert_eq!(outputs[0].to_ints(), [5, 6, 11, 12]);
            assert_eq!(outputs[1].to_ints(), expected, "order {order}");
        }
        let nan = tensor(&[1, 1, 3], &[f32::NAN, 1.0, 2.0]);
        let pooled = first("MaxPool", &[("kernel_shape", list(&[2]))], vec![nan]).1;
        assert!(pooled[0].is_nan() && pooled[1] == 2.0);
        let whole = tensor(&[1, 2, 2], &[f32::NAN, 1.0, 3.0, 2.0]);
        let (shape, values) = first("GlobalMaxPool", &[], vec![whole]);
        assert!(shape == [1, 2, 1] && values[0].is_nan() && values[1] == 3.0);
    }

    #[test]
    fn norms_count_padding_as_zeros() {
        let norm = |attributes: &[(&str, i64)]| {
            let given = attributes.iter().map(|&(name, value)| (name, Attribute::Int(value)));
            let window = [("kernel_shape", list(&[2])), ("pads", list(&[1, 0]))];
            let attributes: Vec<_> = window.into_iter().chain(given).collect();
            first("LpPool", &attributes, vec![tensor(&[1, 1, 2], &[-3f32, 4.0])]).1
        };
        assert_eq!(norm(&[]), [3.0, 5.0]);
        assert_eq!(norm(&[("p", 1)]), [3.0, 7.0]);
        let whole = || vec![tensor(&[1, 2, 2], &[3f32, -4.0, 0.0, 0.0])];
        assert_eq!(first("GlobalLpPool", &[], whole()), (vec![1, 2, 1], vec![5.0, 0.0]));
        assert!(all("GlobalLpPool", &[("p", Attribute::Int(0))], whole()).is_err());
    }
}
