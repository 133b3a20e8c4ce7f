//! Runs a [`Program`] on a device, for every backend that generates kernels.
//!
//! `load` chooses the variant for the device, loads its kernels and repacks constants; `plan` evaluates symbolic sizes;
//! `prepare` binds addresses to kernel arguments. A run only launches.

mod arguments;
mod constants;
mod modules;
mod sizes;
mod variant;

use byoc_plugin_api::{
    DeviceConstants, DeviceExecutable, DevicePlan, DeviceTensor, Domain, DomainHandles, Environment, Error, Options,
    StepTime,
};

use self::arguments::{Addresses, PreparedLaunch};
use self::constants::BoundConstant;
use self::modules::Kernels;
use self::sizes::Sizes;
use crate::attached_domain::{AttachedDomain, Entered};
use crate::build::search_path;
use crate::device;
use crate::domain::CudaDomain;
use crate::locate::{self, CudaSearchPath};
use crate::program::{Launch, Program, Variant};
use crate::step_clock::StepClock;

/// Opens a device with its own stream.
///
/// # Errors
///
/// When the driver is missing or too old, and when there is no such device.
pub fn open_domain(ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
    Ok(Box::new(CudaDomain::open(ordinal, &search_path(options), &[])?))
}

/// The indices of the variants that this machine's devices can run; all of them on a machine without devices.
pub fn variants(program: &Program, search_path: &CudaSearchPath) -> Vec<usize> {
    let devices = locate::driver(search_path).and_then(|driver| device::all(&driver)).unwrap_or_default();
    variant::run(program, &devices)
}

/// Loads a program. `backend` is the backend that compiled it, for hints.
///
/// # Errors
///
/// When the code is damaged or has no variant for this device, when constants do not match it, and when the driver does not
/// load a kernel.
pub fn load_on(
    backend: &str,
    code: &[u8],
    constants: &DeviceConstants<'_>,
    environment: &Environment,
    domain: &DomainHandles,
) -> Result<Box<dyn DeviceExecutable>, Error> {
    let (mut program, cubins) = Program::read(code)?;
    let driver = locate::driver(&search_path(&environment.options))?;
    let attached = AttachedDomain::new(domain, &driver)?;
    let _entered = attached.enter()?;
    let chosen = variant::choose(&program, attached.device(), backend)?;
    let variant = program.variants.swap_remove(chosen);
    let named = |error: Error| Error { message: format!("{}: {}", program.title, error.message), ..error };
    let constants = BoundConstant::all(&program.constants, constants, &attached).map_err(named)?;
    let kernels = Kernels::load(&variant, &cubins, &attached, &driver).map_err(named)?;
    let clock = StepClock::new(&driver).map_err(named)?;
    let state = State::Unplanned;
    Ok(Box::new(Loaded { state, clock, kernels, constants, program, variant, leaves: None, attached }))
}

/// A program that is ready on a device.
struct Loaded {
    state: State,
    clock: StepClock,
    kernels: Kernels,
    constants: Vec<BoundConstant>,
    program: Program,
    /// What is launched on this device.
    variant: Variant,
    /// Leaves the context, which `drop` enters for the fields before.
    leaves: Option<Entered>,
    /// Dropped last, after all objects of its context.
    attached: AttachedDomain,
}

/// The state of the last planned shapes.
enum State {
    Unplanned,
    Planned(Sizes),
    /// All addresses are bound.
    Ready(Sizes, Vec<PreparedLaunch>),
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // The fields that are dropped next need this context. If it cannot be entered, the device is lost with all of it.
        self.leaves = self.attached.enter().ok();
    }
}

impl Loaded {
    /// The error with the program's title.
    fn named(&self, error: Error) -> Error {
        Error { message: format!("{}: {}", self.program.title, error.message), ..error }
    }
}

impl DeviceExecutable for Loaded {
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        self.state = State::Unplanned;
        let multiprocessors = self.attached.device().multiprocessors;
        let sizes = Sizes::of(&self.program, &self.variant, multiprocessors, inputs, outputs);
        let sizes = sizes.map_err(|error| self.named(error))?;
        let scratch = sizes.scratch;
        self.state = State::Planned(sizes);
        // Launches are recorded with the values of their arguments.
        Ok(DevicePlan { scratch, recordings_last: true, ..DevicePlan::default() })
    }

    fn prepare(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        let _entered = self.attached.enter()?;
        let sizes = match std::mem::replace(&mut self.state, State::Unplanned) {
            State::Planned(sizes) | State::Ready(sizes, _) => sizes,
            State::Unplanned => return Err(self.named(Error::new("it cannot be prepared before it is planned"))),
        };
        if inputs.len() != self.program.inputs.len() || outputs.len() != self.program.outputs.len() {
            return Err(self.named(Error::new("it was planned for other tensors than it is prepared for")));
        }
        let addresses = Addresses { inputs, outputs, constants: &self.constants, scratch, offsets: &sizes.offsets };
        let ready = arguments::ready(&sizes, &addresses, &self.kernels, &self.attached);
        let ready = ready.map_err(|error| self.named(error))?;
        self.state = State::Ready(sizes, ready);
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        let _entered = self.attached.enter()?;
        let State::Ready(_, ready) = &mut self.state else {
            return Err(self.named(Error::new("it cannot run before it is prepared")));
        };
        let (clock, attached) = (&mut self.clock, &self.attached);
        clock.begin();
        let ran = ready.iter_mut().try_for_each(|ready| clock.step(attached, || ready.launch(attached)));
        ran.map_err(|error| self.named(error))
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.clock.turn(on);
        Ok(())
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let _entered = self.attached.enter()?;
        let State::Ready(sizes, _) = &self.state else { return Ok(Vec::new()) };
        let launches = sizes.work.iter().map(|work| &self.variant.launches[work.launch]);
        let steps = launches.map(|Launch { kernel, nodes, .. }| StepTime {
            kernel: kernel.clone(),
            indices: nodes.clone(),
            ..StepTime::default()
        });
        self.clock.times(&self.attached, steps).map_err(|error| self.named(error))
    }
}
