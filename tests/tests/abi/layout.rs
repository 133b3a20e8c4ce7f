//! The frozen ABI as a text, `tests/golden/abi-<version>.txt`: structs with their sizes and offsets, the functions of both
//! tables in their order, status codes, symbols, and the fields of the JSON messages. What may grow may do so at its
//! end, and `UPDATE_GOLDEN=1` writes that down; any other change needs another ABI version.

use byoc_plugin_api::ABI_VERSION;
use byoc_tests::places;
use quote::ToTokens;
use syn::{Attribute, Expr, Fields, Item, ItemConst, ItemEnum, ItemStruct, Type};

/// What may happen to a block of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Nothing.
    Frozen,
    /// Lines may be added behind the last one.
    GrowsAtTheEnd,
}

/// The structs that grow: each says how large it is, or is a prefix type.
const GROWING: &[&str] = &[
    "PluginInfo",
    "PluginModule",
    "PluginTable",
    "DomainTable",
    "DeviceTable",
    "SizedTable",
    "StringsTable",
    "StepsTable",
    "EventsTable",
];

/// A block of the text: a title and a line for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    title: String,
    rule: Rule,
    lines: Vec<String>,
}

#[test]
fn nothing_frozen_moves() {
    let path = places::checkout().join(format!("tests/golden/abi-{ABI_VERSION}.txt"));
    let now = snapshot();
    let bless = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    match std::fs::read_to_string(&path) {
        Ok(then) => {
            let then = parse(&then);
            let broken = broken(&then, &now);
            assert!(broken.is_empty(), "the ABI version must be raised, or this taken back:\n{}", broken.join("\n"));
            assert!(bless || then == now, "the ABI has grown; write that down with UPDATE_GOLDEN=1, it is for ever");
        }
        Err(_) => assert!(bless, "there is no {}; write it with UPDATE_GOLDEN=1", path.display()),
    }
    if bless {
        std::fs::write(&path, text(&now)).expect("the checkout is ours");
    }
}

/// The promises that `now` breaks.
fn broken(then: &[Block], now: &[Block]) -> Vec<String> {
    let mut broken = Vec::new();
    for old in then {
        let title = &old.title;
        let Some(new) = now.iter().find(|new| new.title == *title && new.rule == old.rule) else {
            broken.push(format!("'{title}' is gone"));
            continue;
        };
        let differs = |index: &usize| old.lines.get(*index) != new.lines.get(*index);
        if let Some(index) = (0..old.lines.len()).find(differs) {
            let found = new.lines.get(index).map_or("nothing", String::as_str);
            broken.push(format!("'{title}': '{}' has become '{found}'", old.lines[index]));
            continue;
        }
        let added = &new.lines[old.lines.len()..];
        if let (Rule::Frozen, [line, ..]) = (old.rule, added) {
            broken.push(format!("'{title}' is frozen and has got '{line}'"));
        }
        broken.extend(
            added
                .iter()
                .filter(|line| title.starts_with("json ") && is_required_field(line))
                .map(|line| format!("'{title}' has got '{line}', which older plugins do not write: give it a default")),
        );
    }
    broken
}

/// Whether a line of a message is a field that readers cannot do without. Variants have upper-case names.
fn is_required_field(line: &str) -> bool {
    line.starts_with(|first: char| first.is_lowercase()) && !line.contains("#[serde(default")
}

fn snapshot() -> Vec<Block> {
    let wire: Vec<_> = ["dlpack.rs", "abi.rs", "table.rs"].into_iter().flat_map(items).collect();
    let mut blocks = Vec::new();
    let region = items("region.rs");
    let abilities: Vec<_> =
        ["domain_tables.rs", "sized_table.rs", "strings_table.rs", "steps_table.rs", "events_table.rs"]
            .into_iter()
            .flat_map(items)
            .collect();
    let constants = wire.iter().chain(&region).chain(&abilities).filter_map(|item| match item {
        Item::Const(item) => constant(item),
        _ => None,
    });
    blocks.push(block("constants", Rule::GrowsAtTheEnd, constants.collect()));
    blocks.push(block("methods", Rule::GrowsAtTheEnd, methods()));
    let [rust, c] = symbols();
    blocks.push(block("symbols of plugins in Rust", Rule::GrowsAtTheEnd, rust));
    blocks.push(block("symbols of plugins in C", Rule::GrowsAtTheEnd, c));
    let structs: Vec<_> = wire
        .iter()
        .chain(&abilities)
        .filter_map(|item| if let Item::Struct(item) = item { Some(item) } else { None })
        .collect();
    let names = structs.iter().map(|item| layout(item, &structs));
    blocks.extend(names);
    let files = [
        "call.rs",
        "backend.rs",
        "job.rs",
        "runtime.rs",
        "options.rs",
        "pattern.rs",
        "region.rs",
        "constants.rs",
        "dtype.rs",
        "error.rs",
        "domain.rs",
        "operator.rs",
        "precision.rs",
        "packed_group.rs",
    ];
    let sizes =
        items("../dim/src/lib.rs").into_iter().filter(|item| matches!(item, Item::Enum(item) if item.ident == "Dim"));
    blocks.extend(files.into_iter().flat_map(items).chain(sizes).filter_map(|item| message(&item)));
    blocks
}

