//! Calibration: what a backend is told of the values of its regions is what the model computes over the data set.

pub(crate) mod data;
mod files;

use self::data::{Counting, calibrated, compile, compile_in_process, observed, regions};
use byoc_plugin_api::{Observed, Region};
use byoc_tests::folder::Folder;
use byoc_tests::npz;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;

/// Parts of each histogram.
const PARTS: usize = 2048;

/// `y = relu(x * w + b)`, element by element.
fn elements() -> Model {
    Model::default()
        .input("x", Type::Float, &[1, 4])
        .weight("w", &[4], &[2.0, -1.0, 0.5, 1.0])
        .weight("b", &[4], &[0.25, 0.0, 0.0, -8.0])
        .node("Mul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["y"])
        .output("y", Type::Float, &[1, 4])
}

/// Three samples of its input.
const SAMPLES: [[f32; 4]; 3] = [[1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 8.0, 0.5], [0.125, -4.0, 1.0, 7.0]];

/// What the elements of a value come to.
fn expected(value: usize, elements: &[f32]) -> Observed {
    let (mut min, mut max) = (f32::MAX, f32::MIN);
    elements.iter().for_each(|&element| (min, max) = (min.min(element), max.max(element)));
    let mut histogram = vec![0; PARTS];
    for &element in elements {
        // The last part whose lower end is not above the element.
        let end = |part: usize| f64::from(min) + f64::from(max - min) * part as f64 / PARTS as f64;
        let part = (1..PARTS).take_while(|&part| end(part) <= f64::from(element)).count();
        histogram[part] += 1;
    }
    Observed { value, min, max, histogram }
}

#[test]
fn every_value_is_observed_over_all_samples() {
    let folder = Folder::empty();
    folder.write("model.onnx", elements().finish());
    let samples: Vec<f32> = SAMPLES.concat();
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[3, 4], &samples))]);
    compile(&folder, &["--dataset", "data.npz"]).success();
    let [region]: [Region; 1] = regions(&folder).try_into().expect("one region");
    assert!(region.covers_entry);
    let product: Vec<f32> = samples.iter().zip([2.0, -1.0, 0.5, 1.0].iter().cycle()).map(|(x, w)| x * w).collect();
    let sum: Vec<f32> = product.iter().zip([0.25, 0.0, 0.0, -8.0].iter().cycle()).map(|(x, b)| x + b).collect();
    let relu: Vec<f32> = sum.iter().map(|x| x.max(0.0)).collect();
    let index = |name: &str| region.values.iter().position(|value| value.name == name).expect("a value");
    let mut all: Vec<_> = [("x", &samples), ("product", &product), ("sum", &sum), ("y", &relu)]
        .map(|(name, elements)| expected(index(name), elements))
        .into();
    all.sort_by_key(|observed| observed.value);
    assert_eq!(region.observed, all, "and nothing of constants");
    assert_eq!(region.observed(index("product")).map(|observed| (observed.min, observed.max)), Some((-2.0, 7.0)));
}

/// A convolution between two products: the region in the middle is watched, the last product is not computed.
fn middle(outputs: &[&str]) -> Model {
    let weights =
        |count: usize, step: usize| -> Vec<f32> { (0..count).map(|i| ((i * step) % 17) as f32 / 8.0 - 1.0).collect() };
    let model = Model::default()
        .input("x", Type::Float, &[1, 2, 6, 6])
        .weight("before", &[6, 6], &weights(36, 5))
        .weight("kernel", &[3, 2, 3, 3], &weights(54, 7))
        .weight("after", &[4, 4], &weights(16, 3))
        .node("MatMul", &["x", "before"], &["a"])
        .node("Conv", &["a", "kernel"], &["b"])
        .node("Relu", &["b"], &["c"])
        .node("MatMul", &["c", "after"], &["y"]);
    let shape = |name: &str| match name {
        "a" => [1, 2, 6, 6],
        _ => [1, 3, 4, 4],
    };
    outputs.iter().fold(model, |model, name| model.output(name, Type::Float, &shape(name)))
}

