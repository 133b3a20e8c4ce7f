//! Custom operators: those that backends of the list bring beside the ones that core knows.

use std::sync::Arc;

use byoc_plugin_api::{Backend, Operator, Options};

/// What is known of operators that core does not know.
#[derive(Clone, Default)]
pub struct CustomOperators {
    brought: Arc<[CustomOperator]>,
    backends: Vec<String>,
    /// Whether operators that nobody knows stay in the graph, without types.
    keeps_unknown: bool,
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
}

impl CustomOperators {
    /// Those of backends with these names, in the order of the list. Of two that bring one operator the first counts.
    pub(crate) fn new(backends: Vec<String>, brought: Vec<CustomOperator>) -> CustomOperators {
        CustomOperators { brought: brought.into(), backends, keeps_unknown: false }
    }

    /// For who looks at a model without compiling it: a node of any operator is kept.
    pub fn any() -> CustomOperators {
        CustomOperators { keeps_unknown: true, ..CustomOperators::default() }
    }

    /// Whether operators that nobody knows stay in the graph.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.keeps_unknown
    }

    /// The names of the backends that could have brought an operator.
    pub(crate) fn backends(&self) -> &[String] {
        &self.backends
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
