//! Files with variants: what is equal is stored once, whatever it is called, and what does not fit is refused.

use std::io::Cursor;
use std::path::Path;

use bytes::Bytes;

use super::{Contents, code_section, noise, sample, silent};
use crate::artifact::ledger::ledger_section;
use crate::artifact::manifest::Manifest;
use crate::artifact::variants::{VariantList, graph_section};
use crate::artifact::write::Plan;
use crate::artifact::{
    ArtifactFile, FORMAT, Fate, Form, GRAPH, Joined, LedgerOfVariants, PRODUCER, Section, VariantBytes, graph,
};
use crate::diagnostic::Diagnostic;

/// Two variants: they share the original and the empty constant, and each has a packed form and code of its own.
fn pair() -> Vec<(String, Contents)> {
    let mut other = sample(5000);
    other.sections[1].bytes = noise(9, 5000);
    other.sections[3] = Section::of_bytes(code_section("byoc_main_acme_0"), Bytes::from_static(b"other code"));
    // The same bytes under another name, as another shape, and asked for at another alignment.
    other.manifest.constants.swap(0, 2);
    other.manifest.constants[2].alignment = 1024;
    for constant in &mut other.manifest.constants {
        constant.section =
            format!("const/{}", 7 - constant.section.trim_start_matches("const/").parse::<i32>().expect("number"));
    }
    for section in &mut other.sections[..3] {
        section.name =
            format!("const/{}", 7 - section.name.trim_start_matches("const/").parse::<i32>().expect("number"));
    }
    other.sections[0].alignment = 1024;
    let manifest = &mut other.manifest;
    let bindings = manifest.regions[0].constants.iter_mut().filter_map(|binding| binding.used.as_mut());
    let outputs = manifest.entries[0].constants.iter_mut().map(|constant| &mut constant.used);
    for used in bindings.chain(outputs) {
        used.constant = 2 - used.constant;
    }
    for row in &mut other.ledger {
        row.stored = row.stored.map(|stored| 2 - stored);
    }
    let mut pair = vec![("npu".to_owned(), sample(5000)), ("cpu".to_owned(), other)];
    let rows = pair.iter_mut().flat_map(|(_, contents)| &mut contents.ledger);
    rows.for_each(|row| row.digest = format!("{:032x}", row.id));
    pair
}

fn written(variants: Vec<(String, Contents)>) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let joined = Joined::of(variants).expect("it is joined");
    joined.plan().expect("a plan").stream(&mut out, &mut silent()).expect("it is written");
    out.into_inner()
}

fn opened(bytes: Vec<u8>) -> Result<ArtifactFile, Diagnostic> {
    ArtifactFile::from_bytes(Path::new("m.byoc"), bytes.into())
}

#[test]
fn equal_bytes_are_one_section() {
    let file = opened(written(pair())).expect("it opens");
    assert_eq!(file.variants(), ["npu", "cpu"]);
    let names: Vec<_> =
        file.sections().map(|section| section.name).filter(|name| !name.starts_with("__pad__")).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("const/")).count(), 4, "{names:?}");
    let mut code: Vec<_> = names.iter().filter(|name| name.starts_with("code/")).collect();
    code.sort();
    assert_eq!(code, [&"code/cpu/byoc_main_acme_0", &"code/npu/byoc_main_acme_0"]);
    let all = file.all().expect("all fit");
    for (artifact, (name, contents)) in all.iter().zip(pair()) {
        assert_eq!(artifact.variant(), Some(name.as_str()));
        for (stored, section) in contents.manifest.constants.iter().zip(0..) {
            let expected = contents.sections.iter().find(|it| it.name == stored.section).expect("a section");
            assert_eq!(artifact.stored(section).expect("stored"), expected.bytes);
        }
        assert_eq!(artifact.code(&artifact.manifest().regions[0]).expect("code"), contents.sections[3].bytes);
    }
    // The alignment is what either asks for.
    let shared = &all[1].manifest().constants[2].section;
    assert_eq!(shared, &all[0].manifest().constants[0].section);
    let section = file.sections().find(|section| section.name == shared).expect("there");
    assert_eq!(section.offset % 1024, 0);
    file.verify_digests().expect("whole");
}