/// The same values come out of an ordinary run of the model with the inner values as outputs.
#[test]
fn ranges_of_a_convolution_are_those_of_a_run() {
    const COUNT: usize = 3;
    let folder = Folder::empty();
    folder.write("model.onnx", middle(&["y"]).finish());
    folder.write("open.onnx", middle(&["a", "b", "c"]).finish());
    folder.byoc(&["compile", "open.onnx", "-o", "open.byoc"]).success();
    std::fs::create_dir(folder.path().join("data")).expect("the folder is ours");
    let mut seen = [const { Vec::new() }; 3];
    for sample in 0..COUNT {
        let x: Vec<f32> = (0..72).map(|i| ((i * 11 + sample * 29) % 23) as f32 / 11.0 - 1.0).collect();
        let path = folder.path().join(format!("data/{sample}.npz"));
        npz::write(&path, &[("x", &Tensor::f32(&[2, 6, 6], &x)), ("label", &Tensor::f32(&[], &[0.0]))]);
        npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[1, 2, 6, 6], &x))]);
        folder.byoc(&["run", "open.byoc", "-i", "in.npz", "-o", "out.npz", "--threads", "1"]).success();
        let outputs = npz::read(&folder.path().join("out.npz"));
        for (seen, name) in seen.iter_mut().zip(["a", "b", "c"]) {
            let bytes = npz::find(&outputs, name).bytes;
            seen.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
        }
    }
    compile(&folder, &["--dataset", "data"]).success();
    let [region]: [Region; 1] = regions(&folder).try_into().expect("one region");
    assert!(!region.covers_entry);
    for (name, elements) in ["a", "b", "c"].into_iter().zip(&seen) {
        let found = observed(&region, name);
        let wanted = expected(found.value, elements);
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(close(found.min, wanted.min) && close(found.max, wanted.max), "{name}: {found:?}");
        assert_eq!(found.histogram.iter().sum::<u64>(), elements.len() as u64, "{name}");
        // A rounding more or less moves an element by a part at most.
        let ahead = |histogram: &[u64], part: usize| histogram[..part].iter().sum::<u64>();
        for part in 1..PARTS {
            let (least, most) = (ahead(&wanted.histogram, part - 1), ahead(&wanted.histogram, (part + 1).min(PARTS)));
            assert!((least..=most).contains(&ahead(&found.histogram, part)), "{name}, part {part}");
        }
    }
    assert_eq!(region.observed.len(), 3, "the kernel is a constant");
}

#[test]
fn the_same_samples_give_the_same_bytes() {
    let folder = Folder::empty();
    folder.write("model.onnx", middle(&["y"]).finish());
    let x: Vec<f32> = (0..144).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect();
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 2, 6, 6], &x))]);
    compile(&folder, &["--dataset", "data.npz", "--check-reproducible"]).success();
    let first = std::fs::read(folder.path().join("model.byoc")).expect("written");
    compile(&folder, &["--dataset", "data.npz"]).success();
    assert!(std::fs::read(folder.path().join("model.byoc")).expect("written") == first);
}

/// A value that is the same everywhere, and a range that no sample fills.
#[test]
fn values_that_never_change_have_a_range() {
    let folder = Folder::empty();
    folder.write("model.onnx", elements().finish());
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 4], &[0.0; 8]))]);
    compile(&folder, &["--dataset", "data.npz"]).success();
    let region = regions(&folder).remove(0);
    let x = observed(&region, "x");
    assert_eq!((x.min, x.max, x.histogram[0]), (0.0, 0.0, 8));
    assert_eq!(x.histogram.iter().sum::<u64>(), 8);
}

