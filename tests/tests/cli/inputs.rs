//! Inputs as people have them: single arrays, tensors of ONNX, folders of test data, images, standard input; and labels.

use std::io::Write;
use std::process::Stdio;

use byoc_core::onnx::proto::TensorProto;
use byoc_core::onnx::write;
use byoc_plugin_api::{DType, Dim};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small, tensor};
use byoc_tests::program::{Outcome, byoc};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use prost::Message;
use serde_json::{Value, json};

use super::pictures;

/// `y = a - b`.
fn difference() -> Model {
    let model = Model::default().input("a", Type::Float, &[2]).input("b", Type::Float, &[2]);
    model.node("Sub", &["a", "b"], &["y"]).output("y", Type::Float, &[2])
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::f32(&[values.len() as i64], values)
}

/// A file with a tensor of ONNX.
fn write_pb(folder: &Folder, file: &str, name: &str, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    folder.write(file, tensor(name, Type::Float, &[values.len() as i64], bytes).encode_to_vec());
}

/// The first elements of each output.
#[track_caller]
fn outputs(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let report: Value = serde_json::from_str(&folder.run(&[arguments, &["--json"]].concat())).expect("JSON");
    report["outputs"].as_array().expect("outputs").iter().map(|output| output["first"].clone()).collect()
}

#[test]
fn single_arrays_are_for_the_only_input_or_a_named_one() {
    let folder = Folder::empty();
    folder.write("difference.onnx", difference().finish());
    npz::write_one(&folder.path().join("a.npy"), &floats(&[3.0, 4.0]));
    npz::write(&folder.path().join("one.npz"), &[("whatever", &floats(&[1.0, 1.0]))]);
    write_pb(&folder, "a.pb", "a", &[3.0, 4.0]);
    write_pb(&folder, "b.pb", "", &[1.0, 1.0]);
    let run = |inputs: &[&str]| {
        let flags: Vec<_> = inputs.iter().flat_map(|input| ["-i", input]).collect();
        outputs(&folder, &[&["run", "difference.onnx"], &flags[..]].concat())
    };
    let expected = [json!([2.0, 3.0])];
    assert_eq!(run(&["a=a.npy", "b=one.npz"]), expected);
    assert_eq!(run(&["a=@a.npy", "b=@b.pb"]), expected);
    // The name in the file is that of an input.
    assert_eq!(run(&["a.pb", "b=b.pb"]), expected);
    let fails = |input: &str, what: &str| {
        let message = format!(
            "error: [B701] '{input}' is {what}, and does not say for which input\n  hint: Name it, as in --input a={input}. \
             The inputs are: a: f32[2], b: f32[2]"
        );
        folder.byoc(&["run", "difference.onnx", "-i", input]).fails(2, &message);
    };
    fails("a.npy", "an array");
    fails("b.pb", "a tensor");
    let twice = "error: [B701] input 'a' is given twice\n  hint: Leave one of them out";
    folder.byoc(&["run", "difference.onnx", "-i", "a.pb", "-i", "a=a.npy"]).fails(2, twice);
    folder.write("small.onnx", small().finish());
    npz::write_one(&folder.path().join("x.npy"), &Tensor::f32(&[2, 3], &[1.0; 6]));
    folder.run(&["run", "small.onnx", "-i", "x.npy"]);
    let message = "error: [B701] input 'x' has shape [2], the entry takes [2,3]";
    folder.byoc(&["run", "small.onnx", "-i", "a.npy"]).fails(2, message);
}

/// Every element type of ONNX that is carried, raw and as numbers.
#[test]
fn tensors_of_every_type_are_read() {
    let folder = Folder::empty();
    let cases: [(Type, TensorProto); 8] = [
        (Type::Int8, TensorProto { int32_data: vec![-1, 2], ..Default::default() }),
        (Type::Uint16, TensorProto { int32_data: vec![1, 65535], ..Default::default() }),
        (Type::Int64, TensorProto { int64_data: vec![-1, 2], ..Default::default() }),
        (Type::Uint64, TensorProto { uint64_data: vec![1, 2], ..Default::default() }),
        (Type::Double, TensorProto { double_data: vec![0.5, 2.0], ..Default::default() }),
        (Type::Float16, TensorProto { int32_data: vec![0x3c00, 0x4000], ..Default::default() }),
        (Type::Bool, TensorProto { int32_data: vec![1, 0], ..Default::default() }),
        (Type::String, TensorProto { string_data: vec!["a".into(), "é".into()], ..Default::default() }),
    ];
    let expected = [
        json!([-1, 2]),
        json!([1, 65535]),
        json!([-1, 2]),
        json!([1, 2]),
        json!([0.5, 2.0]),
        json!([1.0, 2.0]),
        json!([true, false]),
        json!(["a", "é"]),
    ];
    for ((ty, data), expected) in cases.into_iter().zip(expected) {
        let model = Model::default().opset(20).input("x", ty, &[2]).node("Identity", &["x"], &["y"]);
        folder.write("model.onnx", model.output("y", ty, &[2]).finish());
        let proto = TensorProto { dims: vec![2], data_type: Some(ty as i32), ..data };
        folder.write("x.pb", proto.encode_to_vec());
        assert_eq!(outputs(&folder, &["run", "model.onnx", "-i", "x.pb"]), [expected], "{ty:?}");
    }
    write_pb(&folder, "x.pb", "x", &[1.0, 2.0]);
    let message = "error: [B701] input 'x' is f32 in 'x.pb', the entry takes string\n  hint: Write it with that type";
    folder.byoc(&["run", "model.onnx", "-i", "x.pb"]).fails(2, message);
}

