//! One-line errors for sources that do not compile: the first error of the log, with its line of source.

use std::path::PathBuf;

use byoc_plugin_api::Error;

use super::nvrtc::Failure;
use crate::locate::one_line;

/// Most characters of a line of source that are shown.
const MOST: usize = 120;

/// An error of the log.
#[derive(Debug, PartialEq, Eq)]
struct Diagnostic<'a> {
    message: &'a str,
    /// File and line, where it is an error of the front end.
    place: Option<(&'a str, usize)>,
    /// The line of source that the log shows for it.
    below: &'a str,
}

/// The error of `what`, whose source and log were kept in the file `kept`, if that could be written.
pub(super) fn error(what: &str, source: &str, failure: &Failure, kept: Option<PathBuf>) -> Error {
    let message = match first(&failure.log) {
        Some(diagnostic) => format!("{what}: {}", told(&diagnostic, source)),
        None => format!("{what}: {}", failure.status),
    };
    let error = one_line(message);
    match kept {
        Some(path) => error.hint(format!("The source is in {}, and all that NVRTC said beside it", path.display())),
        None => error,
    }
}

fn told(diagnostic: &Diagnostic<'_>, source: &str) -> String {
    let Some((file, line)) = diagnostic.place else { return diagnostic.message.to_owned() };
    // Sources have names, headers have paths.
    let is_header = file.contains('/');
    let own = source.lines().nth(line.saturating_sub(1)).filter(|_| !is_header);
    let text: String = own.unwrap_or(diagnostic.below).trim().chars().take(MOST).collect();
    let place = if is_header { format!("{file}, line {line}") } else { format!("line {line}") };
    format!("{} ({place}: {text})", diagnostic.message)
}

/// The first error. Lines of the front end are `file(line): error: message`, where the error may be catastrophic; those of
/// NVRTC itself and of ptxas have no file.
fn first(log: &str) -> Option<Diagnostic<'_>> {
    let mut lines = log.lines();
    while let Some(line) = lines.next() {
        let parts = ["error", "fatal"].iter().find_map(|word| {
            let (before, after) = line.split_once(word)?;
            Some((before, after.trim_start().strip_prefix(':')?.trim()))
        });
        if let Some((before, message)) = parts {
            return Some(Diagnostic { message, place: place(before), below: lines.next().unwrap_or_default() });
        }
    }
    None
}

/// Parses the text before the word: `file(line): `.
fn place(before: &str) -> Option<(&str, usize)> {
    let before = before.trim_end().trim_end_matches("catastrophic").trim_end().strip_suffix("):")?;
    let (file, line) = before.rsplit_once('(')?;
    Some((file, line.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(log: &str) -> String {
        let failure = Failure { status: "NVRTC_ERROR_COMPILATION".into(), log: log.into() };
        let source = "extern \"C\" __global__ void k(float *p) {\n    float a = 1\n    p[0] = a;\n}\n";
        let error = error("compiling k for sm_80", source, &failure, Some("/cache/failed/k.cu".into()));
        assert_eq!(
            error.hint.as_deref(),
            Some("The source is in /cache/failed/k.cu, and all that NVRTC said beside it")
        );
        error.message
    }

    /// Logs as NVRTC 13.0 writes them.
    #[test]
    fn the_first_error_of_a_log() {
        let log = "k.cu(2): warning #177-D: variable \"a\" was declared but never referenced\n  float a = 1\n        ^\n\n\
                   k.cu(3): error: expected a \";\"\n      p[0] = a;\n      ^\n\n2 errors detected";
        assert_eq!(line(log), "compiling k for sm_80: expected a \";\" (line 3: p[0] = a;)");
        let log = "k.cu(1): catastrophic error: could not open source file \"none.h\"\n  #include <none.h>\n  ^";
        let said = "could not open source file \"none.h\" (line 1: extern \"C\" __global__ void k(float *p) {)";
        assert_eq!(line(log), format!("compiling k for sm_80: {said}"));
        let log = "/include/mma.h(99): error: static assertion failed\n      static_assert(N > 0);\n      ^";
        let said = "static assertion failed (/include/mma.h, line 99: static_assert(N > 0);)";
        assert_eq!(line(log), format!("compiling k for sm_80: {said}"));
        let log = "ptxas application ptx input, line 23; error   : Unknown modifier '.x'\nptxas fatal   : aborted";
        assert_eq!(line(log), "compiling k for sm_80: Unknown modifier '.x'");
        assert_eq!(
            line("nvrtc: error: unrecognized option -x found"),
            "compiling k for sm_80: unrecognized option -x found"
        );
        assert_eq!(line(""), "compiling k for sm_80: NVRTC_ERROR_COMPILATION");
        assert_eq!(line("k.cu(9): error: past\tthe end"), "compiling k for sm_80: past the end (line 9: )");
    }
}
