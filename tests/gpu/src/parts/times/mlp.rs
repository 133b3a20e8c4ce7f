//! An MLP of four layers, for batches from 1 to 256.

use byoc_core::runtime::Queueing;
use byoc_plugin_api::DType;

use super::{close, ms, shares, title, whole_and_resident};
use crate::check::Check;
use crate::fixture::{self, BACKEND, Compiled, Fixture};
use crate::net::{Net, Op, rows};
use crate::report::{Report, Result};

const BATCHES: [usize; 4] = [1, 8, 64, 256];

/// An option of a backend, as (`backend.key`, value).
type Setting = Option<(&'static str, &'static str)>;

/// The types, with options of the backend.
const TYPES: [(&str, DType, Setting); 3] =
    [("f16", DType::F16, None), ("tf32", DType::F32, Some(("cublas.math", "tf32"))), ("f32", DType::F32, None)];

pub(super) fn checks() -> Vec<Check> {
    let check = |(name, dtype, setting)| {
        Check::several(format!("mlp {name}"), move |fixture, report| batches(fixture, report, name, dtype, setting))
    };
    TYPES.map(check).into()
}

/// All batches of a type.
fn batches(fixture: &Fixture, report: &mut Report, name: &str, dtype: DType, setting: Setting) {
    let width = fixture.pick(4096, 32);
    let net = net(fixture, dtype, width);
    let compiled = match fixture.compile("mlp", &net.onnx(), &[BACKEND], setting.as_slice()) {
        Ok(compiled) => compiled,
        Err(error) => return report.check(&format!("mlp {name}"), Err(error)),
    };
    for batch in BATCHES {
        let row = one(fixture, &net, &compiled, batch, setting.is_some());
        let text = row.map(|row| {
            let text = format!("{} ms, {} ms resident", row[0], row[1]);
            let columns =
                ["type", "batch", "ms", "ms resident", "GB/s of weights", "in copies", "uploads", "downloads"];
            let cells = [name.to_owned(), batch.to_string()].into_iter().chain(row).collect();
            report.row(&title(fixture, &format!("MLP 4 x {width}")), &columns, cells);
            text
        });
        report.check(&format!("mlp 4 x {width} {name}, batch {batch}"), text);
    }
}

/// Four layers with bias and ReLU, with weights that keep values about as large as they are.
fn net(fixture: &Fixture, dtype: DType, width: usize) -> Net {
    let (mut net, mut random) = (Net::new(dtype), fixture.random("mlp"));
    let scale = (6.0 / width as f32).sqrt();
    let mut value = net.batch_input(&[1, width]);
    for _ in 0..4 {
        let (w, b) = (net.constant(&mut random, &[width, width], scale), net.constant(&mut random, &[width], 0.1));
        let product = net.step(Op::MatMul, &[value, w]);
        let sum = net.step(Op::Add, &[product, b]);
        value = net.step(Op::Relu, &[sum]);
    }
    net
}

/// Cells from the third column on.
fn one(fixture: &Fixture, net: &Net, compiled: &Compiled, batch: usize, tf32: bool) -> Result<Vec<String>> {
    let mut random = fixture.random("mlp inputs");
    let inputs = net.inputs(&mut random, batch);
    let _turn = fixture.turn()?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let [whole, resident] = whole_and_resident(fixture, &mut session, &inputs)?;
    let found = fixture::run(&mut session, &inputs)?;
    drop(session);
    // The last row, for rows do not depend on each other. Every layer rounds.
    let (expected, _) = net.evaluate(&[rows(&inputs[0], batch - 1, 1)]);
    let most = match net.dtype {
        DType::F16 => 1e-2,
        _ if tf32 => 1e-2,
        _ => 1e-4,
    };
    close(rows(&found, batch - 1, 1).floats(), &expected.data, most)?;
    let shares = shares(fixture, compiled, &inputs)?;
    let rate = net.constant_bytes() as f64 / resident.as_secs_f64() / 1e9;
    let (copies, counts) = (shares.percent(shares.copies), [shares.uploads, shares.downloads].map(|n| n.to_string()));
    Ok([ms(whole), ms(resident), format!("{rate:.0}"), copies].into_iter().chain(counts).collect())
}
