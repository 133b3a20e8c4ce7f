//! Manifests of crates of this workspace with values of their own in place of the workspace's.

use std::fmt::Write;

use crate::embed::skeleton;

/// The value of a key in a section of the workspace's manifest.
pub(super) fn workspace_value(section: &str, key: &str) -> Option<&'static str> {
    section_of(section).find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
}

/// The lines of a section of the workspace's manifest that set something.
fn section_of(name: &str) -> impl Iterator<Item = &'static str> {
    let header = format!("[{name}]");
    let lines = skeleton::WORKSPACE.lines().skip_while(move |line| *line != header).skip(1);
    lines.take_while(|line| !line.starts_with('[')).filter(|line| line.contains(" = ") && !line.starts_with('#'))
}

/// The manifest of a new backend, which takes byoc-plugin-api from `api`: a version, or a table with a path.
pub(super) fn of_backend(skeleton: &str, api: &str) -> String {
    // Version and licence are for the vendor to say.
    let mut text =
        resolved(skeleton, &[("package.version", "\"0.1.0\""), ("package.license", "")], &[("byoc-plugin-api", api)]);
    for tool in ["rust", "clippy"] {
        let lints: Vec<_> = section_of(&format!("workspace.lints.{tool}")).collect();
        let _ = writeln!(text, "[lints.{tool}]\n{}\n", lints.join("\n"));
    }
    // The contract has manifests, lints and tests of its own.
    text + "# A workspace of its own, whatever the folder is in.\n[workspace]\nexclude = [\"api\"]\n"
}

/// The manifest of a crate of the contract.
pub(super) fn of_contract(manifest: &str) -> String {
    resolved(manifest, &[], &[("byoc-dim", "{ path = \"dim\" }")])
}

/// The manifest without a reference to the workspace. `values` go before the workspace's, a value that is empty leaves the
/// line out; `crates` are dependencies that come from elsewhere.
fn resolved(manifest: &str, values: &[(&str, &str)], crates: &[(&str, &str)]) -> String {
    let (mut text, mut section) = (String::new(), "");
    let kinds_of_dependencies = ["dependencies", "dev-dependencies"];
    let dependency = |name: &str| {
        let own = crates.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        own.or_else(|| workspace_value("workspace.dependencies", name)).unwrap_or_default()
    };
    for line in manifest.lines() {
        section = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')).unwrap_or(section);
        let of_workspace = line.strip_suffix(".workspace = true");
        let beside_others = line.split_once(" = { workspace = true");
        let _ = match (section, of_workspace, beside_others) {
            ("lints", ..) => Ok(()),
            (section, Some(name), _) if kinds_of_dependencies.contains(&section) => {
                writeln!(text, "{name} = {}", dependency(name))
            }
            (section, _, Some((name, rest))) if kinds_of_dependencies.contains(&section) => {
                writeln!(text, "{name} = {{ {}{rest}", fields(dependency(name)))
            }
            (section, Some(key), _) => {
                let own =
                    values.iter().find(|(known, _)| *known == format!("{section}.{key}")).map(|(_, value)| *value);
                match own.or_else(|| workspace_value(&format!("workspace.{section}"), key)).unwrap_or_default() {
                    "" => Ok(()),
                    value => writeln!(text, "{key} = {value}"),
                }
            }
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

/// A dependency as fields of a table: `version = "1.0"`, or those that it has.
fn fields(value: &str) -> String {
    let inner = value.strip_prefix("{ ").and_then(|value| value.strip_suffix(" }"));
    inner.map_or_else(|| format!("version = {value}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str) -> &'static str {
        let contract = skeleton::CONTRACT.as_ref().expect("a build from the repository has it");
        contract.get_file(path).and_then(|file| file.contents_utf8()).expect("the file is there")
    }

    #[test]
    fn a_backend_needs_no_workspace() {
        let (_, skeleton) = skeleton::RUST[0];
        for (api, plain, beside) in [
            ("\"1.0\"", "byoc-plugin-api = \"1.0\"", "{ version = \"1.0\", features = [\"testing\"] }"),
            (
                "{ path = \"api\" }",
                "byoc-plugin-api = { path = \"api\" }",
                "{ path = \"api\", features = [\"testing\"] }",
            ),
        ] {
            let text = of_backend(skeleton, api);
            assert!(!text.contains("workspace = ") && !text.contains(".workspace") && !text.contains("= \n"), "{text}");
            let beside = format!("byoc-plugin-api = {beside}");
            for line in
                ["edition = \"2024\"", "version = \"0.1.0\"", "undocumented_unsafe_blocks = \"deny\"", plain, &beside]
            {
                assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
            }
            assert!(!text.contains("license"), "{text}");
        }
    }

    #[test]
    fn nor_does_the_contract() {
        for path in ["Cargo.toml", "dim/Cargo.toml"] {
            let text = of_contract(text_of(path));
            assert!(!text.contains("workspace") && !text.contains("= \n"), "{text}");
            assert!(text.contains("license = \"MIT OR Apache-2.0\"\n"), "{text}");
        }
        let text = of_contract(text_of("Cargo.toml"));
        for line in
            ["byoc-dim = { path = \"dim\" }", "half = \"2.7\"", "blake3 = { version = \"1.8\", optional = true }"]
        {
            assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
        }
    }
}
