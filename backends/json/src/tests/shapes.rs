//! Symbolic, empty and odd shapes.

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::{self, Limit, RegionBuilder, Tensor, assert_close};

use super::harness::{calls, check, compile, empty, run};

/// A product over rows that are counted as `batch*4` in between.
fn mlp() -> RegionBuilder {
    let mut net = empty();
    let x = net.input("[batch,4,8]");
    let (w, bias) = (net.weight([8, 16]), net.weight([16]));
    let flat = net.ints(&[-1, 8]);
    let rows = net.node("Reshape", &[x, flat], "[batch*4,8]", &[]);
    let y = net.node("Gemm", &[rows, w, bias], "[batch*4,16]", &[]);
    let y = net.node("Relu", &[y], "[batch*4,16]", &[]);
    let back = net.ints(&[-1, 4, 16]);
    let out = net.node("Reshape", &[y, back], "[batch,4,16]", &[]);
    net.output(out);
    net
}

#[test]
fn one_executable_serves_every_batch_size() {
    let net = mlp();
    let compiled = compile(&net, &[]);
    assert_eq!(compiled.claims.words()[0], "packed", "whatever the number of rows");
    let mut executable = compiled.load(2).expect("load");
    for size in [3, 1, 0, 7, 3] {
        let symbols = [("batch", size)];
        let found = testing::run(&net, executable.as_mut(), &net.inputs(1, &symbols), &symbols).expect("run");
        let expected = &run(&net, &[("kernels", "reference")], 1, &symbols)[0];
        assert_close(&format!("batch {size}"), &found[0].numbers(), expected, Limit::of_largest(1e-4, expected));
    }
}

#[test]
fn a_convolution_net_takes_a_symbolic_batch() {
    let mut net = empty();
    let x = net.input("[n,3,8,8]");
    let weights = net.weight([16, 3, 3, 3]);
    let pads = [("pads", Attribute::Ints(vec![1; 4]))];
    let y = net.node("Conv", &[x, weights], "[n,16,8,8]", &pads);
    let y = net.node("Relu", &[y], "[n,16,8,8]", &[]);
    let y = net.node("GlobalAveragePool", &[y], "[n,16,1,1]", &[]);
    let shape = net.ints(&[-1, 16]);
    let y = net.node("Reshape", &[y, shape], "[n,16]", &[]);
    net.output(y);
    for size in [1, 2, 5] {
        check(&net, &[("n", size)]);
    }
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let mut net = empty();
    let (a, b) = (net.input("[n,2]"), net.input("[n,2]"));
    let sum = net.node("Add", &[a, b], "[n,2]", &[]);
    net.output(sum);
    let compiled = compile(&net, &[]);
    let [two, one] = [[2, 2], [1, 2]].map(|sizes: [usize; 2]| Tensor::new(sizes, &vec![0.0; 2 * sizes[0]]));
    assert!(compiled.run(&[two.clone(), two.clone()], &[("n", 2)]).is_ok());
    let mut executable = compiled.load(1).expect("load");
    let error = executable.run(&[two.view(), one.view()], &mut []).expect_err("contradiction");
    assert!(error.message.contains('n'), "{}", error.message);
}

#[test]
fn empty_tensors_pass_through_every_kind_of_step() {
    let mut net = empty();
    let x = net.input([0, 16, 4, 4]);
    let conv = net.conv(x, 16, 3, 1, 1);
    let relu = net.node("Relu", &[conv], [0, 16, 4, 4], &[]);
    let mean = net.node("GlobalAveragePool", &[relu], [0, 16, 1, 1], &[]);
    net.output(mean);
    check(&net, &[]);
    let mut net = empty();
    let (x, none) = (net.input([3, 0]), net.input([0, 5]));
    let product = net.node("MatMul", &[x, none], [3, 5], &[]);
    let y = net.input([3, 5]);
    let all = net.node("Concat", &[product, x, y], [3, 10], "axis=1");
    net.output(all);
    check(&net, &[]);
}

