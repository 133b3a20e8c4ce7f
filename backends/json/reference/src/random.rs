//! Random numbers: `Bernoulli`, `Multinomial`, `RandomNormal`, `RandomUniform` and what is like another tensor, and `Dropout` in training mode. A seed
//! always gives the same numbers.

use byoc_plugin_api::{Attribute, DType, Error};

use super::array::{Array, Item, dims, each, elements, shaped};
use super::call::{Call, Outputs};
use super::{ANY, BOOL, FLOAT, Kernel, Types, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Bernoulli", bernoulli, &[FLOAT]),
    kernel("Dropout", dropout, &[FLOAT.or(Types::FLOAT8), FLOAT.or(Types::FLOAT8), BOOL]),
    kernel("Multinomial", multinomial, &[FLOAT]),
    kernel("RandomNormal", normal, &[]),
    kernel("RandomNormalLike", normal, &[ANY]),
    kernel("RandomUniform", uniform, &[]),
    kernel("RandomUniformLike", uniform, &[ANY]),
];

/// The generator SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators", 2014).
struct Generator(u64);

impl Generator {
    /// That of a node; its seed is a number.
    fn of(call: &Call<'_, '_>) -> Generator {
        Generator(match call.node.attributes.get("seed") {
            Some(Attribute::Int(seed)) => *seed as u64,
            _ => u64::from(call.node.float("seed", 0.0).to_bits()),
        })
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 on that is less than 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the normal distribution around 0 with the deviation 1 (G. Box and M. Muller, "A note on the generation of random normal
    /// deviates", 1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
    }
}

/// Random numbers in the shape that the node or its input has.
fn filled(call: &Call<'_, '_>, mut next: impl FnMut(&mut Generator) -> f64) -> Outputs {
    let shape = match call.optional(0) {
        Some(like) => like.shape().to_vec(),
        None => dims(call.node.ints("shape").unwrap_or_default())?,
    };
    let count = call.count(&shape)?;
    let mut generator = Generator::of(call);
    let values = (0..count).map(|_| next(&mut generator)).collect();
    let dtype = call.output_type(0).or(call.optional(0).map(Array::dtype)).unwrap_or(DType::F32);
    Ok(vec![Array::from_f64(dtype, shaped(&shape, values)?)])
}

/// `RandomNormal` and `RandomNormalLike`.
pub(crate) fn normal(call: &Call<'_, '_>) -> Outputs {
    let (mean, scale) = (f64::from(call.node.float("mean", 0.0)), f64::from(call.node.float("scale", 1.0)));
    filled(call, |generator| mean + scale * generator.normal())
}

/// `RandomUniform` and `RandomUniformLike`.
pub(crate) fn uniform(call: &Call<'_, '_>) -> Outputs {
    let (low, high) = (f64::from(call.node.float("low", 0.0)), f64::from(call.node.float("high", 1.0)));
    filled(call, |generator| low + (high - low) * generator.uniform())
}

/// `Bernoulli`: 1 with the probability that each element says.
pub(crate) fn bernoulli(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let mut generator = Generator::of(call);
    let drawn = x.to_f64().mapv(|probability| f64::from(u8::from(generator.uniform() < probability)));
    Ok(vec![Array::from_f64(call.output_type(0).unwrap_or(x.dtype()), drawn)])
}

/// `Multinomial`: places in each row, whose elements are logarithms of probabilities up to a common summand.
pub(crate) fn multinomial(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let &[rows, classes] = x.shape() else {
        return Err(Error::new(format!("Multinomial of {:?}, expected rows", x.shape())));
    };
    let samples = call.node.int("sample_size", 1);
    let samples = usize::try_from(samples).map_err(|_| Error::new(format!("Multinomial of {samples} samples")))?;
    let shape = [rows, samples];
    let total = call.count(&shape)?;
    if classes == 0 && total > 0 {
        return Err(Error::new("Multinomial of rows without an element"));
    }
    let mut drawn = Vec::with_capacity(total);
    let logarithms = x.to_f64();
    let logarithms = logarithms.view();
    let mut generator = Generator::of(call);
    for row in elements(&logarithms).chunks(classes.max(1)) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let sums: Vec<f64> = row
            .iter()
            .map(|logarithm| {
                sum += (logarithm - largest).exp();
                sum
            })
            .collect();
        for _ in 0..samples {
            let place = generator.uniform() * sum;
            // Past the last one are rows without any probability, and a sum that is rounded.
            drawn.push(sums.iter().position(|&sum| place < sum).unwrap_or(classes - 1) as i64);
        }
    }
    let drawn = shaped(&shape, drawn)?;
    Ok(vec![match call.output_type(0) {
        Some(DType::I64) => Item::wrap(drawn),
        _ => Item::wrap(drawn.mapv(|place| place as i32)),
    }])
}

