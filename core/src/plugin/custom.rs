//! The custom operators of the backends that the user chose.

use byoc_plugin_api::Operator;

use super::Selected;
use crate::ir::{CustomOperator, CustomOperators};

/// What the backends bring, in their order.
pub fn custom_operators(backends: &[Selected]) -> CustomOperators {
    let brought = |selected: &Selected| -> Vec<CustomOperator> {
        let of = |operator: &Operator| CustomOperator {
            operator: operator.clone(),
            backend: selected.name().to_owned(),
            source: selected.registered.backend.clone(),
            options: selected.options.clone(),
        };
        selected.registered.description.operators.iter().map(of).collect()
    };
    let names = backends.iter().map(|selected| selected.name().to_owned()).collect();
    CustomOperators::new(names, backends.iter().flat_map(brought).collect())
}