fn block(title: &str, rule: Rule, lines: Vec<String>) -> Block {
    assert!(!lines.is_empty(), "{title}");
    Block { title: title.to_owned(), rule, lines }
}

/// The items of a file of the plugin API.
fn items(file: &str) -> Vec<Item> {
    let text = places::read(&places::checkout().join("plugin-api/src").join(file));
    syn::parse_file(&String::from_utf8(text).expect("text")).expect("Rust").items
}

/// A number or a text that crosses the border. The version itself is in the name of the file.
fn constant(item: &ItemConst) -> Option<String> {
    let name = item.ident.to_string();
    let wanted = matches!(name.as_str(), "MAGIC" | "SCHEMA")
        || name.ends_with("_ID")
        || (squeeze(&item.ty) == "i32" && !name.contains("VERSION"));
    wanted.then(|| format!("{name} = {}", squeeze(&item.expr)))
}

/// The names in the list of methods.
fn methods() -> Vec<String> {
    let items = items("call.rs");
    let list = items.iter().find_map(|item| match item {
        Item::Const(item) if item.ident == "METHODS" => Some(item.expr.as_ref()),
        _ => None,
    });
    let Some(Expr::Reference(list)) = list else { panic!("METHODS is a list") };
    let Expr::Array(list) = list.expr.as_ref() else { panic!("METHODS is a list") };
    let name = |row: &Expr| match row {
        Expr::Tuple(row) => squeeze(&row.elems[0]),
        _ => panic!("a row is a name and a function"),
    };
    list.elems.iter().map(name).collect()
}

/// The names under which a library shows what it has, in Rust and in C.
fn symbols() -> [Vec<String>; 2] {
    let read = |path: &str| String::from_utf8(places::read(&places::checkout().join(path))).expect("text");
    let (rust, c) = (read("plugin-api/src/export.rs"), read("plugin-api/include/byoc_plugin.h"));
    let rust = rust.lines().filter_map(|line| {
        let line = line.trim_start();
        let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("static ")?;
        Some(rest.split_once(':')?.0.to_owned())
    });
    let c = c.lines().filter_map(|line| line.strip_prefix("extern BYOC_EXPORT const ").map(str::to_owned));
    [rust.collect(), c.collect()]
}

/// A struct as `repr(C)` lays it out where pointers have 64 bits.
fn layout(item: &ItemStruct, all: &[&ItemStruct]) -> Block {
    let name = item.ident.to_string();
    assert!(item.attrs.iter().any(|attribute| squeeze(attribute) == "#[repr(C)]"), "{name} is not repr(C)");
    let (size, align, offsets) = place(item, all);
    let grows = GROWING.contains(&name.as_str());
    let fields = item.fields.iter().zip(offsets);
    let mut lines: Vec<_> = fields
        .map(|(field, offset)| {
            let name = field.ident.as_ref().expect("named fields").to_string();
            format!("{offset} {name}: {}", squeeze(&field.ty))
        })
        .collect();
    // The size of what grows is not promised.
    let size = if grows { String::new() } else { format!(", size {size}") };
    lines.insert(0, format!("align {align}{size}"));
    block(&format!("struct {name}"), if grows { Rule::GrowsAtTheEnd } else { Rule::Frozen }, lines)
}

/// Size, alignment and offsets.
fn place(item: &ItemStruct, all: &[&ItemStruct]) -> (usize, usize, Vec<usize>) {
    let (mut end, mut most) = (0_usize, 1);
    let mut offsets = Vec::new();
    for field in &item.fields {
        let (size, align) = size_of_type(&field.ty, all);
        offsets.push(end.next_multiple_of(align));
        end = end.next_multiple_of(align) + size;
        most = most.max(align);
    }
    (end.next_multiple_of(most), most, offsets)
}

fn size_of_type(ty: &Type, all: &[&ItemStruct]) -> (usize, usize) {
    match ty {
        Type::Ptr(_) | Type::BareFn(_) => (8, 8),
        Type::Array(array) => {
            let (size, align) = size_of_type(&array.elem, all);
            (size * squeeze(&array.len).parse::<usize>().expect("a number"), align)
        }
        _ => match squeeze(ty).as_str() {
            "u8" => (1, 1),
            "u16" => (2, 2),
            "i32" | "u32" => (4, 4),
            "u64" | "usize" => (8, 8),
            option if option.starts_with("Option<extern") => (8, 8),
            name => {
                let item = all.iter().find(|item| item.ident == name).unwrap_or_else(|| panic!("what is {name}?"));
                let (size, align, _) = place(item, all);
                (size, align)
            }
        },
    }
}

