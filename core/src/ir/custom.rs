//! Custom operators: those that backends of the list bring beside the ones that core knows.

use std::collections::BTreeSet;
use std::sync::Arc;

use byoc_plugin_api::{Backend, DType, Operator, Options};

/// What is known of operators that core does not know.
#[derive(Clone, Default)]
pub struct CustomOperators {
    brought: Arc<[CustomOperator]>,
    backends: Vec<String>,
    /// What backends beside the list bring, with their names.
    elsewhere: Arc<[(String, Operator)]>,
    /// Whether operators that nobody knows stay in the graph, without types.
    keeps_unknown: bool,
    calls: KeptCalls,
}

/// Which calls of the models' own functions stay nodes.
#[derive(Clone)]
enum KeptCalls {
    /// Those of operators that a backend brings, but for these, as (entry, node): nobody takes them.
    Brought { but: BTreeSet<(String, String)> },
    /// Those of these names.
    Named(BTreeSet<String>),
}

impl Default for KeptCalls {
    fn default() -> KeptCalls {
        KeptCalls::Brought { but: BTreeSet::new() }
    }
}

/// A custom operator, and the backend that brings it.
#[derive(Clone)]
pub struct CustomOperator {
    /// What the backend says of it.
    pub operator: Operator,
    /// The backend's name.
    pub backend: String,
    /// Gives the types of outputs without a rule.
    pub(crate) source: Arc<dyn Backend>,
    /// The backend's options.
    pub(crate) options: Options,
    /// The element types that the backend knows beside those that all know.
    pub(crate) types: Vec<DType>,
}

impl CustomOperators {
    /// Those of backends with these names, in the order of the list. Of two that bring one operator the first counts.
    pub(crate) fn new(backends: Vec<String>, brought: Vec<CustomOperator>) -> CustomOperators {
        CustomOperators { brought: brought.into(), backends, ..CustomOperators::default() }
    }

    /// For who looks at a model without compiling it: a node of any operator is kept.
    pub fn any() -> CustomOperators {
        CustomOperators { keeps_unknown: true, ..CustomOperators::default() }
    }

    /// The same, knowing what backends that are not in the list bring.
    pub(crate) fn with_elsewhere(self, elsewhere: Vec<(String, Operator)>) -> CustomOperators {
        CustomOperators { elsewhere: elsewhere.into(), ..self }
    }

    /// A backend beside the list that brings the operator.
    pub(crate) fn brought_elsewhere(&self, domain: &str, name: &str, version: i64) -> Option<&str> {
        let brings = |own: &Operator| own.domain == domain && own.name == name && own.holds_in(version);
        self.elsewhere.iter().find(|(_, own)| brings(own)).map(|(backend, _)| backend.as_str())
    }

    /// The same where no calls of functions but those of these names stay nodes.
    pub(crate) fn with_calls(self, names: BTreeSet<String>) -> CustomOperators {
        CustomOperators { calls: KeptCalls::Named(names), ..self }
    }

    /// Whether operators that nobody knows stay in the graph.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.keeps_unknown
    }

    /// The names of the backends that could have brought an operator.
    pub(crate) fn backends(&self) -> &[String] {
        &self.backends
    }

    /// Marks calls, as (entry, node), to be replaced by the bodies of their functions, whatever backends bring.
    pub(crate) fn expand(&mut self, calls: impl Iterator<Item = (String, String)>) {
        if let KeptCalls::Brought { but } = &mut self.calls {
            but.extend(calls);
        }
    }

    /// Whether the call `node` of a function stays a node. The version is the one that is imported, if any is.
    pub(crate) fn keeps_call(&self, (entry, node): (&str, &str), op: (&str, &str), version: Option<i64>) -> bool {
        match &self.calls {
            KeptCalls::Brought { but } => {
                version.is_some_and(|version| self.find(op.0, op.1, Some(version)).is_some())
                    && !but.contains(&(entry.to_owned(), node.to_owned()))
            }
            KeptCalls::Named(names) => names.contains(node),
        }
    }

    /// The operator in that version of its operator set; in any version where it is not known.
    pub fn find(&self, domain: &str, name: &str, version: Option<i64>) -> Option<&CustomOperator> {
        self.versions(domain, name).find(|brought| version.is_none_or(|version| brought.operator.holds_in(version)))
    }

    /// The forms of an operator over its versions.
    pub(crate) fn versions(&self, domain: &str, name: &str) -> impl Iterator<Item = &CustomOperator> {
        self.brought.iter().filter(move |it| it.operator.domain == domain && it.operator.name == name)
    }
}

impl std::fmt::Debug for CustomOperators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names =
            self.brought.iter().map(|it| format!("{} {}::{}", it.backend, it.operator.domain, it.operator.name));
        f.debug_list().entries(names).finish()
    }
}
