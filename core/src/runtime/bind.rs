//! Binds code and constants to a region: views into the mapped files, by id, never copied.

use std::sync::Arc;

use byoc_plugin_api::{
    Backend, BoundConstant, BoundConstants, ConstantId, DType, DeviceConstant, DeviceConstants, DeviceExecutable,
    Environment, Error, Executable, TensorView, Texts,
};
use bytes::Bytes;

use super::device::Device;
use super::resident::Resident;
use super::texts::TextTable;
use crate::artifact::manifest::ConstantUse;
use crate::artifact::{Artifact, manifest};
use crate::crash;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::{self, Registered, Registry};

/// A loaded region with all memory that its executable borrows.
pub(super) type Bound<E> = plugin::Bound<E, Borrowed>;

pub(super) struct Borrowed {
    code: Bytes,
    constants: Vec<BorrowedConstant>,
}

struct BorrowedConstant {
    id: ConstantId,
    dtype: DType,
    layout: Option<String>,
    bytes: Bytes,
    shape: Vec<i64>,
    strides: Vec<i64>,
    /// Where it is on the device, for a region that runs on one.
    address: u64,
}

/// Regions as they are loaded.
pub(super) struct Loader<'a> {
    /// The artifact that has them.
    pub(super) artifact: &'a Artifact,
    /// The backends.
    pub(super) registry: &'a Registry,
    /// Most threads a region may use.
    pub(super) threads: usize,
    /// Settings of options of running.
    pub(super) settings: &'a [(String, String)],
}

impl Loader<'_> {
    /// Loads a region that runs on the host, and lends it the texts where it has some among its values.
    pub(super) fn host(&self, region: &manifest::Region, texts: &Arc<TextTable>) -> Result<Bound<dyn Executable>> {
        let registered = backend(region, self.registry)?;
        let environment = self.environment(region, registered)?;
        let memory = self.borrow(region, self.artifact.code(region)?, &|_, _| 0)?;
        let place = place(region);
        let bound = Bound::new(memory, |memory| {
            let constants = memory.constants.iter().map(BorrowedConstant::bound).collect();
            let constants = BoundConstants::new(constants);
            let _running = crash::enter(place);
            let mut loaded = registered.backend.runtime().host()?.load(&memory.code, &constants, &environment)?;
            if region.strings {
                loaded.lend(Arc::clone(texts) as Arc<dyn Texts>)?;
            }
            Ok(loaded)
        });
        bound.map_err(|error| load_failed(registered, &format!("region {}", region.symbol), error))
    }

    /// Loads a region that runs on a device, which has its constants; `code` is its own, or other code for it.
    pub(super) fn device(
        &self,
        region: &manifest::Region,
        code: Bytes,
        device: &Device,
        resident: &Resident,
    ) -> Result<Bound<dyn DeviceExecutable>> {
        let registered = backend(region, self.registry)?;
        let environment = self.environment(region, registered)?;
        let memory = self.borrow(region, code, &|used, element| resident.address(used, element))?;
        let handles = device.handles();
        // Loading may use the device, on which another session may be at work.
        let queue = device.queue_lock();
        let _guard = queue.lock();
        let place = place(region);
        let bound = Bound::new(memory, |memory| {
            let constant = |constant: &'static BorrowedConstant| DeviceConstant {
                bound: constant.bound(),
                address: constant.address,
            };
            let constants = DeviceConstants::new(memory.constants.iter().map(constant).collect());
            let _running = crash::enter(place);
            registered.backend.runtime().device()?.load(&memory.code, &constants, &environment, &handles)
        });
        bound.map_err(|error| load_failed(registered, &format!("region {}", region.symbol), error))
    }

    fn environment(&self, region: &manifest::Region, registered: &Registered) -> Result<Environment> {
        let options = region.options.clone().and(&registered.run_options(self.settings)?);
        Ok(Environment { threads: self.threads, options })
    }

    /// Code and constants of a region; `address` gives a constant's address on the device.
    fn borrow(
        &self,
        region: &manifest::Region,
        code: Bytes,
        address: &dyn Fn(&ConstantUse, DType) -> u64,
    ) -> Result<Borrowed> {
        let constants =
            region.constants.iter().filter_map(|binding| borrow(self.artifact, binding, address).transpose());
        Ok(Borrowed { code, constants: constants.collect::<Result<_>>()? })
    }
}

