//! Scales of a region's values: those of a model that is quantised, or chosen from the observations; one for values that share
//! bytes.

use std::collections::BTreeMap;

use byoc_plugin_api::{Error, Observed, Region};

use super::image::Image;
use crate::net::{Form, Net, Step, Work};
use crate::quantize::{Choice, Method, Quantization, choose};
use crate::trailer::ScaleRow;

/// Parts of the range of values that share a scale.
const BINS: usize = 2048;

/// A softmax of logits that are all below this is 0/0 in the SDKs, which start its maximum there (kmodel v3, SDK
/// CPU-layer details).
const LEAST_LOGIT: f32 = -100.0;

/// The scales of the values that are bytes anywhere.
pub(crate) struct Scales {
    /// The representative of all values that share its scale.
    leader: Vec<usize>,
    /// By leader.
    scales: BTreeMap<usize, Scale>,
    /// The method as the user named it.
    method: String,
    /// Values that a softmax reads as they are.
    logits: Vec<usize>,
}

/// Where a scale comes from.
#[derive(Clone, Copy, Debug)]
enum Scale {
    Given(Quantization),
    Chosen(Choice),
    /// Pixels from 0 to 1, which are what they are.
    Pixels,
}

impl Scale {
    fn quantization(&self) -> Quantization {
        match self {
            Scale::Given(quantization) => *quantization,
            Scale::Chosen(choice) => choice.quantization,
            Scale::Pixels => Quantization { scale: 1.0 / 255.0, zero_point: 0 },
        }
    }
}

impl Scales {
    /// Takes what the model gives, and chooses the others by the method of that name; the region's input keeps all of its range,
    /// and that of pixels where it is known, so that every pixel stays what it is.
    pub(crate) fn of(region: &Region, net: &Net, method: &str, image: &Image) -> Result<Scales, Error> {
        let chosen =
            Method::parse(method).ok_or_else(|| Error::new(format!("there is no calibrate-method '{method}'")))?;
        let mut leader: Vec<_> = (0..region.values.len()).collect();
        for &(a, b) in &net.same_scale {
            let (a, b) = (leader[a], leader[b]);
            leader.iter_mut().filter(|leader| **leader == b).for_each(|leader| *leader = a);
        }
        let mut scales = BTreeMap::new();
        for tensor in net.tensors.iter().filter(|tensor| tensor.form != Form::Floats) {
            let group = leader[tensor.value];
            if scales.contains_key(&group) {
                continue;
            }
            let members = (0..leader.len()).filter(|&value| leader[value] == group);
            if let Some(given) = members.clone().find_map(|value| net.given[value]) {
                scales.insert(group, Scale::Given(given));
                continue;
            }
            let is_input = members.clone().any(|value| region.inputs.contains(&value));
            if is_input && matches!(image, Image::Channels(_)) {
                scales.insert(group, Scale::Pixels);
                continue;
            }
            let mut observed =
                members.clone().map(|value| observation(region, value)).collect::<Result<Vec<_>, _>>()?;
            let range = pixel_range(image);
            observed.extend(range.as_ref().filter(|_| is_input));
            let method = if is_input { Method::MinMax } else { chosen };
            scales.insert(group, Scale::Chosen(choose(&union(&observed), method)));
        }
        Ok(Scales { leader, scales, method: method.to_owned(), logits: logits(net) })
    }

    fn scale(&self, value: usize) -> Option<&Scale> {
        self.scales.get(self.leader.get(value)?)
    }

    /// Whether the model gives the scale of a value.
    pub(crate) fn is_given(&self, value: usize) -> bool {
        matches!(self.scale(value), Some(Scale::Given(_)))
    }

    /// What the bytes of `value` mean.
    pub(crate) fn of_value(&self, value: usize) -> Result<Quantization, Error> {
        let scale = self.scale(value).ok_or_else(|| Error::new(format!("value {value} has no scale")))?;
        Ok(scale.quantization())
    }

