//! `byoc plugin new`: a project for a new backend, from the skeleton of its language. It builds in any directory.

mod manifest;

use std::path::{Path, PathBuf};

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};

use crate::embed::{self, skeleton};
use crate::{quickstart, report};

/// Start a backend: write a project that builds by itself
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  byoc plugin new acme\n  byoc plugin new acme --lang c --dir backends/acme")]
pub(crate) struct Args {
    /// The backend's name: lower-case letters, digits and '-', a letter first
    name: String,
    /// The language to write it in
    #[arg(long, value_name = "LANG", default_value = "rust")]
    lang: Language,
    /// The folder to write into; made if it is not there [default: byoc-NAME]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the crate takes byoc-plugin-api from: a folder that holds it, or a version of it in a registry [default: its
    /// sources, which are written into the project's folder `api`; the registry, where this program is from one]
    #[arg(long, value_name = "PATH|VERSION")]
    api: Option<String>,
}

/// The language of a new backend.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    /// A crate with the five files of every backend
    Rust,
    /// One C file with a Makefile; needs no Rust
    C,
}

/// Runs the verb.
pub(super) fn run(args: &Args) -> Result<()> {
    check_name(&args.name)?;
    let files = match args.lang {
        Language::Rust => rust(&args.name, args.api.as_deref())?,
        Language::C if args.api.is_some() => {
            let error = Diagnostic::new(Code::Usage, "--api is for a crate; a project in C has its headers with it");
            return Err(error.hint("Leave out --api, or say --lang rust"));
        }
        Language::C => c(&args.name),
    };
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(format!("byoc-{}", args.name)));
    let made = !dir.exists();
    make_dir(&dir, "--dir")?;
    if let Err(error) = write(&dir, &files) {
        // No partial project is left. The first error is the one to report.
        clear(&dir, &files, made);
        return Err(error);
    }
    let files = report::count(files.len(), "file");
    report::print(&format!(
        "Wrote the backend '{}' into {}, {files}. Its README.md says how to go on\n",
        args.name,
        dir.display()
    ))
}

/// Backends are named like packages, so that one name fits the backend, its crate and its file.
fn check_name(name: &str) -> Result<()> {
    let fits = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
    if !name.starts_with(|char: char| char.is_ascii_lowercase()) || !name.chars().all(fits) {
        let error = Diagnostic::new(Code::Usage, format!("'{name}' cannot be the name of a backend"));
        return Err(error.hint("Names are lower-case letters, digits and '-', a letter first"));
    }
    if embed::backends().into_iter().any(|backend| backend.describe().name == name) {
        let error = Diagnostic::new(Code::Usage, format!("'{name}' is the name of a backend of this byoc"));
        return Err(error.hint("Take another name"));
    }
    Ok(())
}

/// Where the crate takes byoc-plugin-api from, as a value in a manifest.
fn api(given: &str) -> Result<String> {
    if given.starts_with(|char: char| char.is_ascii_digit()) {
        let fits = given.split('.').all(|part| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit()));
        let error = || Diagnostic::new(Code::Usage, format!("--api {given} is not a version"));
        let hint =
            || format!("Give one such as {}; a folder whose name begins with a digit as ./{given}", own_version());
        return if fits { Ok(format!("\"{given}\"")) } else { Err(error().hint(hint())) };
    }
    let manifest = std::fs::read_to_string(Path::new(given).join("Cargo.toml")).unwrap_or_default();
    let dir = std::fs::canonicalize(given).ok().filter(|_| manifest.contains("name = \"byoc-plugin-api\""));
    let Some(dir) = dir.as_deref().and_then(Path::to_str) else {
        let error = Diagnostic::new(Code::Usage, format!("--api {given} does not hold the crate byoc-plugin-api"));
        return Err(error.hint("Give the folder that has its Cargo.toml, or a version"));
    };
    // JSON's escapes are among TOML's.
    Ok(format!("{{ path = {} }}", serde_json::Value::from(dir)))
}

/// The version of byoc-plugin-api that this program is built with, without its last number: any later one will do.
fn own_version() -> &'static str {
    let line = manifest::workspace_value("workspace.dependencies", "byoc-plugin-api").unwrap_or_default();
    let version = line.split_once("version = \"").map_or("", |(_, rest)| rest.split('"').next().unwrap_or_default());
    version.rsplit_once('.').map_or(version, |(version, _)| version)
}

