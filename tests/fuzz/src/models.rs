//! Small models to start from: every kind of operator in a few, and what they compile to.

use std::path::PathBuf;
use std::sync::LazyLock;

use byoc_conformance::onnx::{Fill, Model};
use byoc_conformance::tensor::Tensor;
use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::compile::variants::{Variant, Variants};
use byoc_core::compile::{self, Request, Silent};
use byoc_core::diagnostic::{Diagnostic, Result};
use byoc_core::onnx::proto::tensor_proto::DataType;
use byoc_core::onnx::write;
use byoc_core::plugin::{Registry, SearchPath};
use byoc_plugin_api::{Attribute, DType, registered};
use tempfile::TempDir;

use {byoc_json_backend as _, byoc_kendryte_backend as _};

/// The backends that are linked into this program.
pub(crate) static REGISTRY: LazyLock<Registry> =
    LazyLock::new(|| Registry::discover(&SearchPath::default(), &registered(), None).expect("nothing is loaded"));

thread_local! {
    /// A folder of this thread: files in it are mapped, so they must not be written.
    static FOLDER: TempDir = tempfile::tempdir().expect("a folder can be made");
}

/// The path of a file of this thread.
pub(crate) fn place(name: &str) -> PathBuf {
    FOLDER.with(|folder| folder.path().join(name))
}

/// A net of one input `x`, whose nodes are (operator, inputs, attributes); each gives a value called after its place: `n0`,
/// `n1`, … The last one is the output. Inputs such as `f4x3` are weights of f32 of that shape, `i-1,2` constants of i64.
type Row = (&'static [usize], &'static [(&'static str, &'static str, &'static [(&'static str, Value)])]);

