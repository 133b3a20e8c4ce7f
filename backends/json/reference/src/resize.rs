//! `Resize`: every output position of an axis is a weighted sum of some input positions, one axis after another.

use std::ops::{Add, Mul};

use byoc_plugin_api::{Error, Node};
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, count, each, elements, shaped};
use super::call::{Call, Outputs, around, axes};
use super::slice::surrounded;
use super::{ANY, FLOAT, I64, Kernel, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Resize", resize, &[ANY, FLOAT, FLOAT, I64]),
];

/// How one axis is resized.
struct AxisPlan {
    input: usize,
    output: usize,
    scale: f64,
    /// What the output is before it is rounded down: a scale may lead to a fraction.
    width: f64,
    /// Start and end of the cropped part, as fractions of the input.
    roi: (f64, f64),
}

/// The attributes that say how positions map and which weights they get.
struct Rules<'a> {
    coordinates: &'a str,
    mode: &'a str,
    nearest: &'a str,
    antialias: bool,
    exclude_outside: bool,
    cubic: f64,
}

/// Input positions and their weights; `None` for a position outside of the input that is to be filled.
pub type Taps = Option<Vec<(usize, f64)>>;

/// The inputs behind the first one, where they are given.
#[derive(Debug, Default)]
pub struct Given {
    /// Starts and ends of what is resized, as fractions.
    pub roi: Option<Vec<f64>>,
    /// Factors of sizes.
    pub scales: Option<Vec<f64>>,
    /// Sizes of the output.
    pub sizes: Option<Vec<f64>>,
}

/// What a node makes of a tensor of one shape.
pub struct Resized {
    /// Whether each element is one of the input, whose weight is 1.
    pub nearest: bool,
    /// What is outside of the input.
    pub fill: f64,
    /// For each axis what its positions are made of; `None` where it stays as it is.
    pub axes: Vec<Option<Vec<Taps>>>,
}

impl Resized {
    /// What the node makes of a tensor of that shape: an error where that is not of the shape `wanted`.
    pub fn new(node: &Node, shape: &[usize], given: &Given, wanted: &[usize]) -> Result<Self, Error> {
        let rules = Rules::new(node)?;
        let plans = plans(node, shape, given)?;
        let computed: Vec<usize> = plans.iter().map(|plan| plan.output).collect();
        if computed != wanted {
            return Err(Error::new(format!("Resize computes {computed:?} for an output of {wanted:?}")));
        }
        let taps = plans.iter().map(|plan| if plan.is_identity() { Ok(None) } else { rules.axis(plan).map(Some) });
        let axes = taps.collect::<Result<_, _>>()?;
        Ok(Resized { nearest: rules.mode == "nearest", fill: fill(node), axes })
    }
}

fn fill(node: &Node) -> f64 {
    f64::from(node.float("extrapolation_value", 0.0))
}

/// `Resize`.
fn resize(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rules = Rules::new(call.node)?;
    let fill = fill(call.node);
    let floats = |index: usize| {
        let values = call.optional(index).map(|values| values.to_f64().into_raw_vec_and_offset().0);
        values.filter(|values| !values.is_empty())
    };
    let plans = plans(call.node, x.shape(), &Given { roi: floats(1), scales: floats(2), sizes: floats(3) })?;
    call.count(&plans.iter().map(|plan| plan.output).collect::<Vec<_>>())?;
    let taps = plans.iter().map(|plan| rules.axis(plan)).collect::<Result<Vec<_>, _>>()?;
    if rules.mode == "nearest" {
        // Nothing is calculated, so this holds for every type, and exactly.
        let only = |taps: &Taps| taps.as_ref().and_then(|taps| taps.first()).map(|&(index, _)| index);
        let sources: Vec<Vec<Option<usize>>> = taps.iter().map(|axis| axis.iter().map(only).collect()).collect();
        return each!(x, x => Ok(vec![Item::wrap(surrounded(&x.view(), &sources, Item::from_f64(fill))?)]));
    }
    // In single precision, what is given so; each element is a sum of few.
    if let Array::F32(x) = x {
        return Ok(vec![Item::wrap(weighed(&x.view(), &plans, &taps, fill)?)]);
    }
    let mut y = weighed(&x.to_f64().view(), &plans, &taps, fill)?;
    if !x.dtype().is_float() {
        y.mapv_inplace(f64::round_ties_even);
    }
    Ok(vec![Array::from_f64(x.dtype(), y)])
}

