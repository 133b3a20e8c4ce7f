//! Layers of one hidden element, small enough to follow by hand. The cases of the onnx package and onnxruntime have larger ones.

use byoc_plugin_api::Attribute;

use super::super::testing::{all, list, tensor, text};
use super::*;

/// An RNN that adds the input to half of the state, of two sequences.
fn sums(attributes: &[(&str, Attribute)], rest: Vec<Option<Array<'static>>>) -> Result<Vec<Vec<f64>>, String> {
    let linear = |directions: usize| Attribute::Strings(vec!["Affine".into(); directions]);
    let both = attributes.iter().any(|(_, value)| *value == text("bidirectional"));
    let directions = 1 + usize::from(both);
    let mut all_attributes = attributes.to_vec();
    all_attributes.push(("activations", linear(directions)));
    let x = tensor(&[3, 2, 1], &[1f32, 10.0, 2.0, 20.0, 4.0, 40.0]);
    let weights = tensor(&[directions, 1, 1], &vec![1f32; directions]);
    let recurrence = tensor(&[directions, 1, 1], &vec![0.5f32; directions]);
    let inputs = [vec![x, weights, recurrence, None], rest].concat();
    let outputs = all("RNN", &all_attributes, inputs).map_err(|error| error.message)?;
    Ok(outputs[..2].iter().map(|output| output.to_f64().into_iter().collect()).collect())
}

#[test]
fn directions_lengths_and_states() {
    let found = sums(&[], vec![]);
    assert_eq!(found, Ok(vec![vec![1.0, 10.0, 2.5, 25.0, 5.25, 52.5], vec![5.25, 52.5]]));
    let found = sums(&[("direction", text("reverse"))], vec![]);
    assert_eq!(found, Ok(vec![vec![3.0, 30.0, 4.0, 40.0, 4.0, 40.0], vec![3.0, 30.0]]));
    let lengths = || tensor(&[2], &[1i32, 2]);
    let found = sums(&[("direction", text("bidirectional"))], vec![lengths()]);
    let y = vec![1.0, 10.0, 1.0, 20.0, 0.0, 25.0, 0.0, 20.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(found, Ok(vec![y, vec![1.0, 25.0, 1.0, 20.0]]));
    let found = sums(&[("clip", Attribute::Float(4.0))], vec![None, tensor(&[1, 2, 1], &[2f32, -40.0])]);
    assert_eq!(found, Ok(vec![vec![2.0, -4.0, 3.0, 4.0, 4.0, 4.0], vec![4.0, 4.0]]));
    // No step leaves the state as it was.
    let found = sums(&[], vec![tensor(&[2], &[0i32, 0]), tensor(&[1, 2, 1], &[7f32, 8.0])]);
    assert_eq!(found, Ok(vec![vec![0.0; 6], vec![7.0, 8.0]]));
}

#[test]
fn wrong_sizes_are_errors() {
    let error = sums(&[], vec![tensor(&[2], &[1i32, 4])]).expect_err("too long");
    assert_eq!(error, "a sequence of 4 steps, where there are 3");
    let error = sums(&[], vec![tensor(&[2], &[1i32, -1])]).expect_err("negative");
    assert_eq!(error, "a sequence of -1 steps, where there are 3");
    let error = sums(&[], vec![None, tensor(&[1, 1, 1], &[1f32])]).expect_err("another batch");
    assert_eq!(error, "input 5 of RNN has the shape [1, 1, 1], expected [1, 2, 1]");
    let error = sums(&[("clip", Attribute::Float(f32::NAN))], vec![]).expect_err("not a limit");
    assert_eq!(error, "the clip of RNN is not a number from 0 on");
    let inputs = vec![tensor(&[1, 1, 1], &[1f32]); 3];
    let error = all("GRU", &[("activations", list(&[1]))], inputs).expect_err("one gate").message;
    assert_eq!(error, "GRU of [1, 1, 1] by [1, 1, 1] and [1, 1, 1]");
}

/// A quantised LSTM whose gates are what the input gives them, so that its cell is a sum: one sequence, one hidden element.
fn quantised(x: &[f32], parameters: [Option<Array<'static>>; 4]) -> Result<Vec<Vec<f64>>, String> {
    let functions = ["Affine", "affine", "AFFINE"].map(str::to_owned).to_vec();
    let weights = || tensor(&[1, 1, 4], &[130u8, 130, 130, 130]);
    let [w_scale, w_zero, r_scale, r_zero] = parameters;
    let mut inputs = vec![tensor(&[x.len(), 1, 1], x), weights(), weights()];
    inputs.extend((3..8).map(|_| None));
    inputs.extend([w_scale, w_zero, r_scale, r_zero]);
    let attributes = [("activations", Attribute::Strings(functions))];
    let outputs = all("com.microsoft.DynamicQuantizeLSTM", &attributes, inputs).map_err(|error| error.message)?;
    Ok(outputs.iter().map(|output| output.to_f64().into_iter().collect()).collect())
}

#[test]
fn inputs_and_states_are_quantised_by_their_own_ranges() {
    let zero = || tensor(&[1], &[128u8]);
    // Each gate is 2 * 0.5 of the input, 255 levels of 1; what the state gives is nothing.
    let nothing = || tensor(&[1], &[0f32]);
    let found = quantised(&[255.0, 1.4], [tensor(&[1], &[0.5f32]), zero(), nothing(), zero()]);
    let first = [255.0 * 255.0, 255f64.powi(3)];
    let cell = 1.0 * first[0] + 1.0;
    assert_eq!(found, Ok(vec![vec![first[1], cell], vec![cell], vec![cell]]));
    // A scale and a zero point for each gate: the forget gate is closed, and the output gate is twice the input.
    let scales = tensor(&[1, 4], &[0.5f32, 1.0, 0.5, 0.5]);
    let zeros = tensor(&[1, 4], &[128u8, 128, 130, 128]);
    let found = quantised(&[255.0, 2.0], [scales, zeros, nothing(), zero()]);
    assert_eq!(found, Ok(vec![vec![510.0 * 255.0 * 255.0, 16.0], vec![16.0], vec![4.0]]));
    let found = quantised(&[1.0], [tensor(&[2], &[1f32, 1.0]), zero(), nothing(), zero()]);
    let message = "input 8 of com.microsoft.DynamicQuantizeLSTM has the shape [2], expected [1] or [1, 4]";
    assert_eq!(found, Err(message.to_owned()));
}
