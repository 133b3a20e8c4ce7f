//! Texts and complex numbers as values of a run: through control flow and regions that tell sizes, constants of texts, and handles
//! that stand for nothing.

use byoc_core::artifact::Fate;
use byoc_core::compile::Report;
use byoc_core::onnx::write;
use byoc_core::runtime::Session;
use byoc_plugin_api::{Attribute, DType, Handle, TensorView};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

fn load(model: Model) -> (Report, Session) {
    let (folder, registry) = (places::temporary(), engine::embedded());
    let model = places::write(folder.path(), "model.onnx", model.opset(20).finish());
    let artifact = folder.path().join("model.byoc");
    let report = engine::compile(&model, &artifact, &registry, &["json"]).expect("compiled");
    (report, engine::load(&artifact, &registry, 1).expect("loaded"))
}

/// The only output of a run.
fn run(session: &mut Session, inputs: &[(&str, Tensor)]) -> Tensor {
    let given: Vec<_> = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    engine::run(session, &given).expect("it runs").remove(0).1
}

fn texts(texts: &[&str]) -> Tensor {
    Tensor::texts(&[texts.len() as i64], texts)
}

fn number(value: i64) -> Tensor {
    Tensor::new(DType::I64, vec![], value.to_le_bytes().to_vec())
}

/// `n` times: a text is put behind those of before.
#[test]
fn a_loop_carries_texts() {
    let body =
        Model::default().input("i", Type::Int64, &[]).input("on", Type::Bool, &[]).input("t", Type::String, &[2]);
    let body = body.tensor(write::texts("end", &[1], &["!"])).node("StringConcat", &["t", "end"], &["longer"]);
    let body = body.output("on", Type::Bool, &[]).output("longer", Type::String, &[2]);
    let model = Model::default().input("x", Type::String, &[2]).input("n", Type::Int64, &[]);
    let model = model.node("Loop", &["n", "", "x"], &["y"]).body("body", body).output("y", Type::String, &[2]);
    let (_, mut session) = load(model);
    for (times, ends) in [(0, ""), (3, "!!!"), (1, "!")] {
        let found = run(&mut session, &[("x", texts(&["a", "é"])), ("n", number(times))]);
        assert_eq!(found, texts(&[&format!("a{ends}"), &format!("é{ends}")]), "{times}");
    }
}

/// Equal texts of the model and of a branch stand in the file once; what is chosen at run time are handles.
#[test]
fn texts_of_branches_are_stored_once() {
    let long = "a text that is read by two regions ".repeat(20);
    let branch = |name: &str, label: &str| {
        let label = write::texts(name, &[2], &[long.as_str(), label]);
        Model::default().tensor(label).node("StringConcat", &["x", name], &[&format!("{name}_y")]).output(
            &format!("{name}_y"),
            Type::String,
            &[2],
        )
    };
    let model = Model::default().input("x", Type::String, &[2]).input("c", Type::Bool, &[]);
    let model = model.node("If", &["c"], &["z"]);
    let model = model.body("then_branch", branch("yes", "1")).body("else_branch", branch("no", "1"));
    let model = model.tensor(write::texts("outer", &[2], &[long.as_str(), "1"]));
    let model = model.node("StringConcat", &["z", "outer"], &["y"]).output("y", Type::String, &[2]);
    let (report, mut session) = load(model);
    let stored: Vec<_> = report.ledger.rows.iter().filter(|row| row.fate != Fate::Viewed).collect();
    assert_eq!(stored.len(), 1, "{:?}", report.ledger);
    let truth = |value: u8| Tensor::new(DType::Bool, vec![], vec![value]);
    for condition in [1, 0] {
        let found = run(&mut session, &[("x", texts(&["<", ">"])), ("c", truth(condition))]);
        assert_eq!(found, texts(&[&format!("<{long}{long}"), ">11"]));
    }
}

/// A region that tells sizes, and what follows it in another stage, have one table of texts.
#[test]
fn stages_have_their_texts_in_common() {
    let comma = [("delimiter", Attribute::String(",".into()))];
    let model = Model::default().input("x", Type::String, &[2]).tensor(write::texts("end", &[1], &[";"]));
    let model = model.node("StringConcat", &["x", "end"], &["z"]).node_with("StringSplit", &["z"], &["p", "n"], &comma);
    let model = model.node("StringConcat", &["p", "end"], &["y"]).output("y", Type::String, &[2, -1]);
    let (_, mut session) = load(model);
    for (first, expected) in [("a,b", ["a;", "b;;", "c;;", ";"]), ("a,", ["a;", ";;", "c;;", ";"])] {
        let found = run(&mut session, &[("x", texts(&[first, "c"]))]);
        assert_eq!(found, Tensor::texts(&[2, 2], &expected));
    }
}

#[test]
fn handles_that_stand_for_nothing_are_errors() {
    let model = Model::default().input("x", Type::String, &[1]).node("StringConcat", &["x", "x"], &["y"]);
    let (_, mut session) = load(model.output("y", Type::String, &[1]));
    let mut run = |handle: u64| {
        let handle = [Handle(handle)];
        let view = TensorView::from_slice(&handle, &[1], &[1]).expect("a handle");
        session.run(&[view]).map_err(|error| error.to_string())
    };
    assert_eq!(run(0), Ok(()));
    for handle in [1, 77, 1 << 63, u64::MAX] {
        let message = format!(
            "[B703] region byoc_main_json_0, node 'make_y' failed on backend 'json': the handle {handle} stands for no text"
        );
        assert_eq!(run(handle), Err(message));
    }
    let given = session.give_text("ab").expect("room");
    let handle = [given];
    session.run(&[TensorView::from_slice(&handle, &[1], &[1]).expect("a handle")]).expect("it runs");
    let made = session.output(0).and_then(|view| session.text(view.to_vec::<Handle>().expect("handles")[0]));
    assert_eq!(made.expect("a text").as_ref(), "abab");
    session.take_back_texts();
    assert!(session.text(given).is_err());
}

/// A complex tensor goes through everything that moves elements, and a constant of them is stored as it is.
#[test]
fn complex_numbers_are_moved() {
    let complex = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let constant = write::tensor("k", Type::Complex64, &[1, 2], complex(&[9.0, -9.0, 8.0, -8.0]));
    let model = Model::default().input("x", Type::Complex64, &[4]).ints("shape", &[2], &[2, 2]).tensor(constant);
    let model =
        model.ints("last", &[1], &[1]).node("Reshape", &["x", "shape"], &["r"]).node("Transpose", &["r"], &["t"]);
    let axis = |axis| [("axis", Attribute::Int(axis))];
    let model =
        model.node_with("Concat", &["t", "k"], &["c"], &axis(0)).node_with("Gather", &["c", "last"], &["y"], &axis(1));
    let (_, mut session) = load(model.output("y", Type::Complex64, &[3, 1]));
    let x = Tensor::new(DType::C64, vec![4], complex(&[1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, -4.0]));
    let found = run(&mut session, &[("x", x)]);
    assert_eq!(found, Tensor::new(DType::C64, vec![3, 1], complex(&[3.0, -3.0, 4.0, -4.0, 8.0, -8.0])));
}
