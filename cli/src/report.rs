//! All output: results on stdout, everything else on stderr. No other module prints.

mod comparisons;
mod format;
mod overview;
mod profile;
mod results;
mod table;

use std::io::{ErrorKind, Write};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde::Serialize;

pub(crate) use byoc_tools::text::{count, shape, short};
pub(crate) use comparisons::{checked_regions, comparisons, culprit};
pub(crate) use format::{duration, seconds, size};
pub(crate) use overview::{Bytes, Overview, copies};
pub(crate) use profile::profile;
pub(crate) use results::{devices, outputs};
pub(crate) use table::Table;

/// Writes a result. A reader that went away (`byoc ... | head`) is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::new(Code::Io, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a result as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Diagnostic::new(Code::Io, format!("cannot write the report as JSON: {error}")))?;
    print(&text)
}

/// Prints the error that ends the command.
pub(crate) fn error(diagnostic: &Diagnostic) {
    stderr(&told("error", diagnostic));
}

/// Prints a warning.
pub(crate) fn warning(diagnostic: &Diagnostic) {
    stderr(&told("warning", diagnostic));
}

/// Prints progress.
pub(crate) fn note(text: &str) {
    stderr(text);
}

fn told(kind: &str, diagnostic: &Diagnostic) -> String {
    let hint = diagnostic.hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!("{kind}: [{}] {}{hint}", diagnostic.code.id(), diagnostic.message)
}

fn stderr(text: &str) {
    // An error of stderr itself cannot be reported.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_code_message_and_hint() {
        let plain = Diagnostic::new(Code::NotOnnx, "'a' is not an ONNX model");
        assert_eq!(told("error", &plain), "error: [B101] 'a' is not an ONNX model");
        assert_eq!(told("warning", &plain.hint("Look")), "warning: [B101] 'a' is not an ONNX model\n  hint: Look");
    }
}
