//! Turns flags into a compile request: finds the plugins, selects the backends, names the entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use byoc_core::artifact::Artifact;
use byoc_core::compile::Request;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::{ImportOptions, REPRO_BACKEND, REPRO_OPTIONS, file_info};
use byoc_core::plugin::{Isolation, Registry, SearchPath, Selected};

use crate::args::{Backends, ModelArg, Plugins, Shapes};
use crate::{embed, report};

/// The argument that makes this program a worker. No user writes it.
pub(crate) const WORKER: &str = "__worker";

/// The backends of these names, in this process: for what is to be run. No plugin is opened that is not needed for them.
pub(crate) fn registry_of(places: &Plugins, names: &[String]) -> Result<Registry> {
    Registry::discover_wanted(&search(places), &embed::backends(), names, None)
}

/// The backend of that name, its plugin in a worker: for descriptions.
pub(crate) fn isolated_registry_of(places: &Plugins, name: &str) -> Result<Registry> {
    let isolation = isolation(places)?;
    Registry::discover_wanted(&search(places), &embed::backends(), &[name.to_owned()], isolation.as_ref())
}

/// The backends that the artifact's code is for.
pub(crate) fn registry_for(places: &Plugins, artifact: &Artifact) -> Result<Registry> {
    registry_of(places, &backends_of(artifact))
}

/// The same, each plugin in a worker until its code is run: for compiling.
pub(crate) fn isolated_registry_for(places: &Plugins, artifact: &Artifact) -> Result<Registry> {
    let isolation = isolation(places)?;
    Registry::discover_wanted(&search(places), &embed::backends(), &backends_of(artifact), isolation.as_ref())
}

