//! Recurrent layers in all their forms but one: onnxruntime has none whose batch comes first.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, fixed};
use super::super::values;
use super::short::{fresh, int, nodes, perhaps, text};

/// Functions of gates, with an end on both sides: others leave what a type holds within a few steps.
const ACTIVATIONS: [&str; 4] = ["Sigmoid", "Tanh", "Softsign", "HardSigmoid"];

pub(crate) fn recurrent(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (steps, batch) = (builder.random.of(&[1, 2, 4]), builder.random.of(&[1, 2, 3]));
    let (gates, functions) = match op {
        "LSTM" => (4, 3),
        "GRU" => (3, 2),
        _ => (1, 1),
    };
    let (columns, hidden) = (builder.random.of(&[1, 2, 5]), builder.random.of(&[1, 3, 8]));
    let direction = builder.random.of(&["forward", "reverse", "bidirectional"]);
    let directions = if direction == "bidirectional" { 2 } else { 1 };
    let state: Vec<Size> = [directions, batch, hidden].map(fixed).to_vec();
    let fixed_all = |values: &[usize]| values.iter().copied().map(fixed).collect::<Vec<_>>();
    let mut inputs = vec![
        fresh(builder, dtype, &fixed_all(&[steps, batch, columns])),
        fresh(builder, dtype, &fixed_all(&[directions, gates * hidden, columns])),
        fresh(builder, dtype, &fixed_all(&[directions, gates * hidden, hidden])),
        perhaps(builder, dtype, &fixed_all(&[directions, 2 * gates * hidden])),
    ];
    inputs.push(lengths(builder, steps, batch));
    inputs.push(perhaps(builder, dtype, &state));
    if op == "LSTM" {
        inputs.push(perhaps(builder, dtype, &state));
        inputs.push(perhaps(builder, dtype, &fixed_all(&[directions, 3 * hidden])));
    }
    let mut attributes = vec![("direction", text(direction)), ("hidden_size", int(hidden))];
    if builder.random.chance(40) {
        let names = (0..functions * directions).map(|_| builder.random.of(&ACTIVATIONS).to_owned()).collect::<Vec<_>>();
        // Without parameters onnxruntime takes 0 for those that some functions have, and ONNX the defaults of their operators.
        let values = |names: &[String], of: fn(&str) -> f32| names.iter().map(|name| of(name)).collect();
        let alpha = values(&names, |name| if name == "HardSigmoid" { 0.3 } else { 1.0 });
        let beta = values(&names, |name| if name == "HardSigmoid" { 0.4 } else { 1.0 });
        attributes.push(("activation_alpha", Attribute::Floats(alpha)));
        attributes.push(("activation_beta", Attribute::Floats(beta)));
        attributes.push(("activations", Attribute::Strings(names)));
    }
    match op {
        "GRU" => attributes.push(("linear_before_reset", int(builder.random.below(2)))),
        "LSTM" if builder.random.chance(20) => attributes.push(("input_forget", int(1))),
        _ => {}
    }
    let all = fixed_all(&[steps, directions, batch, hidden]);
    let mut outputs = vec![(dtype, all), (dtype, state.clone())];
    if op == "LSTM" {
        outputs.push((dtype, state));
    }
    nodes(builder, op, &inputs, attributes, outputs);
    Some(())
}

/// The lengths of the sequences, or none.
fn lengths(builder: &mut Builder, steps: usize, batch: usize) -> String {
    if builder.random.chance(60) {
        return String::new();
    }
    let lengths: Vec<f64> = (0..batch).map(|_| (1 + builder.random.below(steps)) as f64).collect();
    builder.structural(values::vector(DType::I32, &lengths))
}
