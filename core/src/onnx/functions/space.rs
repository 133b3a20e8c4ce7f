//! Rearrangements of space: blocks to channels and back, cropping, and grids of sampling points.

use byoc_plugin_api::Attribute;

use super::body::{Body, Value};
use super::call::{Call, bad};
use crate::diagnostic::Result;

const MODES: [&str; 2] = ["DCR", "CRD"];

/// The side of a block.
fn side(call: &Call) -> Result<i64> {
    let side = call.int("blocksize");
    if (1..=1 << 16).contains(&side) {
        Ok(side)
    } else {
        Err(bad(format!("attribute 'blocksize' is {side}, expected the side of a block: 1 to 65536")))
    }
}

/// [N, C, H, W] becomes [N, C / b², H b, W b].
pub(super) fn depth_to_space(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, side) = (call.input(0)?, side(call)?);
    let (split, perm) = match call.word("mode", &MODES)? {
        "DCR" => ([0, side, side, -1], [0, 3, 4, 1, 5, 2]),
        _ => ([0, -1, side, side], [0, 1, 4, 2, 5, 3]),
    };
    let (split, area) = (body.ints(&split), body.sizes(&x, 2, Some(4)));
    let split = body.concat(&[&split, &area], 0);
    let blocks = body.op("Reshape", [&x, &split]);
    let blocks = body.transpose(&blocks, &perm);
    // The channels of the output are axis 1 now, with either mode.
    let (channels, scale) = (body.sizes(&blocks, 0, Some(2)), body.ints(&[side]));
    let area = body.op("Mul", [&area, &scale]);
    let shape = body.concat(&[&channels, &area], 0);
    Ok(vec![body.op("Reshape", [&blocks, &shape])])
}

/// [N, C, H, W] becomes [N, C b², H / b, W / b].
pub(super) fn space_to_depth(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, side) = (call.input(0)?, side(call)?);
    // Before operator set 28 there was no mode, and DCR was meant.
    let perm = match call.word("mode", &MODES)? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        _ => [0, 1, 3, 5, 2, 4],
    };
    let divisor = body.ints(&[side]);
    let area = body.sizes(&x, 2, Some(4));
    let area = body.op("Div", [&area, &divisor]);
    let [rows, columns] = [0, 1].map(|axis| {
        let index = body.ints(&[axis]);
        body.op("Gather", [&area, &index])
    });
    let channels = body.sizes(&x, 0, Some(2));
    let split = body.concat(&[&channels, &rows, &divisor, &columns, &divisor], 0);
    let blocks = body.op("Reshape", [&x, &split]);
    let blocks = body.transpose(&blocks, &perm);
    let count = body.ints(&[1, side * side]);
    let channels = body.op("Mul", [&channels, &count]);
    let shape = body.concat(&[&channels, &area], 0);
    Ok(vec![body.op("Reshape", [&blocks, &shape])])
}

/// Cropped or padded with zeros to `shape`, around the centre; of an odd difference, the larger half is behind.
pub(super) fn center_crop_pad(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (x, target) = (call.input(0)?, call.input(1)?);
    let target = body.cast(&target, 7);
    let sizes = body.sizes(&x, 0, None);
    let (axes, sizes) = match call.ints("axes") {
        Some(axes) => {
            let axes = body.ints(axes);
            (axes.clone(), body.op("Gather", [&sizes, &axes]))
        }
        None => {
            let rank = body.op("Size", [&sizes]);
            (body.range(&rank), sizes)
        }
    };
    let two = body.ints(&[2]);
    let kept = body.op("Min", [&sizes, &target]);
    let surplus = body.op("Sub", [&sizes, &kept]);
    let start = body.op("Div", [&surplus, &two]);
    let end = body.op("Add", [&start, &kept]);
    let cropped = body.op("Slice", [&x, &start, &end, &axes]);
    let gap = body.op("Sub", [&target, &kept]);
    let before = body.op("Div", [&gap, &two]);
    let after = body.op("Sub", [&gap, &before]);
    let pads = body.concat(&[&before, &after], 0);
    Ok(vec![body.op("Pad", [&cropped, &pads, &Body::absent(), &axes])])
}

