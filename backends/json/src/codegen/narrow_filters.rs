//! Filters of convolutions are stored and read in 16 bits: those that the model has so, and those of f32 where the user asked for that. All
//! steps that read them must read them so, for they are stored once. What a normalisation would fold into a model's own filters of 16 bits
//! is not rounded: it becomes factors by which the kernel multiplies.

use byoc_plugin_api::{DType, Error};

use super::graph::Graph;
use super::settle::is_as_large;
use super::widen::{is_narrow, stays_finite};
use crate::constants::{Part, Recipe};
use crate::program::Op;

/// `rounded` is the type of 16 bits that f32 becomes.
pub(super) fn run(graph: &mut Graph<'_>, rounded: Option<DType>) {
    let edges = graph.edges();
    for (value, recipe) in graph.derived.clone() {
        let Some((recipe, factors)) = narrow(graph, recipe, rounded) else { continue };
        let readers = edges.readers(value);
        let takes = |&reader: &usize| {
            let step = &graph.steps[reader];
            match (&step.op, step.only_place(value)) {
                (Op::Conv(_), place) => place == Some(1),
                (Op::ScaleFilters { .. }, place) => place == Some(0) && factors.is_none(),
                _ => false,
            }
        };
        if readers.is_empty() || graph.outputs.contains(&value) || !readers.iter().all(takes) {
            continue;
        }
        let Some(filters) = graph.derive(recipe) else { continue };
        let factors = factors.and_then(|recipe| graph.derive(recipe));
        for reader in readers {
            let step = &mut graph.steps[reader];
            step.inputs.iter_mut().filter(|input| **input == Some(value)).for_each(|input| *input = Some(filters));
            if factors.is_some() {
                step.inputs.resize(5, None);
                step.inputs[4] = factors;
            }
        }
    }
}

/// How filters of f32 are made in 16 bits, if they can be, and the factors that they then have.
fn narrow(graph: &Graph<'_>, recipe: Recipe, rounded: Option<DType>) -> Option<(Recipe, Option<Recipe>)> {
    let Recipe::Weights { weights, kind, shape, group, parts, dtype: DType::F32 } = recipe else { return None };
    let view = graph.view_by_id(weights)?;
    let shared = graph.region.constants.iter().any(|constant| constant.id == weights && constant.shared);
    if shared || !kind.takes_narrow() {
        return None;
    }
    let of_type = |parts: Vec<Part>, dtype| Recipe::Weights { weights, kind, shape, group, parts, dtype };
    let (recipe, factors) = match (is_narrow(view.dtype()), rounded) {
        (true, _) => {
            let factors = (!parts.is_empty()).then_some(Recipe::Scale { channels: shape[0], parts });
            (of_type(Vec::new(), view.dtype()), factors)
        }
        (false, Some(dtype)) => {
            let recipe = of_type(parts, dtype);
            let given = |id| graph.constants.get(id).copied().ok_or_else(|| Error::new("a constant was not given"));
            if !recipe.all_filters(&given, |weight| stays_finite(weight, dtype)) {
                return None;
            }
            (recipe, None)
        }
        (false, None) => return None,
    };
    let there = factors.as_ref().is_none_or(|factors| factors.check().is_ok());
    (there && is_as_large(graph, weights, &recipe)).then_some((recipe, factors))
}
