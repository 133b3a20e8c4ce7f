//! Regions as core would make them, read as products.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, Constant, ConstantId, Node, Region, SCHEMA, Value};

use super::*;

/// A region in the making. Constants have no bytes here.
struct Net(Region);

impl Net {
    fn new() -> Net {
        Net(Region { schema: SCHEMA.into(), symbol: "byoc_main_cutlass_0".into(), ..Region::default() })
    }

    fn value(&mut self, dtype: DType, shape: &[Dim]) -> usize {
        let name = format!("v{}", self.0.values.len());
        self.0.values.push(Value { name, dtype, shape: shape.to_vec() });
        self.0.values.len() - 1
    }

    fn input(&mut self, dtype: DType, shape: &[Dim]) -> usize {
        let value = self.value(dtype, shape);
        self.0.inputs.push(value);
        value
    }

    fn constant(&mut self, dtype: DType, shape: &[usize]) -> usize {
        let value = self.value(dtype, &shape.iter().map(|&size| Dim::Fixed(size)).collect::<Vec<_>>());
        let id = ConstantId(self.0.constants.len() as u64);
        self.0.constants.push(Constant { id, value, inline: None, shared: false });
        value
    }

    fn node(&mut self, op: &str, inputs: &[usize], attributes: &[(&str, i64)], dtype: DType, shape: &[Dim]) -> usize {
        let output = self.value(dtype, shape);
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value)));
        self.0.nodes.push(Node {
            name: format!("{op}_{output}"),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.collect::<BTreeMap<_, _>>(),
        });
        self.0.outputs = vec![output];
        output
    }

    fn read(&self, math: &str, strides: &Strides<'_>) -> Result<Product, String> {
        let options: Options =
            serde_json::from_value(serde_json::json!({ "math": math })).expect("it is a map of texts");
        Product::read(&self.0, &options, strides).map_err(|refusal| refusal.to_string())
    }

    fn gemm(&self) -> Result<Gemm, String> {
        self.read("f32", &|_| None).map(|product| product.gemm)
    }
}

fn sizes(shape: &[usize]) -> Vec<Dim> {
    shape.iter().map(|&size| Dim::Fixed(size)).collect()
}

/// `x[batch, 128, 64] w[64, 32]`: rows of all of the batch are rows of one product.
fn linear(dtype: DType) -> (Net, usize) {
    let mut net = Net::new();
    let (x, w) =
        (net.input(dtype, &[symbol("batch"), Dim::Fixed(128), Dim::Fixed(64)]), net.constant(dtype, &[64, 32]));
    let y = net.node("MatMul", &[x, w], &[], dtype, &[symbol("batch"), Dim::Fixed(128), Dim::Fixed(32)]);
    (net, y)
}

#[test]
fn a_batch_of_rows_is_one_product() {
    let gemm = linear(DType::F16).0.gemm().expect("it is a product");
    assert_eq!((gemm.m, gemm.n, gemm.k, gemm.batch), (symbol("batch*128"), 32, 64, Vec::new()));
    assert_eq!(gemm.w, Matrix { order: Order::Rows, distance: 32 });
}

#[test]
fn constants_are_read_as_they_lie() {
    let (net, _) = linear(DType::F16);
    // The view of a matrix that lies transposed.
    let strides = |value: usize| (value == 1).then(|| vec![1, 64]);
    let gemm = net.read("f32", &strides).map(|product| product.gemm).expect("it is a product");
    assert_eq!(gemm.w, Matrix { order: Order::Columns, distance: 64 });
}

#[test]
fn a_batch_that_broadcasts() {
    let mut net = Net::new();
    let heads = |rows: usize, columns: usize| [symbol("b"), Dim::Fixed(12), Dim::Fixed(rows), Dim::Fixed(columns)];
    let (x, w) = (net.input(DType::BF16, &heads(40, 64)), net.input(DType::BF16, &sizes(&[12, 64, 48])));
    net.node("MatMul", &[x, w], &[], DType::BF16, &heads(40, 48));
    let gemm = net.gemm().expect("it is a product");
    let batch = |count: Dim, x: usize, w: usize, y: usize| Batch {
        count,
        x: Dim::Fixed(x),
        w: Dim::Fixed(w),
        y: Dim::Fixed(y),
    };
    let expected =
        [batch(symbol("b"), 12 * 40 * 64, 0, 12 * 40 * 48), batch(Dim::Fixed(12), 40 * 64, 64 * 48, 40 * 48)];
    assert_eq!((gemm.m.clone(), gemm.batch), (Dim::Fixed(40), expected.to_vec()));
}