    /// A row for each value that is bytes, for people.
    pub(crate) fn rows(&self, region: &Region) -> Vec<ScaleRow> {
        let row = |value: usize| {
            let scale = self.scale(value)?;
            let quantization = scale.quantization();
            let (range, sqnr) = match scale {
                Scale::Given(_) => (quantization.range(), None),
                // The channels have a table of their own.
                Scale::Pixels => return None,
                Scale::Chosen(choice) => {
                    let observed = region.observed(value)?;
                    ((observed.min, observed.max), Some(choice.sqnr as f32))
                }
            };
            Some(ScaleRow {
                value: region.values[value].name.clone(),
                least: range.0,
                greatest: range.1,
                scale: quantization.scale,
                zero_point: quantization.zero_point,
                sqnr: sqnr.filter(|sqnr| sqnr.is_finite()),
                given: matches!(scale, Scale::Given(_)),
            })
        };
        (0..region.values.len()).filter_map(row).collect()
    }

    /// What the user should know about the ranges.
    pub(crate) fn notes(&self, region: &Region) -> Vec<String> {
        let mut notes = Vec::new();
        let chosen = self.scales.iter().filter_map(|(&value, scale)| match scale {
            Scale::Given(_) | Scale::Pixels => None,
            Scale::Chosen(choice) => Some((value, choice)),
        });
        for (value, choice) in chosen.filter(|(_, choice)| choice.sqnr < choice.minmax_sqnr - 0.01) {
            notes.push(format!(
                "calibrate-method {} keeps {:.1} dB of '{}', minmax would keep {:.1} dB",
                self.method, choice.sqnr, region.values[value].name, choice.minmax_sqnr
            ));
        }
        for &value in &self.logits {
            if let Some(observed) = region.observed(value).filter(|observed| observed.max < LEAST_LOGIT) {
                notes.push(format!(
                    "'{}' has values down to {}: the softmax of the K210 SDKs gives 0/0 where all are below -103",
                    region.values[value].name, observed.min
                ));
            }
        }
        notes
    }
}

/// The range of pixels, as if black and white had been seen.
fn pixel_range(image: &Image) -> Option<Observed> {
    let &Image::Range(min, max) = image else { return None };
    Some(Observed { value: 0, min, max, histogram: Vec::new() })
}

/// The values that a softmax reads as they are.
fn logits(net: &Net) -> Vec<usize> {
    let shifts = |step: &&Step| matches!(step.work, Work::DequantizeFromZero);
    let from_zero: Vec<_> = net.steps.iter().filter(shifts).flat_map(|step| &step.outputs).collect();
    let softmax = net.steps.iter().filter(|step| matches!(step.work, Work::Softmax));
    let inputs = softmax.flat_map(|step| &step.inputs).filter(|input| !from_zero.contains(input));
    inputs.map(|&tensor| net.tensors[tensor].value).collect()
}

fn observation(region: &Region, value: usize) -> Result<&Observed, Error> {
    region.observed(value).ok_or_else(|| {
        Error::new(format!("the range of '{}' is not known: the model has no scale for it", region.values[value].name))
            .hint("Give samples of the model's inputs with --dataset")
    })
}

/// All that was seen of several values, as if they were one.
fn union(observed: &[&Observed]) -> Observed {
    if let [one] = observed {
        return (*one).clone();
    }
    let min = observed.iter().map(|one| one.min).fold(f32::INFINITY, f32::min);
    let max = observed.iter().map(|one| one.max).fold(f32::NEG_INFINITY, f32::max);
    let mut histogram = vec![0; BINS];
    let width = f64::from(max) - f64::from(min);
    for one in observed {
        let step = (f64::from(one.max) - f64::from(one.min)) / one.histogram.len().max(1) as f64;
        for (bin, &count) in one.histogram.iter().enumerate() {
            let middle = f64::from(one.min) + (bin as f64 + 0.5) * step;
            let place = if width > 0.0 { (middle - f64::from(min)) / width * BINS as f64 } else { 0.0 };
            histogram[(place as usize).min(BINS - 1)] += count;
        }
    }
    Observed { value: observed.first().map_or(0, |one| one.value), min, max, histogram }
}
