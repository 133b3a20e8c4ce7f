//! MobileNet v1 (Howard et al., 2017, <https://arxiv.org/abs/1704.04861>) with random weights: 13 pairs of depthwise
//! and pointwise convolutions with batch normalization, 4.2 million weights. Two of its blocks have the same weights,
//! written twice under different names, as exporters write tied ones.

use super::protobuf::{Message, int, ints, node, tensor, value};
use byoc_tools::fill::SplitMix;

/// Output channels and stride of each block.
const BLOCKS: [(i64, i64); 13] = [
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (512, 1),
    (1024, 2),
    (1024, 1),
];

/// The block that has the weights of another one, and that one.
const TIED: (usize, usize) = (8, 7);

const CLASSES: i64 = 1000;

/// The graph as far as it is written.
#[derive(Default)]
struct Builder {
    nodes: Vec<Message>,
    weights: Vec<Message>,
}

/// The bytes of the model file.
pub(crate) fn model() -> Vec<u8> {
    let mut builder = Builder::default();
    let mut channels = 32;
    let mut x = builder.convolution(
        "stem",
        "stem",
        "image",
        Shape { inputs: 3, outputs: channels, kernel: 3, groups: 1, stride: 2 },
    );
    for (index, (outputs, stride)) in BLOCKS.into_iter().enumerate() {
        let source = if index == TIED.0 { TIED.1 } else { index };
        let depthwise = Shape { inputs: channels, outputs: channels, kernel: 3, groups: channels, stride };
        let (name, seed) = (format!("block{index}.depthwise"), format!("block{source}.depthwise"));
        x = builder.convolution(&name, &seed, &x, depthwise);
        let pointwise = Shape { inputs: channels, outputs, kernel: 1, groups: 1, stride: 1 };
        let (name, seed) = (format!("block{index}.pointwise"), format!("block{source}.pointwise"));
        x = builder.convolution(&name, &seed, &x, pointwise);
        channels = outputs;
    }
    builder.classifier(&x, channels);
    let graph = Message::default()
        .messages(1, builder.nodes)
        .bytes(2, b"quickstart")
        .messages(5, builder.weights)
        .message(11, value("image", &[1, 3, 224, 224]))
        .message(12, value("probabilities", &[1, CLASSES]));
    let opset = Message::default().bytes(1, b"").int(2, 17);
    Message::default().int(1, 8).bytes(2, b"byoc quickstart").message(7, graph).message(8, opset).into_bytes()
}

/// What a convolution is like.
struct Shape {
    inputs: i64,
    outputs: i64,
    kernel: i64,
    groups: i64,
    stride: i64,
}

impl Builder {
    /// Convolution, batch normalization and Relu. Layers with the same `seed` have the same weights.
    fn convolution(&mut self, name: &str, seed: &str, x: &str, shape: Shape) -> String {
        let Shape { inputs, outputs, kernel, groups, stride } = shape;
        let fan_in = inputs / groups * kernel * kernel;
        let weight = self.weight(name, "weight", seed, &[outputs, inputs / groups, kernel, kernel], he(fan_in));
        let pad = kernel / 2;
        let attributes = vec![
            int("group", groups),
            ints("kernel_shape", &[kernel, kernel]),
            ints("pads", &[pad, pad, pad, pad]),
            ints("strides", &[stride, stride]),
        ];
        let convolved = self.node(name, "Conv", &[x, &weight], attributes);
        let around = |middle: f32, width: f32| move |random: &mut SplitMix| middle + width * (random.uniform() - 0.5);
        let statistics = [
            self.weight(name, "scale", seed, &[outputs], around(1.0, 0.4)),
            self.weight(name, "bias", seed, &[outputs], around(0.0, 0.4)),
            self.weight(name, "mean", seed, &[outputs], around(0.0, 0.4)),
            self.weight(name, "variance", seed, &[outputs], around(1.0, 0.4)),
        ];
        let [scale, bias, mean, variance] = &statistics;
        let normalized = self.node(name, "BatchNormalization", &[&convolved, scale, bias, mean, variance], vec![]);
        self.node(name, "Relu", &[&normalized], vec![])
    }

    /// Pooling, one dense layer and Softmax.
    fn classifier(&mut self, x: &str, channels: i64) {
        let pooled = self.node("pool", "GlobalAveragePool", &[x], vec![]);
        let flat = self.node("flatten", "Flatten", &[&pooled], vec![int("axis", 1)]);
        let weight = self.weight("classifier", "weight", "classifier", &[CLASSES, channels], he(channels));
        let bias = self.weight("classifier", "bias", "classifier", &[CLASSES], |random| 0.1 * (random.uniform() - 0.5));
        let logits = self.node("classifier", "Gemm", &[&flat, &weight, &bias], vec![int("transB", 1)]);
        self.nodes.push(node("probabilities", "Softmax", &[&logits], "probabilities", vec![int("axis", 1)]));
    }

    /// Adds a node and gives the name of its output.
    fn node(&mut self, layer: &str, op: &str, inputs: &[&str], attributes: Vec<Message>) -> String {
        let name = format!("{layer}/{op}");
        self.nodes.push(node(&name, op, inputs, &name, attributes));
        name
    }

    /// Adds a weight and gives its name.
    fn weight(
        &mut self,
        layer: &str,
        kind: &str,
        seed: &str,
        shape: &[i64],
        mut next: impl FnMut(&mut SplitMix) -> f32,
    ) -> String {
        let mut random = SplitMix::new(0, &format!("{seed}.{kind}"));
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| next(&mut random)).collect();
        let name = format!("{layer}.{kind}");
        self.weights.push(tensor(&name, shape, &values));
        name
    }
}

/// He initialisation, which keeps the size of the values from layer to layer: even, of variance 2 / `fan_in`.
fn he(fan_in: i64) -> impl Fn(&mut SplitMix) -> f32 {
    let bound = (6.0 / fan_in as f32).sqrt();
    move |random| bound * (2.0 * random.uniform() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_imports_with_every_weight_and_the_tied_block_once() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, model()).expect("written");
        let model =
            byoc_core::onnx::import(&[("main".to_owned(), path.as_path())], &Default::default()).expect("valid");
        let convolutions = model.entries[0].nodes.iter().filter(|node| node.op == "Conv").count();
        assert_eq!(convolutions, 27);
        let tied = model.constants.iter().filter(|(_, base)| base.names.len() == 2).count();
        // Weight, scale, bias, mean and variance of two layers.
        assert_eq!(tied, 10);
    }
}
