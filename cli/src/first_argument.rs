//! A file in the place of a verb: `byoc model.onnx`.

use std::ffi::OsString;
use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::file_kind::FileKind;

use crate::args;

/// Errors where the first argument is a file and not a verb.
pub(crate) fn check() -> Result<(), Diagnostic> {
    std::env::args_os().nth(1).and_then(mistake).map_or(Ok(()), Err)
}

fn mistake(first: OsString) -> Option<Diagnostic> {
    let path = Path::new(&first);
    // clap adds `help` when it parses.
    let is_verb = |name: &str| name == "help" || args::command().find_subcommand(name).is_some();
    let is_verb = first.to_str().is_some_and(is_verb);
    let looks_like_one = ["onnx", "byoc"].iter().any(|ending| path.extension().is_some_and(|own| own == *ending));
    if is_verb || !(path.is_file() || looks_like_one) {
        return None;
    }
    let path = path.display();
    let kind = FileKind::of_file(Path::new(&first)).ok().filter(|kind| *kind != FileKind::Unknown);
    let kind = kind.map_or_else(|| "a file".to_owned(), |kind| kind.name().to_owned());
    let message = format!("'{path}' is {kind}, and a verb comes first");
    Some(Diagnostic::new(Code::Usage, message).hint(format!("Did you mean: byoc run {path}")))
}
