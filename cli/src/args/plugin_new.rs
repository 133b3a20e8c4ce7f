//! The flags of `plugin new`.

use std::path::PathBuf;

/// `byoc plugin new`.
#[derive(clap::Args, Debug)]
pub(crate) struct PluginNew {
    /// The backend's name: lower-case letters, digits and '-', a letter first
    pub(crate) name: String,
    /// The language to write it in
    #[arg(long, value_name = "LANG", default_value = "rust")]
    pub(crate) lang: Language,
    /// The folder to write into; made if it is not there [default: byoc-NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Where the crate takes byoc-plugin-api from: a folder that holds it, or a version [default: this byoc's version]
    #[arg(long, value_name = "PATH|VERSION")]
    pub(crate) api: Option<String>,
}

/// The language of a new backend.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// A crate with the five files of every backend
    Rust,
    /// One C file with a Makefile; needs no Rust
    C,
}
