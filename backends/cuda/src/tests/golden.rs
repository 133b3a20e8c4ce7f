//! Golden sources of regions of models; `UPDATE_GOLDEN=1` rewrites them.

use byoc_plugin_api::{Attribute, DType};

use super::fixture::{Net, check, kernels_of};

fn net(name: &str) -> Net {
    let named = name.ends_with("named");
    let mut net = Net::new(named);
    let float = if name.contains("f16") { DType::F16 } else { DType::F32 };
    let tokens = if named { 7 } else { 8 };
    match name {
        "layer_norm_f32" | "layer_norm_f16" | "layer_norm_named" => {
            let (x, residual) = (net.input(float, &[2, tokens, 768]), net.input(float, &[2, tokens, 768]));
            let bias = net.constant(float, &[768]);
            let sum = net.node(("Add", &[]), &[x, bias]);
            let sum = net.node(("Add", &[]), &[sum, residual]);
            let (scale, shift) = (net.constant(float, &[768]), net.constant(float, &[768]));
            let normed = net.node(("LayerNormalization", &[]), &[sum, scale, shift]);
            net.output(sum).output(normed);
        }
        "softmax_f16" | "softmax_named" => softmax(&mut net, float, tokens),
        "heads_f16" | "heads_named" => {
            let x = net.input(float, &[2, tokens, 192]);
            let bias = net.constant(float, &[192]);
            let sum = net.node(("Add", &[]), &[x, bias]);
            let shape = net.ints(&[0, 0, 3, 64]);
            let heads = net.node(("Reshape", &[]), &[sum, shape]);
            let perm = Attribute::Ints(vec![0, 2, 1, 3]);
            let turned = net.node(("Transpose", &[("perm", perm)]), &[heads]);
            net.output(turned);
        }
        "gelu_f32" => {
            let x = net.input(float, &[2, tokens, 64]);
            let constant = |net: &mut Net, value: f64| net.constant_of(DType::F32, &[], &[value]);
            let (root, one, half) =
                (constant(&mut net, std::f64::consts::SQRT_2), constant(&mut net, 1.0), constant(&mut net, 0.5));
            let scaled = net.node(("Div", &[]), &[x, root]);
            let erf = net.node(("Erf", &[]), &[scaled]);
            let sum = net.node(("Add", &[]), &[erf, one]);
            let product = net.node(("Mul", &[]), &[x, sum]);
            let y = net.node(("Mul", &[]), &[product, half]);
            net.output(y);
        }
        "embeddings_f16" => embeddings(&mut net, float),
        "moves_f16" => moves(&mut net),
        "folds" => folds(&mut net),
        "elements" => elements(&mut net),
        other => panic!("{other}"),
    }
    net
}

fn softmax(net: &mut Net, float: DType, tokens: usize) {
    let scores = net.input(float, &[2, 4, tokens, tokens]);
    let mask = net.input(DType::I64, &[2, tokens]);
    let axes = net.ints(&[1, 2]);
    let wide = net.node(("Unsqueeze", &[]), &[mask, axes]);
    let number = if float == DType::F16 { 10 } else { 1 };
    let wide = net.nodes(("Cast", &[("to", Attribute::Int(number))]), &[Some(wide)], &[Some(float)])[0];
    let (one, least) = (net.constant_of(float, &[], &[1.0]), net.constant_of(float, &[], &[-100.0]));
    let open = net.node(("Sub", &[]), &[one, wide]);
    let closed = net.node(("Mul", &[]), &[open, least]);
    let factor = net.constant_of(float, &[], &[8.0]);
    let scaled = net.node(("Div", &[]), &[scores, factor]);
    let masked = net.node(("Add", &[]), &[scaled, closed]);
    let weights = net.node(("Softmax", &[]), &[masked]);
    net.output(weights);
}

fn embeddings(net: &mut Net, float: DType) {
    let (words, places) = (net.constant(float, &[50, 64]), net.constant(float, &[16, 64]));
    let tokens: Vec<f64> = (0..16).map(|index| f64::from(index * 3)).collect();
    let ids = net.input_of(DType::I64, &[2, 8], &tokens);
    let word = net.node(("Gather", &[]), &[words, ids]);
    let (starts, ends) = (net.ints(&[0]), net.ints(&[8]));
    let place = net.node(("Slice", &[]), &[places, starts, ends]);
    let sum = net.node(("Add", &[]), &[word, place]);
    let (scale, shift) = (net.constant(float, &[64]), net.constant(float, &[64]));
    let normed = net.node(("LayerNormalization", &[]), &[sum, scale, shift]);
    net.output(normed);
}

