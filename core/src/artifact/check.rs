//! Consistency of the graph section and the header: every reference resolves, every type
//! agrees, everything that is stored is used. Checked when a file is opened, and before one is written.

mod control;
mod list;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use byoc_plugin_api::{DType, Dim};

use super::header::{Header, Tensor, carrier};
use super::ledger::{Fate, LedgerRow, NodeSummary, ledger_section};
use super::manifest::{
    Binding, Call, ClaimKind, ConstantUse, Entry, External, Manifest, Region, Stored, ValueInfo, ValueType,
};
use super::variants::graph_section;
use super::{CODE, CONSTANT, DIGEST, GRAPH, LEDGER, PAD};

type Checked<T = ()> = Result<T, String>;

/// Checks that each section has a digest, each digest a section, and padding neither name nor type of its own.
pub(super) fn digests(header: &Header) -> Checked {
    let mut expected = String::new();
    for (index, pad) in header.tensors.iter().filter(|tensor| tensor.is_pad()).enumerate() {
        expected.clear();
        let _ = write!(expected, "{PAD}{index}");
        if *pad.name != *expected || pad.dtype != DType::U8 || pad.shape.len() != 1 {
            return Err(format!("section '{}': it is not valid padding", pad.name));
        }
    }
    if let Some(tensor) = header.tensors.iter().find(|tensor| !tensor.is_pad() && tensor.digest.is_none()) {
        return Err(format!("section '{}': the header has no digest of it", tensor.name));
    }
    match header.metadata.keys().find_map(|key| key.strip_prefix(DIGEST)) {
        Some(name) => Err(format!("its header has a digest of '{name}', which is not a section")),
        None => Ok(()),
    }
}

/// Finds a section of the header by its name.
pub(super) type Find<'a> = &'a dyn Fn(&str) -> Option<&'a Tensor>;

/// Checks the graph section of a file without variants against the header.
pub(super) fn check<'a>(manifest: &'a Manifest, header: &'a Header, find: Find<'a>) -> Checked {
    let mut sections = Sections::new(find, Typed::Exactly);
    sections.take_bytes(GRAPH)?;
    sections.take_bytes(LEDGER)?;
    check_graph(manifest, &mut sections)?;
    sections.finish(header)
}

/// Checks the graph section of a variant against the header. Other sections are those of other variants.
pub(super) fn check_variant<'a>(manifest: &'a Manifest, variant: &str, find: Find<'a>) -> Checked {
    let mut sections = Sections::new(find, Typed::BySize);
    sections.take_bytes(&graph_section(variant))?;
    sections.take_bytes(&ledger_section(Some(variant)))?;
    check_graph(manifest, &mut sections)
}

/// Checks that every section is one of these variants, which were checked.
pub(super) fn all_are_used(variants: &[(&str, &Manifest)], header: &Header) -> Checked {
    let own: Vec<String> =
        variants.iter().flat_map(|(name, _)| [graph_section(name), ledger_section(Some(name))]).collect();
    let mut used: HashSet<&str> = own.iter().map(String::as_str).chain([GRAPH]).collect();
    for (_, manifest) in variants {
        let stored = manifest.constants.iter().filter(|stored| stored.external.is_none());
        used.extend(stored.map(|stored| stored.section.as_str()));
        used.extend(manifest.regions.iter().map(|region| region.code.as_str()));
    }
    all_are_in(&used, header)
}

fn all_are_in(used: &HashSet<&str>, header: &Header) -> Checked {
    let sections = header.tensors.iter().filter(|tensor| !tensor.is_pad());
    match sections.map(|tensor| &*tensor.name).filter(|name| !used.contains(name)).min() {
        Some(name) => Err(format!("section '{name}': nothing refers to it")),
        None => Ok(()),
    }
}

