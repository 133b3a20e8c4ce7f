//! Fusion: chooses the values that are stored in memory, and writes the kernels that compute them.
//!
//! Kernels are written from the outputs back. A kernel that needs a stored value computes and stores it as well if it visits
//! all of its elements; else the kernel of that value comes first.

use std::collections::{BTreeMap, BTreeSet};

use byoc_nvidia::program::{Argument, BufferRef, Launch};
use byoc_plugin_api::Dim;

use crate::index::{product, times};
use crate::ir::{Def, Id, Move, Value};
use crate::kernel::{self, Kernel, Materialised, Stop};
use crate::kernels;
use crate::lower::{Call, IrGraph};

/// The kernels of a region, in launch order.
#[derive(Default)]
pub(crate) struct KernelPlan {
    pub(crate) kernels: Vec<Written>,
    /// Bytes of each scratch buffer.
    pub(crate) scratch: Vec<Dim>,
}

/// A kernel. Its launch has the nodes that it computes.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) launch: Launch,
    touched: BTreeSet<Id>,
}

/// Plans a region.
///
/// # Errors
///
/// With the cause, when there is no way to compute it.
pub(crate) fn plan(graph: &IrGraph) -> Result<KernelPlan, String> {
    let mut stored = around_calls(graph);
    // Each round but the last stores one value more.
    for _ in 0..=graph.values.len() {
        let planner = Planner { graph, memory: Materialised::default(), plan: KernelPlan::default() };
        match planner.run(&stored) {
            Ok(plan) => {
                let shared = shared(&graph.values, &plan, &stored, &graph.outputs);
                if shared.is_empty() {
                    return Ok(plan);
                }
                stored.extend(shared);
            }
            Err(Stop::Store(value)) => {
                if !stored.insert(value) {
                    return Err(format!("value {value} is in memory and cannot be read"));
                }
            }
            Err(Stop::Refused(cause)) => return Err(cause),
            Err(stop) => return Err(format!("no kernel handles {stop:?}")),
        }
    }
    Err("no way to compute it was found".into())
}

/// The values that standalone kernels read or write, of those that the outputs need: they are stored whatever is fused.
fn around_calls(graph: &IrGraph) -> BTreeSet<Id> {
    let (mut stored, mut seen, mut wanted) = (BTreeSet::new(), BTreeSet::new(), graph.outputs.clone());
    while let Some(value) = wanted.pop() {
        let Value { shape, def, .. } = &graph.values[value];
        if !seen.insert(value) || shape.contains(&Dim::Fixed(0)) {
            continue;
        }
        wanted.extend(graph.values[value].operands());
        if let Def::Standalone(call) = def {
            let inputs = &graph.calls[*call].inputs;
            stored.extend(inputs.iter().copied().chain([value]));
            wanted.extend(inputs);
        }
    }
    let is_elsewhere = |value: &Id| {
        graph.outputs.contains(value) || matches!(graph.values[*value].def, Def::Input(_) | Def::Memory(..))
    };
    stored.retain(|value| !is_elsewhere(value));
    stored
}

struct Planner<'a> {
    graph: &'a IrGraph,
    memory: Materialised,
    plan: KernelPlan,
}

