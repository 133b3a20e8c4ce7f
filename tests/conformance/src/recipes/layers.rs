//! Shape makers of layers that are rarer than products and windows.

use byoc_plugin_api::{Attribute, DType};

use super::{CHANNELS, INNER, Operand, Recipe, Wish, any, below, filled, onnx_code, recipe, sizes, with};
use crate::onnx::Fill;

/// The recipe for such an operator.
pub(super) fn find(op: &str, wish: &Wish) -> Option<Recipe> {
    windows(op, wish).or_else(|| regions(op, wish)).or_else(|| signals(op, wish))
}

/// What goes over images by windows.
fn windows(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let window = [("kernel_shape", Attribute::Ints(vec![3, 3])), ("pads", Attribute::Ints(vec![1, 1, 1, 1]))];
    match (op, shape.as_slice()) {
        ("ConvTranspose", &[batch, channels, height, width]) => {
            let x = any(*dtype, &[batch, CHANNELS, height, width]);
            with(vec![x, any(*dtype, &[CHANNELS, channels, 3, 3]), any(*dtype, &[channels])], 2, &window)
        }
        ("DeformConv", &[batch, channels, height, width]) => {
            let x = any(*dtype, &[batch, CHANNELS, height, width]);
            let moves = any(*dtype, &[batch, 18, height, width]);
            with(vec![x, any(*dtype, &[channels, CHANNELS, 3, 3]), moves, any(*dtype, &[channels])], 3, &window)
        }
        ("LpPool", [_, _, _, _]) => with(vec![any(*dtype, shape)], 1, &window),
        ("GlobalLpPool", &[batch, channels, 1, 1]) => recipe(vec![any(*dtype, &[batch, channels, 5, 4])], 1),
        ("MaxUnpool", &[batch, channels, height, width]) if height % 2 == 0 && width % 2 == 0 => {
            let half = [batch, channels, height / 2, width / 2];
            let places = below(shape.iter().product(), &half);
            let two = Attribute::Ints(vec![2, 2]);
            with(vec![any(*dtype, &half), places], 2, &[("kernel_shape", two.clone()), ("strides", two)])
        }
        ("Col2Im", &[batch, channels, height, width]) if width > 1 => {
            let blocks = any(*dtype, &[batch, channels * 2, height * (width - 1)]);
            recipe(vec![blocks, sizes(&[height, width]), sizes(&[1, 2])], 3)
        }
        _ => None,
    }
}

/// What takes other parts of images.
fn regions(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    match (op, shape.as_slice()) {
        ("GridSample", &[batch, channels, height, width]) if dtype.is_float() => {
            recipe(vec![any(*dtype, &[batch, channels, 5, 4]), any(*dtype, &[batch, height, width, 2])], 2)
        }
        ("RoiAlign", &[count, channels, height, width]) if height > 0 && width > 0 => {
            let size = |size: usize| Attribute::Int(size as i64);
            let images = below(1, &[count]);
            with(
                vec![any(*dtype, &[1, channels, 8, 8]), any(*dtype, &[count, 4]), images],
                3,
                &[("output_height", size(height)), ("output_width", size(width)), ("sampling_ratio", size(2))],
            )
        }
        ("MaxRoiPool", &[count, channels, height, width]) if height > 0 && width > 0 => {
            // An image for each number that a corner may be.
            let regions = filled(*dtype, &[count, 5], Fill::Below(8));
            let pooled = [height, width].map(|size| size as i64);
            let attributes = [("pooled_shape", Attribute::Ints(pooled.into()))];
            with(vec![any(*dtype, &[8, channels, 9, 9]), regions], 2, &attributes)
        }
        _ => None,
    }
}

/// Recurrent layers, transforms of signals, and what is made of matrices.
fn signals(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let gates = match op {
        "LSTM" => 4,
        "GRU" => 3,
        _ => 1,
    };
    match (op, shape.as_slice()) {
        // Sequences first, so that the dimension of directions is one of those that nobody minds.
        ("LSTM" | "GRU" | "RNN", &[batch, steps, 1, hidden]) if hidden > 0 => {
            let weights = |columns| any(*dtype, &[1, gates * hidden, columns]);
            let bias = any(*dtype, &[1, 2 * gates * hidden]);
            let operands = vec![any(*dtype, &[batch, steps, CHANNELS]), weights(CHANNELS), weights(hidden), bias];
            with(operands, 3, &[("layout", Attribute::Int(1))])
        }
        ("Einsum", &[rows, columns]) => {
            let factors = vec![any(*dtype, &[rows, INNER]), any(*dtype, &[INNER, columns])];
            with(factors, 2, &[("equation", Attribute::String("ij,jk->ik".into()))])
        }
        ("Det", _) => recipe(vec![any(*dtype, &[shape.as_slice(), &[3, 3]].concat())], 1),
        ("BitCast", _) if *dtype == DType::U8 => {
            with(vec![any(DType::I8, shape)], 1, &[("to", Attribute::Int(onnx_code(DType::U8)))])
        }
        // Frames that overlap by half.
        ("STFT", &[batch, frames, half, 2]) if half > 1 && frames > 0 => {
            let step = half - 1;
            let signal = any(*dtype, &[batch, (frames + 1) * step, 1]);
            let operands = vec![signal, Operand::Ints(vec![step as i64], vec![]), any(*dtype, &[2 * step])];
            recipe(operands, 3)
        }
        // How often each of some numbers is in a row.
        ("TfIdfVectorizer", &[rows, columns]) if *dtype == DType::F32 && columns > 0 => {
            let list = |values: Vec<usize>| Attribute::Ints(values.into_iter().map(|value| value as i64).collect());
            let number = |value: i64| Attribute::Int(value);
            let attributes = [
                ("mode", Attribute::String("TF".into())),
                ("min_gram_length", number(1)),
                ("max_gram_length", number(1)),
                ("max_skip_count", number(0)),
                ("ngram_counts", list(vec![0])),
                ("ngram_indexes", list((0..columns).collect())),
                ("pool_int64s", list((0..columns).rev().collect())),
            ];
            with(vec![below(columns + 1, &[rows, INNER])], 1, &attributes)
        }
        // Backwards from the half of the frequencies that are different, which are complex.
        ("DFT", [front @ .., size, 1]) if *size > 0 => {
            let half = any(*dtype, &[front, &[size / 2 + 1, 2]].concat());
            let length = Operand::Ints(vec![*size as i64], vec![]);
            with(vec![half, length], 2, &[("inverse", Attribute::Int(1)), ("onesided", Attribute::Int(1))])
        }
        _ => None,
    }
}
