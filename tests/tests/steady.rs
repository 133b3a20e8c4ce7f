//! A run that follows another of the same shapes allocates nothing, in core or in an embedded backend.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use byoc_core::plugin::Registry;
use byoc_plugin_api::TensorView;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the second run of `relu(x * w + x)` on one thread.
fn second_run(registry: &Registry, backends: &[&str], regions: usize) -> usize {
    let folder = places::temporary();
    let (model, artifact) = (folder.path().join("model.onnx"), folder.path().join("model.byoc"));
    let bytes = Model::default()
        .input("x", Type::Float, &[2, 8])
        .weight("w", &[2, 8], &(0..16).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["p"])
        .node("Add", &["p", "x"], &["s"])
        .node("Relu", &["s"], &["y"])
        .output("y", Type::Float, &[2, 8])
        .finish();
    std::fs::write(&model, bytes).expect("the model can be written");
    engine::compile(&model, &artifact, registry, backends).expect("compiled");
    let mut session = engine::load(&artifact, registry, 1).expect("loaded");
    let data = [1f32; 16];
    let inputs = [TensorView::from_slice(&data, &[2, 8], &[8, 1]).expect("a tensor")];
    session.run(&inputs).expect("the first run");
    let before = COUNT.with(Cell::get);
    session.run(&inputs).expect("the second run");
    let count = COUNT.with(Cell::get) - before;
    assert_eq!(session.times().len(), regions);
    let expected: Vec<f32> = (0..16).map(|i| i as f32 + 1.0).collect();
    assert_eq!(session.output(0).expect("y").to_vec::<f32>().expect("f32"), expected);
    count
}

#[test]
fn one_region_in_the_program() {
    assert_eq!(second_run(&engine::embedded(), &["json"], 1), 0);
}

#[test]
fn regions_of_two_plugins() {
    let registry = engine::from_files(vec![places::plugin("template"), places::plugin("json")]);
    assert_eq!(second_run(&registry, &["template", "json"], 3), 0);
}
