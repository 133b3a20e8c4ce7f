//! Models with recurrent layers, signals, regions of images, and random numbers.

use byoc_plugin_api::Attribute::{self, Float, Floats, Int, Ints, String, Strings};
use byoc_plugin_api::f16;
use byoc_tests::onnx::{Model, Type, tensor};

use super::bases::Base;
use super::groups::{blocks, groups};
use super::tables::tables;

const PLAIN: &[&str] = &["json.kernels=reference"];

/// All of them, and tables.
pub(super) fn bases() -> [Base; 8] {
    let all = [
        ("narrow", narrow()),
        ("tables", tables()),
        ("recurrent", recurrent()),
        ("integers", integers()),
        ("groups", groups()),
        ("blocks", blocks()),
        ("regions", regions()),
        ("signals", signals()),
    ];
    // Of what has fast kernels, the plain ones too.
    let settings = |name| if matches!(name, "narrow" | "recurrent" | "regions") { PLAIN } else { &[] };
    all.map(|(name, model)| Base { name, model, settings: settings(name) })
}

fn text(text: &str) -> Attribute {
    String(text.into())
}

/// Adds a node with inputs and outputs that are separated by spaces, `-` for one that is absent.
fn add(model: Model, op: &str, inputs: &str, outputs: &str, attributes: &[(&str, Attribute)]) -> Model {
    let names = |text| str::split(text, ' ').filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let inputs: Vec<_> = names(inputs).into_iter().map(|name| if name == "-" { "" } else { name }).collect();
    model.node_with(op, &inputs, &names(outputs), attributes)
}

fn weight(model: Model, name: &str, shape: &[i64]) -> Model {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i: i64| (i * 7 % 5) as f32 / 4.0 - 0.5).collect();
    model.weight(name, shape, &values)
}

fn output(model: Model, name: &str, shape: &[i64]) -> Model {
    model.output(name, Type::Float, shape)
}

/// What is stored in 16 bits: an embedding that a product ends with, filters with factors from a normalisation, and a bias.
fn narrow() -> Model {
    let half = |name: &str, shape: &[i64]| {
        let numbers = (0..shape.iter().product()).map(|i: i64| f16::from_f32((i * 7 % 5) as f32 / 4.0 - 0.5));
        tensor(name, Type::Float16, shape, numbers.flat_map(f16::to_le_bytes).collect::<Vec<_>>())
    };
    let model = Model::default().input("ids", Type::Int64, &[2]).input("x", Type::Float16, &[2, 24]);
    let model =
        model.tensor(half("embedding", &[40, 24])).tensor(half("bias", &[40])).tensor(half("w", &[32, 32, 3, 3]));
    let model = add(model, "Gather", "embedding ids", "rows", &[]);
    let model = add(model, "Add", "rows x", "sum", &[]);
    let model = add(model, "Gemm", "sum embedding bias", "y1", &[("transB", Int(1))]);
    let model = model.input("image", Type::Float16, &[1, 32, 3, 3]);
    let model = add(model, "Conv", "image w", "conv", &[]);
    let model = ["scale", "shift", "mean"].iter().fold(model, |model, name| model.tensor(half(name, &[32])));
    let variance = f16::from_f32(1.5).to_le_bytes().repeat(32);
    let model = model.tensor(tensor("variance", Type::Float16, &[32], variance));
    let model = add(model, "BatchNormalization", "conv scale shift mean variance", "y2", &[]);
    model.output("y1", Type::Float16, &[2, 40]).output("y2", Type::Float16, &[1, 32, 1, 1])
}