/// Resizes one axis after another, from the last one on: then rows are made once, and added up as they are.
fn weighed<T: Item + Add<Output = T> + Mul<Output = T>>(
    x: &ArrayViewD<'_, T>,
    plans: &[AxisPlan],
    taps: &[Vec<Taps>],
    fill: f64,
) -> Result<ArrayD<T>, Error> {
    let (mut shape, mut data) = (x.shape().to_vec(), elements(x));
    for (axis, (plan, taps)) in plans.iter().zip(taps).enumerate().rev().filter(|(_, (plan, _))| !plan.is_identity()) {
        let (outer, size, inner) = around(&shape, axis);
        debug_assert_eq!(size, plan.input);
        shape[axis] = taps.len();
        let mut y = Vec::with_capacity(count(&shape)?);
        let taps: Vec<Option<Vec<(usize, T)>>> = taps.iter().map(|taps| taps.as_deref().map(typed)).collect();
        for o in 0..outer {
            let part = &data[o * size * inner..][..size * inner];
            for taps in &taps {
                match taps.as_deref() {
                    None => y.extend(std::iter::repeat_n(T::from_f64(fill), inner)),
                    Some(taps) if inner == 1 => y.push(sum(taps, |index| part[index])),
                    Some(taps) => add_rows(part, inner, taps, &mut y),
                }
            }
        }
        data = y.into();
    }
    shaped(&shape, data.into_owned())
}

/// Weights in the type of the elements.
fn typed<T: Item>(taps: &[(usize, f64)]) -> Vec<(usize, T)> {
    taps.iter().map(|&(index, weight)| (index, T::from_f64(weight))).collect()
}

/// The weighted sum of some elements: mostly of two.
fn sum<T: Item + Add<Output = T> + Mul<Output = T>>(taps: &[(usize, T)], at: impl Fn(usize) -> T) -> T {
    match *taps {
        [(i, a), (j, b)] => a * at(i) + b * at(j),
        _ => taps.iter().map(|&(index, weight)| weight * at(index)).fold(T::default(), |sum, part| sum + part),
    }
}

/// Appends the weighted sum of some rows.
fn add_rows<T: Item + Add<Output = T> + Mul<Output = T>>(x: &[T], len: usize, taps: &[(usize, T)], y: &mut Vec<T>) {
    let row = |index: usize| &x[index * len..][..len];
    if let &[(i, a), (j, b)] = taps {
        y.extend(row(i).iter().zip(row(j)).map(|(&x, &z)| a * x + b * z));
        return;
    }
    let start = y.len();
    y.extend(std::iter::repeat_n(T::default(), len));
    for &(index, weight) in taps {
        y[start..].iter_mut().zip(row(index)).for_each(|(y, &x)| *y = *y + weight * x);
    }
}

/// How each axis is resized, from `sizes` or `scales`, which count for `axes` only.
fn plans(node: &Node, shape: &[usize], given: &Given) -> Result<Vec<AxisPlan>, Error> {
    let rank = shape.len();
    let along = match node.ints("axes") {
        Some(values) => axes(values, rank)?,
        None => (0..rank).collect(),
    };
    let Given { roi, scales, sizes } = given;
    let given = scales.as_ref().or(sizes.as_ref()).map_or(0, Vec::len);
    if given != along.len() || roi.as_ref().is_some_and(|roi| roi.len() != 2 * along.len()) {
        return Err(Error::new(format!("Resize of {} axes with {given} scales or sizes", along.len())));
    }
    let mut plans: Vec<AxisPlan> = shape
        .iter()
        .map(|&size| AxisPlan { input: size, output: size, scale: 1.0, width: size as f64, roi: (0.0, 1.0) })
        .collect();
    // Sizes follow in single precision, as the operator's definition and the common runtimes do: 10 x 0.7 is 7 there.
    let ratio = |(&size, &axis): (&f64, &usize)| {
        if shape[axis] == 0 { 1.0 } else { size as f32 / shape[axis] as f32 }
    };
    let ratios = sizes.iter().flatten().zip(&along).map(ratio);
    let common = match node.string("keep_aspect_ratio_policy", "stretch") {
        "stretch" => None,
        _ if scales.is_some() => None,
        "not_larger" => ratios.reduce(f32::min),
        "not_smaller" => ratios.reduce(f32::max),
        other => return Err(Error::new(format!("unknown keep_aspect_ratio_policy '{other}'"))),
    };
    for (i, &axis) in along.iter().enumerate() {
        let (plan, input) = (&mut plans[axis], shape[axis] as f64);
        let fraction = |scale: f32| scale * input as f32;
        (plan.scale, plan.output, plan.width) = match (scales, sizes, common) {
            (Some(scales), _, _) => {
                (scales[i], fraction(scales[i] as f32) as usize, f64::from(fraction(scales[i] as f32)))
            }
            (_, _, Some(scale)) => (f64::from(scale), (fraction(scale) + 0.5) as usize, f64::from(fraction(scale))),
            (_, Some(sizes), _) => (sizes[i] / input, sizes[i] as usize, sizes[i]),
            _ => return Err(Error::new("Resize needs scales or sizes")),
        };
        if let Some(roi) = roi {
            plan.roi = (roi[i], roi[along.len() + i]);
        }
    }
    Ok(plans)
}

