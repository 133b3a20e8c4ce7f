//! The encoder of BERT as ONNX, from its embeddings on.

use byoc_conformance::onnx::{Fill, Model};
use byoc_conformance::tensor::Tensor;
use byoc_plugin_api::{Attribute, DType};
use fastrand::Rng;

use crate::random;

/// How large an encoder is.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) heads: usize,
    pub(crate) sequence: usize,
    /// How many sequences there are at once.
    pub(crate) batch: usize,
    pub(crate) dtype: DType,
}

/// BERT-base.
pub(crate) const BASE: Sizes = Sizes { layers: 12, width: 768, heads: 12, sequence: 128, batch: 1, dtype: DType::F32 };

/// BERT-large.
pub(crate) const LARGE: Sizes = Sizes { layers: 24, width: 1024, heads: 16, dtype: DType::F16, ..BASE };

/// Small enough for loops on the CPU.
pub(crate) const TINY: Sizes = Sizes { layers: 2, width: 32, heads: 2, sequence: 6, ..BASE };

impl Sizes {
    /// Products of matrices: for each layer Q, K, V, scores, context, output, and two of the feed-forward layer.
    pub(crate) fn products(&self) -> usize {
        8 * self.layers
    }

    /// Of the input and of the output.
    pub(crate) fn shape(&self) -> [usize; 3] {
        [self.batch, self.sequence, self.width]
    }

    /// Bytes of matrices, biases, and what normalises: 12 squares and 13 rows a layer.
    pub(crate) fn weight_bytes(&self) -> u64 {
        (self.layers * (12 * self.width * self.width + 13 * self.width) * self.dtype.unpacked_bytes()) as u64
    }
}

/// The input is `[batch, sequence, width]`, as is the output.
pub(crate) fn encoder(random: &mut Rng, sizes: &Sizes) -> Vec<u8> {
    let mut encoder = Encoder { model: Model::default(), random, width: sizes.width, dtype: sizes.dtype };
    let shape = sizes.shape();
    encoder.model.input("x", sizes.dtype, &shape, Fill::Any, false);
    let head = sizes.width / sizes.heads;
    encoder.shape("split", &[sizes.batch, sizes.sequence, sizes.heads, head]);
    encoder.shape("joined", &shape);
    encoder.model.constant("scale", random::number(sizes.dtype, 1.0 / (head as f32).sqrt()));
    let mut value = "x".to_owned();
    for layer in 0..sizes.layers {
        value = encoder.layer(&format!("l{layer}"), &value);
    }
    encoder.model.output(&value, sizes.dtype);
    encoder.model.finish()
}

struct Encoder<'a> {
    model: Model,
    random: &'a mut Rng,
    width: usize,
    dtype: DType,
}

impl Encoder<'_> {
    fn layer(&mut self, name: &str, x: &str) -> String {
        let width = self.width;
        let part = |part: &str| format!("{name}_{part}");
        let [q, k, v] = [("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])].map(|(which, perm)| {
            let dense = self.dense(&part(which), x, width, width);
            let split = self.node("Reshape", &part(&format!("{which}_split")), &[&dense, "split"], &[]);
            self.node("Transpose", &part(&format!("{which}_heads")), &[&split], &[ints("perm", &perm)])
        });
        let scores = self.node("MatMul", &part("scores"), &[&q, &k], &[]);
        let scaled = self.node("Mul", &part("scaled"), &[&scores, "scale"], &[]);
        let weights = self.node("Softmax", &part("weights"), &[&scaled], &[int("axis", -1)]);
        let context = self.node("MatMul", &part("context"), &[&weights, &v], &[]);
        let turned = self.node("Transpose", &part("turned"), &[&context], &[ints("perm", &[0, 2, 1, 3])]);
        let joined = self.node("Reshape", &part("joined"), &[&turned, "joined"], &[]);
        let attention = self.dense(&part("out"), &joined, width, width);
        let first = self.normalised(&part("first"), &attention, x);
        let wide = self.dense(&part("up"), &first, width, 4 * width);
        let active = self.node("Gelu", &part("gelu"), &[&wide], &[]);
        let narrow = self.dense(&part("down"), &active, 4 * width, width);
        self.normalised(&part("second"), &narrow, &first)
    }

    /// `x w + b`.
    fn dense(&mut self, name: &str, x: &str, from: usize, to: usize) -> String {
        let scale = (3.0 / from as f32).sqrt();
        let w = self.weight(&format!("{name}_w"), &[from, to], scale);
        let b = self.weight(&format!("{name}_b"), &[to], 0.1);
        let product = self.node("MatMul", &format!("{name}_product"), &[x, &w], &[]);
        self.node("Add", name, &[&product, &b], &[])
    }

    /// A sum, normalised along its last dimension.
    fn normalised(&mut self, name: &str, a: &str, b: &str) -> String {
        let sum = self.node("Add", &format!("{name}_sum"), &[a, b], &[]);
        let (scale, shift) = (format!("{name}_scale"), format!("{name}_shift"));
        let scale = self.weight(&scale, &[self.width], 1.0);
        let shift = self.weight(&shift, &[self.width], 0.1);
        self.node("LayerNormalization", name, &[&sum, &scale, &shift], &[int("axis", -1)])
    }

    fn weight(&mut self, name: &str, shape: &[usize], scale: f32) -> String {
        let tensor = random::tensor(self.random, self.dtype, shape, scale);
        self.model.constant(name, tensor);
        name.to_owned()
    }

    fn shape(&mut self, name: &str, sizes: &[usize]) {
        let bytes = sizes.iter().flat_map(|&size| (size as i64).to_le_bytes()).collect();
        self.model.constant(name, Tensor::new(DType::I64, vec![sizes.len() as i64], bytes));
    }

    fn node(&mut self, op: &str, output: &str, inputs: &[&str], attributes: &[(String, Attribute)]) -> String {
        let inputs = inputs.iter().map(|&name| name.to_owned()).collect();
        self.model.node(("", op), inputs, vec![output.to_owned()], attributes);
        output.to_owned()
    }
}

fn int(name: &str, value: i64) -> (String, Attribute) {
    (name.to_owned(), Attribute::Int(value))
}

fn ints(name: &str, values: &[i64]) -> (String, Attribute) {
    (name.to_owned(), Attribute::Ints(values.to_vec()))
}
