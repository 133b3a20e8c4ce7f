//! Tensors in files beside the model, and the ways in which a model could reach for others.

use super::super::proto::StringStringEntryProto;
use super::super::proto::tensor_proto::DataLocation;
use super::*;

/// A model in a folder of its own, whose tensor `t` of 4 bytes has these entries.
struct Case {
    dir: tempfile::TempDir,
}

impl Case {
    fn new() -> Case {
        let dir = tempfile::tempdir().expect("folder");
        std::fs::create_dir_all(dir.path().join("model/sub")).expect("folder");
        std::fs::write(dir.path().join("outside.bin"), [9; 16]).expect("write");
        std::fs::write(dir.path().join("model/sub/w.bin"), [1, 2, 3, 4, 5, 6, 7, 8]).expect("write");
        Case { dir }
    }

    fn import(&self, entries: &[(&str, &str)]) -> std::result::Result<Vec<u8>, (Code, String)> {
        let entry = |&(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some(key.to_owned().into()),
            value: Some(value.to_owned().into()),
        };
        let tensor = TensorProto {
            raw_data: None,
            data_location: Some(DataLocation::External as i32),
            external_data: entries.iter().map(entry).collect(),
            ..raw_tensor("t", DataType::Uint8, &[4], vec![])
        };
        let model = model(13, &[], &[tensor], &[node("Identity", &["t"], &["y"], &[])]);
        let path = self.dir.path().join("model/m.onnx");
        std::fs::write(&path, model.encode_to_vec()).expect("write");
        let model = import(&[("main".into(), &path)], &ImportOptions::default(), &CustomOperators::default());
        let model = model.map_err(|error| (error.code, error.message))?;
        let constant = model.entries[0].values[0].constant.clone().expect("a constant");
        Ok(model.constants.materialize(&constant))
    }
}

#[test]
fn ranges_of_files_beside_the_model() {
    let case = Case::new();
    assert_eq!(case.import(&[("location", "sub/w.bin")]), Ok(vec![1, 2, 3, 4]));
    let range = [("location", "./sub/w.bin"), ("offset", "4"), ("length", "4"), ("checksum", "none")];
    assert_eq!(case.import(&range), Ok(vec![5, 6, 7, 8]));
}

#[test]
fn nothing_else_is_opened() {
    let case = Case::new();
    let outside = case.dir.path().join("outside.bin").display().to_string();
    for location in ["../outside.bin", "sub/../../outside.bin", "sub/../sub/w.bin", "..", "", outside.as_str()] {
        let message = format!("tensor 't': external data '{location}' is not a relative path without '..'");
        assert_eq!(case.import(&[("location", location)]), Err((Code::ExternalData, message)));
    }
    let message = "tensor 't': external data 'sub' is not a regular file".to_owned();
    assert_eq!(case.import(&[("location", "sub")]), Err((Code::ExternalData, message)));
    let message =
        "tensor 't': external data 'none' cannot be opened: No such file or directory (os error 2)".to_owned();
    assert_eq!(case.import(&[("location", "none")]), Err((Code::ExternalData, message)));
}

#[cfg(unix)]
#[test]
fn links_may_not_lead_outside() {
    let case = Case::new();
    let model = case.dir.path().join("model");
    std::os::unix::fs::symlink("sub/w.bin", model.join("inside")).expect("link");
    std::os::unix::fs::symlink("../outside.bin", model.join("escape")).expect("link");
    std::os::unix::fs::symlink("..", model.join("up")).expect("link");
    assert_eq!(case.import(&[("location", "inside")]), Ok(vec![1, 2, 3, 4]));
    for location in ["escape", "up/outside.bin"] {
        let message = format!("tensor 't': external data '{location}' is a link to outside the model's folder");
        assert_eq!(case.import(&[("location", location)]), Err((Code::ExternalData, message)));
    }
}

#[test]
fn ranges_must_lie_in_the_file() {
    let case = Case::new();
    for offset in ["5", "18446744073709551615"] {
        let message = format!("tensor 't': 'sub/w.bin' has 8 bytes, but 4 at offset {offset} are referenced");
        assert_eq!(case.import(&[("location", "sub/w.bin"), ("offset", offset)]), Err((Code::ExternalData, message)));
    }
    for offset in ["-1", "x", "99999999999999999999"] {
        let message = format!("tensor 't': external data has the offset '{offset}'");
        assert_eq!(case.import(&[("location", "sub/w.bin"), ("offset", offset)]), Err((Code::ExternalData, message)));
    }
    let message = "tensor 't': it needs 4 bytes, but its external data says 8".to_owned();
    let entries = [("location", "sub/w.bin"), ("length", "8")];
    assert_eq!(case.import(&entries), Err((Code::BadTensor, message)));
}