/// The fields or variants of what is written as JSON.
fn message(item: &Item) -> Option<Block> {
    let (name, attributes, mut lines) = match item {
        Item::Struct(item) => (&item.ident, &item.attrs, fields(&item.fields)),
        Item::Enum(item) => (&item.ident, &item.attrs, variants(item)),
        _ => return None,
    };
    if !attributes.iter().any(|attribute| squeeze(attribute).contains("Serialize")) {
        return None;
    }
    lines.insert(0, format!("written as declared{}", serde(attributes)));
    Some(block(&format!("json {name}"), Rule::GrowsAtTheEnd, lines))
}

fn fields(fields: &Fields) -> Vec<String> {
    let line = |(index, field): (usize, &syn::Field)| {
        let name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
        format!("{name}: {}{}", squeeze(&field.ty), serde(&field.attrs))
    };
    fields.iter().filter(|field| is_written(&field.attrs)).enumerate().map(line).collect()
}

fn variants(item: &ItemEnum) -> Vec<String> {
    let line = |variant: &syn::Variant| {
        format!("{}({}){}", variant.ident, fields(&variant.fields).join(", "), serde(&variant.attrs))
    };
    item.variants.iter().filter(|variant| is_written(&variant.attrs)).map(line).collect()
}

/// What stands for all that is not known yet is never written.
fn is_written(attributes: &[Attribute]) -> bool {
    !["#[serde(skip)]", "#[serde(untagged)]"].iter().any(|unwritten| serde(attributes).contains(unwritten))
}

/// What is said to serde.
fn serde(attributes: &[Attribute]) -> String {
    let said = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    said.map(|attribute| format!(" {}", squeeze(attribute))).collect()
}

/// Source text with one way of writing spaces, and without documentation.
fn squeeze(tokens: &impl ToTokens) -> String {
    let text: String = tokens.to_token_stream().to_string().split_whitespace().collect();
    [("*const", "*const "), ("*mut", "*mut "), (",", ", "), ("->", " -> "), ("extern\"C\"", "extern \"C\" ")]
        .into_iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
        .replace(", )", ")")
}

/// The blocks as text: a title with its rule, then indented lines.
fn text(blocks: &[Block]) -> String {
    let block = |block: &Block| {
        let rule = if block.rule == Rule::Frozen { "frozen" } else { "grows at the end" };
        let lines: String = block.lines.iter().map(|line| format!("  {line}\n")).collect();
        format!("{} [{rule}]\n{lines}", block.title)
    };
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.strip_prefix("  "), blocks.last_mut()) {
            (Some(line), Some(block)) => block.lines.push(line.to_owned()),
            _ => {
                let (title, rule) = line.split_once(" [").expect("a title and a rule");
                let rule = if rule == "frozen]" { Rule::Frozen } else { Rule::GrowsAtTheEnd };
                blocks.push(Block { title: title.to_owned(), rule, lines: Vec::new() });
            }
        }
    }
    blocks
}

/// Changes to the snapshot that no one may write down, and those that one may.
#[test]
fn only_growth_may_be_written_down() {
    let then = snapshot();
    assert_eq!(parse(&text(&then)), then, "the text says everything");
    let changed = |title: &str, change: fn(&mut Vec<String>)| {
        let mut now = then.clone();
        change(&mut now.iter_mut().find(|block| block.title == title).unwrap_or_else(|| panic!("{title}")).lines);
        broken(&then, &now)
    };
    let none: [String; 0] = [];
    assert_eq!(changed("struct Slice", |_| {}), none);
    assert_eq!(
        changed("struct Slice", |lines| lines.push("16 more: u8".into())),
        ["'struct Slice' is frozen and has got '16 more: u8'"]
    );
    assert_eq!(
        changed("struct Slice", |lines| lines.swap(1, 2)),
        ["'struct Slice': '0 data: *const u8' has become '8 len: usize'"]
    );
    assert_eq!(
        changed("constants", |lines| drop(lines.pop())),
        ["'constants': 'EVENTS_ID = \"byoc.events\"' has become 'nothing'"]
    );
    assert_eq!(
        changed("json Region", |lines| lines.push("more: u8".into())),
        ["'json Region' has got 'more: u8', which older plugins do not write: give it a default"]
    );
    for title in ["methods", "struct PluginTable", "struct PluginModule", "json Region", "json Claim"] {
        assert_eq!(changed(title, |lines| lines.push("more: u8 #[serde(default)]".into())), none, "{title}");
        assert_eq!(changed(title, |lines| lines.insert(1, "more: u8".into())).len(), 1, "{title}");
        assert_eq!(changed(title, |lines| drop(lines.pop())).len(), 1, "{title}");
    }
    assert_eq!(broken(&then, &then[1..]), ["'constants' is gone"]);
}
