//! Operators of onnxruntime's domain: what they become, and what is refused of them.

use byoc_plugin_api::Attribute;

use super::super::proto::ModelProto;
use super::super::write;
use super::*;

const FLOAT: DataType = DataType::Float;

/// A model with one node `n` of the domain, from `inputs` of `[2, 4, 8]` to `outputs`.
fn model_of(domain: &str, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute)]) -> ModelProto {
    let mut model = write::Model::default().opset(17).domain("com.microsoft", 1);
    for name in ["x", "w"] {
        model = model.input(name, FLOAT, &[2, 4, 8]);
    }
    model = model.node_of((domain, op), inputs, outputs, attributes);
    for name in outputs.iter().filter(|name| !name.is_empty()) {
        model = model.output(name, FLOAT, &[2, 4, 8]);
    }
    let mut graph = model.graph;
    graph.node[0].name = Some("n".into());
    ModelProto { graph: Some(graph), ..model.head }
}

fn int(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

fn float(name: &'static str, value: f32) -> (&'static str, Attribute) {
    (name, Attribute::Float(value))
}

fn text(name: &'static str, value: &str) -> (&'static str, Attribute) {
    (name, Attribute::String(value.into()))
}

fn nodes(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute)]) -> Vec<String> {
    super::nodes(&model_of("com.microsoft", op, inputs, outputs, attributes))
}

#[test]
fn a_skip_becomes_a_sum() {
    let expected = [
        "n/Add_0 = Add(x, w)",
        "n/LayerNormalization_1 = LayerNormalization(n/Add_0, w) epsilon=Float(1e-12)",
        "y = Identity(n/LayerNormalization_1)",
        "s = Identity(n/Add_0)",
    ];
    assert_eq!(nodes("SkipLayerNormalization", &["x", "w", "w"], &["y", "", "", "s"], &[]), expected);
}

#[test]
fn activations_follow_what_they_are_fused_with() {
    let expected = [
        "n/Gemm_0 = Gemm(x, w) alpha=Float(1.0) beta=Float(1.0) transA=Int(0) transB=Int(0)",
        "n/LeakyRelu_1 = LeakyRelu(n/Gemm_0) alpha=Float(0.5)",
        "y = Identity(n/LeakyRelu_1)",
    ];
    let attributes = [text("activation", "LeakyRelu"), float("activation_alpha", 0.5)];
    assert_eq!(nodes("FusedGemm", &["x", "w"], &["y"], &attributes), expected);
    let expected = [
        "n/Conv_0 = Conv(x, w) auto_pad=String(\"NOTSET\") group=Int(1)",
        "n/Add_1 = Add(n/Conv_0, x)",
        "y = Identity(n/Add_1)",
    ];
    assert_eq!(nodes("FusedConv", &["x", "w", "", "x"], &["y"], &[]), expected);
}

/// Each is refused by the name of what is not carried.
fn refused(op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute)], cause: &str) {
    let model = model_of("com.microsoft", op, inputs, outputs, attributes);
    assert_fails(&model, Code::BadNode, &format!("node 'n' ({op}): {cause}"));
}

#[test]
fn what_is_not_carried_of_fused_operators_is_refused() {
    let skip: &[&str] = &["x", "w", "w"];
    refused("SkipSimplifiedLayerNormalization", skip, &["y", "m"], &[], "output 1 (mean) is not supported");
    refused("SkipSimplifiedLayerNormalization", skip, &["y", "", "m"], &[], "output 2 (inv_std_var) is not supported");
    let model = model_of("", "SimplifiedLayerNormalization", &["x", "w"], &["y", "m"], &[]);
    let cause = "node 'n' (SimplifiedLayerNormalization): output 1 (inv_std_var) is not supported";
    assert_fails(&model, Code::BadNode, cause);
    refused(
        "GroupNorm",
        skip,
        &["y"],
        &[int("activation", 2), int("groups", 2)],
        "attribute 'activation' is 2, expected 0 (none) or 1 (SiLU)",
    );
    refused(
        "GroupNorm",
        skip,
        &["y"],
        &[int("activation", 0), int("groups", 0)],
        "attribute 'groups' is 0, expected at least 1",
    );
    refused("FusedMatMul", &["x", "w"], &["y"], &[int("transA", 2)], "attribute 'transA' is 2, expected 0 or 1");
}

#[test]
fn activations_that_are_not_known_are_refused() {
    let gemm: &[&str] = &["x", "w"];
    let known = "Celu, Elu, HardSigmoid, LeakyRelu, Relu, Selu, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu";
    for (found, attributes) in [("", vec![]), ("Gelu", vec![text("activation", "Gelu")])] {
        let cause = format!("attribute 'activation' is '{found}', expected one of {known}");
        refused("FusedGemm", gemm, &["y"], &attributes, &cause);
    }
    refused("FusedGemm", gemm, &["y"], &[text("activation", "Elu")], "attribute 'activation_alpha' is missing");
    refused(
        "FusedGemm",
        gemm,
        &["y"],
        &[text("activation", "Relu"), float("activation_beta", 1.0)],
        "attribute 'activation_beta' has no meaning for Relu",
    );
    refused(
        "FusedConv",
        gemm,
        &["y"],
        &[text("activation", "Elu")],
        "attribute 'activation' is 'Elu', expected one of Clip, HardSigmoid, HardSwish, LeakyRelu, Relu, Sigmoid, Tanh",
    );
    refused(
        "FusedConv",
        gemm,
        &["y"],
        &[text("activation", "Clip"), ("activation_params", Attribute::Floats(vec![0.0]))],
        "attribute 'activation_params' has 1 numbers, expected 2 for Clip",
    );
}