enum Value {
    Int(i64),
    Ints(&'static [i64]),
    Float(f32),
    Text(&'static str),
}

use Value::{Float, Int, Ints, Text};

const PADS: (&str, Value) = ("pads", Ints(&[1, 1, 1, 1]));
const WINDOW: (&str, Value) = ("kernel_shape", Ints(&[2, 2]));

/// Every row with a batch of a fixed size, and with one that is known at run time only.
const ROWS: &[Row] = &[
    (&[2, 3], &[("MatMul", "x f3x4", &[]), ("Add", "n0 f4", &[]), ("Relu", "n1", &[])]),
    (&[2, 3], &[("Gemm", "x f4x3 f4", &[("transB", Int(1)), ("alpha", Float(0.5))]), ("Softmax", "n0", &[])]),
    (
        &[1, 3, 8, 8],
        &[
            ("Conv", "x f16x3x3x3 f16", &[PADS, ("strides", Ints(&[2, 2]))]),
            ("Relu", "n0", &[]),
            ("Conv", "n1 f16x1x3x3 f16", &[PADS, ("group", Int(16))]),
            ("BatchNormalization", "n2 f16 f16 f16 p16", &[]),
            ("Conv", "n3 f32x16x1x1", &[]),
            ("Clip", "n4 f f", &[]),
            ("GlobalAveragePool", "n5", &[]),
            ("Flatten", "n6", &[]),
            ("Gemm", "n7 f32x4 f4", &[]),
        ],
    ),
    (
        &[1, 3, 8, 8],
        &[
            ("Conv", "x f8x3x3x3 f8", &[PADS]),
            ("LeakyRelu", "n0", &[]),
            ("MaxPool", "n1", &[WINDOW, ("strides", Ints(&[2, 2]))]),
            ("Conv", "n2 f8x8x1x1 f8", &[]),
            ("Add", "n3 n2", &[]),
            ("Concat", "n4 n2", &[("axis", Int(1))]),
            ("Resize", "n5   i1,16,8,8", &[("mode", Text("nearest"))]),
            ("Conv", "n6 f16x1x3x3 f16", &[PADS, ("group", Int(16))]),
            ("GlobalAveragePool", "n7", &[]),
            ("Flatten", "n8", &[]),
            ("Gemm", "n9 f16x4 f4", &[]),
            ("Softmax", "n10", &[]),
        ],
    ),
    (&[1, 1, 6, 6], &[("Conv", "x f4x1x1x1 f4", &[]), ("Sigmoid", "n0", &[]), ("Transpose", "n1", &[])]),
    (
        &[1, 4, 8, 8],
        &[("Conv", "x f4x4x3x3 f4", &[PADS]), ("AveragePool", "n0", &[WINDOW]), ("Reshape", "n1 i1,-1", &[])],
    ),
    (&[1, 2, 6, 6], &[("Conv", "x f2x2x3x3", &[("dilations", Ints(&[2, 2]))]), ("Sigmoid", "n0", &[])]),
    (&[1, 8, 6, 6], &[("Conv", "x f8x4x3x3", &[PADS, ("group", Int(2))]), ("Mul", "n0 x", &[])]),
    (&[1, 2, 5, 5], &[("MaxPool", "x", &[WINDOW, ("ceil_mode", Int(1)), ("strides", Ints(&[2, 2]))])]),
    (
        &[1, 2, 5, 5],
        &[("AveragePool", "x", &[WINDOW, ("auto_pad", Text("SAME_UPPER"))]), ("LRN", "n0", &[("size", Int(3))])],
    ),
    (&[1, 2, 5], &[("MaxPool", "x", &[("kernel_shape", Ints(&[2]))]), ("Conv", "n0 f2x2x3", &[])]),
    (&[2, 4, 8], &[("LayerNormalization", "x f8 f8", &[]), ("Gelu", "n0", &[]), ("ReduceMean", "n1 i-1", &[])]),
    (
        &[1, 4, 8],
        &[
            ("MatMul", "x f8x8", &[]),
            ("Reshape", "n0 i0,4,2,4", &[]),
            ("Transpose", "n1", &[("perm", Ints(&[0, 2, 1, 3]))]),
            ("Transpose", "n1", &[("perm", Ints(&[0, 2, 3, 1]))]),
            ("MatMul", "n2 n3", &[]),
            ("Softmax", "n4", &[]),
            ("MatMul", "n5 n2", &[]),
        ],
    ),
    (&[1, 2, 4, 8], &[("Attention", "x x x", &[("is_causal", Int(1))])]),
    (&[2, 2, 4, 8], &[("RotaryEmbedding", "x f2x4x4 f2x4x4", &[])]),
    (&[2, 3, 4], &[("Slice", "x i0,1 i2,3 i0,2", &[]), ("Pad", "n0 i0,1,0,0,1,0 f", &[]), ("Tile", "n1 i1,2,1", &[])]),
    (
        &[2, 3, 4],
        &[
            ("Transpose", "x", &[]),
            ("Unsqueeze", "n0 i0", &[]),
            ("Squeeze", "n1 i0", &[]),
            ("Expand", "n2 i2,4,3,2", &[]),
        ],
    ),
    (
        &[2, 6],
        &[
            ("Split", "x", &[("num_outputs", Int(1))]),
            ("Concat", "n0 x", &[("axis", Int(1))]),
            ("CumSum", "n1 i1", &[]),
        ],
    ),
    (
        &[4, 3],
        &[
            ("Gather", "x i1,0,-1", &[]),
            ("Reshape", "n0 i-1", &[]),
            ("GatherElements", "n1 i0,1", &[]),
            ("ReduceMax", "n2", &[]),
        ],
    ),
    (&[4, 3], &[("GatherND", "x i1", &[]), ("ScatterND", "x i1 n0", &[])]),
    (&[1, 2, 4, 4], &[("Resize", "x   i1,2,8,8", &[("mode", Text("linear"))])]),
    (
        &[3, 3],
        &[("Shape", "x", &[]), ("ConstantOfShape", "n0", &[]), ("Greater", "x n1", &[]), ("Where", "n2 x n1", &[])],
    ),
    (&[3, 3], &[("Trilu", "x", &[]), ("ArgMax", "n0", &[]), ("Cast", "n1", &[("to", Int(1))]), ("Pow", "n2 f", &[])]),
    (&[2, 8], &[("DequantizeLinear", "q8x5 f5", &[]), ("MatMul", "x n0", &[])]),
    (
        &[2, 8],
        &[("DequantizeLinear", "q8x5 f2x5", &[("axis", Int(0)), ("block_size", Int(4))]), ("MatMul", "x n0", &[])],
    ),
    (&[3, 3], &[("Cast", "x", &[("to", Int(17))]), ("Transpose", "n0", &[]), ("Cast", "n1", &[("to", Int(1))])]),
    (&[2, 2], &[("Div", "x f2", &[]), ("Sqrt", "n0", &[]), ("Erf", "n1", &[]), ("Mod", "n2 f2", &[("fmod", Int(1))])]),
    (
        &[2, 2],
        &[
            ("Range", "i0 i4 i1", &[]),
            ("Cast", "n0", &[("to", Int(1))]),
            ("Reshape", "n1 i2,2", &[]),
            ("Min", "x n2", &[]),
        ],
    ),
];

/// The models.
pub(crate) fn all() -> Vec<Model> {
    ROWS.iter().flat_map(|row| [model(row, false), model(row, true)]).collect()
}

/// A model with an operator that only a backend can bring, `com.acme.Op`.
pub(crate) fn custom() -> Model {
    let mut model = Model::default();
    model.input("x", DType::F32, &[2, 8], Fill::Any, true);
    model.node(("", "Relu"), vec!["x".into()], vec!["a".into()], &[]);
    let table = Attribute::Tensor { dtype: DType::U8, shape: vec![2], hex: "01ff".into() };
    let weight = operand(&mut model, "f8", "weight");
    let attributes = [("table".to_owned(), table)];
    model.node(("com.acme", "Op"), vec!["a".into(), weight], vec!["b".into()], &attributes);
    model.node(("", "Exp"), vec!["b".into()], vec!["y".into()], &[]);
    model.output("y", DType::F32);
    model
}

fn model((shape, nodes): &Row, symbolic: bool) -> Model {
    let mut model = Model::default();
    model.input("x", DType::F32, shape, Fill::Any, symbolic);
    for (at, (op, inputs, attributes)) in nodes.iter().enumerate() {
        let inputs: Vec<_> = inputs
            .split(' ')
            .enumerate()
            .map(|(place, name)| operand(&mut model, name, &format!("{name}_{at}_{place}")))
            .collect();
        let attributes: Vec<_> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), attribute(value))).collect();
        model.node(("", op), inputs, vec![format!("n{at}")], &attributes);
    }
    model.output(&format!("n{}", nodes.len() - 1), DType::F32);
    model
}

