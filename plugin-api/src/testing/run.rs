//! A region's way through a backend, without byoc: check, code, claims, load and run.

use super::{Claimed, RegionBuilder, Tensor};
use crate::backend::Backend;
use crate::constants::{BoundConstant, BoundConstants, Claim, Claims, ConstantAccess, Constants};
use crate::dtype::DType;
use crate::error::{Error, Refusal};
use crate::job::{Generated, Job};
use crate::options::Options;
use crate::runtime::{Environment, Executable};

/// The backend of that name, as its crate registers it. A test that links no other item of that crate names it by
/// `use the_crate as _;`.
#[track_caller]
pub fn backend(name: &str) -> &'static dyn Backend {
    let found = crate::registered().into_iter().find(|backend| backend.describe().name == name);
    found.unwrap_or_else(|| panic!("no linked crate registers a backend '{name}'"))
}

/// The options of a backend, those of its runs among them, with these set.
#[track_caller]
pub fn options(backend: &dyn Backend, settings: &[(&str, &str)]) -> Options {
    let description = backend.describe();
    let all = [description.options, description.run_options].concat();
    Options::resolve(&all, settings.iter().copied()).unwrap_or_else(|error| panic!("{}", error.message))
}

impl RegionBuilder {
    /// Whether a backend takes the region.
    pub fn check(&self, backend: &dyn Backend, options: &Options) -> Result<(), Refusal> {
        backend.check(&self.region, options)
    }

    /// The constants as a backend sees them while it generates code.
    pub fn views(&self, access: ConstantAccess) -> Constants<'_> {
        let entries = self.region.constants.iter().zip(&self.constants).map(|(constant, tensor)| {
            let view = tensor.view();
            (constant.id, if access == ConstantAccess::Load { view.without_data() } else { view })
        });
        Constants::new(entries.collect())
    }

    /// The code of the region.
    pub fn code(&self, backend: &dyn Backend, options: &Options) -> Result<Vec<u8>, Error> {
        self.generate(backend, options).map(|(code, _)| code)
    }

    /// The code of the region and what comes beside it, which must be the same when it is asked for again.
    pub fn generate(&self, backend: &dyn Backend, options: &Options) -> Result<(Vec<u8>, Generated), Error> {
        let constants = self.views(backend.describe().constant_access);
        let job = Job::new(&self.region, &constants, options);
        let once = || {
            let mut code = Vec::new();
            backend.codegen(&job, &mut code).map(|generated| (code, generated))
        };
        let (first, again) = (once()?, once()?);
        assert!(first == again, "the same region gives other code");
        Ok(first)
    }

    /// The claims of the region, which must be one for each constant; they are put into the order of the region.
    pub fn claims(&self, backend: &dyn Backend, options: &Options) -> Result<Claimed, Error> {
        let (code, generated) = self.generate(backend, options)?;
        self.claims_for(backend, &code, &generated.learnt, options)
    }

    fn claims_for(
        &self,
        backend: &dyn Backend,
        code: &[u8],
        learnt: &[u8],
        options: &Options,
    ) -> Result<Claimed, Error> {
        let mut claimed = Claimed::default();
        // As in a compile, a backend is not asked where there is nothing to claim.
        if !self.region.constants.is_empty() {
            let constants = self.views(backend.describe().constant_access);
            let job = Job::new(&self.region, &constants, options);
            backend.constant_updater(&job, code, learnt, &mut Claims::new(&mut claimed))?;
        }
        let place = |id| self.region.constants.iter().position(|constant| constant.id == id);
        claimed.0.sort_by_key(|(id, ..)| place(*id));
        let ids = |claimed: &Claimed| claimed.0.iter().map(|(id, ..)| *id).collect::<Vec<_>>();
        let wanted: Vec<_> = self.region.constants.iter().map(|constant| constant.id).collect();
        assert_eq!(ids(&claimed), wanted, "each constant is claimed once");
        Ok(claimed)
    }

    /// Everything that a compile asks of a backend.
    pub fn compile<'r>(&'r self, backend: &'r dyn Backend, settings: &[(&str, &str)]) -> Result<Compiled<'r>, Error> {
        let options = options(backend, settings);
        self.check(backend, &options).map_err(|refusal| Error::new(refusal.to_string()))?;
        let (code, generated) = self.generate(backend, &options)?;
        let claims = self.claims_for(backend, &code, &generated.learnt, &options)?;
        Ok(Compiled { net: self, backend, packed: packed(&claims), code, claims, notes: generated.notes, options })
    }

    /// Room for the outputs, which holds NaN.
    pub fn room(&self, symbols: &[(&str, usize)]) -> Vec<Tensor> {
        let room = |&value: &usize| Tensor::room(self.region.values[value].dtype, &self.sizes_for(value, symbols));
        self.region.outputs.iter().map(room).collect()
    }

    /// Compiles, loads for one thread and runs, all of which must work.
    #[track_caller]
    pub fn results(
        &self,
        backend: &dyn Backend,
        settings: &[(&str, &str)],
        inputs: &[Tensor],
        symbols: &[(&str, usize)],
    ) -> Vec<Tensor> {
        let results = self.compile(backend, settings).and_then(|compiled| compiled.run(inputs, symbols));
        results.unwrap_or_else(|error| panic!("{}", error.message))
    }

    /// What a reference backend computes in `f64`, output by output.
    #[track_caller]
    pub fn exact(
        &self,
        reference: &dyn Backend,
        settings: &[(&str, &str)],
        inputs: &[Tensor],
        symbols: &[(&str, usize)],
    ) -> Vec<Vec<f64>> {
        let wide = |tensor: &Tensor| if tensor.dtype().is_float() { tensor.cast(DType::F64) } else { tensor.clone() };
        let inputs: Vec<_> = inputs.iter().map(wide).collect();
        let results = self.in_f64().results(reference, settings, &inputs, symbols);
        results.iter().map(Tensor::numbers).collect()
    }
}

