//! Runs a product by calls of cublasLt on a device.
//!
//! `load` finds the libraries and binds constants; `plan` creates descriptors and chooses algorithms; `prepare` binds
//! addresses. A run only makes the calls.

mod bind;
mod describe;
mod lt;

use byoc_nvidia::attached_domain::{AttachedDomain, Entered};
use byoc_nvidia::build::search_path;
use byoc_nvidia::domain::CudaDomain;
use byoc_nvidia::locate::{self, Library};
use byoc_nvidia::matmul::{self, Problem};
use byoc_nvidia::product::Activation;
use byoc_nvidia::step_clock::StepClock;
use byoc_plugin_api::{
    DeviceConstants, DeviceExecutable, DevicePlan, DeviceRuntime, DeviceTensor, Domain, DomainHandles, Environment,
    Error, Options, StepTime,
};

use self::bind::{Operand, Operands};
use self::describe::Described;
use self::lt::Handle;
use crate::CublasBackend;
use crate::codegen::Program;

/// The option for the size of the workspace.
pub(crate) const WORKSPACE: &str = "workspace";

/// The largest workspace of a call, in bytes.
fn workspace(options: &Options) -> Result<u64, Error> {
    let asked = options.int(WORKSPACE);
    let bytes = u64::try_from(asked).ok().and_then(|mebibytes| mebibytes.checked_mul(1 << 20));
    bytes.ok_or_else(|| Error::new(format!("option '{WORKSPACE}' is {asked}, which is not a number of MiB")))
}

impl DeviceRuntime for CublasBackend {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        let program = Program::read(code)?;
        let most = workspace(&environment.options)?;
        let search_path = search_path(&environment.options);
        let driver = locate::driver(&search_path)?;
        locate::cublaslt(&search_path, &driver)?;
        let attached = AttachedDomain::new(domain, &driver)?;
        let _entered = attached.enter()?;
        let operands = Operands::bind(&program.product, constants, &attached)?;
        let handle = Handle::of(&attached)?;
        let clock = StepClock::new(&driver)?;
        let state = State::Unplanned;
        Ok(Box::new(Loaded { state, clock, handle, operands, program, most, leaves: None, attached }))
    }

    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        Ok(Box::new(CudaDomain::open(ordinal, &search_path(options), &[Library::CublasLt])?))
    }
}

/// A product that is ready on a device.
struct Loaded {
    state: State,
    clock: StepClock,
    handle: Handle,
    operands: Operands,
    program: Program,
    /// The largest workspace of a call, in bytes.
    most: u64,
    /// Leaves the context, which `drop` enters for the fields before.
    leaves: Option<Entered>,
    /// Dropped last, after all objects of its context.
    attached: AttachedDomain,
}

/// The state of the last planned shapes.
enum State {
    Unplanned,
    /// There is nothing to compute.
    Empty,
    Planned(Described),
    /// All addresses are bound.
    Ready(Described),
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // The fields that are dropped next need this context. If it cannot be entered, the device is lost with all of it.
        self.leaves = self.attached.enter().ok();
    }
}