impl Planner<'_> {
    fn run(mut self, stored: &BTreeSet<Id>) -> Result<KernelPlan, Stop> {
        for (position, &output) in self.graph.outputs.iter().enumerate() {
            if self.memory.kept.insert(output, BufferRef::Output(position)).is_some() {
                return Err(Stop::Refused("two outputs are the same value".into()));
            }
        }
        for &value in stored {
            if self.memory.kept.contains_key(&value) {
                return Err(Stop::Refused(format!("output {value} is stored twice")));
            }
            self.memory.kept.insert(value, BufferRef::Scratch(self.plan.scratch.len()));
            let Value { shape, dtype, .. } = &self.graph.values[value];
            self.plan.scratch.push(times(&product(shape)?, &Dim::Fixed(dtype.unpacked_bytes()))?);
        }
        // The last one first: its kernel may store its operands as well.
        let mut wanted = self.graph.outputs.clone();
        wanted.sort_unstable();
        while let Some(&value) = wanted.last() {
            if self.memory.done.contains(&value) {
                wanted.pop();
                continue;
            }
            match self.produce(value) {
                Ok(()) => drop(wanted.pop()),
                // It is stored by its own kernel, from which this one reads it.
                Err(Stop::Store(first)) if first != value && self.memory.kept.contains_key(&first) => {
                    wanted.push(first)
                }
                // Kernels wait for their operands only, so there is no cycle.
                Err(Stop::First(first)) => wanted.push(first),
                Err(other) => return Err(other),
            }
        }
        Ok(self.plan)
    }

    fn produce(&mut self, value: Id) -> Result<(), Stop> {
        let Value { shape, def, .. } = &self.graph.values[value];
        if shape.contains(&Dim::Fixed(0)) {
            self.memory.done.insert(value);
            return Ok(());
        }
        if let Def::Standalone(call) = *def {
            return self.standalone(call);
        }
        let place = self.memory.kept[&value];
        let name = format!("k{}", self.plan.kernels.len());
        let Kernel { text, mut launch, written, touched } =
            kernel::make(&self.graph.values, &self.memory, value, place, &name)?;
        self.memory.done.extend(written);
        let nodes: BTreeSet<_> = touched.iter().filter_map(|&value| self.graph.values[value].node).collect();
        launch.nodes = nodes.into_iter().collect();
        self.plan.kernels.push(Written { text, launch, touched });
        Ok(())
    }

    /// Writes a standalone kernel.
    fn standalone(&mut self, index: usize) -> Result<(), Stop> {
        let Call { kernel, inputs, output } = &self.graph.calls[index];
        let mut at = inputs.iter().map(|&input| self.in_memory(input)).collect::<Result<Vec<_>, _>>()?;
        at.push(self.memory.kept[output]);
        let name = format!("k{}", self.plan.kernels.len());
        let generated = kernels::write(&kernel.kind, &name, &at).map_err(Stop::Refused)?;
        self.memory.done.insert(*output);
        let launch = Launch { nodes: kernel.nodes.iter().copied().collect(), ..generated.launch };
        self.plan.kernels.push(Written { text: generated.text, launch, touched: BTreeSet::new() });
        Ok(())
    }

    /// The buffer of a value that has to be in memory.
    fn in_memory(&self, value: Id) -> Result<BufferRef, Stop> {
        match (&self.graph.values[value].def, self.memory.kept.get(&value)) {
            (Def::Input(input), _) => Ok(BufferRef::Input(*input)),
            (Def::Memory(place, _), _) => Ok(*place),
            (_, Some(&place)) if self.memory.done.contains(&value) => Ok(place),
            (_, Some(_)) => Err(Stop::First(value)),
            (_, None) => Err(Stop::Store(value)),
        }
    }
}

/// Values that several kernels compute, and that are worth storing.
fn shared(values: &[Value], plan: &KernelPlan, stored: &BTreeSet<Id>, outputs: &[Id]) -> BTreeSet<Id> {
    let mut counts: BTreeMap<Id, usize> = BTreeMap::new();
    plan.kernels.iter().flat_map(|kernel| &kernel.touched).for_each(|&value| *counts.entry(value).or_default() += 1);
    let mut below: BTreeSet<Id> = BTreeSet::new();
    let mut chosen = BTreeSet::new();
    let kept = |value: &Id| stored.contains(value) || outputs.contains(value);
    // From the last one back: operands of a stored value need not be stored.
    for (&value, &count) in counts.iter().rev() {
        let wanted = count > 1
            && !kept(&value)
            && !below.contains(&value)
            && cost(values, value, &kept, &mut BTreeMap::new()) >= WORTH;
        if wanted {
            chosen.insert(value);
        }
        if wanted || below.contains(&value) {
            below.extend(values[value].operands());
        }
    }
    chosen
}

/// The cost of an element from which storing it pays off: about two loads.
const WORTH: usize = 4;

/// A rough cost of an element: 1 for a simple operation, 2 for a load, 4 for a function. `known` memoises operands that are
/// reached by several paths.
fn cost(values: &[Value], value: Id, kept: &impl Fn(&Id) -> bool, known: &mut BTreeMap<Id, usize>) -> usize {
    if let Some(&cost) = known.get(&value) {
        return cost;
    }
    let own = |operand: &Id| if kept(operand) { 2 } else { cost(values, *operand, kept, known) };
    let below: usize = values[value].operands().iter().map(own).sum();
    let found = match &values[value].def {
        Def::Input(_) | Def::Memory(..) | Def::Standalone(..) => 2,
        Def::Fold(..) => 2 * WORTH,
        Def::Move(Move::Gather(_) | Move::GatherElements(_) | Move::GatherNd(_), _) => 2 + below,
        Def::Move(..) => below.min(WORTH - 1),
        Def::Each(expression, _) => below.min(2 * WORTH) + if expression.is_heavy() { 4 } else { 1 },
    };
    known.insert(value, found);
    found
}

impl KernelPlan {
    /// The indices of constants that are read.
    pub(crate) fn constants(&self) -> BTreeSet<usize> {
        let places = self.kernels.iter().flat_map(|kernel| kernel.launch.places());
        places.filter_map(|place| if let BufferRef::Constant(at) = place { Some(at) } else { None }).collect()
    }

    /// Renumbers the constants.
    pub(crate) fn renumber(&mut self, constants: &[usize]) {
        let moved = |argument: &mut Argument| {
            if let Argument::Pointer(BufferRef::Constant(at)) = argument {
                *at = constants.iter().position(|known| known == at).unwrap_or(*at);
            }
        };
        self.kernels.iter_mut().flat_map(|kernel| &mut kernel.launch.arguments).for_each(moved);
    }
}
