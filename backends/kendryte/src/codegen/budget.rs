//! Whether a kmodel fits into the memory that it is for, and if not, which layers take it.

use byoc_plugin_api::{Error, Options};

use super::Network;
use crate::kmodel::check::GENERAL_MEMORY;
use crate::kmodel::layout::{Layout, ROW};
use crate::net::{Form, Step, Tensor, Work};

/// Layers that are named for each kind of memory.
const NAMED: usize = 4;

impl Network<'_> {
    /// A note where the kmodel and its main memory do not fit into a K210; an error where the user wants the file for one, or has
    /// set a budget that it exceeds.
    pub(super) fn check_budget(&self, file_bytes: usize, options: &Options) -> Result<Option<String>, Error> {
        let budget = options.int("memory-budget");
        let main_memory = u64::from(self.placement.main_memory);
        let memory = file_bytes as u64 + main_memory;
        if i128::from(memory) <= i128::from(budget) {
            return Ok(None);
        }
        let both = format!("the kmodel of {file_bytes} bytes and its main memory of {main_memory} take {memory} bytes");
        let is_wanted = options.bool("require-whole-model") || budget < i64::from(GENERAL_MEMORY);
        if is_wanted {
            let over = i128::from(memory) - i128::from(budget);
            let message = format!("{both}, {over} more than the memory-budget of {budget}");
            return Err(Error::new(message).hint(self.costs()));
        }
        Ok(Some(format!("{both}, a K210 has {GENERAL_MEMORY} for them and the program")))
    }

    /// The layers that take the most of each memory, the most costly first.
    fn costs(&self) -> String {
        let list = |what: &str, unit: &str, cost: &dyn Fn(&Step) -> u64| {
            let mut costs: Vec<_> = self.net.steps.iter().map(|step| (cost(step), self.name(step))).collect();
            costs.sort_by_key(|&(cost, _)| std::cmp::Reverse(cost));
            let most = costs.iter().take(NAMED).filter(|(cost, _)| *cost > 0);
            let named: Vec<_> = most.map(|(cost, name)| format!("'{name}' {cost}")).collect();
            (!named.is_empty()).then(|| format!("{what} {}{unit}", named.join(", ")))
        };
        let weights = list("weights of", " bytes", &|step| self.weight_bytes(step));
        let main = list("main memory of", " bytes", &|step| {
            self.tensors(step).filter(|t| t.form != Form::Kpu).map(Tensor::bytes).sum()
        });
        let rows = |tensor: &Tensor| Layout::new(tensor.shape.width).rows(tensor.shape.channels, tensor.shape.height);
        let kpu = list("KPU RAM of", " bytes", &|step| {
            ROW as u64 * self.tensors(step).filter(|t| t.form == Form::Kpu).map(rows).sum::<u64>()
        });
        let lists: Vec<_> = [weights, main, kpu].into_iter().flatten().collect();
        format!("The most costly layers: {}", lists.join("; "))
    }

    fn tensors(&self, step: &Step) -> impl Iterator<Item = &Tensor> {
        step.inputs.iter().chain(&step.outputs).map(|&tensor| &self.net.tensors[tensor])
    }

    /// The node that a layer is for, or the value that it makes.
    fn name(&self, step: &Step) -> &str {
        match &step.work {
            Work::Conv(conv) => &self.region.nodes[conv.node].name,
            Work::Dense { node, .. } => &self.region.nodes[*node].name,
            _ => step.outputs.first().map_or("", |&tensor| &self.region.values[self.net.tensors[tensor].value].name),
        }
    }

    /// Bytes of a layer's weights in the file.
    fn weight_bytes(&self, step: &Step) -> u64 {
        let (node, size) = match &step.work {
            Work::Conv(conv) => (conv.node, 1),
            Work::Dense { node, .. } => (*node, 4),
            _ => return 0,
        };
        let weights = self.region.nodes[node].input(1).and_then(|value| self.region.values[value].fixed_shape());
        weights.map_or(0, |shape| size * shape.iter().map(|&size| size as u64).product::<u64>())
    }
}
