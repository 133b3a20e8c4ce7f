//! MobileNet v1 (Howard et al., 2017, <https://arxiv.org/abs/1704.04861>) with random weights: 13 pairs of depthwise
//! and pointwise convolutions with batch normalization, 4.3 million weights. Two of its blocks have the same weights,
//! written twice under different names, as exporters write tied ones. The last depthwise convolution has a kernel of 5x5,
//! as in later MobileNets: small accelerators do not have it, so that there is something to split.

use byoc_core::onnx::proto::NodeProto;
use byoc_core::onnx::proto::tensor_proto::DataType::Float;
use byoc_core::onnx::write::{Model, attribute, node, tensor};
use byoc_plugin_api::Attribute;
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

/// The block with a wide depthwise kernel, and its size.
const WIDE: (usize, i64) = (12, 5);

const CLASSES: i64 = 1000;

/// The model as far as it is written.
struct Builder(Model);

/// The bytes of the model file.
pub(crate) fn model() -> Vec<u8> {
    let mut builder = Builder(Model::default().input("image", Float, &[1, 3, 224, 224]));
    let mut channels = 32;
    let mut x = builder.convolution(
        "stem",
        "stem",
        "image",
        Shape { inputs: 3, outputs: channels, kernel: 3, groups: 1, stride: 2 },
    );
    for (index, (outputs, stride)) in BLOCKS.into_iter().enumerate() {
        let source = if index == TIED.0 { TIED.1 } else { index };
        let kernel = if index == WIDE.0 { WIDE.1 } else { 3 };
        let depthwise = Shape { inputs: channels, outputs: channels, kernel, groups: channels, stride };
        let (name, seed) = (format!("block{index}.depthwise"), format!("block{source}.depthwise"));
        x = builder.convolution(&name, &seed, &x, depthwise);
        let pointwise = Shape { inputs: channels, outputs, kernel: 1, groups: 1, stride: 1 };
        let (name, seed) = (format!("block{index}.pointwise"), format!("block{source}.pointwise"));
        x = builder.convolution(&name, &seed, &x, pointwise);
        channels = outputs;
    }
    builder.classifier(&x, channels);
    let mut model = builder.0.output("probabilities", Float, &[1, CLASSES]);
    model.graph.name = Some("quickstart".into());
    model.head.producer_name = Some("byoc quickstart".into());
    model.finish()
}

/// Parameters of a convolution.
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
        let attributes = [
            ("group", Attribute::Int(groups)),
            ("kernel_shape", Attribute::Ints(vec![kernel; 2])),
            ("pads", Attribute::Ints(vec![pad; 4])),
            ("strides", Attribute::Ints(vec![stride; 2])),
        ];
        let convolved = self.node(name, "Conv", &[x, &weight], &attributes);
        let around = |middle: f32, width: f32| move |random: &mut SplitMix| middle + width * (random.uniform() - 0.5);
        let statistics = [
            self.weight(name, "scale", seed, &[outputs], around(1.0, 0.4)),
            self.weight(name, "bias", seed, &[outputs], around(0.0, 0.4)),
            self.weight(name, "mean", seed, &[outputs], around(0.0, 0.4)),
            self.weight(name, "variance", seed, &[outputs], around(1.0, 0.4)),
        ];
        let [scale, bias, mean, variance] = &statistics;
        let normalized = self.node(name, "BatchNormalization", &[&convolved, scale, bias, mean, variance], &[]);
        self.node(name, "Relu", &[&normalized], &[])
    }

    /// Pooling, one dense layer and Softmax.
    fn classifier(&mut self, x: &str, channels: i64) {
        let pooled = self.node("pool", "GlobalAveragePool", &[x], &[]);
        let flat = self.node("flatten", "Flatten", &[&pooled], &[("axis", Attribute::Int(1))]);
        let weight = self.weight("classifier", "weight", "classifier", &[CLASSES, channels], he(channels));
        let bias = self.weight("classifier", "bias", "classifier", &[CLASSES], |random| 0.1 * (random.uniform() - 0.5));
        let logits = self.node("classifier", "Gemm", &[&flat, &weight, &bias], &[("transB", Attribute::Int(1))]);
        let axis = [("axis", Attribute::Int(1))];
        self.add("probabilities", "Softmax", &[&logits], &axis);
    }

    /// Adds a node and gives the name of its output.
    fn node(&mut self, layer: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> String {
        let name = format!("{layer}/{op}");
        self.add(&name, op, inputs, attributes);
        name
    }

    /// Adds a node that is called as its output is.
    fn add(&mut self, name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) {
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        self.0.graph.node.push(NodeProto {
            attribute: attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
            ..node(name, ("", op), inputs, vec![name.to_owned()])
        });
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
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.0.graph.initializer.push(tensor(&name, Float, shape, bytes));
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
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("model.onnx");
        std::fs::write(&path, model()).expect("written");
        let model =
            byoc_core::onnx::import(&[("main".to_owned(), path.as_path())], &Default::default(), &Default::default())
                .expect("valid");
        let convolutions = model.entries[0].nodes.iter().filter(|node| node.op == "Conv").count();
        assert_eq!(convolutions, 27);
        let tied = model.constants.iter().filter(|(_, base)| base.names.len() == 2).count();
        // Weight, scale, bias, mean and variance of two layers.
        assert_eq!(tied, 10);
    }
}
