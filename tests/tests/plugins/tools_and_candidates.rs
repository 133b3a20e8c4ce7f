//! What backends say of this machine and of other code for a region: in Rust and in C, from this process and from one of
//! their own, and what a host makes of answers that break the contract.

use byoc_plugin_api::host::LoadedBackend;
use byoc_plugin_api::{Backend, Candidate, Error, Options};
use byoc_tests::fixture::{Change, c_device_plugin};
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::places;
use byoc_tests::program::without_places;
use std::path::Path;

/// The code of a region of the plugin in C, with constant 7.
static CODE: [u8; 8] = 7i64.to_ne_bytes();

fn backend(plugin: &Path) -> LoadedBackend {
    byoc_plugin_api::host::open(plugin).expect("it opens").backends.remove(0)
}

fn candidates(backend: &LoadedBackend, code: &[u8]) -> Result<Vec<Candidate>, Error> {
    backend.candidates(code, &Options::default())
}

fn tools(backend: &LoadedBackend) -> Result<Vec<String>, Error> {
    let found = backend.tools(&Options::default())?;
    Ok(found.into_iter().map(|tool| format!("{}: {:?}, {:?}", tool.name, tool.found, tool.hint)).collect())
}

fn names(candidates: &[Candidate]) -> Vec<&str> {
    candidates.iter().map(|candidate| candidate.name.as_str()).collect()
}

#[test]
fn a_plugin_in_c_has_both() {
    let folder = places::temporary();
    let backend = backend(&c_device_plugin(folder.path(), "cdevice", &[]));
    assert_eq!(tools(&backend), Ok(vec!["malloc: Some(\"in the C library\"), None".into()]));
    let found = candidates(&backend, &CODE).expect("candidates");
    assert_eq!((names(&found), found[0].code.as_slice()), (vec!["short", "long"], &CODE[..]));
    // The other way round as well: the first one is what was asked about.
    let other = candidates(&backend, &found[1].code).expect("candidates");
    assert_eq!((names(&other), other[1].code.as_slice()), (vec!["long", "short"], &CODE[..]));
    assert_eq!(candidates(&backend, b"code"), Err(Error::new("damaged code")));
}

#[test]
fn a_plugin_that_has_neither_answers_with_nothing() {
    let backend = backend(&places::plugin("file_format"));
    assert_eq!(tools(&backend), Ok(vec![]));
    assert_eq!(candidates(&backend, b"code"), Ok(vec![]));
}

const TAKE: &str = "    for (i = 0; i < 2; i++) {\n        length";

/// A change of the plugin, and the error of asking for candidates.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        TAKE,
        "    return BYOC_FAILED;\n    for (i = 0; i < 2; i++) {\n        length",
        "the plugin failed and gave no reason",
    ),
    (
        TAKE,
        "    return 42;\n    for (i = 0; i < 2; i++) {\n        length",
        "the plugin answered with the unknown status 42",
    ),
    (
        "\"long\"}",
        "\"b\\xffd\"}",
        "the name of a candidate is not valid: invalid unicode code point at line 1 column 11",
    ),
    ("\"long\"}", "\"\\\\n\"}", "a candidate has no name"),
    ("\"long\"}", "\" short\"}", "two candidates are called 'short'"),
    (
        "codes[0] = code;",
        "codes[0].data = other; codes[0].len = 3;",
        "its first candidate, 'short', is not the code it was asked about",
    ),
    (
        TAKE,
        "    for (i = 0; i < 1000; i++) byoc_item(out, \"{\\\"name\\\":\\\"x\\\"}\", 100, 12);\n    for (i = 0; i < 2; i++) {\n        length",
        "it has more than 256 candidates",
    ),
    (
        TAKE,
        "    out.write(out.context, code);\n    for (i = 0; i < 2; i++) {\n        length",
        "the plugin gave code before the name of a candidate",
    ),
    (
        TAKE,
        "    codes[0].len = ((size_t)1 << 30) + 1;\n    for (i = 0; i < 2; i++) {\n        length",
        "its candidates have more than 1073741824 bytes",
    ),
];

