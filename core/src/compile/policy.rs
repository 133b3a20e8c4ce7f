//! Rules that the user sets for where nodes may go.

mod exclusive;

use byoc_plugin_api::Description;
use wildmatch::WildMatchPattern;

use crate::diagnostic::{Code, Diagnostic, Result, in_place_of};
use crate::partition::{self, NodeRow, Partitioned};
use crate::plugin::Selected;

/// Rules for the placement, checked after partitioning; a broken one is an error with exit code 4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// (backend, operator pattern with `*`): each such node must go to that backend.
    pub require: Vec<(String, String)>,
    /// No node may go to a host backend unless it is the only one in the list.
    pub no_fallback: bool,
    /// Most nodes that may go to host backends.
    pub max_host_nodes: Option<usize>,
}

impl Policy {
    /// Errors where the placement breaks a rule, or where a backend is to have the whole model by its options and has not.
    pub(super) fn check(&self, partitioned: &Partitioned, backends: &[Selected]) -> Result<()> {
        let exclusive = exclusive::wanted(backends);
        if *self == Policy::default() && exclusive.is_empty() {
            return Ok(());
        }
        let mut rows = partition::explain(partitioned, backends);
        exclusive.iter().try_for_each(|&backend| exclusive::check(partitioned, &rows, backends, backend))?;
        // No backend could take control flow.
        rows.retain(|row| !row.control);
        self.check_required(&rows, backends)?;
        self.check_hosts(&rows, backends)
    }

    fn check_required(&self, rows: &[NodeRow], backends: &[Selected]) -> Result<()> {
        for (backend, pattern) in &self.require {
            if !backends.iter().any(|selected| selected.name() == backend) {
                let message = format!("--require {backend}={pattern}: the list of backends has no '{backend}'");
                let names = backends.iter().map(Selected::name);
                return Err(Diagnostic::new(Code::Usage, message).hint(in_place_of(backend, names)));
            }
            let wanted = rows.iter().filter(|row| wildcard(pattern, &row.op));
            if let Some(row) = wanted.clone().find(|row| !is_taken_by(row, backend)) {
                return broken(format!("--require {backend}={pattern}: {}", elsewhere(row, backend)));
            }
            if wanted.count() == 0 {
                return broken(format!("--require {backend}={pattern}: the model has no such node"));
            }
        }
        Ok(())
    }

    fn check_hosts(&self, rows: &[NodeRow], backends: &[Selected]) -> Result<()> {
        let host = |name: &str| {
            let found = backends.iter().find(|selected| selected.name() == name);
            found.is_some_and(|selected| description(selected).host)
        };
        let on_host: Vec<_> =
            rows.iter().filter(|row| row.taken.as_ref().is_some_and(|(_, backend)| host(backend))).collect();
        let only_host = backends.iter().all(|selected| description(selected).host);
        let go = match on_host.len() {
            1 => "1 node goes".to_owned(),
            count => format!("{count} nodes go"),
        };
        if self.no_fallback
            && !only_host
            && let Some(row) = on_host.first()
        {
            return broken(format!("--no-fallback: {go} to a host backend, first '{}' ({})", row.node, row.op));
        }
        if let Some(most) = self.max_host_nodes.filter(|&most| on_host.len() > most) {
            return broken(format!("--max-host-nodes {most}: {go} to a host backend"));
        }
        Ok(())
    }
}

fn description(selected: &Selected) -> &Description {
    &selected.registered.description
}

fn broken<T>(message: String) -> Result<T> {
    Err(Diagnostic::new(Code::PlacementPolicy, message).hint("byoc explain has the reasons, node by node"))
}

fn is_taken_by(row: &NodeRow, backend: &str) -> bool {
    row.taken.as_ref().is_some_and(|(_, taken)| taken == backend)
}

/// Where a node goes that should go to `backend`, and that one's reason.
fn elsewhere(row: &NodeRow, backend: &str) -> String {
    let taken = row.taken.as_ref().map_or("no backend", |(_, backend)| backend);
    let reason = row.refused.iter().find(|(name, _)| name == backend).map(|(_, reason)| reason);
    let reason = reason.map(|reason| format!(" ({backend}: {reason})")).unwrap_or_default();
    format!("node '{}' ({}) goes to {taken}{reason}", row.node, row.op)
}

/// Whether `text` fits `pattern`, in which `*` stands for any characters. No other character is special.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    // The second character stands for a single one: no pattern has it.
    WildMatchPattern::<'*', '\0'>::new(pattern).matches(text)
}

#[cfg(test)]
mod tests {
    use super::wildcard;

    #[test]
    fn wildcards() {
        let cases = [
            ("Conv", "Conv", true),
            ("Conv", "ConvTranspose", false),
            ("Conv*", "ConvTranspose", true),
            ("*Pool", "MaxPool", true),
            ("*a*b*", "xaybz", true),
            ("*a*b", "xaybz", false),
            ("*", "", true),
            ("?onv", "Conv", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
