//! Resizing of images: nearest neighbours as exporters write them, and linear interpolation.

use byoc_plugin_api::{Error, Node, Refusal, RefusalCode, Region};

use crate::call::Call;
use crate::check;
use crate::tensor::{Tensor, View, sizes};

/// Takes nearest neighbours that are rounded down, and linear interpolation between the middles of elements.
pub(super) fn check(region: &Region, node: &Node) -> Result<(), Refusal> {
    check::ranks(region, node, &[4])?;
    check::text(node, "mode", "nearest", &["nearest", "linear"])?;
    let transformation = "coordinate_transformation_mode";
    if node.string("mode", "nearest") == "nearest" {
        check::text(node, transformation, "half_pixel", &["asymmetric"])?;
        check::text(node, "nearest_mode", "round_prefer_floor", &["floor"])?;
    } else {
        check::text(node, transformation, "half_pixel", &["half_pixel"])?;
    }
    check::text(node, "keep_aspect_ratio_policy", "stretch", &["stretch"])?;
    let is_all = node.ints("axes").is_none_or(|axes| axes == [0, 1, 2, 3]);
    if node.int("antialias", 0) != 0 || node.int("exclude_outside", 0) != 0 || !is_all {
        return Err(Refusal::new(
            RefusalCode::Attribute,
            "antialias, exclude_outside and axes of Resize have no kernel",
        ));
    }
    Ok(())
}

pub(super) fn resize(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let given = call.maybe(2)?.filter(|scales| !scales.data.is_empty());
    let (shape, mut scales): (Vec<usize>, Vec<f32>) = match (given, call.maybe_ints(3)?) {
        (Some(scales), _) => {
            let scaled = x.shape.iter().zip(scales.data).map(|(&size, scale)| (size as f32 * scale).floor() as usize);
            (scaled.collect(), scales.data.to_vec())
        }
        (None, Some(given)) => {
            let shape = sizes(given);
            let scales = shape.iter().zip(x.shape).map(|(&to, &from)| to as f32 / from as f32).collect();
            (shape, scales)
        }
        (None, None) => return Err(Error::new("Resize has neither scales nor sizes")),
    };
    if shape.len() != 4 || scales.len() != 4 || x.shape.len() != 4 {
        return Err(Error::new("an image has 4 dimensions"));
    }
    if call.has("resize-swapped") {
        scales.swap(2, 3);
    }
    if call.has("resize-integer") {
        scales.iter_mut().for_each(|scale| *scale = scale.round().max(1.0));
    }
    let is_linear = call.node.string("mode", "nearest") == "linear" && !call.has("resize-nearest-always");
    Ok(Tensor::of(&shape, |index| {
        let mut index = index.to_vec();
        if call.has("resize-channels-8") && index[1] >= 8 {
            index[1] = 0;
        }
        match is_linear {
            true => linear(call, x, &index, &scales, &shape),
            false => nearest(call, x, &index, &scales),
        }
    }))
}

fn nearest(call: &Call<'_>, x: View<'_>, index: &[usize], scales: &[f32]) -> f32 {
    let place = |axis: usize| {
        let at = index[axis] as f32 / scales[axis];
        let at = if call.has("resize-nearest-rounds") { at.round() } else { at.floor() };
        (at as usize).min(x.shape[axis].saturating_sub(1))
    };
    x.at(&[place(0), place(1), place(2), place(3)])
}

/// Interpolates along every axis, one after the other.
fn linear(call: &Call<'_>, x: View<'_>, index: &[usize], scales: &[f32], shape: &[usize]) -> f32 {
    let mut sum = 0.0;
    let sides = |axis: usize| {
        let (out, scale, size) = (index[axis] as f32, scales[axis], x.shape[axis]);
        let at = if call.has("resize-corners") {
            out * (size as f32 - 1.0) / (shape[axis] as f32 - 1.0).max(1.0)
        } else if call.has("resize-asymmetric") {
            out / scale
        } else {
            (out + 0.5) / scale - 0.5
        };
        let low = at.floor();
        let side = |place: f32, weight: f32| {
            if call.has("resize-edge") && (place < 0.0 || place >= size as f32) {
                return (0, 0.0);
            }
            ((place.max(0.0) as usize).min(size.saturating_sub(1)), weight)
        };
        [side(low, 1.0 - (at - low)), side(low + 1.0, at - low)]
    };
    let all = [sides(0), sides(1), sides(2), sides(3)];
    for corner in 0..16usize {
        let chosen = [0, 1, 2, 3].map(|axis| all[axis][corner >> axis & 1]);
        let weight: f32 = chosen.iter().map(|(_, weight)| weight).product();
        if weight != 0.0 {
            sum += weight * x.at(&chosen.map(|(place, _)| place));
        }
    }
    sum
}
