//! The paths on the command line, and the rows of the test: every path that a verb reads beside every one that it writes.

use std::collections::BTreeSet;

use byoc_tests::places;

/// A verb that would write over what it reads.
pub(crate) struct Row {
    /// The flag, or the argument, of what is written.
    pub(crate) writes: &'static str,
    /// The flag, or the argument, of what is read; empty for what the environment names.
    pub(crate) reads: &'static str,
    /// What is asked for; `OUT` is the output.
    pub(crate) arguments: &'static str,
    /// The file that is read.
    pub(crate) input: &'static str,
    /// The same as the message has it; `{folder}` is the folder.
    pub(crate) shown: &'static str,
    /// What it is read as.
    pub(crate) role: &'static str,
}

/// A folder for text forms, and the file of the first stage.
pub(crate) const DUMP: (&str, &str) = ("dump", "dump/1-onnx.txt");

macro_rules! rows {
    ($($writes:literal, $reads:literal: $arguments:literal, $input:literal, $role:literal $(, shown $shown:literal)?;)*) => {
        &[$(Row {
            writes: $writes,
            reads: $reads,
            arguments: $arguments,
            input: $input,
            shown: [$input, $($shown)?][[$input, $($shown)?].len() - 1],
            role: $role,
        },)*]
    };
}

