//! Who asks for an argument that is missing: the verb, or another option that is given.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// What is missing, and the option that asks for it; `None` where the verb itself does. clap does not tell which option asks for
/// which, so they are taken away.
pub(super) fn missing(verb: &Command, arguments: &[OsString]) -> (Option<String>, Vec<String>) {
    let options = verb.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_required_set());
    let options: Vec<_> = options.filter_map(|option| Some((format!("--{}", option.get_long()?), option))).collect();
    let by_verb = refused(&options.iter().fold(arguments.to_vec(), without));
    if !by_verb.is_empty() {
        return (None, by_verb);
    }
    let alone = |kept: &str| {
        let others = options.iter().filter(|(name, _)| name != kept);
        refused(&others.fold(arguments.to_vec(), without))
    };
    let asked = options.iter().map(|(name, _)| (Some(name.clone()), alone(name)));
    asked.into_iter().find(|(_, missing)| !missing.is_empty()).unwrap_or_else(|| (None, refused(arguments)))
}

/// The arguments without which these are refused.
fn refused(arguments: &[OsString]) -> Vec<String> {
    match super::command().try_get_matches_from(arguments) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => missing.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The arguments without an option and its value.
fn without(arguments: Vec<OsString>, (name, option): &(String, &Arg)) -> Vec<OsString> {
    let (mut rest, mut arguments) = (Vec::new(), arguments.into_iter());
    while let Some(word) = arguments.next() {
        if word == name.as_str() {
            // The value is the next word.
            option.get_action().takes_values().then(|| arguments.next());
        } else if !word.to_str().is_some_and(|word| word.starts_with(&format!("{name}="))) {
            rest.push(word);
        }
    }
    rest
}
