//! Turns flags into a compile request: finds the plugins, selects the backends, names the entries.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use byoc_core::artifact::Artifact;
use byoc_core::compile::Request;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::plugin::{Isolation, Registry, SearchPath};
use byoc_tools::request::{self, Chosen};

use crate::args::{Backends, ModelArg, Plugins, Shapes};
use crate::{embed, report};

/// The backends of these names, in this process unless runs are to be elsewhere: for what is to be run. No plugin is opened that is
/// not needed for them.
pub(crate) fn registry_of(places: &Plugins, names: &[String]) -> Result<Registry> {
    let isolation = if places.isolate { isolation(places)? } else { None };
    Registry::discover_wanted(&search(places), &embed::backends(), names, isolation.as_ref())
}

/// The backend of that name, its plugin in a worker: for descriptions.
pub(crate) fn isolated_registry_of(places: &Plugins, name: &str) -> Result<Registry> {
    let isolation = isolation(places)?;
    Registry::discover_wanted(&search(places), &embed::backends(), &[name.to_owned()], isolation.as_ref())
}

/// The backends that the artifact's code is for.
pub(crate) fn registry_for(places: &Plugins, artifact: &Artifact) -> Result<Registry> {
    registry_of(places, &artifact.manifest().backends())
}

/// The same, each plugin in a worker until its code is run: for compiling.
pub(crate) fn isolated_registry_for(places: &Plugins, artifact: &Artifact) -> Result<Registry> {
    let isolation = isolation(places)?;
    Registry::discover_wanted(&search(places), &embed::backends(), &artifact.manifest().backends(), isolation.as_ref())
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
    let search = SearchPath::standard(places.plugin.clone(), places.plugin_dir.clone(), None);
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
    let program = program.map_err(|error| Diagnostic::io(Path::new("byoc"), "find the program", &error))?;
    Ok(Some(Isolation {
        time: Duration::from_secs(places.plugin_timeout),
        memory: places.plugin_memory << 20,
        output: places.plugin_output << 20,
        runs: places.isolate,
        ..Isolation::by(program)
    }))
}

/// What to compile. Policy and the rest are at their defaults.
pub(crate) fn request(
    registry: &Registry,
    chosen: &Backends,
    sources: Vec<(String, PathBuf)>,
    shapes: &Shapes,
) -> Result<Request> {
    let chosen = Chosen { backends: chosen.backend.clone(), options: chosen.backend_opt.clone() };
    let import = ImportOptions { shapes: shapes.shape.clone(), dims: shapes.dim.clone(), no_mmap: false };
    request::request(registry, &embed::backends(), &chosen, sources, import)
}

/// Each model with the name of its entry: the user's, `main` for a model alone, else after the file.
pub(crate) fn sources(models: &[ModelArg]) -> Vec<(String, PathBuf)> {
    let models: Vec<_> = models.iter().map(|model| (model.name.clone(), model.path.clone())).collect();
    request::sources(&models)
}
