//! Loads kernels. Regions of a process with the same machine code share one module.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use byoc_plugin_api::Error;
use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum as Attribute, CUmodule};

use crate::attached_domain::AttachedDomain;
use crate::compile::CubinInfo;
use crate::locate::{self, Driver, Version};
use crate::program::{Argument, Cubins, Launch, Variant};

/// The maximum block size along x, y and z, and in total.
const MOST_THREADS: [u32; 3] = [1024, 1024, 64];
const MOST_OF_BLOCK: u64 = 1024;
/// The maximum size of all arguments.
const MOST_ARGUMENTS: usize = 32764;
/// Bytes of an address, as of a size, and of a tensor map.
const ADDRESS: usize = 8;
const TENSOR_MAP: usize = 128;

/// The compute capability from which a kernel can wait for those in front of it, and the version of CUDA from which such
/// launches can be recorded.
const OVERLAPPING: (u32, u32) = (9, 0);
const RECORDS_OVERLAPS: Version = Version { major: 12, minor: 3 };

/// A loaded module. Its context must be current when it is dropped.
struct Module(CUmodule);

// SAFETY: a handle, which CUDA takes from any thread on which its context is current.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded, and who has functions of it has it. A failure leaves it to the context.
        let _ = unsafe { result::module::unload(self.0) };
    }
}

/// A context, and the compressed bytes of a cubin.
type Key = (usize, blake3::Hash);

/// The loaded modules.
static LOADED: Mutex<Vec<(Key, Weak<Module>)>> = Mutex::new(Vec::new());

/// A function of a loaded module.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) function: CUfunction,
    _module: Arc<Module>,
}

// SAFETY: as for the module, which lives as long.
unsafe impl Send for Kernel {}

/// The kernels of a launch.
pub(super) struct LaunchKernels {
    pub(super) kernel: Kernel,
    /// Whether it may begin before what is in front of it has ended.
    pub(super) overlaps: bool,
    /// The kernels that make its arguments, by the index of the argument.
    pub(super) makers: Vec<Option<Kernel>>,
}

/// The kernels of a variant, by launch.
pub(super) struct Kernels(pub(super) Vec<LaunchKernels>);

impl Kernels {
    /// Loads the kernels of the launches.
    pub(super) fn load(
        variant: &Variant,
        cubins: &Cubins<'_>,
        attached: &AttachedDomain,
        driver: &Driver,
    ) -> Result<Kernels, Error> {
        let mut modules: Vec<Option<Arc<Module>>> = vec![None; cubins.len()];
        let mut kernels = Vec::with_capacity(variant.launches.len());
        for launch in &variant.launches {
            check(launch, attached)?;
            let module = match &mut modules[launch.cubin] {
                Some(module) => module,
                none => none.insert(module(cubins, launch.cubin, attached)?),
            };
            let kernel = kernel(module, &launch.kernel, attached)?;
            takes(&kernel, &lengths(&launch.arguments), driver)?;
            allow(&kernel, launch.shared, attached)?;
            let maker = |argument: &Argument| {
                let Argument::Made(made) = argument else { return Ok(None) };
                let maker = self::kernel(module, &made.kernel, attached)?;
                takes(&maker, &[lengths(&made.arguments), vec![ADDRESS]].concat(), driver)?;
                Ok(Some(maker))
            };
            let makers = launch.arguments.iter().map(maker).collect::<Result<_, Error>>()?;
            let overlaps =
                launch.waits && attached.device().capability >= OVERLAPPING && driver.version >= RECORDS_OVERLAPS;
            kernels.push(LaunchKernels { kernel, overlaps, makers });
        }
        Ok(Kernels(kernels))
    }
}

