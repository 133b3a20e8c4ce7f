//! What is wrong with a command line, in the form of every other error.

use std::error::Error as _;
use std::ffi::OsString;

use byoc_core::diagnostic::{Code, Diagnostic};
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::{companion, elsewhere};

/// The error as one of ours. Help and the version are no errors: they are printed, and the program ends.
pub(super) fn diagnostic(error: &clap::Error, arguments: &[OsString]) -> Diagnostic {
    use ErrorKind as Kind;
    if matches!(error.kind(), Kind::DisplayHelp | Kind::DisplayVersion | Kind::DisplayHelpOnMissingArgumentOrSubcommand)
    {
        error.exit();
    }
    let (verb, command) = verb(arguments);
    let (message, hint) = match error.kind() {
        Kind::InvalidSubcommand => unknown_verb(error, &verb, &command),
        Kind::UnknownArgument => unknown_argument(error, &verb, &command, arguments),
        Kind::InvalidValue => invalid_value(error),
        Kind::ValueValidation => refused_value(error),
        Kind::MissingRequiredArgument => missing(&verb, &command, arguments),
        Kind::ArgumentConflict => conflict(error),
        Kind::InvalidUtf8 => not_utf8(arguments),
        _ => (first_line(error), None),
    };
    let hint = hint.unwrap_or_else(|| format!("`{verb} --help` shows what there is"));
    Diagnostic::new(Code::Usage, message).hint(hint)
}

fn unknown_verb(error: &clap::Error, verb: &str, command: &Command) -> (String, Option<String>) {
    let word = text(error, ContextKind::InvalidSubcommand);
    let hint = elsewhere::hint(&word, command);
    let hint = hint.or_else(|| meant(&word, command.get_subcommands().map(|verb| verb.get_name().to_owned())));
    (format!("'{word}' is not a verb of {verb}"), hint)
}

fn unknown_argument(
    error: &clap::Error,
    verb: &str,
    command: &Command,
    arguments: &[OsString],
) -> (String, Option<String>) {
    let word = text(error, ContextKind::InvalidArg);
    if !word.starts_with('-') {
        return (format!("'{word}' is not expected by {verb}"), elsewhere::hint(&word, command));
    }
    // Of `-niter`, as other tools have it, clap tells the first letter.
    let written = arguments.iter().filter_map(|it| it.to_str()).find(|it| it.starts_with(&word));
    let written = written.and_then(|it| it.split('=').next()).unwrap_or(&word);
    let known = |word: &str| Some((word.to_owned(), elsewhere::hint(word, command)?));
    let (word, hint) = match known(written).or_else(|| known(&word)) {
        Some((word, hint)) => (word, Some(hint)),
        None => {
            let names = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_long);
            let near = meant(&word, names.map(|name| format!("--{name}")));
            let hint = elsewhere::verbs_with(&word).or(near);
            (word, hint)
        }
    };
    (format!("'{word}' is not an option of {verb}"), hint)
}

fn missing(verb: &str, command: &Command, arguments: &[OsString]) -> (String, Option<String>) {
    match companion::missing(command, arguments) {
        (None, missing) => (format!("{verb} needs {}", missing.join(" and ")), None),
        (Some(option), missing) => {
            let missing = missing.join(" and ");
            (format!("{option} needs {missing}"), Some(format!("Add {missing}, or leave {option} out")))
        }
    }
}

fn invalid_value(error: &clap::Error) -> (String, Option<String>) {
    let (option, value) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::InvalidValue));
    let names = match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(names)) => names.as_slice(),
        _ => &[],
    };
    let known = names.join(", ");
    if value.is_empty() {
        let hint = (!known.is_empty()).then(|| format!("It takes one of: {known}"));
        return (format!("{option} has no value"), hint);
    }
    let hint = meant(&value, names.iter().cloned());
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

/// The name that was meant, if one is so near that nothing else can have been: a guess that is wrong is worse than none.
fn meant(word: &str, names: impl Iterator<Item = String>) -> Option<String> {
    const FEWEST_LETTERS: usize = 4;
    let letters = word.trim_start_matches('-').chars().count();
    let (slips, near) = names.map(|name| (strsim::osa_distance(word, &name), name)).min()?;
    (letters >= FEWEST_LETTERS && slips <= letters / 3).then(|| format!("Did you mean '{near}'?"))
}

