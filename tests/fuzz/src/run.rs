//! Runs within limits: inputs that would only take long are skipped.

use std::collections::HashMap;
use std::path::Path;

use byoc_core::artifact::{Artifact, ArtifactFile, LedgerOfVariants};
use byoc_core::compile::{self, Request, Silent};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_dim as dim;
use byoc_plugin_api::{DType, Dim, TensorView, contiguous_strides};
use serde_json::Value;

/// Most elements of a tensor. A kernel does no more than the square of it: seconds.
pub(crate) const MOST: usize = 1 << 14;

/// Most iterations of control flow in a run.
const ITERATIONS: u64 = 64;

/// The size of every dimension that is known at run time only.
pub(crate) const SYMBOL: usize = 2;

/// As many elements of a type as that, none of them large.
pub(crate) fn ramp(dtype: DType, elements: usize) -> Vec<u8> {
    let float = |index: usize| (index % 9) as f32 / 4.0 - 1.0;
    let element = |index: usize| match dtype {
        DType::F32 => float(index).to_le_bytes().to_vec(),
        DType::F64 => f64::from(float(index)).to_le_bytes().to_vec(),
        // The upper half of an f32 is a bf16, and a small number as an f16.
        DType::F16 | DType::BF16 => float(index).to_le_bytes()[2..].to_vec(),
        other => {
            let mut bytes = vec![0; other.unpacked_bytes()];
            bytes[0] = (index % 3) as u8;
            bytes
        }
    };
    dtype.pack(&(0..elements).flat_map(element).collect::<Vec<u8>>())
}

/// The shape with the size `symbol` for every symbol; `None` where it has no value, or more elements than are run.
pub(crate) fn small(shape: &[Dim], symbol: usize) -> Option<Vec<i64>> {
    let mut symbols = HashMap::new();
    for size in shape {
        symbols.extend(dim::Expr::of(size).ok()?.symbols().into_iter().map(|name| (name, symbol)));
    }
    sizes(&dim::eval_shape(shape, &symbols).ok()?)
}

/// The same for a shape without symbols.
pub(crate) fn sizes(shape: &[usize]) -> Option<Vec<i64>> {
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)))?;
    (elements <= MOST).then(|| shape.iter().map(|&size| size as i64).collect())
}

fn too_large() -> Diagnostic {
    Diagnostic::new(Code::BadInput, "too large to be tried")
}

/// Errors where a model has tensors of more than [`MOST`] elements.
pub(crate) fn guard(request: &Request) -> Result<()> {
    let bare =
        Request { import: request.import.clone(), ..Request::new(request.sources.clone(), request.backends.clone()) };
    let partitioned = compile::partitioned(&bare, &mut Silent)?;
    let values = partitioned.model.entries.iter().flat_map(|graph| &graph.values);
    let large = values.filter_map(|value| value.ty.as_ref()).any(|ty| small(&ty.shape, SYMBOL).is_none());
    if large { Err(too_large()) } else { Ok(()) }
}

/// Whether every list in the JSON that is called a shape is one of a small tensor, with the size `symbol` for symbols.
pub(crate) fn is_small(code: &Value, symbol: usize) -> bool {
    match code {
        Value::Object(fields) => fields.iter().all(|(key, value)| match value {
            Value::Array(items) if key == "shape" => {
                let dims = serde_json::from_value::<Vec<Dim>>(Value::Array(items.clone()));
                dims.is_ok_and(|dims| small(&dims, symbol).is_some())
            }
            value => is_small(value, symbol),
        }),
        Value::Array(items) => items.iter().all(|item| is_small(item, symbol)),
        _ => true,
    }
}

/// Opens an artifact, or its variants, and reads all of it.
pub(crate) fn check(file: &[u8]) -> Result<Vec<Artifact>> {
    let file = ArtifactFile::from_bytes(Path::new("fuzzed.byoc"), file.to_vec().into())?;
    let all = file.all()?;
    let ledger = LedgerOfVariants::of(&file, &all)?;
    let own: u64 = ledger.variants.iter().map(|it| it.constants + it.code + it.graph).sum();
    assert_eq!(own + ledger.shared_constants + ledger.shared_code + ledger.frame, file.size(), "{ledger:?}");
    file.verify_digests().map(|()| all)
}

/// Opens an artifact, loads its first two entries, of each of its variants, and runs each twice.
pub(crate) fn artifact(file: &[u8], registry: &Registry) -> Result<()> {
    check(file)?.iter().take(2).try_for_each(|artifact| one(artifact, registry))
}

fn one(artifact: &Artifact, registry: &Registry) -> Result<()> {
    let codes = artifact.manifest().regions.iter().map(|region| artifact.section(&region.code));
    for code in codes.collect::<Result<Vec<_>>>()? {
        if serde_json::from_slice(&code).is_ok_and(|code| !is_small(&code, SYMBOL)) {
            return Err(too_large());
        }
    }
    let names: Vec<_> = artifact.manifest().callable().map(|entry| entry.name.clone()).take(2).collect();
    for entry in names {
        let options =
            LoadOptions { entry: Some(entry), threads: 1, max_iterations: Some(ITERATIONS), ..LoadOptions::default() };
        let mut session = Session::load(artifact.clone(), registry, &options)?;
        run(&mut session)?;
    }
    Ok(())
}

/// Runs a session on small inputs, twice.
fn run(session: &mut Session) -> Result<()> {
    let ports = session.inputs();
    let shapes =
        ports.iter().map(|port| small(&port.shape, SYMBOL)).collect::<Option<Vec<_>>>().ok_or_else(too_large)?;
    let strides: Vec<_> = shapes.iter().map(|shape| contiguous_strides(shape)).collect();
    let bytes = ports.iter().zip(&shapes).map(|(port, shape)| ramp(port.dtype, shape.iter().product::<i64>() as usize));
    let bytes: Vec<_> = bytes.collect();
    let view = |at: usize| TensorView::from_bytes(&bytes[at], ports[at].dtype, &shapes[at], &strides[at]);
    let views = (0..ports.len()).map(view).collect::<std::result::Result<Vec<_>, _>>();
    let views = views.map_err(|error| Diagnostic::new(Code::BadInput, error.message))?;
    for _ in 0..2 {
        session.run(&views)?;
        for index in 0..session.outputs().len() {
            let output = session.output(index)?;
            std::hint::black_box(output.as_bytes().map(<[u8]>::to_vec));
        }
    }
    Ok(())
}
