//! Values of 16 bits: computed as f32, stored as they are.

use byoc_plugin_api::testing::{self, Limit, RegionBuilder, Tensor, assert_close};
use byoc_plugin_api::{Attribute, DType};

use super::harness::{calls, check, compile, empty, json};

const NARROW: [DType; 2] = [DType::F16, DType::BF16];

/// What a rounding to this type is in proportion to a number.
fn rounding(dtype: DType) -> f64 {
    if dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) }
}

fn results(net: &RegionBuilder, inputs: &[Tensor], settings: &[(&str, &str)], threads: usize) -> Vec<Vec<f64>> {
    let compiled = compile(net, settings);
    let mut executable = compiled.load(threads).expect("load");
    testing::run(net, executable.as_mut(), inputs, &[]).expect("run").iter().map(Tensor::numbers).collect()
}

/// Compares with the exact results: off by the rounding of the outputs, and by what f32 rounds.
fn close(net: &RegionBuilder) {
    let inputs = net.inputs(1, &[]);
    let exact = net.in_f64();
    let wide: Vec<Tensor> = inputs
        .iter()
        .zip(&exact.region.inputs)
        .map(|(input, &value)| input.cast(exact.region.values[value].dtype))
        .collect();
    let expected = results(&exact, &wide, &[("kernels", "reference")], 1);
    for settings in [&[][..], &[("fusion", "false")], &[("pack", "false")]] {
        for threads in [1, 2] {
            let found = results(net, &inputs, settings, threads);
            for ((found, expected), &output) in found.iter().zip(&expected).zip(&net.region.outputs) {
                let dtype = net.region.values[output].dtype;
                let limit = if dtype.is_float() { 1.01 * rounding(dtype) } else { 0.0 };
                let limit = Limit::of_largest(limit, expected);
                assert_close(&format!("{dtype}, {settings:?}, {threads} threads"), found, expected, limit);
            }
        }
    }
}

/// Two layers over `rows` rows.
fn mlp(dtype: DType, rows: usize) -> RegionBuilder {
    let mut net = RegionBuilder::of("json", dtype);
    let x = net.input([rows, 48]);
    let (w, bias) = (net.weight([48, 32]), net.weight([32]));
    let y = net.node("Gemm", &[x, w, bias], [rows, 32], &[]);
    let y = net.node("Relu", &[y], [rows, 32], &[]);
    let w = net.weight([64, 32]);
    let y = net.node("Gemm", &[y, w], [rows, 64], &[("transB", Attribute::Int(1))]);
    net.output(y);
    net
}

#[test]
fn products_read_weights_of_16_bits() {
    for dtype in NARROW {
        for rows in [1, 3, 20] {
            let net = mlp(dtype, rows);
            // The bias is so small that it may as well be stored as f32.
            assert_eq!(calls(&net), ["convert", "gemm", "gemm", "convert"]);
            let compiled = compile(&net, &[]);
            assert_eq!(compiled.claims.words(), ["packed", "packed", "packed"]);
            let packed: Vec<_> =
                compiled.claims.packed().iter().map(|(packed, bytes)| (packed.dtype, bytes.len())).collect();
            assert_eq!(packed, [(dtype, 2 * 48 * 32), (DType::F32, 4 * 32), (dtype, 2 * 32 * 64)]);
            close(&net);
        }
    }
}

#[test]
fn images_are_computed_as_f32() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([1, 32, 12, 12]);
        let y = net.conv(x, 64, 3, 1, 1);
        let y = net.norm(y);
        let y = net.like("Relu", &[y], "");
        let shortcut = y;
        let y = net.conv(y, 64, 1, 1, 1);
        let y = net.node("Add", &[y, shortcut], [1, 64, 12, 12], &[]);
        let y = net.node("GlobalAveragePool", &[y], [1, 64, 1, 1], &[]);
        net.output(y);
        let calls = calls(&net);
        assert_eq!(calls.iter().filter(|call| *call == "convert").count(), 2, "{calls:?}");
        assert!(!calls.contains(&"reference".to_owned()), "{calls:?}");
        // All filters are stored as the kernel reads them: a normalisation becomes factors.
        let compiled = compile(&net, &[]);
        let packed = compiled.claims.packed();
        for len in [9 * 32 * 64, 64 * 64] {
            let filters = packed.iter().any(|(packed, bytes)| packed.dtype == dtype && bytes.len() == 2 * len);
            assert!(filters, "{len} {:?}", compiled.claims.words());
        }
        close(&net);
    }
}

