//! A file in the place of a verb: `byoc model.onnx`.

use std::ffi::OsString;
use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::file_kind::FileKind;
use clap::CommandFactory;

use crate::args::Cli;

/// The error, where the first argument is a file and not a verb.
pub(crate) fn mistake(first: Option<OsString>) -> Option<Diagnostic> {
    let first = first?;
    let path = Path::new(&first);
    // clap adds `help` when it parses.
    let is_verb = |name: &str| name == "help" || Cli::command().find_subcommand(name).is_some();
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
