//! What is wrong with a command line, in the form of every other error.

use std::error::Error as _;
use std::ffi::OsString;

use byoc_core::diagnostic::{Code, Diagnostic};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error as one of ours. Help and the version are no errors: they are printed, and the program ends.
pub(super) fn diagnostic(error: &clap::Error, arguments: &[OsString]) -> Diagnostic {
    use ErrorKind as Kind;
    if matches!(error.kind(), Kind::DisplayHelp | Kind::DisplayVersion | Kind::DisplayHelpOnMissingArgumentOrSubcommand)
    {
        error.exit();
    }
    let verb = verb(arguments);
    let (message, hint) = match error.kind() {
        Kind::InvalidSubcommand => unknown_verb(error, &verb),
        Kind::UnknownArgument => unknown_argument(error, &verb),
        Kind::InvalidValue => invalid_value(error),
        Kind::ValueValidation => refused_value(error),
        Kind::MissingRequiredArgument => (format!("{verb} needs {}", text(error, ContextKind::InvalidArg)), None),
        Kind::ArgumentConflict => conflict(error),
        Kind::InvalidUtf8 => not_utf8(arguments),
        _ => (first_line(error), None),
    };
    let hint = hint.unwrap_or_else(|| format!("`{verb} --help` shows what there is"));
    Diagnostic::new(Code::Usage, message).hint(hint)
}

fn unknown_verb(error: &clap::Error, verb: &str) -> (String, Option<String>) {
    let word = text(error, ContextKind::InvalidSubcommand);
    let hint = suggestion(error, ContextKind::SuggestedSubcommand);
    (format!("'{word}' is not a verb of {verb}"), hint)
}

fn unknown_argument(error: &clap::Error, verb: &str) -> (String, Option<String>) {
    let word = text(error, ContextKind::InvalidArg);
    let kind = if word.starts_with('-') { "an option of" } else { "expected by" };
    let hint = suggestion(error, ContextKind::SuggestedArg);
    let hint = hint.or_else(|| {
        (word == "--batch").then(|| "Use --dim NAME=SIZE for a named dimension, or --shape INPUT:SHAPE".to_owned())
    });
    (format!("'{word}' is not {kind} {verb}"), hint)
}

fn invalid_value(error: &clap::Error) -> (String, Option<String>) {
    let (option, value) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::InvalidValue));
    let known = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(known)) => known.join(", "),
        _ => String::new(),
    };
    if value.is_empty() {
        let hint = (!known.is_empty()).then(|| format!("It takes one of: {known}"));
        return (format!("{option} has no value"), hint);
    }
    let hint = suggestion(error, ContextKind::SuggestedValue);
    (format!("'{value}' is not a value of {option}"), hint.or_else(|| Some(format!("It takes one of: {known}"))))
}

fn refused_value(error: &clap::Error) -> (String, Option<String>) {
    let (option, value) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::InvalidValue));
    let why = error.source().map(ToString::to_string).unwrap_or_default();
    let why = match why.as_str() {
        // How Rust's own parsers say it.
        "invalid digit found in string" => "expected a whole number".to_owned(),
        "number too large to fit in target type" => "the number is too large".to_owned(),
        _ => why,
    };
    (format!("'{value}' is not a value of {option}: {why}"), None)
}

fn conflict(error: &clap::Error) -> (String, Option<String>) {
    let (option, others) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::PriorArg));
    if others.is_empty() || option == others {
        return (format!("{option} is given more than once"), Some("Give it once".to_owned()));
    }
    (format!("{option} and {others} exclude each other"), Some("Leave one of them out".to_owned()))
}

/// clap does not say which argument it was.
fn not_utf8(arguments: &[OsString]) -> (String, Option<String>) {
    let odd: Vec<_> =
        arguments.iter().filter(|it| it.to_str().is_none()).map(|it| format!("'{}'", it.display())).collect();
    let hint = "Rename the file, or go to its folder and name it from there";
    (format!("{} is not valid UTF-8", odd.join(", ")), Some(hint.to_owned()))
}

/// What clap prints, without its `error: `.
fn first_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// The parts of an error, joined: a name, or several.
fn text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

fn suggestion(error: &clap::Error, kind: ContextKind) -> Option<String> {
    let near = match error.get(kind)? {
        ContextValue::String(near) => near.clone(),
        // The nearest is the last.
        ContextValue::Strings(near) => near.last()?.clone(),
        _ => return None,
    };
    Some(format!("Did you mean '{near}'?"))
}

/// The verb whose arguments they are: `byoc plugin new`.
fn verb(arguments: &[OsString]) -> String {
    let mut command = super::command();
    let mut names = vec![command.get_name().to_owned()];
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(found) = command.find_subcommand(word).cloned() else { break };
        names.push(word.to_owned());
        command = found;
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn told(arguments: &[&str], message: &str, hint: &str) {
        let arguments: Vec<_> = ["byoc"].iter().chain(arguments).map(OsString::from).collect();
        let error = crate::args::command().try_get_matches_from(&arguments);
        let told = diagnostic(&error.expect_err("it is wrong"), &arguments);
        assert_eq!((told.message.as_str(), told.hint.as_deref()), (message, Some(hint)));
    }

    #[test]
    fn verbs_and_options() {
        told(&["compil"], "'compil' is not a verb of byoc", "Did you mean 'compile'?");
        told(&["run", "m", "--theads", "1"], "'--theads' is not an option of byoc run", "Did you mean '--threads'?");
        let hint = "Use --dim NAME=SIZE for a named dimension, or --shape INPUT:SHAPE";
        told(&["run", "m", "--batch", "1"], "'--batch' is not an option of byoc run", hint);
        let hint = "`byoc run --help` shows what there is";
        told(&["run", "m", "n"], "'n' is not expected by byoc run", hint);
        told(&["plugin", "lst"], "'lst' is not a verb of byoc plugin", "Did you mean 'list'?");
    }

    #[test]
    fn values() {
        let hint = "`byoc run --help` shows what there is";
        let number = "'two' is not a value of --threads <N>: expected a whole number";
        told(&["run", "m", "--threads", "two"], number, hint);
        let hint = "`byoc bench --help` shows what there is";
        let below = "'-1' is not a value of --duration <S>: expected 0 to 86400 seconds";
        told(&["bench", "m", "--duration", "-1"], below, hint);
        let fill = "'randm' is not a value of --fill <MODE>";
        told(&["run", "m", "--fill", "randm"], fill, "Did you mean 'random'?");
        told(
            &["run", "m", "--fill", "7"],
            "'7' is not a value of --fill <MODE>",
            "It takes one of: random, zeros, ones",
        );
        let nothing = "--fill <MODE> has no value";
        told(&["run", "m", "--fill"], nothing, "It takes one of: random, zeros, ones");
    }

    #[test]
    fn what_is_missing_or_too_much() {
        told(&["run"], "byoc run needs <FILE>", "`byoc run --help` shows what there is");
        let both = ["verify", "m", "--model", "m", "--snr", "3", "--atol", "1"];
        told(&both, "--snr <DB> and --atol <[OUTPUT=]X> exclude each other", "Leave one of them out");
        let twice = ["run", "m", "--threads", "1", "--threads", "2"];
        told(&twice, "--threads <N> is given more than once", "Give it once");
    }
}