fn attribute(value: &Value) -> Attribute {
    match value {
        Int(value) => Attribute::Int(*value),
        Ints(values) => Attribute::Ints(values.to_vec()),
        Float(value) => Attribute::Float(*value),
        Text(text) => Attribute::String((*text).to_owned()),
    }
}

/// The name of an operand, which becomes a constant of the model, called `constant`, where its name says so.
fn operand(model: &mut Model, name: &str, constant: &str) -> String {
    let (kind, rest) = name.split_at(name.len().min(1));
    let tensor = match kind {
        "f" | "p" => {
            let shape: Vec<i64> = rest.split('x').filter_map(|size| size.parse().ok()).collect();
            let least = if kind == "p" { 1.0 } else { -0.5 };
            let values: Vec<_> =
                (0..shape.iter().product()).map(|index: i64| (index % 7) as f32 / 6.0 + least).collect();
            Tensor::f32(&shape, &values)
        }
        "i" => {
            let values: Vec<i64> = rest.split(',').filter_map(|value| value.parse().ok()).collect();
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            Tensor::new(DType::I64, vec![values.len() as i64], bytes)
        }
        // Integers of 4 bits, two in a byte.
        "q" => {
            let shape: Vec<i64> = rest.split('x').filter_map(|size| size.parse().ok()).collect();
            let bytes = usize::try_from(shape.iter().product::<i64>()).unwrap_or_default().div_ceil(2);
            Tensor::new(DType::I4, shape, (0..bytes).map(|index| (index * 37) as u8).collect())
        }
        _ => return name.to_owned(),
    };
    model.constant(constant, tensor);
    constant.to_owned()
}

