//! Who owns which bytes.

use byoc_plugin_api::testing::{Lies, RegionBuilder, Tensor};
use byoc_plugin_api::{Attribute, BoundConstants, DType, Environment};

use super::harness::{check, compile, empty, json};

/// The claims by constant, in the region's order, as words.
fn claims(net: &RegionBuilder, settings: &[(&str, &str)]) -> Vec<&'static str> {
    compile(net, settings).claims.words()
}

#[test]
fn a_folded_norm_leaves_one_packed_weight_and_one_packed_bias() {
    let mut net = empty();
    let x = net.input([1, 16, 4, 4]);
    let conv = net.conv(x, 16, 3, 1, 1);
    let norm = net.norm(conv);
    net.output(norm);
    assert_eq!(claims(&net, &[]), ["packed", "packed", "unused", "unused", "unused", "unused"]);
    assert_eq!(claims(&net, &[("pack", "false")]), ["host"; 6]);
    assert_eq!(claims(&net, &[("kernels", "reference")]), ["host"; 6]);
}

#[test]
fn a_weight_that_somebody_reads_as_it_is_is_not_packed() {
    let mut net = empty();
    let x = net.input([1, 16, 4, 4]);
    let w = net.weight([16, 16, 1, 1]);
    let conv = net.node("Conv", &[x, w], [1, 16, 4, 4], &[]);
    net.output(conv);
    net.output(w);
    assert_eq!(claims(&net, &[]), ["host"]);
    check(&net, &[]);
}

#[test]
fn a_shared_weight_is_packed_once_if_all_agree() {
    for agree in [true, false] {
        let mut net = empty();
        let x = net.input([1, 16, 4, 4]);
        let w = net.weight([16, 16, 1, 1]);
        let mut y = x;
        for layer in 0..2 {
            y = net.node("Conv", &[y, w], [1, 16, 4, 4], &[]);
            if layer == 0 && !agree {
                y = net.norm(y);
            }
        }
        net.output(y);
        assert_eq!(claims(&net, &[])[0], if agree { "packed" } else { "host" });
        check(&net, &[]);
    }
}

/// Two ways to compute read one weight, which is stored once; the option decides which kernel the code names.
#[test]
fn a_weight_of_two_kinds_of_convolution_is_stored_once() {
    let mut net = empty();
    let x = net.input([1, 16, 16, 16]);
    let w = net.weight([16, 16, 3, 3]);
    let y = net.node("Conv", &[x, w], [1, 16, 16, 16], "pads=[1,1,1,1]");
    let y = net.node("Conv", &[y, w], [1, 16, 8, 8], "pads=[1,1,1,1] strides=[2,2]");
    net.output(y);
    for (settings, expected, dtype) in [
        (&[][..], "winograd", DType::F32),
        (&[("winograd", "false")], "blocked", DType::F32),
        (&[("weights", "int8")], "winograd", DType::I8),
    ] {
        let compiled = compile(&net, settings);
        let code: serde_json::Value = serde_json::from_slice(&compiled.code).expect("JSON");
        let kinds =
            code["steps"].as_array().expect("steps").iter().filter_map(|step| step["call"]["conv"]["kind"].as_str());
        assert_eq!(kinds.collect::<Vec<_>>(), [expected, "blocked"]);
        assert_eq!(compiled.claims.words(), ["packed"]);
        assert_eq!(compiled.claims.packed()[0].0.dtype, dtype);
        assert_eq!(code["constants"].as_array().map(Vec::len), Some(1));
    }
    check(&net, &[]);
}

#[test]
fn padding_that_would_blow_up_a_weight_is_done_at_load() {
    let mut net = empty();
    let x = net.input([1, 17, 9, 9]);
    let conv = net.conv(x, 17, 9, 1, 17);
    net.output(conv);
    assert_eq!(claims(&net, &[]), ["host", "host"]);
    check(&net, &[]);
}

#[test]
fn filters_are_packed_whatever_their_channels() {
    for channels in [[17, 33], [16, 33], [17, 32], [20, 7]] {
        let mut net = empty();
        let x = net.input([1, channels[0], 4, 4]);
        let conv = net.conv(x, channels[1], 3, 1, 1);
        net.output(conv);
        assert_eq!(claims(&net, &[]), ["packed", "host"]);
        check(&net, &[]);
    }
}

