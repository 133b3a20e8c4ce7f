//! Cases of what goes wrong at load: code and constants that are not what they were are errors, never crashes.

use crate::bench::{Bench, Prepared, Source};
use crate::claims::generated;
use crate::memory::Layout;
use crate::region::{self, Bound};
use crate::report::{Step, Verdict, fail};

/// How many single bits are flipped, spread over the code.
const FLIPS: usize = 48;

/// Empty code is refused; cut and changed code is refused, or loads, and never panics. What happens when it runs is not
/// asked: the artifact's digests stand before that.
pub(crate) fn code(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    for taken in &prepared.taken {
        let generated = generated(bench, taken)?;
        let code = &generated.code;
        let bound = region::bind(taken, &generated, Layout::Plain);
        bench.device.domain()?;
        let mut last = Ok(());
        let mut load = |code: &[u8], what: &str| {
            let outcome = bench.load(code, &bound).map(|loaded| loaded.map(drop));
            if let Ok(Err(error)) = &outcome
                && error.message.starts_with("backend panicked")
            {
                last = fail(format!("load of {what} panics: {}", error.message));
            }
            matches!(outcome, Ok(Ok(())))
        };
        if load(&[], "empty code") && !code.is_empty() {
            return fail("load takes empty code");
        }
        damaged(code, &mut |code, what| {
            load(code, what);
        });
        last?;
    }
    Ok(())
}

/// Gives `try_it` code that is cut, and code with a bit flipped, each with what it is.
pub(crate) fn damaged(code: &[u8], try_it: &mut dyn FnMut(&[u8], &str)) {
    for part in 1..8 {
        try_it(&code[..code.len() * part / 8], &format!("{part}/8 of the code"));
    }
    let bits = code.len() * 8;
    for bit in (0..bits).step_by((bits / FLIPS).max(1)) {
        let mut flipped = code.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        try_it(&flipped, &format!("code with bit {bit} flipped"));
    }
}

/// Constants that are claimed for load and are not there, or are packed in another layout, are errors.
pub(crate) fn constants(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    let mut asked = false;
    for taken in &prepared.taken {
        let generated = generated(bench, taken)?;
        let bind = || region::bind(taken, &generated, Layout::Plain);
        for index in 0..bind().len() {
            asked = true;
            let id = bind()[index].id;
            let mut missing = bind();
            missing.remove(index);
            refused(bench, &generated.code, &missing, &format!("without constant {id}"))?;
            let mut other = bind();
            let layout = other[index].layout.as_deref().unwrap_or_default();
            other[index].layout = Some(format!("{layout}-of-another-version"));
            refused(bench, &generated.code, &other, &format!("with constant {id} packed in another layout"))?;
        }
    }
    if asked { Ok(()) } else { Err(Verdict::Skip) }
}

fn refused(bench: &Bench, code: &[u8], bound: &[Bound], what: &str) -> Step {
    match bench.load(code, bound)? {
        Ok(_) => fail(format!("load {what} is taken")),
        Err(error) if error.message.starts_with("backend panicked") => {
            fail(format!("load {what} panics: {}", error.message))
        }
        Err(_) => Ok(()),
    }
}