/// Checks the fixed sizes of a launch.
fn check(launch: &Launch, attached: &AttachedDomain) -> Result<(), Error> {
    let (name, [x, y, z]) = (&launch.kernel, launch.block);
    let threads = launch.block.iter().fold(1u64, |all, &threads| all.saturating_mul(threads.into()));
    let within = launch.block.iter().zip(MOST_THREADS).all(|(&threads, most)| threads <= most);
    if threads == 0 || threads > MOST_OF_BLOCK || !within {
        return Err(Error::new(format!("kernel {name}: no device has blocks of {x} x {y} x {z} threads")));
    }
    let (device, most) = (attached.device().ordinal, attached.device().shared);
    if launch.shared > most {
        let error = Error::new(format!(
            "kernel {name} takes {} bytes of shared memory a block, and cuda:{device} has {most}",
            launch.shared
        ));
        return Err(error.hint("Use a device of the kind that the model was compiled for"));
    }
    if lengths(&launch.arguments).iter().sum::<usize>() > MOST_ARGUMENTS {
        return Err(Error::new(format!("damaged code: kernel {name} has too many arguments")));
    }
    Ok(())
}

/// Bytes of arguments.
fn lengths(arguments: &[Argument]) -> Vec<usize> {
    let length = |argument: &Argument| match argument {
        Argument::Made(made) => made.bytes as usize,
        Argument::TensorMap(_) => TENSOR_MAP,
        Argument::Pointer(_) | Argument::Size(_) => ADDRESS,
    };
    arguments.iter().map(length).collect()
}

/// Checks the parameter sizes of a kernel, if the driver reports them: it reads as many bytes as they have. A driver that
/// says nothing of the first one cannot tell, which is no damage.
fn takes(kernel: &Kernel, lengths: &[usize], driver: &Driver) -> Result<(), Error> {
    let Some(info) = locate::parameter_info(driver) else { return Ok(()) };
    let length = |position: usize| {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function is of a module that lives; two numbers are written.
        let told = unsafe { info(kernel.function, position, &raw mut offset, &raw mut bytes) };
        told.result().is_ok().then_some(bytes)
    };
    if !lengths.is_empty() && length(0).is_none() {
        return Ok(());
    }
    let same = lengths.iter().enumerate().all(|(position, &bytes)| length(position) == Some(bytes));
    if same && length(lengths.len()).is_none() {
        return Ok(());
    }
    Err(Error::new(format!("damaged code: kernel {} does not take arguments of {lengths:?} bytes", kernel.name)))
}

/// The module of a cubin, shared with other regions.
fn module(cubins: &Cubins<'_>, index: usize, attached: &AttachedDomain) -> Result<Arc<Module>, Error> {
    let key = (attached.context().addr(), blake3::hash(cubins.compressed(index).unwrap_or_default()));
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.retain(|(_, module)| module.strong_count() > 0);
    if let Some(module) = loaded.iter().find(|(of, _)| *of == key).and_then(|(_, module)| module.upgrade()) {
        return Ok(module);
    }
    let cubin = cubins.get(index)?;
    CubinInfo::of(&cubin)?;
    // SAFETY: it is a whole ELF file for a GPU, whose sections are within it, and the context is current.
    let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) };
    let module = module.map_err(|cause| attached.device().failed("load machine code", cause))?;
    let module = Arc::new(Module(module));
    loaded.push((key, Arc::downgrade(&module)));
    Ok(module)
}

fn kernel(module: &Arc<Module>, name: &str, attached: &AttachedDomain) -> Result<Kernel, Error> {
    let symbol =
        CString::new(name).map_err(|_| Error::new("damaged code: the name of a kernel has a NUL character"))?;
    // SAFETY: the module lives.
    let function = unsafe { result::module::get_function(module.0, symbol) };
    let function = function.map_err(|cause| attached.device().failed(&format!("find kernel {name}"), cause))?;
    Ok(Kernel { name: name.into(), function, _module: Arc::clone(module) })
}

/// Raises a kernel's limit of dynamic shared memory to at least this much. It is never lowered: other regions may launch it
/// with more.
fn allow(kernel: &Kernel, shared: u32, attached: &AttachedDomain) -> Result<(), Error> {
    let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let _no_other = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let set = || {
        // SAFETY: the function is of a module that lives, in both calls.
        let allowed = unsafe { result::function::get_function_attribute(kernel.function, most) }?;
        if shared.cast_signed() <= allowed {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { result::function::set_function_attribute(kernel.function, most, shared.cast_signed()) }
    };
    let what = format!("give kernel {} {shared} bytes of shared memory", kernel.name);
    set().map_err(|cause| attached.device().failed(&what, cause))
}
