//! The search path of CUDA's libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Library;

/// The environment variable that names folders of CUDA's libraries, separated as in `PATH`.
pub const VARIABLE: &str = "BYOC_CUDA_PATH";

/// One entry of the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchEntry {
    /// A folder that holds the libraries themselves.
    Folder(PathBuf),
    /// Wherever the loader finds a bare name: `LD_LIBRARY_PATH`, its cache, the system's folders.
    Loader,
    /// The folder `nvidia` of a Python environment's packages.
    Wheels(PathBuf),
}

impl SearchEntry {
    /// The folders that may hold the library; `None` where the loader decides.
    pub(super) fn folders(&self, library: Library) -> Option<Vec<PathBuf>> {
        match self {
            SearchEntry::Folder(folder) => Some(vec![folder.clone()]),
            SearchEntry::Loader => None,
            SearchEntry::Wheels(packages) => {
                let component = library.component().into_iter();
                // All packages for CUDA 13 share one folder; those for 12 have one each.
                Some(component.flat_map(|name| ["cu13", name]).map(|name| packages.join(name).join("lib")).collect())
            }
        }
    }

    /// Its folders, for messages.
    pub(super) fn texts(&self, library: Library) -> Vec<String> {
        match self.folders(library) {
            Some(folders) => folders.iter().map(|folder| folder.display().to_string()).collect(),
            None => vec!["the loader's path".into()],
        }
    }
}

/// The entries, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSearchPath(Vec<SearchEntry>);

impl CudaSearchPath {
    /// The search path of this process: `folder` if the user names one, then the environment's.
    pub fn of_process(folder: Option<&Path>) -> CudaSearchPath {
        CudaSearchPath::new(folder, &|name| std::env::var_os(name))
    }

    /// The user's folder, [`VARIABLE`], the loader's path, `CUDA_HOME`, Conda's own libraries, and the packages of the
    /// active Python: that of `VIRTUAL_ENV` and `CONDA_PREFIX`, or else the environment whose `python3` comes first in `PATH`.
    pub fn new(folder: Option<&Path>, variable: &dyn Fn(&str) -> Option<OsString>) -> CudaSearchPath {
        let folders = |name: &str| -> Vec<PathBuf> {
            let value = variable(name).unwrap_or_default();
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let asked = folder.filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned);
        let mut search_path: Vec<_> = asked.into_iter().chain(folders(VARIABLE)).map(SearchEntry::Folder).collect();
        search_path.push(SearchEntry::Loader);
        for home in folders("CUDA_HOME") {
            search_path.extend(["lib64", "lib"].map(|name| SearchEntry::Folder(home.join(name))));
        }
        search_path.extend(folders("CONDA_PREFIX").iter().map(|prefix| SearchEntry::Folder(prefix.join("lib"))));
        let mut active: Vec<_> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().flat_map(folders).collect();
        if active.is_empty() {
            active.extend(environment(&folders("PATH")));
        }
        search_path.extend(active.iter().flat_map(|prefix| packages(prefix)).map(SearchEntry::Wheels));
        CudaSearchPath(search_path)
    }

    /// Only the given entries.
    pub fn only(search_path: Vec<SearchEntry>) -> CudaSearchPath {
        CudaSearchPath(search_path)
    }

    pub(crate) fn all(&self) -> &[SearchEntry] {
        &self.0
    }
}

/// The virtual environment of the first `python3` in these folders of programs, if it is one's.
fn environment(programs: &[PathBuf]) -> Option<PathBuf> {
    let folder = programs.iter().find(|folder| folder.join("python3").is_file())?;
    folder.parent().filter(|prefix| prefix.join("pyvenv.cfg").is_file()).map(Path::to_owned)
}

/// NVIDIA's folders among the packages of a Python environment, one for each version of Python in it.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let library = prefix.join("lib");
    let entries = std::fs::read_dir(&library).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with("python3."));
    names.sort();
    names.iter().map(|name| library.join(name).join("site-packages").join("nvidia")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order() {
        let environment = tempfile::tempdir().expect("a temporary folder can be made");
        let python = environment.path().join("lib/python3.11");
        std::fs::create_dir_all(&python).expect("the folder is ours");
        std::fs::create_dir_all(environment.path().join("lib/pkgconfig")).expect("the folder is ours");
        let prefix = environment.path().as_os_str().to_owned();
        let variable = |name: &str| match name {
            VARIABLE => Some("/first::/second".into()),
            "CUDA_HOME" => Some("/usr/local/cuda".into()),
            "VIRTUAL_ENV" => Some(prefix.clone()),
            "CONDA_PREFIX" => Some("/conda".into()),
            _ => None,
        };
        let wheels = python.join("site-packages/nvidia");
        let folder = |path: &str| SearchEntry::Folder(path.into());
        let expected = [
            folder("/asked"),
            folder("/first"),
            folder("/second"),
            SearchEntry::Loader,
            folder("/usr/local/cuda/lib64"),
            folder("/usr/local/cuda/lib"),
            folder("/conda/lib"),
            SearchEntry::Wheels(wheels.clone()),
        ];
        assert_eq!(CudaSearchPath::new(Some(Path::new("/asked")), &variable).all(), expected);
        let folders = SearchEntry::Wheels(wheels.clone()).folders(Library::CublasLt);
        assert_eq!(folders, Some(vec![wheels.join("cu13/lib"), wheels.join("cublas/lib")]));
        assert_eq!(SearchEntry::Wheels(wheels).folders(Library::Driver), Some(vec![]));
    }

    #[test]
    fn the_environment_of_the_first_python_is_searched() {
        let (environment, system) = (tempfile::tempdir(), tempfile::tempdir());
        let [environment, system] = [environment, system].map(|made| made.expect("a temporary folder can be made"));
        let (bin, python) = (environment.path().join("bin"), environment.path().join("lib/python3.12"));
        for folder in [&bin, &python] {
            std::fs::create_dir_all(folder).expect("the folder is ours");
        }
        for file in [bin.join("python3"), environment.path().join("pyvenv.cfg"), system.path().join("python3")] {
            std::fs::write(file, "").expect("the folder is ours");
        }
        let found = |folders: &[&Path], active: &str| {
            let path = std::env::join_paths(folders).expect("plain names");
            let variable = |name: &str| match name {
                "PATH" => Some(path.clone()),
                "VIRTUAL_ENV" => Some(active.into()),
                _ => None,
            };
            CudaSearchPath::new(None, &variable)
        };
        let wheels = SearchEntry::Wheels(python.join("site-packages/nvidia"));
        assert_eq!(found(&[Path::new("/none"), &bin], "").all(), [SearchEntry::Loader, wheels]);
        // Another one is the program that is started, or another environment is active.
        assert_eq!(found(&[system.path(), &bin], "").all(), [SearchEntry::Loader]);
        assert_eq!(found(&[&bin], "/active").all(), [SearchEntry::Loader]);
    }

    #[test]
    fn the_current_folder_is_not_searched() {
        let search_path = CudaSearchPath::new(Some(Path::new("")), &|_| Some("".into()));
        assert_eq!(search_path.all(), [SearchEntry::Loader]);
    }
}