/// One sample of any model.
struct Ramp;

struct RampOf(Vec<Input>);

impl Dataset for Ramp {
    fn name(&self) -> String {
        "a ramp".into()
    }

    fn open(&self, inputs: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        Ok(Box::new(RampOf(inputs.to_vec())))
    }
}

impl Samples for RampOf {
    fn count(&self) -> usize {
        1
    }

    fn name(&self, _: usize) -> String {
        "ramp".into()
    }

    fn load(&self, _: usize) -> Result<Vec<Vec<u8>>> {
        Ok(self.0.iter().map(|input| crate::run::ramp(input.dtype, input.shape.iter().product())).collect())
    }
}

/// How many models are there in variants as well.
const VARIANTS: usize = 12;

/// What a model, given as a file's bytes, compiles to.
pub(crate) fn compiled(model: &[u8], registry: &Registry, backends: &[&str]) -> Result<Vec<u8>> {
    finish(&request(model, registry, backends)?)
}

/// The same for a model that anybody may have made: large ones are errors.
pub(crate) fn compiled_if_small(model: &[u8], registry: &Registry, backends: &[&str]) -> Result<Vec<u8>> {
    let request = request(model, registry, backends)?;
    crate::run::guard(&request)?;
    finish(&request)
}

fn request(model: &[u8], registry: &Registry, backends: &[&str]) -> Result<Request> {
    let source = place("model.onnx");
    std::fs::write(&source, model).map_err(|error| Diagnostic::io(&source, "write", &error))?;
    let names: Vec<_> = backends.iter().map(|name| (*name).to_owned()).collect();
    Ok(Request {
        calibration: Some(Box::new(Ramp)),
        folding_backend: registry.select(&["json".to_owned()], &[])?.pop(),
        ..Request::new(vec![("main".into(), source)], registry.select(&names, &[])?)
    })
}

fn finish(request: &Request) -> Result<Vec<u8>> {
    let output = place("model.byoc");
    compile::compile(request, &output, &mut Silent)?;
    std::fs::read(&output).map_err(|error| Diagnostic::io(&output, "read", &error))
}

/// A loop around a choice, and a scan, of one weight: as files.
pub(crate) fn control() -> Vec<Vec<u8>> {
    let [float, int, bool] = [DataType::Float, DataType::Int64, DataType::Bool];
    let branch = |op: &str| write::Model::default().node(op, &["v", "w"], &[op]).output(op, float, &[2]);
    let step = write::Model::default().input("i", int, &[]).input("on", bool, &[]).input("v", float, &[2]);
    let step =
        step.node("If", &["on"], &["next"]).body("then_branch", branch("Add")).body("else_branch", branch("Mul"));
    let step = step.node("Identity", &["on"], &["still"]).output("still", bool, &[]).output("next", float, &[2]);
    let step = step.output("next", float, &[2]);
    let model = write::Model::default().input("x", float, &[2]).weight("w", &[2], &[0.5, 2.0]).ints("count", &[], &[3]);
    let looped = model.clone().node("Loop", &["count", "", "x"], &["last", "all"]).body("body", step);
    let row = write::Model::default().input("s", float, &[2]).input("e", float, &[]);
    let row = row.node("Mul", &["e", "w"], &["p"]).node("Add", &["s", "p"], &["t"]).output("t", float, &[2]);
    let one = [("num_scan_inputs", Attribute::Int(1))];
    let scanned = model.node_with("Scan", &["w", "x"], &["last"], &one).body("body", row);
    [looped.output("all", float, &[-1, 2]), scanned].map(|model| model.output("last", float, &[2]).finish()).into()
}

