//! Threads of a program that compute at the same time. `tests/tsan.sh` runs this module with a library that is compiled with
//! ThreadSanitizer.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;

use crate::{build, compilers, run};

/// Convolutions and a product that are large enough for several threads.
fn model() -> Model {
    let numbers = |count: usize| (0..count).map(|at| (at * 37 % 101) as f32 / 101.0 - 0.5).collect::<Vec<_>>();
    Model::default()
        .input("x", Type::Float, &[1, 32, 24, 24])
        .weight("filters", &[64, 32, 3, 3], &numbers(64 * 32 * 9))
        .weight("more", &[32, 64, 1, 1], &numbers(32 * 64))
        .weight("matrix", &[24, 160], &numbers(24 * 160))
        .node("Conv", &["x", "filters"], &["wide"])
        .node("Relu", &["wide"], &["positive"])
        .node("Conv", &["positive", "more"], &["narrow"])
        .node("Sigmoid", &["narrow"], &["curved"])
        .node("Transpose", &["curved"], &["turned"])
        .node("Conv", &["x", "filters"], &["again"])
        .node("MatMul", &["x", "matrix"], &["y"])
        .output("turned", Type::Float, &[22, 22, 32, 1])
        .output("again", Type::Float, &[1, 64, 22, 22])
        .output("y", Type::Float, &[1, 32, 24, 160])
}

#[test]
fn threads_compute_at_the_same_time() {
    let folder = Folder::empty();
    folder.write("model.onnx", model().finish());
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc"]).success();
    let source = places::checkout().join("tests/tests/embed/threads.c");
    let plain: &[&str] = &["cc", "-std=c99"];
    let sanitized: &[&str] = &["cc", "-std=c99", "-fsanitize=thread"];
    for compiler in compilers(&[plain, sanitized]) {
        build(compiler, &source, folder.path());
        let found = run(&folder, &["model.byoc"]);
        assert_eq!(found.success(), "0 wrong\n", "{compiler:?}: {found:?}");
    }
}
