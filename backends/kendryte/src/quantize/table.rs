//! Tables of bytes to bytes (layer REQUANTIZE).

use super::{Quantization, TOP};

/// For each byte of the input the byte of the output that is nearest to `function` of what it stands for.
pub fn table(input: Quantization, output: Quantization, function: impl Fn(f64) -> f64) -> [u8; 256] {
    std::array::from_fn(|byte| {
        let real = (byte as f64 - f64::from(input.zero_point)) * f64::from(input.scale);
        output.level(function(real)).round().clamp(0.0, TOP) as u8
    })
}
