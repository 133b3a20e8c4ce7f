//! Quantised convolutions in the simulator against convolutions in real numbers.

use super::curves::outputs;
use byoc_plugin_api::testing::Rng;

use super::{activations, normal, of_lines};
use crate::kmodel::arguments::{Arguments, Kernel};
use crate::kmodel::conv::Conv;
use crate::quantize::{self, Activation, Curve, FloatConv, Quantization, QuantizedConv, conv};
use crate::simulator::Simulator;
use crate::tests::build;

const WIDTH: usize = 6;
const HEIGHT: usize = 5;

/// How weights are drawn.
#[derive(Clone, Copy, Debug)]
enum Weights {
    Normal,
    /// A few are far greater than the others.
    Peaky,
    /// Each channel a hundred times smaller than the one before; the first one is all zeros.
    Spread,
}

/// A layer with the meaning of its input.
struct Layer {
    weights: Vec<f32>,
    bias: Vec<f32>,
    scale: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
    kernel: Kernel,
    depthwise: bool,
    input: Quantization,
}

impl Layer {
    fn random(kernel: Kernel, depthwise: bool, drawn: Weights, input: Quantization, random: &mut Rng) -> Self {
        let outputs = random.usize(2..=5);
        let inputs = if depthwise { outputs } else { random.usize(1..=9) };
        let size = (kernel.size() * kernel.size()) as usize * if depthwise { 1 } else { inputs };
        // So that sums are about as large as the largest output range, or much smaller.
        let (low, high) = input.range();
        let usual = 10f64.powf(-1.5 * random.f64()) * 6.0 / (f64::from(high - low) * (size as f64).sqrt());
        let weight = |index: usize, random: &mut Rng| match drawn {
            Weights::Normal => normal(random),
            Weights::Peaky => normal(random).powi(5),
            Weights::Spread if index < size => 0.0,
            Weights::Spread => normal(random) * 100f64.powi(1 - (index / size) as i32),
        };
        let weights = (0..outputs * size).map(|index| (weight(index, random) * usual) as f32).collect();
        let bias = (0..outputs).map(|_| normal(random) as f32).collect();
        let scale = (random.bool()).then(|| (0..outputs).map(|_| normal(random) as f32).collect());
        Layer { weights, bias, scale, inputs, outputs, kernel, depthwise, input }
    }

    fn float(&self) -> FloatConv<'_> {
        FloatConv {
            weights: quantize::Weights::Real(&self.weights),
            bias: self.bias.clone(),
            scale: self.scale.clone(),
            output_channels: self.outputs,
            input_channels: self.inputs,
            kernel: self.kernel,
            depthwise: self.depthwise,
        }
    }

    /// The size of the weights of an output channel.
    fn size(&self) -> usize {
        self.weights.len() / self.outputs
    }

    /// The factor of a channel.
    fn factor(&self, channel: usize) -> f64 {
        self.scale.as_ref().map_or(1.0, |scale| f64::from(scale[channel]))
    }

    /// What the kernel sees at a pixel: real numbers in the order of the weights of a channel.
    fn window(&self, x: &[u8], channel: usize, pixel: usize) -> Vec<f64> {
        let k = self.kernel.size() as i64;
        let (row, column) = ((pixel / WIDTH) as i64, (pixel % WIDTH) as i64);
        let channels = if self.depthwise { channel..channel + 1 } else { 0..self.inputs };
        let real = |byte: u8| (f64::from(byte) - f64::from(self.input.zero_point)) * f64::from(self.input.scale);
        let at = |channel: usize, y: i64, x_: i64| {
            let inside = (0..HEIGHT as i64).contains(&y) && (0..WIDTH as i64).contains(&x_);
            if inside { real(x[(channel * HEIGHT + y as usize) * WIDTH + x_ as usize]) } else { 0.0 }
        };
        let cells = channels.flat_map(|channel| (0..k * k).map(move |cell| (channel, cell / k, cell % k)));
        cells.map(|(channel, y, x_)| at(channel, row + y - k / 2, column + x_ - k / 2)).collect()
    }

    /// The layer as a model.
    fn kmodel(&self, quantized: &QuantizedConv) -> crate::kmodel::Kmodel {
        let arguments = Arguments {
            depthwise: self.depthwise,
            kernel: self.kernel,
            pad_value: quantized.pad_value,
            arg_x: quantized.arg_x,
            shr_x: quantized.shr_x,
            arg_w: quantized.arg_w,
            shr_w: quantized.shr_w,
            arg_add: quantized.arg_add,
            ..build::arguments(self.inputs as u32, self.outputs as u32, WIDTH as u32, HEIGHT as u32)
        };
        build::single(Conv {
            output: 0,
            arguments: arguments.settled(),
            weights: quantized.weights.clone(),
            batch_norm: quantized.batch_norm.clone(),
            activation: quantized.activation,
        })
    }
}

