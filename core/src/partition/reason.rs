//! Why a backend does not take a node, in parts: programs count them, people read them.

use std::fmt;

use byoc_plugin_api::{Refusal, RefusalCode};

/// Why a backend does not take a node. As text it is one line.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// None of its patterns matches the node.
    NoPattern,
    /// A pattern matches, and the backend refuses.
    Refused {
        /// The pattern's name; `merged` where several matches would have been one region.
        pattern: String,
        /// What the backend says.
        refusal: Refusal,
    },
    /// It took the node and no region came of it.
    GivenBack {
        /// The pattern's name.
        pattern: String,
    },
    /// The region would have done no arithmetic.
    OnlyNoOps,
    /// The region would have begun with another operator than its policy allows.
    Start {
        /// The operators with which a region may begin.
        allowed: Vec<String>,
        /// Why it was not merged with what is before it, if that was tried.
        merged: Option<Refusal>,
    },
    /// The region would have had more tensor inputs than its policy allows.
    Inputs {
        /// How many.
        count: usize,
        /// The limit.
        most: usize,
        /// Why it was not merged with what is before it, if that was tried.
        merged: Option<Refusal>,
    },
    /// The region would have had more outputs than its policy allows.
    Outputs {
        /// How many.
        count: usize,
        /// The limit.
        most: usize,
        /// Why it was not merged with what is before it, if that was tried.
        merged: Option<Refusal>,
    },
    /// Nobody knows the operator.
    UnknownOperator,
    /// Nobody was asked: an operator before the node, or around it, is not known.
    NotAsked,
}

impl Reason {
    /// The kind, as JSON has it. Kinds of refusals are those of the contract.
    pub fn code(&self) -> String {
        let code = match self {
            Reason::Refused { refusal, .. } => return refusal.code.to_string(),
            Reason::NoPattern => "no_pattern",
            Reason::GivenBack { .. } => "given_back",
            Reason::OnlyNoOps => "only_no_ops",
            Reason::Start { .. } => "region_start",
            Reason::Inputs { .. } => "region_inputs",
            Reason::Outputs { .. } => "region_outputs",
            Reason::UnknownOperator => "unknown_operator",
            Reason::NotAsked => "not_asked",
        };
        code.to_owned()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merged = match self {
            Reason::NoPattern => return f.write_str("no pattern matches"),
            Reason::Refused { pattern, refusal } => return write!(f, "{pattern}: {}", in_words(refusal)),
            Reason::GivenBack { pattern } => return write!(f, "{pattern}: taken and given back"),
            Reason::OnlyNoOps => return f.write_str("the region would do no arithmetic"),
            Reason::UnknownOperator => return f.write_str("the operator is not known"),
            Reason::NotAsked => {
                return f.write_str("not asked, since an operator before it or around it is not known");
            }
            Reason::Start { allowed, merged } => {
                write!(f, "cannot begin a region, as {} can", allowed.join(" or "))?;
                merged
            }
            Reason::Inputs { count, most, merged } => {
                write!(f, "the region would have {count} tensor inputs, at most {most}")?;
                merged
            }
            Reason::Outputs { count, most, merged } => {
                write!(f, "the region would have {count} outputs, at most {most}")?;
                merged
            }
        };
        match merged {
            Some(refusal) => write!(f, "; merged with its neighbours: {}", in_words(refusal)),
            None => Ok(()),
        }
    }
}

/// The refusal with its kind in words, where that says something.
fn in_words(refusal: &Refusal) -> String {
    let text = refusal.to_string();
    let rest = text.strip_prefix(&format!("{}: ", refusal.code)).unwrap_or(&text);
    match refusal.code {
        RefusalCode::Other => rest.to_owned(),
        RefusalCode::ConstantNeeded => format!("constant needed: {rest}"),
        _ => text,
    }
}