impl AxisPlan {
    fn is_identity(&self) -> bool {
        (self.scale - 1.0).abs() < 1e-9 && self.input == self.output && self.roi == (0.0, 1.0)
    }
}

impl<'a> Rules<'a> {
    fn new(node: &'a Node) -> Result<Self, Error> {
        let rules = Rules {
            coordinates: node.string("coordinate_transformation_mode", "half_pixel"),
            mode: node.string("mode", "nearest"),
            nearest: node.string("nearest_mode", "round_prefer_floor"),
            antialias: node.int("antialias", 0) != 0,
            exclude_outside: node.int("exclude_outside", 0) != 0,
            cubic: f64::from(node.float("cubic_coeff_a", -0.75)),
        };
        rules.check().map(|()| rules)
    }

    /// What each position of an axis is made of.
    fn axis(&self, plan: &AxisPlan) -> Result<Vec<Taps>, Error> {
        if plan.input == 0 && plan.output > 0 {
            return Err(Error::new("Resize of an axis without elements"));
        }
        Ok((0..plan.output).map(|position| self.taps(plan, position)).collect())
    }

    fn check(&self) -> Result<(), Error> {
        let known = [
            ("mode", self.mode, &["nearest", "linear", "cubic"][..]),
            ("nearest_mode", self.nearest, &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
            (
                "coordinate_transformation_mode",
                self.coordinates,
                &[
                    "half_pixel",
                    "half_pixel_symmetric",
                    "pytorch_half_pixel",
                    "align_corners",
                    "asymmetric",
                    "tf_crop_and_resize",
                ],
            ),
        ];
        match known.iter().find(|(_, value, values)| !values.contains(value)) {
            Some((name, value, _)) => Err(Error::new(format!("unknown {name} '{value}' of Resize"))),
            None => Ok(()),
        }
    }

    /// Where output `position` is in the input. Which element is nearest depends on the last bit where that is on one, or
    /// halfway between two: for it numbers are rounded to single precision, in which scales and regions are given, and as
    /// often as onnxruntime does.
    fn origin(&self, plan: &AxisPlan, position: usize) -> f64 {
        let r = |value: f64| if self.mode == "nearest" { f64::from(value as f32) } else { value };
        let (x, last, scale, width) = (position as f64, plan.input as f64 - 1.0, plan.scale, r(plan.width));
        let (start, end) = (r(plan.roi.0), r(plan.roi.1));
        let half_pixel = r(r((x + 0.5) / r(scale)) - 0.5);
        match self.coordinates {
            "align_corners" if width == 1.0 => 0.0,
            "align_corners" => r(r(x * last) / r(width - 1.0)),
            "asymmetric" => r(x / scale),
            "tf_crop_and_resize" if width == 1.0 => r(r(start + end) * last / 2.0),
            "tf_crop_and_resize" => {
                let steps = r(r(r(x * r(end - start)) * last) / r(width - 1.0));
                r(r(start * last) + steps)
            }
            "pytorch_half_pixel" if width == 1.0 => 0.0,
            "half_pixel_symmetric" => {
                let around = plan.input as f64 - plan.output as f64 / scale;
                r(around / 2.0 + (x + 0.5) / scale - 0.5)
            }
            _ => half_pixel,
        }
    }

    fn taps(&self, plan: &AxisPlan, position: usize) -> Taps {
        let origin = if plan.is_identity() { position as f64 } else { self.origin(plan, position) };
        let last = plan.input.saturating_sub(1);
        if self.coordinates == "tf_crop_and_resize" && !(0.0..=last as f64).contains(&origin) {
            return None;
        }
        let inside = |index: f64| (index.max(0.0) as usize).min(last);
        if self.mode == "nearest" {
            let nearest = match self.nearest {
                "floor" => origin.floor(),
                "ceil" => origin.ceil(),
                "round_prefer_ceil" => (origin + 0.5).floor(),
                _ => (origin - 0.5).ceil(),
            };
            return Some(vec![(inside(nearest), 1.0)]);
        }
        // When shrinking, the filter is stretched so that every input position counts.
        let stretch = if self.antialias { plan.scale.min(1.0) } else { 1.0 };
        let reach = if self.mode == "cubic" { 2.0 } else { 1.0 } / stretch;
        let (start, end) = ((origin - reach).floor() as i64, (origin + reach).ceil() as i64);
        let mut taps = Vec::new();
        for index in start..=end {
            let outside = index < 0 || index > last as i64;
            let weight = self.weight((index as f64 - origin) * stretch);
            if weight != 0.0 && !(self.exclude_outside && outside) {
                taps.push((inside(index as f64), weight));
            }
        }
        let total: f64 = taps.iter().map(|tap| tap.1).sum();
        taps.iter_mut().for_each(|tap| tap.1 /= total);
        Some(taps)
    }

    /// The filter's weight at this distance.
    fn weight(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic);
        if self.mode != "cubic" {
            return (1.0 - x).max(0.0);
        }
        if x <= 1.0 {
            ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        } else if x < 2.0 {
            ((x - 5.0) * x + 8.0) * x * a - 4.0 * a
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{counting, first, tensor};
    use super::*;

    fn rules<'a>(coordinates: &'a str, mode: &'a str, nearest: &'a str) -> Rules<'a> {
        Rules { coordinates, mode, nearest, antialias: false, exclude_outside: false, cubic: -0.75 }
    }