fn moves(net: &mut Net) {
    let x = net.input(DType::F16, &[2, 24, 40]);
    let turned = net.node(("Transpose", &[("perm", Attribute::Ints(vec![0, 2, 1]))]), &[x]);
    let joined = net.node(("Concat", &[("axis", Attribute::Int(1))]), &[x, x]);
    let beside = net.node(("Concat", &[("axis", Attribute::Int(2))]), &[x, x]);
    let widths = net.ints(&[0, 1, 2, 0, 1, 2]);
    let mirrored = net.node(("Pad", &[("mode", Attribute::String("reflect".into()))]), &[x, widths]);
    let padded = net.node(("Pad", &[]), &[x, widths]);
    let triangle = net.node(("Trilu", &[]), &[x]);
    let times = net.ints(&[1, 2, 3]);
    let tiled = net.node(("Tile", &[]), &[x, times]);
    let (starts, ends, axes, steps) = (net.ints(&[30]), net.ints(&[2]), net.ints(&[2]), net.ints(&[-3]));
    let back = net.node(("Slice", &[]), &[x, starts, ends, axes, steps]);
    let indices = net.constant_of(DType::I32, &[4], &[0.0, 5.0, -1.0, 7.0]);
    let gathered = net.node(("Gather", &[("axis", Attribute::Int(1))]), &[x, indices]);
    [turned, joined, beside, mirrored, padded, triangle, tiled, back, gathered]
        .into_iter()
        .for_each(|value| net.region.outputs.push(value));
}

fn folds(net: &mut Net) {
    let x = net.input(DType::F32, &[3, 16, 20]);
    let columns = net.node(("Softmax", &[("axis", Attribute::Int(1))]), &[x]);
    let axes = net.ints(&[0, 2]);
    let mean = net.node(("ReduceMean", &[]), &[x, axes]);
    let best = net.node(("ArgMax", &[("axis", Attribute::Int(2))]), &[x]);
    let wide = net.input(DType::F16, &[2, 6000]);
    let kept = net.node(("Softmax", &[]), &[wide]);
    let wider = net.input(DType::F32, &[2, 40001]);
    let read_again = net.node(("Softmax", &[]), &[wider]);
    let numbers = net.input(DType::I64, &[3, 70]);
    let axis = net.ints(&[1]);
    let sum = net.node(("ReduceSum", &[]), &[numbers, axis]);
    let most = net.node(("ReduceMax", &[]), &[numbers, axis]);
    let doubles = net.input(DType::F64, &[4, 64]);
    let exact = net.node(("Softmax", &[]), &[doubles]);
    let [exact_kept, exact_again] = [16384, 32768].map(|length| {
        let doubles = net.input(DType::F64, &[2, length]);
        net.node(("Softmax", &[]), &[doubles])
    });
    [columns, mean, best, kept, read_again, sum, most, exact, exact_kept, exact_again]
        .into_iter()
        .for_each(|value| net.region.outputs.push(value));
}

fn elements(net: &mut Net) {
    let x = net.input(DType::BF16, &[5, 8]);
    for op in ["Exp", "Sin", "Cos", "Erf", "Tanh", "Sigmoid", "Softplus", "Mish", "Elu", "HardSwish", "Gelu"] {
        let y = net.node((op, &[]), &[x]);
        net.output(y);
    }
    let other = net.input(DType::BF16, &[8]);
    for op in ["Div", "Max", "Less"] {
        let y = net.node((op, &[]), &[x, other]);
        net.output(y);
    }
    let (a, b) = (net.input(DType::I64, &[5, 8]), net.constant(DType::I64, &[8]));
    for op in ["Add", "Div", "Mod", "Equal"] {
        let y = net.node((op, &[]), &[a, b]);
        net.output(y);
    }
    let condition = net.input(DType::Bool, &[5, 1]);
    let chosen = net.node(("Where", &[]), &[condition, x, other]);
    let whole = net.nodes(("Cast", &[("to", Attribute::Int(6))]), &[Some(x)], &[Some(DType::I32)])[0];
    net.output(chosen).output(whole);
}

const NAMES: [&str; 12] = [
    "layer_norm_f32",
    "layer_norm_f16",
    "layer_norm_named",
    "softmax_f16",
    "softmax_named",
    "heads_f16",
    "heads_named",
    "gelu_f32",
    "embeddings_f16",
    "moves_f16",
    "folds",
    "elements",
];

#[test]
fn sources() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/sources");
    for name in NAMES {
        let fused = net(name).fuse();
        let source = fused.source.expect("it computes something");
        assert_eq!(net(name).fuse().source.expect("it does").text, source.text, "{name}: the same again");
        let file = folder.join(format!("{name}.cu"));
        let text = kernels_of(&source.text).trim_start();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).expect("it is ours");
            std::fs::write(&file, text).expect("it is ours");
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(text, expected, "{name}: UPDATE_GOLDEN=1 rewrites it");
    }
}

#[test]
fn results() {
    let nets: Vec<_> = NAMES.into_iter().map(|name| (name.to_owned(), net(name))).collect();
    check(&nets);
}
