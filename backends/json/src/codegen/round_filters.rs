//! Filters of convolutions are rounded to 8 bits where the user asked for that: all steps that read them must be convolutions by them, for
//! they are stored once, and each must be a number that can be scaled.

use byoc_plugin_api::Error;

use super::graph::Graph;
use crate::constants::Recipe;
use crate::kernels::{ConvKind, fits_int8};
use crate::program::Op;

pub(super) fn run(graph: &mut Graph<'_>) {
    let edges = graph.edges();
    for (value, recipe) in graph.derived.clone() {
        let Recipe::Weights { weights, kind: ConvKind::Blocked, shape, group: 1, parts, .. } = recipe else { continue };
        let shared = graph.region.constants.iter().any(|constant| constant.id == weights && constant.shared);
        let readers = edges.readers(value);
        let are_filters = |&reader: &usize| {
            let step = &graph.steps[reader];
            matches!(step.op, Op::Conv(_)) && step.only_place(value) == Some(1)
        };
        if shared || graph.outputs.contains(&value) || !readers.iter().all(are_filters) {
            continue;
        }
        let rounded = Recipe::Rounded { weights, shape, parts };
        let constants = graph.constants;
        let view = |id| constants.get(id).copied().ok_or_else(|| Error::new(format!("constant {id} was not given")));
        if !rounded.all_filters(&view, fits_int8) {
            continue;
        }
        let Some(filters) = graph.derive(rounded) else { continue };
        for reader in readers {
            let step = &mut graph.steps[reader];
            step.inputs[1] = Some(filters);
            if let Op::Conv(conv) = &mut step.op {
                conv.rounded = true;
            }
        }
    }
}