#[test]
fn candidates_that_break_the_contract_are_one_error() {
    let folder = places::temporary();
    let mut wrong = Vec::new();
    for (index, (text, new, message)) in BROKEN.iter().enumerate() {
        let change: Change<'_> = ("plugin.c", text, new);
        let backend = backend(&c_device_plugin(folder.path(), &format!("broken{index}"), &[change]));
        let found = candidates(&backend, &CODE);
        if found.as_ref().map_err(|error| error.message.as_str()) != Err(message) {
            wrong.push(format!("{new}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const TOLD: &str = "[{\\\"name\\\":\\\"malloc\\\"";

/// What comes of asking for tools: a line for each, or an error.
type Told = Result<&'static [&'static str], &'static str>;

/// A change of the plugin, and what comes of asking for its tools.
const TELLS: &[(&str, &str, Told)] = &[
    (
        TOLD,
        "[{\\\"of_a_later_version\\\":1,\\\"name\\\":\\\"malloc\\\"",
        Ok(&["malloc: Some(\"in the C library\"), None"]),
    ),
    (
        TOLD,
        "[{\\\"name\\\":\\\"\\xff\\\"",
        Err("the plugin's answer is not valid: invalid unicode code point at line 1 column 11"),
    ),
    (
        TOLD,
        "{{\\\"name\\\":\\\"malloc\\\"",
        Err("the plugin's answer is not valid: invalid type: map, expected a sequence at line 1 column 0"),
    ),
    (
        TOLD,
        "[{\\\"name\\\":7",
        Err("the plugin's answer is not valid: invalid type: integer `7`, expected a string at line 1 column 10"),
    ),
    (
        TOLD,
        "[{\\\"title\\\":\\\"malloc\\\"",
        Err("the plugin's answer is not valid: missing field `name` at line 1 column 69"),
    ),
    (TOLD, "[{\\\"name\\\":\\\"\\\\u0007\\\"", Err("a tool has no name")),
    (TOLD, "[{\\\"name\\\":\\\"x\\\"},{\\\"name\\\":\\\"x\\\"", Err("two tools are called 'x'")),
    ("byoc_is(method, \"tools\")", "byoc_is(method, \"later\")", Ok(&[])),
];

#[test]
fn tools_that_break_the_contract_are_one_error() {
    let folder = places::temporary();
    let mut wrong = Vec::new();
    for (index, (text, new, expected)) in TELLS.iter().enumerate() {
        let change: Change<'_> = ("plugin.c", text, new);
        let backend = backend(&c_device_plugin(folder.path(), &format!("tells{index}"), &[change]));
        let found = tools(&backend).map_err(|error| error.message);
        let expected = expected.map(|lines| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>());
        if found != expected.map_err(str::to_owned) {
            wrong.push(format!("{new}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn candidates_are_an_ability() {
    let folder = places::temporary();
    let change = ("plugin.c", "byoc_is(method, \"candidates\")", "byoc_is(method, \"later\")");
    let backend = backend(&c_device_plugin(folder.path(), "without", &[change]));
    assert_eq!(candidates(&backend, &CODE), Ok(vec![]));
}

/// What users see of it, through a process of the plugin's own.
#[test]
fn info_tells_what_is_found_and_how_to_get_the_rest() {
    let folder = Folder::empty();
    let plugin = places::plugin("simdev");
    let plugin = plugin.to_str().expect("a plain path");
    let info = |name: &str, more: &[&str]| folder.byoc(&[&["plugin", "info", name, "--plugin", plugin], more].concat());
    let told = info("simdev", &["--backend-opt", "simdev.off=true"]);
    let lines: Vec<_> = told.success().lines().rev().take(3).collect();
    let expected =
        ["hint: Leave out simdev.off", "the simulator  running     missing", "tool           needed for  found"];
    assert_eq!(lines, expected);
    let told: serde_json::Value = serde_json::from_str(info("simdev", &["--json"]).success()).expect("JSON");
    golden("tools.json", &format!("{}\n", serde_json::to_string_pretty(&told["tools"]).expect("JSON")));
    let failed = info("simdev", &["--backend-opt", "simdev.panic=tools"]);
    let error = "error: [B306] backend 'simdev' cannot report what it uses: backend panicked: as asked in tools\n";
    assert_eq!((failed.code, without_places(&failed.stderr).as_str()), (Some(1), error));
    info("simdev", &["--backend-opt", "simdev-guest.off=true"]).fails(
        2,
        "error: [B304] option 'simdev-guest.off' is not one of the backend 'simdev'\n  hint: Write --backend-opt simdev.KEY=VALUE",
    );
    info("simdev", &["--backend-opt", "simdev.of=true"])
        .fails(2, "error: [B304] backend 'simdev': there is no option 'of'\n  hint: Did you mean 'off'?");
    assert!(!info("json", &[]).success().contains("tool"), "it uses nothing");
}