#[test]
fn what_is_not_carried_of_attention_is_refused() {
    let heads = || int("num_heads", 2);
    let projected = |attributes: &[_], cause: &str| refused("Attention", &["x", "w"], &["y"], attributes, cause);
    projected(&[], "attribute 'num_heads' is missing");
    projected(&[int("num_heads", 0)], "attribute 'num_heads' is 0, expected at least 1");
    projected(&[heads(), int("do_rotary", 1)], "attribute 'do_rotary' is 1, and only 0 is supported");
    projected(&[heads(), int("rotary_embedding_dim", 32)], "attribute 'rotary_embedding_dim' is not supported");
    projected(
        &[heads(), int("past_present_share_buffer", 1)],
        "attribute 'past_present_share_buffer' is 1, and only 0 is supported",
    );
    projected(&[heads(), int("unidirectional", 2)], "attribute 'unidirectional' is 2, expected 0 or 1");
    let sizes = ("qkv_hidden_sizes", Attribute::Ints(vec![4, 4]));
    projected(&[heads(), sizes], "attribute 'qkv_hidden_sizes' has 2 numbers, expected 3");
    let seventh = ["x", "w", "", "", "", "", "w"];
    refused("Attention", &seventh, &["y"], &[heads()], "input 6 (past_sequence_length) is not supported");
    let apart = |inputs: &[&str], cause: &str| refused("MultiHeadAttention", inputs, &["y"], &[heads()], cause);
    apart(&["x", "", "w"], "input 1 (key) is missing, and input 2 (value) is there");
    apart(&["x", "w", "w", "", "", "", "w"], "inputs 6 (past_key) and 7 (past_value) must both be given, or neither");
    apart(&["x", "w", "w", "", "", "", "", "", "w"], "input 8 (past_sequence_length) is not supported");
    apart(&["x", "w", "w", "", "", "", "", "", "", "w"], "input 9 (cache_indirection) is not supported");
    let rotary = |attributes: &[_], cause: &str| {
        refused("RotaryEmbedding", &["x", "w", "w", "w"], &["y"], attributes, cause);
    };
    rotary(&[float("scale", 2.0)], "attribute 'scale' is 2, and only 1 is supported");
    rotary(
        &[int("rotary_embedding_dim", 4)],
        "attribute 'num_heads' is 0, expected at least 1 with 'rotary_embedding_dim'",
    );
}

#[test]
fn what_is_not_carried_of_grouped_attention_is_refused() {
    let inputs = ["x", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w", "w"];
    let fails = |inputs: &[&str], outputs: &[&str], more: &[(&'static str, Attribute)], cause: &str| {
        let attributes = [&[int("num_heads", 4), int("kv_num_heads", 2)], more].concat();
        refused("GroupQueryAttention", inputs, outputs, &attributes, cause);
    };
    let attribute = |more: (&'static str, Attribute), cause: &str| fails(&inputs[..7], &["y"], &[more], cause);
    attribute(
        text("k_quant_type", "PER_TENSOR"),
        "attribute 'k_quant_type' is 'PER_TENSOR', and only 'NONE' is supported",
    );
    attribute(
        text("v_quant_type", "PER_CHANNEL"),
        "attribute 'v_quant_type' is 'PER_CHANNEL', and only 'NONE' is supported",
    );
    attribute(int("kv_cache_bit_width", 8), "attribute 'kv_cache_bit_width' is 8, and only 0 is supported");
    attribute(int("sliding_window_cache", 1), "attribute 'sliding_window_cache' is 1, and only 0 is supported");
    attribute(int("local_window_size", 0), "attribute 'local_window_size' is 0, expected -1 or at least 1");
    attribute(int("causal", 2), "attribute 'causal' is 2, expected 0 or 1");
    attribute(int("smooth_softmax", 2), "attribute 'smooth_softmax' is 2, expected 0 or 1");
    attribute(int("qk_output", 3), "attribute 'qk_output' is 3, expected 0 to 2");
    fails(
        &inputs[..7],
        &["y"],
        &[int("local_window_size", 4), int("causal", 0)],
        "attribute 'local_window_size' is 4, expected -1 where 'causal' is 0",
    );
    fails(&inputs[..13], &["y"], &[], "input 12 (k_scale) is not supported");
    let mut without = inputs;
    without[12] = "";
    fails(&without, &["y"], &[], "input 13 (v_scale) is not supported");
    without[13] = "";
    without[15] = "";
    fails(&without, &["y"], &[], "inputs 14 (q_norm_weight) and 15 (k_norm_weight) must both be given, or neither");
    fails(&inputs[..7], &["y", "", "", "s"], &[], "attribute 'qk_output' is 0, expected 1 or 2 with output 3");
    fails(&inputs[..7], &["y"], &[int("do_rotary", 1)], "input 7 is missing");
    let mut alone = inputs;
    alone[2] = "";
    fails(&alone[..7], &["y"], &[], "inputs 1 (key) and 2 (value) must both be given, or neither");
    let heads = [int("num_heads", 3), int("kv_num_heads", 2)];
    let cause = "attribute 'num_heads' is 3, not a multiple of 'kv_num_heads', 2";
    refused("GroupQueryAttention", &inputs[..7], &["y"], &heads, cause);
}
