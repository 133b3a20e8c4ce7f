//! Tables of bytes to bytes (layer REQUANTIZE).

use super::{Quantization, TOP};

/// For each byte of the input the byte of the output that is nearest to `function` of what it stands for; an even number of
/// steps where two are, as in ONNX.
pub fn table(input: Quantization, output: Quantization, function: impl Fn(f64) -> f64) -> [u8; 256] {
    std::array::from_fn(|byte| {
        let real = (byte as f64 - f64::from(input.zero_point)) * f64::from(input.scale);
        let steps = (function(real) / f64::from(output.scale)).round_ties_even();
        (steps + f64::from(output.zero_point)).clamp(0.0, TOP) as u8
    })
}
