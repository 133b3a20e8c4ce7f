//! What a pattern stands for: its forms, each without a choice, and what several of them make together.

use std::collections::HashSet;

use byoc_plugin_api::Expr;

/// Forms of one pattern that are tried in every shape, the first ones.
pub(super) const FORMS: usize = 12;
/// Most forms of one pattern that are tried at all.
const MOST_FORMS: usize = 160;

/// A pattern without choices.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Leaf {
        name: Option<String>,
        constant: bool,
        quantized: bool,
    },
    Absent,
    Node {
        op: (String, String),
        operands: Vec<Form>,
        rest: bool,
    },
    /// What the form gives, which several read: all that have the name are one value.
    Shared(String, Box<Form>),
}

impl Form {
    /// The form with other names of operands, for a place beside others.
    pub(super) fn renamed(&self, prefix: &str) -> Form {
        let inner = |form: &Form| form.renamed(prefix);
        match self {
            Form::Leaf { name, constant, quantized } => Form::Leaf {
                name: name.as_ref().map(|name| format!("{prefix}.{name}")),
                constant: *constant,
                quantized: *quantized,
            },
            Form::Absent => Form::Absent,
            Form::Node { op, operands, rest } => {
                Form::Node { op: op.clone(), operands: operands.iter().map(inner).collect(), rest: *rest }
            }
            Form::Shared(name, form) => Form::Shared(format!("{prefix}.{name}"), Box::new(inner(form))),
        }
    }

    /// The operator of its last node.
    pub(super) fn root(&self) -> Option<&str> {
        match self {
            Form::Node { op: (_, op), .. } => Some(op),
            Form::Shared(_, form) => form.root(),
            Form::Leaf { .. } | Form::Absent => None,
        }
    }

    /// Whether it has a value that others may read too.
    pub(super) fn shares(&self) -> bool {
        match self {
            Form::Shared(..) => true,
            Form::Node { operands, .. } => operands.iter().any(Form::shares),
            Form::Leaf { .. } | Form::Absent => false,
        }
    }

    /// Nodes within the form, each without what reads it, the innermost ones first.
    pub(super) fn parts(&self) -> Vec<Form> {
        let mut parts = Vec::new();
        if let Form::Node { operands, .. } = self {
            for operand in operands {
                parts.extend(operand.parts());
                if let Form::Node { .. } = operand {
                    parts.push(operand.clone());
                }
            }
        }
        if let Form::Shared(_, form) = self {
            parts.extend(form.parts());
            parts.push((**form).clone());
        }
        parts
    }

    /// Operands that are open: neither nodes, nor constants, nor quantised. An operand that has a name counts once.
    pub(super) fn open(&self) -> Vec<Option<&str>> {
        let mut found = Vec::new();
        self.collect_open(&mut found);
        found
    }

    fn collect_open<'a>(&'a self, found: &mut Vec<Option<&'a str>>) {
        match self {
            Form::Leaf { name, constant: false, quantized: false } => {
                let name = name.as_deref();
                if name.is_none() || !found.contains(&name) {
                    found.push(name);
                }
            }
            Form::Leaf { .. } | Form::Absent => {}
            Form::Node { operands, .. } => operands.iter().for_each(|operand| operand.collect_open(found)),
            Form::Shared(_, form) => form.collect_open(found),
        }
    }

    /// The form with another one in the place of its open operand number `at`; `None` where there are not as many.
    pub(super) fn with(&self, at: usize, other: &Form) -> Option<Form> {
        match self.open().get(at)? {
            Some(name) => {
                let shared = Form::Shared((*name).to_owned(), Box::new(other.clone()));
                Some(self.replace(&mut |leaf| (leaf == Some(name)).then(|| shared.clone())))
            }
            None => {
                let mut before = self.open()[..at].iter().filter(|name| name.is_none()).count();
                Some(self.replace(&mut |leaf| {
                    let is_here = leaf.is_none() && before == 0;
                    before = if leaf.is_none() { before.wrapping_sub(1) } else { before };
                    is_here.then(|| other.clone())
                }))
            }
        }
    }

    /// The form with what `choose` gives for the name of an open operand in its place.
    fn replace(&self, choose: &mut dyn FnMut(Option<&str>) -> Option<Form>) -> Form {
        match self {
            Form::Leaf { name, constant: false, quantized: false } => {
                choose(name.as_deref()).unwrap_or_else(|| self.clone())
            }
            Form::Leaf { .. } | Form::Absent => self.clone(),
            Form::Node { op, operands, rest } => {
                let operands = operands.iter().map(|operand| operand.replace(choose)).collect();
                Form::Node { op: op.clone(), operands, rest: *rest }
            }
            Form::Shared(name, form) => Form::Shared(name.clone(), Box::new(form.replace(choose))),
        }
    }
}

