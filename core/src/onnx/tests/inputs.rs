//! Types of inputs, and what the user says about them.

use super::*;

fn with(inputs: &[ValueInfoProto]) -> ModelProto {
    model(13, inputs, &[], &[node("Relu", &["x"], &["y"], &[])])
}

fn import(model: &ModelProto, options: &ImportOptions) -> Result<Model> {
    import_bytes(&model.encode_to_vec(), options)
}

/// The inputs' types as text, with these options.
fn types(model: &ModelProto, options: &ImportOptions) -> std::result::Result<Vec<String>, String> {
    let model = import(model, options).map_err(|error| {
        assert!(matches!(error.code, Code::ShapeOption | Code::ShapeUnknown), "{error}");
        format!("{}. {}", error.message, error.hint.unwrap_or_default())
    })?;
    let graph = &model.entries[0];
    let ty = |&id: &ValueId| graph.value(id).ty.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(graph.inputs.iter().map(ty).collect())
}

fn shapes(shapes: &[(&str, &[usize])]) -> ImportOptions {
    let shapes = shapes.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect();
    ImportOptions { shapes, ..Default::default() }
}

fn dims(dims: &[(&str, usize)]) -> ImportOptions {
    ImportOptions { dims: dims.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(), ..Default::default() }
}

#[test]
fn dimensions_keep_or_get_a_name() {
    let model =
        with(&[named_input("x", &["batch", "", "seq len"]), named_input("x.1", &["batch", ""]), input("x.2", &[3])]);
    let plain = types(&model, &ImportOptions::default());
    assert_eq!(plain, Ok(vec!["f32[batch,x_d1,'seq len']".into(), "f32[batch,x_1_d1]".into(), "f32[3]".into()]));
    // Exporters write -1 for a size that is not known.
    let unknown = types(&with(&[input("x", &[-1, 3, -1])]), &dims(&[("x_d2", 4)]));
    assert_eq!(unknown, Ok(vec!["f32[x_d0,3,4]".into()]));
    let unknown = types(&with(&[named_input("x", &["?", "n", "?"])]), &ImportOptions::default());
    assert_eq!(unknown, Ok(vec!["f32[x_d0,n,x_d2]".into()]));
    let bound = types(&model, &dims(&[("batch", 4), ("seq len", 5), ("x_1_d1", 6)]));
    assert_eq!(bound, Ok(vec!["f32[4,x_d1,5]".into(), "f32[4,6]".into(), "f32[3]".into()]));
    // A shape binds the dimensions that it meets, for every input.
    let shaped = types(&model, &shapes(&[("x", &[4, 2, 5])]));
    assert_eq!(shaped, Ok(vec!["f32[4,2,5]".into(), "f32[4,x_1_d1]".into(), "f32[3]".into()]));
}

#[test]
fn options_must_fit_the_model() {
    let model = with(&[named_input("x", &["b", "s"]), input("z", &[3])]);
    let cases: [(ImportOptions, &str); 7] = [
        (shapes(&[("q", &[1])]), "the model has no input 'q'. Its inputs are: x, z"),
        (
            shapes(&[("x", &[1])]),
            "input 'x' has 2 dimensions in the model, and 1 in the given shape. `byoc inspect MODEL` shows the shapes of its inputs",
        ),
        (
            shapes(&[("z", &[4])]),
            "input 'z': dimension 0 is 3 in the model, 4 is given. A size that the model fixes stays as it is; \
             export the model with a name in its place",
        ),
        (dims(&[("q", 1)]), "the model has no dimension 'q'. Its dimensions are: b, s"),
        (dims(&[("b", 1), ("b", 2)]), "dimension 'b' is set to 1 and to 2. "),
        (shapes(&[("x", &[1, 2]), ("x", &[1, 3])]), "dimension 's' is set to 2 and to 3. "),
        (
            ImportOptions { dims: vec![("b".into(), 1)], ..shapes(&[("x", &[2, 2])]) },
            "dimension 'b' is set to 1 and to 2. ",
        ),
    ];
    for (options, message) in cases {
        assert_eq!(types(&model, &options), Err(message.into()));
    }
    let fixed = types(&with(&[input("x", &[3])]), &dims(&[("b", 1)]));
    assert_eq!(fixed, Err("the model has no dimension 'b'. All dimensions of its inputs are fixed".into()));
}

