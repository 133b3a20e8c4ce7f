//! Control flow, and sequences and optionals that only a run knows.

use super::Attribute::{Int, Ints};
use super::{Model, Net, Type};

/// Every operator on them: a loop that fills a sequence, a body that runs for each of its tensors, parts of a computed size, and an
/// optional that a branch may leave empty.
pub(super) fn lists() -> Model {
    let step =
        Net(Net::new(19).0.input("i", Type::Int64, &[]).input("on", Type::Bool, &[]).input("s", Type::Float, &[]));
    let step = step.plain("SequenceInsert", "s x i", "longer").plain("Identity", "on", "still");
    let step = step.typed("still", Type::Bool, &[]).output("longer", &[2, 3]).0;
    let net = Net(Net::new(19).input("x", &[2, 3]).0.ints("count", &[], &[3]).ints("two", &[], &[2]));
    let net = Net(net.0.input("at", Type::Int64, &[])).plain("SequenceEmpty", "", "none");
    let net = Net(net.plain("Loop", "count - none", "all").0.body("body", step));
    let row = Net::new(19).input("a", &[2, 3]).input("b", &[2, 3]).plain("Add", "a b", "sum").output("sum", &[2, 3]).0;
    let net = Net(net.plain("SequenceMap", "all x", "sums").0.body("body", row));
    let net = net.plain("SequenceErase", "sums at", "fewer").plain("SequenceAt", "fewer at", "one");
    let net = net.plain("SequenceLength", "fewer", "length");
    let net = net.node("ConcatFromSequence", "fewer", "joined", &[("axis", Int(1))]);
    let net = net.node("ConcatFromSequence", "fewer", "stacked", &[("axis", Int(-1)), ("new_axis", Int(1))]);
    let net = net.node("SplitToSequence", "joined two", "parts", &[("axis", Int(1))]);
    let some = Net::new(19).plain("Optional", "parts", "some").output("some", &[2]).0;
    let same = Net::new(19).plain("Identity", "parts", "same").output("same", &[2]).0;
    let net = net.plain("Greater", "length at", "more");
    let net = Net(net.plain("If", "more", "chosen").0.body("then_branch", some).body("else_branch", same));
    let net = net.plain("OptionalHasElement", "chosen", "there").plain("OptionalGetElement", "chosen", "held");
    let net = net.output("one", &[2, 3]).output("joined", &[2, -1]).output("stacked", &[2, 3, -1]).output("held", &[2]);
    net.typed("length", Type::Int64, &[]).typed("there", Type::Bool, &[]).0
}

/// Control flow: a loop that grows and hands two values on, a choice in it, and a scan from the end along another axis.
pub(super) fn bodies() -> Model {
    let double = Net::new(19).plain("Add", "v x", "double").output("double", &[2, 3]).0;
    let clip = Net::new(19).plain("Relu", "v", "clipped").output("clipped", &[2, 3]).0;
    let step = Net(Net::new(19).0.input("i", Type::Int64, &[]).input("on", Type::Bool, &[]))
        .input("v", &[2, 3])
        .input("g", &[-1, 3]);
    let step = step.plain("ReduceSum", "v", "sum").weight("least", &[1]).plain("Greater", "sum least", "more");
    let step = Net(step.plain("If", "more", "next").0.body("then_branch", double).body("else_branch", clip));
    let step = step.node("Concat", "g next", "longer", &[("axis", Int(0))]).plain("Identity", "on", "still");
    let step =
        step.typed("still", Type::Bool, &[]).output("next", &[2, 3]).output("longer", &[-1, 3]).output("sum", &[1, 1]);
    let net = Net(Net::new(19).input("x", &[2, 3]).0.ints("count", &[], &[3])).plain("Loop", "count - x x", "y1 y2 y3");
    let row = Net::new(19).input("state", &[2]).input("column", &[2]).plain("Add", "state column", "mean");
    let row = row.plain("Mul", "mean column", "turned").output("mean", &[2]).output("turned", &[2]).0;
    let ways = [
        ("num_scan_inputs", Int(1)),
        ("scan_input_axes", Ints(&[1])),
        ("scan_input_directions", Ints(&[1])),
        ("scan_output_axes", Ints(&[-1])),
        ("scan_output_directions", Ints(&[1])),
    ];
    let net = Net(net.0.body("body", step.0)).weight("zero", &[2]).node("Scan", "zero y1", "y4 y5", &ways);
    let net = Net(net.0.body("body", row)).output("y1", &[2, 3]).output("y2", &[-2, 3]).output("y3", &[3, 1, 1]);
    net.output("y4", &[2]).output("y5", &[2, 3]).0
}
