//! Cases in which bodies of control flow have constants: those that others have as well, and those of their own.

use byoc_core::artifact::Fate;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;

use super::cases::{BATCH, CLOSE, DEPTH, WIDTH, weight, x};
use super::check::{Case, Checked, Constant, check, model, rows};

/// `y = c ? x w + b : (x w') v`, `z = x w`, where `w'` is a copy of `w` that the branch has by itself, and so are `b` and `v`.
fn chosen(w: &Constant, [copy, b, v]: [&Constant; 3]) -> Model {
    let one = model(&[b]).node("MatMul", &["x", "w"], &["p"]).node("Add", &["p", "b"], &["sum"]);
    let one = one.output("sum", Type::Float, &[BATCH, WIDTH]);
    let other = model(&[copy, v]).node("MatMul", &["x", "copy"], &["p"]).node("MatMul", &["p", "v"], &["product"]);
    let other = other.output("product", Type::Float, &[BATCH, WIDTH]);
    let whole = model(&[w]).input("x", Type::Float, &[BATCH, DEPTH]).input("c", Type::Bool, &[]);
    let whole = whole.node("If", &["c"], &["y"]).body("then_branch", one).body("else_branch", other);
    let whole = whole.node("MatMul", &["x", "w"], &["z"]).output("y", Type::Float, &[BATCH, WIDTH]);
    whole.output("z", Type::Float, &[BATCH, WIDTH])
}

fn truth(name: &str, holds: bool) -> (String, Tensor) {
    (name.to_owned(), Tensor::new(byoc_plugin_api::DType::Bool, vec![], vec![u8::from(holds)]))
}

/// n. Both branches read what is read around them, one of them as a copy, and have a constant of their own.
pub(crate) fn branches(name: &'static str) -> Checked {
    let (w, copy) = (weight("w"), weight("copy"));
    let (b, v) = (Constant::random("b", &[WIDTH], 3), Constant::random("v", &[WIDTH, WIDTH], 4));
    let checked = check(Case {
        name,
        model: chosen(&w, [&copy, &b, &v]),
        inputs: vec![x(), truth("c", false)],
        backends: &[],
        settings: &[("json.pack", "false")],
        constants: vec![
            w.stored(),
            Constant { name: "make_y/then_branch/b", ..b }.stored(),
            Constant { name: "make_y/else_branch/v", ..v }.stored(),
        ],
        extra: 0,
        tolerance: CLOSE,
    });
    let ledger = &checked.ledger;
    let [row] = rows(ledger, "w")[..] else { panic!("`w` is one constant") };
    assert_eq!(row.names, ["w", "make_y/else_branch/copy"]);
    assert_eq!(row.model_bytes, 2 * row.bytes);
    checked
}

/// n. The same, packed: regions of the graph and of both branches have one layout.
pub(crate) fn branches_packed(name: &'static str) -> Checked {
    let (w, copy) = (weight("w"), weight("copy"));
    let (b, v) = (Constant::random("b", &[WIDTH], 3), Constant::random("v", &[WIDTH, WIDTH], 4));
    check(Case {
        name,
        model: chosen(&w, [&copy, &b, &v]),
        inputs: vec![x(), truth("c", true)],
        backends: &["panels"],
        settings: &[],
        constants: vec![
            w.expect(0, &[Fate::Packed]),
            Constant { name: "make_y/then_branch/b", ..b }.stored(),
            Constant { name: "make_y/else_branch/v", ..v }.expect(0, &[Fate::Packed]),
        ],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// n. A loop in a loop, which both read the weight of the graph around them, and the inner one its own.
pub(crate) fn loops(name: &'static str) -> Checked {
    let (w, own) = (Constant::random("w", &[DEPTH, DEPTH], 1), Constant::random("own", &[DEPTH, DEPTH], 2));
    let (outer, inner) = (Constant::integer("outer", 2), Constant::integer("inner", 3));
    let step = |constants: &[&Constant], from: &str| {
        let step = model(constants).input("i", Type::Int64, &[]).input("on", Type::Bool, &[]);
        let step = step.input(from, Type::Float, &[BATCH, DEPTH]).node("Identity", &["on"], &["still"]);
        step.output("still", Type::Bool, &[])
    };
    let within = step(&[&own], "u").node("MatMul", &["u", "w"], &["p"]).node("MatMul", &["p", "own"], &["q"]);
    let within = within.output("q", Type::Float, &[BATCH, DEPTH]);
    let around = step(&[&inner], "v").node("MatMul", &["v", "w"], &["m"]).node("Loop", &["inner", "", "m"], &["n"]);
    let around = around.body("body", within).output("n", Type::Float, &[BATCH, DEPTH]);
    let whole = model(&[&w, &outer]).input("x", Type::Float, &[BATCH, DEPTH]);
    let whole = whole.node("Loop", &["outer", "", "x"], &["y"]).body("body", around);
    check(Case {
        name,
        model: whole.output("y", Type::Float, &[BATCH, DEPTH]),
        inputs: vec![x()],
        backends: &[],
        settings: &[("json.pack", "false")],
        constants: vec![
            w.stored(),
            Constant { name: "make_y/make_n/own", ..own }.stored(),
            outer.stored(),
            Constant { name: "make_y/inner", ..inner }.stored(),
            // What core adds where a loop has no condition of its own.
            Constant { name: "make_y_condition", ty: Type::Bool, shape: Vec::new(), bytes: vec![1] }.stored(),
        ],
        extra: 0,
        tolerance: CLOSE,
    })
}
