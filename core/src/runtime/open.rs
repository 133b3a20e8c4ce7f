//! Code that a backend can describe: a file in its own format, or the code of a region.

use std::path::Path;

use byoc_plugin_api::{Backend, CodeFile, Error};
use bytes::Bytes;

use super::bind;
use crate::artifact::Artifact;
use crate::diagnostic::{Code, Diagnostic, Result, in_place_of};
use crate::map::map_file;
use crate::plugin::{Registered, Registry};

/// Code, with its backend's description.
pub struct Opened {
    /// The backend.
    pub backend: Registered,
    /// The bytes, mapped.
    pub code: Bytes,
    /// Its description.
    pub contents: CodeFile,
}

/// Opens the file by the first backend whose files end as this one does; `None` where there is no such backend. A file
/// is known by the end of its name, in letters of either case.
pub fn open_file(path: &Path, registry: &Registry) -> Result<Option<Opened>> {
    let extension = path.extension().unwrap_or_default();
    let has = |backend: &&Registered| {
        backend.description.files.iter().any(|format| extension.eq_ignore_ascii_case(&format.extension))
    };
    let Some(backend) = registry.backends.iter().find(has) else { return Ok(None) };
    let code = map_file(path)?;
    let contents =
        backend.backend.open(&code).map_err(|error| cannot_read(backend, &format!("'{}'", path.display()), error))?;
    Ok(Some(Opened { backend: backend.clone(), code, contents }))
}

/// Opens the file by the first backend that can read what is in it, whatever its name; `None` where there is no such backend.
pub fn open_by_content(path: &Path, registry: &Registry) -> Result<Option<Opened>> {
    let code = map_file(path)?;
    let open = |backend: &Registered| {
        let contents = backend.backend.open(&code).ok()?;
        Some(Opened { backend: backend.clone(), code: code.clone(), contents })
    };
    let with_files = registry.backends.iter().filter(|backend| !backend.description.files.is_empty());
    Ok(with_files.filter_map(open).next())
}

/// Opens the code of the region of that symbol. Errors where its backend is not there, or has no files to open.
pub fn open_region(artifact: &Artifact, symbol: &str, registry: &Registry) -> Result<Opened> {
    let regions = &artifact.manifest().regions;
    let Some(region) = regions.iter().find(|region| region.symbol == symbol) else {
        let hint = in_place_of(symbol, regions.iter().map(|region| region.symbol.as_str()));
        let message = format!("'{}' has no region '{symbol}'", artifact.path().display());
        return Err(Diagnostic::new(Code::UnknownName, message).hint(hint));
    };
    let backend = bind::backend(region, registry)?;
    if backend.description.files.is_empty() {
        let message = format!("region {symbol} has no file in it: the backend '{}' makes none", region.backend);
        let hint = format!("byoc inspect {} --region {symbol} shows the region", artifact.path().display());
        return Err(Diagnostic::new(Code::CodeFile, message).hint(hint));
    }
    let code = artifact.code(region)?;
    let title = format!("the code of region {symbol}");
    let contents = backend.backend.open(&code).map_err(|error| cannot_read(backend, &title, error))?;
    Ok(Opened { backend: backend.clone(), code, contents })
}

/// The error of a backend that did not open its own code; `title` names the code.
fn cannot_read(backend: &Registered, title: &str, error: Error) -> Diagnostic {
    let name = &backend.description.name;
    if error.crashed {
        let message = format!("backend '{name}' {} while it read {title}", error.message);
        return Diagnostic::new(Code::BackendCrashed, message).hint("Report this to the backend's maker");
    }
    let message = format!("backend '{name}' cannot read {title}: {}", error.message);
    Diagnostic { code: Code::CodeFile, message, hint: error.hint }
}