/// The points of a grid of `size` ([N, C, H, W] or [N, C, D, H, W]) in [-1, 1], each taken through the matrix `theta` of its image.
pub(super) fn affine_grid(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (theta, size) = (call.input(0)?, call.input(1)?);
    let aligned = call.int("align_corners") != 0;
    let [one, two, last] = [1, 2, i64::MAX].map(|value| body.ints(&[value]));
    let space = body.op("Slice", [&size, &two, &last]);
    // As three axes; of an image, the first has size 1.
    let three = body.concat(&[&one, &space], 0);
    let begin = body.ints(&[-3]);
    let three = body.op("Slice", [&three, &begin, &last]);
    let points = [0, 1, 2].map(|axis| {
        let places = coordinates(body, &three, axis, &theta, aligned);
        let mut shape = [1, 1, 1, 1];
        shape[axis as usize] = -1;
        let places = body.reshape(&places, &shape);
        let all = body.concat(&[&three, &one], 0);
        body.op("Expand", [&places, &all])
    });
    let ones = body.number(1.0, &theta);
    let all = body.concat(&[&three, &one], 0);
    let ones = body.op("Expand", [&ones, &all]);
    let points = body.concat(&[&points[2], &points[1], &points[0], &ones], 3);
    // x, y and 1 for an image; x, y, z and 1 for a volume.
    let rank = body.sizes(&theta, 1, Some(2));
    let count = body.squeeze(&rank, 0);
    let columns = body.range(&count);
    let constant = body.ints(&[3]);
    let columns = body.concat(&[&columns, &constant], 0);
    let points = body.with("Gather", [&points, &columns], &[("axis", Attribute::Int(3))]);
    let zero = body.ints(&[0]);
    let rows = body.ints(&[-1]);
    let width = body.op("Add", [&rank, &one]);
    let flat = body.concat(&[&rows, &width], 0);
    let points = body.op("Reshape", [&points, &flat]);
    let theta = body.transpose(&theta, &[0, 2, 1]);
    let grid = body.op("MatMul", [&points, &theta]);
    let images = body.op("Slice", [&size, &zero, &one]);
    let shape = body.concat(&[&images, &space, &rank], 0);
    Ok(vec![body.op("Reshape", [&grid, &shape])])
}

/// The coordinates along one axis, from -1 to 1: of the corners where they are aligned, else of the middles of the cells.
fn coordinates(body: &mut Body, sizes: &Value, axis: i64, like: &Value, aligned: bool) -> Value {
    let index = body.int(axis);
    let size = body.op("Gather", [sizes, &index]);
    let places = body.range(&size);
    let (places, size) = (body.op("CastLike", [&places, like]), body.op("CastLike", [&size, like]));
    let [one, two] = [1.0, 2.0].map(|value| body.number(value, like));
    let doubled = body.op("Mul", [&places, &two]);
    let (doubled, parts) = if aligned {
        let gaps = body.op("Sub", [&size, &one]);
        // One corner alone is at -1.
        (doubled, body.op("Max", [&gaps, &one]))
    } else {
        (body.op("Add", [&doubled, &one]), size)
    };
    let part = body.op("Div", [&doubled, &parts]);
    body.op("Sub", [&part, &one])
}

/// `past` with `update` in place of as many elements along the axis, for each sample from its index in `write_indices` on, or from 0;
/// in a circular cache what goes beyond the end comes to the front.
pub(super) fn tensor_scatter(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (past, update, axis) = (call.input(0)?, call.input(1)?, call.int("axis"));
    let circular = call.word("mode", &["linear", "circular"])? == "circular";
    let shape = body.sizes(&update, 0, None);
    let index = body.int(axis);
    let length = body.op("Gather", [&shape, &index]);
    let places = body.range(&length);
    // Both lie along their axes.
    let rank = body.op("Shape", [&shape]);
    let ones = body.ints(&[1]);
    let ones = body.op("Expand", [&ones, &rank]);
    let rest = body.ints(&[-1]);
    let along = body.ints(&[axis]);
    let lying = body.scatter(&ones, &along, &rest);
    let mut places = body.op("Reshape", [&places, &lying]);
    if let Some(starts) = call.optional(2) {
        let samples = body.ints(&[0]);
        let lying = body.scatter(&ones, &samples, &rest);
        let starts = body.op("Reshape", [&starts, &lying]);
        places = body.op("Add", [&starts, &places]);
    }
    if circular {
        let sizes = body.sizes(&past, 0, None);
        let size = body.op("Gather", [&sizes, &index]);
        places = body.op("Mod", [&places, &size]);
    }
    let places = body.op("Expand", [&places, &shape]);
    let axis = [("axis", Attribute::Int(axis))];
    Ok(vec![body.with("ScatterElements", [&past, &places, &update], &axis)])
}
