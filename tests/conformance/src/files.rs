//! Cases of a backend that opens files: it tells what is in its own code, and damage is an error.

use byoc_plugin_api::{Backend, DType, Value};

use crate::bench::{Bench, Prepared, Source};
use crate::claims::generated;
use crate::damage::damaged;
use crate::report::{Step, Verdict, fail};

/// The code of a region opens, with the inputs and outputs of the region; so does the file in it alone, which may have
/// others where something follows it. Damaged code is an error, or opens, and never panics.
pub(crate) fn open(bench: &Bench, _: &Source, prepared: &Prepared) -> Step {
    let registered = &bench.selected.registered;
    if registered.description.files.is_empty() {
        return Err(Verdict::Skip);
    }
    for taken in &prepared.taken {
        let code = generated(bench, taken)?.code;
        let whole = registered
            .backend
            .open(&code)
            .or_else(|error| fail(format!("open fails on the region's code: {error}")))?;
        for (kind, values, found) in
            [("input", &taken.region.inputs, &whole.inputs), ("output", &taken.region.outputs, &whole.outputs)]
        {
            let types = taken.types(values).or_else(fail)?;
            let expected = types.iter().map(|(dtype, shape)| (*dtype, shape.iter().product::<i64>() as usize));
            if !expected.eq(found.iter().map(size)) {
                return fail(format!("open tells of other {kind}s than those of the region"));
            }
        }
        let file = &code[..whole.file_bytes as usize];
        let alone = registered
            .backend
            .open(file)
            .or_else(|error| fail(format!("open fails on the file in the code: {error}")))?;
        if (&alone.format, alone.file_bytes) != (&whole.format, whole.file_bytes) {
            return fail(format!(
                "open tells of {} of {} bytes in the code, and of {} of {} bytes in the file alone",
                whole.format, whole.file_bytes, alone.format, alone.file_bytes
            ));
        }
        let mut panicked = Ok(());
        let mut open = |code: &[u8], what: &str| match registered.backend.open(code) {
            Err(error) if error.message.starts_with("backend panicked") => {
                panicked = fail(format!("open of {what} panics: {}", error.message));
                false
            }
            outcome => outcome.is_ok(),
        };
        if open(&[], "empty code") {
            return fail("open takes empty code");
        }
        damaged(&code, &mut |code, what| {
            open(code, what);
        });
        panicked?;
    }
    Ok(())
}

/// Type and number of elements: the same tensor may have dimensions of 1 in a file that it does not have in a model.
fn size(value: &Value) -> (DType, usize) {
    (value.dtype, value.fixed_shape().unwrap_or_default().iter().product())
}
