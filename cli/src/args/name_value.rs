//! Pairs on the command line: `--backend-opt gpu.arch=sm_90a`, `--require 'gpu=Conv*'`, and models as `NAME=model.onnx`.

use std::path::PathBuf;

use byoc_core::artifact::check_variant_name;
use byoc_tools::request;

use crate::embed;

/// A model file, with the name of its entry where the user gives one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelArg {
    /// The entry.
    pub(crate) name: Option<String>,
    /// The file.
    pub(crate) path: PathBuf,
}

/// Parses one `--backend-opt` of a compile with variants: where it is for one of them, that is in front of the key, as in
/// `VARIANT:backend.key`.
pub(crate) fn option_of_variant(text: &str) -> Result<(String, String), String> {
    let Some((variant, text)) = variant_of(text) else { return backend_option(text) };
    let (key, value) = backend_option(text)?;
    Ok((format!("{variant}:{key}"), value))
}

/// Parses one `--backend-opt` into (`backend.key`, value). The first equals sign separates: values may hold more.
pub(crate) fn backend_option(text: &str) -> Result<(String, String), String> {
    if variant_of(text).is_some() {
        return Err("an option for one variant is one of byoc compile --variant".into());
    }
    let pair = text
        .split_once('=')
        .filter(|(key, _)| key.split_once('.').is_some_and(|(backend, key)| !backend.is_empty() && !key.is_empty()));
    let (key, value) = pair.ok_or("expected NAME.KEY=VALUE, such as gpu.arch=sm_90a")?;
    let key = request::option_named(key, &embed::backends()).map_err(|error| error.message)?;
    Ok((key, value.into()))
}

/// The variant that something is for, and what is behind it: a name and a colon, before any other sign that separates.
pub(crate) fn variant_of(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(variant, _)| !variant.contains('=') && check_variant_name(variant).is_ok())
}

/// Parses the name of a backend.
pub(crate) fn backend(text: &str) -> Result<String, String> {
    request::backend_named(text, &embed::backends()).map_err(|error| error.message)
}

/// Parses one `--require` into (backend, operator pattern).
pub(crate) fn require(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(backend, pattern)| !backend.is_empty() && !pattern.is_empty());
    let (backend, pattern) = pair.ok_or("expected NAME=PATTERN, such as 'gpu=Conv*'")?;
    Ok((self::backend(backend)?, pattern.into()))
}

/// Parses one model. What is before the first equals sign is a name if it looks like one, else part of the path.
pub(crate) fn model(text: &str) -> Result<ModelArg, String> {
    if text.is_empty() {
        return Err("expected a file".into());
    }
    match text.split_once('=') {
        Some((name, path)) if is_identifier(name) && !path.is_empty() => {
            Ok(ModelArg { name: Some(name.into()), path: path.into() })
        }
        _ => Ok(ModelArg { name: None, path: text.into() }),
    }
}

fn is_identifier(text: &str) -> bool {
    let digit_first = text.starts_with(|first: char| first.is_ascii_digit());
    !text.is_empty() && !digit_first && text.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_backend_and_key() {
        assert_eq!(backend_option("gpu.arch=a=b"), Ok(("gpu.arch".into(), "a=b".into())));
        assert_eq!(backend_option("gpu.arch="), Ok(("gpu.arch".into(), String::new())));
        for text in ["gpu.arch", "arch=4", ".arch=4", "gpu.=4"] {
            assert_eq!(backend_option(text), Err("expected NAME.KEY=VALUE, such as gpu.arch=sm_90a".into()), "{text}");
        }
    }

    #[test]
    fn the_host_has_a_name_of_its_own() {
        let host = embed::default_backend().expect("there is one");
        assert_eq!(backend("cpu"), Ok(host.clone()));
        assert_eq!(backend("gpu"), Ok("gpu".into()));
        assert_eq!(backend_option("cpu.a=b"), Ok((format!("{host}.a"), "b".into())));
        assert_eq!(require("cpu=Conv"), Ok((host, "Conv".into())));
    }

    #[test]
    fn requirements_name_backend_and_operators() {
        assert_eq!(require("gpu=Conv*"), Ok(("gpu".into(), "Conv*".into())));
        for text in ["gpu", "gpu=", "=Conv"] {
            assert_eq!(require(text), Err("expected NAME=PATTERN, such as 'gpu=Conv*'".into()), "{text}");
        }
    }

    #[test]
    fn models_have_a_name_only_where_it_looks_like_one() {
        let cases = [
            ("m.onnx", None, "m.onnx"),
            ("decode=m.onnx", Some("decode"), "m.onnx"),
            ("decode=a=b.onnx", Some("decode"), "a=b.onnx"),
            ("./a=b.onnx", None, "./a=b.onnx"),
            ("1=b.onnx", None, "1=b.onnx"),
        ];
        for (text, name, path) in cases {
            let expected = ModelArg { name: name.map(str::to_owned), path: path.into() };
            assert_eq!(model(text), Ok(expected), "{text}");
        }
    }
}
