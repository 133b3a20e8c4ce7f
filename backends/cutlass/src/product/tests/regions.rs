//! Regions as core would make them, read as products.

use byoc_plugin_api::testing::RegionBuilder;

use super::*;

fn read(net: RegionBuilder, math: &str, strides: &Strides<'_>) -> Result<Product, String> {
    let options: Options = serde_json::from_value(serde_json::json!({ "math": math })).expect("it is a map of texts");
    let last = net.region.values.len() - 1;
    Product::read(&net.with(&[last]).region, &options, strides).map_err(|refusal| refusal.to_string())
}

fn gemm(net: RegionBuilder) -> Result<Gemm, String> {
    read(net, "f32", &|_| None).map(|product| product.gemm)
}

/// The result of [`linear`].
const ROWS: &str = "[batch,128,32]";

/// `x[batch, 128, 64] w[64, 32]`: rows of all of the batch are rows of one product.
fn linear(dtype: DType) -> (RegionBuilder, usize) {
    let mut net = RegionBuilder::of("cutlass", dtype);
    let (x, w) = (net.input("[batch,128,64]"), net.weight([64, 32]));
    let y = net.node("MatMul", &[x, w], ROWS, "");
    (net, y)
}

#[test]
fn a_batch_of_rows_is_one_product() {
    let gemm = self::gemm(linear(DType::F16).0).expect("it is a product");
    assert_eq!((gemm.m, gemm.n, gemm.k, gemm.batch), (symbol("batch*128"), 32, 64, Vec::new()));
    assert_eq!(gemm.w, Matrix { order: Order::Rows, distance: 32 });
}

#[test]
fn rows_that_are_known_late_have_a_limit() {
    let product = read(linear(DType::F16).0, "f32", &|_| None).expect("it is a product");
    let [limit] = &product.limits()[..] else { panic!("there is none") };
    assert_eq!((&limit.elements, limit.most), (&symbol("batch*128"), 2_147_483_647));
    assert_eq!(limit.of, "a matrix of 32 columns");
}

#[test]
fn a_tile_by_its_name() {
    let chosen = |name: &str| {
        let product = read(linear(DType::F16).0, "f32", &|_| None).expect("it is a product");
        let tiles = Product { tile: Some(name.into()), ..product }.chosen(arch("sm_80"));
        let named = |tiles: Vec<(Option<Rows>, Tile)>| tiles.iter().map(|(rows, tile)| (*rows, tile.name())).collect();
        tiles.map(named).map_err(|error| (error.message, error.hint.unwrap_or_default()))
    };
    // For all rows.
    assert_eq!(chosen("64x128x32_5 mma"), Ok(vec![(None, "64x128x32_5 mma".into())]));
    // Of the other instruction, which this architecture does not have.
    let (message, hint) = chosen("64x64x64_12 wgmma").expect_err("it is refused");
    assert_eq!(message, "product_f16_32_64 has no tile '64x64x64_12 wgmma' for sm_80");
    assert!(hint.starts_with("Its tiles are ") && hint.contains(", 64x128x32_5 mma"), "{hint}");
}

#[test]
fn constants_are_read_as_they_lie() {
    let (net, _) = linear(DType::F16);
    // The view of a transposed matrix.
    let strides = |value: usize| (value == 1).then(|| vec![1, 64]);
    let gemm = read(net, "f32", &strides).map(|product| product.gemm).expect("it is a product");
    assert_eq!(gemm.w, Matrix { order: Order::Columns, distance: 64 });
}

#[test]
fn a_batch_that_broadcasts() {
    let mut net = RegionBuilder::of("cutlass", DType::BF16);
    let (x, w) = (net.input("[b,12,40,64]"), net.input("[12,64,48]"));
    net.node("MatMul", &[x, w], "[b,12,40,48]", "");
    let gemm = self::gemm(net).expect("it is a product");
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
    let (mut net, y) = linear(DType::F16);
    let gate = net.node("Sigmoid", &[y], ROWS, "");
    net.node("Mul", &[gate, y], ROWS, "");
    assert_eq!(gemm(net).map(|gemm| gemm.activation), Ok(Activation::Silu));
    let (mut net, y) = linear(DType::F16);
    net.node("Gelu", &[y], ROWS, "");
    assert_eq!(gemm(net).map(|gemm| gemm.activation), Ok(Activation::Gelu));
    // A gate of another value is not an activation.
    let (mut net, y) = linear(DType::F16);
    let other = net.input(ROWS);
    let gate = net.node("Sigmoid", &[other], ROWS, "");
    net.node("Mul", &[gate, y], ROWS, "");
    assert_eq!(gemm(net), Err("other: a product of tensors that is not GELU".into()));
}

