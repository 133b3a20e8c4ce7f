//! The answer in few lines: how much goes where, and for which reasons the rest does not.

use std::collections::BTreeMap;

use byoc_core::partition::NodeRow;
use serde::Serialize;

use super::reasons::{Reason, reasons};
use crate::report::{Table, Tone, count};

/// How many reasons and regions are shown, so that a model of any size is explained on a screen.
const SHOWN_REASONS: usize = 10;
const SHOWN_REGIONS: usize = 10;

/// What there is to say of all nodes together.
#[derive(Serialize)]
pub(in super::super) struct Summary {
    /// In order of appearance; those without a backend last.
    pub(super) shares: Vec<Share>,
    /// The most frequent of each backend first.
    pub(super) reasons: Vec<Reason>,
    /// In order of appearance.
    pub(in super::super) regions: Vec<Region>,
    /// Nodes that core runs itself.
    control: usize,
    /// Nodes that are expanded functions.
    expanded: usize,
}

/// How much a backend takes; `None` where no backend does.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Share {
    backend: Option<String>,
    regions: usize,
    nodes: usize,
}

/// What a region consists of.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(in super::super) struct Region {
    pub(in super::super) region: String,
    pub(in super::super) backend: String,
    pub(in super::super) nodes: usize,
    /// How many nodes of each operator there are.
    pub(in super::super) operators: BTreeMap<String, usize>,
}

impl Summary {
    /// Of these nodes. What was expanded is no node any more, and what core runs itself is in no region.
    pub(in super::super) fn of(rows: &[NodeRow]) -> Summary {
        let mut summary = Summary {
            shares: Vec::new(),
            reasons: reasons(rows),
            regions: Vec::new(),
            control: rows.iter().filter(|row| row.control).count(),
            expanded: rows.iter().filter(|row| row.expanded).count(),
        };
        for row in rows.iter().filter(|row| !row.expanded && !row.control) {
            summary.add(row);
        }
        summary.shares.sort_by_key(|share| share.backend.is_none());
        summary
    }

    fn add(&mut self, row: &NodeRow) {
        let new_region =
            row.taken.as_ref().is_some_and(|(region, backend)| self.add_to_region(region, backend, &row.op));
        let backend = row.taken.as_ref().map(|(_, backend)| backend.as_str());
        let known = self.shares.iter_mut().find(|share| share.backend.as_deref() == backend);
        match known {
            Some(share) => {
                share.nodes += 1;
                share.regions += usize::from(new_region);
            }
            None => {
                let backend = backend.map(str::to_owned);
                self.shares.push(Share { backend, regions: usize::from(new_region), nodes: 1 });
            }
        }
    }

    /// Whether the region is new.
    fn add_to_region(&mut self, symbol: &str, backend: &str, op: &str) -> bool {
        // The nodes of a region lie together, mostly.
        let known = self.regions.iter().rposition(|region| region.region == symbol);
        let at = known.unwrap_or_else(|| {
            let (region, backend) = (symbol.to_owned(), backend.to_owned());
            self.regions.push(Region { region, backend, nodes: 0, operators: BTreeMap::new() });
            self.regions.len() - 1
        });
        let region = &mut self.regions[at];
        region.nodes += 1;
        *region.operators.entry(op.to_owned()).or_default() += 1;
        known.is_none()
    }

    /// The reasons, for who writes them as JSON.
    pub(in super::super) fn reasons(&self) -> impl Serialize {
        &self.reasons
    }

    /// Backends with their nodes and regions; `None` for nodes without one.
    pub(in super::super) fn counts(&self) -> impl Iterator<Item = (Option<&str>, usize, usize)> {
        self.shares.iter().map(|share| (share.backend.as_deref(), share.nodes, share.regions))
    }

    /// Whether every node has a backend.
    pub(super) fn is_complete(&self) -> bool {
        self.shares.iter().all(|share| share.backend.is_some())
    }

    /// `gpu: 3 nodes in 1 region; unassigned: 1 node`.
    pub(super) fn sentence(&self) -> String {
        let share = |Share { backend, regions, nodes }: &Share| match backend {
            Some(backend) => format!("{backend}: {} in {}", count(*nodes, "node"), count(*regions, "region")),
            None => format!("unassigned: {}", count(*nodes, "node")),
        };
        let control = (self.control > 0).then(|| format!("byoc itself: {}", count(self.control, "node")));
        self.shares.iter().map(share).chain(control).collect::<Vec<_>>().join("; ")
    }

    /// Backends, then reasons, then regions, and how to see more.
    pub(super) fn text(&self) -> String {
        let mut parts = self.parts();
        parts.push("--nodes, --refused, --op OPERATOR and --region SYMBOL show nodes\n".to_owned());
        parts.join("\n")
    }