fn backends_of(artifact: &Artifact) -> Vec<String> {
    let mut names: Vec<_> = artifact.manifest().regions.iter().map(|region| region.backend.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// Every backend that can be found, each plugin in a worker: for compiling and descriptions. What is beside the program is
/// not looked through: of it there are those that are `wanted` by name.
pub(crate) fn isolated_registry(places: &Plugins, wanted: &[String]) -> Result<Registry> {
    let (search, isolation) = (search(places), isolation(places)?);
    tell(&search);
    let mut registry = Registry::discover(&search, &embed::backends(), isolation.as_ref())?;
    registry.add_from_beside(&search, wanted, isolation.as_ref());
    Ok(registry)
}

/// Says where plugins are looked for, if that is wanted.
fn tell(search: &SearchPath) {
    if !report::verbose() {
        return;
    }
    let told = |path: &Path, kind: &str| {
        let absent = if path.exists() { "" } else { " (not there)" };
        report::note(&format!("plugins: {kind} '{}'{absent}", path.display()));
    };
    search.files.iter().for_each(|path| told(path, "the file"));
    search.dirs.iter().for_each(|path| told(path, "the folder"));
    search.beside.iter().for_each(|path| told(path, "beside the program, those that are named, in"));
    search.ignored.iter().for_each(|path| told(path, "passed over, for BYOC_PLUGIN_PATH takes absolute paths:"));
}

/// The backends that are part of the program: no plugin is looked for.
pub(crate) fn embedded_registry() -> Result<Registry> {
    Registry::discover(&SearchPath::default(), &embed::backends(), None)
}

/// Where plugins are looked for. Says once what of `BYOC_PLUGIN_PATH` is of no use.
pub(crate) fn search(places: &Plugins) -> SearchPath {
    static TOLD: Once = Once::new();
    let search = SearchPath::standard(places.plugin.clone(), places.plugin_dir.clone());
    TOLD.call_once(|| {
        for path in &search.absent {
            let message = format!("'{}', which BYOC_PLUGIN_PATH names, is not a folder", path.display());
            report::warning(
                &Diagnostic::new(Code::NotAPlugin, message).hint("Correct the variable, or make the folder"),
            );
        }
    });
    search
}

/// How plugins are kept apart, unless the user wants them in this process.
fn isolation(places: &Plugins) -> Result<Option<Isolation>> {
    if places.in_process {
        return Ok(None);
    }
    let program = std::env::current_exe();
    Ok(Some(Isolation {
        program: program.map_err(|error| Diagnostic::io(Path::new("byoc"), "find the program", &error))?,
        arguments: vec![WORKER.into()],
        time: Duration::from_secs(places.plugin_timeout),
        memory: places.plugin_memory << 20,
        output: places.plugin_output << 20,
    }))
}

/// What to compile. Policy and the rest are at their defaults.
pub(crate) fn request(
    registry: &Registry,
    chosen: &Backends,
    sources: Vec<(String, PathBuf)>,
    shapes: &Shapes,
) -> Result<Request> {
    let chosen = chosen_backends(chosen, &sources)?;
    let backends = registry.select(&chosen.backend, &chosen.backend_opt)?;
    let folding_backend = folding_backend(registry, &backends)?;
    let import = ImportOptions { shapes: shapes.shape.clone(), dims: shapes.dim.clone(), no_mmap: false };
    Ok(Request { import, folding_backend, found: registry.backends.clone(), ..Request::new(sources, backends) })
}

/// The user's choice; else, for a model that ends in `.repro.onnx`, the backend and the options that it was made for; else the embedded one.
fn chosen_backends(chosen: &Backends, sources: &[(String, PathBuf)]) -> Result<Backends> {
    if !chosen.backend.is_empty() {
        return Ok(chosen.clone());
    }
    let default = || Ok(Backends { backend: vec![embed::default_backend()?], ..chosen.clone() });
    let [(_, model)] = sources else { return default() };
    // Other models may be pipes, which can be read only once.
    if !model.to_string_lossy().ends_with(".repro.onnx") {
        return default();
    }
    let mut about = file_info(model)?.metadata;
    let Some(backend) = about.remove(REPRO_BACKEND) else { return default() };
    let options: BTreeMap<String, String> =
        about.get(REPRO_OPTIONS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let made_for = options.into_iter().map(|(key, value)| (format!("{backend}.{key}"), value));
    let backend_opt = made_for.chain(chosen.backend_opt.iter().cloned()).collect();
    Ok(Backends { backend: vec![backend], backend_opt })
}

/// The backend that computes constants: the last host backend of the list that computes in the model's own precision, with
/// its options, or else the embedded one.
fn folding_backend(registry: &Registry, backends: &[Selected]) -> Result<Option<Selected>> {
    match backends.iter().rev().find(|selected| selected.is_exact_host()) {
        Some(selected) => Ok(Some(selected.clone())),
        None => Ok(registry.select(&[embed::default_backend()?], &[])?.pop()),
    }
}

/// Each model with the name of its entry: the user's, `main` for a model alone, else after the file.
pub(crate) fn sources(models: &[ModelArg]) -> Vec<(String, PathBuf)> {
    let name = |model: &ModelArg| match &model.name {
        Some(name) => name.clone(),
        None if models.len() == 1 => "main".to_owned(),
        None => identifier(&model.path),
    };
    models.iter().map(|model| (name(model), model.path.clone())).collect()
}

/// The stem of the file name as an identifier: other characters than letters, digits and `_` become `_`.
fn identifier(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let name: String = stem.chars().map(plain).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: Option<&str>, path: &str) -> ModelArg {
        ModelArg { name: name.map(str::to_owned), path: path.into() }
    }

    #[test]
    fn entries_are_named_by_the_user_or_after_the_file() {
        let names = |models: &[ModelArg]| sources(models).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&[model(None, "a/b.onnx")]), ["main"]);
        assert_eq!(names(&[model(Some("x"), "a/b.onnx")]), ["x"]);
        let several = [model(None, "a/text-encoder.v2.onnx"), model(None, "4x.onnx"), model(Some("x"), "b.onnx")];
        assert_eq!(names(&several), ["text_encoder_v2", "_4x", "x"]);
    }
}
