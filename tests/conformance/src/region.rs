//! One region through a backend by hand: code, claims, load and run, with every layout and every layout tag under the
//! kit's control.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use byoc_core::plugin::{OutputBudget, Selected};
use byoc_plugin_api::{
    Backend, BoundConstant, BoundConstants, Claim, ClaimSink, Claims, ConstantAccess, ConstantId, Constants, DType,
    Environment, Error, Executable, Job, Options, Region, TensorView, TensorViewMut,
};

use crate::device::OnDevice;
use crate::memory::{Layout, Placed};
use crate::tensor::Tensor;

/// A region that a backend takes, with the values of its constants.
#[derive(Clone)]
pub(crate) struct Taken {
    pub(crate) region: Region,
    /// Parallel to [`Region::constants`].
    pub(crate) constants: Vec<Tensor>,
    /// Whether it reads values that other nodes of the model give.
    pub(crate) reads_inner: bool,
}

/// What a backend made of a region.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Generated {
    pub(crate) code: Vec<u8>,
    /// In the order in which they were made.
    pub(crate) claims: Vec<Claimed>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claimed {
    pub(crate) id: ConstantId,
    pub(crate) claim: Claim,
    pub(crate) packed: Vec<u8>,
}

/// Most bytes of code, and of packed constants, for a region of the kit's, which are small. They are kept in memory.
const MOST_OUTPUT: u64 = 256 << 20;

/// Takes code, of which there is an end.
struct Code {
    bytes: Vec<u8>,
    budget: OutputBudget,
}

impl Write for Code {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.budget.take(bytes).map_err(|error| io::Error::other(error.message))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes claims as they come; whether they are right is for core to say.
struct Collector {
    claims: Vec<Claimed>,
    budget: OutputBudget,
}

impl ClaimSink for Collector {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.claims.push(Claimed { id, claim: claim.clone(), packed: Vec::new() });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.budget.take(bytes)?;
        let last = self.claims.last_mut().ok_or_else(|| Error::new("bytes without a claim before them"))?;
        last.packed.extend_from_slice(bytes);
        Ok(())
    }
}

impl Taken {
    /// Whether it has an operator that a backend brings, and that is no function of ONNX's specification.
    pub(crate) fn is_only_its_own(&self) -> bool {
        let is_function = |domain: &str, op: &str| byoc_core::onnx::functions::is_function(domain, op);
        self.region.nodes.iter().any(|node| node.version.is_some() && !is_function(&node.domain, &node.op))
    }

    /// Whether it has an operator that a backend brings.
    pub(crate) fn is_custom(&self) -> bool {
        self.region.nodes.iter().any(|node| node.version.is_some())
    }

    /// Whether only a session runs it: it has texts, which are in a table of the host's, or the run tells a size.
    pub(crate) fn needs_session(&self) -> bool {
        self.region.tells_sizes() || self.region.values.iter().any(|value| value.dtype == DType::String)
    }

    /// The constants in memory, all in that layout.
    pub(crate) fn place(&self, layout: Layout) -> Vec<Placed> {
        self.constants.iter().map(|tensor| Placed::of(tensor, layout)).collect()
    }

    /// The region as it is asked for a second time, when other forms of its constants are stored as well.
    pub(crate) fn shared(&self) -> Taken {
        let mut taken = self.clone();
        taken.region.constants.iter_mut().for_each(|constant| constant.shared = true);
        taken
    }

    /// Types and shapes of these values, or which one has no fixed shape.
    pub(crate) fn types(&self, values: &[usize]) -> Result<Vec<(DType, Vec<i64>)>, String> {
        let ty = |&value: &usize| {
            let value = &self.region.values[value];
            let shape = value.fixed_shape().ok_or_else(|| format!("'{}' has no fixed shape", value.name))?;
            Ok((value.dtype, shape.iter().map(|&size| size as i64).collect()))
        };
        values.iter().map(ty).collect()
    }
}

