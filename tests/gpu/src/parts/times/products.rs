//! Products of square matrices, beside cublasLt called directly in the same process: the same matrices, the calls in
//! turn. byoc's runs leave input and output on the device and replay what was recorded.

use std::time::Duration;

use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{Queueing, Session};
use byoc_plugin_api::DType;

use super::{close, medians, ms, title};
use crate::bed::{self, BACKEND, Bed, with_views};
use crate::direct::{Direct, Problem};
use crate::gpu::Gpu;
use crate::net::{Net, Op, rows};
use crate::report::{Report, Result, ensure};

/// How much slower than the direct call f16 and bf16 may be at the largest size.
const MOST: f64 = 1.03;

/// A row of the table.
struct Row {
    byoc: Duration,
    direct: Duration,
    /// Whether both give the same bits.
    same: bool,
    /// What a replay like those that were timed gave, beside the direct call.
    replayed: Result<String>,
}

pub(super) fn run(bed: &Bed, report: &mut Report) {
    let mut table = Vec::new();
    let sizes = bed.pick([4096, 8192], [24, 48]);
    for size in sizes {
        for (name, dtype, tf32) in [
            ("f16", DType::F16, false),
            ("bf16", DType::BF16, false),
            ("tf32", DType::F32, true),
            ("f32", DType::F32, false),
        ] {
            for gelu in [false, true] {
                let title = format!("{name} {size}^3{}", if gelu { " bias gelu" } else { "" });
                let row = match one(bed, size, dtype, tf32, gelu) {
                    Ok(row) => row,
                    Err(error) => {
                        report.check(&title, Err(error));
                        continue;
                    }
                };
                let judged = size == sizes[1] && dtype != DType::F32 && !bed.quick && !bed.is_stand_in();
                report.check(&title, judge(&title, &row, size, judged, &mut table));
                report.check(&format!("{title}, replayed"), row.replayed);
            }
        }
    }
    let columns = ["product", "byoc ms", "cublasLt ms", "byoc / cublasLt", "TFLOP/s", "same bits"];
    report.table(&title(bed, "Products beside cublasLt"), &columns, &table);
}

/// Adds the row to the table; an error if byoc is too slow where that is judged.
fn judge(title: &str, row: &Row, size: usize, judged: bool, table: &mut Vec<Vec<String>>) -> Result<String> {
    let (byoc, direct) = (row.byoc.as_secs_f64(), row.direct.as_secs_f64());
    let ratio = byoc / direct;
    let rate = 2.0 * (size as f64).powi(3) / byoc / 1e12;
    let same = if row.same { "yes" } else { "no" };
    let cells = [ms(row.byoc), ms(row.direct), format!("{ratio:.3}"), format!("{rate:.1}"), same.into()];
    table.push([title.to_owned()].into_iter().chain(cells).collect());
    let text = format!("{} ms, {} ms directly: {ratio:.3}", ms(row.byoc), ms(row.direct));
    ensure(!judged || ratio <= MOST, || format!("{text}, more than {MOST}"))?;
    Ok(text)
}

fn one(bed: &Bed, size: usize, dtype: DType, tf32: bool, gelu: bool) -> Result<Row> {
    let (mut net, mut random) = (Net::new(dtype), bed.random("products"));
    let (x, w) = (net.input(&[size, size]), net.constant(&mut random, &[size, size], 1.0));
    let product = net.step(Op::MatMul, &[x, w]);
    let bias = gelu.then(|| {
        let bias = net.constant(&mut random, &[size], 1.0);
        let sum = net.step(Op::Add, &[product, bias]);
        net.step(Op::Gelu, &[sum]);
        bias
    });
    let settings = [("cublas.math", "tf32")];
    let compiled = bed.compile("products", &net.onnx(), &[BACKEND], if tf32 { &settings } else { &[] })?;
    let mut session = bed.load(&bed.registry, &compiled.path, Queueing::Recorded)?;
    let inputs = net.inputs(&mut random, 0);
    let bytes = |id| net.constant_of(id).map_or(&[][..], |tensor| tensor.bytes.as_slice());
    let problem = Problem { size, dtype, tf32, x: &inputs[0].bytes, w: bytes(w), bias: bias.map(bytes) };
    bed::run(&mut session, &inputs)?;
    let found = bed::run(&mut session, &inputs)?;
    // One row of the result is as much as loops in f64 can do here. A device's tanh is not exact.
    let (expected, _) = net.evaluate(&[rows(&inputs[0], size / 2, 1)]);
    let most = match dtype {
        DType::BF16 => 1e-2,
        DType::F16 => 2e-3,
        _ if tf32 || gelu => 2e-3,
        _ => 1e-5,
    };
    close(rows(&found, size / 2, 1).floats(), &expected.data, most)?;
    let seconds = bed.pick(0.5, 0.02);
    let gpu = &mut *bed.gpu();
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
    bed::first_output(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_percent_is_too_slow_where_it_is_judged() {
        let judged = |micros: u64, judged: bool| {
            let (byoc, direct) = (Duration::from_micros(micros), Duration::from_micros(1000));
            let (row, mut table) = (Row { byoc, direct, same: true, replayed: Ok(String::new()) }, Vec::new());
            let found = judge("product", &row, 8, judged, &mut table).map_err(|error| error.to_string());
            // A row stands in the table whether it fails or not.
            assert_eq!(table.len(), 1);
            found
        };
        assert_eq!(judged(1029, true), Ok("1.0290 ms, 1.0000 ms directly: 1.029".into()));
        assert_eq!(judged(1031, true), Err("1.0310 ms, 1.0000 ms directly: 1.031, more than 1.03".into()));
        assert_eq!(judged(1031, false), Ok("1.0310 ms, 1.0000 ms directly: 1.031".into()));
    }
}
