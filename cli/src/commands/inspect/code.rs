//! Descriptions of files in a backend's own format, and of the code of regions.

use byoc_core::artifact::Artifact;
use byoc_core::atomic_file;
use byoc_core::diagnostic::Result;
use byoc_core::plugin::Registered;
use byoc_core::runtime::{Opened, open_region};
use byoc_plugin_api::{CodeFile, Value};
use byoc_tools::package::Form;
use serde::Serialize;
use serde_json::json;

use super::{Args, views};
use crate::compile_request;
use crate::guard::{Guard, Written};
use crate::report::{self, Table, size};

/// Prints what is in a file.
pub(crate) fn file(args: &Args, opened: &Opened) -> Result<()> {
    print(args, opened, &[], &args.file.display().to_string())
}

/// Prints what is in the code of a region, and extracts the file that is in it where requested.
pub(crate) fn region(args: &Args, artifact: &Artifact, symbol: &str) -> Result<()> {
    let constants = artifact.constant_files(args.constants_from.as_deref());
    let output = args.extract.as_ref().or(args.code.as_ref()).cloned();
    let guard = Guard::of(Written::Code, &output).reads("the artifact", &args.file).plugins(&args.places);
    let guard = guard.reads_all(constants);
    guard.check()?;
    let region = artifact.manifest().regions.iter().find(|region| region.symbol == symbol);
    if let (Some(region), Some(output)) = (region, &args.code) {
        atomic_file::write(output, &artifact.code(region)?)?;
        let written = report::written(output)?;
        return if args.json {
            report::print_json(&json!({ "file": output, "region": symbol }))
        } else {
            report::print(&written)
        };
    }
    // An unknown region has no backend; the error lists the known ones.
    let backend = region.map(|region| region.backend.as_str()).unwrap_or_default();
    let registry = compile_request::isolated_registry_of(&args.places, backend)?;
    let has_files = |found: &Registered| !found.description.files.is_empty();
    match (region, registry.backends.iter().find(|found| found.description.name == backend)) {
        // Its backend is not here, or says nothing of its code: there is what the artifact says of the region.
        (Some(region), found) if args.extract.is_none() && !found.is_some_and(has_files) => {
            if found.is_none() {
                report::note(&format!("the backend '{backend}' is not here, and may say more of its code"));
            }
            return if args.json {
                report::print_json(&views::region_json(region, artifact.nodes_of(region)?))
            } else {
                report::print(&views::region(artifact, region)?)
            };
        }
        _ => {}
    }
    let opened = open_region(artifact, symbol, &registry)?;
    if let Some(output) = &args.extract {
        guard.check()?;
        // In range: the size was validated when the code was opened.
        let file = &opened.code[..opened.contents.file_bytes as usize];
        let name = output.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let formats = &opened.backend.description.files;
        let extension = formats.first().map_or("bin", |format| format.extension.as_str());
        atomic_file::write_with(output, |to| Form::of(output).write(to, &name, extension, file))?;
    }
    let notes = region.map(|region| region.notes.as_slice()).unwrap_or_default();
    print(args, &opened, notes, &format!("region {symbol}"))?;
    match &args.extract {
        // On stderr beside JSON, which is for programs.
        Some(output) if args.json => report::note(report::written(output)?.trim_end()),
        Some(output) => report::print(&format!("\n{}", report::written(output)?))?,
        None => {}
    }
    Ok(())
}

/// What `--json` prints: what the backend says of the code, and what it has said when it was made.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    contents: &'a CodeFile,
    notes: &'a [String],
}

fn print(args: &Args, opened: &Opened, notes: &[String], title: &str) -> Result<()> {
    let shown = Shown { contents: &opened.contents, notes };
    if args.json {
        return report::print_json(&shown);
    }
    report::print(&text(&shown, title, &opened.backend.description.name))
}

fn text(Shown { contents, notes }: &Shown<'_>, title: &str, backend: &str) -> String {
    let CodeFile { format, file_bytes, inputs, outputs, tables } = contents;
    let mut text = format!("{title}: {format}, {}, for the backend {backend}\n", size(*file_bytes));
    let values = [("input", inputs), ("output", outputs)];
    for (kind, value) in values.into_iter().flat_map(|(kind, values)| values.iter().map(move |value| (kind, value))) {
        let Value { name, dtype, shape } = value;
        text += &format!("{kind:6} {name}: {dtype}{}\n", report::shape(shape));
    }
    text.extend(notes.iter().map(|note| format!("note   {note}\n")));
    for table in tables.iter().filter(|table| !table.columns.is_empty()) {
        let columns: Vec<_> = table.columns.iter().map(String::as_str).collect();
        let mut shown = Table::new(&columns);
        table.rows.iter().for_each(|row| shown.row(row));
        text += &format!("\n{}\n{}", table.title, shown.text());
    }
    text
}
