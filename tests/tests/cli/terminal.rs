//! What is seen on a terminal: everything fits, nothing is lost, and a pipe gets what it always got.

use byoc_plugin_api::Attribute;
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::program::{self, byoc, outcome};
use byoc_tests::terminal::{in_terminal, shown};
use serde_json::Value;

/// A model with names as exporters write them, of which a device takes a part.
fn exported() -> Model {
    let weight: Vec<f32> = (0..8 * 8 * 9).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
    let mut model = Model::default().input("images", Type::Float, &[1, 8, 32, 32]).weight("w", &[8, 8, 3, 3], &weight);
    let mut x = "images".to_owned();
    for layer in 0..4 {
        let name = |part: &str| format!("/backbone/stages.{layer}/block/{part}_output_0");
        let (convolved, active) = (name("conv"), name("act"));
        model = model.node_with("Conv", &[&x, "w"], &[&convolved], &[("pads", Attribute::Ints(vec![1; 4]))]);
        model = model.node("Erf", &[&convolved], &[&active]);
        x = active;
    }
    model.output(&x, Type::Float, &[1, 8, 32, 32])
}

/// Every report of the program, as arguments.
const REPORTS: [&[&str]; 12] = [
    &["explain", "model.onnx", "--backend", "kendryte,cpu"],
    &["explain", "model.onnx", "--backend", "kendryte,cpu", "--nodes"],
    &["inspect", "model.onnx"],
    &["inspect", "model.byoc"],
    &["inspect", "model.byoc", "--constants"],
    &["inspect", "model.byoc", "--regions"],
    &["inspect", "model.byoc", "--sections"],
    &["run", "model.byoc", "--fill", "random", "--print-top", "2"],
    &["verify", "model.byoc", "--model", "model.onnx"],
    &["check", "model.byoc"],
    &["plugin", "list"],
    &["plugin", "info", "kendryte"],
];

