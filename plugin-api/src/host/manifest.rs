//! What a plugin's file says of itself without any of its code being run: JSON in the section `.byoc`, put there by
//! `export_plugin!` or `BYOC_PLUGIN_MANIFEST`. A file without one is asked by the handshake alone.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::answer::one_line;
use super::{Cause, LoadError, read_file};

/// The section.
const SECTION: &str = ".byoc";

/// Who a plugin is, as its file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// The ABI version it speaks.
    pub abi: u32,
    /// Names of its backends; empty where its maker did not say.
    #[serde(default)]
    pub backends: Vec<String>,
}

impl Manifest {
    /// The manifest of the plugin file at `path`; `None` where it has none. Errors when the file cannot be read or what it
    /// has is not valid.
    pub fn read(path: &Path) -> Result<Option<Manifest>, LoadError> {
        Manifest::find(&read_file(path)?)
    }

    /// The manifest in the bytes of a plugin file.
    pub(super) fn find(bytes: &[u8]) -> Result<Option<Manifest>, LoadError> {
        let Some(text) = crate::elf::section(bytes, SECTION) else { return Ok(None) };
        // A string literal of C ends with a zero, and linkers fill up with them.
        let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let manifest: Manifest = serde_json::from_slice(&text[..end]).map_err(|error| {
            LoadError::not_a_plugin(Cause::Damaged, format!("its section {SECTION} is not a manifest: {error}"))
        })?;
        Ok(Some(Manifest {
            name: one_line(&manifest.name),
            version: one_line(&manifest.version),
            abi: manifest.abi,
            backends: manifest.backends.iter().map(|name| one_line(name)).collect(),
        }))
    }

    /// Whether one of these backends can be in the plugin: it is named here, or none is.
    pub fn may_hold(&self, backends: &[String]) -> bool {
        self.backends.is_empty() || self.backends.iter().any(|name| backends.contains(name))
    }

    /// Errors when the plugin says otherwise now that it is open.
    pub(super) fn agrees(&self, name: &str, version: &str, backends: &[&str]) -> Result<(), LoadError> {
        if (self.name.as_str(), self.version.as_str()) != (name, version) {
            return Err(LoadError::Contract(format!(
                "its manifest says '{}' {}, and it is '{name}' {version}",
                self.name, self.version
            )));
        }
        if !self.backends.is_empty() && self.backends != backends {
            return Err(LoadError::Contract(format!(
                "its manifest names the backends {}, and it has {}",
                self.backends.join(", "),
                backends.join(", ")
            )));
        }
        Ok(())
    }
}
