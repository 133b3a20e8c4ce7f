//! Recurrent layers: which become fast kernels, and that they compute what the plain ones do.

use byoc_plugin_api::testing::{RegionBuilder, Tensor, Type};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, check, compile, empty};

/// A layer of 5 steps of two sequences.
struct Layer {
    op: &'static str,
    directions: usize,
    lengths: bool,
    attributes: Vec<(&'static str, Attribute)>,
}

fn layer(op: &'static str, directions: usize) -> Layer {
    let direction = Attribute::String(if directions == 2 { "bidirectional" } else { "forward" }.into());
    let names: &[&str] = match op {
        "LSTM" => &["Sigmoid", "Tanh", "Tanh"],
        "GRU" => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    let names = Attribute::Strings(names.repeat(directions).iter().map(|&name| name.into()).collect());
    Layer { op, directions, lengths: false, attributes: vec![("direction", direction), ("activations", names)] }
}

impl Layer {
    fn with(mut self, name: &'static str, value: Attribute) -> Layer {
        self.attributes.retain(|(known, _)| *known != name);
        self.attributes.push((name, value));
        self
    }

    fn net(&self, hidden: usize) -> RegionBuilder {
        let (mut net, d) = (empty(), self.directions);
        let gates = match self.op {
            "LSTM" => 4,
            "GRU" => 3,
            _ => 1,
        };
        let x = net.input([5, 2, 6]);
        let w = net.weight([d, gates * hidden, 6]);
        let r = net.weight([d, gates * hidden, hidden]);
        let b = net.weight([d, 2 * gates * hidden]);
        let mut inputs = vec![x, w, r, b];
        if self.lengths {
            inputs.push(net.constant(Tensor::new((DType::I32, [2]), &[5.0, 3.0])));
            inputs.push(net.input([d, 2, hidden]));
        }
        let state = Type::from([d, 2, hidden]);
        let mut types = vec![Type::from([5, d, 2, hidden]), state.clone(), state];
        types.truncate(if self.op == "LSTM" { 3 } else { 2 });
        let inputs: Vec<_> = inputs.into_iter().map(Some).collect();
        let outputs = net.nodes(self.op, &inputs, &types, &self.attributes[..]);
        outputs.into_iter().for_each(|output| net.output(output));
        net
    }
}

/// A layer of two directions.
pub(super) fn both_directions() -> RegionBuilder {
    let mut layer = layer("GRU", 2);
    layer.lengths = true;
    layer.net(3)
}

#[test]
fn layers_are_as_the_plain_kernels_compute_them() {
    let linear = Attribute::Int(1);
    let layers = [
        layer("LSTM", 1),
        layer("LSTM", 2),
        layer("LSTM", 1).with("direction", Attribute::String("reverse".into())),
        layer("GRU", 2),
        layer("GRU", 1).with("linear_before_reset", linear),
        layer("RNN", 2),
        layer("RNN", 1).with("activations", Attribute::Strings(vec!["relu".into()])),
    ];
    for mut layer in layers {
        for hidden in [16, 19] {
            for lengths in [false, true] {
                layer.lengths = lengths;
                assert_eq!(calls(&layer.net(hidden)), ["recurrent"]);
                check(&layer.net(hidden), &[]);
            }
        }
    }
}

/// Each gate is padded to whole vectors: where that costs much, the weights stay as they are and are packed at load.
#[test]
fn weights_are_stored_packed_where_that_makes_them_no_larger() {
    // Those of the input are few: what their padding takes is less than the slack.
    for (hidden, owners) in [(64, ["packed", "packed", "host"]), (65, ["packed", "host", "host"])] {
        let net = layer("LSTM", 1).net(hidden);
        assert_eq!(compile(&net, &[]).claims.words(), owners);
        check(&net, &[]);
    }
}

#[test]
fn what_the_kernel_does_not_have_stays_a_node() {
    let names = ["Sigmoid", "Tanh", "Relu"].map(String::from).to_vec();
    let others = [
        layer("LSTM", 1).with("clip", Attribute::Float(3.0)),
        layer("LSTM", 1).with("input_forget", Attribute::Int(1)),
        layer("LSTM", 1).with("activations", Attribute::Strings(names)),
        layer("RNN", 2).with("activations", Attribute::Strings(vec!["Tanh".into(), "Relu".into()])),
    ];
    for layer in others {
        assert_eq!(calls(&layer.net(4)), ["reference"]);
    }
}

#[test]
fn a_length_beyond_the_steps_is_an_error() {
    let mut net = empty();
    let x = net.input([5, 2, 6]);
    let (w, r) = (net.weight([1, 16, 6]), net.weight([1, 16, 16]));
    let lengths = net.input((DType::I32, [2]));
    let inputs = [Some(x), Some(w), Some(r), None, Some(lengths)];
    let y = net.nodes("RNN", &inputs, &[Type::from([5, 1, 2, 16])], &layer("RNN", 1).attributes[..]);
    net.output(y[0]);
    for settings in [&[][..], &[("kernels", "reference")]] {
        let compiled = compile(&net, settings);
        let mut inputs = net.inputs(1, &[]);
        inputs[1] = Tensor::new((DType::I32, [2]), &[2.0, 6.0]);
        let error = compiled.run(&inputs, &[]).expect_err("too long");
        assert_eq!(error.message, "a sequence of 6 steps, where there are 5");
    }
}
