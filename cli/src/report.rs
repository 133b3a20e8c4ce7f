//! All output: results on stdout, everything else on stderr. No other module prints.

mod comparisons;
mod format;
pub(crate) mod in_handler;
mod overview;
mod profile;
mod results;
mod table;
mod terminal;
mod variants;
mod wrap;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use byoc_tools::text::{count, shape, short};
pub(crate) use comparisons::{checked_regions, comparisons, comparisons_in_short, culprit};
pub(crate) use format::{duration, seconds, size};
pub(crate) use overview::{Bytes, Overview, copies};
pub(crate) use profile::{ceilings, profile};
pub(crate) use results::{devices, outputs};
pub(crate) use table::Table;
pub(crate) use terminal::{Terminal, Tone, keep_stdout, shows_progress, verbose};
pub(crate) use variants::VariantsOverview;

/// The version of what `--json` prints. It grows when a field goes or changes its meaning, not when one is added.
const SCHEMA: u32 = 1;

/// Whether the user asked for JSON: then errors are JSON too.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Errors are printed as JSON from here on, beside their text.
pub(crate) fn errors_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// Writes a result, fitted into the terminal where it goes to one. A reader that went away (`byoc ... | head`) is not an
/// error.
pub(crate) fn print(text: &str) -> Result<()> {
    match terminal::width() {
        Some(width) => print_unfitted(&wrap::wrap_lines(text, width)),
        None => print_unfitted(text),
    }
}

/// Writes a result as it is: what programs read.
pub(crate) fn print_unfitted(text: &str) -> Result<()> {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let write = |out: &mut dyn Write| write!(out, "{text}{newline}").and_then(|()| out.flush());
    let written = match terminal::kept() {
        None => write(&mut anstream::stdout().lock()),
        Some(file) => file.try_clone().and_then(|file| {
            let choice = anstream::AutoStream::choice(&file);
            write(&mut anstream::AutoStream::new(file, choice))
        }),
    };
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Diagnostic::new(Code::Io, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// `written to 'model.byoc', 1.2 KiB`: how verbs tell of the file that they have written.
pub(crate) fn written(path: &Path) -> Result<String> {
    let about = std::fs::metadata(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
    Ok(format!("written to '{}', {}\n", path.display(), size(about.len())))
}

/// Writes a result as JSON, with the version of its schema.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let failed =
        |error: serde_json::Error| Diagnostic::new(Code::Io, format!("cannot write the report as JSON: {error}"));
    let mut value = serde_json::to_value(value).map_err(failed)?;
    if let Value::Object(fields) = &mut value {
        fields.shift_insert(0, "schema".into(), SCHEMA.into());
    }
    print_unfitted(&serde_json::to_string_pretty(&value).map_err(failed)?)
}

/// Prints the error that ends the command.
pub(crate) fn error(diagnostic: &Diagnostic) {
    stderr(&told("error", Tone::Bad, diagnostic));
    if AS_JSON.load(Ordering::Relaxed) {
        let Diagnostic { code, message, hint } = diagnostic;
        let told = json!({ "code": code.id(), "message": message, "hint": hint, "exit": code.exit() });
        // The error is on stderr already.
        let _ = print_json(&json!({ "error": told }));
    }
}

/// Prints a warning.
pub(crate) fn warning(diagnostic: &Diagnostic) {
    if !terminal::quiet() {
        stderr(&told("warning", Tone::Warning, diagnostic));
    }
}

/// Prints progress.
pub(crate) fn note(text: &str) {
    if !terminal::quiet() {
        stderr(text);
    }
}

fn told(kind: &str, tone: Tone, diagnostic: &Diagnostic) -> String {
    let mark = |tone, text: &str| terminal::toned_error(tone, text);
    let hint =
        diagnostic.hint.as_ref().map(|hint| format!("\n  {} {hint}", mark(Tone::Hint, "hint:"))).unwrap_or_default();
    format!("{} [{}] {}{hint}", mark(tone, &format!("{kind}:")), diagnostic.code.id(), diagnostic.message)
}

fn stderr(text: &str) {
    let text = terminal::width_of_errors().map_or_else(|| text.to_owned(), |width| wrap::wrap_lines(text, width));
    // An error of stderr itself cannot be reported.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_code_message_and_hint() {
        let plain = Diagnostic::new(Code::NotOnnx, "'a' is not an ONNX model");
        assert_eq!(told("error", Tone::Bad, &plain), "error: [B101] 'a' is not an ONNX model");
        assert_eq!(
            told("warning", Tone::Warning, &plain.hint("Look")),
            "warning: [B101] 'a' is not an ONNX model\n  hint: Look"
        );
    }
}
