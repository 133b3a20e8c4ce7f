//! Quantised models choose what onnxruntime chooses, for many inputs: the given one with its elements in another order.
//! `BYOC_INPUTS` says for how many.

#![allow(clippy::print_stdout, reason = "what was measured is part of a test's report")]

use byoc_tests::tensor::Tensor;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, engine, npz, places, sample};

/// Inputs of a usual run: kernels that check overflow, as those of tests do, take seconds for each.
const INPUTS: usize = 4;

/// Models in QDQ form.
const MODELS: [&str; 3] = ["mobilenet_v2_qdq", "resnet50_qdq", "bert_base_qdq"];

pub(crate) fn trials() -> Vec<Trial> {
    let some = sample::every(3, MODELS);
    some.into_iter().map(|name| trial(name, move || same_choices(name))).collect()
}

fn same_choices(name: &str) -> Needed<()> {
    let count = std::env::var("BYOC_INPUTS").map_or(INPUTS, |count| count.parse().expect("a number"));
    let (folder, scratch) = (data::test_data(&format!("quantised/{name}"))?, places::temporary());
    let (model, artifact) = (folder.join("model.onnx"), scratch.path().join("model.byoc"));
    let number = count.to_string();
    data::script("many_inputs.py", &[&model, &folder.join("inputs.npz"), number.as_ref(), scratch.path()])?;
    let registry = engine::embedded();
    engine::compile(&model, &artifact, &registry, &["json"]).expect("compiles");
    let mut session = engine::load(&artifact, &registry, 2).expect("loads");
    let (mut choices, mut others) = (0, Vec::new());
    for index in 0..count {
        let file = |kind: &str| npz::read(&scratch.path().join(format!("{kind}{index}.npz")));
        let outputs = engine::run(&mut session, &file("inputs")).expect("runs");
        let expected = file("outputs");
        for (output, found) in &outputs {
            let expected = npz::find(&expected, output);
            let (ours, theirs) = (largest(found), largest(&expected));
            choices += 1;
            // Levels of 8 bits are the same for many elements, on either side.
            let alike = |tensor: &Tensor| tensor.floats().nth(ours) == tensor.floats().nth(theirs);
            if !alike(found) && !alike(&expected) {
                others.push(format!("input {index}, '{output}': element {ours} for {theirs}"));
            }
        }
    }
    println!("{name}: {} of {choices} choices are others", others.len());
    assert!(choices >= count && others.is_empty(), "{}", others.join("; "));
    Ok(())
}

/// Where the largest element is; the first of several.
fn largest(tensor: &Tensor) -> usize {
    let larger = |best: (usize, f64), (at, value): (usize, f64)| if value > best.1 { (at, value) } else { best };
    tensor.floats().enumerate().fold((0, f64::NEG_INFINITY), larger).0
}
