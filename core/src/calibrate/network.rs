//! The part of an entry that makes the watched values, compiled for a host backend and run sample by sample.

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{DType, Error, Executable, Value};

use super::Input;
use crate::compute::{Compiled, Tensor};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, Model, TypedModel, ValueId};
use crate::partition::{self, Crashes, Partitioned, RegionPlan};
use crate::plugin::{Selected, crashed};
use crate::spool::Spool;

/// A sample as messages have it.
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) dataset: &'a str,
}

/// The nodes that make the watched values, in regions of the host backend.
pub(super) struct Network<'a> {
    host: &'a Selected,
    part: Partitioned,
    inputs: Vec<Input>,
    watched: Vec<ValueId>,
}

/// A network that is ready to run, with the tensors of its last run.
pub(super) struct Loaded<'n> {
    pub(super) network: &'n Network<'n>,
    executables: Vec<Box<dyn Executable + 'n>>,
    tensors: HashMap<ValueId, Tensor>,
}

impl<'a> Network<'a> {
    /// The part of an entry that makes the `wanted` values. Errors name what has no fixed shape, and nodes that the host
    /// backend does not take.
    pub(super) fn new(
        model: &Model,
        entry: usize,
        wanted: &BTreeSet<ValueId>,
        host: &'a Selected,
    ) -> Result<Network<'a>> {
        let graph = part_for(&model.entries[entry], wanted);
        require_no_control(&graph)?;
        require_fixed(&graph)?;
        let inputs = graph.inputs.iter().map(|&input| port(&graph, input)).collect();
        let model = Model { entries: vec![graph], constants: model.constants.clone(), ..Model::default() };
        let hosts = std::slice::from_ref(host);
        let part = partition::partition(TypedModel(model.into()), hosts, &Crashes::default())?;
        part.require_complete(hosts).map_err(|error| {
            let hint =
                "What a calibrated region depends on has to run on a host backend: end the list with one that takes it";
            Diagnostic::new(Code::Calibration, error.message).within("calibration").hint(hint)
        })?;
        // In the order in which they are computed, so that the first value that is not finite is where it began.
        let made = part.regions.iter().flat_map(|plan| &plan.outputs);
        let all = part.model.entries[0].inputs.iter().chain(made).copied();
        let watched = all.filter(|value| wanted.contains(value)).collect();
        Ok(Network { host, part, inputs, watched })
    }

    /// What a sample is made of.
    pub(super) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The watched values.
    pub(super) fn watched(&self) -> &[ValueId] {
        &self.watched
    }

    /// Index of an input among the watched values, if it is one.
    pub(super) fn watched_input(&self, input: usize) -> Option<usize> {
        let id = self.graph().inputs[input];
        self.watched.iter().position(|&value| value == id)
    }

    /// The code of its regions. What the host backend packs goes to `spool`.
    pub(super) fn compile(&self, spool: &mut Spool) -> Result<Vec<Compiled<'_>>> {
        let table = &self.part.model.constants;
        let compile = |plan| Compiled::new(table, plan, self.host, spool, &|error| self.failed(error, None));
        self.part.regions.iter().map(compile).collect()
    }

    /// Makes it ready to run.
    pub(super) fn load<'n>(&'n self, compiled: &'n [Compiled<'n>]) -> Result<Loaded<'n>> {
        let executables = compiled.iter().map(Compiled::load).collect::<std::result::Result<_, _>>();
        let executables = executables.map_err(|error| self.failed(error, None))?;
        let ports = self.graph().inputs.iter().copied().map(|id| (id, value(self.graph(), id)));
        let made = self.part.regions.iter().flat_map(|plan| {
            plan.outputs.iter().copied().zip(plan.region.outputs.iter().map(|&index| plan.region.values[index].clone()))
        });
        let tensors = ports.chain(made).map(|(id, value)| Ok((id, Tensor::zeros(&value)?)));
        let tensors = tensors.collect::<std::result::Result<_, Error>>();
        Ok(Loaded { network: self, executables, tensors: tensors.map_err(|error| self.failed(error, None))? })
    }

    /// The error for an element of a watched value that is not finite.
    pub(super) fn not_finite(&self, index: usize, element: f32, sample: &Sample<'_>) -> Diagnostic {
        let id = self.watched[index];
        let name = &self.graph().value(id).name;
        let Sample { name: file, dataset } = sample;
        if self.graph().inputs.contains(&id) {
            let message = format!("input '{name}' holds {element} in sample '{file}' of the data set '{dataset}'");
            return Diagnostic::new(Code::BadInput, message).hint("Leave the sample out, or make its numbers finite");
        }
        let message = format!("value '{name}' becomes {element} on sample '{file}' of the data set '{dataset}'");
        Diagnostic::new(Code::Calibration, message)
            .hint("Is the sample scaled as the model wants it? A range must be finite")
    }

    fn graph(&self) -> &Graph {
        &self.part.model.entries[0]
    }

    fn failed(&self, error: Error, sample: Option<&Sample<'_>>) -> Diagnostic {
        if error.crashed {
            return crashed("calibration", self.host.name(), &error, "it ran");
        }
        let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
        let sample = sample.map(|sample| format!(" on sample '{}'", sample.name)).unwrap_or_default();
        let message = format!("calibration on backend '{}' failed{sample}{node}: {}", self.host.name(), error.message);
        Diagnostic { code: Code::Calibration, message, hint: error.hint }
    }
}