/// Every row.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = rows! {
    "--output", "[NAME=]MODEL.onnx": "compile model.onnx -o OUT", "model.onnx", "a model";
    "--output", "[NAME=]MODEL.onnx": "compile a=model.onnx b=other.onnx -o OUT", "other.onnx", "a model";
    "--output", "[NAME=]MODEL.onnx": "compile ext.onnx -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "[NAME=]MODEL.onnx": "compile ext.onnx --external-constants --no-mmap -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "--dataset": "compile model.onnx --dataset set.npz -o OUT", "set.npz", "a data set";
    "--output", "--dataset": "compile model.onnx --dataset set -o OUT", "set/a.npy", "a data set";
    "--output", "--plugin": "compile model.onnx --plugin one.so -o OUT", "one.so", "a plugin";
    "--output", "--plugin-dir": "compile model.onnx --plugin-dir plugins -o OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "": "compile model.onnx -o OUT", "allowed", "a list of allowed plugins";
    "--dump-ir", "[NAME=]MODEL.onnx": "compile model.onnx -o new --dump-ir OUT", "model.onnx", "a model";
    "--dump-ir", "[NAME=]MODEL.onnx": "compile ext.onnx -o new --dump-ir OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--dump-ir", "[NAME=]MODEL.onnx": "compile ext.onnx --stop-after onnx --dump-ir OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--dump-ir", "--dataset": "compile model.onnx --dataset set -o new --dump-ir OUT", "set/a.npy", "a data set";
    "--dump-ir", "--plugin": "compile model.onnx --plugin one.so -o new --dump-ir OUT", "one.so", "a plugin";
    "--dump-ir", "--plugin-dir": "compile model.onnx --plugin-dir plugins -o new --dump-ir OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "FILE": "run model.byoc --fill ones -o OUT", "model.byoc", "the file to run";
    "--output", "FILE": "run model.onnx --fill ones -o OUT", "model.onnx", "the file to run";
    "--output", "FILE": "run ext.onnx --fill ones -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "FILE": "run ext.byoc --fill ones -o OUT", "ext.data", "constants of the artifact";
    "--output", "--constants-from": "run ext.byoc --constants-from moved --fill ones -o OUT", "moved/ext.data", "constants of the artifact";
    "--output", "--input": "run model.byoc -i in.npz -o OUT", "in.npz", "an input";
    "--output", "--input": "run model.byoc -i x=@x.npy -o OUT", "x.npy", "an input";
    "--output", "--input": "run model.byoc -i x=picture.png -o OUT", "picture.png", "an input";
    "--output", "--input": "run model.byoc -i test_data -o OUT", "test_data/input_0.pb", "an input";
    "--output", "--labels": "run model.byoc --fill ones --print-top 1 --labels labels.txt -o OUT", "labels.txt", "labels";
    "--trace", "--labels": "run model.byoc --fill ones --print-top 1 --labels labels.txt --trace OUT", "labels.txt", "labels";
    "--output", "--plugin": "run model.byoc --fill ones --plugin one.so -o OUT", "one.so", "a plugin";
    "--output", "--plugin-dir": "run model.byoc --fill ones --plugin-dir plugins -o OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "": "run model.byoc --fill ones -o OUT", "allowed", "a list of allowed plugins";
    "--samples", "FILE": "bench model.byoc --samples OUT", "model.byoc", "the file to run";
    "--samples", "FILE": "bench ext.onnx --repeat 1 --samples OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--samples", "FILE": "bench ext.byoc --repeat 1 --samples OUT", "ext.data", "constants of the artifact";
    "--samples", "--constants-from": "bench ext.byoc --constants-from moved --samples OUT", "moved/ext.data", "constants of the artifact";
    "--samples", "--input": "bench model.byoc -i in.npz --samples OUT", "in.npz", "an input";
    "--samples", "--plugin": "bench model.byoc --plugin one.so --samples OUT", "one.so", "a plugin";
    "--samples", "--plugin-dir": "bench model.byoc --plugin-dir plugins --samples OUT", "plugins/libbyoc_two.so", "a plugin";
    "--samples", "": "bench model.byoc --samples OUT", "allowed", "a list of allowed plugins";
    "--trace", "[NAME=]MODEL.onnx": "compile model.onnx -o new --trace OUT", "model.onnx", "a model";
    "--trace", "[NAME=]MODEL.onnx": "compile ext.onnx -o new --trace OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--trace", "--dataset": "compile model.onnx --dataset set.npz -o new --trace OUT", "set.npz", "a data set";
    "--trace", "--plugin": "compile model.onnx --plugin one.so -o new --trace OUT", "one.so", "a plugin";
    "--trace", "--plugin-dir": "compile model.onnx --plugin-dir plugins -o new --trace OUT", "plugins/libbyoc_two.so", "a plugin";
    "--trace", "FILE": "run model.byoc --fill ones --trace OUT", "model.byoc", "the file to run";
    "--trace", "FILE": "run ext.onnx --fill ones --trace OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--trace", "FILE": "run ext.byoc --fill ones --trace OUT", "ext.data", "constants of the artifact";
    "--trace", "--constants-from": "run ext.byoc --constants-from moved --fill ones --trace OUT", "moved/ext.data", "constants of the artifact";
    "--trace", "--input": "run model.byoc -i in.npz --trace OUT", "in.npz", "an input";
    "--trace", "--plugin": "run model.byoc --fill ones --plugin one.so --trace OUT", "one.so", "a plugin";
    "--trace", "--plugin-dir": "run model.byoc --fill ones --plugin-dir plugins --trace OUT", "plugins/libbyoc_two.so", "a plugin";
    "--trace", "": "run model.byoc --fill ones --trace OUT", "allowed", "a list of allowed plugins";
    "--trace", "FILE": "bench model.byoc --fill ones --trace OUT", "model.byoc", "the file to run";
    "--trace", "FILE": "bench ext.onnx --fill ones --trace OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--trace", "FILE": "bench ext.byoc --fill ones --trace OUT", "ext.data", "constants of the artifact";
    "--trace", "--constants-from": "bench ext.byoc --constants-from moved --fill ones --trace OUT", "moved/ext.data", "constants of the artifact";
    "--trace", "--input": "bench model.byoc -i in.npz --trace OUT", "in.npz", "an input";
    "--trace", "--plugin": "bench model.byoc --fill ones --plugin one.so --trace OUT", "one.so", "a plugin";
    "--trace", "--plugin-dir": "bench model.byoc --fill ones --plugin-dir plugins --trace OUT", "plugins/libbyoc_two.so", "a plugin";
    "--trace", "": "bench model.byoc --fill ones --trace OUT", "allowed", "a list of allowed plugins";
    "--output", "FILE": "report model.byoc -o OUT", "model.byoc", "the file to show";
    "--output", "FILE": "report model.onnx -o OUT", "model.onnx", "the file to show";
    "--output", "FILE": "report ext.byoc -o OUT", "ext.data", "constants of the artifact";
    "--output", "FILE": "report ext.onnx -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "--profile": "report model.byoc --profile in.npz -o OUT", "in.npz", "a profile";
    "--output", "--plugin": "report model.onnx --plugin one.so -o OUT", "one.so", "a plugin";
    "--output", "--plugin-dir": "report model.onnx --plugin-dir plugins -o OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "": "report model.onnx -o OUT", "allowed", "a list of allowed plugins";
    "--extract", "FILE": "inspect model.byoc --region byoc_main_json_0 --extract OUT", "model.byoc", "the artifact";
    "--code", "FILE": "inspect model.byoc --region byoc_main_json_0 --code OUT", "model.byoc", "the artifact";
    "--code", "FILE": "inspect ext.byoc --region byoc_main_json_0 --code OUT", "ext.data", "constants of the artifact";
    "--code", "--plugin": "inspect model.byoc --region byoc_main_json_0 --plugin one.so --code OUT", "one.so", "a plugin";
    "--code", "--plugin-dir": "inspect model.byoc --region byoc_main_json_0 --plugin-dir plugins --code OUT", "plugins/libbyoc_two.so", "a plugin";
    "--code", "": "inspect model.byoc --region byoc_main_json_0 --code OUT", "allowed", "a list of allowed plugins";
    "--extract", "FILE": "inspect ext.byoc --region byoc_main_json_0 --extract OUT", "ext.data", "constants of the artifact";
    "--extract", "--plugin": "inspect model.byoc --region byoc_main_json_0 --plugin one.so --extract OUT", "one.so", "a plugin";
    "--extract", "--plugin-dir": "inspect model.byoc --region byoc_main_json_0 --plugin-dir plugins --extract OUT", "plugins/libbyoc_two.so", "a plugin";
    "--extract", "": "inspect model.byoc --region byoc_main_json_0 --extract OUT", "allowed", "a list of allowed plugins";
    "--output", "[NAME=]FILE": "merge a=model.byoc b=other.byoc -o OUT", "other.byoc", "an artifact";
    "--output", "[NAME=]FILE": "merge a=ext.byoc b=model.byoc -o OUT", "ext.data", "constants of the artifact";
    "--output", "FILE": "extract variants.byoc --variant cpu -o OUT", "variants.byoc", "the artifact";
    "--output", "FILE": "swap model.byoc --from other.onnx -o OUT", "model.byoc", "the artifact";
    "--output", "--from": "swap model.byoc --from other.onnx -o OUT", "other.onnx", "a model";
    "--output", "--from": "swap model.byoc --from ext.onnx -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "FILE": "tune model.byoc --device sim:0 -o OUT", "model.byoc", "the artifact";
    "--output", "FILE": "tune ext.byoc --device sim:0 -o OUT", "ext.data", "constants of the artifact";
    "--output", "--constants-from": "tune ext.byoc --constants-from moved --device sim:0 -o OUT", "moved/ext.data", "constants of the artifact";
    "--output", "--plugin": "tune model.byoc --device sim:0 --plugin one.so -o OUT", "one.so", "a plugin";
    "--output", "--plugin-dir": "tune model.byoc --device sim:0 --plugin-dir plugins -o OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "": "tune model.byoc --device sim:0 -o OUT", "allowed", "a list of allowed plugins";
    "--output", "": "tune model.byoc --device sim:0 -o OUT", "cache/tune/choice", "a choice of before";
    "--output", "[NAME=]MODEL.onnx": "repro region.onnx --region byoc_main_json_0 -o OUT", "region.onnx", "a model";
    "--output", "[NAME=]MODEL.onnx": "repro ext.onnx --region byoc_main_json_0 -o OUT", "ext.data", "data of a model", shown "{folder}/ext.data";
    "--output", "--plugin": "repro region.onnx --region byoc_main_json_0 --plugin one.so -o OUT", "one.so", "a plugin";
    "--output", "--plugin-dir": "repro region.onnx --region byoc_main_json_0 --plugin-dir plugins -o OUT", "plugins/libbyoc_two.so", "a plugin";
    "--output", "": "repro region.onnx --region byoc_main_json_0 -o OUT", "allowed", "a list of allowed plugins";
};