/// The pieces of words that may not be cut.
fn pieces(text: &str) -> Vec<String> {
    let breaks = |char: char| char.is_whitespace() || "/_.,:;-=|".contains(char);
    text.split(breaks).filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

#[test]
fn every_report_fits_and_no_word_is_cut() {
    let folder = Folder::compiled(exported());
    for arguments in REPORTS {
        let piped = folder.run(arguments);
        for columns in [80, 100, 200] {
            let (text, code) = in_terminal(folder.path(), columns, arguments);
            assert_eq!(code, Some(0), "{arguments:?}: {text}");
            for line in text.lines() {
                let width = line.chars().count();
                assert!(width <= columns.into(), "{arguments:?} at {columns}: {width} columns\n{line}");
            }
            // Those that tell times and values differ from run to run.
            let known = pieces(&piped);
            let new: Vec<_> = pieces(&text).into_iter().filter(|piece| !known.contains(piece)).collect();
            let notes = ["(no", "room", "for", "wide", "shows", "all)"];
            let new: Vec<_> = new.into_iter().filter(|piece| !notes.contains(&piece.as_str())).collect();
            assert!(new.is_empty(), "{arguments:?} at {columns}: pieces of words {new:?} in\n{text}");
        }
    }
}

#[test]
fn reports_at_80_columns() {
    let folder = Folder::compiled(exported());
    golden("terminal/explain.txt", &in_terminal(folder.path(), 80, REPORTS[0]).0);
    golden("terminal/constants.txt", &in_terminal(folder.path(), 80, REPORTS[4]).0);
    golden("terminal/error.txt", &in_terminal(folder.path(), 80, &["run", "model.onnx", "--theads", "2"]).0);
}

/// What a newcomer sees first: on one screen, with commands that work as they are shown.
#[test]
fn the_tour_is_a_screen() {
    let folder = Folder::empty();
    let mut command = byoc(&["quickstart"]);
    let bin = program::path().parent().expect("a program lies in a folder");
    command.current_dir(folder.path()).env("PATH", bin);
    let (text, code) = shown(command, 80);
    assert_eq!(code, Some(0), "{text}");
    // A terminal keeps of a progress line what is written over it.
    let lines: Vec<_> = text.lines().map(|line| line.rsplit(['\r', '\u{1b}']).next().unwrap_or_default()).collect();
    assert!(lines.len() <= 40, "{} lines\n{text}", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    for part in
        ["kendryte          1  conv: shape: a kernel of", "block7.pointwise.weight,", "16.2 MiB without deduplication"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for line in lines.iter().filter(|line| line.starts_with("$ byoc ")) {
        let arguments: Vec<_> = line.split(' ').skip(2).collect();
        folder.byoc(&arguments).success();
    }
}

#[test]
fn a_pipe_and_wide_get_every_column() {
    let folder = Folder::compiled(exported());
    let arguments = ["inspect", "model.byoc", "--constants"];
    let piped = folder.run(&arguments);
    let (wide, _) = in_terminal(folder.path(), 80, &[&arguments[..], &["--wide"]].concat());
    assert_eq!(wide, piped);
    assert!(piped.lines().any(|line| line.len() > 80), "{piped}");
}

#[test]
fn colours_are_for_terminals_and_for_who_asks() {
    let folder = Folder::compiled(small());
    let coloured = |arguments: &[&str]| outcome(byoc(arguments).env_remove("NO_COLOR").current_dir(folder.path()));
    let check = ["check", "model.byoc"];
    let piped = coloured(&check);
    assert!(!piped.stdout.contains('\u{1b}'), "{}", piped.stdout);
    let always = coloured(&[&check[..], &["--color", "always"]].concat());
    assert!(always.stdout.contains("\u{1b}[32mOPTIMAL\u{1b}[0m"), "{}", always.stdout);
    let never = coloured(&["check", "nothing.byoc", "--color", "always"]);
    assert!(never.stderr.starts_with("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m [B601] "), "{}", never.stderr);
    // NO_COLOR is set for all that `in_terminal` runs.
    let (text, _) = in_terminal(folder.path(), 80, &check);
    assert!(!text.contains('\u{1b}'), "{text}");
    let (text, _) = in_terminal(folder.path(), 80, &[&check[..], &["--color", "always"]].concat());
    assert!(text.contains("\u{1b}[32mOPTIMAL"), "{text}");
}

#[test]
fn quiet_and_verbose() {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let verbose = folder.byoc(&["explain", "model.onnx", "-v"]);
    let place = "plugins: the folder '/nonexistent/byoc/plugins' (not there)\n";
    assert!(verbose.stderr.contains(place), "{}", verbose.stderr);
    verbose.success();
    let unknown = Model::default().input("x", Type::Float, &[2]).node("Frobnicate", &["x"], &["y"]);
    folder.write("unknown.onnx", unknown.output("y", Type::Float, &[2]).finish());
    let warned = folder.byoc(&["explain", "unknown.onnx"]);
    assert!(warned.stderr.starts_with("warning: [B102] node 'make_y': operator Frobnicate "), "{}", warned.stderr);
    let quiet = folder.byoc(&["explain", "unknown.onnx", "-q"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(4), ""));
    assert_eq!(quiet.stdout, warned.stdout);
    assert!(quiet.stdout.starts_with("backend     nodes  regions\nunassigned      1        0\n"), "{}", quiet.stdout);
    let loud = folder.byoc(&["explain", "nothing.onnx", "-q"]);
    loud.fails(1, "error: [B601] cannot open 'nothing.onnx': No such file or directory (os error 2)\n  hint: In its folder there is model.onnx, unknown.onnx");
    let both = folder.byoc(&["explain", "model.onnx", "-q", "-v"]);
    both.fails(2, "error: [B901] --quiet and --verbose exclude each other\n  hint: Leave one of them out");
}

#[test]
fn errors_are_json_where_reports_are() {
    let folder = Folder::empty();
    let failed = folder.byoc(&["inspect", "nothing.byoc", "--json"]);
    assert_eq!(failed.code, Some(1));
    assert_eq!(failed.stderr, "error: [B601] cannot open 'nothing.byoc': No such file or directory (os error 2)\n");
    let printed: Value = serde_json::from_str(&failed.stdout).expect("JSON");
    let expected = serde_json::json!({
        "schema": 1,
        "error": {
            "code": "B601",
            "message": "cannot open 'nothing.byoc': No such file or directory (os error 2)",
            "hint": null,
            "exit": 1,
        },
    });
    assert_eq!(printed, expected);
    let usage = folder.byoc(&["inspect", "--json"]);
    let printed: Value = serde_json::from_str(&usage.stdout).expect("JSON");
    assert_eq!(printed["error"]["message"], "byoc inspect needs <FILE>");
    assert_eq!(usage.code, Some(2));
}

#[test]
fn shells_and_manuals() {
    let folder = Folder::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.run(&["completions", shell]);
        assert!(script.contains("quickstart"), "{shell}");
    }
    let page = folder.run(&["man", "plugin", "new"]);
    assert!(page.contains(".TH byoc-plugin-new 1"), "{page}");
    let none = folder.byoc(&["man", "plugn"]);
    assert_eq!(none.code, Some(2));
    assert!(
        none.stderr.starts_with("error: [B901] 'plugn' is not a verb of byoc\n  hint: There is compile, run, "),
        "{}",
        none.stderr
    );
}

/// A model of any size is explained on a screen.
#[test]
fn a_thousand_nodes_in_forty_lines() {
    let folder = Folder::empty();
    let mut model = Model::default().input("x0", Type::Float, &[4, 4]);
    for index in 0..1000 {
        let (from, to) = (format!("x{index}"), format!("x{}", index + 1));
        model = model.node(if index % 3 == 0 { "Erf" } else { "Relu" }, &[&from], &[&to]);
    }
    folder.write("model.onnx", model.output("x1000", Type::Float, &[4, 4]).finish());
    let text = folder.run(&["explain", "model.onnx", "--backend", "kendryte,cpu"]);
    assert!(text.lines().count() <= 40, "{text}");
    let rows = folder.run(&["explain", "model.onnx", "--backend", "kendryte,cpu", "--op", "Erf"]);
    assert!(rows.lines().count() >= 334, "{rows}");
    let (text, _) = in_terminal(folder.path(), 80, &["explain", "model.onnx", "--backend", "kendryte,cpu"]);
    assert!(text.lines().count() <= 40, "{text}");
}