/// A loop that fills a sequence, a body that runs for each of its tensors, and an optional: as a file.
fn sequences() -> Vec<u8> {
    let [float, int, bool] = [DataType::Float, DataType::Int64, DataType::Bool];
    let step = write::Model::default().input("i", int, &[]).input("on", bool, &[]).input("s", float, &[]);
    let step = step.node("SequenceInsert", &["s", "x", "i"], &["t"]).node("Identity", &["on"], &["still"]);
    let step = step.output("still", bool, &[]).output("t", float, &[]);
    let each =
        write::Model::default().input("a", float, &[2]).node("Mul", &["a", "w"], &["m"]).output("m", float, &[2]);
    let model = write::Model::default().input("x", float, &[2]).weight("w", &[2], &[0.5, 2.0]).ints("count", &[], &[3]);
    let model = model.ints("two", &[], &[2]).input("at", int, &[]).node("SequenceEmpty", &[], &["none"]);
    let model = model.node("Loop", &["count", "", "none"], &["all"]).body("body", step);
    let model = model.node("SequenceMap", &["all"], &["maps"]).body("body", each);
    let axis = [("axis", Attribute::Int(0))];
    let model = model.node_with("ConcatFromSequence", &["maps"], &["joined"], &axis);
    let model = model.node_with("SplitToSequence", &["joined", "two"], &["parts"], &axis);
    let model = model.node("SequenceErase", &["parts", "at"], &["fewer"]).node("SequenceAt", &["fewer", "at"], &["y"]);
    let model = model.node("Optional", &["y"], &["some"]).output("y", float, &[2]);
    model.output("some", float, &[2]).output("fewer", float, &[2]).finish()
}

/// What a model compiles to in two variants: with weights as they are, and with weights in the code.
fn variants(model: &[u8], registry: &Registry) -> Result<Vec<u8>> {
    let variant = |name: &str, backends: &[&str]| -> Result<Variant> {
        Ok(Variant { name: name.to_owned(), request: request(model, registry, backends)? })
    };
    let list = [variant("chip", &["kendryte", "json"])?, variant("host", &["json"])?];
    let output = place("variants.byoc");
    Variants { list: &list, share: false }.compile(&output, &mut Silent)?;
    std::fs::read(&output).map_err(|error| Diagnostic::io(&output, "read", &error))
}

/// The models of this file that a compiler takes.
pub(crate) fn files() -> Vec<Vec<u8>> {
    all().iter().map(Model::finish).chain(control()).chain([sequences()]).collect()
}

/// The artifacts of all models that compile.
pub(crate) fn artifacts() -> Vec<Vec<u8>> {
    let of = |backends: &[&str]| -> Vec<_> {
        files().iter().filter_map(|model| compiled(model, &REGISTRY, backends).ok()).collect()
    };
    let (host, chip) = (of(&["json"]), of(&["kendryte", "json"]));
    let chip = chip.into_iter().filter(|file| !host.contains(file)).collect();
    let both = files().iter().filter_map(|model| variants(model, &REGISTRY).ok()).take(VARIANTS).collect();
    [host, chip, both].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_models_compile() {
        let errors = files().into_iter().enumerate().filter_map(|(index, model)| {
            let error = compiled(&model, &REGISTRY, &["json"]).err()?;
            Some(format!("row {}, model {index}: {}", index / 2, error.message))
        });
        assert_eq!(errors.collect::<Vec<_>>(), [""; 0]);
    }
}
