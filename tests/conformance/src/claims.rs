//! Cases of the compile side: a region that `check` takes gets code, the same code each time, and claims that are true.

use std::sync::Arc;

use byoc_plugin_api::Backend;
use byoc_plugin_api::host::LoadedBackend;

use crate::bench::{Bench, Prepared, Source};
use crate::memory::Layout;
use crate::region::{self, Generated, Taken};
use crate::report::{Step, Verdict, fail, one_line};

/// Whether the backend takes anything of the model.
pub(crate) fn check(_: &Bench, _: &Source, prepared: &Prepared) -> Step {
    if prepared.taken.is_empty() {
        return Err(prepared.refused());
    }
    Ok(())
}

/// The same region gives the same code, claims and packed bytes, wherever its constants lie in memory.
pub(crate) fn codegen(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    for taken in &prepared.taken {
        let first = generate(bench, taken, Layout::Plain)?;
        let second = generate(bench, taken, Layout::Plain)?;
        let symbol = &taken.region.symbol;
        if first.code != second.code {
            return fail(format!("the same region {symbol} gives other code the second time"));
        }
        if first.claims.len() != second.claims.len() {
            return fail(format!("the same region {symbol} gives other claims the second time"));
        }
        for (first, second) in first.claims.iter().zip(&second.claims) {
            if (first.id, &first.claim) != (second.id, &second.claim) {
                return fail(format!("the same region {symbol} gives other claims the second time"));
            }
            if first.packed != second.packed {
                return fail(format!("constant {} is packed into other bytes the second time", first.id));
            }
        }
    }
    Ok(())
}

/// A host of a later version gets the same code and claims: the plugin ignores fields that it does not know.
pub(crate) fn newer_host(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    let newer = bench.selected.registered.backend.under_newer_host();
    under(bench, newer, &prepared.taken, "with fields of a later version")
}

/// So does the host of ABI 1.0, where a region has nothing that it knows nothing of.
pub(crate) fn first_host(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    let Ok(first) = bench.selected.registered.backend.under_first_host() else { return Err(Verdict::Skip) };
    let is_later = |taken: &Taken| !taken.region.quantized.is_empty() || taken.is_custom();
    if prepared.taken.iter().any(is_later) {
        return Err(Verdict::Skip);
    }
    // It does not say that a region is all of an entry.
    let mut taken = prepared.taken.clone();
    taken.iter_mut().for_each(|taken| taken.region.covers_entry = false);
    under(bench, first, &taken, "without fields that came after ABI 1.0")
}

/// The same code and claims come from the backend as it is spoken to by another host, `how` says by which, and they load.
fn under(bench: &Bench, backend: LoadedBackend, taken: &[Taken], how: &str) -> Step {
    let mut newer = bench.clone();
    newer.selected.registered.backend = Arc::new(backend);
    for taken in taken {
        let symbol = &taken.region.symbol;
        if let Err(refusal) = newer.selected.registered.backend.check(&taken.region, &newer.selected.options) {
            return fail(format!("{how} check refuses region {symbol}: {}", refusal.message));
        }
        let generated = generate(&newer, taken, Layout::Plain)?;
        if generated != self::generated(bench, taken)? {
            return fail(format!("{how} region {symbol} is compiled to something else"));
        }
        let bound = region::bind(taken, &generated, Layout::Plain);
        // What was compiled is looked at also where there is no device to load it on.
        if newer.device.domain().is_ok() {
            let loaded = newer.load(&generated.code, &bound)?;
            loaded.map(drop).or_else(|error| fail(format!("{how} region {symbol} does not load: {error}")))?;
        }
    }
    Ok(())
}

/// The whole compiler agrees: one claim for each constant, packed bytes as they are declared, and no secret copy of a
/// constant in the code.
pub(crate) fn claims(bench: &Bench, source: &Source, _: &Prepared) -> Step {
    bench.settle(source).or_else(fail)
}

/// What [`generate`] gives, for cases that come after [`codegen`]: what is wrong with it was said there.
pub(crate) fn generated(bench: &Bench, taken: &Taken) -> Step<Generated> {
    generate(bench, taken, Layout::Plain).map_err(|_| Verdict::Skip)
}

/// Code and claims of a region that `check` took; a refusal now is a failure.
pub(crate) fn generate(bench: &Bench, taken: &Taken, layout: Layout) -> Step<Generated> {
    region::generate(&bench.selected, &taken.region, &taken.place(layout)).or_else(|error| {
        let symbol = &taken.region.symbol;
        fail(format!("check takes region {symbol}, and then it fails: {}", one_line(&error.to_string())))
    })
}