#[test]
fn shapes_and_numbers_stand_in_the_program_and_matrices_beside_it() {
    let mut net = empty();
    let x = net.input([2, 40]);
    let (w, axes, min) = (net.weight([40, 40]), net.ints(&[1]), net.number(0.25));
    let product = net.node("MatMul", &[x, w], [2, 40], &[]);
    let low = net.node("Max", &[product, min], [2, 40], &[]);
    let sum = net.node("ReduceSum", &[low, axes], [2, 1], &[]);
    net.output(sum);
    assert_eq!(claims(&net, &[]), ["packed", "unused", "embedded"]);
    check(&net, &[]);
}

/// The right side of a product is packed where it has no other reader, however many rows there are.
#[test]
fn matrices_of_products_are_packed() {
    let product = |rows: usize, columns: usize, second: Option<(&str, &[(&str, i64)])>| {
        let mut net = empty();
        let x = net.input([2, rows / 2, 48]);
        let w = net.weight([48, columns]);
        let y = net.node("MatMul", &[x, w], [2, rows / 2, columns], &[]);
        net.output(y);
        if let Some((op, attributes)) = second {
            let flat = net.input([rows, if attributes.is_empty() { 48 } else { columns }]);
            let columns = if attributes.is_empty() { columns } else { 48 };
            let attributes: Vec<_> = attributes.iter().map(|(name, value)| (*name, Attribute::Int(*value))).collect();
            let z = net.node(op, &[flat, w], [rows, columns], &attributes);
            net.output(z);
        }
        net
    };
    let cases = [
        ("many rows", product(10, 32, None), "packed"),
        ("few rows", product(4, 32, None), "packed"),
        ("a ragged last panel that costs too much", product(10, 33, None), "host"),
        ("two readers that agree", product(10, 32, Some(("Gemm", &[]))), "packed"),
        ("two readers that do not", product(10, 32, Some(("Gemm", &[("transB", 1)]))), "host"),
    ];
    for (case, mut net, expected) in cases {
        assert_eq!(claims(&net, &[])[0], expected, "{case}");
        assert_eq!(claims(&net, &[("pack", "false")])[0], "host", "{case}");
        check(&net, &[]);
        net.region.constants[0].shared = true;
        assert_eq!(claims(&net, &[])[0], "host", "{case}, needed elsewhere as it is");
        check(&net, &[]);
    }
}

#[test]
fn damaged_code_is_refused_and_never_panics() {
    let mut net = empty();
    let x = net.input([1, 16, 4, 4]);
    let conv = net.conv(x, 16, 3, 1, 1);
    let relu = net.node("Relu", &[conv], [1, 16, 4, 4], &[]);
    net.output(relu);
    let code = compile(&net, &[("pack", "false"), ("fusion", "false")]).code;
    let text = String::from_utf8(code).expect("JSON");
    let environment = Environment { threads: 1, options: Default::default() };
    let host = json().runtime().host().expect("the host");
    let none = BoundConstants::new(Vec::new());
    let changes = [("\"version\":4", "\"version\":9"), ("\"inputs\":[0]", "\"inputs\":[77]"), ("16", "15"), ("{", "[")];
    for (from, to) in changes {
        let damaged = text.replace(from, to);
        assert_ne!(damaged, text, "{from}");
        assert!(host.load(damaged.as_bytes(), &none, &environment).is_err(), "{from}");
    }
    for cut in (0..text.len()).step_by(7) {
        assert!(host.load(&text.as_bytes()[..cut], &none, &environment).is_err());
    }
}

#[test]
fn a_strided_or_splat_matrix_needs_no_copy() {
    let data = Tensor::of([4, 6], &(0..24).map(|i| i as f32).collect::<Vec<_>>());
    for lies in [Lies::Transposed, Lies::Splat] {
        let mut net = empty();
        let x = net.input([3, 4]);
        let w = net.constant(data.lying(lies));
        let product = net.node("MatMul", &[x, w], [3, 6], &[]);
        net.output(product);
        let inputs = net.inputs(1, &[]);
        let found = compile(&net, &[]).run(&inputs, &[]).expect("run");
        let (x, w) = (inputs[0].numbers(), net.constants[0].numbers());
        for (i, found) in found[0].numbers().into_iter().enumerate() {
            let expected: f64 = (0..4).map(|k| x[i / 6 * 4 + k] * w[k * 6 + i % 6]).sum();
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