#[test]
fn products_broadcast_over_two_batch_dimensions() {
    let cases: [([&[usize]; 2], &[usize]); 5] = [
        ([&[2, 3, 4, 5], &[2, 3, 5, 6]], &[2, 3, 4, 6]),
        ([&[2, 3, 4, 5], &[3, 5, 6]], &[2, 3, 4, 6]),
        ([&[2, 1, 4, 5], &[1, 3, 5, 6]], &[2, 3, 4, 6]),
        ([&[4, 5], &[2, 3, 5, 6]], &[2, 3, 4, 6]),
        ([&[2, 3, 4, 5], &[5, 6]], &[2, 3, 4, 6]),
    ];
    for ([a, b], out) in cases {
        let mut net = empty();
        let (a, b) = (net.input(a), net.input(b));
        let product = net.node("MatMul", &[a, b], out, &[]);
        net.output(product);
        assert_eq!(calls(&net), ["gemm"]);
        check(&net, &[]);
    }
}

#[test]
fn movements_agree_with_the_reference() {
    let mut net = empty();
    let x = net.input([3, 4, 5]);
    let [starts, ends, axes, steps] = [[-1, 1], [-9, 4], [2, 1], [-2, 1]].map(|values| net.ints(&values));
    let cut = net.node("Slice", &[x, starts, ends, axes, steps], [3, 3, 3], &[]);
    let perm = [("perm", Attribute::Ints(vec![2, 0, 1]))];
    let turned = net.node("Transpose", &[cut], [3, 3, 3], &perm);
    let indices = net.ints(&[2, -3, 0, 1]);
    let rows = net.node("Gather", &[turned, indices], [3, 4, 3], "axis=1");
    let axes = net.ints(&[1, 2]);
    let mean = net.node("ReduceMean", &[rows, axes], [3, 1, 1], &[]);
    let shape = net.ints(&[3, 2, 4]);
    let wide = net.node("Expand", &[mean, shape], [3, 2, 4], &[]);
    net.output(wide);
    check(&net, &[]);
}

#[test]
fn inputs_and_constants_may_be_outputs() {
    let mut net = empty();
    let (x, c) = (net.input([2, 3]), net.weight([4]));
    let shape = net.ints(&[6]);
    let flat = net.node("Reshape", &[x, shape], [6], &[]);
    let relu = net.node("Relu", &[flat], [6], &[]);
    for value in [x, c, flat, relu, relu] {
        net.output(value);
    }
    check(&net, &[]);
}

#[test]
fn symbols_that_were_taken_as_equal_must_be_equal() {
    let mut net = empty();
    let (a, b) = (net.input("[A,B]"), net.input("[C,D]"));
    let sum = net.node("Add", &[a, b], "[A,B]", &[]);
    net.output(sum);
    for (rows, by) in [(0, [("A", 0), ("C", 1)]), (2, [("A", 2), ("C", 2)])] {
        let symbols = [by[0], by[1], ("B", 1), ("D", 3)];
        let shapes = format!("[{rows}, 1], [{}, 3]", by[1].1);
        let computed = format!("computed f32 [{rows}, 3] for an output of f32 [{rows}, 1]");
        for (kernels, what) in
            [("fast", format!("no kernel for the shapes {shapes} to [{rows}, 1]")), ("reference", computed)]
        {
            let compiled = compile(&net, &[("kernels", kernels)]);
            let error = compiled.run(&net.inputs(1, &symbols), &symbols).expect_err("unequal");
            assert_eq!(error.message, format!("{what}: B is 1 and D is 3, which must be equal"));
            assert_eq!(error.node.as_deref(), Some("Add_0"));
            let hint = "Give inputs in which the two are equal, or compile the model for these sizes";
            assert_eq!(error.hint.as_deref(), Some(hint));
        }
    }
    // What broadcasts to the shape that the code was compiled for is not a mistake.
    let symbols = [("A", 0), ("B", 3), ("C", 1), ("D", 1)];
    assert_eq!(run(&net, &[], 1, &symbols), [Vec::<f64>::new()]);
}

#[test]
fn a_window_too_large_for_the_kernels_is_left_to_the_reference() {
    let mut net = empty();
    let x = net.input([1, 2, 5, 5]);
    let kernel = ("kernel_shape", Attribute::Ints(vec![i64::from(i32::MAX); 2]));
    let pads = ("pads", Attribute::Ints(vec![i64::from(i32::MAX / 2); 4]));
    let pool = net.node("MaxPool", &[x], [1, 2, 5, 5], &[kernel, pads]);
    net.output(pool);
    assert_eq!(calls(&net), ["reference"]);
    check(&net, &[]);
}
