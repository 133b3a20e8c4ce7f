//! What the processes do that the cases start.

use std::path::Path;

use byoc_nvidia::device;
use byoc_nvidia::locate::{self, CudaSearchPath, SearchEntry};
use byoc_nvidia_standins::{FOLDER, say};
use byoc_plugin_api::Error;

use crate::{attached_domain, compile, domain, driver, launch, products, recordings};

/// Does what the process was started for.
pub(crate) fn act(action: &str) {
    let said = match action {
        "open" => open(&search_path()),
        "open-only" => open(&only()),
        "open-again" => open_again(),
        "nvrtc" => nvrtc(&search_path()),
        "third-device" => locate::driver(&search_path()).and_then(|driver| device::one(&driver, 2)).map(|_| Vec::new()),
        "products" => products::act(),
        "compile" => compile::act(),
        _ if action.starts_with("domain-") => domain::act(action),
        _ if action.starts_with("join-") => attached_domain::act(action),
        _ if action.starts_with("launch-") => launch::act(action),
        _ if action.starts_with("recordings-") => recordings::act(action),
        _ => driver::act(action),
    };
    match said {
        Ok(lines) => lines.iter().for_each(|line| say(line)),
        Err(error) => say(&told(error)),
    }
}

/// An error in one line.
pub(crate) fn told(error: Error) -> String {
    format!("{} ({})", error.message, error.hint.unwrap_or_default())
}

/// The error of a call that must fail, in one line.
pub(crate) fn refused<T>(result: Result<T, Error>) -> String {
    result.map_or_else(told, |_| "done".into())
}

/// The search path of this process, after the user's folder.
pub(crate) fn search_path() -> CudaSearchPath {
    CudaSearchPath::of_process(std::env::var_os(FOLDER).as_deref().map(Path::new))
}

fn only() -> CudaSearchPath {
    let folders = std::env::var_os(FOLDER).expect("the case sets it");
    CudaSearchPath::only(std::env::split_paths(&folders).map(SearchEntry::Folder).collect())
}

/// Opens the driver and cublasLt, and returns what was found.
fn open(search_path: &CudaSearchPath) -> Result<Vec<String>, Error> {
    let driver = locate::driver(search_path)?;
    let mut lines = vec![driver.to_string(), locate::cublaslt(search_path, &driver)?.to_string()];
    lines.extend(device::all(&driver)?.iter().map(ToString::to_string));
    Ok(lines)
}

/// Finds the libraries, removes their files, and looks for them again, there and in a place that holds none.
fn open_again() -> Result<Vec<String>, Error> {
    let folder = std::env::var_os(FOLDER).expect("the case sets it");
    let find = |search_path: &CudaSearchPath| -> Result<String, Error> {
        let driver = locate::driver(search_path)?;
        Ok(format!("{}, {}", *driver, locate::cublaslt(search_path, &driver)?))
    };
    let first = find(&only())?;
    for file in ["libcuda.so.1", "libcublasLt.so.13"] {
        std::fs::remove_file(Path::new(&folder).join(file))?;
    }
    let elsewhere = CudaSearchPath::only(vec![SearchEntry::Folder(Path::new(&folder).join("libcuda.so.1"))]);
    Ok(vec![first, find(&only())?, refused(find(&elsewhere))])
}

fn nvrtc(search_path: &CudaSearchPath) -> Result<Vec<String>, Error> {
    Ok(vec![locate::nvrtc(search_path)?.to_string()])
}