    /// Backends, then reasons and regions where there are some.
    fn parts(&self) -> Vec<String> {
        let refusals = self.refusals(SHOWN_REASONS).map(|refusals| refusals + &self.remedies());
        [Some(self.backends()), refusals, self.some_regions()].into_iter().flatten().collect()
    }

    /// Those for the reasons that are shown, each once.
    fn remedies(&self) -> String {
        let shown = || self.reasons.iter().take(SHOWN_REASONS).filter_map(|reason| reason.remedy);
        let first = |at: usize, remedy: &str| !shown().take(at).any(|before| before == remedy);
        let told = shown().enumerate().filter(|&(at, remedy)| first(at, remedy));
        told.map(|(_, remedy)| format!("hint: {remedy}\n")).collect()
    }

    /// Backends, and one reason.
    pub(in super::super) fn in_short(&self) -> String {
        self.backends() + &self.refusals(1).unwrap_or_default()
    }

    fn backends(&self) -> String {
        let table = Table::new(&["backend", ">nodes", ">regions"]);
        let mut table = table.tone("backend", |backend| (backend == "unassigned").then_some(Tone::Bad));
        for Share { backend, regions, nodes } in &self.shares {
            let backend = backend.as_deref().unwrap_or("unassigned");
            table.row([backend, &nodes.to_string(), &regions.to_string()]);
        }
        if self.control > 0 {
            table.row(["byoc itself", &self.control.to_string(), "-"]);
        }
        if self.expanded > 0 {
            table.row(["(functions, expanded)", &self.expanded.to_string(), "-"]);
        }
        table.text()
    }

    /// Nothing where no backend refused a node.
    fn refusals(&self, limit: usize) -> Option<String> {
        let mut table = Table::new(&["not taken by", ">nodes", "because", "for example"]);
        for reason in self.reasons.iter().take(limit) {
            table.row([&reason.backend, &reason.nodes.to_string(), &reason.words, &reason.examples()]);
        }
        let more = self.reasons.len().saturating_sub(limit);
        let more =
            if more > 0 { format!("... and {}: --refused\n", count(more, "more reason")) } else { String::new() };
        (!self.reasons.is_empty()).then(|| table.text() + &more)
    }

    /// Nothing where there is none.
    fn some_regions(&self) -> Option<String> {
        let mut table = Table::new(&["region", "backend", ">nodes", "?operators"]);
        for Region { region, backend, nodes, operators } in self.regions.iter().take(SHOWN_REGIONS) {
            table.row([region, backend, &nodes.to_string(), &most_frequent(operators)]);
        }
        let more = self.regions.len().saturating_sub(SHOWN_REGIONS);
        let more = if more > 0 { format!("... and {}: --nodes\n", count(more, "more region")) } else { String::new() };
        (!self.regions.is_empty()).then(|| table.text() + &more)
    }
}

/// `6 Conv, 5 Relu, 2 Add and 3 others`: of the most frequent ones.
fn most_frequent(operators: &BTreeMap<String, usize>) -> String {
    const SHOWN: usize = 3;
    let mut sorted: Vec<_> = operators.iter().collect();
    // Of equal counts the names stay in order.
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let told: Vec<_> = sorted.iter().take(SHOWN).map(|(name, count)| format!("{count} {name}")).collect();
    let others: usize = sorted.iter().skip(SHOWN).map(|(_, count)| **count).sum();
    if others > 0 { format!("{} and {}", told.join(", "), count(others, "other")) } else { told.join(", ") }
}

#[cfg(test)]
pub(super) mod tests {
    use byoc_core::partition::Reason as Why;
    use byoc_plugin_api::{Refusal, RefusalCode};

    use super::*;

    /// The refusal of a backend whose pattern `add` matches.
    pub(in super::super) fn refused(code: RefusalCode, message: &str) -> Why {
        Why::Refused { pattern: "add".into(), refusal: Refusal::new(code, message) }
    }

    /// A row of an `Add`.
    pub(in super::super) fn row(node: &str, taken: Option<(&str, &str)>, refused: &[(&str, Why)]) -> NodeRow {
        NodeRow {
            entry: "main".into(),
            node: node.into(),
            op: "Add".into(),
            taken: taken.map(|(region, backend)| (region.into(), backend.into())),
            refused: refused.iter().map(|(backend, reason)| ((*backend).into(), reason.clone())).collect(),
            control: false,
            reads: Vec::new(),
            writes: Vec::new(),
            expanded: false,
        }
    }

