//! The variants of a compile: flags that are for one of them, and flags that are for all.

use byoc_core::artifact::check_variant_name;
use byoc_core::compile::Policy;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Settings;
use byoc_tools::request::{self, Chosen};

use super::Args;
use crate::args::name_value;

/// A variant as the command line has it.
#[derive(Clone, Debug)]
pub(super) struct VariantArg {
    pub(super) name: String,
    /// The most wanted first.
    pub(super) backends: Vec<String>,
}

/// Something that is for one variant, or for all.
#[derive(Clone, Debug)]
pub(super) struct Scoped<T> {
    variant: Option<String>,
    value: T,
}

impl<T> Scoped<T> {
    fn is_for(&self, variant: Option<&str>) -> bool {
        self.variant.is_none() || self.variant.as_deref() == variant
    }
}

/// Parses one `--variant`.
pub(super) fn parse(text: &str) -> std::result::Result<VariantArg, String> {
    let (name, backends) = text.split_once('=').ok_or("expected NAME=BACKEND,..., such as npu=acme,cpu")?;
    check_variant_name(name)?;
    if backends.split(',').any(str::is_empty) {
        return Err("expected NAME=BACKEND,..., such as npu=acme,cpu".into());
    }
    let backends = backends.split(',').map(name_value::backend).collect::<std::result::Result<_, _>>()?;
    Ok(VariantArg { name: name.to_owned(), backends })
}

/// Parses one `--require`, maybe of a variant.
pub(super) fn scoped_require(text: &str) -> std::result::Result<Scoped<(String, String)>, String> {
    scoped(text, name_value::require)
}

/// Parses one `--max-host-nodes`, maybe of a variant.
pub(super) fn scoped_number(text: &str) -> std::result::Result<Scoped<usize>, String> {
    scoped(text, |text| text.parse().map_err(|error: std::num::ParseIntError| error.to_string()))
}

fn scoped<T>(
    text: &str,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
) -> std::result::Result<Scoped<T>, String> {
    match name_value::variant_of(text) {
        Some((variant, text)) => Ok(Scoped { variant: Some(variant.to_owned()), value: parse(text)? }),
        None => Ok(Scoped { variant: None, value: parse(text)? }),
    }
}

/// Errors where a flag is for a variant that there is not, or two are for one.
pub(super) fn check_scopes(args: &Args) -> Result<()> {
    let variants = &args.variants.variant;
    if let Some(twice) =
        variants.iter().enumerate().find(|(index, it)| variants[..*index].iter().any(|other| other.name == it.name))
    {
        let error = Diagnostic::new(Code::Usage, format!("there are two variants '{}'", twice.1.name));
        return Err(error.hint("Give each a name of its own"));
    }
    check_limits(args)?;
    let options =
        args.backends.backend_opt.iter().filter_map(|(key, _)| Some(("--backend-opt", name_value::variant_of(key)?.0)));
    let require = args.policy.require.iter().filter_map(|it| Some(("--require", it.variant.as_deref()?)));
    let most = args.policy.max_host_nodes.iter().filter_map(|it| Some(("--max-host-nodes", it.variant.as_deref()?)));
    let fallback =
        args.policy.no_fallback.iter().filter(|name| !name.is_empty()).map(|name| ("--no-fallback", name.as_str()));
    let known = |name: &str| variants.iter().any(|variant| variant.name == name);
    let Some((flag, name)) = options.chain(require).chain(most).chain(fallback).find(|(_, name)| !known(name)) else {
        return Ok(());
    };
    let message = format!("{flag} is for the variant '{name}', which no --variant names");
    Err(Diagnostic::new(Code::Usage, message).hint("Correct the name, or leave it out for all variants"))
}

/// Errors where two limits are for one variant.
fn check_limits(args: &Args) -> Result<()> {
    let limits = &args.policy.max_host_nodes;
    let twice = limits
        .iter()
        .enumerate()
        .find(|(index, limit)| limits[..*index].iter().any(|other| other.variant == limit.variant));
    let Some((_, limit)) = twice else { return Ok(()) };
    let of = limit.variant.as_ref().map(|name| format!(" for the variant '{name}'")).unwrap_or_default();
    let error = Diagnostic::new(Code::Usage, format!("--max-host-nodes is given twice{of}"));
    Err(error.hint("Leave one of them out"))
}

/// The options of backends, of a variant or of the only compile.
pub(super) fn options(args: &Args, variant: Option<&str>) -> Settings {
    let of = |variant: Option<&str>| -> Settings {
        let options = args.backends.backend_opt.iter().map(|(key, value)| match name_value::variant_of(key) {
            Some((name, key)) => (Some(name), key, value),
            None => (None, key.as_str(), value),
        });
        options.filter(|(name, ..)| *name == variant).map(|(_, key, value)| (key.to_owned(), value.clone())).collect()
    };
    let chosen = |it: &VariantArg| Chosen { backends: it.backends.clone(), options: of(Some(&it.name)) };
    let all: Vec<Chosen> = args.variants.variant.iter().map(chosen).collect();
    match args.variants.variant.iter().position(|it| Some(it.name.as_str()) == variant) {
        Some(index) => request::options_of_variant(&of(None), &all[index], &all),
        None => of(None),
    }
}

/// The rules for where nodes of a variant may go.
pub(super) fn policy(args: &Args, variant: Option<&str>) -> Policy {
    let flags = &args.policy;
    let require = flags.require.iter().filter(|it| it.is_for(variant)).map(|it| it.value.clone());
    let mut most: Vec<_> = flags.max_host_nodes.iter().filter(|it| it.is_for(variant)).collect();
    // What is said of this variant holds.
    most.sort_by_key(|it| it.variant.is_none());
    Policy {
        require: require.collect(),
        no_fallback: flags.no_fallback.iter().any(|name| name.is_empty() || Some(name.as_str()) == variant),
        max_host_nodes: most.first().map(|it| it.value),
    }
}
