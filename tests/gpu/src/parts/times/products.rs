//! Products of matrices, beside cublasLt called directly in the same process: the same matrices, the calls in
//! turn. byoc's runs leave input and output on the device and replay what was recorded.

use std::time::Duration;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{Queueing, Session};
use byoc_plugin_api::DType;

use super::{close, medians, ms, title};
use crate::check::{Check, Prepared};
use crate::direct::{Direct, Problem};
use crate::fixture::{self, BACKEND, Fixture, PRODUCTS, with_views};
use crate::gpu::Gpu;
use crate::net::{Net, Op, rows};
use crate::parts::Scope;
use crate::report::{Report, Result};

/// How much slower than the direct call cublas may be in f16 and bf16, at the largest size.
const MOST: f64 = 1.03;

/// How much slower cutlass may be with bias and GELU; and without them at the largest size, where the direct call is
/// taken for the peak of the device.
const MOST_FUSED: f64 = 1.0 / 0.95;
const MOST_OF_PEAK: f64 = 1.0 / 0.7;

/// Rows of BERT-large's matrices: sequences of 128 and of 512, one, 8 and 32 at once. And its products' N and K.
const ROWS: [usize; 5] = [128, 512, 1024, 4096, 16_384];
const LAYERS: [[usize; 2]; 3] = [[1024, 1024], [4096, 1024], [1024, 4096]];

/// Types, and whether f32 is multiplied in TF32.
const TYPES: [(&str, DType, bool); 4] =
    [("f16", DType::F16, false), ("bf16", DType::BF16, false), ("tf32", DType::F32, true), ("f32", DType::F32, false)];

/// A product that is timed.
pub(super) struct Timed {
    backend: &'static str,
    name: String,
    dtype: DType,
    tf32: bool,
    /// M, N and K.
    sizes: [usize; 3],
    /// Whether a bias and GELU follow.
    gelu: bool,
    /// The only tile that it may have, if that is asked for.
    tile: Option<String>,
    /// How much slower than the direct call it may be on a GPU, if that is checked.
    most: Option<f64>,
    /// Seconds for its median.
    seconds: f64,
}

/// Seconds for a median; and where there are many.
const SECONDS: f64 = 0.5;
const FEW_SECONDS: f64 = 0.15;

impl Timed {
    /// A product of `cutlass` in f16, with a bias and GELU.
    fn fused(name: String, sizes: [usize; 3]) -> Timed {
        let (backend, dtype) = (PRODUCTS, DType::F16);
        Timed { backend, name, dtype, tf32: false, sizes, gelu: true, tile: None, most: None, seconds: SECONDS }
    }

    /// The same by one tile.
    pub(super) fn by(tile: String, sizes @ [m, n, k]: [usize; 3]) -> Timed {
        let name = format!("{m}x{n}x{k} by {tile}");
        Timed { tile: Some(tile), seconds: FEW_SECONDS, ..Timed::fused(name, sizes) }
    }
}

/// A row of the table.
struct Row {
    byoc: Duration,
    direct: Duration,
    /// Whether both give the same bits.
    same: bool,
    /// What a replay like those that were timed gave, beside the direct call.
    replayed: Result<String>,
}

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    // What cublas runs needs no compiler.
    all(scope).into_iter().filter(|timed| !scope.prepares || timed.backend == PRODUCTS).map(check).collect()
}

pub(super) fn check(timed: Timed) -> Check {
    Check::several(timed.name.clone(), move |fixture, report| beside(fixture, report, &timed))
}

fn beside(fixture: &Fixture, report: &mut Report, timed: &Timed) {
    let row = match one(fixture, timed) {
        Ok(row) => row,
        Err(error) if error.is::<Prepared>() => return report.check(&timed.name, Ok(error.to_string())),
        Err(error) => return report.check(&timed.name, Err(error)),
    };
    let (cells, mut text, ratio) = row.cells(timed);
    let columns = ["product", "byoc ms", "cublasLt ms", "byoc / cublasLt", "TFLOP/s", "same bits"];
    report.row(&title(fixture, "Products beside cublasLt"), &columns, cells);
    let most = timed.most.filter(|_| !fixture.quick && !fixture.is_stand_in());
    // A goal that is not reached is no wrong result.
    if let Some(most) = most.filter(|most| ratio > *most) {
        text += &format!(", and the goal is {most:.2}");
    }
    report.check(&timed.name, Ok(text));
    report.check(&format!("{}, replayed", timed.name), row.replayed);
}