/// The most by which a function changes when its argument changes by 1.
fn steepest(activation: Activation) -> f64 {
    match activation {
        Activation::LeakyRelu { slope } => f64::from(slope).max(1.0),
        Activation::HardSigmoid { alpha, .. } => alpha.into(),
        Activation::Sigmoid => 0.25,
        Activation::Elu { alpha } => f64::from(alpha).max(1.0),
        Activation::Selu { alpha, gamma } => f64::from(gamma) * f64::from(alpha).max(1.0),
        _ => 1.0,
    }
}

/// Runs a quantised layer and holds it against real numbers. Returns the greatest difference in steps.
///
/// The bound: half a step for the byte, what the table costs, and what the rounding of weights can make of these
/// inputs: half a weight step times the sum of their absolute values, times the slope of the function.
fn hold(layer: &Layer, output: Quantization, activation: Activation, curve: &Curve, random: &mut Rng) -> f64 {
    let quantized = conv(&layer.float(), layer.input, output, activation).expect("it fits");
    let model = layer.kmodel(&quantized);
    assert_eq!(model.check(), [], "{activation:?}");
    let x = build::bytes(random, layer.inputs * WIDTH * HEIGHT);
    let mut simulator = Simulator::new(model, 1).expect("it can run");
    simulator.run(&x).expect("it runs");
    let y = simulator.output(0).expect("an output");
    let tables = curve.tables();
    let table = tables.iter().find(|table| table.segments == quantized.activation).expect("one of them");
    let scale = f64::from(output.scale);
    let mut worst = 0f64;
    for (index, &byte) in y.iter().enumerate() {
        let (channel, pixel) = (index / (WIDTH * HEIGHT), index % (WIDTH * HEIGHT));
        let window = layer.window(&x, channel, pixel);
        let weights = &layer.weights[channel * layer.size()..][..layer.size()];
        let products = window.iter().zip(weights).map(|(x, w)| x * f64::from(*w));
        let sum = products.sum::<f64>() * layer.factor(channel) + f64::from(layer.bias[channel]);
        let expected = (activation.apply(sum) / scale + f64::from(output.zero_point)).clamp(0.0, 255.0);
        let word = quantized.batch_norm[channel];
        let step = f64::from(word.mul) / 2f64.powi(word.shift.into()) * quantized.unit / f64::from(layer.input.scale);
        let of_weights = 0.5 * step * window.iter().map(|x| x.abs()).sum::<f64>() * steepest(activation) / scale;
        let bound = 0.5 + of_lines(activation) + table.error + of_weights + 1e-6;
        let difference = (f64::from(byte) - expected).abs();
        assert!(
            difference <= bound,
            "{activation:?} to {:?}, channel {channel}: {byte} is {difference} from {expected}, at most {bound}",
            output.range()
        );
        worst = worst.max(difference - of_weights);
    }
    check_weights(layer, &quantized);
    worst
}