/// The tensors of packed constants, in the order of the claims.
fn packed(claims: &Claimed) -> Vec<Tensor> {
    let tensor = |(packed, bytes): (&crate::Packed, &[u8])| {
        Tensor::from_bytes(packed.dtype, &packed.shape, bytes, packed.alignment as usize)
    };
    claims.packed().into_iter().map(tensor).collect()
}

/// A region that was compiled. Its parts may be looked at, and the code may be changed before it is loaded.
pub struct Compiled<'r> {
    /// The code.
    pub code: Vec<u8>,
    /// The claims, in the order of the region's constants.
    pub claims: Claimed,
    /// What the user is told about the code.
    pub notes: Vec<String>,
    /// The options that it was compiled with, which are also those of its runs.
    pub options: Options,
    net: &'r RegionBuilder,
    backend: &'r dyn Backend,
    packed: Vec<Tensor>,
}

impl Compiled<'_> {
    /// The constants that the claims ask for, as an artifact binds them.
    pub fn bound(&self) -> Vec<BoundConstant<'_>> {
        let mut tensors = self.packed.iter();
        let mut bound = Vec::new();
        for ((id, claim, _), tensor) in self.claims.0.iter().zip(&self.net.constants) {
            let (layout, view) = match claim {
                Claim::Host => (None, tensor.view()),
                Claim::Packed(packed) => {
                    (Some(packed.layout.as_str()), tensors.next().expect("each has a tensor").view())
                }
                Claim::Embedded | Claim::Unused => continue,
            };
            bound.push(BoundConstant { id: *id, layout, view });
        }
        bound
    }

    /// Loads the code in host memory.
    pub fn load(&self, threads: usize) -> Result<Box<dyn Executable + '_>, Error> {
        let environment = Environment { threads, options: self.options.clone() };
        self.backend.runtime().host()?.load(&self.code, &BoundConstants::new(self.bound()), &environment)
    }

    /// Loads for one thread and runs, with these sizes for symbols.
    pub fn run(&self, inputs: &[Tensor], symbols: &[(&str, usize)]) -> Result<Vec<Tensor>, Error> {
        run(self.net, self.load(1)?.as_mut(), inputs, symbols)
    }
}

/// Runs a loaded region once, with these sizes for symbols. Before it runs, its outputs hold NaN.
pub fn run(
    net: &RegionBuilder,
    executable: &mut dyn Executable,
    inputs: &[Tensor],
    symbols: &[(&str, usize)],
) -> Result<Vec<Tensor>, Error> {
    let mut outputs = net.room(symbols);
    let views: Vec<_> = inputs.iter().map(Tensor::view).collect();
    executable.run(&views, &mut outputs.iter_mut().map(Tensor::view_mut).collect::<Vec<_>>())?;
    Ok(outputs)
}
