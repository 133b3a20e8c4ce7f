//! Where plugin files are looked for, in order: `--plugin`, `--plugin-dir`, `BYOC_PLUGIN_PATH`, the user's plugin
//! folder, and the folder that belongs to the program. Only files named like plugins are ever opened, and the current
//! folder is not searched unless the user names it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The places to look in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// Exact files; each must be a plugin.
    pub files: Vec<PathBuf>,
    /// Folders, the most wanted first; files in them that are not plugins are noted and passed over.
    pub dirs: Vec<PathBuf>,
    /// The folder of the program, where a build puts plugins too. It is not searched: a backend that the user names is taken
    /// from the file of its name there, if it is nowhere else.
    pub beside: Option<PathBuf>,
    /// Entries of `BYOC_PLUGIN_PATH` that are passed over: what a relative path means depends on the folder in which the
    /// program happens to run.
    pub ignored: Vec<PathBuf>,
    /// Entries of `BYOC_PLUGIN_PATH` that are no folders.
    pub absent: Vec<PathBuf>,
}

impl SearchPath {
    /// The given files and folders, then what the environment and the place of `program` add: of the one that runs where none is
    /// given.
    pub fn standard(files: Vec<PathBuf>, dirs: Vec<PathBuf>, program: Option<&Path>) -> SearchPath {
        let own = if program.is_none() { std::env::current_exe().ok() } else { None };
        SearchPath { files, dirs, ..SearchPath::default() }
            .with(|name| std::env::var_os(name), program.or(own.as_deref()))
    }

    fn with(mut self, variable: impl Fn(&str) -> Option<OsString>, program: Option<&Path>) -> SearchPath {
        // An empty variable is not a list; in a list, an empty entry would be the current folder.
        if let Some(list) = variable("BYOC_PLUGIN_PATH").filter(|list| !list.is_empty()) {
            let (absolute, relative): (Vec<_>, _) = std::env::split_paths(&list).partition(|path| path.is_absolute());
            self.absent = absolute.iter().filter(|path| !path.is_dir()).cloned().collect();
            self.dirs.extend(absolute);
            self.ignored = relative;
        }
        let absolute = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").map(|home| home.join(".local/share"));
        self.dirs.extend(absolute("XDG_DATA_HOME").or(home).map(|data| data.join("byoc/plugins")));
        self.beside = program.and_then(Path::parent).map(Path::to_owned);
        self.dirs.extend(self.beside.iter().map(|bin| bin.join("../lib/byoc/plugins")));
        self
    }

    /// The file beside the program that would hold the backend, if it is there. Only a name can be one: it never becomes a path.
    pub(super) fn beside(&self, backend: &str) -> Option<PathBuf> {
        let plain = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
        let file = format!("{DLL_PREFIX}byoc_{}{DLL_SUFFIX}", backend.replace('-', "_"));
        let path = self.beside.as_ref()?.join(file);
        (backend.chars().all(plain) && path.is_file()).then_some(path)
    }

    /// Every file beside the program that is named like a plugin.
    pub fn files_beside(&self) -> Vec<PathBuf> {
        self.beside.as_deref().map(plugin_files).unwrap_or_default()
    }

    /// Every file that may be opened as a plugin.
    pub fn every_file(&self) -> Vec<PathBuf> {
        self.files.iter().cloned().chain(self.candidates()).chain(self.files_beside()).collect()
    }

    /// Files in the folders that are named like plugins, in order of folder and then of name.
    pub fn candidates(&self) -> Vec<PathBuf> {
        self.dirs.iter().flat_map(|dir| plugin_files(dir)).collect()
    }
}

fn plugin_files(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let prefix = format!("{DLL_PREFIX}byoc_");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(DLL_SUFFIX)
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
    files.sort();
    files
}

/// Whether a plugin file of that name would hold the backend.
pub(super) fn file_is_for(path: &Path, backend: &str) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.strip_prefix("lib").unwrap_or(stem) == format!("byoc_{}", backend.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> SearchPath {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
        SearchPath { dirs: vec!["mine".into()], ..SearchPath::default() }.with(variable, None)
    }

    #[test]
    fn only_the_user_may_mean_the_current_folder() {
        let found = places(&[("BYOC_PLUGIN_PATH", "/a::b:./c:/d"), ("XDG_DATA_HOME", "data"), ("HOME", "")]);
        assert_eq!(found.dirs, ["mine", "/a", "/d"].map(PathBuf::from));
        assert_eq!(found.ignored, ["", "b", "./c"].map(PathBuf::from));
        let found = places(&[("BYOC_PLUGIN_PATH", ""), ("HOME", "/home/me")]);
        assert_eq!(found.dirs, ["mine", "/home/me/.local/share/byoc/plugins"].map(PathBuf::from));
        assert_eq!(found.ignored, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_folder_belongs_to_the_program() {
        let found = SearchPath::standard(vec![], vec![], Some(Path::new("/opt/bin/byoc")));
        assert_eq!(found.dirs.last().map(PathBuf::as_path), Some(Path::new("/opt/bin/../lib/byoc/plugins")));
        assert_eq!(found.beside, Some("/opt/bin".into()));
    }

    #[test]
    fn a_backend_has_a_file_name() {
        assert!(file_is_for(Path::new("/p/libbyoc_acme_dsp.so"), "acme-dsp"));
        assert!(!file_is_for(Path::new("/p/libbyoc_acme.so"), "acme-dsp"));
        assert!(!file_is_for(Path::new("/p/libbyoc_acme.so"), "../p/acme"));
    }
}
