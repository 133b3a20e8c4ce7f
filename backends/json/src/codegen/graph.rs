//! The graph that the passes work on: steps over values, with the writer and readers of each value.

use std::cell::RefCell;
use std::collections::HashMap;

use byoc_plugin_api::{Attribute, Constant, ConstantId, Constants, DType, Dim, Region, TensorView};

use crate::constants::Recipe;
use crate::program::{Op, Step, Value};
use crate::reference::qualified;

/// Steps in topological order, over values whose first ones are the region's.
pub(super) struct Graph<'r> {
    pub(super) region: &'r Region,
    pub(super) constants: &'r Constants<'r>,
    pub(super) values: Vec<Value>,
    pub(super) steps: Vec<Step>,
    pub(super) outputs: Vec<usize>,
    /// Values that are computed from constants, with how, in ascending order.
    pub(super) derived: Vec<(usize, Recipe)>,
    /// Those of `derived` that read the same constants in the same order.
    derived_from: HashMap<Vec<ConstantId>, Vec<usize>>,
    /// Constants of 16 bits as f32: the value, and that of the constant.
    pub(super) widened: Vec<(usize, usize)>,
    /// Position of each value's constant in the region; a widened one is the same constant.
    constant_of: HashMap<usize, usize>,
}

/// Who reads a value as an output of the region.
const OUTSIDE: usize = usize::MAX;

/// Who writes and who reads values.
pub(super) struct Edges {
    /// For each value, the step that writes it.
    producers: Vec<Option<usize>>,
    /// For each value, the steps that read it, once an input; an output of the region counts as [`OUTSIDE`].
    readers: Vec<Vec<usize>>,
}

/// A graph that is searched for something to rewrite.
pub(super) struct Search<'g, 'r> {
    pub(super) graph: &'g Graph<'r>,
    edges: Edges,
    /// The steps that were looked at.
    looked_at: RefCell<Vec<usize>>,
}

/// A step to put at the place `at`, and the steps whose work it does.
pub(super) struct Rewrite {
    pub(super) at: usize,
    pub(super) step: Step,
    pub(super) gone: Vec<usize>,
}

impl Edges {
    /// The step that writes a value.
    pub(super) fn producer(&self, value: usize) -> Option<usize> {
        self.producers.get(value).copied().flatten()
    }

    /// The steps that read a value.
    pub(super) fn readers(&self, value: usize) -> Vec<usize> {
        let mut readers: Vec<_> = self.readers[value].iter().copied().filter(|&reader| reader != OUTSIDE).collect();
        readers.dedup();
        readers
    }

    /// The only reader of a value.
    pub(super) fn reader(&self, value: usize) -> Option<usize> {
        match self.readers[value][..] {
            [index] if index != OUTSIDE => Some(index),
            _ => None,
        }
    }
}

impl<'g, 'r> Search<'g, 'r> {
    /// A graph and its edges.
    pub(super) fn new(graph: &'g Graph<'r>) -> Self {
        Search { graph, edges: graph.edges(), looked_at: RefCell::default() }
    }

    /// The step that writes a value.
    pub(super) fn producer(&self, value: usize) -> Option<(usize, &'g Step)> {
        let index = self.edges.producers[value]?;
        Some((index, self.look_at(index)))
    }

    /// The node of that operator that writes a value.
    pub(super) fn node(&self, value: usize, op: &str) -> Option<(usize, &'g Step)> {
        self.producer(value).filter(|(_, step)| step.onnx() == Some(op))
    }

    /// The only reader of a value.
    pub(super) fn reader(&self, value: usize) -> Option<(usize, &'g Step)> {
        let index = self.edges.reader(value)?;
        Some((index, self.look_at(index)))
    }

    fn look_at(&self, index: usize) -> &'g Step {
        self.looked_at.borrow_mut().push(index);
        &self.graph.steps[index]
    }

    /// The operand beside a number, and the number.
    pub(super) fn with_number(&self, step: &Step) -> Option<(usize, f32)> {
        let (a, b) = (step.input(0)?, step.input(1)?);
        match (self.graph.scalar(a), self.graph.scalar(b)) {
            (None, Some(number)) => Some((a, number)),
            (Some(number), None) => Some((b, number)),
            _ => None,
        }
    }

    /// Whether only these steps read what they compute, apart from the result.
    pub(super) fn hidden(&self, steps: &[usize], result: usize) -> bool {
        let inner = steps.iter().flat_map(|&step| self.graph.steps[step].outputs.iter().flatten());
        let alone = |value: usize| self.edges.readers[value].iter().all(|reader| steps.contains(reader));
        inner.filter(|&&value| value != result).all(|&value| alone(value))
    }
}