/// More than a megabyte of filters, which all threads widen when the code is loaded.
#[test]
fn filters_are_widened_by_all_threads() {
    let mut net = RegionBuilder::of("json", DType::F16);
    let x = net.input([1, 256, 4, 4]);
    let w = net.weight([256, 512, 2, 2]);
    let y = net.node("ConvTranspose", &[x, w], [1, 512, 5, 5], &[]);
    let w = net.weight([512, 64, 1, 1]);
    let y = net.node("ConvTranspose", &[y, w], [1, 64, 5, 5], &[]);
    net.output(y);
    assert_eq!(compile(&net, &[]).claims.words(), ["host", "host"]);
    let inputs = net.inputs(1, &[]);
    let one = results(&net, &inputs, &[], 1);
    for threads in [2, 3] {
        assert_eq!(results(&net, &inputs, &[], threads), one, "{threads} threads");
    }
    close(&net);
}

/// What moves f32 in between stays f32; what moves elements before anything is computed moves them as they are.
#[test]
fn movements_follow_what_is_computed() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([4, 6, 8]);
        let y = net.node("Transpose", &[x], [6, 4, 8], &[("perm", Attribute::Ints(vec![1, 0, 2]))]);
        let y = net.like("Exp", &[y], "");
        let z = net.node("Transpose", &[y], [4, 6, 8], &[("perm", Attribute::Ints(vec![1, 0, 2]))]);
        let factor = net.number(0.25);
        let y = net.node("Mul", &[z, factor], [4, 6, 8], &[]);
        net.output(y);
        assert_eq!(calls(&net), ["transpose", "convert", "unary", "transpose", "binary", "convert"]);
        close(&net);
    }
}

/// An operator without a kernel of f32 reads what the region's type holds.
#[test]
fn comparisons_see_rounded_numbers() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([4]);
        let (small, one) = (net.number(rounding(dtype) / 4.0), net.number(1.0));
        // 1 and a little is 1 in 16 bits.
        let zero = net.node("Sub", &[x, x], [4], &[]);
        let near = net.node("Add", &[zero, small], [4], &[]);
        let near = net.node("Add", &[near, one], [4], &[]);
        let same = net.node("Equal", &[near, one], (DType::Bool, [4]), &[]);
        net.output(same);
        assert_eq!(results(&net, &net.inputs(1, &[]), &[], 1), [[1.0; 4]]);
    }
}

/// Casts that the model asks for round; one of what is f32 already is a view.
#[test]
fn casts_round_where_the_model_says_so() {
    for (dtype, code) in [(DType::F16, 10), (DType::BF16, 16)] {
        let mut net = empty();
        let x = net.input([300]);
        let half = net.node("Cast", &[x], (dtype, [300]), &[("to", Attribute::Int(code))]);
        let negative = net.node("Neg", &[half], (dtype, [300]), &[]);
        let y = net.node("Cast", &[negative], (DType::F32, [300]), &[("to", Attribute::Int(1))]);
        net.output(y);
        assert_eq!(calls(&net), ["convert", "convert", "unary", "view"]);
        let inputs = net.inputs(1, &[]);
        let expected: Vec<f64> = inputs[0].numbers().iter().map(|&x| -testing::rounded(dtype, x)).collect();
        assert_eq!(results(&net, &inputs, &[], 1), [expected]);
    }
}

/// An embedding whose rows are the columns of the product at the end is packed for it, and its rows come out of the panels.
#[test]
fn a_tied_embedding_is_packed_once() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for index in [DType::I64, DType::I32] {
            let mut net = RegionBuilder::of("json", dtype);
            let ids = net.numbers((index, [1, 3]), &[5.0, -1.0, 39.0]);
            let wte = net.weight([40, 24]);
            let x = net.input([1, 3, 24]);
            let rows = net.node("Gather", &[wte, ids], [1, 3, 24], &[]);
            net.output(rows);
            let sum = net.node("Add", &[rows, x], [1, 3, 24], &[]);
            let flat = net.ints(&[3, 24]);
            let flat = net.node("Reshape", &[sum, flat], [3, 24], &[]);
            let y = net.node("Gemm", &[flat, wte], [3, 40], &[("transB", Attribute::Int(1))]);
            net.output(y);
            let words = compile(&net, &[]).claims.words();
            assert_eq!(words, ["embedded", "packed", "unused"], "{dtype}");
            match dtype {
                DType::F32 => check(&net, &[]),
                _ => close(&net),
            }
        }
    }
}

