//! `docs/writing-a-backend.md` shows what is: its code stands in the skeletons and the test plugins, which are compiled; its JSON is what the
//! plugin API reads and writes; its commands are those that `first_hour.rs` runs.

use std::fmt::Debug;

use byoc_plugin_api::{
    Claim, CodeFile, DType, Description, DevicePlan, DomainInfo, Environment, Error, Event, Generated, Options,
    OutputType, Pattern, Refusal, Region, Tool,
};
use byoc_tests::markdown::{Block, blocks};
use byoc_tests::places;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn file(path: &str) -> String {
    String::from_utf8(places::read(&places::checkout().join(path))).expect("text")
}

fn page() -> String {
    file("docs/writing-a-backend.md")
}

#[test]
fn every_block_is_compiled_or_run() {
    let rust = places::list(&places::checkout().join("backends/template/src"));
    let rust = rust.iter().map(|name| format!("backends/template/src/{name}"));
    let rust: Vec<_> = rust
        .chain(["file_format", "simdev", "custom_operators"].map(|name| format!("tests/plugins/{name}/src/lib.rs")))
        .map(|path| file(&path))
        .collect();
    let plugins = ["matmul", "device", "swirl", "strings"].map(|name| file(&format!("tests/plugins/c/{name}.c")));
    let c = [&[file("backends/template/c/template.c")][..], &plugins].concat();
    let mut kinds = Vec::new();
    for block in blocks(&page()) {
        let kind = block.info.split(' ').next().unwrap_or_default().to_owned();
        match kind.as_str() {
            "rust" => assert!(rust.iter().any(|text| text.contains(&block.text)), "in no plugin: {block:?}"),
            "c" => assert!(c.iter().any(|text| text.contains(&block.text)), "in no plugin: {block:?}"),
            "json" => is_what_it_says(&block),
            "sh" => assert!(
                ["In Rust", "In C", "Under a sanitizer", "Packages"].contains(&block.section.as_str()),
                "nobody runs {block:?}"
            ),
            // `conformance.rs` has `byoc plugin test` read it.
            "toml" => assert_eq!(block.section, "What `byoc plugin test` asks"),
            _ => panic!("nobody looks at {block:?}"),
        }
        kinds.push(kind);
    }
    for kind in ["rust", "c", "json", "sh"] {
        assert!(kinds.iter().filter(|found| *found == kind).count() >= 5, "{kind}: {kinds:?}");
    }
}

/// What the page on operators shows stands in the file that it names.
#[test]
fn the_example_of_an_operator_is_what_the_sources_say() {
    let blocks = blocks(&file("docs/adding-an-operator.md"));
    for block in &blocks {
        let path = block.info.strip_prefix("rust ").unwrap_or_else(|| panic!("no file: {block:?}"));
        assert!(file(path).contains(&block.text), "{path} has no {block:?}");
    }
    assert_eq!(blocks.len(), 5);
}

/// Reads a block as the type that it names.
fn is_what_it_says(block: &Block) {
    match block.info.as_str() {
        "json Description" => drop(reads_back::<Description>(block)),
        "json Options" => drop(reads_back::<Options>(block)),
        "json Patterns" => {
            for pattern in reads_back::<Vec<Pattern>>(block) {
                pattern.parse().expect("a pattern");
            }
        }
        "json Region" => reads_back::<Region>(block).validate().expect("a region"),
        "json Error" => drop(reads_back::<Error>(block)),
        "json Refusal" => drop(reads_back::<Refusal>(block)),
        "json Claim" => drop(reads_back::<Claim>(block)),
        "json Generated" => drop(reads_back::<Generated>(block)),
        "json Events" => drop(reads_back::<Vec<Event>>(block)),
        "json CodeFile" => drop(reads_back::<CodeFile>(block)),
        "json OutputTypes" => drop(reads_back::<Vec<OutputType>>(block)),
        "json Tools" => drop(reads_back::<Vec<Tool>>(block)),
        "json DomainInfo" => drop(reads_back::<DomainInfo>(block)),
        "json DevicePlan" => drop(reads_back::<DevicePlan>(block)),
        "json Environment" => drop(reads_back::<Environment>(block)),
        _ => panic!("nobody reads {block:?}"),
    }
}

/// Parses a block; written again it is the same, so that it has no field that nobody reads and lacks none that is written.
fn reads_back<T: DeserializeOwned + Serialize + Debug>(block: &Block) -> T {
    let value: T = serde_json::from_str(&block.text).unwrap_or_else(|error| panic!("{error}: {block:?}"));
    let shown: Value = serde_json::from_str(&block.text).expect("parsed above");
    assert_eq!(serde_json::to_value(&value).expect("JSON"), shown, "{}", block.info);
    value
}

