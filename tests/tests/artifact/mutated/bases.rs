//! Small models that together have every kernel, every recipe and every operator of the host backend in their code.

mod control;
mod quantised;

use byoc_tests::onnx::{Model, Type};

use Attribute::{Float, Int, Ints, Text};

/// The value of a node's attribute.
#[derive(Clone, Copy)]
enum Attribute<'a> {
    Int(i64),
    Float(f32),
    Text(&'a str),
    Ints(&'a [i64]),
}

impl From<Attribute<'_>> for byoc_plugin_api::Attribute {
    fn from(value: Attribute<'_>) -> Self {
        match value {
            Int(value) => Self::Int(value),
            Float(value) => Self::Float(value),
            Text(value) => Self::String(value.into()),
            Ints(values) => Self::Ints(values.into()),
        }
    }
}

/// A model, and with which settings of the backend it is compiled beside the default ones.
pub(crate) struct Base {
    pub(crate) name: &'static str,
    pub(crate) model: Model,
    pub(crate) settings: &'static [&'static str],
}

/// Without fusion each node is a kernel, unpacked recipes are computed at load, and reference kernels take everything.
const ALL: &[&str] = &["json.kernels=reference", "json.fusion=false", "json.pack=false"];

/// And with weights of another type.
const ROUNDED: &[&str] = &["json.kernels=reference", "json.fusion=false", "json.pack=false", "json.weights=int8"];

const UNPACKED: &[&str] = &["json.kernels=reference", "json.pack=false"];

pub(crate) fn bases() -> Vec<Base> {
    let base = |name, model, settings| Base { name, model, settings };
    [
        base("first", first(), ALL),
        base("blocked", blocked(), ROUNDED),
        base("winograd", winograd(), ALL),
        base("grouped", grouped(), UNPACKED),
        base("depthwise", depthwise(), ALL),
        base("plain", plain(), ALL),
        base("norms", norms(), ALL),
        base("products", products(), ROUNDED),
        base("rows", rows(), UNPACKED),
        base("attention", attention(), ALL),
        base("moves", moves(), UNPACKED),
        base("elements", elements(), &["json.kernels=reference"]),
        base("open", open(), &["json.kernels=reference"]),
        base("shapes", shapes(), &["json.kernels=reference"]),
        base("indices", indices(), &["json.kernels=reference"]),
        base("choices", choices(), &["json.kernels=reference"]),
        base("logic", logic(), &["json.kernels=reference"]),
        base("curves", curves(), &[]),
        base("functions", functions(), &[]),
        base("lists", control::lists(), &[]),
        base("images", images(), &["json.kernels=reference"]),
        base("heads", heads(), &[]),
        base("quantised", quantised::quantised(), &["json.kernels=reference"]),
        base("grids", quantised::grids(), &[]),
        base("bits", quantised::bits(), &[]),
        base("bodies", control::bodies(), &[]),
        base("texts", super::texts::texts(), &[]),
    ]
    .into_iter()
    .chain(super::layers::bases())
    .collect()
}

/// What the K210 has kernels for: convolutions, one of them depthwise, pooling, and a product.
pub(crate) fn tiny() -> Model {
    let net =
        Net::new(17).input("x", &[1, 3, 8, 8]).weight("w", &[4, 3, 3, 3]).weight("b", &[4]).weight("d", &[4, 1, 3, 3]);
    let net = net.conv("x w b", "c1", 1, &[AROUND]).plain("Relu", "c1", "r").conv("r d", "c2", 4, &[AROUND]);
    let window = [("kernel_shape", Ints(&[2, 2])), ("strides", Ints(&[2, 2]))];
    let net = net.node("MaxPool", "c2", "pool", &window).plain("GlobalAveragePool", "pool", "mean");
    let net = net.plain("Flatten", "mean", "flat").weight("m", &[4, 5]).plain("MatMul", "flat m", "p");
    net.plain("Softmax", "p", "y").output("y", &[1, 5]).0
}

/// A few of the models, for backends that take parts of them.
pub(crate) fn some(names: &[&str]) -> Vec<Base> {
    bases().into_iter().filter(|base| names.contains(&base.name)).collect()
}