    #[test]
    fn halves_round_by_the_mode() {
        let plan = AxisPlan { input: 4, output: 8, scale: 2.0, width: 8.0, roi: (0.0, 1.0) };
        let cases = [
            ("round_prefer_floor", [0, 0, 1, 1]),
            ("round_prefer_ceil", [0, 1, 1, 2]),
            ("floor", [0, 0, 1, 1]),
            ("ceil", [0, 1, 1, 2]),
        ];
        for (nearest, expected) in cases {
            let rules = rules("asymmetric", "nearest", nearest);
            let found = [0, 1, 2, 3].map(|position| rules.taps(&plan, position).expect("inside")[0].0);
            assert_eq!(found, expected, "{nearest}");
        }
    }

    #[test]
    fn positions_map_by_the_coordinate_mode() {
        let plan = AxisPlan { input: 4, output: 2, scale: 0.6, width: 2.4, roi: (0.25, 0.75) };
        let cases = [
            ("half_pixel", 2.0),
            ("half_pixel_symmetric", 4.0 / 2.0 * (1.0 - 2.0 / 2.4) + 2.0),
            ("pytorch_half_pixel", 2.0),
            ("align_corners", 3.0 / 1.4),
            ("asymmetric", 1.0 / 0.6),
            ("tf_crop_and_resize", 0.75 + 1.5 / 1.4),
        ];
        for (coordinates, expected) in cases {
            let found = rules(coordinates, "linear", "floor").origin(&plan, 1);
            assert!((found - expected).abs() < 1e-12, "{coordinates}: {found}");
        }
    }

    #[test]
    fn whole_positions_and_ties_are_met_exactly() {
        let scale = |value: f32| f64::from(value);
        let plan = |input: usize, output: usize, scale: f64, roi| AxisPlan {
            input,
            output,
            scale,
            width: f64::from(scale as f32 * input as f32),
            roi,
        };
        let whole = (0.0, 1.0);
        let cases = [
            ("half_pixel_symmetric", "ceil", plan(7, 3, 0.5, whole), 0, 1),
            ("asymmetric", "floor", plan(20, 2, scale(0.1), whole), 1, 10),
            ("tf_crop_and_resize", "round_prefer_floor", plan(6, 6, 1.0, (scale(0.1), 0.9)), 0, 0),
            ("tf_crop_and_resize", "round_prefer_ceil", plan(6, 6, 1.0, (scale(0.1), 0.9)), 0, 1),
        ];
        for (coordinates, nearest, plan, position, expected) in cases {
            let taps = rules(coordinates, "nearest", nearest).taps(&plan, position).expect("inside");
            assert_eq!(taps[0].0, expected, "{coordinates} {nearest}");
        }
    }

    #[test]
    fn sizes_follow_in_single_precision() {
        let scales = tensor(&[1], &[0.7f32]);
        let found = first("Resize", &[], vec![counting(&[10]), None, scales]);
        assert_eq!(found, (vec![7], vec![1.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0]));
    }

    #[test]
    fn weights_add_up_to_one() {
        let plan = AxisPlan { input: 8, output: 3, scale: 0.4, width: 3.2, roi: (0.0, 1.0) };
        for (mode, antialias, exclude_outside) in
            [("linear", true, false), ("cubic", true, true), ("cubic", false, true)]
        {
            let rules = Rules { antialias, exclude_outside, ..rules("half_pixel", mode, "floor") };
            for position in 0..3 {
                let taps = rules.taps(&plan, position).expect("inside");
                assert!((taps.iter().map(|tap| tap.1).sum::<f64>() - 1.0).abs() < 1e-12);
                assert!(taps.iter().all(|tap| tap.0 < 8));
            }
        }
    }
}
