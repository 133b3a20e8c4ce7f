//! `byoc verify --bisect`: the first node of a region whose result differs, found by compiling more and more of its nodes.

use byoc_core::artifact::{Artifact, NodeSummary};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::{Registry, Selected};
use byoc_core::runtime::LoadOptions;
use byoc_tools::compare::{Comparison, Tolerances};
use byoc_tools::lists::Given;
use byoc_tools::regions::Checked;
use byoc_tools::tensor::Tensor;
use byoc_tools::text::{self, count};
use serde::Serialize;

use super::part::{ByKernels, Runner, shapes};
use crate::artifact::Opened;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    /// The first node whose result differs; several where the backend takes them together only.
    nodes: Vec<NodeSummary>,
    /// How many nodes the region has.
    of: usize,
    /// Why nothing was found, if that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Found {
    /// The same for people.
    pub(super) fn sentence(&self) -> String {
        if let Some(reason) = &self.failed {
            return format!("cannot look for the first node that differs: {reason}");
        }
        let all = count(self.of, "node");
        let nodes: Vec<_> = self.nodes.iter().map(|node| format!("{} ({})", node.name, node.op)).collect();
        match nodes.as_slice() {
            [] => format!("no part of its {all} differs when it is compiled by itself"),
            [node] => format!("first of its {all} whose result differs: {node}"),
            nodes => format!("first of its {all} whose result differs: one of {}", nodes.join(", ")),
        }
    }
}

/// Looks for the node in a region that differs. An error of the search is part of the result: which region differs is known.
pub(super) fn first_node(
    culprit: &Checked,
    artifact: &Artifact,
    opened: &Opened,
    options: &LoadOptions,
    reference: &ByKernels<'_>,
    tolerances: &Tolerances,
) -> Found {
    let found = backends(culprit, artifact, opened.registry()).and_then(|backends| {
        // The host computes what a backend wants to know of values.
        let samples_needed = backends.iter().any(|it| it.registered.description.calibration);
        let host = reference.runner.folding_backend.clone().filter(|_| samples_needed);
        let runner = Runner {
            model: artifact.path().to_owned(),
            registry: opened.registry(),
            backends,
            folding_backend: host,
            samples_needed,
            options: LoadOptions { entry: None, constants_from: None, ..options.clone() },
        };
        let inputs =
            culprit.inputs.iter().map(|(name, tensor)| (name.clone(), Given::Tensor(tensor.clone()))).collect();
        Search { culprit, runner, reference, tolerances, inputs }.search()
    });
    let of = culprit.nodes.len();
    found.unwrap_or_else(|error| Found { nodes: Vec::new(), of, failed: Some(error.to_string()) })
}

struct Search<'a> {
    culprit: &'a Checked,
    runner: Runner<'a>,
    reference: &'a ByKernels<'a>,
    tolerances: &'a Tolerances,
    inputs: Vec<(String, Given)>,
}

impl Search<'_> {
    /// The shortest part of the first nodes that differs ends with the wrong one, and each longer one differs too, but for what later
    /// nodes hide.
    fn search(&self) -> Result<Found> {
        let inputs: Vec<(&str, &Given)> = self.inputs.iter().map(|(name, given)| (name.as_str(), given)).collect();
        let outputs: Vec<&str> = self.culprit.outputs.iter().map(|output| output.name.as_str()).collect();
        let all = self.reference.parts.nodes(&shapes(&inputs), &outputs)?;
        // The first `low` nodes compute what they should, the first `high` ones do not.
        let (mut low, mut high) = (0, all.len() + 1);
        while high - low > 1 {
            let middle = if high > all.len() { all.len() } else { low.midpoint(high) };
            match self.nearest(middle, (low, high), &inputs, &outputs)? {
                Some((at, true)) => high = at,
                Some((at, false)) => low = at,
                None => break,
            }
        }
        let suspects =
            all.iter().take(high).skip(low).map(|(name, op)| NodeSummary { name: name.clone(), op: op.clone() });
        Ok(Found { nodes: suspects.collect(), of: all.len(), failed: None })
    }

    /// Whether a part between the two differs, and how many nodes it has: as near to `middle` as the backend takes them. `None` where
    /// it takes no such part.
    fn nearest(
        &self,
        middle: usize,
        (low, high): (usize, usize),
        inputs: &[(&str, &Given)],
        outputs: &[&str],
    ) -> Result<Option<(usize, bool)>> {
        let mut counts: Vec<usize> = (low + 1..high).collect();
        counts.sort_by_key(|count| count.abs_diff(middle));
        for count in counts {
            match self.differs(count, inputs, outputs) {
                Ok(differs) => return Ok(Some((count, differs))),
                Err(error) if error.code == Code::NoBackend => {}
                Err(error) => return Err(error.within(format!("the first {}", text::count(count, "node")))),
            }
        }
        Ok(None)
    }

    fn differs(&self, count: usize, inputs: &[(&str, &Given)], outputs: &[&str]) -> Result<bool> {
        let part = || self.reference.parts.first_nodes(&shapes(inputs), outputs, count);
        let found = self.runner.run(part()?, inputs)?;
        let expected = self.reference.runner.run(part()?, inputs)?;
        Ok(differ(&found, &expected, self.tolerances))
    }
}

fn differ(found: &[(String, Tensor)], expected: &[(String, Tensor)], tolerances: &Tolerances) -> bool {
    let mut pairs = found.iter().zip(expected);
    !pairs.all(|((name, found), (_, expected))| Comparison::of(name, found, expected, tolerances.of(name)).holds())
}

/// The region's backend with the options that the region was compiled with.
fn backends(culprit: &Checked, artifact: &Artifact, registry: &Registry) -> Result<Vec<Selected>> {
    let none = || Diagnostic::new(Code::UnknownName, format!("there is no region '{}'", culprit.symbol));
    let region = artifact.manifest().regions.iter().find(|region| region.symbol == culprit.symbol).ok_or_else(none)?;
    let mut selected = registry.select(std::slice::from_ref(&culprit.backend), &[])?;
    for selected in &mut selected {
        selected.options = selected.options.clone().and(&region.options);
    }
    Ok(selected)
}