/// The gates of a recurrent layer keep their 16 bits in the file too.
#[test]
fn recurrent_layers_are_computed_as_f32() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([5, 2, 32]);
        let (w, r, b) = (net.weight([1, 128, 32]), net.weight([1, 128, 32]), net.weight([1, 256]));
        let names = ["Sigmoid", "Tanh", "Tanh"].map(String::from).to_vec();
        let attributes = [("hidden_size", Attribute::Int(32)), ("activations", Attribute::Strings(names))];
        let y = net.node("LSTM", &[x, w, r, b], [5, 1, 2, 32], &attributes);
        net.output(y);
        assert_eq!(calls(&net), ["convert", "recurrent", "convert"]);
        let packed = compile(&net, &[]);
        let packed: Vec<_> = packed.claims.packed().iter().map(|(packed, _)| packed.dtype).collect();
        assert_eq!(packed[..2], [dtype; 2]);
        close(&net);
    }
}

/// With the option, weights of f32 are rounded and nothing else is: as if the model had the rounded ones.
#[test]
fn weights_are_rounded_where_the_user_says_so() {
    for dtype in NARROW {
        for rows in [1, 20] {
            let net = mlp(DType::F32, rows);
            let name = dtype.to_string();
            let settings = [("weights", name.as_str())];
            let packed = compile(&net, &settings);
            let packed: Vec<_> =
                packed.claims.packed().iter().map(|(packed, bytes)| (packed.dtype, bytes.len())).collect();
            assert_eq!(packed, [(dtype, 2 * 48 * 32), (dtype, 2 * 32 * 64)]);
            let mut rounded = net.clone();
            for matrix in [0, 2] {
                rounded.refill(matrix, net.constants[matrix].cast(dtype).cast(DType::F32));
            }
            let inputs = net.inputs(1, &[]);
            assert_eq!(results(&net, &inputs, &settings, 2), results(&rounded, &inputs, &[], 2), "{dtype}");
            assert_ne!(results(&net, &inputs, &settings, 2), results(&net, &inputs, &[], 2), "{dtype}");
        }
    }
}

/// With 8 bits, a scale for each column: a quarter of the bytes, and the same results on any number of threads.
#[test]
fn weights_of_8_bits() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for rows in [1, 20] {
            let net = mlp(dtype, rows);
            let settings = [("weights", "int8")];
            let compiled = compile(&net, &settings);
            let packed = compiled.claims.packed().into_iter().filter(|(packed, _)| packed.dtype == DType::I8);
            let sizes: Vec<_> = packed.map(|(packed, bytes)| (packed.layout.as_str(), bytes.len())).collect();
            assert_eq!(sizes, [("gemm/n8k4-scaled/1", 48 * 32 + 8 * 32), ("gemm/n8k4-scaled/1", 32 * 64 + 8 * 64)]);
            let inputs = net.inputs(1, &[]);
            let found = results(&net, &inputs, &settings, 1);
            assert_eq!(found, results(&net, &inputs, &settings, 2));
            let expected = results(&net, &inputs, &[], 1);
            assert_ne!(found, expected);
            assert_close(
                &format!("{dtype}, {rows} rows"),
                &found[0],
                &expected[0],
                Limit::of_largest(1e-2, &expected[0]),
            );
        }
    }
}

#[test]
fn weights_that_would_become_infinite_are_not_rounded() {
    for (largest, dtype, expected) in [
        (65504.0, "f16", DType::F16),
        (65536.0, "f16", DType::F32),
        (65536.0, "bf16", DType::BF16),
        (f64::from(f32::MAX), "bf16", DType::F32),
        (f64::INFINITY, "f16", DType::F16),
        (f64::INFINITY, "int8", DType::F32),
        (2e30, "int8", DType::F32),
        (1e30, "int8", DType::I8),
    ] {
        let mut net = empty();
        let x = net.input([2, 48]);
        let mut numbers = vec![0.5; 48 * 32];
        numbers[77] = -largest;
        let w = net.numbers([48, 32], &numbers);
        let y = net.node("MatMul", &[x, w], [2, 32], &[]);
        net.output(y);
        let compiled = compile(&net, &[("weights", dtype)]);
        assert_eq!(compiled.claims.packed()[0].0.dtype, expected, "{largest} as {dtype}");
    }
}

/// New keys are put behind a cache in the type of the cache: it is not widened to be moved.
#[test]
fn a_cache_is_moved_as_it_is() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let (past, x) = (net.input([1, 40, 8]), net.input([1, 1, 8]));
        let new = net.node("Exp", &[x], [1, 1, 8], &[]);
        let present = net.node("Concat", &[past, new], [1, 41, 8], &[("axis", Attribute::Int(1))]);
        net.output(present);
        assert_eq!(calls(&net), ["convert", "unary", "convert", "concat"]);
        close(&net);
    }
}