/// Checks the graph against the sections that it names, and takes them.
fn check_graph<'a>(manifest: &'a Manifest, sections: &mut Sections<'a>) -> Checked {
    for (index, stored) in manifest.constants.iter().enumerate() {
        if stored.dtype == DType::String {
            return Err(format!("constant {index}: it is of strings, which no file holds"));
        }
        if let Some(external) = &stored.external {
            sections.none_called(&stored.section)?;
            check_external(manifest, stored, external).map_err(|cause| format!("constant {index}: {cause}"))?;
            continue;
        }
        let tensor = sections.take(&stored.section)?;
        let name = &tensor.name;
        if !name.starts_with(CONSTANT) {
            return Err(format!("constant {index} is in section '{name}', which does not start with '{CONSTANT}'"));
        }
        if !sections.holds(tensor, stored) {
            let (found, expected) = (describe(tensor.dtype, &tensor.shape), describe(stored.dtype, &stored.shape));
            return Err(format!("section '{name}': it is {found}, and the graph says {expected}"));
        }
        if stored.alignment > 1 && !tensor.start.is_multiple_of(stored.alignment) {
            return Err(format!("section '{name}': it is not aligned to {}", stored.alignment));
        }
    }
    check_files(manifest)?;
    let mut symbols = HashSet::new();
    for region in &manifest.regions {
        if !symbols.insert(&region.symbol) {
            return Err(format!("it has two regions '{}'", region.symbol));
        }
        sections.take_code(region)?;
        check_region(manifest, region).map_err(|cause| format!("region '{}': {cause}", region.symbol))?;
    }
    control::check_bodies(manifest)?;
    let mut names = HashSet::new();
    for entry in &manifest.entries {
        if !names.insert(&entry.name) {
            return Err(format!("it has two entries '{}'", entry.name));
        }
        check_entry(manifest, entry).map_err(|cause| format!("entry '{}': {cause}", entry.name))?;
    }
    check_readers(manifest)
}

fn describe(dtype: DType, shape: &[usize]) -> String {
    format!("{dtype}{shape:?}")
}

/// What a section has of the constant in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typed {
    /// Its type and shape.
    Exactly,
    /// As many bytes: variants that have the same bytes may have them as constants of other types.
    BySize,
}

/// The sections of the header that something refers to so far.
struct Sections<'a> {
    typed: Typed,
    find: Find<'a>,
    taken: HashSet<&'a str>,
    /// The first region whose code a section holds.
    code: HashMap<&'a str, &'a Region>,
}

impl<'a> Sections<'a> {
    fn new(find: Find<'a>, typed: Typed) -> Self {
        Sections { typed, find, taken: HashSet::new(), code: HashMap::new() }
    }

    fn holds(&self, tensor: &Tensor, stored: &Stored) -> bool {
        match self.typed {
            Typed::Exactly => carrier(stored.dtype, &stored.shape) == Some((tensor.dtype, tensor.shape.clone())),
            Typed::BySize => stored.bytes() == Some(tensor.len()),
        }
    }

    fn take(&mut self, name: &str) -> Checked<&'a Tensor> {
        let tensor = (self.find)(name).filter(|tensor| !tensor.is_pad());
        let tensor = tensor.ok_or_else(|| format!("it has no section '{name}'"))?;
        if !self.taken.insert(&tensor.name) {
            return Err(format!("section '{name}': two things refer to it"));
        }
        Ok(tensor)
    }

    fn none_called(&self, name: &str) -> Checked {
        match (self.find)(name).is_some() {
            true => Err(format!("section '{name}': its constant is in another file")),
            false => Ok(()),
        }
    }

    fn take_bytes(&mut self, name: &str) -> Checked {
        let tensor = self.take(name)?;
        if tensor.dtype != DType::U8 || tensor.shape.len() != 1 {
            let found = describe(tensor.dtype, &tensor.shape);
            return Err(format!("section '{name}': it is {found}, expected plain bytes"));
        }
        Ok(())
    }

    /// A section may hold the code of several regions, if that is code of one backend in one version.
    fn take_code(&mut self, region: &'a Region) -> Checked {
        let name = region.code.as_str();
        if !name.starts_with(CODE) {
            return Err(format!(
                "region '{}': its code is in section '{name}', which does not start with '{CODE}'",
                region.symbol
            ));
        }
        let Some(first) = self.code.get(name) else {
            self.code.insert(name, region);
            return self.take_bytes(name);
        };
        if (&first.backend, first.code_version) != (&region.backend, region.code_version) {
            let version = |region: &Region| format!("'{}' version {}", region.backend, region.code_version);
            let (one, other) = (version(first), version(region));
            return Err(format!("section '{name}': it is code of {one} and of {other}"));
        }
        Ok(())
    }

    fn finish(self, header: &Header) -> Checked {
        all_are_in(&self.taken, header)
    }
}