/// A bias that constant folding leaves in f32 beside a product of 16 bits is read in f32: it is not stored again.
#[test]
fn a_bias_of_f32_beside_f16() {
    let (mut net, y) = linear(DType::F16);
    let bias = net.weight("f32[32]");
    let wide = net.node("Cast", &[y], (DType::F32, ROWS), "to=1");
    let sum = net.node("Add", &[wide, bias], (DType::F32, ROWS), "");
    let relu = net.node("Relu", &[sum], (DType::F32, ROWS), "");
    net.node("Cast", &[relu], ROWS, "to=10");
    let product = read(net, "f32", &|_| None).expect("it is a product");
    assert_eq!((product.gemm.bias, product.gemm.activation), (Some(DType::F32), Activation::Relu));
    assert!(product.uses().contains(&(bias, Use::Host)));
    let places = vec![BufferRef::Input(0), BufferRef::Constant(0), BufferRef::Constant(1), BufferRef::Output(0)];
    let tile = best(&product.gemm, arch("sm_80"));
    let kernel =
        Recipe { gemm: product.gemm, tile, places, rows: None }.kernel("k0", arch("sm_80")).expect("it is a kernel");
    assert!(kernel.text.contains("float const *__restrict__ bias"), "{}", kernel.text);
}

#[test]
fn a_residual_in_f32_beside_f16_is_not_taken() {
    let (mut net, y) = linear(DType::F16);
    let other = net.input((DType::F32, ROWS));
    let wide = net.node("Cast", &[y], (DType::F32, ROWS), "to=1");
    let sum = net.node("Add", &[wide, other], (DType::F32, ROWS), "");
    net.node("Cast", &[sum], ROWS, "to=10");
    let said = gemm(net).expect_err("it is refused");
    assert_eq!(said, "type: 'x3' is f32, and is not a vector that is added to each row");
}

#[test]
fn refusals_say_what_helps() {
    let said = gemm(linear(DType::F32).0).expect_err("it is refused");
    assert_eq!(said, "type: the product is f32, and tensor cores round it to TF32; math=tf32 allows it");
    assert!(read(linear(DType::F32).0, "tf32", &|_| None).is_ok());
    assert_eq!(
        gemm(linear(DType::F64).0).expect_err("it is refused"),
        "type: 'x0' is f64; supported are f16, bf16 and f32"
    );

    let (mut net, y) = linear(DType::F16);
    let one = net.weight([1]);
    net.node("Add", &[y, one], ROWS, "");
    assert_eq!(gemm(net), Err("shape: 'w3' is one number, but kernels add a vector of 32".into()));

    let mut net = RegionBuilder::of("cutlass", DType::F16);
    let (x, w) = (net.input([128, 0]), net.weight([0, 32]));
    net.node("MatMul", &[x, w], [128, 32], "");
    assert_eq!(gemm(net), Err("shape: 'x0' has no elements".into()));

    let scores = |keys: Dim| {
        let mut net = RegionBuilder::of("cutlass", DType::F16);
        let (x, w) = (net.input([128, 64]), net.input([Dim::Fixed(64), keys.clone()]));
        net.node("MatMul", &[x, w], [Dim::Fixed(128), keys], "");
        gemm(net)
    };
    assert!(scores(Dim::Fixed(96)).is_ok());
    let expected = "shape: N is 'seq', but kernels are generated for a known N; fix it with --dim";
    assert_eq!(scores(symbol("seq")), Err(expected.into()));
}

/// Two products in one region are two regions, so that equal ones have equal code.
#[test]
fn products_are_not_merged() {
    let (mut net, y) = linear(DType::F16);
    let w = net.weight([32, 8]);
    net.node("MatMul", &[y, w], "[batch,128,8]", "");
    let said = gemm(net).expect_err("it is refused");
    assert_eq!(said, "other: 'MatMul_0' is not part of a product that one call computes");
}
