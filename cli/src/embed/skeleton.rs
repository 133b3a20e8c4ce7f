//! The skeletons that `byoc plugin new` fills: the files of the copy-me backend, which is built and tested like every other
//! backend of this workspace, so that there is no second copy of its code.

use include_dir::{Dir, include_dir};

/// The crate that a backend is written against, with its sources: a new project takes it from here, until a registry has it.
pub(crate) static CONTRACT: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../plugin-api");

/// The backend's name in the files. It is replaced by the new backend's name.
pub(crate) const NAME: &str = "template";

/// The manifest of the workspace, where the skeleton's manifest takes versions and lints from.
pub(crate) const WORKSPACE: &str = include_str!("../../../Cargo.toml");

/// A backend in Rust, as (path, text).
pub(crate) const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../../backends/template/Cargo.toml")),
    ("README.md", include_str!("../../../backends/template/README.md")),
    (".gitignore", include_str!("../../../backends/template/.gitignore")),
    ("src/lib.rs", include_str!("../../../backends/template/src/lib.rs")),
    ("src/patterns.rs", include_str!("../../../backends/template/src/patterns.rs")),
    ("src/codegen.rs", include_str!("../../../backends/template/src/codegen.rs")),
    ("src/constants.rs", include_str!("../../../backends/template/src/constants.rs")),
    ("src/runtime.rs", include_str!("../../../backends/template/src/runtime.rs")),
    ("src/tests.rs", include_str!("../../../backends/template/src/tests.rs")),
];

/// A backend in C, as (path, text).
pub(crate) const C: &[(&str, &str)] = &[
    ("Makefile", include_str!("../../../backends/template/c/Makefile")),
    ("README.md", include_str!("../../../backends/template/c/README.md")),
    (".gitignore", include_str!("../../../backends/template/c/.gitignore")),
    ("template.c", include_str!("../../../backends/template/c/template.c")),
    ("test.c", include_str!("../../../backends/template/c/test.c")),
    ("byoc_plugin.h", include_str!("../../../plugin-api/include/byoc_plugin.h")),
    ("byoc_json.h", include_str!("../../../plugin-api/include/byoc_json.h")),
];
