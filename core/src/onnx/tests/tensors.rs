//! Tensors: valid and invalid constants.

use byoc_plugin_api::{DType, Dim};

use super::*;

/// A model that hands the tensor `t` on.
fn with(tensor: TensorProto) -> ModelProto {
    model(13, &[], &[tensor], &[node("Identity", &["t"], &["y"], &[])])
}

/// Element type, shape and bytes of the tensor `t`.
fn constant(tensor: TensorProto) -> (DType, Vec<Dim>, Vec<u8>) {
    let model = import_model(&with(tensor)).expect("a good tensor");
    let value = &model.entries[0].values[0];
    let ty = value.ty.clone().expect("a type");
    let bytes = model.constants.materialize(value.constant.as_ref().expect("a constant"));
    (ty.dtype, ty.shape, bytes)
}

/// Checks the bytes of a tensor of two elements.
#[track_caller]
fn check(dtype: DataType, numbers: TensorProto, bytes: &[u8]) {
    let tensor = TensorProto { name: Some("t".into()), dims: vec![2], data_type: Some(dtype as i32), ..numbers };
    let (_, shape, found) = constant(tensor);
    assert_eq!((shape, found.as_slice()), (vec![Dim::Fixed(2)], bytes));
}

#[test]
fn numbers_become_bytes() {
    let of = TensorProto::default;
    check(
        DataType::Float,
        TensorProto { float_data: vec![1.0, -2.0], ..of() },
        &[1f32, -2.0].map(f32::to_le_bytes).concat(),
    );
    check(
        DataType::Double,
        TensorProto { double_data: vec![1.0, -2.0], ..of() },
        &[1f64, -2.0].map(f64::to_le_bytes).concat(),
    );
    check(DataType::Int64, TensorProto { int64_data: vec![1, -2], ..of() }, &[1i64, -2].map(i64::to_le_bytes).concat());
    let wide = || TensorProto { uint64_data: vec![1, u64::MAX], ..of() };
    check(DataType::Uint64, wide(), &[1u64, u64::MAX].map(u64::to_le_bytes).concat());
    check(DataType::Uint32, wide(), &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let scalar = TensorProto { dims: vec![], float_data: vec![1.5], raw_data: None, ..floats("t", &[]) };
    assert_eq!(constant(scalar), (DType::F32, vec![], 1.5f32.to_le_bytes().to_vec()));
    assert_eq!(constant(floats("t", &[0, 3])).2, [0u8; 0]);
}

#[test]
fn narrow_numbers_become_bytes() {
    let of = |values: [i32; 2]| TensorProto { int32_data: values.to_vec(), ..Default::default() };
    check(DataType::Int32, of([1, -2]), &[1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff]);
    check(DataType::Int16, of([1, -2]), &[1, 0, 0xfe, 0xff]);
    check(DataType::Uint16, of([1, 0xfffe]), &[1, 0, 0xfe, 0xff]);
    check(DataType::Int8, of([1, -2]), &[1, 0xfe]);
    check(DataType::Uint8, of([1, 0xfe]), &[1, 0xfe]);
    check(DataType::Bool, of([0, 256]), &[0, 1]);
    check(DataType::Float16, of([0x3c00, 0xc000]), &[0, 0x3c, 0, 0xc0]);
    check(DataType::Bfloat16, of([0x3f80, 0xc000]), &[0x80, 0x3f, 0, 0xc0]);
}

/// In `int32_data` there is a byte in each number; what pads the last byte is no part of the tensor.
#[test]
fn elements_that_share_bytes_stay_packed() {
    let of = |dtype: DataType, dims: &[i64], values: &[i32]| TensorProto {
        name: Some("t".into()),
        dims: dims.to_vec(),
        data_type: Some(dtype as i32),
        int32_data: values.to_vec(),
        ..Default::default()
    };
    let cases = [
        (of(DataType::Int4, &[3], &[0x21, 0xf3]), DType::I4, vec![0x21, 0x03]),
        (of(DataType::Float8e4m3fn, &[2], &[0x38, 0xc0]), DType::F8E4M3FN, vec![0x38, 0xc0]),
        (raw_tensor("t", DataType::Uint2, &[5], vec![0xe4, 0xff]), DType::U2, vec![0xe4, 0x03]),
        (raw_tensor("t", DataType::Float4e2m1, &[2, 1], vec![0x2f]), DType::F4E2M1, vec![0x2f]),
    ];
    for (tensor, dtype, bytes) in cases {
        let (found, _, held) = constant(tensor);
        assert_eq!((found, held), (dtype, bytes));
    }
}

#[test]
fn damaged_tensors_are_named() {
    let broken = |dtype, dims: &[i64], raw: usize| with(raw_tensor("t", dtype, dims, vec![0; raw]));
    let cases = [
        (broken(DataType::Float, &[2, 3], 20), "f32[2,3] needs 24 bytes, but the file has 20"),
        (broken(DataType::Float, &[2, -3], 24), "dimension 1 is -3"),
        (broken(DataType::Float, &[i64::MAX, 4], 24), "its shape [9223372036854775807, 4] is too large"),
        (
            broken(DataType::Float, &[1 << 40, 1 << 40, 0], 0),
            "its shape [1099511627776, 1099511627776, 0] is too large",
        ),
        (
            broken(DataType::Float, &[1 << 58], 0),
            "f32[288230376151711744] needs 1152921504606846976 bytes, but the file has 0",
        ),
        (broken(DataType::Complex64, &[1], 4), "c64[1] needs 8 bytes, but the file has 4"),
        (broken(DataType::Int4, &[3, 3], 4), "i4[3,3] needs 5 bytes, but the file has 4"),
        (broken(DataType::Uint2, &[4], 2), "u2[4] needs 1 bytes, but the file has 2"),
        (
            broken(DataType::Float4e2m1, &[1 << 58], 0),
            "f4e2m1[288230376151711744] needs 144115188075855872 bytes, but the file has 0",
        ),
        (
            with(TensorProto {
                int32_data: vec![1, 2, 3],
                data_type: Some(DataType::Int4 as i32),
                dims: vec![3],
                ..TensorProto { name: Some("t".into()), ..Default::default() }
            }),
            "i4[3] needs 2 bytes, but the file has 3",
        ),
        (broken(DataType::String, &[2], 0), "string[2] needs 2 texts, but the file has 0"),
        (
            with(TensorProto {
                string_data: vec![vec![b'a', 0xff].into()],
                data_type: Some(DataType::String as i32),
                dims: vec![1],
                ..TensorProto { name: Some("t".into()), ..Default::default() }
            }),
            "its text 0 is not UTF-8",
        ),
        (broken(DataType::Undefined, &[1], 1), "element type UNDEFINED is not supported"),
        (with(TensorProto { data_type: Some(99), ..floats("t", &[1]) }), "element type 99 is not supported"),
        (
            with(TensorProto { segment: Some(Default::default()), ..floats("t", &[1]) }),
            "it is stored in segments, which is not supported",
        ),
    ];
    for (model, cause) in cases {
        assert_fails(&model, Code::BadTensor, &format!("tensor 't': {cause}"));
    }
    let hint = failure(&broken(DataType::Undefined, &[1], 0)).2;
    let taken =
        "f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz";
    assert_eq!(hint, format!("byoc takes {taken}, f8e8m0, f4e2m1, i4, u4, i2, u2, c64, c128, string"));
}

#[test]
fn constant_nodes_are_constants() {
    let values = [
        (AttributeProto { t: Some(floats("", &[2])), ..attribute("value", AttributeType::Tensor) }, "[0.0 1.0]"),
        (int("value_int", 7), "7"),
        (ints("value_ints", &[7, 8]), "[7 8]"),
        (float("value_float", 0.5), "0.5"),
        (AttributeProto { floats: vec![0.5, 1.0], ..attribute("value_floats", AttributeType::Floats) }, "[0.5 1.0]"),
    ];
    let with = |value: &[AttributeProto]| {
        let constant = NodeProto { name: Some("c".into()), ..node("Constant", &[], &["k"], value) };
        model(13, &[], &[], &[constant, node("Identity", &["k"], &["y"], &[])])
    };
    for (value, expected) in values {
        assert_eq!(nodes(&with(&[value])), [format!("y = Identity({expected})")]);
    }
    let of_texts = |value| nodes(&with(&[value])).into_iter().rev().take(1).collect::<Vec<_>>();
    assert_eq!(of_texts(text("value_string", "a")), ["y = Identity(k)"]);
    let sparse = attribute("sparse_value", AttributeType::SparseTensor);
    let cause = "node 'c': attribute 'sparse_value' is a sparse tensor, which is not supported";
    assert_fails(&with(&[sparse]), Code::BadNode, cause);
    assert_fails(&with(&[]), Code::BadNode, "node 'c': Constant has exactly one attribute");
    let odd = "node 'c': Constant cannot have attribute 'value' of this kind";
    assert_fails(&with(&[int("value", 1)]), Code::BadNode, odd);
}

#[test]
fn weights_are_slices_of_the_file() {
    let weight = floats("w", &[64, 64]);
    let bytes = model(13, &[], &[weight], &[node("Identity", &["w"], &["y"], &[])]).encode_to_vec();
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("m.onnx");
    std::fs::write(&path, bytes).expect("write");
    for no_mmap in [false, true] {
        let options = ImportOptions { no_mmap, ..Default::default() };
        let model = import(&[("a".into(), &path), ("b".into(), &path)], &options, &CustomOperators::default())
            .expect("a good model");
        let bases: Vec<_> = model.constants.iter().map(|(_, base)| base).collect();
        // Both entries have the weight, which is one.
        assert_eq!((bases.len(), bases[0].bytes.len()), (1, 64 * 64 * 4));
        assert_eq!(model.entries.iter().map(|graph| graph.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn unused_initializers_are_dropped() {
    let unused = raw_tensor("bad", DataType::String, &[1], vec![]);
    let model = model(13, &[], &[unused, floats("t", &[2])], &[node("Identity", &["t"], &["y"], &[])]);
    assert_eq!(import_model(&model).expect("a good model").constants.iter().count(), 1);
}

#[test]
fn sparse_initializers_are_refused() {
    let mut model = with(floats("t", &[1]));
    let sparse = super::super::proto::SparseTensorProto { values: Some(floats("s", &[1])), ..Default::default() };
    model.graph.as_mut().expect("graph").sparse_initializer.push(sparse);
    assert_fails(&model, Code::BadTensor, "tensor 's' is sparse, which is not supported");
}