/// The paths of each verb: what it writes, and what it reads.
const VERBS: &[(&str, &[&str], &[&str])] = &[
    ("compile", &["--output", "--dump-ir", "--trace"], &["[NAME=]MODEL.onnx", "--dataset", "--plugin", "--plugin-dir"]),
    ("run", &["--output", "--trace"], &["FILE", "--constants-from", "--input", "--labels", "--plugin", "--plugin-dir"]),
    ("bench", &["--samples", "--trace"], &["FILE", "--constants-from", "--input", "--plugin", "--plugin-dir"]),
    ("verify", &[], &["FILE", "--reference", "--model", "--constants-from", "--input", "--plugin", "--plugin-dir"]),
    ("inspect", &["--extract", "--code"], &["FILE", "--constants-from", "--plugin", "--plugin-dir"]),
    ("explain", &[], &["[NAME=]MODEL.onnx", "--plugin", "--plugin-dir"]),
    ("report", &["--output"], &["FILE", "--profile", "--plugin", "--plugin-dir"]),
    ("merge", &["--output"], &["[NAME=]FILE"]),
    ("extract", &["--output"], &["FILE"]),
    ("swap", &["--output"], &["FILE", "--from"]),
    ("tune", &["--output"], &["FILE", "--constants-from", "--plugin", "--plugin-dir"]),
    ("repro", &["--output"], &["[NAME=]MODEL.onnx", "--plugin", "--plugin-dir"]),
    ("check", &[], &["FILE", "--constants-from", "--plugin", "--plugin-dir"]),
    ("plugin list", &[], &["--plugin", "--plugin-dir"]),
    ("plugin info", &[], &["--plugin", "--plugin-dir"]),
    ("plugin new", &["--dir"], &["--api"]),
    ("plugin test", &["--save-failing"], &["FILE", "--case"]),
    ("plugin bench", &[], &["FILE", "[NAME=]MODEL.onnx"]),
    ("quickstart", &["--dir"], &[]),
    ("completions", &[], &[]),
    ("man", &[], &[]),
];