/// A region and whose it is, for who tells of a crash.
pub(super) fn place(region: &manifest::Region) -> &'static String {
    crash::name(format!("region {} of the backend '{}'", region.symbol, region.backend))
}

/// Loads the bytes of a file of the backend's own; `title` stands for it in messages.
pub(super) fn bind_file(
    registered: &Registered,
    code: Bytes,
    environment: &Environment,
    title: &str,
) -> Result<Bound<dyn Executable>> {
    let memory = Borrowed { code, constants: Vec::new() };
    let none = BoundConstants::new(Vec::new());
    let bound =
        Bound::new(memory, |memory| registered.backend.runtime().host()?.load(&memory.code, &none, environment));
    bound.map_err(|error| load_failed(registered, title, error))
}

/// The backend that a region needs, if it is there and reads the region's code.
pub fn backend<'a>(region: &manifest::Region, registry: &'a Registry) -> Result<&'a Registered> {
    let registered = registry.get(&region.backend).map_err(|error| {
        let message = format!("region {} needs the backend '{}': {}", region.symbol, region.backend, error.message);
        Diagnostic { code: Code::MissingRequirement, message, hint: error.hint }
    })?;
    let found = &registered.description;
    if !found.reads_code(region.code_version) {
        let message = format!(
            "region {} holds code of version {} for the backend '{}' {}; the one here, {}, reads {}",
            region.symbol,
            region.code_version,
            region.backend,
            region.backend_version,
            found.version,
            found.code_versions()
        );
        return Err(
            Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again with this backend")
        );
    }
    if found.domain != region.domain {
        let memory = |kind: &Option<String>| kind.as_deref().map_or("the host".to_owned(), str::to_owned);
        let (wanted, here) = (memory(&region.domain), memory(&found.domain));
        let message = format!(
            "region {} runs in memory of {wanted}, and the backend '{}' {} here in that of {here}",
            region.symbol, region.backend, found.version
        );
        return Err(
            Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again with this backend")
        );
    }
    Ok(registered)
}

fn borrow(
    artifact: &Artifact,
    binding: &manifest::Binding,
    address: &dyn Fn(&ConstantUse, DType) -> u64,
) -> Result<Option<BorrowedConstant>> {
    let Some(used) = &binding.used else { return Ok(None) };
    let stored = &artifact.manifest().constants[used.constant];
    let bytes = artifact.stored(used.constant)?.slice(used.view.first_byte(stored.dtype)..);
    Ok(Some(BorrowedConstant {
        id: binding.id,
        dtype: stored.dtype,
        layout: binding.layout.clone(),
        bytes,
        shape: used.view.shape.iter().map(|&size| size as i64).collect(),
        strides: used.view.strides.clone(),
        address: address(used, stored.dtype),
    }))
}

impl BorrowedConstant {
    fn bound(&self) -> BoundConstant<'_> {
        // SAFETY: the artifact's reader checked that the view stays within its constant.
        let view = unsafe { TensorView::from_raw(self.bytes.as_ptr(), self.dtype, &self.shape, &self.strides) };
        BoundConstant { id: self.id, layout: self.layout.as_deref(), view }
    }
}

fn load_failed(registered: &Registered, title: &str, error: Error) -> Diagnostic {
    let name = &registered.description.name;
    if error.crashed {
        return plugin::crashed(title, name, &error, "it was loaded");
    }
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("backend '{name}' cannot load {title}{node}: {}", error.message);
    Diagnostic { code: Code::RunFailed, message, hint: error.hint }
}
