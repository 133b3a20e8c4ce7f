//! Products of every kind that the backend supports, compiled and run as small models, against the reference kernels in f64.
//!
//! Each model runs several times on new inputs. All memory, on the device and page-locked on the host, begins as NaN, and
//! is made NaN again before each run, but for the weights: a read of memory that was not written shows.

pub(super) mod cases;

use byoc_core::runtime::Queueing;
use byoc_plugin_api::DType;
use fastrand::Rng;

use super::Scope;
use crate::check::{Check, Prepared};
use crate::fixture::{BACKEND, Compiled, Fixture};
use crate::net::{Allowed, Net};
use crate::report::Result;
use crate::watch::Poisoned;
use cases::Case;

/// Options of the backend, as (`backend.key`, value).
pub(super) type Settings = &'static [(&'static str, &'static str)];

/// f32 is multiplied in TF32.
const TF32: Settings = &[("cublas.math", "tf32")];

/// The types, with options of the backend.
const TYPES: [(&str, DType, Settings); 5] = [
    ("f32", DType::F32, &[]),
    ("tf32", DType::F32, TF32),
    ("f16", DType::F16, &[]),
    ("bf16", DType::BF16, &[]),
    ("f64", DType::F64, &[]),
];

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let mut all = Vec::new();
    let mut add = |case: &'static Case, types: &dyn Fn(DType) -> bool| {
        for (name, dtype, settings) in TYPES.into_iter().filter(|(_, dtype, _)| types(*dtype)) {
            all.push(check(name, case, Kind { backend: BACKEND, dtype, settings }));
        }
    };
    for case in cases::ALL {
        add(case, &|dtype| dtype != DType::F64 || !case.has_activation);
    }
    add(&cases::LONG, &|dtype| matches!(dtype, DType::F16 | DType::BF16));
    if !scope.quick {
        add(&cases::MANY, &|dtype| dtype == DType::F16);
    }
    all
}

/// The check of a case with elements of a kind.
pub(super) fn check(of: &str, case: &'static Case, kind: Kind) -> Check {
    let name = format!("{} {of}", case.name);
    Check::one(name.clone(), move |fixture| rounds(fixture, &mut fixture.random(&name), case, &kind))
}

/// How a case is computed.
pub(super) struct Kind {
    /// The backend, which has to take all of it.
    pub(super) backend: &'static str,
    pub(super) dtype: DType,
    pub(super) settings: Settings,
}

/// Several models of one kind, of other sizes each.
fn rounds(fixture: &Fixture, random: &mut Rng, case: &Case, kind: &Kind) -> Result<String> {
    let (mut worst, mut runs) = (0f64, 0);
    for _ in 0..fixture.pick(6, 2) {
        let mut net = Net::new(kind.dtype);
        (case.build)(&mut net, random, fixture.pick(256, 40));
        let shapes = format!("{:?}", net.input_shapes(0));
        let compiled = fixture.compile("product", &net.onnx(), &[kind.backend], kind.settings)?;
        let allowed = Allowed::new(kind.dtype, !kind.settings.is_empty(), case.has_gelu);
        let found = match one(fixture, random, &net, &compiled, allowed) {
            Err(error) if error.is::<Prepared>() => continue,
            found => found,
        };
        let (parts, count) = found.map_err(|error| format!("inputs {shapes}: {error}"))?;
        (worst, runs) = (worst.max(parts), runs + count);
    }
    Ok(format!("{runs} runs, {worst:.3} of what is allowed"))
}

/// Runs of one model, in a session of its own: the greatest difference as a part of what is allowed, and how many runs.
fn one(fixture: &Fixture, random: &mut Rng, net: &Net, compiled: &Compiled, allowed: Allowed) -> Result<(f64, usize)> {
    let mut session = Poisoned::load(fixture, &compiled.path, Queueing::Recorded)?;
    // The third run replays what the second one recorded. Only where the first size is symbolic is there another batch.
    let (batches, mut worst) = ([3, 3, 3, 1, 17], 0f64);
    for (index, batch) in batches.into_iter().enumerate() {
        let inputs = net.inputs(random, batch);
        let found = session.run(&inputs)?;
        let (expected, sums) = net.evaluate(&inputs);
        let part = allowed.worst(&found, &expected, &sums).map_err(|error| format!("run {}: {error}", index + 1))?;
        worst = worst.max(part);
    }
    Ok((worst, batches.len()))
}
