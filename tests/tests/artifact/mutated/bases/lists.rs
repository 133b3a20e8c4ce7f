//! Sequences and optionals that only a run knows.

use super::{Attribute::Int, Model, Net, Type};

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
