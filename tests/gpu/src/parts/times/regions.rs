//! Kernels alone, on the device: attention, which is bound by arithmetic, and what is bound by memory. Their inputs and
//! outputs stay there, and what they give is compared with the host.

use byoc_conformance::onnx::{Fill, Model};
use byoc_conformance::tensor::Tensor;
use byoc_core::runtime::{LoadOptions, Queueing, Session};
use byoc_plugin_api::{Attribute, DType};

use super::{close, ms, title, whole_and_resident};
use crate::check::{Check, Prepared};
use crate::fixture::{self, Fixture, HOST, PRODUCTS, REST};
use crate::parts::Scope;
use crate::random;
use crate::report::{Report, Result};

/// One node on inputs of f16.
#[derive(Clone)]
struct Timed {
    name: String,
    backend: &'static str,
    op: &'static str,
    attributes: Vec<(String, Attribute)>,
    inputs: Vec<Vec<usize>>,
    /// Operations of the node, and bytes of its inputs and its output, each once.
    operations: f64,
    bytes: f64,
}

/// Rows of what is bound by memory: more than any cache holds.
const ROWS: usize = 131_072;

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let check = |timed: Timed| Check::several(timed.name.clone(), move |fixture, report| row(fixture, report, &timed));
    all(scope).into_iter().map(check).collect()
}

fn all(scope: &Scope) -> Vec<Timed> {
    let ints = |name: &str, values: &[i64]| (name.to_owned(), Attribute::Ints(values.to_vec()));
    let attention = |[batch, sequence, size, causal]: [usize; 4]| {
        let shape = vec![batch, 16, sequence, size];
        let elements = shape.iter().product::<usize>() as f64;
        let causal = causal == 1;
        Timed {
            name: format!(
                "attention of {batch} x 16 heads of {size}, {sequence} x {sequence}{}",
                if causal { ", causal" } else { "" }
            ),
            backend: PRODUCTS,
            op: "Attention",
            attributes: vec![("is_causal".into(), Attribute::Int(i64::from(causal)))],
            inputs: vec![shape; 3],
            operations: 4.0 * elements * sequence as f64 / if causal { 2.0 } else { 1.0 },
            bytes: 8.0 * elements,
        }
    };
    let rows = if scope.quick { 64 } else { ROWS };
    let moved = |name: &str, op, attributes, count: usize, shape: Vec<usize>| {
        let bytes = 2.0 * (count + 1) as f64 * shape.iter().product::<usize>() as f64;
        Timed { name: name.into(), backend: REST, op, attributes, inputs: vec![shape; count], operations: 0.0, bytes }
    };
    let sizes: &[[usize; 4]] = match scope.quick {
        true => &[[1, 40, 32, 0]],
        false => &[
            [32, 128, 64, 0],
            [8, 512, 64, 0],
            [32, 512, 64, 0],
            [4, 2048, 64, 0],
            [1, 4096, 64, 0],
            [1, 4096, 128, 0],
            [1, 4096, 128, 1],
        ],
    };
    let mut all: Vec<_> = sizes.iter().copied().map(attention).collect();
    all.push(moved("sum of rows of 1024", "Add", vec![], 2, vec![rows, 1024]));
    all.push(moved(
        "softmax of rows of 1024",
        "Softmax",
        vec![("axis".into(), Attribute::Int(-1))],
        1,
        vec![rows, 1024],
    ));
    all.push(moved(
        "transpose of 1024 x 1024",
        "Transpose",
        vec![ints("perm", &[0, 2, 1])],
        1,
        vec![rows / 64, 1024, 64],
    ));
    all
}

impl Timed {
    fn onnx(&self) -> Vec<u8> {
        let mut model = Model::default();
        let names: Vec<_> = (0..self.inputs.len()).map(|at| format!("x{at}")).collect();
        for (name, shape) in names.iter().zip(&self.inputs) {
            model.input(name, DType::F16, shape, Fill::Any, false);
        }
        model.node(("", self.op), names, vec!["y".into()], &self.attributes);
        model.output("y", DType::F16);
        model.finish()
    }
}

fn row(fixture: &Fixture, report: &mut Report, timed: &Timed) {
    let columns = ["kernel", "ms resident", "TFLOP/s", "GB/s"];
    let found = time(fixture, timed).map(|(cells, text)| {
        report.row(&title(fixture, "Kernels alone, f16"), &columns, cells);
        text
    });
    let found = found.or_else(|error| if error.is::<Prepared>() { Ok(error.to_string()) } else { Err(error) });
    report.check(&timed.name, found);
}

fn time(fixture: &Fixture, timed: &Timed) -> Result<(Vec<String>, String)> {
    let onnx = timed.onnx();
    let compiled = fixture.compile("region", &onnx, &[timed.backend], &[])?;
    fixture.ready()?;
    let mut random = fixture.random(&timed.name);
    let inputs: Vec<_> = timed.inputs.iter().map(|shape| random::tensor(&mut random, DType::F16, shape, 1.0)).collect();
    let expected = host(fixture, &onnx, &inputs)?;
    let _turn = fixture.turn()?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, Queueing::Recorded)?;
    let [_, resident] = whole_and_resident(fixture, &mut session, &inputs)?;
    let worst = close(fixture::run(&mut session, &inputs)?.floats(), &expected, 4e-3)?;
    let seconds = resident.as_secs_f64();
    let [rate, bandwidth] = [timed.operations / seconds / 1e12, timed.bytes / seconds / 1e9];
    let rate = if rate > 0.0 { format!("{rate:.0}") } else { "-".into() };
    let text = format!("{} ms, {rate} TFLOP/s, {bandwidth:.0} GB/s, differs by {worst:.1e}", ms(resident));
    Ok((vec![timed.name.clone(), ms(resident), rate, format!("{bandwidth:.0}")], text))
}

fn host(fixture: &Fixture, onnx: &[u8], inputs: &[Tensor]) -> Result<Vec<f64>> {
    let compiled = fixture.compile("region_host", onnx, &[HOST], &[])?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let options = LoadOptions { threads, ..LoadOptions::default() };
    let mut session = Session::open(&compiled.path, &fixture.registry, &options)?;
    Ok(fixture::run(&mut session, inputs)?.floats().collect())
}