type Files = Vec<(String, Vec<u8>)>;

fn rust(name: &str, given: Option<&str>) -> Result<Files> {
    let api = match (given, &skeleton::CONTRACT) {
        (Some(given), _) => api(given)?,
        (None, Some(_)) => "{ path = \"api\" }".to_owned(),
        (None, None) => format!("\"{}\"", own_version()),
    };
    let mut files = renamed(skeleton::RUST, name);
    for (_, bytes) in files.iter_mut().filter(|(path, _)| path == "Cargo.toml") {
        *bytes = manifest::of_backend(&String::from_utf8_lossy(bytes), &api).into_bytes();
    }
    if given.is_none() {
        files.extend(skeleton::CONTRACT.iter().flat_map(contract));
    }
    Ok(files)
}

/// The files of the contract's crates, in the folder `api`.
fn contract(dir: &include_dir::Dir<'_>) -> Files {
    let file = |file: &include_dir::File<'_>| {
        let bytes = match file.path().file_name() {
            Some(name) if name == "Cargo.toml" => {
                manifest::of_contract(&String::from_utf8_lossy(file.contents())).into_bytes()
            }
            _ => file.contents().to_owned(),
        };
        (format!("api/{}", file.path().display()), bytes)
    };
    dir.files().map(file).chain(dir.dirs().flat_map(contract)).collect()
}

fn c(name: &str) -> Files {
    renamed(skeleton::C, name)
}

/// The files of a skeleton under the new backend's name, and a model to try it with.
fn renamed(files: &[(&str, &str)], name: &str) -> Files {
    let renamed = files.iter().map(|(path, text)| (rename(path, name), rename(text, name).into_bytes()));
    renamed.chain([("model.onnx".to_owned(), quickstart::sum())]).collect()
}

/// Puts a name in the place of the skeleton's. Libraries have `_` where names have `-`.
fn rename(text: &str, name: &str) -> String {
    let part = |text: &str| text.replace(&camel(skeleton::NAME), &camel(name)).replace(skeleton::NAME, name);
    let parts: Vec<_> = text.split(&format!("byoc_{}", skeleton::NAME)).map(part).collect();
    parts.join(&format!("byoc_{}", name.replace('-', "_")))
}

/// A name as it begins the name of a Rust type.
fn camel(name: &str) -> String {
    let word =
        |word: &str| word.chars().take(1).map(|char| char.to_ascii_uppercase()).chain(word.chars().skip(1)).collect();
    name.split('-').map(word).collect::<Vec<String>>().concat()
}

/// Makes the folder that a flag names. One that has something in it is left alone.
pub(super) fn make_dir(dir: &Path, flag: &str) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| Diagnostic::io(dir, "make the folder", &error))?;
    let mut entries = std::fs::read_dir(dir).map_err(|error| Diagnostic::io(dir, "read the folder", &error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let error = Diagnostic::new(Code::Io, format!("cannot write into '{}': it is not empty", dir.display()));
    Err(error.hint(format!("Name another folder with {flag}")))
}

fn write(dir: &Path, files: &Files) -> Result<()> {
    for (path, bytes) in files {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).map_err(|error| Diagnostic::io(parent, "make the folder", &error))?;
        atomic_file::write(&path, bytes)?;
    }
    Ok(())
}

/// Removes what there is of these files, and folders that are empty then.
fn clear(dir: &Path, files: &Files, made: bool) {
    for (path, _) in files {
        let path = dir.join(path);
        let _ = std::fs::remove_file(&path);
        for parent in path.ancestors().skip(1).take_while(|parent| *parent != dir) {
            let _ = std::fs::remove_dir(parent);
        }
    }
    if made {
        let _ = std::fs::remove_dir(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_take_each_others_place() {
        let text = "name: \"template\" libbyoc_template.so byoc-template TemplateBackend";
        let expected = "name: \"my-npu-2\" libbyoc_my_npu_2.so byoc-my-npu-2 MyNpu2Backend";
        assert_eq!(rename(text, "my-npu-2"), expected);
        assert_eq!(rename("byoc_template template", "a-template"), "byoc_a_template a-template");
    }
}