/// What needs no row, with the reason.
const NO_ROW: &[(&str, &str, &str)] = &[
    ("inspect", "--constants-from", "no file is extracted with it"),
    ("plugin test", "FILE", "the folder that is written must be empty"),
    ("plugin test", "--case", "the folder that is written must be empty"),
    ("plugin new", "--api", "the folder that is written must be empty, and that of a crate is not"),
];

/// Values that are not paths, as the help calls them.
const NO_PATHS: &[&str] = &[
    "DB",
    "GLOB",
    "I/N",
    "INPUT:SHAPE",
    "KIND:N",
    "LANG",
    "MEAN,...",
    "MIB",
    "MODE",
    "N",
    "NAME",
    "[INPUT=]LOW,HIGH",
    "NAME,...",
    "NAME=BACKEND,...",
    "VARIANT",
    "NAME.KEY=VALUE",
    "NAME=PATTERN",
    "NAME=SIZE",
    "OPERATOR",
    "P",
    "S",
    "SECONDS",
    "STAGE",
    "SHELL",
    "STD,...",
    "SYMBOL",
    "VERB",
    "VERSION",
    "WHEN",
    "X",
    "[OUTPUT=]X",
    "on|off",
];

/// What takes a value in the help of a verb: a flag, or the name of an argument.
fn values(help: &str) -> BTreeSet<String> {
    let value = |line: &str| {
        let text = line.trim_start();
        // Texts about a flag are moved further in.
        if line.len() - text.len() > 6 {
            return None;
        }
        let name = text.trim_end_matches("...").trim_matches(['<', '>']);
        let name = if name.ends_with(']') { name.trim_start_matches('[').trim_end_matches(']') } else { name };
        match text.split_once("--") {
            Some((_, flag)) if text.starts_with('-') => {
                let (flag, value) = flag.split_once(" <")?;
                (!NO_PATHS.contains(&value.trim_end_matches('>'))).then(|| format!("--{flag}"))
            }
            None if text.starts_with(['<', '[']) => (!NO_PATHS.contains(&name)).then(|| name.to_owned()),
            _ => None,
        }
    };
    help.lines().filter(|line| line.starts_with(' ')).filter_map(value).collect()
}

/// A path that is new on the command line has to be listed, and to be tried where the verb writes something.
#[test]
fn every_path_is_tried() {
    let page = std::fs::read_to_string(places::checkout().join("docs/cli.md")).expect("the page is there");
    let mut known = BTreeSet::new();
    for section in page.split("\n## byoc ").skip(1) {
        let (verb, help) = section.split_once('\n').expect("a section has a text");
        let paths = values(help);
        if verb == "plugin" {
            assert!(paths.is_empty(), "{paths:?}");
            continue;
        }
        let listed = VERBS.iter().find(|(listed, ..)| *listed == verb);
        let (_, writes, reads) = listed.unwrap_or_else(|| panic!("what does {verb} read and write?"));
        assert_eq!(paths, writes.iter().chain(*reads).map(|path| (*path).to_owned()).collect(), "{verb}");
        known.insert(verb);
        for (write, read) in writes.iter().flat_map(|write| reads.iter().map(move |read| (write, read))) {
            let of_verb = |row: &&Row| row.arguments.split(' ').next() == Some(verb);
            let tried = ROWS.iter().filter(of_verb).any(|row| row.writes == *write && row.reads == *read);
            let excused = NO_ROW.iter().any(|(of, path, _)| *of == verb && path == read);
            assert!(tried != excused, "{verb} {write} {read}");
        }
    }
    assert_eq!(known.len(), VERBS.len());
}
