//! Gives a region its code and its constants: views into the mapped files, bound by id, never copied
//! here.

use byoc_plugin_api::{BoundConstant, BoundConstants, ConstantId, DType, Environment, Executable, TensorView};
use bytes::Bytes;

use crate::artifact::{Artifact, manifest};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::{Registered, Registry};

/// A loaded region with everything its executable looks at.
pub(super) struct Bound {
    // Dropped first: it borrows from the field below.
    executable: Box<dyn Executable>,
    // Heap memory that stays where it is while `Bound` moves, and that nobody changes.
    _lent: Box<Lent>,
}

struct Lent {
    code: Bytes,
    constants: Vec<LentConstant>,
}

struct LentConstant {
    id: ConstantId,
    dtype: DType,
    layout: Option<String>,
    bytes: Bytes,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Bound {
    pub(super) fn executable(&mut self) -> &mut dyn Executable {
        self.executable.as_mut()
    }
}

/// Loads `region` into its backend.
pub(super) fn bind(
    artifact: &Artifact,
    region: &manifest::Region,
    registry: &Registry,
    threads: usize,
) -> Result<Bound> {
    let registered = backend(region, registry)?;
    let constants = region.constants.iter().filter_map(|binding| lend(artifact, binding).transpose());
    let lent = Lent { code: artifact.section(&region.code)?, constants: constants.collect::<Result<_>>()? };
    let environment = Environment { threads, options: region.options.clone() };
    load(registered, lent, &environment)
        .map_err(|error| load_failed(registered, &format!("region {}", region.symbol), error))
}

/// Loads the bytes of a file of the backend's own; `title` stands for it in messages.
pub(super) fn bind_file(registered: &Registered, code: Bytes, environment: &Environment, title: &str) -> Result<Bound> {
    let lent = Lent { code, constants: Vec::new() };
    load(registered, lent, environment).map_err(|error| load_failed(registered, title, error))
}

fn load(
    registered: &Registered,
    lent: Lent,
    environment: &Environment,
) -> std::result::Result<Bound, byoc_plugin_api::Error> {
    let lent = Box::new(lent);
    // SAFETY: `lent` is on the heap, is never changed, and `Bound` drops it after the executable, so the reference is
    // good for as long as the executable may use it. The executable does not leave `Bound`.
    let borrowed: &'static Lent = unsafe { &*std::ptr::from_ref(lent.as_ref()) };
    let bound = borrowed.constants.iter().map(LentConstant::bound).collect();
    let executable = registered.backend.load(&borrowed.code, &BoundConstants::new(bound), environment)?;
    Ok(Bound { executable, _lent: lent })
}

/// The backend that a region needs, if it is there and reads the region's code.
pub(super) fn backend<'a>(region: &manifest::Region, registry: &'a Registry) -> Result<&'a Registered> {
    let registered = registry.get(&region.backend).map_err(|error| {
        let message = format!("region {} needs the backend '{}': {}", region.symbol, region.backend, error.message);
        Diagnostic { code: Code::MissingRequirement, message, hint: error.hint }
    })?;
    let found = &registered.description;
    if found.code_version != region.code_version {
        let message = format!(
            "region {} holds code of version {} for the backend '{}' {}; the one here, {}, reads version {}",
            region.symbol,
            region.code_version,
            region.backend,
            region.backend_version,
            found.version,
            found.code_version
        );
        return Err(
            Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again with this backend")
        );
    }
    Ok(registered)
}

fn lend(artifact: &Artifact, binding: &manifest::Binding) -> Result<Option<LentConstant>> {
    let Some(used) = &binding.used else { return Ok(None) };
    let stored = &artifact.manifest().constants[used.constant];
    let bytes = artifact.stored(used.constant)?.slice(used.view.offset * stored.dtype.size()..);
    Ok(Some(LentConstant {
        id: binding.id,
        dtype: stored.dtype,
        layout: binding.layout.clone(),
        bytes,
        shape: used.view.shape.iter().map(|&size| size as i64).collect(),
        strides: used.view.strides.clone(),
    }))
}

impl LentConstant {
    fn bound(&self) -> BoundConstant<'_> {
        // SAFETY: the artifact's reader checked that the view stays within its constant.
        let view = unsafe { TensorView::from_raw(self.bytes.as_ptr(), self.dtype, &self.shape, &self.strides) };
        BoundConstant { id: self.id, layout: self.layout.as_deref(), view }
    }
}

fn load_failed(registered: &Registered, title: &str, error: byoc_plugin_api::Error) -> Diagnostic {
    let node = error.node.map(|node| format!(", node '{node}'")).unwrap_or_default();
    let message = format!("backend '{}' cannot load {title}{node}: {}", registered.description.name, error.message);
    Diagnostic { code: Code::RunFailed, message, hint: error.hint }
}
