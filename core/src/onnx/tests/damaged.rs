//! Files that are not models, or damaged ones. Nothing of it may panic.

use super::super::decode;
use super::super::external::ExternalFiles;
use super::super::graph::build;
use super::super::inputs::ShapeOptions;
use super::super::proto::{FunctionProto, StringStringEntryProto};
use super::*;

/// A function of the model: an old Softmax.
fn function() -> FunctionProto {
    FunctionProto {
        name: Some("F".into()),
        domain: Some("f".into()),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![NodeProto { name: None, ..node("Softmax", &["a"], &["b"], &[int("axis", 0)]) }],
        opset_import: vec![OperatorSetIdProto { domain: None, version: Some(9) }],
        ..Default::default()
    }
}

/// A model with a bit of everything.
fn specimen() -> Vec<u8> {
    let value = AttributeProto { t: Some(floats("", &[2])), ..attribute("value", AttributeType::Tensor) };
    let nodes = [
        NodeProto { name: Some("c".into()), ..node("Constant", &[], &["k"], &[value]) },
        node("Conv", &["x", "w"], &["a"], &[ints("pads", &[1, 1, 1, 1]), text("auto_pad", "NOTSET")]),
        node("Clip", &["a"], &["b"], &[float("min", 0.0)]),
        NodeProto { domain: Some("f".into()), ..node("F", &["b"], &["d"], &[]) },
        node("Upsample", &["d", "s"], &["e"], &[]),
        node("Slice", &["e"], &["g"], &[ints("starts", &[0]), ints("ends", &[1])]),
        node("Unsqueeze", &["g"], &["y"], &[ints("axes", &[0])]),
    ];
    let halves =
        TensorProto { raw_data: None, int32_data: vec![1; 4], ..raw_tensor("h", DataType::Float16, &[4], vec![]) };
    let location = StringStringEntryProto { key: Some("location".into()), value: Some("o.bin".into()) };
    let external = TensorProto {
        raw_data: None,
        data_location: Some(1),
        external_data: vec![location],
        ..raw_tensor("o", DataType::Uint8, &[8], vec![])
    };
    let initializers = [floats("w", &[1, 1, 3, 3]), floats("s", &[4]), halves, external];
    let mut model = model(9, &[named_input("x", &["n", "1", "h", ""])], &initializers, &nodes);
    let graph = model.graph.as_mut().expect("graph");
    for name in ["h", "o", "k"] {
        graph.output.push(ValueInfoProto { name: Some(name.into()), ..Default::default() });
    }
    model.functions.push(function());
    model.opset_import.push(OperatorSetIdProto { domain: Some("f".into()), version: Some(1) });
    model.encode_to_vec()
}

/// Imports each of these files, which are beside `o.bin`, and returns how many are models; an error must have a
/// message.
fn survive(files: impl Iterator<Item = Vec<u8>>) -> usize {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join("o.bin"), [7; 8]).expect("write");
    let path = dir.path().join("m.onnx");
    let options = ImportOptions { dims: vec![("n".into(), 2)], ..Default::default() };
    let good = |bytes: Vec<u8>| match import_decoded("main", &path, decode(&path, bytes.into()), &options) {
        Ok(_) => true,
        Err(error) => {
            assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{error}");
            false
        }
    };
    files.map(good).filter(|&good| good).count()
}

/// What `import` does with one file, without the file.
fn import_decoded(entry: &str, path: &Path, proto: Result<ModelProto>, options: &ImportOptions) -> Result<Model> {
    let mut shapes = ShapeOptions::new(options);
    let mut model = Model::default();
    let mut files = ExternalFiles::beside(path, false);
    model.entries.extend(build(
        (0, entry),
        proto?,
        &CustomOperators::default(),
        &mut shapes,
        &mut files,
        &mut model.constants,
    )?);
    shapes.check_all_used()?;
    Ok(model)
}

