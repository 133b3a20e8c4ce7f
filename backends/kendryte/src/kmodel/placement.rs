//! Where the parts of convolutions are in a file: the alignments that hardware and readers want.

use byoc_plugin_api::Error;

use super::check::{Problem, Severity};
use super::conv::{ACTIVATION_ALIGNMENT, ARGUMENTS_ALIGNMENT, Offsets, WEIGHTS_ALIGNMENT};
use super::fields::Reader;
use super::parse::{outline, place};

/// Finds parts that are not aligned. Errors where the file cannot be read at all.
pub fn check(file: &[u8]) -> Result<Vec<Problem>, Error> {
    let mut problems = Vec::new();
    for (index, (kind, body)) in outline(file)?.bodies.into_iter().enumerate() {
        if kind != 10240 {
            continue;
        }
        let after_flags = body.start + 4;
        let bytes = file.get(after_flags..body.end).unwrap_or_default();
        let offsets = Offsets::of_body(&mut Reader::new(bytes, after_flags))
            .map_err(|damage| damage.into_error(&place(index, kind)))?;
        let parts = [
            ("layer arguments", offsets.arguments, ARGUMENTS_ALIGNMENT),
            ("weights", offsets.weights, WEIGHTS_ALIGNMENT),
            ("batch-norm table", offsets.batch_norm, WEIGHTS_ALIGNMENT),
            ("activation table", offsets.activation, ACTIVATION_ALIGNMENT),
        ];
        for (name, offset, alignment) in parts {
            if !offset.is_multiple_of(alignment as u32) {
                problems.push(Problem {
                    severity: Severity::Rule,
                    place: place(index, kind),
                    message: format!("the {name} at offset {offset} is not aligned to {alignment}"),
                });
            }
        }
    }
    Ok(problems)
}
