//! Products of square matrices, beside cublasLt called directly in the same process: the same matrices, the calls in
//! turn. byoc's runs leave input and output on the device and replay what was recorded.

use std::time::Duration;

use byoc_core::runtime::Queueing;
use byoc_plugin_api::DType;

use super::{close, medians, ms, title};
use crate::bed::{self, BACKEND, Bed, with_views};
use crate::direct::{Direct, Problem};
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
                let row = one(bed, size, dtype, tf32, gelu);
                let judged = size == sizes[1] && dtype != DType::F32 && !bed.quick && !bed.is_stand_in();
                report.check(&title, row.and_then(|row| judge(&title, &row, size, judged, &mut table)));
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
    let same = direct.result(gpu)? == found.bytes;
    direct.end(gpu)?;
    Ok(Row { byoc: times[0], direct: times[1], same })
}