/// Each other file has a name of its own, and a constant in it.
fn check_files(manifest: &Manifest) -> Checked {
    let mut paths = HashSet::new();
    for (index, file) in manifest.files.iter().enumerate() {
        let path = &file.path;
        if Path::new(path).file_name().is_none() {
            return Err(format!("it takes constants from '{path}', which is not a file name"));
        }
        if !paths.insert(path) {
            return Err(format!("it has the file '{path}' twice"));
        }
        let mut external = manifest.constants.iter().filter_map(|stored| stored.external.as_ref());
        if !external.any(|external| external.file == index) {
            return Err(format!("file '{path}': it holds no constant"));
        }
    }
    Ok(())
}

fn check_external(manifest: &Manifest, stored: &Stored, external: &External) -> Checked {
    let count = manifest.files.len();
    let file =
        manifest.files.get(external.file).ok_or_else(|| format!("it is in file {} of {count}", external.file))?;
    if stored.layout.is_some() || stored.alignment != 0 {
        return Err("it is packed or needs an alignment, and is in another file".into());
    }
    let length = stored.bytes().ok_or("its shape is too large")?;
    if external.offset.checked_add(length).is_none_or(|end| end > file.bytes) {
        let (offset, bytes, path) = (external.offset, file.bytes, &file.path);
        return Err(format!("its {length} bytes at offset {offset} leave the {bytes} bytes of '{path}'"));
    }
    Ok(())
}

fn check_region(manifest: &Manifest, region: &Region) -> Checked {
    let requirement = manifest.requirements.backends.iter().find(|known| known.name == region.backend);
    let wanted = (region.backend_version.as_str(), region.code_version, region.abi_version);
    if requirement.map(|known| (known.version.as_str(), known.code_version, known.abi_version)) != Some(wanted) {
        return Err(format!("its backend '{}' is not among the requirements", region.backend));
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if region.domain.as_deref().is_some_and(|kind| kind.is_empty() || !kind.bytes().all(plain)) {
        return Err("its kind of memory is not a plain name".into());
    }
    let mut ids = HashSet::new();
    for binding in &region.constants {
        if !ids.insert(binding.id) {
            return Err(format!("constant {} is bound twice", binding.id));
        }
        check_binding(manifest, binding).map_err(|cause| format!("constant {}: {cause}", binding.id))?;
    }
    Ok(())
}

fn check_binding(manifest: &Manifest, binding: &Binding) -> Checked {
    let bound = matches!(binding.claim, ClaimKind::Host | ClaimKind::Packed);
    let packed = binding.claim == ClaimKind::Packed;
    if bound != binding.used.is_some() || packed != binding.layout.is_some() {
        return Err("its claim does not fit what is bound".into());
    }
    let Some(used) = &binding.used else { return Ok(()) };
    check_use(manifest, used)?;
    let stored = &manifest.constants[used.constant];
    if !packed && stored.layout.is_some() {
        return Err(format!("it is claimed as the original, and '{}' is packed", stored.section));
    }
    Ok(())
}

fn check_use(manifest: &Manifest, used: &ConstantUse) -> Checked {
    let count = manifest.constants.len();
    let Some(stored) = manifest.constants.get(used.constant) else {
        return Err(format!("it refers to constant {} of {count}", used.constant));
    };
    let elements = stored.shape.iter().map(|&size| size as u64).product();
    if !used.view.fits(elements) {
        return Err(format!("its view leaves the {elements} elements of '{}'", stored.section));
    }
    if !used.view.suits(stored.dtype) {
        return Err(format!("its view of '{}' moves elements that share bytes", stored.section));
    }
    Ok(())
}

/// Each value is made once, before it is read.
fn check_entry(manifest: &Manifest, entry: &Entry) -> Checked {
    let mut made = vec![false; entry.values.len()];
    for port in &entry.inputs {
        make(&mut made, port.value)?;
    }
    for constant in &entry.constants {
        make(&mut made, constant.value)?;
        check_use(manifest, &constant.used)?;
        let (value, stored) = (&entry.values[constant.value], &manifest.constants[constant.used.constant]);
        let shape: Vec<Dim> = constant.used.view.shape.iter().copied().map(Dim::Fixed).collect();
        if (value.dtype, &value.shape) != (stored.dtype, &shape) || stored.layout.is_some() {
            return Err(format!("value {} is not of the type of '{}'", constant.value, stored.section));
        }
    }
    list::check_values(entry)?;
    let mut next = 0;
    for (index, call) in entry.calls.iter().enumerate() {
        control::check_before(manifest, entry, (&mut next, Some(index)), &mut made)?;
        check_call(manifest, entry, call, &mut made)?;
    }
    control::check_before(manifest, entry, (&mut next, None), &mut made)?;
    for (kind, ports) in [("inputs", &entry.inputs), ("outputs", &entry.outputs)] {
        let mut names = HashSet::new();
        for port in ports {
            if made.get(port.value) != Some(&true) {
                return Err(format!("'{}' is value {}, which is not computed", port.name, port.value));
            }
            // A body's are told by their places.
            if !names.insert(&port.name) && !entry.body {
                return Err(format!("two {kind} are called '{}'", port.name));
            }
        }
    }
    Ok(())
}

fn make(made: &mut [bool], value: usize) -> Checked {
    let count = made.len();
    match made.get_mut(value) {
        None => Err(format!("it refers to value {value} of {count}")),
        Some(true) => Err(format!("value {value} is made twice")),
        Some(made) => {
            *made = true;
            Ok(())
        }
    }
}

fn check_call(manifest: &Manifest, entry: &Entry, call: &Call, made: &mut [bool]) -> Checked {
    let Some(region) = manifest.regions.get(call.region) else {
        return Err(format!("it calls region {} of {}", call.region, manifest.regions.len()));
    };
    if (call.inputs.len(), call.outputs.len()) != (region.inputs.len(), region.outputs.len()) {
        return Err(format!("it calls '{}' with a wrong number of values", region.symbol));
    }
    for &value in &call.inputs {
        if made.get(value) != Some(&true) {
            return Err(format!("'{}' reads value {value}, which is not computed before it", region.symbol));
        }
    }
    for &value in &call.outputs {
        make(made, value)?;
    }
    let values = call.inputs.iter().chain(&call.outputs);
    for (&value, info) in values.zip(region.inputs.iter().chain(&region.outputs)) {
        if !agree(&entry.values[value], info) {
            return Err(format!("value {value} is not of the type that '{}' has for '{}'", region.symbol, info.name));
        }
    }
    Ok(())
}

/// Whether the types are equal as far as both know their sizes.
fn agree(value: &ValueType, info: &ValueInfo) -> bool {
    value.list.is_none() && value.dtype == info.dtype && sizes_agree(&value.shape, &info.shape)
}

/// Whether two shapes are equal as far as both know their sizes.
pub(crate) fn sizes_agree(one: &[Dim], other: &[Dim]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|pair| match pair {
            (Dim::Fixed(one), Dim::Fixed(other)) => one == other,
            _ => true,
        })
}