/// That weights are within half a step of the real ones, and that the step is the greatest over 127, rounded up to what
/// the word can say: a multiple of `unit / input scale / 2^shift`.
fn check_weights(layer: &Layer, quantized: &QuantizedConv) {
    for channel in 0..layer.outputs {
        let word = quantized.batch_norm[channel];
        let least = quantized.unit / f64::from(layer.input.scale) / 2f64.powi(word.shift.into());
        let step = f64::from(word.mul) * least;
        let part = channel * layer.size()..(channel + 1) * layer.size();
        let real = layer.weights[part.clone()].iter().map(|w| f64::from(*w) * layer.factor(channel));
        let largest = real.clone().fold(0f64, |most, w| most.max(w.abs()));
        if word.mul == 0 {
            // All zeros, or nothing brings the channel out of saturation.
            assert!(quantized.weights[part].iter().all(|byte| *byte == 128));
            continue;
        }
        assert!(step >= largest / 127.0 * (1.0 - 1e-12) && step < largest / 127.0 + least * (1.0 + 1e-9), "{step}");
        for (byte, real) in quantized.weights[part].iter().zip(real) {
            assert!(((f64::from(*byte) - 128.0) * step - real).abs() <= 0.5 * step * (1.0 + 1e-9));
        }
    }
}

#[test]
fn random_layers_are_within_their_bound() {
    let mut random = Rng::with_seed(11);
    let inputs = [(0.0, 1.0), (-1.0, 1.0), (-2.1, 2.6), (-0.5, 6.0), (-3.0, 0.0)];
    let (mut layers, mut worst) = (0, [0f64; 2]);
    for activation in activations() {
        for output in outputs(activation) {
            let curve = Curve::new(activation, output);
            for (kernel, depthwise) in
                [(Kernel::One, false), (Kernel::Three, false), (Kernel::One, true), (Kernel::Three, true)]
            {
                for drawn in [Weights::Normal, Weights::Peaky, Weights::Spread] {
                    let (low, high) = inputs[random.usize(0..=4)];
                    let input = Quantization::of(low, high);
                    let layer = Layer::random(kernel, depthwise, drawn, input, &mut random);
                    let found = hold(&layer, output, activation, &curve, &mut random);
                    let curved = usize::from(activation.pieces().is_none());
                    worst[curved] = worst[curved].max(found);
                    layers += 1;
                }
            }
        }
    }
    assert_eq!(layers, activations().len() * 7 * 4 * 3);
    // But for the weights, all are within one step.
    assert!(worst[0] < 0.65 && worst[1] < 0.95, "{worst:?}");
}

/// The most channels that there are, and biases that need a coarser unit than others.
#[test]
fn large_sums_are_within_their_bound() {
    let mut random = Rng::with_seed(13);
    for (inputs, bias) in [(1024, 0.0), (1024, 900.0), (3, 4000.0), (3, -4000.0)] {
        let input = Quantization::of(-1.0, 3.0);
        let mut layer = Layer::random(Kernel::Three, false, Weights::Normal, input, &mut random);
        (layer.inputs, layer.outputs, layer.scale) = (inputs, 2, None);
        // Sums around the bias to the other side, so that the output is not saturated.
        let weight = -bias / (9.0 * inputs as f64);
        let spread = if bias == 0.0 { 1e-3 } else { weight.abs() };
        layer.weights = (0..9 * inputs * 2).map(|_| (weight + normal(&mut random) * spread) as f32).collect();
        layer.bias = vec![bias as f32, 0.5];
        let output = Quantization::of(-1.0, 1.0);
        hold(&layer, output, Activation::Linear, &Curve::new(Activation::Linear, output), &mut random);
        let exponent = |unit: f64| (f64::from(output.scale) / unit).log2().round() as i32;
        let found = exponent(conv(&layer.float(), input, output, Activation::Linear).expect("it fits").unit);
        assert_eq!(found < 14, bias.abs() > 2000.0, "{found}");
    }
}

/// Scales that are as large or as small as they get: what is quantised keeps the rules, the rest is refused.
#[test]
fn extreme_scales() {
    let mut random = Rng::with_seed(15);
    let (mut fitting, mut refused) = (0, 0);
    for activation in activations() {
        for _ in 0..40 {
            let decades = [3.0, 36.0][random.usize(0..=1)];
            let mut draw = || Quantization {
                scale: 10f64.powf((2.0 * random.f64() - 1.0) * decades) as f32,
                zero_point: random.u8(..),
            };
            let (input, output) = (draw(), draw());
            let layer = Layer::random(Kernel::Three, false, Weights::Normal, input, &mut random);
            match conv(&layer.float(), input, output, activation) {
                Ok(quantized) => {
                    fitting += 1;
                    assert_eq!(layer.kmodel(&quantized).check(), [], "{activation:?}");
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.hint.is_some(), "{error}");
                }
            }
        }
    }
    assert!(fitting > 300 && refused > 50, "{fitting} {refused}");
}

