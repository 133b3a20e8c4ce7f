//! The custom operators of the backends that the user chose.

use byoc_plugin_api::{Description, Operator};

use super::{Registered, Selected};
use crate::ir::{CustomOperator, CustomOperators};

/// What the backends bring, in their order; with what others of those that were found would bring.
pub(crate) fn custom_operators_among(backends: &[Selected], found: &[Registered]) -> CustomOperators {
    let others = found.iter().filter(|one| backends.iter().all(|selected| selected.name() != one.description.name));
    let brought = |one: &Registered| -> Vec<(String, Operator)> {
        let Description { name, operators, .. } = &one.description;
        operators.iter().map(|operator| (name.clone(), operator.clone())).collect()
    };
    custom_operators(backends).with_elsewhere(others.flat_map(brought).collect())
}

/// What the backends bring, in their order.
pub fn custom_operators(backends: &[Selected]) -> CustomOperators {
    let brought = |selected: &Selected| -> Vec<CustomOperator> {
        let of = |operator: &Operator| CustomOperator {
            operator: operator.clone(),
            backend: selected.name().to_owned(),
            source: selected.registered.backend.clone(),
            options: selected.options.clone(),
            types: selected.registered.description.types.clone(),
        };
        selected.registered.description.operators.iter().map(of).collect()
    };
    let names = backends.iter().map(|selected| selected.name().to_owned()).collect();
    CustomOperators::new(names, backends.iter().flat_map(brought).collect())
}