#[test]
fn mutated_bytes_never_panic() {
    let specimen = specimen();
    assert_eq!(survive(std::iter::once(specimen.clone())), 1);
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let mutated = (0..6000).map(|_| {
        let mut bytes = specimen.clone();
        for _ in 0..1 + random.usize(..4) {
            let at = random.usize(..bytes.len());
            match random.usize(..4) {
                0 => bytes[at] = random.u8(..),
                1 => bytes[at] ^= 1 << random.usize(..8),
                2 => bytes.insert(at, random.u8(..)),
                _ => _ = bytes.remove(at),
            }
        }
        bytes
    });
    let good = survive(mutated);
    assert!(good > 0 && good < 6000, "{good}");
}

#[test]
fn every_prefix_is_an_error_or_a_model() {
    let specimen = specimen();
    survive((0..specimen.len()).map(|length| specimen[..length].to_vec()));
}

#[test]
fn numbers_at_their_limits_never_panic() {
    let limits = [i64::MIN, -1, 0, 1, 1 << 31, 1 << 62, i64::MAX];
    let ops =
        ["Softmax", "Flatten", "Squeeze", "Unsqueeze", "ReduceSum", "Slice", "Pad", "Split", "Concat", "Gather", "Add"];
    let names = ["axis", "axes", "starts", "ends", "pads", "split", "broadcast"];
    let models = ops.iter().flat_map(|op| {
        limits.iter().flat_map(move |&limit| {
            [1, 6, 9, 11, 13].into_iter().map(move |opset| {
                let mut attributes: Vec<_> = names[1..6].iter().map(|name| ints(name, &[limit, limit])).collect();
                attributes.extend([int("axis", limit), int("broadcast", 1)]);
                let node = node(op, &["x", "x"], &["y"], &attributes);
                model(opset, &[input("x", &[2, 3])], &[], &[node]).encode_to_vec()
            })
        })
    });
    survive(models);
}

#[test]
fn what_is_no_model_is_said() {
    let remedy = "Is the file complete, and was it exported as ONNX?";
    let cases: [(&[u8], &str, &str); 9] = [
        (b"", "it is empty", remedy),
        (b"a text", "it is a text file", remedy),
        (b"\x08\x08", "it has no graph", remedy),
        (
            b"\x0a\0",
            "failed to decode Protobuf message: ModelProto.ir_version: invalid wire type: LengthDelimited (expected Varint)",
            remedy,
        ),
        (b"\x3a\x7f\x0a", "failed to decode Protobuf message: ModelProto.graph: buffer underflow", remedy),
        (
            b"\x08\x08\x3a\x7f\x0a",
            "it ends after 5 bytes, within its graph",
            "Is the file complete? Copy or export it again",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "it is a pointer of Git LFS",
            "Fetch the file itself with 'git lfs pull'",
        ),
        (b"PK\x03\x04", "it is a zip archive", "Unpack it; a PyTorch checkpoint is exported with torch.onnx.export"),
        (b"<!DOCTYPE html>", "it is a text in HTML or XML", "Download the raw file"),
    ];
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("x.onnx");
    for (bytes, cause, hint) in cases {
        std::fs::write(&path, bytes).expect("write");
        let error = import(&[("main".into(), &path)], &ImportOptions::default(), &CustomOperators::default())
            .expect_err("no model");
        assert_eq!(error.message, format!("'{}' is not an ONNX model: {cause}", path.display()));
        assert_eq!((error.code, error.hint.unwrap_or_default().as_str()), (Code::NotOnnx, hint));
    }
}

#[test]
fn deep_nesting_is_an_error() {
    // A type that is a sequence of a sequence of ... : field 1 of field 4 of itself.
    let mut ty = vec![];
    for _ in 0..3000 {
        ty = [field(1, &ty)].concat();
        ty = field(4, &ty);
    }
    let input = [field(1, b"x"), field(2, &ty)].concat();
    let error = import_bytes(&field(7, &field(11, &input)), &ImportOptions::default()).expect_err("too deep");
    assert_eq!(error.code, Code::NotOnnx);
    assert!(error.message.ends_with("is not an ONNX model: its graphs or its types are nested too deeply"), "{error}");
}

/// A length-delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        bytes.push(length as u8 | 128);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}
