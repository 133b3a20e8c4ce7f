//! `byoc plugin`: which backends there are, what one says of itself, a start for a new one, and whether a plugin keeps
//! its promises.

mod new;
mod test;

use std::process::ExitCode;

use byoc_core::diagnostic::Result;
use byoc_core::plugin::{Registered, Registry};
use byoc_plugin_api::{OptionKind, OptionSpec};
use serde_json::{Value, json};

use crate::args::{Plugin, PluginInfo, PluginList};
use crate::compile_request;
use crate::report::{self, Table};

/// Runs the verb.
pub(crate) fn run(args: &Plugin) -> Result<ExitCode> {
    match args {
        Plugin::List(args) => list(args),
        Plugin::Info(args) => info(args),
        Plugin::New(args) => new::run(args),
        Plugin::Test(args) => return test::run(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list(args: &PluginList) -> Result<()> {
    let registry = compile_request::isolated_registry(&args.places)?;
    if args.json {
        return report::print_json(&list_json(&registry));
    }
    let mut table = Table::new(&["backend", "version", ">ABI", "origin", "summary"]);
    for backend in &registry.backends {
        let found = &backend.description;
        let abi = backend.abi_version.to_string();
        table.row([&found.name, &found.version, &abi, &backend.origin.to_string(), &found.summary]);
    }
    let mut text = table.text();
    for shadowed in &registry.shadowed {
        text +=
            &format!("shadowed: '{}' from {}, by an earlier one of the same name\n", shadowed.name, shadowed.origin);
    }
    for refused in &registry.refused {
        text += &format!("refused: {}\n", refused.reason);
    }
    report::print(&text)
}

fn list_json(registry: &Registry) -> Value {
    let shadowed = registry
        .shadowed
        .iter()
        .map(|shadowed| json!({ "name": shadowed.name, "origin": shadowed.origin.to_string() }));
    let refused = registry.refused.iter().map(|refused| {
        let reason = &refused.reason;
        json!({ "path": refused.path, "code": reason.code.id(), "message": reason.message, "hint": reason.hint })
    });
    json!({
        "backends": registry.backends.iter().map(backend_json).collect::<Vec<_>>(),
        "shadowed": shadowed.collect::<Vec<_>>(),
        "refused": refused.collect::<Vec<_>>(),
    })
}

fn backend_json(backend: &Registered) -> Value {
    json!({
        "origin": backend.origin.to_string(),
        "abi_version": backend.abi_version,
        "description": backend.description,
    })
}

fn info(args: &PluginInfo) -> Result<()> {
    let registry = compile_request::isolated_registry(&args.places)?;
    let backend = registry.get(&args.name)?;
    if args.json {
        return report::print_json(&backend_json(backend));
    }
    let found = &backend.description;
    let regions = if found.regions.merge { "neighbouring matches are merged" } else { "one for each match" };
    let limit = found.regions.max_inputs.map(|most| format!(", at most {}", report::count(most, "input")));
    let facts = [
        ("backend", format!("{} {}", found.name, found.version)),
        ("summary", found.summary.clone()),
        ("origin", backend.origin.to_string()),
        ("ABI", backend.abi_version.to_string()),
        ("code", format!("version {}", found.code_version)),
        ("runs on", if found.host { "the host; takes whatever is left over" } else { "its device" }.into()),
        ("regions", format!("{regions}{}", limit.unwrap_or_default())),
    ];
    let mut text: String = facts.iter().map(|(name, value)| format!("{name:8} {value}\n")).collect();
    if !found.options.is_empty() {
        let mut table = Table::new(&["option", "values", "default", "help"]);
        for option in &found.options {
            let key = format!("{}.{}", found.name, option.name);
            table.row([&key, &values(option), &option.default, &option.help]);
        }
        text += &format!("\n{}", table.text());
    }
    report::print(&text)
}

fn values(option: &OptionSpec) -> String {
    match &option.kind {
        OptionKind::Bool => "true|false".into(),
        OptionKind::Int => "whole number".into(),
        OptionKind::Float => "number".into(),
        OptionKind::Text => "text".into(),
        OptionKind::Choice(words) => words.join("|"),
    }
}