impl<'r> Graph<'r> {
    /// One reference step for each node.
    pub(super) fn new(region: &'r Region, constants: &'r Constants<'r>) -> Self {
        let value =
            |value: &byoc_plugin_api::Value| Value { dtype: value.dtype, shape: value.shape.clone(), blocked: false };
        let step = |node: &byoc_plugin_api::Node| Step {
            name: node.name.clone(),
            op: Op::Reference { op: qualified(node), attributes: node.attributes.clone() },
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
        };
        Graph {
            region,
            constants,
            values: region.values.iter().map(value).collect(),
            steps: region.nodes.iter().map(step).collect(),
            outputs: region.outputs.clone(),
            derived: Vec::new(),
            derived_from: HashMap::new(),
            widened: Vec::new(),
            constant_of: region.constants.iter().enumerate().map(|(index, constant)| (constant.value, index)).collect(),
        }
    }

    /// The region's constant behind `value`, if it is one.
    pub(super) fn constant(&self, value: usize) -> Option<&'r Constant> {
        self.region.constants.get(*self.constant_of.get(&value)?)
    }

    /// The bytes of a constant, where they may be looked at.
    pub(super) fn view_by_id(&self, id: ConstantId) -> Option<&'r TensorView<'r>> {
        self.constants.get(id)
    }

    /// Whether the value is known at load.
    pub(super) fn is_constant(&self, value: usize) -> bool {
        self.constant(value).is_some() || self.derived.binary_search_by_key(&value, |(derived, _)| *derived).is_ok()
    }

    /// The one number that a constant holds, if it holds one.
    pub(super) fn scalar(&self, value: usize) -> Option<f32> {
        match self.region.constant_floats(self.constant(value)?.value)?.as_slice() {
            [number] => Some(*number as f32),
            _ => None,
        }
    }

    /// The elements of a small constant of floats.
    pub(super) fn floats(&self, value: usize) -> Option<Vec<f32>> {
        let value = self.constant(value)?.value;
        Some(self.region.constant_floats(value)?.into_iter().map(|number| number as f32).collect())
    }

    /// The elements of an integer constant.
    pub(super) fn ints(&self, value: usize) -> Option<Vec<i64>> {
        self.region.constant_ints(self.constant(value)?.value)
    }

    /// Whether all elements of a constant are 0, as far as may be looked.
    pub(super) fn is_zero(&self, value: usize) -> bool {
        let Some(view) = self.constant(value).and_then(|constant| self.view_by_id(constant.id)) else { return false };
        let mut zero = view.has_data();
        if zero {
            view.for_each_element(|bytes| zero &= bytes.iter().all(|&byte| byte == 0));
        }
        zero
    }

    /// Whether a step reads the value, or it leaves the region.
    pub(super) fn is_read(&self, value: usize) -> bool {
        self.outputs.contains(&value) || self.steps.iter().any(|step| step.inputs.contains(&Some(value)))
    }

    /// The shape of a value.
    pub(super) fn shape(&self, value: usize) -> &[Dim] {
        &self.values[value].shape
    }

    /// The shape of a value in numbers, if they are all known.
    pub(super) fn fixed_shape(&self, value: usize) -> Option<Vec<usize>> {
        self.values[value].shape.iter().map(Dim::fixed).collect()
    }

    /// Whether the value holds f32 and is not known to be empty: what the fast kernels take.
    pub(super) fn is_fast(&self, value: usize) -> bool {
        let value = &self.values[value];
        value.dtype == DType::F32 && !value.shape.contains(&Dim::Fixed(0))
    }

    /// A new value.
    pub(super) fn add_value(&mut self, dtype: DType, shape: Vec<Dim>, blocked: bool) -> usize {
        self.values.push(Value { dtype, shape, blocked });
        self.values.len() - 1
    }

    /// The value that a recipe makes; the same recipe gives the same value. `None` where code could not hold the recipe.
    pub(super) fn derive(&mut self, recipe: Recipe) -> Option<usize> {
        let sources = recipe.sources();
        let alike = self.derived_from.get(&sources).into_iter().flatten();
        if let Some((value, _)) = alike.map(|&index| &self.derived[index]).find(|(_, known)| *known == recipe) {
            return Some(*value);
        }
        recipe.check().ok()?;
        let value = self.add_value(recipe.dtype(), vec![Dim::Fixed(recipe.len()?)], false);
        self.derived_from.entry(sources).or_default().push(self.derived.len());
        self.derived.push((value, recipe));
        Some(value)
    }

    /// What numbers of constants may be off by in proportion, as their types of 16 bits round; 0 where there are none.
    pub(super) fn rounding(&self) -> f32 {
        let bits = |&(_, constant): &(usize, usize)| match self.values[constant].dtype {
            DType::F16 => 2f32.powi(-11),
            _ => 2f32.powi(-8),
        };
        self.widened.iter().map(bits).fold(0.0, f32::max)
    }

    /// A new value: the elements of a constant of 16 bits as f32.
    pub(super) fn widen(&mut self, constant: usize) -> usize {
        let value = self.add_value(DType::F32, self.values[constant].shape.clone(), false);
        if let Some(&position) = self.constant_of.get(&constant) {
            self.constant_of.insert(value, position);
        }
        self.widened.push((value, constant));
        value
    }

    /// For each value the step that writes it, as things are now.
    pub(super) fn producers(&self) -> Vec<Option<usize>> {
        self.edges().producers
    }

    /// Who writes and who reads each value, as things are now.
    pub(super) fn edges(&self) -> Edges {
        let mut edges =
            Edges { producers: vec![None; self.values.len()], readers: vec![Vec::new(); self.values.len()] };
        for (index, step) in self.steps.iter().enumerate() {
            step.outputs.iter().flatten().for_each(|&value| edges.producers[value] = Some(index));
            step.inputs.iter().flatten().for_each(|&value| edges.readers[value].push(index));
        }
        self.outputs.iter().for_each(|&value| edges.readers[value].push(OUTSIDE));
        edges
    }

    /// Applies a rewrite wherever `find` sees one, until it sees none.
    pub(super) fn rewrite(&mut self, find: impl Fn(&Search<'_, 'r>, usize) -> Option<Rewrite>) {
        loop {
            let found = self.independent(&find);
            if found.is_empty() {
                return;
            }
            self.apply(found);
            self.prune();
        }
    }

    /// Rewrites that `find` sees, none of which changes what another one looked at: so they may be applied together.
    fn independent(&self, find: &impl Fn(&Search<'_, 'r>, usize) -> Option<Rewrite>) -> Vec<Rewrite> {
        let search = Search::new(self);
        let [mut looked, mut changed] = [vec![false; self.steps.len()], vec![false; self.steps.len()]];
        let mut found = Vec::new();
        for index in 0..self.steps.len() {
            search.looked_at.replace(vec![index]);
            let Some(rewrite) = find(&search, index) else { continue };
            let changes = || rewrite.gone.iter().chain([&rewrite.at]).copied();
            let seen = search.looked_at.take();
            if seen.iter().all(|&step| !changed[step]) && changes().all(|step| !looked[step] && !changed[step]) {
                seen.into_iter().for_each(|step| looked[step] = true);
                changes().for_each(|step| changed[step] = true);
                found.push(rewrite);
            }
        }
        found
    }

    /// Puts steps in the place of others.
    pub(super) fn apply(&mut self, rewrites: impl IntoIterator<Item = Rewrite>) {
        let mut keep = vec![true; self.steps.len()];
        for Rewrite { at, step, gone } in rewrites {
            self.steps[at] = step;
            gone.into_iter().for_each(|index| keep[index] = index == at);
        }
        let mut keep = keep.into_iter();
        self.steps.retain(|_| keep.next() == Some(true));
    }

    /// Removes dead steps.
    pub(super) fn prune(&mut self) {
        let mut needed = vec![false; self.values.len()];
        self.outputs.iter().for_each(|&value| needed[value] = true);
        let mut keep = vec![false; self.steps.len()];
        for (index, step) in self.steps.iter().enumerate().rev() {
            keep[index] = step.outputs.iter().flatten().any(|&value| needed[value]);
            if keep[index] {
                step.inputs.iter().flatten().for_each(|&value| needed[value] = true);
            }
        }
        let mut keep = keep.into_iter();
        self.steps.retain(|_| keep.next() == Some(true));
    }
}

impl Step {
    /// The operator's name, if the step is still an ONNX node.
    pub(super) fn onnx(&self) -> Option<&str> {
        match &self.op {
            Op::Reference { op, .. } => Some(op),
            _ => None,
        }
    }

    fn attribute(&self, name: &str) -> Option<&Attribute> {
        match &self.op {
            Op::Reference { attributes, .. } => attributes.get(name),
            _ => None,
        }
    }

    /// An integer attribute of a node, or `default`.
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }

    /// A float attribute of a node, or `default`.
    pub(super) fn float(&self, name: &str, default: f32) -> f32 {
        match self.attribute(name) {
            Some(Attribute::Float(value)) => *value,
            _ => default,
        }
    }

    /// A list attribute of a node.
    pub(super) fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }

    /// A list of texts of a node.
    pub(super) fn texts(&self, name: &str) -> Option<&[String]> {
        match self.attribute(name) {
            Some(Attribute::Strings(values)) => Some(values),
            _ => None,
        }
    }

    /// Whether a node has the attribute.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// A text attribute of a node, or `default`.
    pub(super) fn text(&self, name: &str, default: &'static str) -> &str {
        match self.attribute(name) {
            Some(Attribute::String(value)) => value,
            _ => default,
        }
    }
}
