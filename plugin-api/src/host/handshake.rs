//! The handshake: who a plugin is, which ABI it speaks, and its table of functions, before anything of it is called.

use std::path::Path;

use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::check_layout_compatibility;
use abi_stable::library::{LibHeader, lib_header_from_path};
use libloading::os::unix::Library;

use super::answer::one_line;
use super::{Cause, LoadError};
use crate::abi::{ABI_VERSION, MAGIC, OLDEST_ABI_VERSION, PluginInfo, PluginModuleRef};
use crate::table::PluginTable;

/// Size of [`PluginInfo`] in ABI 1.0, the least that a plugin has.
const FIRST_INFO: u32 = 48;

/// Words of [`PluginTable`] in ABI 1.0, the least that a plugin has. Functions that are added are `Option`s, and absent
/// where the plugin's table ends before them.
const FIRST_WORDS: usize = 7;

/// What they are called in the header.
const WORD_NAMES: [&str; FIRST_WORDS] = ["struct_size", "count", "call", "load", "run", "free", "extension"];

/// What a plugin says of itself.
pub(super) struct Info {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) abi: u32,
}

pub(super) fn read_info(library: &Library) -> Result<Info, LoadError> {
    // SAFETY: the symbol's type is the contract; the magic and the size are checked before any other field is read.
    let symbol = unsafe { library.get::<*const PluginInfo>("byoc_plugin_info") }
        .map_err(|_| LoadError::not_a_plugin(Cause::Exports, "it has no symbol byoc_plugin_info"))?;
    let info: *const PluginInfo = *symbol;
    // SAFETY: the library exports the symbol, so at least the 16 bytes before the texts are there in every version.
    let (magic, size, abi) = unsafe { ((*info).magic, (*info).struct_size, (*info).abi_version) };
    if magic != MAGIC || size < FIRST_INFO {
        return Err(LoadError::not_a_plugin(Cause::Exports, "its symbol byoc_plugin_info is not what it should be"));
    }
    // SAFETY: `struct_size` covers both texts, which are static.
    let (name, version) = unsafe { ((*info).name.bytes(), (*info).version.bytes()) };
    let text = |bytes| one_line(&String::from_utf8_lossy(bytes));
    Ok(Info { name: text(name), version: text(version), abi })
}

pub(super) fn check_version(info: &Info) -> Result<(), LoadError> {
    if (OLDEST_ABI_VERSION..=ABI_VERSION).contains(&info.abi) {
        return Ok(());
    }
    let newer = info.abi > ABI_VERSION;
    Err(LoadError::Incompatible {
        message: format!(
            "plugin '{}' {} speaks ABI {}; this byoc speaks {}",
            info.name,
            info.version,
            info.abi,
            spoken()
        ),
        hint: if newer {
            format!("Update byoc, or install an older {}", info.name)
        } else {
            format!("Install a newer {}", info.name)
        },
    })
}

fn spoken() -> String {
    if OLDEST_ABI_VERSION == ABI_VERSION {
        ABI_VERSION.to_string()
    } else {
        format!("{OLDEST_ABI_VERSION} to {ABI_VERSION}")
    }
}

/// The functions: those of the C table where the library has one, else those of its Rust module.
pub(super) fn functions(library: &Library, path: &Path, info: &Info) -> Result<PluginTable, LoadError> {
    // SAFETY: the symbol's type is the contract; nothing but its first field is read before it is checked.
    if let Ok(symbol) = unsafe { library.get::<*const PluginTable>("byoc_plugin_table") } {
        // SAFETY: the library exports the symbol under the name that the contract gives to such a table.
        return unsafe { read_table(*symbol) };
    }
    let header = lib_header_from_path(path).map_err(|_| {
        LoadError::not_a_plugin(
            Cause::Exports,
            "it has neither the symbol byoc_plugin_table nor the module of export_plugin!",
        )
    })?;
    check_layout(header, info).map(table_of)
}

