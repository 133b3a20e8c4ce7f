//! Compile requests as programs make them: from names of backends and of models, beside the backends that are part of the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byoc_core::compile::Request;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::{ImportOptions, REPRO_BACKEND, REPRO_OPTIONS, file_info};
use byoc_core::plugin::{Registry, Selected, Settings, backend_of};
pub use byoc_core::plugin::{backend_named, default_backend, option_named};
use byoc_plugin_api::{Backend, OptionKind};

/// The backends that are part of a program.
pub type Embedded<'a> = &'a [&'static dyn Backend];

/// A choice that a host backend offers for its option `kernels` when it has plain kernels to compare with.
const REFERENCE: (&str, &str) = ("kernels", "reference");

/// The backends that a user chooses, the most wanted first, and settings of their options as (`backend.key`, value).
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// Names; none for the default.
    pub backends: Vec<String>,
    /// Settings.
    pub options: Settings,
}

/// The backend that has reference kernels, with the setting that chooses them, as (`backend.key`, value).
pub fn reference_backend(embedded: Embedded<'_>) -> Result<(String, (String, String))> {
    let (key, value) = REFERENCE;
    let offers =
        |kind: &OptionKind| matches!(kind, OptionKind::Choice(words) if words.iter().any(|word| word == value));
    let descriptions = embedded.iter().map(|backend| backend.describe());
    let found = descriptions
        .filter(|description| description.host)
        .find(|description| description.options.iter().any(|option| option.name == key && offers(&option.kind)));
    let none = || Diagnostic::new(Code::UnknownBackend, "this byoc has no backend with reference kernels");
    let name = found.ok_or_else(none)?.name;
    let setting = (format!("{name}.{key}"), value.to_owned());
    Ok((name, setting))
}

/// What to compile: models with the names of their entries. Policy and the rest are at their defaults.
///
/// Errors where a backend that is chosen is not in the registry, or does not have such an option.
pub fn request(
    registry: &Registry,
    embedded: Embedded<'_>,
    chosen: &Chosen,
    sources: Vec<(String, PathBuf)>,
    import: ImportOptions,
) -> Result<Request> {
    let chosen = with_default(chosen, embedded, &sources)?;
    let backends = registry.select(&chosen.backends, &chosen.options)?;
    let folding_backend = folding_backend(registry, embedded, &backends)?;
    Ok(Request { import, folding_backend, found: registry.backends.clone(), ..Request::new(sources, backends) })
}

/// The options of a variant: its own, and before them those that are for all variants, where it has their backend. One of a backend that no
/// variant has is among them, so that it is refused.
pub fn options_of_variant(for_all: &[(String, String)], own: &Chosen, all: &[Chosen]) -> Settings {
    let has = |chosen: &Chosen, key: &str| chosen.backends.iter().any(|name| name == backend_of(key));
    let is_own = |key: &str| has(own, key) && !own.options.iter().any(|(same, _)| same == key);
    let is_of_none = |key: &str| !all.iter().any(|chosen| has(chosen, key));
    let shared = for_all.iter().filter(|(key, _)| is_own(key) || is_of_none(key));
    shared.chain(&own.options).cloned().collect()
}

/// The user's choice; else, for a model that ends in `.repro.onnx`, the backend and the options that it was made for; else the embedded one.
fn with_default(chosen: &Chosen, embedded: Embedded<'_>, sources: &[(String, PathBuf)]) -> Result<Chosen> {
    if !chosen.backends.is_empty() {
        return Ok(chosen.clone());
    }
    let default = || Ok(Chosen { backends: vec![default_backend(embedded)?], ..chosen.clone() });
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
    let options = made_for.chain(chosen.options.iter().cloned()).collect();
    Ok(Chosen { backends: vec![backend], options })
}

/// The backend that computes constants: the last host backend of the list that computes in the model's own precision, with
/// its options, or else the embedded one.
fn folding_backend(registry: &Registry, embedded: Embedded<'_>, backends: &[Selected]) -> Result<Option<Selected>> {
    match backends.iter().rev().find(|selected| selected.is_exact_host()) {
        Some(selected) => Ok(Some(selected.clone())),
        None => Ok(registry.select(&[default_backend(embedded)?], &[])?.pop()),
    }
}

/// Each model with the name of its entry: the one that is given, `main` for a model alone, else after the file.
pub fn sources(models: &[(Option<String>, PathBuf)]) -> Vec<(String, PathBuf)> {
    let name = |(name, path): &(Option<String>, PathBuf)| match name {
        Some(name) => name.clone(),
        None if models.len() == 1 => "main".to_owned(),
        None => identifier(path),
    };
    models.iter().map(|model| (name(model), model.1.clone())).collect()
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

    #[test]
    fn entries_are_named_by_the_user_or_after_the_file() {
        let model = |name: Option<&str>, path: &str| (name.map(str::to_owned), PathBuf::from(path));
        let names = |models: &[(Option<String>, PathBuf)]| {
            sources(models).into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[model(None, "a/b.onnx")]), ["main"]);
        assert_eq!(names(&[model(Some("x"), "a/b.onnx")]), ["x"]);
        let several = [model(None, "a/text-encoder.v2.onnx"), model(None, "4x.onnx"), model(Some("x"), "b.onnx")];
        assert_eq!(names(&several), ["text_encoder_v2", "_4x", "x"]);
    }
}