#[test]
fn a_folder_of_test_data_gives_inputs_and_outputs() {
    let folder = Folder::compiled(difference());
    std::fs::create_dir(folder.path().join("test_data_set_0")).expect("the folder is ours");
    // Names in the files do not count, their numbers do.
    write_pb(&folder, "test_data_set_0/input_0.pb", "b", &[3.0, 4.0]);
    write_pb(&folder, "test_data_set_0/input_1.pb", "", &[1.0, 1.0]);
    write_pb(&folder, "test_data_set_0/output_0.pb", "z", &[2.0, 3.0]);
    for file in ["model.onnx", "model.byoc"] {
        assert_eq!(outputs(&folder, &["run", file, "-i", "test_data_set_0"]), [json!([2.0, 3.0])]);
        let shown = folder.run(&["verify", file, "-i", "test_data_set_0"]);
        assert!(shown.contains("y ") && shown.contains("ok"), "{shown}");
    }
    write_pb(&folder, "test_data_set_0/output_0.pb", "z", &[2.0, 4.0]);
    let outcome = folder.byoc(&["verify", "model.onnx", "-i", "test_data_set_0"]);
    assert!(outcome.stdout.contains("\ny: 1 of 2 differ, first [1]: 3, expected 4\n"), "{outcome:?}");
    write_pb(&folder, "test_data_set_0/input_3.pb", "", &[1.0]);
    let fails = |verb: &str, code: i32, message: &str| {
        folder.byoc(&[verb, "model.byoc", "-i", "test_data_set_0"]).fails(code, &format!("error: {message}"));
    };
    fails(
        "run",
        2,
        "[B701] the folder 'test_data_set_0' has input_3.pb and no input_2.pb\n  hint: Is the folder complete?",
    );
    write_pb(&folder, "test_data_set_0/input_2.pb", "", &[1.0]);
    fails(
        "run",
        2,
        "[B701] the folder 'test_data_set_0' has 4 inputs, and the entry has 2: a, b\n  hint: Is it the test data of this model?",
    );
    for name in ["input_2.pb", "input_3.pb", "output_0.pb"] {
        std::fs::remove_file(folder.path().join("test_data_set_0").join(name)).expect("it is ours");
    }
    fails(
        "verify",
        2,
        "[B701] the folder 'test_data_set_0' has no output_0.pb\n  hint: Name what to compare with: --reference OUT.npz or --model \
         MODEL.onnx",
    );
    folder.write("test_data_set_0/input_1.pb", "text");
    fails(
        "run",
        2,
        "[B701] 'test_data_set_0/input_1.pb' is not a file of values: it is a text file\n  hint: Inputs are .npz and .npy \
         files, tensors of ONNX (.pb), and PNG, JPEG and BMP images",
    );
    folder.byoc(&["verify", "model.byoc", "--fill", "ones"]).fails(
        2,
        "error: [B901] there is nothing to compare with\n  hint: Give --reference OUT.npz, --model MODEL.onnx, or a folder of \
         ONNX's test data as --input, with its output_0.pb",
    );
}

/// `y = x`, for images of 2 by 3 with that type.
fn of_images(ty: Type, channels: i64) -> Model {
    let shape = [1, channels, 2, 3];
    Model::default().input("x", ty, &shape).node("Identity", &["x"], &["y"]).output("y", ty, &shape)
}