    #[test]
    fn the_answer_comes_first() {
        let host = Some(("byoc_main_host_0", "host"));
        let rows_of =
            |rows| Why::Refused { pattern: "add".into(), refusal: Refusal::limit("too many rows", rows, 256.0) };
        let rows = [
            row("a", Some(("byoc_main_gpu_0", "gpu")), &[]),
            row("b", host, &[("gpu", rows_of(300.0))]),
            row("c", host, &[("gpu", rows_of(1024.0))]),
            row("d", host, &[("gpu", Why::NoPattern)]),
        ];
        let summary = Summary::of(&rows);
        assert!(summary.is_complete());
        let expected = "backend  nodes  regions\n\
                        gpu          1        1\n\
                        host         3        1\n\
                        \n\
                        not taken by  nodes  because                                                 for example\n\
                        gpu               2  add: limit: too many rows (300 against a limit of 256)  b (Add)\n\
                        gpu               1  no pattern matches                                      d (Add)\n\
                        hint: limit: smaller sizes fit, by --dim, --shape or another export; the limit is one of the hardware\n\
                        hint: no pattern matches: `byoc plugin info NAME` lists the patterns of a backend\n\
                        \n\
                        region            backend  nodes  operators\n\
                        byoc_main_gpu_0   gpu          1  1 Add\n\
                        byoc_main_host_0  host         3  3 Add\n\
                        \n\
                        --nodes, --refused, --op OPERATOR and --region SYMBOL show nodes\n";
        assert_eq!(summary.text(), expected);
    }

    #[test]
    fn reasons_that_differ_in_names_and_numbers_are_one() {
        let rows = [
            row("a", None, &[("gpu", Why::NoPattern)]),
            row("o", None, &[("gpu", Why::NoPattern)]),
            row("n_1", None, &[("gpu", refused(RefusalCode::Shape, "'n_1' has 3 rows, a limit of 2"))]),
            row("n_2", None, &[("gpu", refused(RefusalCode::Shape, "'n_2' has 44 rows, a limit of 2"))]),
        ];
        let counts: Vec<_> = Summary::of(&rows).reasons.iter().map(|reason| reason.nodes).collect();
        assert_eq!(counts, [2, 2]);
    }

    #[test]
    fn what_cannot_begin_a_region_is_one_reason_and_so_are_open_sizes() {
        let merged = Refusal::new(RefusalCode::Limit, "5 nodes");
        let start = |merged| Why::Start { allowed: vec!["Conv".into(), "Pad".into()], merged };
        let open = |value: &str| {
            refused(
                RefusalCode::Shape,
                &format!("'{value}' is [batch,3]: every size must be fixed by --shape or --dim"),
            )
        };
        let mut rows = [
            row("r", None, &[("gpu", start(None))]),
            row("g", None, &[("gpu", start(Some(merged)))]),
            row("a", None, &[("gpu", open("x"))]),
            row("b", None, &[("gpu", open("y"))]),
        ];
        (rows[0].op, rows[1].op) = ("Relu".into(), "Gemm".into());
        let expected = "not taken by  nodes  because                                             for example\n\
                        gpu               2  cannot begin a region, as Conv or Pad can           r (Relu, Gemm)\n\
                        gpu               2  every size must be fixed by --shape or --dim batch=1  a (Add)\n";
        let summary = Summary::of(&rows);
        let found = summary.refusals(10).expect("reasons");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&found), squeezed(expected));
    }

    #[test]
    fn nodes_without_a_backend_are_named_last() {
        let reasons = [("gpu", Why::NoPattern)];
        let mut control = row("l", Some(("", "byoc")), &[]);
        control.control = true;
        let rows = [row("a", None, &reasons), control, row("b", Some(("byoc_main_gpu_0", "gpu")), &[])];
        let summary = Summary::of(&rows);
        assert!(!summary.is_complete());
        assert_eq!(summary.sentence(), "gpu: 1 node in 1 region; unassigned: 1 node; byoc itself: 1 node");
    }

    #[test]
    fn thousands_of_nodes_are_few_lines() {
        let reason = |index: usize| Why::GivenBack { pattern: char::from(b'a' + (index % 26) as u8).into() };
        let rows: Vec<_> = (0..1000)
            .map(|index| {
                let symbol = format!("byoc_main_host_{}", index / 10);
                row(&format!("node_{index}"), Some((&symbol, "host")), &[("gpu", reason(index))])
            })
            .collect();
        let text = Summary::of(&rows).text();
        assert!(text.lines().count() <= 40, "{text}");
        assert!(text.contains("... and 16 more reasons: --refused\n"), "{text}");
        assert!(text.contains("... and 90 more regions: --nodes\n"), "{text}");
    }
}