/// The forms of a pattern, the one with the most in it first.
pub(super) fn forms(pattern: &Expr) -> Vec<Form> {
    let mut forms = match pattern {
        Expr::Any { name, constant, absent } | Expr::Dequantized { name, constant, absent } => {
            let quantized = matches!(pattern, Expr::Dequantized { .. });
            let leaf = Form::Leaf { name: name.clone(), constant: *constant, quantized };
            if *absent { vec![leaf, Form::Absent] } else { vec![leaf] }
        }
        Expr::Or(alternatives) => alternatives.iter().flat_map(forms).collect(),
        Expr::Node { ops, optional, operands, rest, shared } => {
            let lists = combinations(&operands.iter().map(forms).collect::<Vec<_>>());
            let node = |op: &(String, String), operands: &Vec<Form>| Form::Node {
                op: op.clone(),
                operands: operands.clone(),
                rest: *rest,
            };
            // What others may read too is one value, whoever reads it.
            let node = |op: &(String, String), operands: &Vec<Form>| match shared {
                true => Form::Shared(format!("{pattern:?}"), Box::new(node(op, operands))),
                false => node(op, operands),
            };
            let everywhere = lists.len() * ops.len() <= FORMS;
            let first = lists.iter().take(1).flat_map(|operands| ops.iter().map(|op| node(op, operands)));
            let others = lists.iter().skip(1).flat_map(|operands| {
                ops.iter().take(if everywhere { ops.len() } else { 1 }).map(|op| node(op, operands))
            });
            let missing = operands.first().filter(|_| *optional).map(forms).unwrap_or_default();
            first.chain(others).chain(missing).collect()
        }
    };
    forms.truncate(MOST_FORMS);
    forms
}

/// Lists of one choice for each operand: all of them where they are few, else those that differ from the first one in one
/// place.
fn combinations(choices: &[Vec<Form>]) -> Vec<Vec<Form>> {
    if choices.iter().map(Vec::len).product::<usize>() <= FORMS {
        let extend = |lists: Vec<Vec<Form>>, choices: &Vec<Form>| -> Vec<Vec<Form>> {
            let one = |choice: &Form| {
                lists.iter().map(|list| [list.as_slice(), std::slice::from_ref(choice)].concat()).collect::<Vec<_>>()
            };
            choices.iter().flat_map(one).collect()
        };
        return choices.iter().fold(vec![Vec::new()], extend);
    }
    let first: Vec<Form> = choices.iter().filter_map(|choices| choices.first().cloned()).collect();
    let mut lists = vec![first.clone()];
    for (at, choices) in choices.iter().enumerate() {
        for choice in &choices[1..] {
            let mut list = first.clone();
            list[at] = choice.clone();
            lists.push(list);
        }
    }
    lists
}

/// Names of operands that a node reads with which no region may start: whatever else reads one, something has to be in front of it.
pub(super) fn shared_with_others(form: &Form, starts: &[String], names: &mut HashSet<String>) {
    let Form::Node { op: (domain, op), operands, .. } = form else { return };
    let is_start = starts.is_empty() || (domain.is_empty() && starts.contains(op));
    for operand in operands {
        match operand {
            Form::Leaf { name: Some(name), constant: false, .. } if !is_start => {
                names.insert(name.clone());
            }
            operand => shared_with_others(operand, starts, names),
        }
    }
}
