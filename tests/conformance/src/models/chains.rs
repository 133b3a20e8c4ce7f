//! Patterns put together: one after another, side by side, read by two, and read by the model's outputs as well.

use super::forms::Form;

/// Most chains of each length.
const MOST: [(usize, usize); 4] = [(2, 200), (3, 80), (4, 24), (5, 16)];
/// Most choices of three patterns for graphs in which a value is read twice.
const MOST_SHARED: usize = 64;

/// A graph of several patterns.
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) form: Form,
    /// Whether its shared values are outputs as well.
    pub(super) inner_outputs: bool,
}

/// The chains of these patterns, the last one of each first: all pairs and some of the longer ones, where there are too many.
pub(super) fn all(patterns: &[(&str, Form)]) -> Vec<Chain> {
    let patterns: Vec<_> = patterns.iter().map(|(name, form)| (*name, listed(form))).collect();
    let mut chains = Vec::new();
    for (length, most) in MOST {
        for numbers in some(patterns.len(), length, most) {
            lines(&patterns, &numbers, &mut chains);
        }
    }
    for numbers in some(patterns.len(), 3, MOST_SHARED) {
        shared([0, 1, 2].map(|at| &patterns[numbers[at]]), &mut chains);
    }
    chains
}

/// The form with the operands that its operator needs, where the pattern leaves them to `...`.
fn listed(form: &Form) -> Form {
    let Form::Node { op: (domain, op), operands, rest: true } = form else { return form.clone() };
    let needed = byoc_core::ops::find(domain, op).map_or(1, |def| def.inputs.0.max(1));
    let open = |at: usize| Form::Leaf { name: Some(format!("operand{at}")), constant: false, quantized: false };
    let more = (operands.len()..needed).map(open);
    Form::Node {
        op: (domain.clone(), op.clone()),
        operands: operands.iter().cloned().chain(more).collect(),
        rest: true,
    }
}

/// Sequences of `length` numbers below `count`: all of them, or `most` that lie evenly among all.
fn some(count: usize, length: usize, most: usize) -> Vec<Vec<usize>> {
    let all = count.saturating_pow(length as u32);
    let taken = all.min(most);
    let digits = |index: usize| (0..length).map(|at| index / count.pow(at as u32) % count).collect();
    let step = all / taken.max(1);
    // A little further in each step, so that the first numbers differ as much as the last ones.
    (0..taken).map(|index| digits(index * step + index % step)).collect()
}

/// Each pattern in an open operand of the one before it, and in the second one, where there is one.
fn lines(patterns: &[(&str, Form)], numbers: &[usize], chains: &mut Vec<Chain>) {
    for at in 0..2 {
        let mut form: Option<Form> = None;
        for (depth, &number) in numbers.iter().enumerate().rev() {
            let outer = patterns[number].1.renamed(&depth.to_string());
            form = match form {
                None => Some(outer),
                Some(inner) => outer.with(at, &inner).or_else(|| (at > 0).then(|| outer.with(0, &inner))?),
            };
            if form.is_none() {
                return;
            }
        }
        let names: Vec<_> = numbers.iter().rev().map(|&number| patterns[number].0).collect();
        let place = if at == 0 { "" } else { ", as the second operand" };
        if let Some(form) = form {
            chains.push(Chain { name: format!("{}{place}", names.join(" > ")), form, inner_outputs: false });
        }
    }
}

/// Graphs of three patterns, the last one first, in which a value is read twice.
fn shared(patterns: [&(&str, Form); 3], chains: &mut Vec<Chain>) {
    let named = |at: usize, name: &str| patterns[at].1.renamed(name);
    let (outer, middle, inner) = (named(0, "a"), named(1, "b"), named(2, "c"));
    let value = Form::Shared("shared".into(), Box::new(inner.clone()));
    let own = Form::Leaf { name: Some("own".into()), constant: false, quantized: false };
    let names = format!("{} > {} > {}", patterns[2].0, patterns[1].0, patterns[0].0);
    let mut add = |what: &str, form: Option<Form>, inner_outputs: bool| {
        if let Some(form) = form {
            chains.push(Chain { name: format!("{names}, {what}"), form, inner_outputs });
        }
    };
    // The second operand first: what is in the first one has open operands, too.
    let twice = |first: &Form, second: &Form| outer.with(1, second)?.with(0, first);
    let again = middle.with(0, &value);
    let behind = again.as_ref().and_then(|again| middle.renamed("d").with(0, again));
    add("which is an output as well", middle.with(0, &value).and_then(|form| outer.with(0, &form)), true);
    add("read twice", twice(&value, &value), false);
    add("read twice, and an output", twice(&value, &value), true);
    if let (Some(again), Some(behind)) = (&again, &behind) {
        add("read again behind it", twice(&value, again), false);
        add("read again before it", twice(again, &value), false);
        add("read again behind two", twice(&value, behind), false);
        add("read again before two, and an output", twice(behind, &value), true);
        let more = twice(again, &value).and_then(|form| inner.renamed("e").with(0, &form));
        add("and one more behind", more, false);
    }
    // One value, an input or a constant, that several nodes read.
    let branches = || outer.with(1, &middle.with(0, &own)?)?.with(0, &inner.with(0, &own)?);
    add("two branches of one value", branches(), false);
    let ends = || outer.with(1, &own)?.with(0, &middle.with(0, &inner.with(0, &own)?)?);
    add("one value read first and last", ends(), false);
    let operands = || outer.with(1, &own)?.with(0, &middle.with(1, &own)?.with(0, &value)?);
    add("one value as an operand of two", operands(), false);
}