/// # Safety
/// `table` must point to at least the first field of a table.
unsafe fn read_table(table: *const PluginTable) -> Result<PluginTable, LoadError> {
    const WORD: usize = size_of::<usize>();
    const WORDS: usize = size_of::<PluginTable>() / WORD;
    // SAFETY: the first field is there by contract.
    let size = unsafe { (*table).struct_size };
    if size < FIRST_WORDS * WORD {
        let needed = FIRST_WORDS * WORD;
        return Err(LoadError::not_a_plugin(
            Cause::Exports,
            format!("its byoc_plugin_table has {size} bytes, and {needed} are needed"),
        ));
    }
    // A function pointer must not even be read as one while it may be null.
    let mut words = [0usize; WORDS];
    // SAFETY: `struct_size` covers as many words, which is what the table is made of.
    unsafe { table.cast::<usize>().copy_to_nonoverlapping(words.as_mut_ptr(), WORDS.min(size / WORD)) };
    match words[..FIRST_WORDS].iter().position(|&word| word == 0) {
        Some(field) => {
            let name = WORD_NAMES.get(field).copied().unwrap_or_default();
            Err(LoadError::not_a_plugin(
                Cause::Exports,
                format!("the function '{name}' of its byoc_plugin_table is null"),
            ))
        }
        // SAFETY: the words of a table, in which no function is null but one that may be absent.
        None => Ok(unsafe { words.as_ptr().cast::<PluginTable>().read() }),
    }
}

/// The Rust module's functions.
fn table_of(module: PluginModuleRef) -> PluginTable {
    PluginTable {
        struct_size: size_of::<PluginTable>(),
        count: module.count(),
        call: module.call(),
        load: module.load(),
        run: module.run(),
        free: module.free(),
        extension: module.extension(),
    }
}

/// Compares the layouts in both directions: abi_stable takes a host to be at least as old as its library and would
/// refuse every plugin that was built before the module grew.
fn check_layout(header: &'static LibHeader, info: &Info) -> Result<PluginModuleRef, LoadError> {
    let incompatible = |details: String| LoadError::Incompatible {
        message: format!("plugin '{}' {} does not fit this byoc: {details}", info.name, info.version),
        hint: format!("Install a build of {} for byoc-plugin-api {}", info.name, env!("CARGO_PKG_VERSION")),
    };
    let ours = <PluginModuleRef as StableAbi>::LAYOUT;
    let theirs = header.layout().ok_or_else(|| incompatible("it carries no layout".into()))?;
    if let Err(error) = check_layout_compatibility(ours, theirs)
        && check_layout_compatibility(theirs, ours).is_err()
    {
        return Err(incompatible(summary(&error.to_string())));
    }
    // SAFETY: every field that both sides know has the same layout, as one of the two checks found; functions that an
    // older plugin lacks lie after the last prefix field and read as `None`.
    unsafe { header.init_root_module_with_unchecked_layout::<PluginModuleRef>() }
        .map_err(|error| incompatible(one_line(&error.to_string())))
}

/// The innermost complaint of an abi_stable report, which runs to thousands of lines.
fn summary(report: &str) -> String {
    let mut lines = report.lines().map(str::trim);
    let Some(first) = lines.find_map(|line| line.strip_prefix("Error:")) else { return one_line(report) };
    let rest: Vec<_> = lines.take(4).collect();
    let value = |label: &str| {
        let at = rest.iter().position(|line| line.starts_with(label))?;
        let inline = rest[at].strip_prefix(label)?.trim_start_matches(':').trim();
        Some(if inline.is_empty() { rest.get(at + 1).copied().unwrap_or("") } else { inline })
    };
    match (value("Expected"), value("Found")) {
        (Some(expected), Some(found)) => format!("{first}: expected {expected}, found {found}"),
        _ => first.to_owned(),
    }
}
