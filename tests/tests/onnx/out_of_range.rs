//! Indices, axes and counts that are out of range, in every operator that has some as an input: an error that names the node and
//! the number, by fast and reference kernels alike, and never an element that is not there.

use byoc_core::onnx::proto::ValueInfoProto;
use byoc_core::onnx::write::to_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

/// A node and its inputs.
struct Case {
    op: &'static str,
    inputs: Vec<Tensor>,
    attributes: Vec<(&'static str, Attribute)>,
}

fn case(op: &'static str, inputs: Vec<Tensor>) -> Case {
    Case { op, inputs, attributes: vec![] }
}

impl Case {
    fn with(mut self, name: &'static str, value: Attribute) -> Case {
        self.attributes.push((name, value));
        self
    }
}

/// Floats, all of them 1.
fn x(shape: &[i64]) -> Tensor {
    Tensor::f32(shape, &vec![1.0; shape.iter().product::<i64>() as usize])
}

fn i64s(shape: &[i64], values: &[i64]) -> Tensor {
    Tensor::new(DType::I64, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn i32s(shape: &[i64], values: &[i32]) -> Tensor {
    Tensor::new(DType::I32, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

/// Every case.
#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        // Elements by index.
        case("Gather", vec![x(&[3, 2]), i64s(&[2], &[0, 3])]),
        case("Gather", vec![x(&[3, 2]), i64s(&[1], &[-4])]),
        case("Gather", vec![x(&[3, 2]), i64s(&[1], &[i64::MIN])]),
        case("Gather", vec![x(&[3, 2]), i32s(&[1], &[i32::MAX])]),
        case("Gather", vec![x(&[0, 2]), i64s(&[1], &[0])]),
        case("GatherElements", vec![x(&[3, 2]), i64s(&[1, 2], &[0, 3])]),
        case("GatherElements", vec![x(&[3, 2]), i64s(&[1, 2], &[-4, 0])]),
        case("GatherND", vec![x(&[3, 2]), i64s(&[1, 2], &[1, 2])]),
        case("GatherND", vec![x(&[3, 2]), i64s(&[1, 1], &[i64::MAX])]),
        case("ScatterElements", vec![x(&[3, 2]), i64s(&[1, 2], &[0, 3]), x(&[1, 2])]),
        case("ScatterElements", vec![x(&[3, 2]), i64s(&[1, 2], &[-4, 0]), x(&[1, 2])]),
        case("ScatterND", vec![x(&[3, 2]), i64s(&[1, 1], &[3]), x(&[1, 2])]),
        case("ScatterND", vec![x(&[3, 2]), i64s(&[1, 2], &[0, -3]), x(&[1])]),
        case("TensorScatter", vec![x(&[1, 1, 3, 2]), x(&[1, 1, 2, 2]), i64s(&[1], &[2])]),
        case("MaxUnpool", vec![x(&[1, 1, 1, 1]), i64s(&[1, 1, 1, 1], &[4])]).with("kernel_shape", Attribute::Ints(vec![2, 2])),
        case("RoiAlign", vec![x(&[2, 1, 3, 3]), x(&[1, 4]), i64s(&[1], &[2])]),
        case("RoiAlign", vec![x(&[2, 1, 3, 3]), x(&[1, 4]), i64s(&[1], &[-1])]),
        case("MaxRoiPool", vec![x(&[1, 1, 3, 3]), x(&[1, 5])]).with("pooled_shape", Attribute::Ints(vec![1, 1])),
        case("NegativeLogLikelihoodLoss", vec![x(&[2, 3]), i64s(&[2], &[0, 3])]),
        case("SoftmaxCrossEntropyLoss", vec![x(&[2, 3]), i64s(&[2], &[0, 3])]),
        case("RotaryEmbedding", vec![x(&[1, 1, 1, 4]), x(&[2, 2]), x(&[2, 2]), i64s(&[1, 1], &[2])]),
        case("ai.onnx.ml.ArrayFeatureExtractor", vec![x(&[2, 3]), i64s(&[1], &[3])]),
        case("com.microsoft.GatherND", vec![x(&[3, 2]), i64s(&[1, 1], &[3])]),
        case("com.microsoft.RotaryEmbedding", vec![x(&[1, 1, 4]), i64s(&[1, 1], &[2]), x(&[2, 2]), x(&[2, 2])]).with("num_heads", Attribute::Int(1)),
        case("com.microsoft.EmbedLayerNormalization", vec![i32s(&[1, 1], &[4]), i32s(&[1, 1], &[0]), x(&[4, 2]), x(&[3, 2]), x(&[2, 2]), x(&[2]), x(&[2])]),
        // How many there are.
        case("TopK", vec![x(&[3]), i64s(&[1], &[4])]),
        case("TopK", vec![x(&[3]), i64s(&[1], &[-1])]),
        case("OneHot", vec![i64s(&[2], &[0, 9]), i64s(&[], &[-1]), x(&[2])]),
        case("ReverseSequence", vec![x(&[3, 2]), i64s(&[2], &[1, 4])]),
        case("ReverseSequence", vec![x(&[3, 2]), i64s(&[2], &[-1, 1])]),
        case("Split", vec![x(&[3]), i64s(&[2], &[1, 3])]),
        case("Tile", vec![x(&[3]), i64s(&[1], &[-1])]),
        case("Expand", vec![x(&[3]), i64s(&[1], &[2])]),
        case("Reshape", vec![x(&[3]), i64s(&[1], &[2])]),
        case("Pad", vec![x(&[3]), i64s(&[2], &[-4, 0])]),
        case("RNN", vec![x(&[2, 1, 1]), x(&[1, 1, 1]), x(&[1, 1, 1]), x(&[1, 2]), i32s(&[1], &[3])]).with("hidden_size", Attribute::Int(1)),
        // Axes.
        case("Unsqueeze", vec![x(&[3]), i64s(&[1], &[2])]),
        case("Squeeze", vec![x(&[3, 1]), i64s(&[1], &[2])]),
        case("Squeeze", vec![x(&[3, 1]), i64s(&[1], &[0])]),
        case("ReduceSum", vec![x(&[3]), i64s(&[1], &[-2])]),
        case("CumSum", vec![x(&[3]), i64s(&[], &[1])]),
        case("Slice", vec![x(&[3]), i64s(&[1], &[0]), i64s(&[1], &[1]), i64s(&[1], &[1])]),
        case("Slice", vec![x(&[3]), i64s(&[1], &[0]), i64s(&[1], &[1]), i64s(&[1], &[0]), i64s(&[1], &[0])]),
        case("DFT", vec![x(&[1, 3, 1]), i64s(&[], &[3]), i64s(&[], &[3])]),
        case("com.microsoft.ExpandDims", vec![x(&[3]), i32s(&[], &[3])]),
    ]
}

/// The model of a case: with all inputs given by a run, or with all but the first in the model.
fn model(case: &Case, constant: bool) -> Vec<u8> {
    let (domain, op) = case.op.rsplit_once('.').unwrap_or(("", case.op));
    let mut model = Model::default().opset(if op == "MaxRoiPool" { 21 } else { 24 });
    if !domain.is_empty() {
        model = model.domain(domain, if domain == "ai.onnx.ml" { 3 } else { 1 });
    }
    let names: Vec<_> = (0..case.inputs.len()).map(|at| format!("x{at}")).collect();
    for (at, (name, value)) in names.iter().zip(&case.inputs).enumerate() {
        let kind = to_onnx(value.dtype);
        let kind = Type::try_from(kind).expect("a type");
        model = match constant && at > 0 {
            true => model.tensor(tensor(name, kind, &value.shape, value.bytes.clone())),
            false => model.input(name, kind, &value.shape),
        };
    }
    let inputs: Vec<_> = names.iter().map(String::as_str).collect();
    // The parts of Split are as many as its list has entries.
    let outputs = if op == "Split" { &["y", "z"][..] } else { &["y"] };
    let mut model = model.node_of((domain, op), &inputs, outputs, &case.attributes);
    model.graph.output.push(ValueInfoProto { name: Some("y".into()), ..ValueInfoProto::default() });
    model.finish()
}

/// What is said of a case.
fn said(case: &Case, constant: bool, kernels: &str) -> String {
    let (folder, registry) = (places::temporary_in_memory(), engine::embedded());
    let model = places::write(folder.path(), "model.onnx", model(case, constant));
    let artifact = folder.path().join("model.byoc");
    let compiled = engine::compile_with(&model, &artifact, &registry, &["json"], &[("json.kernels", kernels)]);
    if let Err(error) = compiled {
        return error.to_string();
    }
    let named = case.inputs.iter().enumerate().map(|(at, tensor)| (format!("x{at}"), tensor.clone()));
    let given: Vec<_> = named.take(if constant { 1 } else { usize::MAX }).collect();
    let mut session = match engine::load(&artifact, &registry, 1) {
        Ok(session) => session,
        Err(error) => return error.to_string(),
    };
    match engine::run(&mut session, &given) {
        Ok(outputs) => panic!("{} {}: {:?}", case.op, shown(case), outputs[0].1),
        Err(error) => error.to_string(),
    }
}

/// The inputs of a case as text: types and, of integers, elements.
fn shown(case: &Case) -> String {
    let elements = |tensor: &Tensor| match tensor.dtype {
        DType::I64 => tensor.bytes.as_chunks().0.iter().map(|&one| i64::from_le_bytes(one).to_string()).collect(),
        DType::I32 => tensor.bytes.as_chunks().0.iter().map(|&one| i32::from_le_bytes(one).to_string()).collect(),
        _ => vec![],
    };
    let one = |tensor: &Tensor| format!("{}{:?}({})", tensor.dtype, tensor.shape, elements(tensor).join(" "));
    case.inputs.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_out_of_range_is_said() {
    let mut text = String::new();
    for case in cases() {
        text += &format!("{} {}\n", case.op, shown(&case));
        for (constant, when) in [(false, "given"), (true, "constant")] {
            let [fast, reference] = ["fast", "reference"].map(|kernels| said(&case, constant, kernels));
            assert_eq!(fast, reference, "{} {when}", case.op);
            text += &format!("  {when}: {fast}\n");
        }
    }
    golden("out_of_range.txt", &text);
}