/// A Gelu as it is written out, whose constants are rounded.
#[test]
fn rounded_constants_of_a_gelu_are_known() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([3, 40]);
        let (root, one, half) = (net.number(2f64.sqrt()), net.number(1.0), net.number(0.5));
        let inner = net.like("Div", &[x, root], "");
        let inner = net.like("Erf", &[inner], "");
        let inner = net.like("Add", &[inner, one], "");
        let y = net.like("Mul", &[x, inner], "");
        let y = net.like("Mul", &[y, half], "");
        net.output(y);
        assert_eq!(calls(&net), ["convert", "unary", "convert"]);
        close(&net);
    }
}

/// So many elements that each thread converts a part.
#[test]
fn threads_convert_parts() {
    for dtype in NARROW {
        let mut net = RegionBuilder::of("json", dtype);
        let x = net.input([50_001]);
        let y = net.like("Neg", &[x], "");
        net.output(y);
        let inputs = net.inputs(1, &[]);
        let expected: Vec<f64> = inputs[0].numbers().iter().map(|x| -x).collect();
        for threads in [1, 3] {
            assert_eq!(results(&net, &inputs, &[], threads), [&expected[..]]);
        }
    }
}

/// A product that core computes when it compiles is exact, whatever weights are stored as.
#[test]
fn what_is_computed_at_compile_time_is_not_rounded() {
    let mut net = empty();
    let (a, b) = (net.weight([48, 48]), net.weight([48, 32]));
    let y = net.node("MatMul", &[a, b], [48, 32], &[]);
    net.output(y);
    for name in ["bf16", "int8"] {
        assert_eq!(results(&net, &[], &[("weights", name)], 1), results(&net, &[], &[], 1));
    }
}

#[test]
fn weights_that_are_not_packed_are_not_rounded_in_silence() {
    let net = mlp(DType::F32, 1);
    let error = net.compile(json(), &[("weights", "f16"), ("pack", "false")]).err().expect("an error");
    assert_eq!(error.message, "the options weights and pack=false exclude each other");
}

/// Rows of a tied embedding that is rounded are widened as they are taken; an index that is out of range is an error.
#[test]
fn rows_of_a_rounded_embedding() {
    for (dtype, settings) in [(DType::F16, [("weights", "f16")]), (DType::BF16, [("weights", "bf16")])] {
        let mut net = empty();
        let ids = net.input((DType::I64, [2]));
        let wte = net.weight([40, 24]);
        let rows = net.node("Gather", &[wte, ids], [2, 24], &[]);
        net.output(rows);
        let x = net.input([1, 24]);
        let y = net.node("Gemm", &[x, wte], [1, 40], &[("transB", Attribute::Int(1))]);
        net.output(y);
        let x = Tensor::new([1, 24], &[0.5; 24]);
        let run = |ids: [f64; 2]| {
            let compiled = compile(&net, &settings);
            compiled.run(&[Tensor::new((DType::I64, [2]), &ids), x.clone()], &[])
        };
        let all = net.constants[0].cast(dtype).numbers();
        let expected = [&all[39 * 24..], &all[3 * 24..4 * 24]].concat();
        assert_eq!(run([-1.0, 3.0]).expect("runs")[0].numbers(), expected);
        let error = run([40.0, 0.0]).expect_err("an error");
        assert_eq!(error.message, "index 40 is out of range for 40 elements");
    }
}

/// Rows of one of 8 bits are scaled as they are taken: off by half of what is between two integers.
#[test]
fn rows_of_an_embedding_of_8_bits() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let mut net = RegionBuilder::of("json", dtype);
        let ids = net.input((DType::I64, [2]));
        let wte = net.weight([39, 22]);
        let rows = net.node("Gather", &[wte, ids], [2, 22], &[]);
        net.output(rows);
        let x = net.input([1, 22]);
        let y = net.node("Gemm", &[x, wte], [1, 39], &[("transB", Attribute::Int(1))]);
        net.output(y);
        let compiled = compile(&net, &[("weights", "int8")]);
        assert_eq!(compiled.claims.words(), ["packed"]);
        let x = Tensor::new((dtype, [1, 22]), &[0.5; 22]);
        let found = compiled.run(&[Tensor::new((DType::I64, [2]), &[-1.0, 3.0]), x], &[]).expect("runs");
        let all = net.constants[0].numbers();
        for (row, found) in [&all[38 * 22..], &all[3 * 22..4 * 22]].into_iter().zip(found[0].numbers().chunks(22)) {
            let most = row.iter().fold(0f64, |most, number| most.max(number.abs()));
            let rounding = if dtype == DType::F32 { 1e-6 } else { rounding(dtype) };
            for (number, found) in row.iter().zip(found) {
                assert!((number - found).abs() <= most * (0.5 / 127.0 + rounding), "{dtype}: {found} for {number}");
            }
        }
    }
}