#[test]
fn images_become_pixels_as_in_a_data_set() {
    let folder = Folder::empty();
    folder.write("floats.onnx", of_images(Type::Float, 3).finish());
    folder.write("bytes.onnx", of_images(Type::Uint8, 3).finish());
    // The pixel at (x, y) is (10 x, 20 y, 5).
    pictures::write_png(&folder.path().join("a.png"), 3, 2);
    assert_eq!(outputs(&folder, &["run", "bytes.onnx", "-i", "a.png"]), [json!([0, 10, 20, 0, 10])]);
    let flags = ["--input-mean", "0.2,0,0", "--input-std", "0.1"];
    folder.run(&[&["run", "floats.onnx", "-i", "x=a.png", "-o", "out.npz"], &flags[..]].concat());
    let found = npz::read(&folder.path().join("out.npz")).remove(0).1;
    let value = |index: usize| f32::from_le_bytes(found.bytes[4 * index..][..4].try_into().expect("4 bytes"));
    let pixel = |pixel: f32, mean: f32| (pixel / 255.0 - mean) / 0.1;
    assert_eq!(
        [value(0), value(1), value(9), value(17)],
        [pixel(0.0, 0.2), pixel(10.0, 0.2), pixel(20.0, 0.0), pixel(5.0, 0.0)]
    );
    let bytes = ["run", "bytes.onnx", "-i", "a.png", "--input-mean", "0.5"];
    let message =
        "error: [B901] input 'x' is u8 and takes pixels as they are\n  hint: Leave --input-mean and --input-std out";
    folder.byoc(&bytes).fails(2, message);
    let message = "error: [B901] --input-mean and --input-std are for images, and no input is one\n  hint: Leave them out: arrays \
        are taken as they are";
    folder.byoc(&["run", "floats.onnx", "--fill", "ones", "--input-std", "2"]).fails(2, message);
}

#[test]
fn images_of_another_size_are_stretched_with_a_warning() {
    let folder = Folder::empty();
    folder.write("floats.onnx", of_images(Type::Float, 1).finish());
    pictures::write_png(&folder.path().join("a.png"), 6, 4);
    let outcome = folder.byoc(&["run", "floats.onnx", "-i", "a.png"]);
    assert_eq!(
        outcome.stderr,
        "warning: [B701] 'a.png' is not 3 wide and 2 high: it is stretched with a bilinear filter\n  hint: Bring it to that size \
         as your training did\n"
    );
    outcome.success();
    folder.write("difference.onnx", difference().finish());
    folder.byoc(&["run", "difference.onnx", "-i", "a=a.png"]).fails(
        2,
        "error: [B701] 'a.png' is an image, which the model does not take: a: f32[2]\n  hint: Images are for one input \
         f32[1,3,H,W] or f32[1,1,H,W], or the same of u8; use .npy or .npz files for others",
    );
}

/// Whether pixels are one number or three is not up to the image.
#[test]
fn an_open_count_of_channels_is_asked_for() {
    let folder = Folder::empty();
    let shape = ["1", "c", "h", "w"].map(|size| size.parse().map_or_else(|_| Dim::Symbolic(size.into()), Dim::Fixed));
    let mut model = Model::default().node("Relu", &["x"], &["y"]);
    model.graph.input.push(write::value("x", Type::Float, Some(&shape)));
    folder.write("open.onnx", model.output("y", Type::Float, &[1, -1, -1, -1]).finish());
    pictures::write_png(&folder.path().join("a.png"), 6, 4);
    folder.byoc(&["run", "open.onnx", "-i", "a.png"]).fails(
        2,
        "error: [B701] 'a.png' is an image, and a size of input 'x' [1,c,h,w] is open\n  hint: Images are for an input 1x3xHxW \
         or 1x1xHxW, such as --shape x:1x3x4x6 makes it",
    );
    folder.run(&["run", "open.onnx", "-i", "a.png", "--shape", "x:1x3x4x6"]);
}

/// A batch that is left open is one image, and a size that is left open is that of the image.
#[test]
fn open_sizes_are_those_of_the_image() {
    let folder = Folder::empty();
    let shape = ["n", "1", "h", "w"].map(|size| size.parse().map_or_else(|_| Dim::Symbolic(size.into()), Dim::Fixed));
    let mut model = Model::default().node("Relu", &["x"], &["y"]);
    model.graph.input.push(write::value("x", Type::Float, Some(&shape)));
    model.graph.output.push(write::value("y", Type::Float, Some(&shape)));
    folder.write("open.onnx", model.finish());
    pictures::write_png(&folder.path().join("a.png"), 5, 4);
    let report: Value =
        serde_json::from_str(&folder.run(&["run", "open.onnx", "-i", "a.png", "--json"])).expect("JSON");
    assert_eq!(report["outputs"][0]["shape"], json!([1, 1, 4, 5]));
}

