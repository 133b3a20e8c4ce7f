//! Cases of the plugin as a whole: what it says of itself.

use std::path::Path;

use byoc_core::diagnostic::Result;
use byoc_core::plugin::{Registry, SearchPath, Selected};
use byoc_plugin_api::{Backend, Description, Expr, Operator, OptionKind, OptionSpec, Options, Pattern, closest};

use crate::report::{Notes, Step, fail, one_line};

/// Opens the plugin file and nothing else, in this process: the kit has one of its own for that.
pub(crate) fn open(file: &Path) -> Result<Registry> {
    Registry::discover(&SearchPath { files: vec![file.to_owned()], ..SearchPath::default() }, &[], None)
}

/// A backend says the same of itself each time, and all of it can be shown.
pub(crate) fn describe(file: &Path, selected: &Selected, notes: &Notes) -> Step {
    let first = &selected.registered.description;
    let again = open(file).and_then(|registry| registry.get(&first.name).cloned()).or_else(fail)?;
    if again.description != *first {
        return fail("describe gives another answer the second time");
    }
    for field in selected.registered.backend.unknown_fields() {
        notes.add(format!("describe has the field '{field}', which this byoc does not know"));
    }
    let Description { version, summary, .. } = first;
    for (what, text) in [("version", version), ("summary", summary)] {
        if text.trim().is_empty() {
            return fail(format!("the {what} is empty"));
        }
        if one_line(text) != *text {
            return fail(format!("the {what} is not one line: {}", one_line(text)));
        }
    }
    Ok(())
}

/// Options have names, defaults that they take, and a line of help.
pub(crate) fn options(specs: &[OptionSpec]) -> Step {
    for (index, spec) in specs.iter().enumerate() {
        let OptionSpec { name, kind, default, help, .. } = spec;
        let plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || matches!(char, '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            return fail(format!("option '{}' is not made of a-z, 0-9, '-' and '_'", one_line(name)));
        }
        if specs[..index].iter().any(|other| other.name == *name) {
            return fail(format!("option '{name}' is declared twice"));
        }
        if help.trim().is_empty() || one_line(help) != *help {
            return fail(format!("option '{name}' needs one line of help"));
        }
        if matches!(kind, OptionKind::Choice(words) if words.is_empty()) {
            return fail(format!("option '{name}' has nothing to choose from"));
        }
        Options::resolve(specs, [(name.as_str(), default.as_str())])
            .map(drop)
            .or_else(|error| fail(format!("the default is not valid: {error}")))?;
    }
    let unknown = "no-such-option";
    match Options::resolve(specs, [(unknown, "1")]) {
        Ok(_) => fail(format!("there is an option '{unknown}'")),
        Err(error) if error.hint.is_none() => fail("an unknown option is refused without a hint"),
        Err(_) => Ok(()),
    }
}

/// Every value that can be listed of every option goes with patterns, the other options at their defaults.
pub(crate) fn choices(selected: &Selected) -> Step {
    let specs = &selected.registered.description.options;
    for spec in specs {
        let values: Vec<&str> = match &spec.kind {
            OptionKind::Bool => vec!["true", "false"],
            OptionKind::Choice(words) => words.iter().map(String::as_str).collect(),
            _ => continue,
        };
        for value in values {
            let set = Options::resolve(specs, [(spec.name.as_str(), value)]).or_else(fail)?;
            let patterns = selected.registered.backend.patterns(&set);
            patterns.map(drop).or_else(|error| fail(format!("patterns fails for {}={value}: {error}", spec.name)))?;
        }
    }
    Ok(())
}

/// What is wrong with the operators of a pattern: those of ONNX's own that nobody knows, and those that never come by
/// themselves.
pub(crate) fn unknown_operator(expr: &Expr, own: &[Operator]) -> Option<String> {
    let (ops, operands) = match expr {
        Expr::Any { .. } | Expr::Dequantized { .. } => return None,
        Expr::Or(alternatives) => return alternatives.iter().find_map(|expr| unknown_operator(expr, own)),
        Expr::Node { ops, operands, .. } => (ops, operands),
    };
    let known: Vec<&str> = byoc_core::ops::OPS.iter().filter(|def| def.domain.is_empty()).map(|def| def.name).collect();
    let wrong = |(domain, op): &(String, String)| {
        if own.iter().any(|own| own.domain == *domain && own.name == *op) || byoc_core::ops::find(domain, op).is_some()
        {
            return None;
        }
        let hint = closest(op, known.iter().copied()).map(|near| format!(", did you mean {near}?")).unwrap_or_default();
        domain.is_empty().then(|| match byoc_core::onnx::functions::is_function(domain, op) {
            true => {
                format!("{op} is expanded before patterns are matched, unless the backend has it among its operators")
            }
            false => format!("nobody knows the operator {op}{hint}"),
        })
    };
    ops.iter().find_map(wrong).or_else(|| operands.iter().find_map(|expr| unknown_operator(expr, own)))
}

/// The patterns, parsed. The same options give the same patterns.
pub(crate) fn patterns(selected: &Selected) -> Step<Vec<(Pattern, Expr)>> {
    let ask = || {
        let patterns = selected.registered.backend.patterns(&selected.options);
        patterns.or_else(|error| fail(format!("patterns fails: {error}")))
    };
    let patterns = ask()?;
    if patterns != ask()? {
        return fail("patterns gives another answer the second time");
    }
    if patterns.is_empty() {
        return fail("there is no pattern, so the backend can take nothing");
    }
    let parse = |pattern: Pattern| match pattern.parse() {
        Ok(expr) => Ok((pattern, expr)),
        Err(error) => fail(error),
    };
    patterns.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn options_that_cannot_be_used_are_found() {
        let text = |name: &str, help: &str| OptionSpec::text(name, "", help);
        let many = r#"{"name": "n", "kind": "int", "default": "many", "help": "Count"}"#;
        let cases: [(Vec<OptionSpec>, Option<&str>); 6] = [
            (vec![], None),
            (vec![text("arch", "Target")], None),
            (vec![text("Arch", "Target")], Some("option 'Arch' is not made of a-z, 0-9, '-' and '_'")),
            (vec![text("a", "Target"), text("a", "Target")], Some("option 'a' is declared twice")),
            (vec![text("a", "")], Some("option 'a' needs one line of help")),
            (
                vec![serde_json::from_str(many).expect("an option")],
                Some("the default is not valid: option 'n' takes a whole number, not 'many'"),
            ),
        ];
        for (specs, expected) in cases {
            let expected = expected.map(|text| Verdict::Fail(text.into()));
            assert_eq!(options(&specs).err(), expected);
        }
    }
}