/// Each stored constant has a reader.
fn check_readers(manifest: &Manifest) -> Checked {
    let mut read = vec![false; manifest.constants.len()];
    let bindings =
        manifest.regions.iter().flat_map(|region| &region.constants).filter_map(|binding| binding.used.as_ref());
    let outputs = manifest.entries.iter().flat_map(|entry| &entry.constants).map(|constant| &constant.used);
    bindings.chain(outputs).for_each(|used| read[used.constant] = true);
    match manifest.constants.iter().zip(read).find(|(_, read)| !read) {
        Some((stored, _)) => Err(format!("section '{}': it has no reader", stored.section)),
        None => Ok(()),
    }
}

/// Checks a ledger against its graph: each stored constant has exactly one row that owns it, and each region its nodes.
pub(super) fn ledger(manifest: &Manifest, ledger: &[LedgerRow], nodes: &[Vec<NodeSummary>]) -> Checked {
    let regions = manifest.regions.len();
    if nodes.len() != regions {
        return Err(format!("its ledger has the nodes of {} regions, not of {regions}", nodes.len()));
    }
    let mut rows = vec![0usize; manifest.constants.len()];
    for row in ledger {
        let Some(stored) = row.stored else { continue };
        let Some(row_count) = rows.get_mut(stored) else {
            return Err(format!("its ledger refers to constant {stored} of {}", manifest.constants.len()));
        };
        *row_count += usize::from(row.fate != Fate::Viewed);
    }
    match manifest.constants.iter().zip(rows).find(|(_, rows)| *rows != 1) {
        Some((stored, rows)) => Err(format!("section '{}': the ledger has {rows} rows for it, not 1", stored.section)),
        None => Ok(()),
    }
}
