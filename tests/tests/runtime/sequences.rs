//! What is particular to sequences and optionals of a run: what a caller gives and gets, what the run finds wrong, and how long they stay.

use byoc_core::diagnostic::Diagnostic;
use byoc_core::onnx::proto::ValueInfoProto;
use byoc_core::runtime::{ListView, Session};
use byoc_plugin_api::{Attribute, DType, TensorView};
use byoc_tests::onnx::{Model, Type, list};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

const NONE: &str = "";

fn with(inputs: &[ValueInfoProto]) -> Model {
    let mut model = Model::default().opset(18);
    model.graph.input.extend_from_slice(inputs);
    model
}

fn load(model: Model) -> Session {
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", model.finish());
    let (artifact, registry) = (folder.path().join("model.byoc"), engine::embedded());
    engine::compile(&model, &artifact, &registry, &["json"]).expect("compiled");
    engine::load(&artifact, &registry, 1).expect("loaded")
}

fn rows(elements: &[[f32; 2]]) -> Vec<Tensor> {
    elements.iter().map(|row| Tensor::f32(&[2], row)).collect()
}

fn number(value: i64) -> Tensor {
    Tensor::new(DType::I64, vec![], value.to_le_bytes().to_vec())
}

/// The outputs, or the error, for tensors under their names; those of a sequence have numbers behind them.
fn run(session: &mut Session, given: &[(&str, Tensor)]) -> Result<Vec<(String, Vec<f64>)>, String> {
    let given: Vec<_> = given.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    let outputs = engine::run(session, &given).map_err(|error| error.to_string())?;
    Ok(outputs.into_iter().map(|(name, tensor)| (name, tensor.floats().collect())).collect())
}

fn named(outputs: &[(&str, &[f64])]) -> Vec<(String, Vec<f64>)> {
    outputs.iter().map(|(name, values)| ((*name).to_owned(), values.to_vec())).collect()
}

#[test]
fn positions_are_within_the_sequence() {
    let model = with(&[list("s", false, true)]).input("at", Type::Int64, &[]).input("x", Type::Float, &[2]);
    let at = model.clone().node("SequenceAt", &["s", "at"], &["y"]).output("y", Type::Float, &[2]);
    let mut at = load(at);
    let [a, b] = [[1.0, 2.0], [3.0, 4.0]];
    let two = rows(&[a, b]);
    let given = |position: i64| {
        vec![("s.0", two[0].clone()), ("s.1", two[1].clone()), ("at", number(position)), ("x", two[0].clone())]
    };
    for (position, row) in [(0, [1.0, 2.0]), (1, [3.0, 4.0]), (-1, [3.0, 4.0]), (-2, [1.0, 2.0])] {
        assert_eq!(run(&mut at, &given(position)), Ok(named(&[("y", &row)])));
    }
    for position in [2, -3, i64::MAX, i64::MIN] {
        let message = format!("[B703] 'make_y': position {position} is out of range for a sequence of 2");
        assert_eq!(run(&mut at, &given(position)), Err(message));
    }
    // Behind the last one is a place for another one.
    let inserted = model.clone().node("SequenceInsert", &["s", "x", "at"], &["t"]).output("t", Type::Float, &[2]);
    let mut inserted = load(inserted);
    assert_eq!(run(&mut inserted, &given(2)).expect("a place").len(), 3);
    let message = "[B703] 'make_t': position 3 is out of range for a sequence of 2";
    assert_eq!(run(&mut inserted, &given(3)), Err(message.into()));
    let mut erased = load(model.node("SequenceErase", &["s"], &["t"]).output("t", Type::Float, &[2]));
    assert_eq!(run(&mut erased, &given(0)), Ok(named(&[("t.0", &[1.0, 2.0])])));
    let none = [("at", number(0)), ("x", two[0].clone())];
    assert_eq!(run(&mut erased, &none), Err("[B703] 'make_t': the sequence is empty".into()));
}