#[test]
fn an_input_without_shape_needs_one() {
    let model = with(&[typed("x", DataType::Int64, None)]);
    let error = types(&model, &ImportOptions::default());
    assert_eq!(error, Err("input 'x' has no shape in the model. Give it one, as in: --shape x:1x3x224x224".into()));
    assert_eq!(types(&model, &shapes(&[("x", &[2, 3])])), Ok(vec!["i64[2,3]".into()]));
}

#[test]
fn inputs_may_be_sequences_and_optionals() {
    let tensor = |sizes: &[i64]| Some(Box::new(input("", sizes).r#type.expect("a tensor has a type")));
    let sequence = |of| type_proto::Value::SequenceType(Box::new(type_proto::Sequence { elem_type: of }));
    let optional = |of| type_proto::Value::OptionalType(Box::new(type_proto::Optional { elem_type: of }));
    let ty = |value| TypeProto { value: Some(value), ..Default::default() };
    let of = |value| with(&[ValueInfoProto { name: Some("x".into()), r#type: Some(ty(value)), ..Default::default() }]);
    let list = |model: &ModelProto, options: &ImportOptions| {
        let model = import(model, options).expect("a good model");
        let graph = &model.entries[0];
        graph.value(graph.inputs[0]).list.as_ref().expect("a list").to_string()
    };
    let none = ImportOptions::default();
    assert_eq!(list(&of(sequence(tensor(&[3, 4]))), &none), "seq(f32[3,4])");
    // So the onnx package writes a shape that is not known.
    assert_eq!(list(&of(sequence(tensor(&[]))), &none), "seq(f32)");
    assert_eq!(list(&of(sequence(tensor(&[]))), &shapes(&[("x", &[3, 4])])), "seq(f32[3,4])");
    assert_eq!(list(&of(optional(tensor(&[2]))), &none), "optional(f32[2])");
    let both = optional(Some(Box::new(ty(sequence(tensor(&[2]))))));
    assert_eq!(list(&of(both), &none), "optional(seq(f32[2]))");
    let error = import(&of(sequence(tensor(&[3]))), &shapes(&[("x", &[4])])).expect_err("another size");
    assert_eq!(error.message, "input 'x' is seq(f32[3]) in the model, [4] is given");
    let nested = sequence(Some(Box::new(ty(sequence(tensor(&[2]))))));
    let cause = "input 'x' is a sequence of seq(f32[2]), which is not supported";
    assert_fails(&of(nested), Code::BadTensor, cause);
}

#[test]
fn inputs_of_other_kinds_are_refused() {
    let of = |value| {
        let ty = TypeProto { value, ..Default::default() };
        with(&[ValueInfoProto { name: Some("x".into()), r#type: Some(ty), ..Default::default() }])
    };
    let cases = [
        (type_proto::Value::MapType(Default::default()), "input 'x' is a map, which is not supported"),
        (
            type_proto::Value::SparseTensorType(Default::default()),
            "input 'x' is a sparse tensor, which is not supported",
        ),
        (
            type_proto::Value::TensorType(type_proto::Tensor { elem_type: Some(0), shape: None }),
            "input 'x': element type UNDEFINED is not supported",
        ),
    ];
    for (value, message) in cases {
        assert_fails(&of(Some(value)), Code::BadTensor, message);
    }
    assert_fails(&of(None), Code::BadGraph, "input 'x' has no type in the model");
    let cause = "input 'x' has no type for its elements";
    assert_fails(&of(Some(type_proto::Value::SequenceType(Default::default()))), Code::BadGraph, cause);
    assert_fails(&of(Some(type_proto::Value::OptionalType(Default::default()))), Code::BadGraph, cause);
}

#[test]
fn impossible_shapes_are_errors() {
    assert_fails(&with(&[input("x", &[2, -2])]), Code::BadGraph, "input 'x': dimension 1 is -2");
    let huge = [i64::MAX, i64::MAX];
    assert_fails(&with(&[input("x", &huge)]), Code::BadGraph, "input 'x': its shape is too large");
    assert_fails(&with(&[input("x", &[1 << 24, 1 << 24])]), Code::BadGraph, "input 'x': its shape is too large");
}
