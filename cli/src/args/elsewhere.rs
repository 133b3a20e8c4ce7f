//! Words of other tools' command lines, and what they are here.

use clap::Command;

/// What stands here in the place of another tool's word.
enum Here {
    /// An option, and a verb that has it.
    Option(&'static str, &'static str),
    /// What there is to do.
    Said(&'static str),
}

use Here::{Option as Flag, Said};

const WORDS: &[(&[&str], Here)] = &[
    (&["--iterations", "--iters", "-niter", "--niter"], Flag("repeat", "bench")),
    (&["-n", "-nstreams", "--nstreams", "--infStreams"], Flag("streams", "bench")),
    (&["-t"], Flag("duration", "bench")),
    (&["--warmUp", "--warm-up"], Flag("warmup", "bench")),
    (&["-d"], Said("Use --backend NAME for whom to compile, --device KIND:N for where to run")),
    (&["--optShapes", "--minShapes", "--maxShapes", "--shapes"], Flag("shape", "compile")),
    (
        &["--batch", "--batch-size", "--batch_size"],
        Said("Use --dim NAME=SIZE for a named dimension, or --shape INPUT:SHAPE"),
    ),
    (&["--onnx", "-m", "--model", "--loadEngine"], Said("Name the file without an option")),
    (&["--fp16"], Said("Export the model in f16: types are those of the model")),
    (&["--int8"], Said("Take a quantised model (QDQ), or a backend that quantises by samples (--dataset)")),
    (&["--onnxrt"], Said("Write onnxruntime's outputs into a file, and use byoc verify --reference OUT.npz")),
    (&["--saveEngine"], Flag("output", "compile")),
    (&["version"], Said("Use --version")),
];

/// The hint for a word that other tools know.
pub(super) fn hint(word: &str, command: &Command) -> Option<String> {
    let (_, here) = WORDS.iter().find(|(words, _)| words.contains(&word))?;
    Some(match here {
        Said(text) => (*text).to_owned(),
        Flag(name, verb) => match option(command, name) {
            Some(option) => format!("Use {option}"),
            None => format!("`byoc {verb}` has {}", option(super::command().find_subcommand(verb)?, name)?),
        },
    })
}

/// The verbs that have the option, for one that has not.
pub(super) fn verbs_with(word: &str) -> Option<String> {
    let name = word.strip_prefix("--")?;
    let root = super::command();
    let verbs = root.get_subcommands().filter(|verb| option(verb, name).is_some());
    let verbs: Vec<_> = verbs.map(|verb| format!("byoc {}", verb.get_name())).collect();
    (!verbs.is_empty()).then(|| format!("It is an option of {}", verbs.join(", ")))
}

/// The option of that name, with its value.
fn option(command: &Command, name: &str) -> Option<String> {
    let found = command.get_arguments().find(|arg| arg.get_long() == Some(name) && !arg.is_hide_set())?;
    let value = found.get_value_names().and_then(|names| names.first());
    Some(value.map_or_else(|| format!("--{name}"), |value| format!("--{name} <{value}>")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_they_are_called_here_is_there() {
        let root = crate::args::command();
        for (words, here) in WORDS {
            let Flag(name, verb) = here else { continue };
            let verb = root.find_subcommand(verb).expect("a verb");
            assert!(option(verb, name).is_some(), "--{name} for {words:?}");
        }
    }
}