#[test]
fn activations_are_those_of_the_model() {
    let shape = [symbol("batch"), Dim::Fixed(128), Dim::Fixed(32)];
    let (mut net, y) = linear(DType::F16);
    let gate = net.node("Sigmoid", &[y], &[], DType::F16, &shape);
    net.node("Mul", &[gate, y], &[], DType::F16, &shape);
    assert_eq!(net.gemm().map(|gemm| gemm.activation), Ok(Activation::Silu));
    let (mut net, y) = linear(DType::F16);
    net.node("Gelu", &[y], &[], DType::F16, &shape);
    assert_eq!(net.gemm().map(|gemm| gemm.activation), Ok(Activation::Gelu));
    // A gate of another value is no activation.
    let (mut net, y) = linear(DType::F16);
    let other = net.input(DType::F16, &shape);
    let gate = net.node("Sigmoid", &[other], &[], DType::F16, &shape);
    net.node("Mul", &[gate, y], &[], DType::F16, &shape);
    assert_eq!(net.gemm(), Err("other: a product of tensors that is no GELU".into()));
}

/// What constant folding leaves in f32 beside a product of 16 bits is read as it is: nothing of it is stored anew.
#[test]
fn a_bias_of_f32_beside_f16() {
    let (mut net, y) = linear(DType::F16);
    let bias = net.constant(DType::F32, &[32]);
    let shape = [symbol("batch"), Dim::Fixed(128), Dim::Fixed(32)];
    let wide = net.node("Cast", &[y], &[("to", 1)], DType::F32, &shape);
    let sum = net.node("Add", &[wide, bias], &[], DType::F32, &shape);
    let relu = net.node("Relu", &[sum], &[], DType::F32, &shape);
    net.node("Cast", &[relu], &[("to", 10)], DType::F16, &shape);
    let product = net.read("f32", &|_| None).expect("it is a product");
    assert_eq!((product.gemm.bias, product.gemm.activation), (Some(DType::F32), Activation::Relu));
    assert!(product.uses().contains(&(bias, Use::Host)));
    let places = vec![Place::Input(0), Place::Constant(0), Place::Constant(1), Place::Output(0)];
    let tile = best(&product.gemm, arch("sm_80"));
    let kernel = Recipe { gemm: product.gemm, tile, places }.kernel("k0", arch("sm_80")).expect("it is a kernel");
    assert!(kernel.text.contains("float const *__restrict__ bias"), "{}", kernel.text);
}

#[test]
fn a_residual_in_f32_beside_f16_is_not_taken() {
    let (mut net, y) = linear(DType::F16);
    let shape = [symbol("batch"), Dim::Fixed(128), Dim::Fixed(32)];
    let other = net.input(DType::F32, &shape);
    let wide = net.node("Cast", &[y], &[("to", 1)], DType::F32, &shape);
    let sum = net.node("Add", &[wide, other], &[], DType::F32, &shape);
    net.node("Cast", &[sum], &[("to", 10)], DType::F16, &shape);
    let said = net.gemm().expect_err("it is refused");
    assert_eq!(said, "type: 'v3' is f32, and no vector that is added to each row");
}

#[test]
fn refusals_say_what_helps() {
    let said = linear(DType::F32).0.gemm().expect_err("it is refused");
    assert_eq!(said, "type: the product is f32, and tensor cores round it to TF32; math=tf32 takes it");
    assert!(linear(DType::F32).0.read("tf32", &|_| None).is_ok());
    assert_eq!(
        linear(DType::F64).0.gemm().expect_err("it is refused"),
        "type: 'v0' is f64, taken are f16, bf16 and f32"
    );

    let (mut net, y) = linear(DType::F16);
    let one = net.constant(DType::F16, &[1]);
    net.node("Add", &[y, one], &[], DType::F16, &[symbol("batch"), Dim::Fixed(128), Dim::Fixed(32)]);
    assert_eq!(net.gemm(), Err("shape: 'v3' is one number, and kernels add a vector of 32".into()));

    let mut net = Net::new();
    let (x, w) = (net.input(DType::F16, &sizes(&[128, 0])), net.constant(DType::F16, &[0, 32]));
    net.node("MatMul", &[x, w], &[], DType::F16, &sizes(&[128, 32]));
    assert_eq!(net.gemm(), Err("shape: 'v0' has no elements".into()));

    let scores = |keys: Dim| {
        let mut net = Net::new();
        let (x, w) =
            (net.input(DType::F16, &sizes(&[128, 64])), net.input(DType::F16, &[Dim::Fixed(64), keys.clone()]));
        net.node("MatMul", &[x, w], &[], DType::F16, &[Dim::Fixed(128), keys]);
        net.gemm()
    };
    assert!(scores(Dim::Fixed(96)).is_ok());
    let expected = "shape: N is 'seq', and kernels are made for one N; fix it with --dim";
    assert_eq!(scores(symbol("seq")), Err(expected.into()));
}

/// Two products in one region are two regions, so that equal ones have equal code.
#[test]
fn products_are_not_merged() {
    let (mut net, y) = linear(DType::F16);
    let w = net.constant(DType::F16, &[32, 8]);
    net.node("MatMul", &[y, w], &[], DType::F16, &[symbol("batch"), Dim::Fixed(128), Dim::Fixed(8)]);
    let said = net.gemm().expect_err("it is refused");
    assert_eq!(said, "other: 'MatMul_2' is no part of a product that one call computes");
}
