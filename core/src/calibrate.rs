//! Calibration: ranges and histograms of a region's tensors while the model runs over the user's samples. Quantising
//! backends choose their scales from them; core observes for all of them alike, and no backend sees the samples.

mod histogram;
mod network;

use std::collections::{BTreeSet, HashMap};

use byoc_plugin_api::{DType, Observed};

use self::histogram::{Histogram, Range};
use self::network::{Loaded, Network, Sample};
use crate::atomic_file::Scratch;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Graph, TypedModel, ValueId};
use crate::partition::{Partitioned, RegionPlan};
use crate::plugin::Selected;
use crate::spool::Spool;

/// Equal parts of the range of a value that its histogram counts.
pub const PARTS: usize = 2048;

/// An input of a model, as samples are to give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<usize>,
}

/// A calibration data set.
pub trait Dataset {
    /// What the user calls it, such as its path.
    fn name(&self) -> String;

    /// The samples for a model that takes these inputs; there may be data for others as well. Errors where the data does
    /// not fit them. `warn` gets warnings.
    fn open(&self, inputs: &[Input], warn: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>>;
}

/// The samples of a data set for one model.
pub trait Samples {
    /// How many there are.
    fn count(&self) -> usize;

    /// What the user calls a sample, such as its file.
    fn name(&self, sample: usize) -> String;

    /// The tensors of a sample, one for each input in their order: row-major, little-endian. Each is asked for more than
    /// once, and is the same each time.
    fn load(&self, sample: usize) -> Result<Vec<Vec<u8>>>;

    /// The range that the values of an input have by their nature, whatever the samples show: for an image, what the
    /// darkest and the brightest pixel become. Finite.
    fn declared(&self, _input: usize) -> Option<(f32, f32)> {
        None
    }
}

/// A progress report or a warning of calibration.
pub(crate) enum Event<'a> {
    /// `done` of `total` steps, and the next one.
    Progress(usize, usize, &'a str),
    /// A warning.
    Warning(Diagnostic),
}

/// The inputs of calibration.
pub(crate) struct Setting<'a> {
    /// The backends, in the user's order.
    pub(crate) backends: &'a [Selected],
    /// Runs the model as it is.
    pub(crate) host: Option<&'a Selected>,
    /// The user's data.
    pub(crate) dataset: Option<&'a dyn Dataset>,
    /// Where packed constants of the host backend are spooled.
    pub(crate) scratch: &'a Scratch,
    /// The model with the functions' bodies in place of all calls, which no host backend need know: the values of an entry that
    /// have these names are in it.
    pub(crate) expanded: &'a dyn Fn(&str, &BTreeSet<String>) -> Result<TypedModel>,
}

/// Observations of values, by entry and name: kept across repartitioning, because a run over the data is slow.
#[derive(Default)]
pub(crate) struct Observations {
    seen: HashMap<(usize, String), Observed>,
    /// Whether the data set was used, or its being unused was reported.
    settled: bool,
}

/// Fills [`byoc_plugin_api::Region::observed`] of every region whose backend wants it, from two runs over the data set:
/// one for the ranges, one for the histograms. Values with observations are not run for again. Without a data set regions in
/// which tensors are quantised have no observations; other regions whose backend wants them are an error.
pub(crate) fn calibrate(
    partitioned: &mut Partitioned,
    setting: &Setting<'_>,
    observations: &mut Observations,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    let wants = |plan: &RegionPlan| setting.backends[plan.backend].registered.description.calibration;
    if !partitioned.regions.iter().any(wants) {
        if let Some(dataset) = setting.dataset.filter(|_| !std::mem::replace(&mut observations.settled, true)) {
            tell(Event::Warning(unused(dataset)));
        }
        return Ok(());
    }
    let Some(dataset) = setting.dataset else {
        // A model that is quantised has scales of its own; where they are not enough, the backend says for what.
        let unscaled = partitioned.regions.iter().find(|plan| wants(plan) && plan.region.quantized.is_empty());
        return unscaled.map_or(Ok(()), |plan| Err(needs_dataset(plan, setting)));
    };
    let host = setting.host.ok_or_else(no_host)?;
    observations.settled = true;
    for entry in 0..partitioned.model.entries.len() {
        let graph = &partitioned.model.entries[entry];
        let plans = partitioned.regions.iter().filter(|plan| plan.entry == entry && wants(plan));
        let names = plans.flat_map(|plan| watched(graph, plan)).map(|(value, _)| graph.value(value).name.clone());
        let wanted: BTreeSet<_> =
            names.filter(|name| !observations.seen.contains_key(&(entry, name.clone()))).collect();
        if wanted.is_empty() {
            continue;
        }
        let has_calls = graph.nodes.iter().any(|node| graph.calls.contains(&node.name));
        let expanded = has_calls.then(|| (setting.expanded)(&graph.name, &wanted)).transpose()?;
        let model = expanded.as_ref().map_or(&*partitioned.model, TypedModel::model);
        // Expanded bodies may have changed the number of graphs before it.
        let place = model.entries.iter().position(|other| other.name == graph.name).unwrap_or(entry);
        let values = &model.entries[place].values;
        let found: BTreeSet<_> =
            (0..values.len()).filter(|&index| wanted.contains(&values[index].name)).map(ValueId).collect();
        let names: BTreeSet<&str> = found.iter().map(|id| values[id.0].name.as_str()).collect();
        if let Some(lost) = wanted.iter().find(|name| !names.contains(name.as_str())) {
            let message = format!("'{lost}' is not a value of the model with the bodies of its functions");
            return Err(Diagnostic::new(Code::Calibration, message).hint("This is a bug in byoc; please report it"));
        }
        let wanted = found;
        let network = Network::new(model, place, &wanted, host)?;
        let compiled = network.compile(&mut Spool::new(setting.scratch)?)?;
        let seen = watch(&mut network.load(&compiled)?, dataset, tell)?;
        let named = seen.into_iter().map(|(value, observed)| ((entry, values[value.0].name.clone()), observed));
        observations.seen.extend(named);
    }
    let Partitioned { model, regions, .. } = partitioned;
    for plan in regions.iter_mut().filter(|plan| wants(plan)) {
        let graph = &model.entries[plan.entry];
        let of = |(id, value)| {
            let seen = observations.seen.get(&(plan.entry, graph.value(id).name.clone()))?;
            Some(Observed { value, ..seen.clone() })
        };
        let mut observed: Vec<_> = watched(graph, plan).into_iter().filter_map(of).collect();
        observed.sort_unstable_by_key(|observed| observed.value);
        plan.region.observed = observed;
    }
    Ok(())
}

