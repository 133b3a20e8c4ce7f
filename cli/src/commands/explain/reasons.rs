//! The reasons for which nodes are refused, each once with how often it is given, an example and a remedy.

use byoc_core::partition::{NodeRow, Reason as Why};
use serde::Serialize;

/// Most further operators that are named beside an example.
const OPERATORS: usize = 4;

/// What helps against reasons of a kind, by its code.
const REMEDIES: [(&str, &str); 9] = [
    ("no_pattern", "no pattern matches: `byoc plugin info NAME` lists the patterns of a backend"),
    ("type", "type: export the model in a type that the backend takes; its options may allow others"),
    (
        "shape",
        "shape: export the model with sizes that the backend takes; open ones can be fixed with --dim or --shape",
    ),
    ("attribute", "attribute: export the operator in the form that is named"),
    ("constant_needed", "constant needed: the backend reads that input when it compiles: make it an initializer"),
    ("limit", "limit: smaller sizes fit, by --dim, --shape or another export; the limit is one of the hardware"),
    ("crashed", "crashed: `byoc repro` writes the region as a model for the backend's maker"),
    (
        "region_start",
        "cannot begin a region: what is in front of these nodes is not taken, so that a region would begin with them",
    ),
    ("unknown_operator", "not known: a backend that brings the operator may be in a plugin (--plugin, --backend)"),
];

/// What backends say where a size is left open that they need, and the remedy.
const OPEN_SIZES: &str = "every size must be fixed by --shape or --dim";
const FIX_SIZES: &str = "sizes that are left open: --dim NAME=SIZE fixes one by its name, such as --dim batch=1";

/// A reason for which a backend refused nodes. Numbers in it are those of the example.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Reason {
    pub(super) backend: String,
    /// Its kind.
    pub(super) code: String,
    pub(super) reason: String,
    /// What holds for all of the nodes, for people.
    pub(super) words: String,
    pub(super) nodes: usize,
    /// The first of the nodes, and its operator.
    pub(super) example: String,
    pub(super) op: String,
    /// Operators of the nodes, each once.
    pub(super) operators: Vec<String>,
    /// What helps, where that can be said of the kind of reason.
    pub(super) remedy: Option<&'static str>,
}

/// The refusals, those that differ in numbers and in names alone counted as one.
pub(super) fn reasons(rows: &[NodeRow]) -> Vec<Reason> {
    let mut kinds: Vec<String> = Vec::new();
    let mut reasons: Vec<Reason> = Vec::new();
    for (row, (backend, why)) in rows.iter().flat_map(|row| row.refused.iter().map(move |it| (row, it))) {
        let common = common(why);
        let kind = format!("{backend}\n{}", common.clone().unwrap_or_else(|| without_details(&why.to_string(), row)));
        match kinds.iter().position(|known| *known == kind) {
            Some(at) => reasons[at].add(&row.op, common),
            None => {
                kinds.push(kind);
                reasons.push(Reason::of(row, backend, why));
            }
        }
    }
    let mut order: Vec<String> = Vec::new();
    reasons.iter().for_each(|reason| {
        if !order.contains(&reason.backend) {
            order.push(reason.backend.clone());
        }
    });
    let backend = |reason: &Reason| order.iter().position(|name| *name == reason.backend);
    // A stable sort: equal counts stay in the order of the model.
    reasons.sort_by_key(|reason| (backend(reason), std::cmp::Reverse(reason.nodes)));
    reasons
}

impl Reason {
    fn of(row: &NodeRow, backend: &str, why: &Why) -> Reason {
        let (code, reason) = (why.code(), why.to_string());
        let by_code = || REMEDIES.iter().find(|(known, _)| *known == code).map(|(_, remedy)| *remedy);
        Reason {
            backend: backend.to_owned(),
            words: reason.clone(),
            nodes: 1,
            example: row.node.clone(),
            op: row.op.clone(),
            operators: vec![row.op.clone()],
            remedy: if reason.contains(OPEN_SIZES) { Some(FIX_SIZES) } else { by_code() },
            code,
            reason,
        }
    }

    /// Another node, and what it has in common with the others.
    fn add(&mut self, op: &str, common: Option<String>) {
        self.nodes += 1;
        self.words = common.unwrap_or_else(|| self.reason.clone());
        if !self.operators.iter().any(|known| known == op) {
            self.operators.push(op.to_owned());
        }
    }

    /// The first node with its operator, and which other operators there are.
    pub(super) fn examples(&self) -> String {
        let Reason { example, op, operators, .. } = self;
        let others = operators.iter().skip(1).map(|other| format!(", {other}"));
        match others.len() {
            0 => format!("{example} ({op})"),
            more if more > OPERATORS => format!("{example} ({op}{}, ...)", others.take(OPERATORS).collect::<String>()),
            _ => format!("{example} ({op}{})", others.collect::<String>()),
        }
    }
}

/// What holds for all nodes with such a reason, where that is more than a reason without numbers and names.
fn common(why: &Why) -> Option<String> {
    match why {
        Why::Start { allowed, .. } => Some(Why::Start { allowed: allowed.clone(), merged: None }.to_string()),
        why => open_sizes(&why.to_string()),
    }
}

/// How the sizes can be fixed that a reason names in brackets.
fn open_sizes(reason: &str) -> Option<String> {
    let before = reason.split_once(OPEN_SIZES)?.0;
    let sizes = before.rsplit_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(sizes, _)| sizes);
    let is_name = |size: &&str| size.chars().next().is_some_and(char::is_alphabetic) && !size.contains([' ', '*', '+']);
    let mut names: Vec<&str> = sizes.split(',').filter(is_name).collect();
    names.sort_unstable();
    names.dedup();
    let flags: String = names.iter().map(|name| format!(" {name}=1")).collect();
    Some(format!("{OPEN_SIZES}{flags}"))
}

/// A reason without what differs from node to node: numbers, and the node's own name.
fn without_details(reason: &str, row: &NodeRow) -> String {
    let mut kind = String::new();
    // Messages have names in quotes; without them, a short name is part of any word.
    for char in reason.replace(&format!("'{}'", row.node), "").chars() {
        match char.is_ascii_digit() {
            true if kind.ends_with('0') => {}
            true => kind.push('0'),
            false => kind.push(char),
        }
    }
    kind
}