/// Runs the program with these bytes on its standard input.
fn piped(folder: &Folder, arguments: &[&str], bytes: &[u8]) -> Outcome {
    let mut command = byoc(arguments);
    command.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that ends before it reads closes the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(bytes);
    let output = child.wait_with_output().expect("the child is ours");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn standard_input_is_told_by_its_contents() {
    let folder = Folder::empty();
    folder.write("difference.onnx", difference().finish());
    npz::write(&folder.path().join("in.npz"), &[("a", &floats(&[3.0, 4.0])), ("b", &floats(&[1.0, 1.0]))]);
    npz::write_one(&folder.path().join("a.npy"), &floats(&[3.0, 4.0]));
    let bytes = |name: &str| places::read(&folder.path().join(name));
    let first = |outcome: Outcome| outcome.success().lines().nth(1).unwrap_or_default().to_owned();
    assert!(first(piped(&folder, &["run", "difference.onnx", "-i", "-"], &bytes("in.npz"))).ends_with("2 3"));
    let flags = ["run", "difference.onnx", "-i", "a=-", "--fill", "ones"];
    assert!(first(piped(&folder, &flags, &bytes("a.npy"))).ends_with("2 3"));
    piped(&folder, &["run", "difference.onnx", "-i", "-"], b"text").fails(
        2,
        "error: [B701] 'standard input' is not a file of values: it is a text file\n  hint: Inputs are .npz and .npy files, \
         tensors of ONNX (.pb), and PNG, JPEG and BMP images",
    );
    piped(&folder, &["run", "difference.onnx", "-i", "a=-", "-i", "b=-"], &bytes("a.npy"))
        .fails(2, "error: [B701] standard input is read for two inputs\n  hint: Give it once, as an .npz file");
}

#[test]
fn labels_stand_beside_the_largest() {
    let folder = Folder::compiled(small());
    folder.write("labels.txt", "n01440764 tench\nn01443537 goldfish\nshark\nray\n");
    let arguments = ["run", "model.byoc", "--fill", "ones", "--print-top", "2", "--labels"];
    let shown = folder.run(&[&arguments[..], &["labels.txt"]].concat());
    let table = "largest of y  value  label\n[0,3]             2  ray\n[1,3]             2  ray\n";
    assert!(shown.ends_with(table), "{shown}");
    let report = folder.run(&[&arguments[..], &["labels.txt", "--json"]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["outputs"][0]["top"][1]["label"], "ray");
    folder.write("labels.txt", "tench\ngoldfish\n");
    let message = "error: [B701] 'labels.txt' has 2 labels, and there are 4 in the last dimension of output 'y'\n  hint: Use the \
        labels of this model: one a line, the first for class 0";
    folder.byoc(&[&arguments[..], &["labels.txt", "-o", "out.npz"]].concat()).fails(2, message);
    assert!(!folder.path().join("out.npz").exists());
    let outcome = folder.byoc(&["run", "model.byoc", "--fill", "ones", "--labels", "labels.txt"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let wrong = Tensor::new(DType::I64, vec![1], vec![0; 8]);
    npz::write_one(&folder.path().join("labels.npy"), &wrong);
    folder.byoc(&[&arguments[..], &["labels.npy"]].concat()).fails(
        2,
        "error: [B701] 'labels.npy' is not a text file: it is an .npy file with an array\n  hint: Name a file of plain text",
    );
}

/// A picture goes into a kmodel as it is, and into the artifact as the model wants it: both compute the same.
#[test]
fn a_picture_is_the_input_of_a_file_for_an_accelerator() {
    let folder = Folder::empty();
    let weight: Vec<f32> = (0..4 * 3 * 9).map(|i| (i % 11) as f32 / 11.0 - 0.5).collect();
    let pads = [("pads", byoc_plugin_api::Attribute::Ints(vec![1; 4]))];
    let model = Model::default().input("x", Type::Float, &[1, 3, 8, 8]).weight("w", &[4, 3, 3, 3], &weight);
    let model = model.node_with("Conv", &["x", "w"], &["y"], &pads).output("y", Type::Float, &[1, 4, 8, 8]);
    folder.write("model.onnx", model.finish());
    std::fs::create_dir(folder.path().join("set")).expect("the folder is ours");
    pictures::write_png(&folder.path().join("set/a.png"), 8, 8);
    let normalised = ["--input-mean", "0.485,0.456,0.406", "--input-std", "0.229,0.224,0.225"];
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte", "--dataset", "set"];
    folder.byoc(&[&compile[..], &normalised].concat()).success();
    folder.run(&["inspect", "model.byoc", "--region", "byoc_main_kendryte_0", "--extract", "model.kmodel"]);
    let pixels = outputs(&folder, &["run", "model.kmodel", "-i", "set/a.png"]);
    let floats = outputs(&folder, &[&["run", "model.byoc", "-i", "set/a.png"][..], &normalised].concat());
    assert_eq!(pixels, floats);
    let verify = ["verify", "model.byoc", "--model", "model.onnx", "-i", "set/a.png", "--min-cosine", "0.99"];
    folder.byoc(&[&verify[..], &normalised].concat()).success();
}