/// Recurrent layers of two hidden elements.
fn recurrent() -> Model {
    let mut model = Model::default().opset(22).input("x", Type::Float, &[3, 2, 2]).input("lengths", Type::Int32, &[2]);
    for (name, gates) in [("LSTM", 4), ("GRU", 3), ("RNN", 1)] {
        model = weight(model, &format!("{name}_w"), &[2, gates * 2, 2]);
        model = weight(model, &format!("{name}_r"), &[2, gates * 2, 2]);
        model = weight(model, &format!("{name}_b"), &[2, gates * 4]);
    }
    model = weight(weight(model, "state", &[2, 2, 2]), "peepholes", &[2, 6]);
    let both = ("direction", text("bidirectional"));
    let names = Strings(["Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Affine", "Elu"].map(str::to_owned).to_vec());
    let functions = [
        ("activations", names),
        ("activation_alpha", Floats(vec![0.1, 0.2, 0.5])),
        ("activation_beta", Floats(vec![0.25])),
        ("clip", Float(3.0)),
        both.clone(),
    ];
    let model = add(model, "LSTM", "x LSTM_w LSTM_r LSTM_b lengths state state peepholes", "y1 h1 c1", &functions);
    let linear = [both.clone(), ("linear_before_reset", Int(1))];
    let model = add(model, "GRU", "x GRU_w GRU_r GRU_b - state", "y2 h2", &linear);
    let model = add(model, "RNN", "x RNN_w RNN_r RNN_b lengths", "y3 h3", std::slice::from_ref(&both));
    let model = add(model, "LSTM", "x LSTM_w LSTM_r", "y4", &[both]);
    let model = ["y1", "y2", "y3", "y4"].iter().fold(model, |model, name| output(model, name, &[3, 2, 2, 2]));
    ["h1", "c1", "h2", "h3"].iter().fold(model, |model, name| output(model, name, &[2, 2, 2]))
}

/// A recurrent layer of two hidden elements whose weights are integers.
fn integers() -> Model {
    let model = Model::default().domain("com.microsoft", 1).input("x", Type::Float, &[3, 2, 2]);
    let bytes = |name: &str, shape: &[i64]| {
        let count = shape.iter().product::<i64>() as u8;
        tensor(name, Type::Int8, shape, (0..count).map(|i| i.wrapping_mul(37)).collect::<Vec<_>>())
    };
    let model = model.tensor(bytes("w", &[2, 2, 8])).tensor(bytes("zero", &[2])).tensor(bytes("zeros", &[2, 8]));
    let model = weight(weight(weight(model, "scale", &[2]), "scales", &[2, 8]), "b", &[2, 16]);
    let inputs = ["x", "w", "w", "b", "", "", "", "", "scale", "zero", "scales", "zeros"];
    let both = [("direction", text("bidirectional"))];
    let model = model.node_of(("com.microsoft", "DynamicQuantizeLSTM"), &inputs, &["y", "h", "c"], &both);
    output(output(output(model, "y", &[3, 2, 2, 2]), "h", &[2, 2, 2]), "c", &[2, 2, 2])
}

/// What looks at images otherwise than by windows that slide over them.
fn regions() -> Model {
    let model =
        Model::default().opset(26).input("x", Type::Float, &[1, 2, 4, 4]).input("grid", Type::Float, &[1, 2, 2, 2]);
    let model = model.input("offset", Type::Float, &[1, 8, 3, 3]).input("regions", Type::Float, &[2, 4]);
    let model = model.input("rows", Type::Float, &[2, 5]).input("images", Type::Int64, &[2]);
    let model = weight(weight(weight(model, "w", &[2, 1, 2, 2]), "b", &[2]), "plain", &[2, 2, 2, 2]);
    let two = || ("strides", Ints(vec![2, 2]));
    let up = [("group", Int(2)), ("output_padding", Ints(vec![1, 1])), ("pads", Ints(vec![1, 0, 0, 1])), two()];
    let model = add(model, "ConvTranspose", "x w b", "y1", &up);
    let model =
        add(model, "GridSample", "x grid", "y2", &[("mode", text("cubic")), ("padding_mode", text("reflection"))]);
    let model =
        add(model, "GridSample", "x grid", "y10", &[("mode", text("linear")), ("padding_mode", text("border"))]);
    let model = add(model, "DeformConv", "x plain offset b", "y3", &[]);
    let kernel = || ("kernel_shape", Ints(vec![2, 2]));
    let model = add(model, "LpPool", "x", "y4", &[kernel(), ("p", Int(3))]);
    let model = add(model, "GlobalLpPool", "x", "y5", &[]);
    let model = add(model, "MaxPool", "x", "most places", &[kernel(), two()]);
    let model = add(model, "MaxUnpool", "most places", "y6", &[kernel(), two()]);
    let model =
        add(model, "RoiAlign", "x regions images", "y7", &[("output_width", Int(2)), ("sampling_ratio", Int(2))]);
    let model = add(model, "MaxRoiPool", "x rows", "y8", &[("pooled_shape", Ints(vec![1, 2]))]);
    let model =
        model.ints("image", &[2], &[3, 3]).ints("block", &[2], &[2, 2]).input("blocks", Type::Float, &[1, 4, 4]);
    let model = add(model, "Col2Im", "blocks image block", "y9", &[]);
    let model = output(output(output(model, "y1", &[1, 2, 8, 8]), "y2", &[1, 2, 2, 2]), "y10", &[1, 2, 2, 2]);
    let model = ["y3", "y4"].iter().fold(model, |model, name| output(model, name, &[1, 2, 3, 3]));
    let model = output(output(model, "y5", &[1, 2, 1, 1]), "y6", &[1, 2, 4, 4]);
    let model = ["y7", "y8"].iter().fold(model, |model, name| output(model, name, &[2, 2, 1, 2]));
    output(model, "y9", &[1, 1, 3, 3])
}

