//! The last pass: which constants the program reads and where their bytes live; unused values are dropped.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{ConstantId, DType, Error, INLINE_BYTES};

use super::graph::Graph;
use super::widen::is_narrow;
use crate::constants::Recipe;
use crate::kernels::product;
use crate::program::{Constant, Program, Source, VERSION, Value};

/// What a stored result may be larger than the original by: padding to 16 channels costs something.
const SLACK: usize = 2048;

/// The finished program. `pack` lets derived constants be stored in the place of an original.
pub(super) fn program(mut graph: Graph<'_>, pack: bool) -> Result<Program, Error> {
    graph.prune();
    let mut used = vec![false; graph.values.len()];
    let step_values = graph.steps.iter().flat_map(|step| step.inputs.iter().chain(&step.outputs).flatten().copied());
    for value in step_values.chain(graph.outputs.iter().copied()).chain(graph.region.inputs.iter().copied()) {
        used[value] = true;
    }
    let mut constants = Vec::new();
    for constant in graph.region.constants.iter().filter(|constant| used[constant.value]) {
        let value = &graph.values[constant.value];
        let source = match &constant.inline {
            Some(hex) if is_small(value, hex) => Source::Inline { id: constant.id, hex: hex.clone() },
            _ => Source::Host(constant.id),
        };
        constants.push(Constant { value: constant.value, source });
    }
    let direct: HashSet<ConstantId> =
        graph.region.constants.iter().filter(|constant| used[constant.value]).map(|constant| constant.id).collect();
    let mut derived: Vec<(usize, Recipe)> = graph.derived.iter().filter(|(value, _)| used[*value]).cloned().collect();
    for &(value, _) in graph.widened.iter().filter(|(value, _)| used[*value]) {
        derived.extend(
            graph
                .constant(value)
                .zip(elements(&graph, value))
                .map(|(constant, len)| (value, Recipe::Floats { constant: constant.id, len })),
        );
    }
    let carriers = if pack { carriers(&graph, &derived, &direct) } else { vec![None; derived.len()] };
    for ((value, recipe), carrier) in derived.into_iter().zip(carriers) {
        let (carrier, stored) = carrier.map_or((None, None), |(id, stored)| (Some(id), stored));
        constants.push(Constant { value, source: Source::Derived { recipe, carrier, stored } });
    }
    let program = Program {
        version: VERSION,
        inputs: graph.region.inputs.clone(),
        outputs: graph.outputs,
        values: graph.values,
        constants,
        steps: graph.steps,
    };
    Ok(renumber(program, &used))
}

/// Elements of a value of known shape.
fn elements(graph: &Graph<'_>, value: usize) -> Option<usize> {
    product(&graph.fixed_shape(value)?)
}

/// Integers (shapes, axes, indices) and single numbers go into the program; vectors stay with core, where other
/// regions share them.
fn is_small(value: &Value, hex: &str) -> bool {
    let counts = !value.dtype.is_float() && !value.dtype.is_asked_for();
    hex.len() <= 2 * if counts { INLINE_BYTES } else { value.dtype.unpacked_bytes() }
}

/// A constant in whose place a result is stored, and the type of 16 bits it has there if it is not stored as it is.
type Carrier = (ConstantId, Option<DType>);

/// For each derived constant the constant in whose place it is stored: one of about the same size that no other region
/// needs in another form. Where there is none the result is computed at load, and then its sources must stay, so they
/// carry nothing. Nor is anything packed from a constant that stays: it may get other elements, and the packed bytes
/// would still be made of the old ones.
fn carriers(graph: &Graph<'_>, derived: &[(usize, Recipe)], direct: &HashSet<ConstantId>) -> Vec<Option<Carrier>> {
    let shared = graph.region.constants.iter().filter(|constant| constant.shared).map(|constant| constant.id);
    let shared: HashSet<ConstantId> = shared.collect();
    let mut kept: HashSet<ConstantId> = direct.clone();
    loop {
        let mut taken = HashSet::new();
        let mut result = Vec::new();
        for (_, recipe) in derived {
            let stays = recipe.sources().iter().any(|id| kept.contains(id));
            let fits = |id: ConstantId| {
                let free = !stays && !shared.contains(&id) && !taken.contains(&id);
                let as_it_is = free && is_as_large(graph, id, recipe);
                as_it_is
                    .then_some((id, None))
                    .or_else(|| Some((id, Some(narrower(graph, id, recipe).filter(|_| free)?))))
            };
            let carrier = recipe.carriers().into_iter().find_map(fits);
            taken.extend(carrier.map(|(id, _)| id));
            result.push(carrier);
        }
        let before = kept.len();
        let lonely = derived.iter().zip(&result).filter(|(_, carrier)| carrier.is_none());
        kept.extend(lonely.flat_map(|((_, recipe), _)| recipe.sources()));
        if kept.len() == before {
            return result;
        }
    }
}

/// Whether the recipe's result takes about as many bytes as the constant does now. A splat takes one element.
pub(super) fn is_as_large(graph: &Graph<'_>, id: ConstantId, recipe: &Recipe) -> bool {
    fits_as(graph, id, recipe, recipe.dtype())
}

/// The constant's own type of 16 bits, where the recipe only puts the elements in another order: stored so they lose nothing,
/// and at load each becomes f32. What computes others may get numbers that the type does not have.
fn narrower(graph: &Graph<'_>, id: ConstantId, recipe: &Recipe) -> Option<DType> {
    let dtype = graph.view_by_id(id)?.dtype();
    let reorders = match recipe {
        Recipe::Weights { parts, .. } => parts.is_empty(),
        Recipe::Gates { .. } => true,
        _ => false,
    };
    let narrow = is_narrow(dtype) && recipe.dtype() == DType::F32;
    (reorders && narrow && fits_as(graph, id, recipe, dtype)).then_some(dtype)
}

fn fits_as(graph: &Graph<'_>, id: ConstantId, recipe: &Recipe, dtype: DType) -> bool {
    let Some(view) = graph.view_by_id(id).filter(|view| view.has_data()) else { return false };
    let elements = view.shape().iter().zip(view.strides()).filter(|(_, stride)| **stride != 0);
    let each = view.dtype().unpacked_bytes();
    let stored = elements.map(|(&size, _)| size as usize).product::<usize>() * each;
    let splat = stored < view.len() * each;
    let len = recipe.len().unwrap_or(usize::MAX);
    !splat && len.saturating_mul(dtype.unpacked_bytes()) <= stored + SLACK.max(stored / 100)
}

/// Drops unused values and renumbers the rest.
fn renumber(mut program: Program, used: &[bool]) -> Program {
    let kept: Vec<usize> = (0..used.len()).filter(|&value| used[value]).collect();
    let new: HashMap<usize, usize> = kept.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    program.values = kept.iter().map(|&value| program.values[value].clone()).collect();
    program.inputs.iter_mut().chain(&mut program.outputs).for_each(|value| *value = new[value]);
    program.constants.iter_mut().for_each(|constant| constant.value = new[&constant.value]);
    for step in &mut program.steps {
        step.inputs.iter_mut().chain(&mut step.outputs).flatten().for_each(|value| *value = new[value]);
    }
    program
}