/// When a backend crashes, the regions are cut anew; what was observed is not observed again.
#[test]
fn a_crash_costs_no_second_run_over_the_data() {
    // Two regions of `calibrated`, of which the second makes it crash.
    let model = Model::default()
        .input("x", Type::Float, &[2, 2])
        .weight("w", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .node("Mul", &["x", "w"], &["a"])
        .node("MatMul", &["a", "w"], &["b"])
        .node("Relu", &["b"], &["y"])
        .output("y", Type::Float, &[2, 2]);
    let folder = Folder::empty();
    folder.write("model.onnx", model.finish());
    let counting = Counting::default();
    let loads = counting.loads();
    compile_in_process(&folder, counting, "json", &[("calibrated.crash", "Relu")]).expect("compiles");
    let [region]: [Region; 1] = regions(&folder).try_into().expect("the other one");
    assert_eq!(region.nodes[0].op, "Mul");
    assert_eq!((observed(&region, "a").min, observed(&region, "a").max), (1.0, 8.0));
    assert_eq!(loads.get(), 2 * Counting::SAMPLES, "each sample for the ranges and for the histograms");
}

/// A host backend of one region a node: what a later region reads of an earlier one is handed on.
#[test]
fn the_model_may_run_in_several_regions() {
    let model = |last: &str| {
        let inputs = if last == "Mul" { vec!["a", "v"] } else { vec!["a"] };
        Model::default()
            .input("x", Type::Float, &[2])
            .weight("w", &[2], &[3.0, -5.0])
            .weight("v", &[2], &[7.0, 0.5])
            .node("Mul", &["x", "w"], &["a"])
            .node(last, &inputs, &["y"])
            .output("y", Type::Float, &[2])
            .finish()
    };
    let folder = Folder::empty();
    folder.write("model.onnx", model("Mul"));
    compile_in_process(&folder, Counting::default(), "hostile", &[]).expect("compiles");
    let region = regions(&folder).remove(0);
    let range = |name: &str| (observed(&region, name).min, observed(&region, name).max);
    assert_eq!((range("x"), range("a"), range("y")), ((1.0, 2.0), (-10.0, 6.0), (-5.0, 42.0)));
    folder.write("model.onnx", model("Relu"));
    let error = compile_in_process(&folder, Counting::default(), "hostile", &[]).expect_err("it takes no Relu");
    assert_eq!(
        error.to_string(),
        "[B705] calibration: no backend of the list hostile takes node 'make_y' (Relu): hostile: no pattern matches. What a \
         calibrated region depends on has to run on a host backend: end the list with one that takes it"
    );
}

/// Each entry takes its own inputs from the data set.
#[test]
fn entries_share_a_data_set() {
    let entry = |input: &str| {
        let model = Model::default().input(input, Type::Float, &[1, 2]).node("Relu", &[input], &["y"]);
        model.output("y", Type::Float, &[1, 2]).finish()
    };
    let folder = Folder::empty();
    folder.write("one.onnx", entry("left"));
    folder.write("two.onnx", entry("right"));
    let (left, right) = (Tensor::f32(&[1, 2], &[1.0, 2.0]), Tensor::f32(&[2, 2], &[3.0, 4.0, 5.0, 6.0]));
    npz::write(&folder.path().join("data.npz"), &[("right", &right), ("left", &left)]);
    let plugin = calibrated();
    let models = ["compile", "one.onnx", "two.onnx", "-o", "model.byoc", "--dataset", "data.npz"];
    folder.byoc(&[&models[..], &["--plugin", &plugin, "--backend", "calibrated"]].concat()).success();
    let all = regions(&folder);
    let found: Vec<_> = all.iter().map(|region| (region.symbol.as_str(), observed(region, "y").max)).collect();
    assert_eq!(found, [("byoc_one_calibrated_0", 2.0), ("byoc_two_calibrated_0", 6.0)]);
    assert!(all.iter().all(|region| region.covers_entry));
}

#[test]
fn only_code_generation_needs_the_data() {
    let folder = Folder::empty();
    folder.write("model.onnx", elements().finish());
    let needed = "error: [B704] backend 'calibrated' needs a data set to choose the ranges of region byoc_main_calibrated_0\n  \
                  hint: Give byoc compile --dataset DIR or --dataset FILE.npz with samples of the model's inputs";
    compile(&folder, &[]).fails(2, needed);
    for stage in ["codegen", "ownership"] {
        compile(&folder, &["--stop-after", stage]).fails(2, needed);
    }
    compile(&folder, &["--stop-after", "partition"]).success();
    let plugin = calibrated();
    folder.byoc(&["explain", "model.onnx", "--plugin", &plugin, "--backend", "calibrated"]).success();
    assert_eq!(byoc_tests::places::list(folder.path()), ["model.onnx"]);
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[1, 4], &[0.0; 4]))]);
    compile(&folder, &["--dataset", "data.npz", "--stop-after", "codegen"]).success();
    let unused = folder.byoc(&["compile", "model.onnx", "-o", "plain.byoc", "--dataset", "data.npz"]);
    unused.success();
    assert_eq!(
        unused.stderr,
        "warning: [B901] the data set 'data.npz' is not used: no backend of a region asks for one\n  hint: Leave it out, \
         or see byoc explain for who takes which node\n"
    );
}

#[test]
fn what_cannot_be_observed_is_told() {
    let folder = Folder::empty();
    folder.write("model.onnx", elements().finish());
    let data = |values: &[f32]| npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 4], values))]);
    let (mut nan, mut large) = ([0.0; 8], [0.0; 8]);
    (nan[5], large[4]) = (f32::NAN, 3e38);
    data(&nan);
    compile(&folder, &["--dataset", "data.npz"]).fails(
        2,
        "error: [B701] input 'x' holds NaN in sample '1' of the data set 'data.npz'\n  hint: Leave the sample out, or make \
         its numbers finite",
    );
    data(&large);
    compile(&folder, &["--dataset", "data.npz"]).fails(
        1,
        "error: [B705] value 'product' becomes inf on sample '1' of the data set 'data.npz'\n  hint: Is the sample scaled as \
         the model wants it? A range must be finite",
    );
    let open = Model::default().input("x", Type::Float, &[-1, 2]).node("Relu", &["x"], &["y"]);
    folder.write("model.onnx", open.output("y", Type::Float, &[-1, 2]).finish());
    data(&[0.0; 8]);
    compile(&folder, &["--dataset", "data.npz"]).fails(
        1,
        "error: [B705] calibration needs fixed sizes, and value 'x' is f32[batch,2]\n  hint: Fix the open sizes with \
         --shape or --dim, as in --dim batch=1",
    );
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 2], &[0.0; 4]))]);
    compile(&folder, &["--dataset", "data.npz", "--dim", "batch=1"]).success();
    let told = Model::default().input("x", Type::Float, &[2, 2]).input("s", Type::Int64, &[2]);
    let told = told.node("Reshape", &["x", "s"], &["r"]).node("Relu", &["r"], &["y"]);
    folder.write("model.onnx", told.output("y", Type::Float, &[-1, -1]).finish());
    compile(&folder, &["--dataset", "data.npz"]).fails(
        1,
        "error: [B705] calibration needs fixed sizes, and value 'r' is f32[make_r_size0,make_r_size1]\n  hint: Only a run tells \
         that size: leave out of --backend what needs a data set behind it",
    );
}
