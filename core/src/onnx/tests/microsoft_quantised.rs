//! Quantised operators of onnxruntime's domain.

use byoc_plugin_api::Attribute;

use super::super::proto::ModelProto;
use super::super::write;
use super::*;

/// A model with one node `n`, from as many inputs as there are in `given`, of which it leaves out those that are `-`.
fn model_of(op: &str, given: &str, attributes: &[(&str, Attribute)]) -> ModelProto {
    let names: Vec<_> = given.split(' ').map(|name| if name == "-" { "" } else { name }).collect();
    let mut model = write::Model::default().opset(17).domain("com.microsoft", 1);
    for (index, name) in names.iter().enumerate() {
        if !name.is_empty() && !names[..index].contains(name) {
            model = model.input(name, DataType::Uint8, &[2, 3]);
        }
    }
    let model = model.node_of(("com.microsoft", op), &names, &["y"], attributes).output("y", DataType::Uint8, &[2, 3]);
    let mut graph = model.graph;
    graph.node[0].name = Some("n".into());
    ModelProto { graph: Some(graph), ..model.head }
}

fn integer(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

#[test]
fn functions_have_groups_of_quantised_operators() {
    let expected = [
        "n/DequantizeLinear_0 = DequantizeLinear(a, as, az)",
        "n/DequantizeLinear_1 = DequantizeLinear(b, bs)",
        "n/Add_2 = Add(n/DequantizeLinear_0, n/DequantizeLinear_1)",
        "n/CastLike_4 = CastLike(0, a)",
        "n/QuantizeLinear_5 = QuantizeLinear(n/Add_2, cs, n/CastLike_4)",
        "y = Identity(n/QuantizeLinear_5)",
    ];
    assert_eq!(nodes(&model_of("QLinearAdd", "a as az b bs - cs", &[])), expected);
    let expected = [
        "n/MatMulInteger_0 = MatMulInteger(a, b, az, bz)",
        "n/Cast_1 = Cast(n/MatMulInteger_0) to=Int(1)",
        "n/Mul_2 = Mul(as, bs)",
        "n/Mul_3 = Mul(n/Cast_1, n/Mul_2)",
        "n/QuantizeLinear_4 = QuantizeLinear(n/Mul_3, ys, yz)",
        "y = Identity(n/QuantizeLinear_4)",
    ];
    assert_eq!(nodes(&model_of("QGemm", "a as az b bs bz - ys yz", &[])), expected);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let fails = |op: &str, given: &str, attributes: &[(&str, Attribute)], message: &str| {
        let message = format!("node 'n' ({op}): {message}");
        assert_fails(&model_of(op, given, attributes), Code::BadNode, &message);
    };
    let gemm = "a as az b bs bz c ys yz";
    let message = "has one of inputs 7 and 8, the scale and the zero point of its output, expected both or neither";
    fails("QGemm", "a as az b bs bz - ys", &[], message);
    fails("QGemm", gemm, &[integer("beta", 1)], "attribute 'beta' is not known for operator QGemm version 1");
    let message = "has 4 inputs, expected a scale and a zero point, and three for each tensor";
    fails("QLinearConcat", "s z a as", &[integer("axis", 0)], message);
    fails("QLinearConcat", "s z a as -", &[integer("axis", 0)], "input 4 is missing");
    fails("QLinearSoftmax", "a as az s z", &[], "attribute 'opset' is missing");
    fails("QLinearAdd", "a as az b bs bz", &[], "input 6 is missing");
    let pool = [integer("ceil_mode", 1), integer("count_include_pad", 1), ("kernel_shape", Attribute::Ints(vec![2]))];
    let message = "attributes 'ceil_mode' and 'count_include_pad' are both set, which is not supported: what counts beyond the padding \
                   differs between onnxruntime and ONNX";
    fails("QLinearAveragePool", "a as az s z", &pool, message);
    let attention = |name: &'static str, value: i64, message: &str| {
        let heads = if name == "num_heads" { value } else { 2 };
        let attributes: Vec<_> = [integer("num_heads", heads), integer(name, value)].into_iter().collect();
        let attributes = if name == "num_heads" { &attributes[..1] } else { &attributes };
        fails("QAttention", "x w b xs ws", attributes, message);
    };
    attention("do_rotary", 1, "attribute 'do_rotary' is 1, and only 0 is supported");
    attention("past_present_share_buffer", 1, "attribute 'past_present_share_buffer' is 1, and only 0 is supported");
    attention("num_heads", 0, "attribute 'num_heads' is 0, expected at least 1");
    let message = "has one of inputs 1 and 4, the segments and their embeddings, expected both or neither";
    fails("QEmbedLayerNormalization", "i s w p - g b - ws ps - gs bs wz pz - gz bz", &[], message);
    let same = [("auto_pad", Attribute::String("SAME_UPPER".into()))];
    let message = "attribute 'auto_pad' is 'SAME_UPPER', and input 2 has the padding: expected one of them";
    fails("ConvTransposeWithDynamicPads", "x w p", &same, message);
}