/// Code and claims for a region whose constants lie like that.
pub(crate) fn generate(selected: &Selected, region: &Region, constants: &[Placed]) -> Result<Generated, Error> {
    let backend = &selected.registered.backend;
    let with_data = selected.registered.description.constant_access != ConstantAccess::Load;
    let views =
        region.constants.iter().zip(constants).map(|(constant, placed)| {
            (constant.id, if with_data { placed.view() } else { placed.view_without_data() })
        });
    let constants = Constants::new(views.collect());
    let mut code = Code { bytes: Vec::new(), budget: OutputBudget::new("code", MOST_OUTPUT, &constants) };
    let job = Job::new(region, &constants, &selected.options);
    let learnt = backend.codegen(&job, &mut code)?.learnt;
    let code = code.bytes;
    let mut claims =
        Collector { claims: Vec::new(), budget: OutputBudget::new("packed constants", MOST_OUTPUT, &constants) };
    // As in a compile, a backend is not asked where there is nothing to claim.
    if !region.constants.is_empty() {
        backend.constant_updater(&job, &code, &learnt, &mut Claims::new(&mut claims))?;
    }
    Ok(Generated { code, claims: claims.claims })
}

/// A constant as `load` is given it.
pub(crate) struct Bound {
    pub(crate) id: ConstantId,
    pub(crate) layout: Option<String>,
    pub(crate) placed: Placed,
}

/// What the claims ask to have at load. Originals lie in `layout`.
pub(crate) fn bind(taken: &Taken, generated: &Generated, layout: Layout) -> Vec<Bound> {
    let bound = |claimed: &Claimed| {
        let at = taken.region.constants.iter().position(|constant| constant.id == claimed.id)?;
        let (tag, tensor, layout) = match &claimed.claim {
            Claim::Host => (None, taken.constants[at].clone(), layout),
            Claim::Packed(packed) => {
                let shape = packed.shape.iter().map(|&size| i64::try_from(size).ok()).collect::<Option<Vec<_>>>()?;
                let bytes = packed.dtype.bytes_of(&packed.shape);
                if bytes != Some(claimed.packed.len()) {
                    return None;
                }
                let tensor = Tensor::new(packed.dtype, shape, claimed.packed.clone());
                (Some(packed.layout.clone()), tensor, Layout::Plain)
            }
            Claim::Embedded | Claim::Unused => return None,
        };
        Some(Bound { id: claimed.id, layout: tag, placed: Placed::of(&tensor, layout) })
    };
    generated.claims.iter().filter_map(bound).collect()
}

/// A loaded region.
pub(crate) enum Loaded<'a> {
    /// In host memory.
    Host(Box<dyn Executable + 'a>),
    /// In memory of a device.
    Device(Box<OnDevice<'a>>),
}

impl<'a> Loaded<'a> {
    pub(crate) fn on_device(region: OnDevice<'a>) -> Loaded<'a> {
        Loaded::Device(Box::new(region))
    }
}

/// Loads code with these constants in host memory. `options` are those that the region is told.
pub(crate) fn load<'a>(
    selected: &Selected,
    options: &Options,
    code: &'a [u8],
    bound: &'a [Bound],
) -> Result<Loaded<'a>, Error> {
    let constants = bound.iter().map(|bound| BoundConstant {
        id: bound.id,
        layout: bound.layout.as_deref(),
        view: bound.placed.view(),
    });
    let environment = Environment { threads: 2, options: options.clone() };
    let runtime = selected.registered.backend.runtime().host()?;
    runtime.load(code, &BoundConstants::new(constants.collect()), &environment).map(Loaded::Host)
}

/// Runs once. How long it took.
pub(crate) fn run(loaded: &mut Loaded<'_>, inputs: &[Placed], outputs: &mut [Placed]) -> Result<Duration, Error> {
    match loaded {
        Loaded::Host(executable) => {
            let inputs: Vec<TensorView<'_>> = inputs.iter().map(Placed::view).collect();
            let mut outputs: Vec<TensorViewMut<'_>> = outputs.iter_mut().map(Placed::view_mut).collect();
            let start = Instant::now();
            executable.run(&inputs, &mut outputs)?;
            Ok(start.elapsed())
        }
        Loaded::Device(region) => region.run(inputs, outputs),
    }
}