impl Loaded {
    /// The product for these shapes; `None` if its result has no elements.
    fn problem(&self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<Option<Problem>, Error> {
        let product = &self.program.product;
        let x = self.operands.x.matrices(&product.x, product.dtype, inputs)?;
        let w = self.operands.w.matrices(&product.w, product.dtype, inputs)?;
        let problem = crate::problem::problem(product, &x, &w).map_err(|cause| self.error(&cause))?;
        let &[y] = outputs else { return Err(self.error(&format!("{} results for one", outputs.len()))) };
        bind::same_type(&y, product.dtype, "the result")?;
        let elements = [problem.m, problem.n].into_iter().chain(problem.batch.iter().map(|batch| batch.count));
        // `problem` has checked the product of these sizes; with a size of 0 it may overflow before.
        let elements = elements.fold(1i64, i64::saturating_mul);
        let fits = |operand: &Option<Operand>, length: i64| match operand {
            Some(operand) => operand.elements(product.dtype, inputs).map(|found| found == length),
            None => Ok(true),
        };
        if bind::elements(y.shape) != elements || !fits(&self.operands.c, elements)? {
            return Err(self.error(&format!("{} makes {elements} elements, not {:?}", self.text(&problem), y.shape)));
        }
        if !fits(&self.operands.bias, problem.n)? {
            return Err(self.error(&format!("{} with a bias of the wrong length", self.text(&problem))));
        }
        if elements > 0 && problem.k == 0 {
            return Err(self.error(&format!("{} sums over no elements", self.text(&problem))));
        }
        Ok((elements > 0).then_some(problem))
    }

    /// Describes a problem for messages.
    fn text(&self, problem: &Problem) -> String {
        let product = &self.program.product;
        let count = problem.batch.iter().fold(1i64, |count, batch| count.saturating_mul(batch.count));
        let mut text = format!("M {} N {} K {} of {}", problem.m, problem.n, problem.k, product.dtype);
        let activation = match product.activation {
            Activation::None => "",
            Activation::Relu => " relu",
            Activation::Gelu => " gelu with erf",
            Activation::GeluTanh => " gelu",
            Activation::Silu => " silu",
        };
        let bias = if product.bias.is_some() { " bias" } else { "" };
        let c = if product.c.is_some() { " c" } else { "" };
        let batch = if count == 1 { String::new() } else { format!(" batch {count}") };
        text.extend([batch.as_str(), c, bias, activation]);
        text
    }

    fn error(&self, message: &str) -> Error {
        failed(&self.program, message)
    }
}

/// The error with the node of the product.
fn failed(program: &Program, message: &str) -> Error {
    Error::new(message).at(&program.product.node)
}

impl DeviceExecutable for Loaded {
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        let _entered = self.attached.enter()?;
        self.state = State::Unplanned;
        let Some(problem) = self.problem(inputs, outputs)? else {
            self.state = State::Empty;
            return Ok(DevicePlan { recordings_last: true, ..DevicePlan::default() });
        };
        let plan = matmul::plan(&problem).map_err(|refusal| self.error(&refusal.to_string()))?;
        let described = Described::new(&self.handle, &self.program, &self.operands, plan, self.most);
        let described = described.map_err(|cause| {
            if !cause.is_unsupported() {
                return self.error(&format!("{cause} to {}", self.text(&problem)));
            }
            let message = format!("cublasLt has no algorithm for {} ({:?})", self.text(&problem), cause.status());
            let hint = "Allow it more memory with cublas.workspace, or leave cublas out of --backend";
            self.error(&message).hint(hint)
        })?;
        let scratch = described.workspace();
        self.state = State::Planned(described);
        // Calls are recorded as launches with the values of their arguments.
        Ok(DevicePlan { scratch, recordings_last: true, ..DevicePlan::default() })
    }

    fn prepare(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        let _entered = self.attached.enter()?;
        let mut described = match std::mem::replace(&mut self.state, State::Unplanned) {
            State::Planned(described) | State::Ready(described) => described,
            State::Empty => {
                self.state = State::Empty;
                return Ok(());
            }
            State::Unplanned => return Err(self.error("the product cannot be prepared before it is planned")),
        };
        let y = outputs.first().map(|tensor| tensor.address).ok_or_else(|| self.error("the result is missing"))?;
        let at = self.operands.addresses(inputs, y)?;
        described.bind(&at, scratch).map_err(|cause| {
            self.error(&format!("cublasLt does not take a bias at {:#x}: {cause}", at.bias.unwrap_or(0)))
        })?;
        self.state = State::Ready(described);
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        let _entered = self.attached.enter()?;
        self.clock.begin();
        match &self.state {
            State::Ready(described) => {
                let (handle, attached) = (&self.handle, &self.attached);
                let call = || {
                    let ran = described.run(handle, attached.stream());
                    ran.map_err(|cause| failed(&self.program, &format!("cublasLt failed: {cause}")))
                };
                self.clock.step(attached, call)
            }
            State::Empty => Ok(()),
            State::Unplanned | State::Planned(_) => Err(self.error("the product cannot run before it is prepared")),
        }
    }

    fn time_steps(&mut self, on: bool) -> Result<(), Error> {
        self.clock.turn(on);
        Ok(())
    }

    fn steps(&mut self) -> Result<Vec<StepTime>, Error> {
        let _entered = self.attached.enter()?;
        let nodes = vec![self.program.product.node.clone()];
        let call = StepTime { kernel: "cublasLtMatmul".into(), nodes, ..StepTime::default() };
        self.clock.times(&self.attached, [call])
    }
}
