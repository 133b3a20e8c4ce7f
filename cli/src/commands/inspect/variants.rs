//! `inspect` of a file with variants: the ledger of all of them, or the parts of each.

use byoc_core::artifact::{Artifact, ArtifactFile, Fate, Form, JointConstant, LedgerOfVariants};
use byoc_core::diagnostic::Result;
use serde_json::{Map, Value, json};

use super::{Args, fate, views};
use crate::artifact::Compared;
use crate::report::{self, Table, VariantsOverview, size};

/// How many names of a constant are shown.
const SHOWN: usize = 2;

/// Prints the selected parts; the overview by default.
pub(super) fn run(args: &Args, file: &ArtifactFile) -> Result<()> {
    let mut all = file.all()?;
    // Whatever is shown, a ledger that does not fit is told.
    all.iter().try_for_each(|artifact| artifact.ledger().map(drop))?;
    if args.verify_digests {
        all.iter_mut().try_for_each(|artifact| artifact.attach(args.constants_from.as_deref()))?;
    }
    match args.json {
        true => report::print_json(&Value::Object(json(args, file, &all)?)),
        false => report::print(&text(args, file, &all)?),
    }
}

fn text(args: &Args, file: &ArtifactFile, all: &[Artifact]) -> Result<String> {
    let mut parts = Vec::new();
    if args.constants {
        parts.push(ledger(file, all)?);
    }
    for artifact in all.iter().filter(|_| args.regions || args.plugins) {
        let name = artifact.variant().unwrap_or_default();
        let regions = args.regions.then(|| views::regions(artifact)).transpose()?.unwrap_or_default();
        let plugins = if args.plugins { views::backends(artifact) } else { String::new() };
        parts.push(format!("variant {name}\n{regions}{plugins}"));
    }
    if args.sections {
        parts.push(views::sections(file));
    }
    if parts.is_empty() {
        let (path, size) = (file.path().display(), size(file.size()));
        let compared = if args.verify_digests { String::new() } else { Compared::by_showing(file).text() };
        let names = file.variants().join(", ");
        parts.push(format!(
            "{path}: {size}, variants {names}, format {}\n{}{compared}",
            file.format(),
            VariantsOverview::of(file, all)?.text()
        ));
    }
    if args.verify_digests {
        parts.push(Compared::all(file).text());
    }
    Ok(parts.join("\n"))
}

/// The constants, the largest first, each with its forms: a line for each.
fn ledger(file: &ArtifactFile, all: &[Artifact]) -> Result<String> {
    let ledger = LedgerOfVariants::of(file, all)?;
    let mut constants: Vec<&JointConstant> = ledger.constants.iter().collect();
    constants.sort_by_key(|constant| std::cmp::Reverse(constant.bytes));
    let mut table =
        Table::new(&["names", "dtype", "shape", ">bytes", "fate", "variants", ">stored", "?section", "?layout"]);
    for constant in constants {
        for (index, form) in constant.forms.iter().enumerate() {
            let of_constant = |text: String| if index == 0 { text } else { String::new() };
            table.row([
                of_constant(names(&constant.names)),
                of_constant(constant.dtype.to_string()),
                of_constant(report::shape(&constant.shape)),
                of_constant(size(constant.bytes)),
                fate(form.fate).to_owned(),
                form.variants.join(","),
                stored(form),
                form.section.clone().unwrap_or_else(|| "-".into()),
                form.layout.clone().unwrap_or_else(|| "-".into()),
            ]);
        }
    }
    Ok(format!("{}\n{}", table.text(), VariantsOverview::of(file, all)?.text()))
}

/// The bytes of a form that has a section of its own.
fn stored(form: &Form) -> String {
    match form.section {
        Some(_) if form.fate != Fate::Viewed => size(form.bytes),
        _ => "-".to_owned(),
    }
}

fn names(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ") + &more
}

fn json(args: &Args, file: &ArtifactFile, all: &[Artifact]) -> Result<Map<String, Value>> {
    let mut parts = Map::new();
    if args.constants {
        let constants = LedgerOfVariants::of(file, all)?.constants;
        parts.insert("constants".into(), constants.iter().map(constant_json).collect());
    }
    if args.sections {
        parts.insert("sections".into(), views::sections_json(file));
    }
    if args.regions || args.plugins {
        let variant = |artifact: &Artifact| {
            let (manifest, mut row) = (artifact.manifest(), json!({ "variant": artifact.variant() }));
            if args.regions {
                row["regions"] = views::regions_json(artifact)?;
            }
            if args.plugins {
                row["plugins"] = json!(manifest.requirements);
            }
            Ok(row)
        };
        parts.insert("parts".into(), all.iter().map(variant).collect::<Result<_>>()?);
    }
    parts.insert("file".into(), json!(file.path()));
    parts.insert("format".into(), json!(file.format()));
    if let Value::Object(overview) = json!(VariantsOverview::of(file, all)?) {
        parts.extend(overview);
    }
    let compared = if args.verify_digests { Compared::all(file) } else { Compared::by_showing(file) };
    parts.insert("compared".into(), json!(compared));
    Ok(parts)
}

fn constant_json(constant: &JointConstant) -> Value {
    let form = |form: &Form| {
        json!({
            "fate": form.fate, "variants": form.variants, "section": form.section, "layout": form.layout, "bytes": form.bytes,
        })
    };
    json!({
        "names": constant.names, "dtype": constant.dtype, "shape": constant.shape, "bytes": constant.bytes,
        "beyond_one_form": constant.beyond_one(), "forms": constant.forms.iter().map(form).collect::<Vec<_>>(),
    })
}