/// A file of all forms of the same: any order and any way to it changes nothing but the list.
#[test]
fn the_file_depends_on_the_variants_only() {
    let mut reversed = pair();
    reversed.reverse();
    let (one, other) = (opened(written(pair())).expect("opens"), opened(written(reversed)).expect("opens"));
    let sections = |file: &ArtifactFile| {
        let all = file.sections().filter(|section| section.name != GRAPH);
        all.map(|section| (section.name.to_owned(), section.digest.map(str::to_owned), section.bytes))
            .collect::<Vec<_>>()
    };
    let without_pads =
        |file| sections(file).into_iter().filter(|(name, ..)| !name.starts_with("__pad__")).collect::<Vec<_>>();
    assert_eq!(without_pads(&one), without_pads(&other));
    assert_eq!(other.variants(), ["cpu", "npu"]);
    // What is read of a file makes the same file.
    #[cfg(feature = "compiler")]
    {
        let all = one.all().expect("all");
        let parts =
            one.variants().iter().cloned().zip(all.iter().map(|artifact| artifact.contents().expect("contents")));
        assert_eq!(written(parts.collect()), written(pair()));
    }
}

#[test]
fn the_ledger_adds_up_to_the_file() {
    let bytes = written(pair());
    let file = opened(bytes.clone()).expect("opens");
    let ledger = LedgerOfVariants::of(&file, &file.all().expect("all")).expect("ledgers");
    assert_eq!((ledger.shared_constants, ledger.shared_code), (24, 0));
    let own: Vec<_> = ledger.variants.iter().map(|it| (it.variant.as_str(), it.constants, it.code)).collect();
    assert_eq!(own, [("npu", 5000, 12), ("cpu", 5000, 10)]);
    let sum: u64 =
        ledger.variants.iter().map(|VariantBytes { constants, code, graph, .. }| constants + code + graph).sum();
    assert_eq!(sum + ledger.shared_constants + ledger.frame, bytes.len() as u64);
    let packed = &ledger.constants[1];
    let forms: Vec<_> =
        packed.forms.iter().map(|Form { fate, bytes, variants, .. }| (*fate, *bytes, variants.join(","))).collect();
    assert_eq!(forms, [(Fate::Packed, 5000, "npu".to_owned()), (Fate::Packed, 5000, "cpu".to_owned())]);
    let beyond: Vec<_> =
        ledger.constants.iter().map(|constant| (constant.forms.len(), constant.beyond_one())).collect();
    assert_eq!(beyond, [(1, 0), (2, 5000), (1, 0)]);
}

#[test]
fn names_are_checked() {
    let message = |variants: Vec<(String, Contents)>| Joined::of(variants).expect_err("it is refused").to_string();
    let named = |one: &str, other: &str| vec![(one.to_owned(), sample(64)), (other.to_owned(), sample(64))];
    assert_eq!(message(named("a", "a")), "[B901] there are two variants 'a'. Give each a name of its own");
    assert_eq!(
        message(named("a", "b c")),
        "[B901] 'b c' is not the name of a variant: at most 64 letters, digits, '_', '-' and '.', and neither '-' nor '.' first"
    );
    let file = opened(written(pair())).expect("opens");
    assert_eq!(
        file.only().expect_err("two").to_string(),
        "[B702] 'm.byoc' has the variants npu, cpu. Choose one with --variant"
    );
    let unknown = file.variant("gpu").expect_err("none").to_string();
    assert_eq!(unknown, "[B702] 'm.byoc' has no variant 'gpu'. Did you mean 'cpu'?");
}

