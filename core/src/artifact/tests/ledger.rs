//! The ledger has a section of its own, which is read when it is asked for: what is wrong with it keeps nobody from a run.

use std::io::Cursor;

use serde_json::Value;

use super::{node, open, sample, silent};
use crate::artifact::write::Plan;
use crate::artifact::{Artifact, Contents, GRAPH, LEDGER, Section, graph};
use crate::diagnostic::Code;

/// A file of the sample with that ledger.
fn with(ledger: &Value) -> Artifact {
    let Contents { manifest, sections, .. } = sample(64);
    let text = |name, contents: &Value| Section::of_bytes(name, graph::encode(contents).expect("JSON").into());
    let own = [text(GRAPH, &serde_json::to_value(&manifest).expect("JSON")), text(LEDGER, ledger)];
    let mut out = Cursor::new(Vec::new());
    let plan = Plan::of(own.iter().chain(&sections), (manifest.format, &manifest.producer)).expect("a plan");
    plan.stream(&mut out, &mut silent()).expect("it is written");
    open(out.into_inner()).expect("it opens")
}

#[test]
fn a_ledger_that_does_not_fit_is_refused_by_who_reads_it() {
    let fits = serde_json::json!({ "constants": sample(64).ledger, "nodes": sample(64).nodes });
    let artifact = with(&fits);
    assert_eq!(artifact.ledger().expect("it fits"), sample(64).ledger);
    assert_eq!(artifact.nodes_of(&artifact.manifest().regions[0]).expect("it fits"), node());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut ledger = fits.clone();
        change(&mut ledger);
        ledger
    };
    let cases = [
        (changed(&|it| it["constants"][1]["stored"] = 3.into()), "its ledger refers to constant 3 of 3"),
        (
            changed(&|it| it["constants"][1]["stored"] = 0.into()),
            "section 'const/0': the ledger has 2 rows for it, not 1",
        ),
        (
            changed(&|it| it["constants"][2]["fate"] = "viewed".into()),
            "section 'const/2': the ledger has 0 rows for it, not 1",
        ),
        (changed(&|it| it["nodes"] = serde_json::json!([])), "its ledger has the nodes of 0 regions, not of 1"),
        (
            changed(&|it| it["constants"] = serde_json::json!([1])),
            "section 'ledger': invalid type: integer `1`, expected struct LedgerRow at line 1 column 15",
        ),
        (Value::Null, "section 'ledger': invalid type: null, expected struct LedgerSection at line 1 column 4"),
    ];
    for (ledger, expected) in cases {
        let artifact = with(&ledger);
        artifact.verify_digests().expect("no byte of it is damaged");
        artifact.code(&artifact.manifest().regions[0]).expect("it can be run");
        let error = artifact.ledger().expect_err(expected);
        assert_eq!((error.code, error.message), (Code::DamagedArtifact, format!("'m.byoc' is damaged: {expected}")));
    }
}