/// The structs and enums that cross the border as JSON, and where they are defined.
const TYPES: &[(&str, &[&str])] = &[
    (
        "backend.rs",
        &[
            "struct Description",
            "struct FileFormat",
            "struct RegionPolicy",
            "struct CodeFile",
            "struct Tool",
            "struct Table",
        ],
    ),
    ("constants.rs", &["enum ConstantAccess", "enum Claim", "struct Packed"]),
    ("domain.rs", &["struct DomainInfo", "struct DevicePlan"]),
    ("dtype.rs", &["enum DType"]),
    ("error.rs", &["struct Error", "struct Refusal", "enum RefusalCode"]),
    ("job.rs", &["struct Generated", "enum Event"]),
    ("runtime.rs", &["struct Environment"]),
    ("options.rs", &["struct OptionSpec", "enum OptionKind"]),
    (
        "operator.rs",
        &[
            "struct Operator",
            "struct CustomAttribute",
            "enum AttributeKind",
            "struct OutputRule",
            "enum DTypeRule",
            "enum ShapeRule",
            "struct OutputType",
        ],
    ),
    ("packed_group.rs", &["struct Part"]),
    ("pattern.rs", &["struct Pattern"]),
    ("precision.rs", &["struct Precision"]),
    (
        "region.rs",
        &[
            "struct Region",
            "struct Value",
            "struct Constant",
            "struct Quantized",
            "struct Node",
            "enum Attribute",
            "struct AttributeTensor",
        ],
    ),
];

/// Every field and every variant that the plugin API defines stands on the page as a word of JSON.
#[test]
fn every_word_of_the_json_is_there() {
    let page = page();
    let words: Vec<_> = page.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').collect();
    for (path, types) in TYPES {
        let source = file(&format!("plugin-api/src/{path}"));
        for name in *types {
            let members = members(&source, name);
            assert!(!members.is_empty(), "{path}: {name}");
            let missing: Vec<_> = members.iter().filter(|member| !words.contains(&member.as_str())).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}");
        }
    }
    for code in members(&file("plugin-api/src/error.rs"), "enum RefusalCode") {
        assert!(page.contains(&format!("\n| `{code}` | ")), "{code}");
    }
    let dtypes: Vec<_> = DType::all().map(DType::name).collect();
    assert!(page.contains(&format!("`{}`", dtypes.join(" "))), "{dtypes:?}");
}

/// The fields of a struct or the variants of an enum as JSON has them: without those that stay on one side.
fn members(source: &str, name: &str) -> Vec<String> {
    let lines = source.lines().skip_while(|line| *line != format!("pub {name} {{")).skip(1);
    let own = lines.take_while(|line| *line != "}").filter_map(|line| line.strip_prefix("    "));
    let mut members = Vec::new();
    let mut skipped = false;
    for line in own {
        if line.starts_with([' ', '/', '#', '}']) {
            skipped |= line == "#[serde(skip)]";
        } else if !std::mem::take(&mut skipped) {
            members.push(snake(line.trim_start_matches("pub ")));
        }
    }
    members
}

/// The name at the start of a line: `ConstantNeeded,` is `constant_needed`, and `BF16` is `bf16`.
fn snake(line: &str) -> String {
    let name = line.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap_or_default();
    let mut text = String::new();
    let mut in_word = false;
    for char in name.chars() {
        if in_word && char.is_ascii_uppercase() {
            text.push('_');
        }
        in_word = char.is_ascii_lowercase();
        text.push(char.to_ascii_lowercase());
    }
    text
}

/// The table of patterns shows nothing that is not a pattern.
#[test]
fn every_pattern_of_the_table_parses() {
    let page = page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `("));
    let texts: Vec<_> = rows.map(|row| format!("({}", row.split('`').next().unwrap_or_default())).collect();
    assert!(texts.len() >= 7, "{texts:?}");
    for text in texts {
        Pattern::new("shown", text.replace("\\|", "|")).parse().expect("a pattern");
    }
}

/// The promise of the first line: five files in Rust, beside a test, and one in C.
#[test]
fn the_first_line_tells_how_many_files_there_are() {
    let first = "# Writing a backend: you edit five files of your own in Rust, or one in C, and none of ours";
    assert_eq!(page().lines().next(), Some(first));
    let folder = places::checkout().join("backends/template");
    let expected = ["codegen.rs", "constants.rs", "lib.rs", "patterns.rs", "runtime.rs", "tests.rs"];
    assert_eq!(places::list(&folder.join("src")), expected);
    let c: Vec<_> = places::list(&folder.join("c")).into_iter().filter(|name| name.ends_with(".c")).collect();
    assert_eq!(c, ["template.c", "test.c"]);
}