/// Squares by cublas, and by cutlass, where its plugin is there, squares and the shapes of BERT-large.
fn all(scope: &Scope) -> Vec<Timed> {
    let sides = if scope.quick { [24, 48] } else { [4096, 8192] };
    let mut all = Vec::new();
    for (side, (name, dtype, tf32)) in sides.into_iter().flat_map(|side| TYPES.map(|kind| (side, kind))) {
        let sizes = [side; 3];
        for gelu in [false, true] {
            let title = format!("{name} {side}^3{}", if gelu { " bias gelu" } else { "" });
            let half = dtype != DType::F32;
            let most = (half && side == sides[1]).then_some(MOST);
            let (tile, seconds) = (None, SECONDS);
            let one = Timed { backend: BACKEND, name: title.clone(), dtype, tf32, sizes, gelu, tile, most, seconds };
            all.push(one);
            if scope.has(PRODUCTS) && (half || tf32) {
                let most = match gelu {
                    true => (half && side == sides[0]).then_some(MOST_FUSED),
                    false => (dtype == DType::F16 && side == sides[1]).then_some(MOST_OF_PEAK),
                };
                let name = format!("{PRODUCTS} {title}");
                let (backend, tile) = (PRODUCTS, None);
                all.push(Timed { backend, name, dtype, tf32, sizes, gelu, tile, most, seconds });
            }
        }
    }
    if scope.has(PRODUCTS) && !scope.quick {
        for (m, [n, k]) in ROWS.into_iter().flat_map(|m| LAYERS.map(|layer| (m, layer))) {
            let (name, most) = (format!("{PRODUCTS} f16 {m}x{n}x{k} bias gelu"), Some(MOST_FUSED));
            all.push(Timed { most, ..Timed::fused(name, [m, n, k]) });
        }
    }
    all
}

impl Row {
    /// Cells, a line, and byoc's time over that of the direct call.
    fn cells(&self, timed: &Timed) -> (Vec<String>, String, f64) {
        let (byoc, direct) = (self.byoc.as_secs_f64(), self.direct.as_secs_f64());
        let ratio = byoc / direct;
        let rate = 2.0 * timed.sizes.iter().map(|&size| size as f64).product::<f64>() / byoc / 1e12;
        let same = if self.same { "yes" } else { "no" };
        let cells = [ms(self.byoc), ms(self.direct), format!("{ratio:.3}"), format!("{rate:.1}"), same.into()];
        let text = format!("{} ms, {} ms directly: {ratio:.3}", ms(self.byoc), ms(self.direct));
        ([timed.name.clone()].into_iter().chain(cells).collect(), text, ratio)
    }
}

fn one(fixture: &Fixture, timed: &Timed) -> Result<Row> {
    let &Timed { backend, dtype, tf32, sizes, gelu, .. } = timed;
    let [m, n, k] = sizes;
    let (mut net, mut random) = (Net::new(dtype), fixture.random("products"));
    let (x, w) = (net.input(&[m, k]), net.constant(&mut random, &[k, n], 1.0));
    let product = net.step(Op::MatMul, &[x, w]);
    let bias = gelu.then(|| {
        let bias = net.constant(&mut random, &[n], 1.0);
        let sum = net.step(Op::Add, &[product, bias]);
        net.step(Op::Gelu, &[sum]);
        bias
    });
    let key = format!("{backend}.math");
    let settings = tf32.then_some((key.as_str(), "tf32")).into_iter();
    let settings: Vec<_> = settings.chain(timed.tile.iter().map(|tile| ("cutlass.tile", tile.as_str()))).collect();
    let compiled = fixture.compile("products", &net.onnx(), &[backend], &settings)?;
    fixture.ready()?;
    let inputs = net.inputs(&mut random, 0);
    // One row of the result: more takes long on the host. A device's tanh is not exact.
    let (expected, _) = net.evaluate(&[rows(&inputs[0], m / 2, 1)]);
    let _turn = fixture.turn()?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let bytes = |id| net.constant_of(id).map_or(&[][..], |tensor| tensor.bytes.as_slice());
    let problem = Problem { sizes, dtype, tf32, x: &inputs[0].bytes, w: bytes(w), bias: bias.map(bytes) };
    fixture::run(&mut session, &inputs)?;
    let found = fixture::run(&mut session, &inputs)?;
    let most = match dtype {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        _ if tf32 || gelu => 2e-3,
        _ => 1e-5,
    };
    close(rows(&found, m / 2, 1).floats(), &expected.data, most)?;
    let seconds = fixture.pick(timed.seconds, 0.02);
    let gpu = &mut *fixture.gpu();
    let direct = Direct::new(gpu, &problem)?;
    let times = with_views(&inputs, |views| {
        medians(seconds, &mut [&mut || Ok(session.run_resident(views)?), &mut || direct.run(gpu)])
    })?;
    let expected = Tensor { bytes: direct.result(gpu)?, ..found };
    direct.end(gpu)?;
    let found = replay(gpu, &mut session, &inputs)?;
    let expected_values: Vec<_> = expected.floats().collect();
    let replayed = close(found.floats(), &expected_values, most).map(|worst| format!("differs by {worst:.1e} at most"));
    Ok(Row { byoc: times[0], direct: times[1], same: found == expected, replayed })
}

/// The output of a run like those that were timed: it is NaN before, so a replay that does nothing leaves it so.
fn replay(gpu: &mut Gpu, session: &mut Session, inputs: &[Tensor]) -> Result<Tensor> {
    session.fetch()?;
    gpu.poison_output(session)?;
    with_views(inputs, |views| Ok(session.run_resident(views)?))?;
    session.fetch()?;
    fixture::first_output(session)
}
