//! Code in an artifact: which versions of it a backend reads, and how to get it out.

use byoc_tests::fixture::{Change, c_plugin_of_today};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;

/// The plugin in C as a later one of its kind, with this in the place of its version.
fn plugin(folder: &Folder, version: &str) -> String {
    let change: Change<'_> = ("plugin.c", "\\\"code_version\\\":1,", version);
    c_plugin_of_today(folder.path(), "cmatmul", &[change]).to_str().expect("plain").to_owned()
}

#[test]
fn a_later_plugin_reads_earlier_code_if_it_says_so() {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let first = plugin(&folder, "\\\"code_version\\\":1,");
    folder.byoc(&["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu", "--plugin", &first]).success();
    let later = plugin(&folder, "\\\"code_version\\\":3,\\\"reads\\\":[1,2],");
    folder.byoc(&["verify", "m.byoc", "--model", "model.onnx", "--plugin", &later]).success();
    assert!(
        folder
            .byoc(&["plugin", "info", "cmatmul", "--plugin", &later])
            .success()
            .contains("code     versions 1, 2 and 3\n")
    );
    let other = plugin(&folder, "\\\"code_version\\\":3,\\\"reads\\\":[2],");
    folder.byoc(&["run", "m.byoc", "--fill", "ones", "--plugin", &other]).fails(
        3,
        "error: [B604] region byoc_main_cmatmul_0 holds code of version 1 for the backend 'cmatmul' 1.0.0; the one here, 1.0.0, \
         reads versions 2 and 3\n  hint: Compile the model again with this backend",
    );
}

/// Of any backend, and without its plugin.
#[test]
fn the_code_of_a_region_can_be_written_to_a_file() {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let plugin = plugin(&folder, "\\\"code_version\\\":1,");
    folder.byoc(&["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu", "--plugin", &plugin]).success();
    let inspect = |more: &[&str]| folder.byoc(&[&["inspect", "m.byoc", "--region"][..], more].concat());
    assert_eq!(inspect(&["byoc_main_cmatmul_0", "--code", "code.bin"]).success(), "written to 'code.bin', 40 B\n");
    // Two ids, and three sizes of the product.
    let code = byoc_tests::places::read(&folder.path().join("code.bin"));
    let numbers: Vec<i64> = code.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().expect("8"))).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 2]);
    inspect(&["byoc_main_none_0", "--code", "none.bin"])
        .fails(2, "error: [B702] 'm.byoc' has no region 'byoc_main_none_0'\n  hint: Did you mean 'byoc_main_json_0'?");
}