/// The observed tensors of a region: in the entry's graph, and the region's number of each.
fn watched(graph: &Graph, plan: &RegionPlan) -> BTreeSet<(ValueId, usize)> {
    let nodes = plan.nodes.iter().map(|&node| &graph.nodes[node]).zip(&plan.region.nodes);
    let ports = nodes.flat_map(|(node, cut)| {
        let inputs = node.inputs.iter().zip(&cut.inputs);
        inputs.chain(node.outputs.iter().zip(&cut.outputs)).filter_map(|(id, index)| Some(((*id)?, (*index)?)))
    });
    let changes = |&(id, index): &(ValueId, usize)| {
        graph.value(id).constant.is_none() && plan.region.values[index].dtype == DType::F32
    };
    ports.filter(changes).collect()
}

/// Runs the network over all samples, once for the range of each value and once more for its histogram.
fn watch(
    loaded: &mut Loaded<'_>,
    dataset: &dyn Dataset,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<(ValueId, Observed)>> {
    let (network, name) = (loaded.network, dataset.name());
    let samples = dataset.open(network.inputs(), &mut |warning| tell(Event::Warning(warning)))?;
    if samples.count() == 0 {
        return Err(Diagnostic::new(Code::BadInput, format!("the data set '{name}' has no samples")));
    }
    let mut pass = Pass { loaded, samples: samples.as_ref(), dataset: &name, done: 0 };
    let mut ranges = vec![Range::default(); network.watched().len()];
    pass.run(tell, &mut |index, values, sample| {
        ranges[index].widen(values).map_err(|element| network.not_finite(index, element, sample))
    })?;
    for input in 0..network.inputs().len() {
        if let (Some(watched), Some((least, greatest))) = (network.watched_input(input), samples.declared(input)) {
            // Finite by contract; a range that is not finite is ignored.
            let _ = ranges[watched].widen(&[least, greatest]);
        }
    }
    let mut histograms: Vec<_> = ranges.iter().map(Histogram::new).collect();
    pass.run(tell, &mut |index, values, _| {
        histograms[index].count(values);
        Ok(())
    })?;
    Ok(network.watched().iter().copied().zip(histograms.into_iter().map(Histogram::observed)).collect())
}

/// Visits the elements of an observed value, given by its index, on a sample.
type Visit<'v> = dyn FnMut(usize, &[f32], &Sample<'_>) -> Result<()> + 'v;

/// Runs over all samples, one sample in memory at a time.
struct Pass<'a, 'n> {
    loaded: &'a mut Loaded<'n>,
    samples: &'a dyn Samples,
    dataset: &'a str,
    /// Samples that were run, of two times as many as there are.
    done: usize,
}

impl Pass<'_, '_> {
    fn run(&mut self, tell: &mut dyn FnMut(Event<'_>), visit: &mut Visit<'_>) -> Result<()> {
        let count = self.samples.count();
        for sample in 0..count {
            let name = self.samples.name(sample);
            tell(Event::Progress(self.done, 2 * count, &format!("calibrate {name}")));
            let place = Sample { name: &name, dataset: self.dataset };
            self.loaded.run(self.samples.load(sample)?, &place)?;
            for (index, &value) in self.loaded.network.watched().iter().enumerate() {
                visit(index, self.loaded.values(value), &place)?;
            }
            self.done += 1;
        }
        Ok(())
    }
}

fn unused(dataset: &dyn Dataset) -> Diagnostic {
    let message = format!("the data set '{}' is not used: no backend of a region asks for one", dataset.name());
    Diagnostic::new(Code::Usage, message).hint("Leave it out, or see byoc explain for who takes which node")
}

fn needs_dataset(plan: &RegionPlan, setting: &Setting<'_>) -> Diagnostic {
    let (backend, symbol) = (setting.backends[plan.backend].name(), &plan.region.symbol);
    let message = format!("backend '{backend}' needs a data set to choose the ranges of region {symbol}");
    Diagnostic::new(Code::NeedsDataset, message)
        .hint("Give byoc compile --dataset DIR or --dataset FILE.npz with samples of the model's inputs")
}

fn no_host() -> Diagnostic {
    Diagnostic::new(Code::Calibration, "there is no host backend to run the model over the data set")
        .hint("Add one at the end of the list; byoc plugin list shows what there is")
}
