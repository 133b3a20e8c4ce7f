//! The skeletons that `byoc plugin new` fills: the files of the copy-me backend, which is built and tested like every other
//! backend of this workspace, so that there is no second copy of its code. `cli/skeleton` has links to them, which a package of this
//! crate has as files.

use include_dir::Dir;

/// The crate that a backend is written against, with its sources: a new project takes it from here. A program that was built
/// from a package takes it from the registry.
#[cfg(with_contract)]
pub(crate) static CONTRACT: Option<Dir<'static>> = Some(include_dir::include_dir!("$CARGO_MANIFEST_DIR/../plugin-api"));
#[cfg(not(with_contract))]
pub(crate) static CONTRACT: Option<Dir<'static>> = None;

/// The backend's name in the files. It is replaced by the new backend's name.
pub(crate) const NAME: &str = "template";

/// The manifest of the workspace, where the skeleton's manifest takes versions and lints from.
pub(crate) const WORKSPACE: &str = include_str!("../../skeleton/workspace.toml");

/// A backend in Rust, as (path, text).
pub(crate) const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../skeleton/rust/manifest.toml")),
    ("README.md", include_str!("../../skeleton/rust/README.md")),
    (".gitignore", include_str!("../../skeleton/rust/gitignore")),
    (".github/workflows/test.yml", include_str!("../../skeleton/rust/workflow.yml")),
    ("src/lib.rs", include_str!("../../skeleton/rust/lib.rs")),
    ("src/patterns.rs", include_str!("../../skeleton/rust/patterns.rs")),
    ("src/codegen.rs", include_str!("../../skeleton/rust/codegen.rs")),
    ("src/constants.rs", include_str!("../../skeleton/rust/constants.rs")),
    ("src/runtime.rs", include_str!("../../skeleton/rust/runtime.rs")),
    ("src/tests.rs", include_str!("../../skeleton/rust/tests.rs")),
];

/// A backend in C, as (path, text).
pub(crate) const C: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../skeleton/c/Makefile")),
    ("README.md", include_str!("../../skeleton/c/README.md")),
    (".gitignore", include_str!("../../skeleton/c/gitignore")),
    (".github/workflows/test.yml", include_str!("../../skeleton/c/workflow.yml")),
    ("template.c", include_str!("../../skeleton/c/template.c")),
    ("test.c", include_str!("../../skeleton/c/test.c")),
    ("byoc_plugin.h", include_str!("../../skeleton/c/byoc_plugin.h")),
    ("byoc_json.h", include_str!("../../skeleton/c/byoc_json.h")),
    ("byoc_number.h", include_str!("../../skeleton/c/byoc_number.h")),
    ("byoc_dim.h", include_str!("../../skeleton/c/byoc_dim.h")),
];
