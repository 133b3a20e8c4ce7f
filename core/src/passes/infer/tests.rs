//! Tests of inference over whole graphs.

use std::collections::BTreeMap;

use byoc_plugin_api::Attribute;
use bytes::Bytes;

use super::*;
use crate::ops::NoOp;

/// Builds graphs by name.
#[derive(Default)]
struct Builder {
    model: Model,
    graph: Graph,
    names: HashMap<String, ValueId>,
}

impl Builder {
    fn input(mut self, name: &str, dtype: DType, shape: &[&str]) -> Self {
        let shape =
            shape.iter().map(|size| size.parse().map_or_else(|_| Dim::Symbolic((*size).into()), Dim::Fixed)).collect();
        let id = self.graph.add_value(name, Some(TensorType { dtype, shape }));
        self.graph.inputs.push(id);
        self.names.insert(name.into(), id);
        self
    }

    fn constant(mut self, name: &str, shape: &[usize], values: &[i64]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let constant = self.model.constants.insert(name, DType::I64, shape, Bytes::from(bytes));
        let id = self.graph.add_constant(name, DType::I64, constant);
        self.names.insert(name.into(), id);
        self
    }

    fn node(mut self, op: &str, attributes: &[(&str, Attribute)], inputs: &str, output: &str) -> Self {
        let inputs = inputs.split_whitespace().map(|name| Some(self.names[name])).collect();
        let id = self.graph.add_value(output, None);
        self.names.insert(output.into(), id);
        self.graph.nodes.push(Node {
            name: format!("{op}_{}", self.graph.nodes.len()),
            op: op.into(),
            domain: String::new(),
            inputs,
            outputs: vec![Some(id)],
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect::<BTreeMap<_, _>>(),
        });
        self
    }

    /// The type of `name` after inference.
    fn ty(&self, name: &str) -> Result<String> {
        let mut graph = self.graph.clone();
        infer_graph(&mut graph, &self.model.constants)?;
        let first = graph.clone();
        infer_graph(&mut graph, &self.model.constants)?;
        assert_eq!(graph, first, "a second run changes nothing");
        Ok(graph.value(self.names[name]).ty.as_ref().map(TensorType::to_string).unwrap_or_default())
    }
}

