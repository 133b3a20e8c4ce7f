//! Quantised operators of onnxruntime's domain `com.microsoft`: one test a case, each against onnxruntime.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use std::path::Path;
use std::sync::Arc;

use byoc_core::plugin::Registry;
use byoc_plugin_api::DType;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use byoc_tests::{data, engine, npz, places};

/// Of floats. What they are computed from is the same integers.
const TOLERANCE: Tolerance = Tolerance { relative: 1e-4, absolute: 1e-5 };

/// Elements in a hundred that may be their neighbour: where the rounding of floats decides between two.
const NEIGHBOURS: usize = 2;

pub(crate) fn trials() -> Vec<Trial> {
    let registry = Arc::new(engine::embedded());
    let root = match data::test_data("microsoft_quantised") {
        Ok(root) => root,
        Err(Skip(reason)) => return vec![trial("microsoft_quantised", || Err(Skip(reason)))],
    };
    let case = |name: String| {
        let (folder, registry) = (root.join(&name), Arc::clone(&registry));
        trial(name, move || check(&folder, &registry))
    };
    places::list(&root).into_iter().map(case).collect()
}

/// Compiles and runs a case, by the fast kernels and by the plain ones that are there to compare with.
fn check(folder: &Path, registry: &Registry) -> Needed<()> {
    let expected = npz::read(&folder.join("outputs.npz"));
    for kernels in ["fast", "reference"] {
        let scratch = places::temporary_in_memory();
        let artifact = scratch.path().join("case.byoc");
        let settings = [("json.kernels", kernels)];
        engine::compile_with(&folder.join("model.onnx"), &artifact, registry, &["json"], &settings).expect("compiles");
        let mut session = engine::load(&artifact, registry, 1).expect("loads");
        let outputs = engine::run(&mut session, &npz::read(&folder.join("inputs.npz"))).expect("runs");
        assert_eq!(outputs.len(), expected.len());
        for (name, found) in &outputs {
            let expected = npz::find(&expected, name);
            if found.dtype.is_float() {
                if let Err(what) = compare(found, &expected, TOLERANCE) {
                    panic!("{kernels} kernels: '{name}' {what}");
                }
            } else {
                neighbours(&format!("{kernels} kernels: '{name}'"), found, &expected);
            }
        }
    }
    Ok(())
}

/// Fails where an integer is neither what is expected nor next to it, or too many are not what is expected.
fn neighbours(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!((found.dtype, &found.shape), (expected.dtype, &expected.shape), "{what}");
    let apart: Vec<_> =
        integers(found).zip(integers(expected)).map(|(found, expected)| found.abs_diff(expected)).collect();
    let largest = apart.iter().copied().max().unwrap_or(0);
    let different = apart.iter().filter(|&&apart| apart > 0).count();
    println!("{what}: {different} of {} elements are not what is expected", apart.len());
    assert!(largest <= 1, "{what}: an element is {largest} from what is expected");
    assert!(
        different <= 1 || different * 100 <= apart.len() * NEIGHBOURS,
        "{what}: {different} of {} differ",
        apart.len()
    );
}

fn integers(tensor: &Tensor) -> impl Iterator<Item = i64> {
    let dtype = tensor.dtype;
    tensor.bytes.chunks_exact(dtype.unpacked_bytes()).map(move |bytes| match (dtype, bytes) {
        (DType::U8, &[low]) => low.into(),
        (DType::I8, &[low]) => low.cast_signed().into(),
        (DType::U16, &[low, high]) => u16::from_le_bytes([low, high]).into(),
        (DType::I16, &[low, high]) => i16::from_le_bytes([low, high]).into(),
        (DType::I32, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]).into(),
        _ => panic!("{dtype}"),
    })
}