/// The documentation of the weights says that a search for a step that clips gains little.
#[test]
fn clipped_weights_would_gain_little() {
    let mut random = Rng::with_seed(14);
    for (count, laplacian) in [(9, false), (144, false), (1152, false), (144, true), (1152, true)] {
        let draw = |random: &mut Rng| {
            if laplacian {
                -random.f64().max(1e-300).ln() * if random.bool() { 1.0 } else { -1.0 }
            } else {
                normal(random)
            }
        };
        let (mut ours, mut best) = (0.0, 0.0);
        for _ in 0..50 {
            let weights: Vec<f64> = (0..count).map(|_| draw(&mut random)).collect();
            let largest = weights.iter().fold(0f64, |most, w| most.max(w.abs()));
            let noise = |step: f64| {
                weights.iter().map(|w| (w - (w / step).round().clamp(-127.0, 127.0) * step).powi(2)).sum::<f64>()
            };
            let signal = weights.iter().map(|w| w * w).sum::<f64>();
            let decibels = |noise: f64| 10.0 * (signal / noise).log10();
            ours += decibels(noise(largest / 127.0)) / 50.0;
            let steps = (50..=100).map(|part| noise(largest / 127.0 * f64::from(part) / 100.0));
            best += decibels(steps.fold(f64::INFINITY, f64::min)) / 50.0;
        }
        assert!(best - ours < 0.1 && ours > 38.0, "{count} weights: {ours} and {best}");
    }
}

/// `acc` is exactly the sum of `(x - zero point) * (w - 128)`, for every zero point and outside the image.
#[test]
fn sums_are_exact() {
    let mut random = Rng::with_seed(12);
    for zero_point in 0..=255u8 {
        let (kernel, depthwise) =
            [(Kernel::Three, false), (Kernel::One, false), (Kernel::Three, true)][usize::from(zero_point) % 3];
        let input = Quantization { scale: 0.02, zero_point };
        let layer = Layer::random(kernel, depthwise, Weights::Normal, input, &mut random);
        let quantized = conv(&layer.float(), input, Quantization::of(-1.0, 1.0), Activation::Linear).expect("it fits");
        let x = build::bytes(&mut random, layer.inputs * WIDTH * HEIGHT);
        for channel in 0..layer.outputs {
            for pixel in 0..WIDTH * HEIGHT {
                let window = layer.window(&x, channel, pixel);
                let weights = &quantized.weights[channel * layer.size()..][..layer.size()];
                let levels: Vec<i64> = window.iter().map(|x| (x / 0.02f32 as f64).round() as i64).collect();
                let sum: i64 = levels.iter().zip(weights).map(|(x, w)| x * (i64::from(*w) - 128)).sum();
                assert_eq!(acc(&quantized, &levels, weights, layer.inputs, depthwise), sum);
            }
        }
    }
}

/// The formula of kmodel v3, section 4; `levels` are bytes less the zero point, which is that of the padding.
fn acc(quantized: &QuantizedConv, levels: &[i64], weights: &[u8], inputs: usize, depthwise: bool) -> i64 {
    let bytes: Vec<i64> = levels.iter().map(|level| level + i64::from(quantized.pad_value)).collect();
    let products: i64 = bytes.iter().zip(weights).map(|(x, w)| x * i64::from(*w)).sum();
    let sum_w: i64 = weights.iter().map(|w| i64::from(*w)).sum();
    let inputs = if depthwise { 1 } else { inputs as i64 };
    products
        + ((i64::from(quantized.arg_x) * bytes.iter().sum::<i64>()) >> quantized.shr_x)
        + ((i64::from(quantized.arg_w) * sum_w) >> quantized.shr_w)
        + quantized.arg_add * inputs
}