/// `Dropout`: its input, or in training mode that with elements left out and the others enlarged by as much, and which ones stay.
pub(crate) fn dropout(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let first = |index: usize| call.optional(index).and_then(|array| array.to_f64().first().copied());
    let training = first(2).is_some_and(|training| training != 0.0);
    let ratio = first(1).unwrap_or(0.5);
    if !(0.0..1.0).contains(&ratio) {
        return Err(Error::new(format!("Dropout leaves out {ratio} of its input, expected 0 to less than 1")));
    }
    if !training || ratio == 0.0 {
        let all = each!(x, x => Item::wrap(x.mapv(|_| true)));
        return Ok(vec![x.to_owned(), all]);
    }
    let mut generator = Generator::of(call);
    let stays = x.to_f64().mapv(|_| generator.uniform() >= ratio);
    let mut y = x.to_f64();
    y.zip_mut_with(&stays, |value, &stays| *value = if stays { *value / (1.0 - ratio) } else { 0.0 });
    Ok(vec![Array::from_f64(x.dtype(), y), Item::wrap(stays)])
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, list, node, tensor};
    use super::super::{Array, compute};
    use super::*;

    fn seeded(seed: f32, more: &[(&'static str, Attribute)]) -> Vec<(&'static str, Attribute)> {
        [&[("seed", Attribute::Float(seed)), ("shape", list(&[100, 100]))], more].concat()
    }

    fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        (mean, (squares / values.len() as f64).sqrt())
    }

    #[test]
    fn seeds_give_numbers_of_their_own() {
        let of = |seed| first("RandomUniform", &seeded(seed, &[]), vec![]).1;
        assert_eq!(of(1.0), of(1.0));
        assert!(of(1.0).iter().zip(of(2.0)).all(|(a, b)| *a != b));
    }

    #[test]
    fn numbers_are_distributed_as_they_should() {
        let wide = [("low", Attribute::Float(-1.0)), ("high", Attribute::Float(3.0))];
        let uniform = first("RandomUniform", &seeded(7.0, &wide), vec![]).1;
        assert!(uniform.iter().all(|value| (-1.0..=3.0).contains(value)));
        let (mean, deviation) = mean_and_deviation(&uniform);
        assert!((mean - 1.0).abs() < 0.05 && (deviation - 4.0 / 12f64.sqrt()).abs() < 0.05, "{mean} {deviation}");
        let moved = [("mean", Attribute::Float(5.0)), ("scale", Attribute::Float(2.0))];
        let (mean, deviation) = mean_and_deviation(&first("RandomNormal", &seeded(7.0, &moved), vec![]).1);
        assert!((mean - 5.0).abs() < 0.1 && (deviation - 2.0).abs() < 0.1, "{mean} {deviation}");
        let like = first("RandomNormalLike", &[], vec![counting(&[2, 3])]);
        assert_eq!(like.0, [2, 3]);
    }

    #[test]
    fn choices_follow_their_probabilities() {
        let chances = tensor(&[4, 1000], &[[0f32; 1000], [0.25; 1000], [1.0; 1000], [f32::NAN; 1000]].concat());
        let drawn = first("Bernoulli", &[], vec![chances]).1;
        let count = |row: usize| drawn[row * 1000..][..1000].iter().sum::<f64>();
        assert_eq!([count(0), count(2), count(3)], [0.0, 1000.0, 0.0]);
        assert!((count(1) - 250.0).abs() < 60.0);
        let logarithms = tensor(&[2, 3], &[1000f32, 1000.0, -5.0, f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
        let drawn = first("Multinomial", &[("sample_size", Attribute::Int(1000))], vec![logarithms]).1;
        let ones = drawn[..1000].iter().filter(|&&place| place == 1.0).count();
        assert!(drawn[..1000].iter().all(|&place| place < 2.0) && ones.abs_diff(500) < 80);
        assert!(drawn[1000..].iter().all(|&place| place == 1.0));
        let error = all("Multinomial", &[], vec![tensor::<f32>(&[1, 0], &[])]).expect_err("nothing to choose");
        assert_eq!(error.message, "Multinomial of rows without an element");
    }

    #[test]
    fn dropout_leaves_out_and_enlarges() {
        let ones = tensor(&[1000], &[1f32; 1000]);
        let run = |ratio: f32, training| {
            let inputs = vec![ones.clone(), tensor(&[], &[ratio]), tensor(&[], &[training])];
            compute(&node("Dropout", 2, &[("seed", Attribute::Int(3))]), inputs, &[])
        };
        let [y, mask]: [Array<'static>; 2] = run(0.75, true).expect("dropout").try_into().expect("two outputs");
        let (y, mask) = (y.to_f64(), mask.to_f64());
        assert!(y.iter().zip(&mask).all(|(y, stays)| *y == 4.0 * stays));
        assert!((mask.sum() - 250.0).abs() < 60.0);
        assert_eq!(run(0.75, false).expect("inference")[0].to_f64().sum(), 1000.0);
        let error = run(1.0, true).expect_err("nothing is left").message;
        assert_eq!(error, "Dropout leaves out 1 of its input, expected 0 to less than 1");
    }
}
