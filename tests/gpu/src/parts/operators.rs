//! Runs the conformance kit on the backends that generate kernels, as `byoc plugin test` does: every operator that they
//! support, alone and in chains, of every type, on the device and against the host's reference kernels.

use byoc_conformance::{Choice, Report as Found, Settings, Shard, Tag, Vendor};
use byoc_core::plugin::Origin;

use super::Scope;
use crate::check::Check;
use crate::fixture::{Fixture, GENERATING, HOST};
use crate::report::{Report, Result, failure};

/// The most failures that are printed.
const TOLD: usize = 20;

/// How many processes share the models of a backend.
const SHARDS: usize = 12;

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let count = if scope.quick { 1 } else { SHARDS };
    let shards = |backend: &'static str| (0..count).map(move |index| (backend, Shard { index, count }));
    let check = |(backend, shard): (&'static str, Shard)| {
        let name = format!("operators of {backend}, shard {shard}");
        let told = name.clone();
        let work = move |fixture: &Fixture, report: &mut Report| {
            let found = kit(fixture, backend, shard).and_then(|found| verdict(&found, report));
            report.check(&told, found);
        };
        Check::several(name, work).within(400)
    };
    GENERATING.into_iter().flat_map(shards).map(check).collect()
}

fn kit(fixture: &Fixture, backend: &str, shard: Shard) -> Result<Found> {
    let Origin::File(plugin) = &fixture.registry.get(backend)?.origin else {
        return failure(format!("'{backend}' is not a plugin"));
    };
    let reference = fixture.registry.select(&[HOST.to_owned()], &[("json.kernels".into(), "reference".into())])?.pop();
    let settings = Settings {
        plugin: plugin.clone(),
        backends: vec![backend.to_owned()],
        options: fixture.arch_of(backend).into_iter().collect(),
        memory: 0,
        reference: reference.ok_or("there is no reference")?,
        vendor: Vendor::default(),
        shard,
        choice: Choice::default(),
    };
    Ok(byoc_conformance::run(&settings)?)
}

/// How many cases went how; an error where some failed.
fn verdict(found: &Found, report: &Report) -> Result<String> {
    let count = |tag| found.count(tag);
    let text =
        format!("{} passed, {} failed, {} unsupported", count(Tag::Pass), count(Tag::Fail), count(Tag::Unsupported));
    for case in found.failures().take(TOLD) {
        report.note(&format!("      {}: {}", case.name, case.reason.as_deref().unwrap_or("no reason")));
    }
    if found.refused || count(Tag::Fail) > 0 || count(Tag::Pass) == 0 {
        return failure(text);
    }
    Ok(text)
}