/// The verb whose arguments they are: `byoc plugin new`.
fn verb(arguments: &[OsString]) -> (String, Command) {
    let mut command = super::command();
    let mut names = vec![command.get_name().to_owned()];
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-')) {
        let Some(found) = command.find_subcommand(word).cloned() else { break };
        names.push(word.to_owned());
        command = found;
    }
    (names.join(" "), command)
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
        told(&["plugin", "lsit"], "'lsit' is not a verb of byoc plugin", "Did you mean 'list'?");
    }

    /// Nothing is guessed that only looks alike.
    #[test]
    fn far_words_are_not_guessed() {
        told(&["plugin", "lst"], "'lst' is not a verb of byoc plugin", "`byoc plugin --help` shows what there is");
        told(&["vision"], "'vision' is not a verb of byoc", "`byoc --help` shows what there is");
        let shells = "It takes one of: bash, elvish, fish, powershell, zsh";
        told(&["completions", "tcsh"], "'tcsh' is not a value of <SHELL>", shells);
        let message = "'--threads' is not an option of byoc compile";
        told(&["compile", "--threads", "2"], message, "It is an option of byoc run, byoc bench, byoc verify");
        let message = "'--opset' is not an option of byoc compile";
        told(&["compile", "--opset", "2"], message, "`byoc compile --help` shows what there is");
    }

    #[test]
    fn words_of_other_tools() {
        told(&["version"], "'version' is not a verb of byoc", "Use --version");
        for word in ["--iters", "--iterations", "-niter"] {
            let message = format!("'{word}' is not an option of byoc bench");
            told(&["bench", "m", &format!("{word}=100")], &message, "Use --repeat <N>");
        }
        told(&["run", "m", "--iters", "9"], "'--iters' is not an option of byoc run", "`byoc bench` has --repeat <N>");
        told(&["bench", "m", "-n", "2"], "'-n' is not an option of byoc bench", "Use --streams <N>");
        told(&["bench", "m", "-t2"], "'-t' is not an option of byoc bench", "Use --duration <SECONDS>");
        let shape = "Use --shape <INPUT:SHAPE>";
        told(&["compile", "--minShapes=x:1x3"], "'--minShapes' is not an option of byoc compile", shape);
        let file = "Name the file without an option";
        told(&["compile", "-m", "m.onnx"], "'-m' is not an option of byoc compile", file);
        told(&["compile", "--model", "m.onnx"], "'--model' is not an option of byoc compile", file);
        let engine = "Use --output <FILE>";
        told(&["compile", "m", "--saveEngine=m.byoc"], "'--saveEngine' is not an option of byoc compile", engine);
    }

    #[test]
    fn values() {
        let hint = "`byoc run --help` shows what there is";
        let number = "'two' is not a value of --threads <N>: expected a whole number";
        told(&["run", "m", "--threads", "two"], number, hint);
        let hint = "`byoc bench --help` shows what there is";
        let below = "'-1' is not a value of --duration <SECONDS>: expected 0 to 86400 seconds";
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
        let labels = "Add --print-top <N>, or leave --labels out";
        told(&["run", "m", "--labels", "l"], "--labels needs --print-top <N>", labels);
        let stage = "Add --stop-after <STAGE>, or leave --print out";
        told(&["compile", "m", "--print"], "--print needs --stop-after <STAGE>", stage);
        let region = "Add --region <SYMBOL>, or leave --extract out";
        told(&["inspect", "m", "--extract", "z"], "--extract needs --region <SYMBOL>", region);
        let samples = "Add --dataset <PATH>, or leave --input-mean out";
        let both = ["compile", "m", "--input-mean", "1", "--input-std", "1"];
        told(&both, "--input-mean needs --dataset <PATH>", samples);
        let model = "byoc compile needs <[NAME=]MODEL.onnx>...";
        told(&["compile", "--print"], model, "`byoc compile --help` shows what there is");
        let both = ["verify", "m", "--model", "m", "--snr", "3", "--atol", "1"];
        told(&both, "--snr <DB> and --atol <[OUTPUT=]X> exclude each other", "Leave one of them out");
        let twice = ["run", "m", "--threads", "1", "--threads", "2"];
        told(&twice, "--threads <N> is given more than once", "Give it once");
    }
}