fn axis(value: i64) -> [(&'static str, Attribute); 1] {
    [("axis", Attribute::Int(value))]
}

/// What PyTorch's older exporter writes for `x.view(x.size(0), -1, 8)`.
#[test]
fn shape_chains_resolve_with_a_symbolic_batch() {
    let graph = Builder::default()
        .input("x", DType::F32, &["batch size", "12", "64"])
        .constant("zero", &[], &[0])
        .constant("axes", &[1], &[0])
        .constant("rest", &[2], &[-1, 8])
        .node("Shape", &[], "x", "shape")
        .node("Gather", &axis(0), "shape zero", "batch")
        .node("Unsqueeze", &[], "batch axes", "batch1")
        .node("Concat", &axis(0), "batch1 rest", "new")
        .node("Reshape", &[], "x new", "y");
    assert_eq!(graph.ty("y"), Ok("f32['batch size',96,8]".into()));
}

/// What it writes for `expand`: a -1 stands for "keep", by way of Where and Equal.
#[test]
fn expand_through_where_and_equal() {
    let one = Attribute::Tensor { dtype: DType::I64, shape: vec![1], hex: "0100000000000000".into() };
    let graph = Builder::default()
        .input("x", DType::F32, &["batch", "1", "4"])
        .input("mask", DType::F32, &["batch", "seq"])
        .constant("index", &[], &[1])
        .constant("axes", &[1], &[0])
        .constant("keep", &[1], &[-1])
        .constant("two", &[1], &[3])
        .constant("minus", &[], &[-1])
        .node("Shape", &[], "mask", "shape")
        .node("Gather", &axis(0), "shape index", "seq")
        .node("Unsqueeze", &[], "seq axes", "seq1")
        .node("Concat", &axis(0), "keep seq1 keep", "new")
        .node("Shape", &[], "new", "count")
        .node("ConstantOfShape", &[("value", one)], "two", "ones")
        .node("Mul", &[], "ones minus", "minuses")
        .node("Equal", &[], "new minuses", "same")
        .node("Where", &[], "same ones new", "target")
        .node("Expand", &[], "x target", "y");
    assert_eq!(graph.ty("y"), Ok("f32[batch,seq,4]".into()));
}

/// What it writes for `F.pad`: two-dimensional, reversed and transposed on the way.
#[test]
fn pads_through_reshape_slice_and_transpose() {
    let graph = Builder::default()
        .input("x", DType::F32, &["1", "3", "h", "8"])
        .constant("torch", &[4], &[1, 2, 3, 4])
        .constant("four", &[1], &[4])
        .constant("pairs", &[2], &[-1, 2])
        .constant("last", &[1], &[-1])
        .constant("first", &[1], &[i64::MIN + 1])
        .constant("axis", &[1], &[0])
        .constant("flat", &[1], &[-1])
        .node(
            "ConstantOfShape",
            &[("value", Attribute::Tensor { dtype: DType::I64, shape: vec![1], hex: "00".repeat(8) })],
            "four",
            "zeros",
        )
        .node("Concat", &axis(0), "torch zeros", "eight")
        .node("Reshape", &[], "eight pairs", "matrix")
        .node("Slice", &[], "matrix last first axis last", "reversed")
        .node("Transpose", &[("perm", Attribute::Ints(vec![1, 0]))], "reversed", "turned")
        .node("Reshape", &[], "turned flat", "pads")
        .node("Cast", &[("to", Attribute::Int(7))], "pads", "cast")
        .node("Pad", &[], "x cast", "y");
    assert_eq!(graph.ty("y"), Ok("f32[1,3,h + 7,11]".into()));
}

#[test]
fn errors_name_node_and_operator() {
    let graph = Builder::default().input("x", DType::F32, &["2"]).input("s", DType::I64, &["1"]).node(
        "Reshape",
        &[],
        "x s",
        "y",
    );
    let error = graph.ty("y").expect_err("an unknown shape");
    assert_eq!(
        error.to_string(),
        "[B203] node 'Reshape_0' (Reshape): the shape of the output depends on input 1 (shape), which is known only at \
         run time. Give the input as an initializer, or fix the shape with --shape or --dim"
    );
    let graph = Builder::default().input("x", DType::F32, &["2"]).node("Conw", &[], "x", "y");
    assert_eq!(graph.ty("y").expect_err("unknown").message, "node 'Conw_0' (Conw): the operator Conw is not known");
    let mut graph = Builder::default().input("x", DType::F32, &["2"]).node("Relu", &[], "x", "y");
    graph.graph.values[0].ty = None;
    assert_eq!(graph.ty("y").expect_err("no type").message, "the input 'x' has no type and shape");
    let huge = usize::MAX.to_string();
    let graph = Builder::default().input("x", DType::F32, &[&huge]).node("Relu", &[], "x", "y");
    assert!(graph.ty("y").is_err());
    let large = (1u64 << 40).to_string();
    let graph = Builder::default().input("x", DType::F32, &[&large, "1"]).input("z", DType::F32, &[&large]).node(
        "Add",
        &[],
        "x z",
        "y",
    );
    assert_eq!(graph.ty("y").expect_err("too large").code, Code::ShapeMismatch);
}

#[test]
fn no_ops_and_views_are_told() {
    let matrix = TensorType { dtype: DType::F32, shape: vec![Dim::Fixed(2)] };
    let graph = Builder::default().input("x", DType::F32, &["2"]).node("Cast", &[], "x", "y");
    let cast = ops::find("", "Cast").expect("Cast");
    let other = TensorType { dtype: DType::F16, ..matrix.clone() };
    assert!(cast.is_no_op(&graph.graph.nodes[0], &matrix, &matrix));
    assert!(!cast.is_no_op(&graph.graph.nodes[0], &matrix, &other));
    for name in ["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"] {
        let def = ops::find("", name).expect(name);
        assert!(def.no_op == NoOp::Always && def.view.is_some(), "{name}");
    }
    let mut table = ConstantTable::default();
    let ints = table.insert("i", DType::I32, &[2], Bytes::from_static(&[1, 0, 0, 0, 255, 255, 255, 255]));
    assert_eq!(constant_ints(&table, &ints), Some(vec![1, -1]));
}
