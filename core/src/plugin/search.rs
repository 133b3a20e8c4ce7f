//! Where plugin files are looked for, in order: `--plugin`, `--plugin-dir`, `BYOC_PLUGIN_PATH`, the user's plugin
//! folder, and the folder that belongs to the program. Only files named like plugins are ever opened.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

/// The places to look in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// Exact files; each must be a plugin.
    pub files: Vec<PathBuf>,
    /// Folders, the most wanted first; files in them that are no plugins are noted and passed over.
    pub folders: Vec<PathBuf>,
}

impl SearchPath {
    /// The given files and folders, then what the environment and the program's place add.
    pub fn standard(files: Vec<PathBuf>, mut folders: Vec<PathBuf>) -> SearchPath {
        if let Some(list) = std::env::var_os("BYOC_PLUGIN_PATH") {
            folders.extend(std::env::split_paths(&list).filter(|folder| !folder.as_os_str().is_empty()));
        }
        let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share"));
        folders.extend(data.or(home).map(|data| data.join("byoc/plugins")));
        let program = std::env::current_exe().ok();
        let beside = program.as_deref().and_then(Path::parent).map(|bin| bin.join("../lib/byoc/plugins"));
        folders.extend(beside);
        SearchPath { files, folders }
    }

    /// Files in the folders that are named like plugins, in order of folder and then of name.
    pub(super) fn candidates(&self) -> Vec<PathBuf> {
        self.folders.iter().flat_map(|folder| plugin_files(folder)).collect()
    }
}

fn plugin_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let prefix = format!("{DLL_PREFIX}byoc_");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(DLL_SUFFIX)
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
    files.sort();
    files
}
