//! Rules that the user sets for where nodes may go.

use wildmatch::WildMatchPattern;

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::partition::{self, Partitioned};
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
    /// Errors where the placement breaks a rule.
    pub(super) fn check(&self, partitioned: &Partitioned, backends: &[Selected]) -> Result<()> {
        if *self == Policy::default() {
            return Ok(());
        }
        let mut rows = partition::explain(partitioned, backends);
        // No backend could take control flow.
        rows.retain(|row| !row.control);
        let host = |name: &str| {
            let found = backends.iter().find(|selected| selected.name() == name);
            found.is_some_and(|selected| selected.registered.description.host)
        };
        let broken = |message: String| Err(Diagnostic::new(Code::PlacementPolicy, message));
        for (backend, pattern) in &self.require {
            let wanted = rows.iter().filter(|row| wildcard(pattern, &row.op));
            let missed = wanted.clone().find(|row| row.taken.as_ref().is_none_or(|(_, taken)| taken != backend));
            if let Some(row) = missed {
                let taken = row.taken.as_ref().map_or("no backend", |(_, backend)| backend);
                let reason = row.refused.iter().find(|(name, _)| name == backend).map(|(_, reason)| reason.as_str());
                let reason = reason.map(|reason| format!(" ({backend}: {reason})")).unwrap_or_default();
                return broken(format!(
                    "--require {backend}={pattern}: node '{}' ({}) goes to {taken}{reason}",
                    row.node, row.op
                ));
            }
            if wanted.count() == 0 {
                return broken(format!("--require {backend}={pattern}: the model has no such node"));
            }
        }
        let on_host: Vec<_> =
            rows.iter().filter(|row| row.taken.as_ref().is_some_and(|(_, backend)| host(backend))).collect();
        let only_host = backends.iter().all(|selected| selected.registered.description.host);
        if self.no_fallback
            && !only_host
            && let Some(row) = on_host.first()
        {
            let count = on_host.len();
            return broken(format!(
                "--no-fallback: {count} nodes go to a host backend, first '{}' ({})",
                row.node, row.op
            ));
        }
        if let Some(most) = self.max_host_nodes.filter(|&most| on_host.len() > most) {
            return broken(format!("--max-host-nodes {most}: {} nodes go to a host backend", on_host.len()));
        }
        Ok(())
    }
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