#[test]
fn what_does_not_fit_is_told() {
    let axis = [("axis", Attribute::Int(0)), ("new_axis", Attribute::Int(1))];
    let model = Model::default().opset(18).input("x", Type::Float, &[-1]).input("size", Type::Int64, &[]);
    let model = model.node("SplitToSequence", &["x", "size"], &["s"]);
    let mut stack =
        load(model.node_with("ConcatFromSequence", &["s"], &["y"], &axis).output("y", Type::Float, &[-1, -1]));
    let four = Tensor::f32(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let given = |size: i64| [("x", four.clone()), ("size", number(size))];
    assert_eq!(run(&mut stack, &given(2)), Ok(named(&[("y", &[1.0, 2.0, 3.0, 4.0])])));
    let unlike = "[B703] 'make_y': tensors of shapes [3] and [1] cannot be put together";
    assert_eq!(run(&mut stack, &given(3)), Err(unlike.into()));
    let zero = "[B703] 'make_s': parts of size 0 are asked for, expected at least 1";
    assert_eq!(run(&mut stack, &given(0)), Err(zero.into()));
    let none = [("x", Tensor::f32(&[0], &[])), ("size", number(2))];
    assert_eq!(run(&mut stack, &none), Err("[B703] 'make_y': the sequence is empty".into()));

    let model = Model::default().opset(18).input("x", Type::Float, &[4]).input("sizes", Type::Int64, &[-1]);
    let model = model.node("SplitToSequence", &["x", "sizes"], &["s"]).output("s", Type::Float, &[1]);
    let mut parts = load(model);
    let sizes = |sizes: &[i64]| {
        let bytes = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        [("x", four.clone()), ("sizes", Tensor::new(DType::I64, vec![sizes.len() as i64], bytes))]
    };
    let expected = named(&[("s.0", &[1.0]), ("s.1", &[]), ("s.2", &[2.0, 3.0, 4.0])]);
    assert_eq!(run(&mut parts, &sizes(&[1, 0, 3])), Ok(expected));
    for wrong in [&[1, 2][..], &[5, -1], &[i64::MAX, 5]] {
        let message = format!("[B703] 'make_s': parts of sizes {wrong:?} do not make up the 4 elements of the axis");
        assert_eq!(run(&mut parts, &sizes(wrong)), Err(message));
    }
}

/// `a + b` for the tensors of two sequences.
#[test]
fn sequences_are_run_over_together() {
    let body = Model::default().input("a", Type::Float, &[2]).input("b", Type::Float, &[2]);
    let body = body.node("Add", &["a", "b"], &["c"]).output("c", Type::Float, &[2]);
    let model = with(&[list("s", false, true), list("t", false, true)]);
    let model = model.node("SequenceMap", &["s", "t"], &["y"]).body("body", body).output("y", Type::Float, &[2]);
    let mut session = load(model);
    let [a, b] = [Tensor::f32(&[2], &[1.0, 2.0]), Tensor::f32(&[2], &[3.0, 5.0])];
    let both = [("s.0", a.clone()), ("s.1", b.clone()), ("t.0", b.clone()), ("t.1", b.clone())];
    assert_eq!(run(&mut session, &both), Ok(named(&[("y.0", &[4.0, 7.0]), ("y.1", &[6.0, 10.0])])));
    assert_eq!(run(&mut session, &[]), Ok(vec![]), "two empty ones");
    let unlike = "[B701] 'make_y': its sequences have 2 and 1 elements. They are run over together";
    assert_eq!(run(&mut session, &both[..3]), Err(unlike.into()));
}

#[test]
fn callers_give_what_the_entry_takes() {
    let model = with(&[list("o", true, false), list("s", true, true)]);
    let model = model.node("OptionalGetElement", &["o"], &["y"]).node("OptionalHasElement", &["s"], &["there"]);
    let mut session = load(model.output("y", Type::Float, &[2]).output("there", Type::Bool, &[]));
    let ports: Vec<_> =
        session.inputs().into_iter().map(|port| (port.name, port.list.expect("a list").to_string())).collect();
    assert_eq!(ports, [("o".into(), "optional(f32[2])".into()), ("s".into(), "optional(seq(f32[2]))".into())]);
    let [row, other] = [[1.0f32, 2.0], [3.0, 4.0]];
    let tensor = |elements: &'static [f32], shape: &'static [i64]| {
        TensorView::from_slice(elements, shape, &[1][..shape.len()]).expect("a tensor")
    };
    let [first, second] = [tensor(&[1.0, 2.0], &[2]), tensor(&[3.0], &[1])];
    let mut try_with = |o: &ListView<'_>, s: &ListView<'_>| -> Result<Vec<f32>, Diagnostic> {
        let handles = [session.give_list(o)?, session.give_list(s)?];
        let views = handles
            .each_ref()
            .map(|handle| TensorView::from_slice(std::slice::from_ref(handle), &[], &[]).expect("one element"));
        session.run(&views)?;
        Ok(session.output(0)?.to_vec().expect("floats"))
    };
    let nothing = ListView::Nothing;
    let held = ListView::Tensor(first);
    assert_eq!(try_with(&held, &nothing).expect("it runs"), row);
    assert_eq!(try_with(&held, &ListView::Sequence(vec![first, first])).expect("it runs"), row);
    let message = |done: Result<Vec<f32>, Diagnostic>| done.expect_err("it does not fit").to_string();
    let of_o = "the entry takes optional(f32[2])";
    assert_eq!(message(try_with(&nothing, &nothing)), "[B703] 'make_y': the optional has no element");
    assert_eq!(
        message(try_with(&ListView::Sequence(vec![]), &nothing)),
        format!("[B701] input 'o' is a sequence, {of_o}")
    );
    let short = format!("[B701] input 'o' holds a tensor of f32[1], {of_o}");
    assert_eq!(message(try_with(&ListView::Tensor(second), &nothing)), short);
    let of_s = "the entry takes optional(seq(f32[2]))";
    assert_eq!(message(try_with(&held, &held)), format!("[B701] input 's' is a tensor, {of_s}"));
    let short = format!("[B701] input 's' holds a tensor of f32[1], {of_s}");
    assert_eq!(message(try_with(&held, &ListView::Sequence(vec![first, second]))), short);

    // A handle is good until it is taken back; any other number stands for nothing.
    let given = session.give_list(&ListView::Tensor(tensor(&[3.0, 4.0], &[2]))).expect("a handle");
    let with_handles = |session: &mut Session, handles: [u64; 2]| {
        let views = handles
            .each_ref()
            .map(|handle| TensorView::from_slice(std::slice::from_ref(handle), &[], &[]).expect("one element"));
        session.run(&views).map_err(|error| error.to_string())
    };
    let none = session.give_list(&nothing).expect("a handle");
    for _ in 0..2 {
        with_handles(&mut session, [given, none]).expect("it runs");
        assert_eq!(session.output(0).expect("an output").to_vec::<f32>().expect("floats"), other);
    }
    let stranger = "[B701] input 'o' is optional(f32[2]), and what is given is not a handle of one. Give the list to the session first";
    for handle in [0, 5, u64::MAX, given + 100] {
        assert_eq!(with_handles(&mut session, [handle, none]), Err(stranger.into()));
    }
    session.forget_lists();
    assert_eq!(with_handles(&mut session, [given, none]), Err(stranger.into()));
}

/// A loop keeps of its sequences those that it hands on: what it takes does not grow with the number of its iterations.
#[test]
fn sequences_of_earlier_iterations_are_gone() {
    const MIB: i64 = 1 << 18;
    let step = Model::default().input("i", Type::Int64, &[]).input("on", Type::Bool, &[]).input("s", Type::Float, &[1]);
    let step = step.node("SequenceErase", &["s"], &["shorter"]).node("SequenceInsert", &["shorter", "x"], &["t"]);
    let step =
        step.node("Identity", &["on"], &["still"]).output("still", Type::Bool, &[]).output("t", Type::Float, &[1]);
    let model = Model::default().opset(18).input("x", Type::Float, &[MIB]).input("n", Type::Int64, &[]);
    let model = model.node("SequenceConstruct", &["x"], &["s"]);
    let model = model.node("Loop", &["n", NONE, "s"], &["y"]).body("body", step).output("y", Type::Float, &[MIB]);
    let mut session = load(model);
    let x = Tensor::f32(&[MIB], &vec![1.5; MIB as usize]);
    let mut mib_after = |times: i64| {
        let found = run(&mut session, &[("x", x.clone()), ("n", number(times))]).expect("it runs");
        assert_eq!((found.len(), found[0].1.len()), (1, MIB as usize));
        resident_mib()
    };
    let few = mib_after(5);
    let many = mib_after(800);
    assert!(many < few + 200, "{few} MiB after 5 iterations, {many} after 800 that each make a tensor of 1 MiB");
}

/// Memory of this process.
fn resident_mib() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: usize = pages.split(' ').nth(1).expect("resident pages").parse().expect("a number");
    (pages * 4096) >> 20
}