/// Signals, sums of products, and random numbers.
fn signals() -> Model {
    let model = Model::default().opset(26).input("x", Type::Float, &[2, 6, 1]).input("m", Type::Float, &[2, 3, 3]);
    let model = model.ints("length", &[], &[5]).ints("axis", &[], &[1]).ints("step", &[], &[2]);
    let model = add(model, "DFT", "x length axis", "y1", &[("onesided", Int(1))]);
    let model = weight(model, "window", &[3]);
    let model = add(model, "STFT", "x step window", "y2", &[]);
    let model = model.ints("bins", &[], &[2]).ints("sixteen", &[], &[16]).ints("rate", &[], &[8000]);
    let model = model.input("low", Type::Float, &[]).weight("high", &[], &[4000.0]);
    let model = add(model, "MelWeightMatrix", "bins sixteen rate low high", "y3", &[]);
    let model = add(model, "Einsum", "m m", "y4", &[("equation", text("bij,bkj->bik"))]);
    let model = add(model, "Det", "m", "y5", &[]);
    let model = add(model, "BitCast", "m", "y6", &[("to", Int(Type::Int32 as i64))]);
    let model = add(model, "Bernoulli", "m", "y7", &[]);
    let model = add(model, "RandomNormal", "", "y8", &[("shape", Ints(vec![2, 3, 3])), ("seed", Float(7.0))]);
    let model = add(model, "RandomUniform", "", "y9", &[("shape", Ints(vec![2, 3, 3])), ("high", Float(2.0))]);
    let model = add(model, "RandomNormalLike", "m", "y10", &[("mean", Float(1.0))]);
    let model = add(model, "RandomUniformLike", "m", "y11", &[]);
    let model = model.input("logs", Type::Float, &[2, 3]);
    let model = add(model, "Multinomial", "logs", "y12", &[("sample_size", Int(4))]);
    let model = model.input("train", Type::Bool, &[]).weight("ratio", &[], &[0.25]);
    let model = add(model, "Dropout", "m ratio train", "y13 mask", &[("seed", Int(3))]);
    let model = output(output(model, "y1", &[2, 3, 2]), "y2", &[2, 2, 2, 2]);
    let model = output(output(output(model, "y3", &[9, 2]), "y4", &[2, 3, 3]), "y5", &[2]);
    let model = model.output("y6", Type::Int32, &[2, 3, 3]).output("mask", Type::Bool, &[2, 3, 3]);
    let model = model.output("y12", Type::Int32, &[2, 4]);
    ["y7", "y8", "y9", "y10", "y11", "y13"].iter().fold(model, |model, name| output(model, name, &[2, 3, 3]))
}