/// Numbers that are all different.
fn values(count: i64, seed: i64) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 64.0 - 0.75).collect()
}

/// A model under construction, in which weights are made where they are named.
struct Net(Model);

impl Net {
    fn new(opset: i64) -> Net {
        Net(Model::default().opset(opset))
    }

    fn input(self, name: &str, shape: &[i64]) -> Net {
        Net(self.0.input(name, Type::Float, shape))
    }

    fn indices(self, name: &str, shape: &[i64]) -> Net {
        Net(self.0.input(name, Type::Int64, shape))
    }

    fn weight(self, name: &str, shape: &[i64]) -> Net {
        let values = values(shape.iter().product(), name.len() as i64);
        Net(self.0.weight(name, shape, &values))
    }

    fn ints(self, name: &str, values: &[i64]) -> Net {
        Net(self.0.ints(name, &[values.len() as i64], values))
    }

    /// A node: inputs and outputs with spaces between them, `-` for one that is absent.
    fn node(self, op: &str, inputs: &str, outputs: &str, attributes: &[(&str, Attribute<'_>)]) -> Net {
        let names = |text| str::split(text, ' ').map(|name| if name == "-" { "" } else { name }).collect::<Vec<_>>();
        let attributes: Vec<_> = attributes.iter().map(|&(name, value)| (name, value.into())).collect();
        Net(self.0.node_with(op, &names(inputs), &names(outputs), &attributes))
    }

    /// A node without attributes.
    fn plain(self, op: &str, inputs: &str, outputs: &str) -> Net {
        self.node(op, inputs, outputs, &[])
    }

    fn conv(self, inputs: &str, output: &str, group: i64, more: &[(&str, Attribute<'_>)]) -> Net {
        self.node("Conv", inputs, output, &[&[("group", Int(group))], more].concat())
    }

    /// Batch normalisation with constants called after the output.
    fn norm(self, input: &str, output: &str, channels: i64) -> Net {
        let names = ["scale", "bias", "mean"].map(|name| format!("{output}_{name}"));
        let net = names.iter().fold(self, |net, name| net.weight(name, &[channels]));
        let variance = format!("{output}_variance");
        let ones = vec![1.5; channels as usize];
        let inputs = format!("{input} {} {variance}", names.join(" "));
        Net(net.0.weight(&variance, &[channels], &ones)).plain("BatchNormalization", &inputs, output)
    }

    fn output(self, name: &str, shape: &[i64]) -> Net {
        Net(self.0.output(name, Type::Float, shape))
    }

    /// Outputs of one shape.
    fn outputs(self, names: &str, shape: &[i64]) -> Net {
        names.split(' ').fold(self, |net, name| net.output(name, shape))
    }

    fn typed(self, name: &str, ty: Type, shape: &[i64]) -> Net {
        Net(self.0.output(name, ty, shape))
    }
}

const AROUND: (&str, Attribute<'_>) = ("pads", Ints(&[1, 1, 1, 1]));

fn first() -> Model {
    let net = Net::new(17).input("x", &[1, 3, 9, 9]).weight("w", &[20, 3, 3, 3]).weight("b", &[20]);
    let net = net.conv("x w b", "c", 1, &[AROUND, ("strides", Ints(&[2, 2]))]).plain("Relu", "c", "y");
    net.output("y", &[1, 20, 5, 5]).0
}

/// An image large enough for fewer multiplications.
fn winograd() -> Model {
    let net = Net::new(17).input("x", &[1, 16, 16, 16]).weight("w", &[16, 16, 3, 3]);
    net.conv("x w", "y", 1, &[AROUND]).output("y", &[1, 16, 16, 16]).0
}

/// With batch normalisation in the weights, a residual, a clip, and a matrix in panels.
fn blocked() -> Model {
    let net = Net::new(17).input("x", &[1, 16, 6, 6]).weight("w1", &[32, 16, 3, 3]).weight("b1", &[32]);
    let net = net.conv("x w1 b1", "c1", 1, &[AROUND]).norm("c1", "n", 32).weight("w2", &[32, 32, 1, 1]);
    let net = net.conv("n w2", "c2", 1, &[]).plain("Add", "c2 n", "sum").weight("low", &[]).weight("high", &[]);
    let net = net.plain("Clip", "sum low high", "clip").plain("GlobalAveragePool", "clip", "mean");
    let net = net.plain("Flatten", "mean", "flat").weight("matrix", &[32, 10]).weight("shift", &[10]);
    net.plain("Gemm", "flat matrix shift", "y").output("y", &[1, 10]).0
}

fn grouped() -> Model {
    let net = Net::new(17).input("x", &[1, 32, 5, 5]).weight("w1", &[32, 4, 3, 3]).weight("w2", &[32, 16, 3, 3]);
    let dilated = [("pads", Ints(&[2, 2, 2, 2])), ("dilations", Ints(&[2, 2]))];
    let net = net.conv("x w1", "c1", 8, &[AROUND]).conv("c1 w2", "c2", 2, &dilated);
    net.node("LeakyRelu", "c2", "y", &[("alpha", Float(0.25))]).output("y", &[1, 32, 5, 5]).0
}

/// With products and sums in the weights, and what else runs on images in blocks of channels.
fn depthwise() -> Model {
    let net = Net::new(17).input("x", &[1, 16, 8, 8]).weight("w", &[16, 1, 3, 3]).conv("x w", "c", 16, &[AROUND]);
    let net = net.weight("factor", &[16, 1, 1]).weight("term", &[16, 1, 1]);
    let net =
        net.plain("Mul", "c factor", "scaled").plain("Add", "scaled term", "moved").plain("HardSwish", "moved", "h");
    let window = |size| ("kernel_shape", size);
    let net = net.node("MaxPool", "h", "max", &[window(Ints(&[3, 3])), AROUND, ("strides", Ints(&[2, 2]))]);
    let net = net.node("AveragePool", "max", "mean", &[window(Ints(&[2, 2])), ("count_include_pad", Int(1))]);
    let net = net.node("LRN", "mean", "lrn", &[("size", Int(3))]).plain("GlobalAveragePool", "lrn", "pixel");
    let net = net.plain("Mul", "lrn pixel", "gated").node("Concat", "gated lrn", "y", &[("axis", Int(1))]);
    let net = net.input("gate", &[1, 16, 1, 1]).weight("narrow", &[8, 16, 1, 1]).plain("Mul", "max gate", "open");
    let net = net.conv("open narrow", "pointwise", 1, &[]);
    net.output("y", &[1, 32, 3, 3]).output("pointwise", &[1, 8, 3, 3]).0
}

/// Groups that fill no block, and weights that are computed.
fn plain() -> Model {
    let net = Net::new(17).input("x", &[1, 9, 6, 6]).input("v", &[4, 6, 1, 1]).weight("w", &[6, 3, 3, 3]);
    let net = net.conv("x w", "c", 3, &[]).norm("c", "n", 6).conv("n v", "y", 1, &[]);
    net.output("y", &[1, 4, 4, 4]).0
}

fn norms() -> Model {
    let net = Net::new(18).input("x", &[1, 5, 4, 4]).norm("x", "n", 5).node("LRN", "n", "lrn", &[("size", Int(3))]);
    let net = net.node("Softmax", "lrn", "s", &[("axis", Int(1))]).ints("axes", &[2, 3]);
    let net = net.node("MaxPool", "s", "pool", &[("kernel_shape", Ints(&[2, 2])), ("dilations", Ints(&[2, 2]))]);
    let net = net.plain("ReduceMean", "pool axes", "mean").plain("GlobalAveragePool", "s", "pixel");
    let net = net.plain("GlobalMaxPool", "s", "largest");
    net.outputs("mean pixel largest", &[1, 5, 1, 1]).0
}

/// With matrices in panels, of constants as they are and transposed, and with ones that are computed.
fn products() -> Model {
    let net = Net::new(20).input("x", &[6, 16]).input("z", &[16, 6]).input("u", &[1, 16]);
    let net = net.input("p", &[2, 4, 8]).input("q", &[2, 8, 4]).weight("w1", &[16, 32]).weight("b1", &[32]);
    let net =
        net.plain("MatMul", "x w1", "m").plain("Add", "m b1", "a").plain("Gelu", "a", "g").weight("w2", &[32, 16]);
    let net =
        net.plain("MatMul", "g w2", "back").plain("Add", "back x", "y1").weight("w3", &[24, 16]).weight("b3", &[24]);
    let net = net.node("Gemm", "x w3 b3", "y2", &[("transB", Int(1)), ("alpha", Float(0.5))]).weight("w4", &[16, 8]);
    let net = net.plain("MatMul", "x z", "y3").plain("MatMul", "p q", "y4").plain("MatMul", "u w4", "y5");
    let net = net.node("Gemm", "z z", "y6", &[("transA", Int(1))]);
    let net = net.output("y1", &[6, 16]).output("y2", &[6, 24]).output("y3", &[6, 6]).output("y4", &[2, 4, 4]);
    net.output("y5", &[1, 8]).output("y6", &[6, 6]).0
}

fn rows() -> Model {
    let net = Net::new(23).input("x", &[2, 6, 8]).input("r", &[2, 6, 8]).weight("scale", &[8]).weight("bias", &[8]);
    let net =
        net.plain("Add", "x r", "sum").plain("LayerNormalization", "sum scale bias", "n").plain("Add", "n sum", "y1");
    let net = net.plain("RMSNormalization", "x scale", "y2").plain("Softmax", "x", "y3").ints("axes", &[-1]);
    let net = net.plain("ReduceSum", "x axes", "y4").plain("ReduceMax", "x axes", "y5");
    let others =
        ["ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"];
    let net = others.iter().fold(net, |net, op| net.plain(op, "x axes", op));
    let net = net.plain("LogSoftmax", "x", "y6").plain("Hardmax", "x", "y7");
    net.outputs("y1 y2 y3 y6 y7", &[2, 6, 8]).outputs(&format!("y4 y5 {}", others.join(" ")), &[2, 6, 1]).0
}

/// Attention in pieces, with heads side by side in rows and with heads first.
fn attention() -> Model {
    let net = Net::new(17).input("x", &[1, 5, 24]).input("mask", &[1, 1, 5, 5]).ints("parts", &[8, 8, 8]);
    let net = net
        .node("Split", "x parts", "q k v", &[("axis", Int(2))])
        .ints("apart", &[1, 5, 2, 4])
        .ints("side", &[1, 5, 8]);
    let heads = |net: Net, name: &str, perm: &[i64]| {
        let (rows, heads) = (format!("{name}_rows"), format!("{name}_heads"));
        let net = net.plain("Reshape", &format!("{name} apart"), &rows);
        net.node("Transpose", &rows, &heads, &[("perm", Ints(perm))])
    };
    let net = heads(heads(heads(net, "q", &[0, 2, 1, 3]), "k", &[0, 2, 3, 1]), "v", &[0, 2, 1, 3]);
    let net = net.plain("MatMul", "q_heads k_heads", "qk").weight("factor", &[]).plain("Mul", "qk factor", "scores");
    let net = net.plain("Add", "scores mask", "masked").node("Softmax", "masked", "p", &[("axis", Int(-1))]);
    let net = net.plain("MatMul", "p v_heads", "o").node("Transpose", "o", "t", &[("perm", Ints(&[0, 2, 1, 3]))]);
    let net = net.plain("Reshape", "t side", "y1").output("y1", &[1, 5, 8]);
    let net = ["a", "b", "c"].iter().fold(net, |net, name| net.input(name, &[1, 2, 5, 4]));
    let net =
        net.node("Transpose", "b", "b_turned", &[("perm", Ints(&[0, 1, 3, 2]))]).plain("MatMul", "a b_turned", "ab");
    let net = net.plain("Softmax", "ab", "s").plain("MatMul", "s c", "y2");
    net.output("y2", &[1, 2, 5, 4]).0
}

fn moves() -> Model {
    let net =
        Net::new(17).input("x", &[2, 3, 4, 5]).input("z", &[2, 3, 1, 5]).indices("i", &[2]).ints("parts", &[2, 3]);
    let net = net.node("Transpose", "x", "turned", &[("perm", Ints(&[0, 2, 3, 1]))]).ints("flat", &[2, 60]);
    let net = net.plain("Reshape", "turned flat", "y1").node("Concat", "x z", "y2", &[("axis", Int(2))]);
    let net = net.node("Split", "x parts", "y3 y4", &[("axis", Int(3))]).ints("from", &[3, 0]).ints("to", &[-100, 5]);
    let net = net.ints("axes", &[2, 3]).ints("steps", &[-1, 2]).plain("Slice", "x from to axes steps", "y5");
    let net = net
        .node("Gather", "x i", "y6", &[("axis", Int(1))])
        .ints("wide", &[2, 3, 4, 5])
        .plain("Expand", "z wide", "y7");
    let net = net.output("y1", &[2, 60]).output("y2", &[2, 3, 5, 5]).output("y3", &[2, 3, 4, 2]);
    let net = net.output("y4", &[2, 3, 4, 3]).output("y5", &[2, 3, 4, 3]).output("y6", &[2, 2, 4, 5]);
    net.output("y7", &[2, 3, 4, 5]).0
}

/// Every function of one element or two, each on the result of the one before.
fn elements() -> Model {
    let mut net = Net::new(24).input("x", &[3, 4]).weight("low", &[]).weight("high", &[]).weight("row", &[4]);
    let unary = "Relu Elu Sigmoid HardSigmoid HardSwish Swish Tanh Gelu Softplus Mish Exp Reciprocal Log Abs Sqrt Erf Neg Sin Cos \
                 Tan Floor Ceil Round Sign";
    let mut last = "x".to_owned();
    for op in unary.split(' ') {
        net = net.plain(op, &last, op);
        last = op.to_owned();
    }
    net = net.plain("Clip", "Sign low high", "clip").node("LeakyRelu", "clip", "leaky", &[("alpha", Float(0.1))]);
    last = "leaky".to_owned();
    for op in "Add Sub Mul Div Max Min Pow Sum".split(' ') {
        net = net.plain(op, &format!("{last} row"), op);
        last = op.to_owned();
    }
    net.node("Gelu", &last, "y", &[("approximate", Text("tanh"))]).output("y", &[3, 4]).0
}

/// Sizes that are known at run time only.
fn open() -> Model {
    let net = Net::new(17).input("x", &[-1, 8]).weight("w", &[8, 8]).weight("b", &[8]).plain("MatMul", "x w", "m");
    let net = net.plain("Add", "m b", "a").plain("Relu", "a", "r").node("Concat", "r x", "both", &[("axis", Int(0))]);
    let net = net.ints("from", &[1]).ints("to", &[9]).ints("axes", &[1]).plain("Slice", "both from to axes", "cut");
    let net = net.plain("Softmax", "cut", "s").plain("Shape", "s", "size").plain("Transpose", "s", "y");
    let net = net.plain("Size", "s", "count").typed("count", Type::Int64, &[]);
    net.typed("size", Type::Int64, &[2]).output("y", &[7, -2]).0
}

/// What takes its sizes from constants.
fn shapes() -> Model {
    let net = Net::new(17).input("x", &[2, 3, 4]).ints("pads", &[0, 1, 0, 0, 0, 2]).weight("fill", &[]);
    let net =
        net.plain("Pad", "x pads fill", "padded").ints("times", &[1, 2, 1]).plain("Tile", "padded times", "tiled");
    let net = net.ints("k", &[1]).plain("Trilu", "tiled k", "y1").ints("axis", &[]).ints("axes", &[0, 2]);
    let net = net.plain("Unsqueeze", "x axes", "more").plain("Squeeze", "more axes", "y2").ints("wide", &[5, 2, 3, 4]);
    let net = net.plain("Expand", "x wide", "y3").plain("Identity", "y2", "y4").plain("Dropout", "x", "y5");
    let net = net.output("y1", &[2, 8, 6]).outputs("y2 y4 y5", &[2, 3, 4]);
    net.output("y3", &[5, 2, 3, 4]).0
}

fn indices() -> Model {
    let net = Net::new(18).input("x", &[3, 4]).indices("e", &[2, 4]).indices("n", &[2, 2]).input("u", &[2]);
    let net = net.node("GatherElements", "x e", "y1", &[("axis", Int(0))]).plain("GatherND", "x n", "y2");
    let net = net.plain("ScatterND", "x n u", "y3").node("ArgMax", "x", "y4", &[("axis", Int(1))]);
    let net = Net(net.0.ints("axis", &[], &[1])).plain("CumSum", "x axis", "y5");
    let net = net.node("ArgMin", "x", "y6", &[("axis", Int(0))]).node("EyeLike", "x", "y7", &[("k", Int(1))]);
    let net = net.input("p", &[2, 4]).plain("ScatterElements", "x e p", "y8").indices("lengths", &[4]);
    let net = net.plain("ReverseSequence", "x lengths", "y9").typed("y6", Type::Int64, &[1, 4]);
    let net = net.output("y1", &[2, 4]).output("y2", &[2]).outputs("y3 y5 y7 y8 y9", &[3, 4]);
    net.typed("y4", Type::Int64, &[3, 1]).0
}

/// What is chosen by value, and how much of it only the run tells.
fn choices() -> Model {
    let net =
        Net::new(18).input("x", &[3, 4]).input("boxes", &[1, 5, 4]).input("scores", &[1, 2, 5]).weight("least", &[]);
    let net = Net(net.0.input("c", Type::Bool, &[3]).ints("depth", &[], &[5])).ints("k", &[2]).ints("most", &[3]);
    let net = net.plain("TopK", "x k", "y1 places").weight("values", &[2]).plain("OneHot", "places depth values", "y2");
    let net = net.plain("NonZero", "x", "y3").node("Compress", "x c", "y4", &[("axis", Int(0))]);
    let net = net.plain("Unique", "x", "y5 first inverse counts").weight("iou", &[]).plain("Abs", "iou", "overlap");
    let net = net.plain("NonMaxSuppression", "boxes scores most overlap least", "y6");
    let net = net.output("y1", &[3, 2]).typed("places", Type::Int64, &[3, 2]).output("y2", &[3, 2, 5]);
    let net = net.typed("y3", Type::Int64, &[2, -1]).output("y4", &[-2, 4]).output("y5", &[-3]);
    let net = ["first", "counts"].iter().fold(net, |net, name| net.typed(name, Type::Int64, &[-3]));
    net.typed("inverse", Type::Int64, &[12]).typed("y6", Type::Int64, &[-4, 3]).0
}

fn logic() -> Model {
    let net = Net::new(17).input("x", &[3, 4]).input("z", &[4]).indices("i", &[3, 4]).ints("three", &[3]);
    let net = net.plain("Greater", "x z", "a").plain("Less", "x z", "b").plain("GreaterOrEqual", "x z", "c");
    let net = net
        .plain("LessOrEqual", "x z", "d")
        .plain("And", "a c", "ac")
        .plain("And", "b d", "bd")
        .plain("Not", "bd", "n");
    let net = net.plain("IsNaN", "x", "nan").plain("IsInf", "x", "inf").plain("Or", "nan inf", "or");
    let net = net.plain("Xor", "ac n", "xor").plain("And", "xor or", "acn").plain("Where", "acn x z", "y1");
    let net = net.plain("Mod", "i three", "mod").plain("Equal", "mod i", "same").plain("Where", "same x z", "y2");
    let net = Net(net.0.cast("mod", Type::Float16, "y3"));
    net.outputs("y1 y2", &[3, 4]).typed("nan", Type::Bool, &[3, 4]).typed("y3", Type::Float16, &[3, 4]).0
}

/// Functions of angles, bits and running products.
fn curves() -> Model {
    let net = Net::new(28).input("x", &[2, 3]).indices("i", &[2, 3]).indices("n", &[3]);
    let names = ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh"];
    let net = names.iter().fold(net, |net, name| net.plain(name, "x", name).output(name, &[2, 3]));
    let net =
        net.plain("BitwiseAnd", "i n", "and").plain("BitwiseOr", "and n", "or").plain("BitwiseXor", "or i", "xor");
    let net = net.plain("BitwiseNot", "xor", "not");
    let net = net.node("BitShift", "not n", "bits", &[("direction", Text("RIGHT"))]);
    let net = Net(net.0.ints("axis", &[], &[1])).plain("CumProd", "x axis", "products").output("products", &[2, 3]);
    net.typed("bits", Type::Int64, &[2, 3]).0
}

/// Functions in types that have reference kernels only.
fn functions() -> Model {
    let net = Net::new(17).indices("i", &[2, 3]).ints("row", &[1, 2, 3]).ints("matrix", &[1]).ints("axes", &[1]);
    let net = Net(net.0.ints("m", &[3, 2], &[1, 2, 3, 4, 5, 6])).plain("Add", "i row", "a").plain("Mul", "a row", "b");
    let net =
        net.plain("Sub", "b i", "c").plain("Div", "c row", "d").plain("Max", "d row", "e").plain("Min", "e b", "f");
    let net = net.plain("MatMul", "f m", "g").plain("ReduceSum", "g axes", "y1").plain("Pow", "f row", "y2");
    let net = net.plain("Neg", "f", "n").plain("Abs", "n", "y3").plain("Clip", "f", "y4").plain("Relu", "n", "y5");
    let net = net.typed("y1", Type::Int64, &[2, 1]);
    "y2 y3 y4 y5".split(' ').fold(net, |net, name| net.typed(name, Type::Int64, &[2, 3])).0
}

/// Images of one dimension and of three, and what is enlarged.
fn images() -> Model {
    let net = Net::new(19).input("x", &[1, 2, 4, 4, 4]).input("line", &[1, 2, 9]).weight("w", &[3, 2, 2, 2, 2]);
    let net = net.plain("Conv", "x w", "y1").weight("wl", &[3, 1, 3]).weight("bl", &[3]);
    let net = net.node("MaxPool", "x", "y2", &[("kernel_shape", Ints(&[2, 2, 2])), ("strides", Ints(&[2, 2, 2]))]);
    let pool = [("kernel_shape", Ints(&[3])), ("pads", Ints(&[1, 1])), ("ceil_mode", Int(1)), ("strides", Ints(&[2]))];
    let net = net.node("AveragePool", "line", "y3", &pool).input("grey", &[1, 1, 3, 3]).ints("size", &[1, 1, 5, 7]);
    let net = net.node("Resize", "grey - - size", "y4", &[("mode", Text("linear"))]);
    let net = net.node("Resize", "grey - - size", "y5", &[("mode", Text("cubic"))]);
    let nearest = [("mode", Text("nearest")), ("nearest_mode", Text("floor"))];
    let net = net.node("Resize", "grey - - size", "y7", &nearest);
    let net = net.node("MaxPool", "grey", "y6 places", &[("kernel_shape", Ints(&[2, 2]))]);
    let net = net.output("y1", &[1, 3, 3, 3, 3]).output("y2", &[1, 2, 2, 2, 2]).output("y3", &[1, 2, 5]);
    let net = net.outputs("y4 y5 y7", &[1, 1, 5, 7]).output("y6", &[1, 1, 2, 2]);
    net.typed("places", Type::Int64, &[1, 1, 2, 2]).0
}

/// Operators of transformers by name.
fn heads() -> Model {
    let net = Net::new(23).input("q", &[1, 4, 3, 8]).input("k", &[1, 2, 5, 8]).input("v", &[1, 2, 5, 8]);
    let net =
        net.plain("Attention", "q k v", "y1").input("rows", &[1, 3, 16]).weight("cos", &[4, 4]).weight("sin", &[4, 4]);
    let net = net.indices("at", &[1, 3]).node("RotaryEmbedding", "rows cos sin at", "turned", &[("num_heads", Int(2))]);
    let causal = [("q_num_heads", Int(2)), ("kv_num_heads", Int(2)), ("is_causal", Int(1)), ("softcap", Float(5.0))];
    let net = net.node("Attention", "turned rows rows", "y2", &causal);
    net.output("y1", &[1, 4, 3, 8]).output("y2", &[1, 3, 16]).0
}