/// A file of these graphs, each with the ledger of the sample, and sections, whatever they are.
fn raw(list: &VariantList, graphs: &[(&str, &Manifest)], sections: &[Section]) -> Vec<u8> {
    let mut all = vec![Section::of_bytes(GRAPH, graph::encode(list).expect("json").into())];
    for (name, manifest) in graphs {
        all.push(Section::of_bytes(graph_section(name), graph::encode(manifest).expect("json").into()));
        let ledger = graph::encode(&sample(64).ledger).expect("json");
        all.push(Section::of_bytes(ledger_section(Some(name)), ledger.into()));
    }
    let mut out = Cursor::new(Vec::new());
    let plan = Plan::of(all.iter().chain(sections), (FORMAT, PRODUCER)).expect("a plan");
    plan.stream(&mut out, &mut silent()).expect("it is written");
    out.into_inner()
}

#[test]
fn what_does_not_fit_is_named() {
    let contents = sample(64);
    let graph = &contents.manifest;
    let list = |names: &[&str]| {
        VariantList::of(names.iter().map(|name| (*name).to_owned()), [].into_iter(), PRODUCER.to_owned())
    };
    let said = |file: Vec<u8>| opened(file).and_then(|file| file.all()).expect_err("it is refused").message;
    let cases = [
        (raw(&list(&[]), &[], &[]), "section 'graph': it lists no variant"),
        (raw(&list(&["a", "a"]), &[], &[]), "section 'graph': it has two variants 'a'"),
        (raw(&list(&["a"]), &[], &[]), "it has no section 'graph/a'"),
        (
            raw(&list(&["a"]), &[], &[Section::of_bytes("graph/a", graph::encode(graph).expect("json").into())]),
            "it has no section 'ledger/a'",
        ),
        (raw(&list(&["a"]), &[("a", graph)], &contents.sections[1..]), "it has no section 'const/0'"),
        (
            raw(&list(&["a"]), &[("a", graph), ("b", graph)], &contents.sections),
            "section 'graph/b': nothing refers to it",
        ),
        (
            raw(
                &list(&["a"]),
                &[("a", graph)],
                &[&contents.sections[..], &[Section::of_bytes(code_section("x"), Bytes::from_static(b"x"))]].concat(),
            ),
            "section 'code/x': nothing refers to it",
        ),
        (
            raw(&list(&["a"]), &[("a", &Manifest { format: FORMAT, ..graph.clone() })], &contents.sections),
            "section 'graph/a': its format is 2",
        ),
    ];
    for (file, expected) in cases {
        assert_eq!(said(file), format!("'m.byoc' is damaged: {expected}"));
    }
    // A section of other bytes than the graph says.
    let mut other = sample(64);
    other.sections[0] = Section { shape: vec![25], ..Section::of_bytes("const/0", noise(3, 25)) };
    let said = said(raw(&list(&["a"]), &[("a", graph)], &other.sections));
    assert_eq!(said, "'m.byoc' is damaged: section 'const/0': it is u8[25], and the graph says f32[2, 3]");
}

/// The graph of a variant that is not asked for is not looked at, so that loading one takes as long as if it were alone.
#[test]
fn other_variants_are_not_looked_at() {
    let contents = sample(64);
    let list = VariantList::of(["a", "b"].map(str::to_owned).into_iter(), [].into_iter(), PRODUCER.to_owned());
    let damaged = Manifest { regions: Vec::new(), ..contents.manifest.clone() };
    let file = opened(raw(&list, &[("a", &contents.manifest), ("b", &damaged)], &contents.sections)).expect("opens");
    file.variant("a").expect("it is whole");
    let expected = "'m.byoc' is damaged: entry 'main': it calls region 0 of 0";
    assert_eq!(file.variant("b").expect_err("damaged").message, expected);
    assert_eq!(file.all().expect_err("damaged").message, expected);
}