impl Loaded<'_> {
    /// Runs the network on a sample: one tensor for each of [`Network::inputs`].
    pub(super) fn run(&mut self, given: Vec<Vec<u8>>, sample: &Sample<'_>) -> Result<()> {
        let network = self.network;
        let inputs = &network.graph().inputs;
        let mut fits = given.len() == inputs.len();
        for (id, bytes) in inputs.iter().zip(given) {
            fits &= self.tensors.get_mut(id).is_some_and(|tensor| tensor.fill(&bytes));
        }
        if !fits {
            let message = format!("sample '{}' of the data set '{}' does not fit", sample.name, sample.dataset);
            return Err(Diagnostic::new(Code::BadInput, message));
        }
        for (plan, executable) in network.part.regions.iter().zip(&mut self.executables) {
            call(plan, executable.as_mut(), &mut self.tensors).map_err(|error| network.failed(error, Some(sample)))?;
        }
        Ok(())
    }

    /// The elements that a watched value has now.
    pub(super) fn values(&self, value: ValueId) -> &[f32] {
        self.tensors.get(&value).and_then(|tensor| tensor.view().as_slice()).unwrap_or_default()
    }
}

/// Runs one region. Its outputs leave the map meanwhile, so that the inputs can be borrowed from it.
fn call(
    plan: &RegionPlan,
    executable: &mut dyn Executable,
    tensors: &mut HashMap<ValueId, Tensor>,
) -> std::result::Result<(), Error> {
    let mut outputs: Vec<_> = plan.outputs.iter().filter_map(|id| tensors.remove_entry(id)).collect();
    let inputs: Vec<_> = plan.inputs.iter().filter_map(|id| tensors.get(id)).map(Tensor::view).collect();
    let mut views: Vec<_> = outputs.iter_mut().map(|(_, tensor)| tensor.view_mut()).collect();
    let done = executable.run(&inputs, &mut views);
    drop(views);
    tensors.extend(outputs);
    done
}

/// What the wanted values are computed from, with them as outputs.
fn part_for(graph: &Graph, wanted: &BTreeSet<ValueId>) -> Graph {
    let producers = graph.producers();
    let mut needed = BTreeSet::new();
    let mut read = wanted.clone();
    let mut open: Vec<_> = wanted.iter().copied().collect();
    while let Some(value) = open.pop() {
        if let Some(node) = producers[value.0].filter(|&node| needed.insert(node)) {
            open.extend(graph.nodes[node].inputs.iter().flatten());
            read.extend(graph.nodes[node].inputs.iter().flatten());
        }
    }
    Graph {
        name: graph.name.clone(),
        values: graph.values.clone(),
        nodes: needed.iter().map(|&node| graph.nodes[node].clone()).collect(),
        inputs: graph.inputs.iter().copied().filter(|input| read.contains(input)).collect(),
        outputs: wanted.iter().copied().collect(),
        body_of: graph.body_of.clone(),
        ..Graph::default()
    }
}

/// Errors where a value comes from control flow or is in a body: how often it is computed differs from sample to sample.
fn require_no_control(graph: &Graph) -> Result<()> {
    let node = graph.nodes.iter().find(|node| graph.is_run_by_core(node)).map(|node| node.name.as_str());
    let Some(place) = node.or(graph.body_of.is_some().then_some(graph.name.as_str())) else { return Ok(()) };
    let message = format!("calibration cannot watch what is in control flow or behind it, and '{place}' is");
    Err(Diagnostic::new(Code::Calibration, message).hint("Leave out of --backend what needs a data set there"))
}

/// Errors where a value that is computed has a size that is known only at run time: its range would be that of the sizes
/// that the samples happen to have.
fn require_fixed(graph: &Graph) -> Result<()> {
    let made = graph.nodes.iter().flat_map(|node| node.outputs.iter().flatten());
    for &id in graph.inputs.iter().chain(made) {
        let value = graph.value(id);
        if let Some(ty) = value.ty.as_ref().filter(|ty| ty.fixed_shape().is_none()) {
            let message = format!("calibration needs fixed sizes, and value '{}' is {ty}", value.name);
            // Inputs come first.
            let hint = match graph.inputs.contains(&id) {
                true => "Fix the open sizes with --shape or --dim, as in --dim batch=1",
                false => "Only a run tells that size: leave out of --backend what needs a data set behind it",
            };
            return Err(Diagnostic::new(Code::Calibration, message).hint(hint));
        }
    }
    Ok(())
}

fn value(graph: &Graph, id: ValueId) -> Value {
    let value = graph.value(id);
    let (dtype, shape) = value.ty.as_ref().map_or((DType::F32, vec![]), |ty| (ty.dtype, ty.shape.clone()));
    Value { name: value.name.clone(), dtype, shape }
}

fn port(graph: &Graph, id: ValueId) -> Input {
    let value = value(graph, id);
    Input { shape: value.fixed_shape().unwrap_or_default(), name: value.name, dtype: value.dtype }
}
