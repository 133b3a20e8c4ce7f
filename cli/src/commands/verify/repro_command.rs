//! The command that writes a region as a model of its own.

use std::borrow::Cow;
use std::path::Path;

use byoc_core::artifact::manifest::Manifest;
use byoc_core::onnx::ImportOptions;
use byoc_core::plugin::Registry;
use byoc_plugin_api::Options;
use byoc_tools::text;

use crate::args::Execution;
use crate::artifact::is_model;

/// What the command is made of.
pub(super) struct About<'a> {
    /// What was verified.
    pub(super) execution: &'a Execution,
    /// The artifact's graph.
    pub(super) manifest: &'a Manifest,
    /// The name of the entry.
    pub(super) entry: &'a str,
    /// The model that the reference kernels ran.
    pub(super) model: &'a Path,
    /// The sizes with which the model was compiled.
    pub(super) sizes: &'a ImportOptions,
    /// Its backends.
    pub(super) registry: &'a Registry,
}

/// The command line, quoted for a shell. Its output is called after the region.
pub(super) fn repro_command(about: &About<'_>, symbol: &str) -> String {
    let About { execution, entry, model, sizes, .. } = about;
    let model = model.display().to_string();
    let source = if *entry == "main" { model } else { format!("{entry}={model}") };
    let mut words: Vec<String> = ["byoc", "repro", &source, "--region", symbol].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    let (backends, options) = if is_model(&execution.file) { of_flags(execution) } else { of_artifact(about) };
    if !backends.is_empty() {
        flag("--backend", backends.join(","));
    }
    options.into_iter().for_each(|(key, value)| flag("--backend-opt", format!("{key}={value}")));
    for (input, shape) in &sizes.shapes {
        flag("--shape", format!("{input}:{}", text::shape(shape)));
    }
    sizes.dims.iter().for_each(|(name, size)| flag("--dim", format!("{name}={size}")));
    let plugins = &execution.places();
    plugins.plugin.iter().for_each(|path| flag("--plugin", path.display().to_string()));
    plugins.plugin_dir.iter().for_each(|path| flag("--plugin-dir", path.display().to_string()));
    if plugins.in_process {
        words.push("--in-process".into());
    }
    words.extend(["-o".to_owned(), format!("{symbol}.repro.onnx")]);
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it. Lists of names stay readable.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-./:=,@%+".contains(char);
    match !word.is_empty() && word.chars().all(plain) {
        true => Cow::Borrowed(word),
        // Only a text with a NUL in it cannot be quoted, and no argument has one.
        false => shlex::try_quote(word).unwrap_or(Cow::Borrowed(word)),
    }
}

type Chosen = (Vec<String>, Vec<(String, String)>);

/// What the user has said.
fn of_flags(execution: &Execution) -> Chosen {
    (execution.backends.backend.clone(), execution.backends.backend_opt.clone())
}

/// The backends of the artifact in their order, with those of their options that are not at their defaults.
fn of_artifact(about: &About<'_>) -> Chosen {
    let manifest = about.manifest;
    let names: Vec<String> = manifest.requirements.backends.iter().map(|backend| backend.name.clone()).collect();
    let mut options = Vec::new();
    for name in &names {
        let region = manifest.regions.iter().find(|region| region.backend == *name);
        let (Some(region), Ok(registered)) = (region, about.registry.get(name)) else { continue };
        let specs = &registered.description.options;
        let Ok(defaults) = Options::resolve(specs, []) else { continue };
        let changed = specs.iter().filter(|spec| region.options.text(&spec.name) != defaults.text(&spec.name));
        options
            .extend(changed.map(|spec| (format!("{name}.{}", spec.name), region.options.text(&spec.name).to_owned())));
    }
    (names, options)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        let words = ["simdev,json", "x:[2,4]", "a b", "it's", "$HOME", ""];
        assert_eq!(words.map(quoted), ["simdev,json", "'x:[2,4]'", "'a b'", "\"it's\"", "'$HOME'", "''"]);
    }
}
