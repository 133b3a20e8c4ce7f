//! Regions in which values meet in other ways than one after another, and random ones.

use byoc_plugin_api::testing::Rng;
use byoc_plugin_api::{Attribute, DType};

use super::fixture::{Net, check, kernels_of};

/// A result of which another result is a part, and one that is read along another axis than it is folded.
#[test]
fn parts_of_results() {
    let mut nets = Vec::new();
    for named in [false, true] {
        let mut net = Net::new(named);
        let x = net.input(DType::F32, &[2, 7, 12]);
        let (scale, shift) = (net.constant(DType::F32, &[12]), net.constant(DType::F32, &[12]));
        let normed = net.node(("LayerNormalization", &[]), &[x, scale, shift]);
        let zero = net.constant_of(DType::I64, &[], &[0.0]);
        let first = net.node(("Gather", &[("axis", Attribute::Int(1))]), &[normed, zero]);
        net.output(normed).output(first);
        nets.push(("part of a norm".to_owned(), net));
        let mut net = Net::new(named);
        let x = net.input(DType::F32, &[7, 12]);
        let weights = net.node(("Softmax", &[]), &[x]);
        let axes = net.ints(&[0]);
        let mean = net.node(("ReduceMean", &[]), &[weights, axes]);
        let centred = net.node(("Sub", &[]), &[weights, mean]);
        let turned = net.node(("Transpose", &[]), &[centred]);
        let again = net.node(("Softmax", &[]), &[turned]);
        net.output(again);
        nets.push(("folds along both axes".to_owned(), net));
        let mut net = Net::new(named);
        let x = net.input(DType::F32, &[3, 7]);
        let exp = net.node(("Exp", &[]), &[x]);
        let sum = net.node(("ReduceSum", &[]), &[exp]);
        let share = net.node(("Div", &[]), &[exp, sum]);
        let rows = net.node(("Softmax", &[]), &[exp]);
        net.output(exp).output(share).output(rows);
        nets.push(("one of several".to_owned(), net));
    }
    check(&nets);
}

/// Transpositions go through tiles in shared memory, with what comes before and after them; tiles at the edges are not whole.
#[test]
fn transpositions_by_tiles() {
    let mut nets = Vec::new();
    let cases: [(&[usize], &[i64]); 8] = [
        (&[2, 67, 35], &[0, 2, 1]),
        (&[35, 130], &[1, 0]),
        (&[2, 21, 5, 14], &[0, 2, 3, 1]),
        (&[2, 5, 14, 21], &[0, 3, 1, 2]),
        (&[3, 17, 1, 49], &[3, 0, 2, 1]),
        (&[17, 2, 3, 33], &[3, 1, 2, 0]),
        (&[16, 16, 16], &[2, 1, 0]),
        // Too few columns for tiles.
        (&[2, 40, 15], &[0, 2, 1]),
    ];
    for (shape, perm) in cases {
        for (dtype, named) in [(DType::F16, false), (DType::F32, true), (DType::U8, false), (DType::F64, false)] {
            let mut net = Net::new(named);
            let perm = ("Transpose", &[("perm", Attribute::Ints(perm.to_vec()))][..]);
            let x = net.input(dtype, shape);
            let plain = net.node(perm, &[x]);
            net.output(plain);
            if dtype.is_float() {
                let (tanh, other) = (net.node(("Tanh", &[]), &[x]), net.input(dtype, shape));
                let (turned, beside) = (net.node(perm, &[tanh]), net.node(perm, &[other]));
                let scale = net.constant(dtype, &[*net.shape(turned).last().expect("it has axes")]);
                let sum = net.node(("Add", &[]), &[turned, beside]);
                let scaled = net.node(("Mul", &[]), &[sum, scale]);
                net.output(scaled);
            }
            nets.push((format!("{perm:?} of {dtype} {shape:?}"), net));
        }
    }
    // A part of an operand, whose index along one of two joined axes is computed.
    let mut net = Net::new(false);
    let perm = ("Transpose", &[("perm", Attribute::Ints(vec![2, 0, 1]))][..]);
    let (whole, same) = (net.input(DType::F16, &[5, 20, 33]), net.input(DType::F16, &[4, 20, 33]));
    let (starts, ends) = (net.ints(&[1]), net.ints(&[5]));
    let part = net.node(("Slice", &[]), &[whole, starts, ends]);
    let (part, same) = (net.node(perm, &[part]), net.node(perm, &[same]));
    let sum = net.node(("Add", &[]), &[part, same]);
    net.output(sum);
    nets.push(("a part beside a whole".into(), net));
    let mut net = Net::new(false);
    let (x, rows, one) =
        (net.input(DType::F32, &[7, 20, 34]), net.input(DType::F32, &[7, 20, 34]), net.input(DType::F32, &[7, 1, 34]));
    let indices = net.input_of(DType::I64, &[7, 20, 34], &[0.0, 3.0, -1.0, 19.0].repeat(7 * 5 * 34));
    let picked = net.node(("GatherElements", &[("axis", Attribute::Int(1))]), &[x, indices]);
    let (picked, rows, one) = (net.node(perm, &[picked]), net.node(perm, &[rows]), net.node(perm, &[one]));
    let sum = net.node(("Add", &[]), &[picked, rows]);
    let sum = net.node(("Add", &[]), &[sum, one]);
    net.output(sum);
    nets.push(("an operand by index, and one of fewer rows".into(), net));
    let mut net = Net::new(false);
    let numbers = net.input(DType::I64, &[2, 40, 70]);
    let halves = net.node(("Cast", &[("to", Attribute::Int(10))]), &[numbers]);
    let turned = net.node(("Transpose", &[("perm", Attribute::Ints(vec![0, 2, 1]))]), &[halves]);
    net.output(turned);
    nets.push(("wide numbers to narrow ones".into(), net));
    let tiled = |(_, net): &&(String, Net)| {
        net.fuse().source.is_some_and(|source| kernels_of(&source.text).contains("__shared__"))
    };
    let by_tiles = nets.iter().filter(tiled).count();
    // All but the four of the last shape, and five in which rows or columns have a name.
    assert_eq!(by_tiles, nets.len() - 4 - 5);
    check(&nets);
}

/// Elements of an axis that is empty at run time are 0, and memory around it is not read.
#[test]
fn parts_of_nothing() {
    for dtype in [DType::F16, DType::I64] {
        let mut net = Net::new(true);
        let (rows, columns) = (net.input(dtype, &[7, 8]), net.input(dtype, &[2, 7]));
        let indices = net.input_of(DType::I64, &[3], &[0.0, -1.0, 6.0]);
        let of_rows = net.node(("Gather", &[]), &[rows, indices]);
        let of_columns = net.node(("Gather", &[("axis", Attribute::Int(1))]), &[columns, indices]);
        let places = net.input_of(DType::I64, &[2, 4], &[0.0, -1.0, 6.0, 3.0, 2.0, 0.0, 1.0, -7.0]);
        let elements = net.node(("GatherElements", &[("axis", Attribute::Int(1))]), &[columns, places]);
        let tuples = net.input_of(DType::I64, &[2, 2], &[0.0, 3.0, 1.0, -1.0]);
        let tuples = net.node(("GatherND", &[]), &[columns, tuples]);
        let widths = net.ints(&[0, 1, 0, 2]);
        let edges = net.node(("Pad", &[("mode", Attribute::String("edge".into()))]), &[columns, widths]);
        net.output(of_rows).output(of_columns).output(elements).output(tuples).output(edges);
        for (output, found) in net.of_nothing().into_iter().enumerate() {
            assert!(!found.is_empty() && found.iter().all(|&element| element == 0.0), "{dtype} {output}: {found:?}");
        }
    }
}

/// Chains of operators that were drawn, in each type, with sizes that have a name in every other one.
#[test]
fn random() {
    let mut nets = Vec::new();
    for seed in 0..120 {
        let mut net = Net::new(seed % 2 == 1);
        net.random = Rng::with_seed(seed);
        let dtype = [DType::F32, DType::F16, DType::BF16][net.draw(3)];
        let sizes = [[2usize, 7, 16], [1, 14, 8], [3, 7, 5], [2, 4, 12]][net.draw(4)];
        let mut known = vec![net.input(dtype, &sizes), net.input(dtype, &sizes)];
        for _ in 0..4 + net.draw(6) {
            let pick = known[net.draw(known.len())];
            let next = step(&mut net, &known, pick);
            known.push(next);
            if net.draw(5) == 0 {
                net.output(next);
            }
        }
        let last = known[known.len() - 1];
        if !net.region.outputs.contains(&last) {
            net.output(last);
        }
        nets.push((format!("random {seed} of {dtype}"), net));
    }
    check(&nets);
}

fn step(net: &mut Net, known: &[usize], x: usize) -> usize {
    let (shape, dtype) = (net.shape(x), net.dtype(x));
    let same: Vec<usize> = known.iter().copied().filter(|&other| net.shape(other) == shape).collect();
    let other = same[net.draw(same.len())];
    let last = shape[shape.len() - 1];
    match net.draw(14) {
        0 => net.node(("Add", &[]), &[x, other]),
        1 => net.node(("Sub", &[]), &[x, other]),
        2 => {
            let scale = net.constant(dtype, &[last]);
            net.node(("Mul", &[]), &[x, scale])
        }
        3 => net.node(("Tanh", &[]), &[x]),
        4 => net.node(("Sigmoid", &[]), &[x]),
        5 => net.node(("Relu", &[]), &[x]),
        6 => {
            let axis = -(net.draw(2) as i64);
            net.node(("Softmax", &[("axis", Attribute::Int(axis))]), &[x])
        }
        7 => {
            let (scale, shift) = (net.constant(dtype, &[last]), net.constant(dtype, &[last]));
            net.node(("LayerNormalization", &[("epsilon", Attribute::Float(0.5))]), &[x, scale, shift])
        }
        8 => {
            let mut perm: Vec<i64> = (0..shape.len() as i64).collect();
            let (a, b) = (net.draw(perm.len()), net.draw(shape.len()));
            perm.swap(a, b);
            net.node(("Transpose", &[("perm", Attribute::Ints(perm))]), &[x])
        }
        9 => reshaped(net, x),
        10 => {
            let axis = net.draw(shape.len());
            let axes = net.ints(&[axis as i64]);
            let mean = net.node(("ReduceMean", &[]), &[x, axes]);
            net.node(("Sub", &[]), &[x, mean])
        }
        11 => {
            let axis = net.draw(shape.len()) as i64;
            net.node(("Concat", &[("axis", Attribute::Int(axis))]), &[x, other])
        }
        12 if last > 2 && last % 7 != 0 => {
            let (starts, ends, axes) = (net.ints(&[1]), net.ints(&[last as i64 - 1]), net.ints(&[-1]));
            net.node(("Slice", &[]), &[x, starts, ends, axes])
        }
        _ => {
            let axes = net.ints(&[shape.len() as i64 - 1]);
            let most = net.node(("ReduceMax", &[]), &[x, axes]);
            net.node(("Sub", &[]), &[most, x])
        }
    }
}

/// The last two axes as one, or the last one as two.
fn reshaped(net: &mut Net, x: usize) -> usize {
    let mut sizes: Vec<i64> = net.shape(x).iter().map(|&size| size as i64).collect();
    let size = sizes.pop().unwrap_or(1);
    let front = sizes.pop().unwrap_or(1);
    let front_or_open = if front % 7 == 0 { -1 } else { front };
    if net.draw(2) == 0 || size % 2 == 1 {
        sizes.push(if front % 7 == 0 || size % 7 == 0 { -1 } else { front * size });
    } else if size % 7 == 0 {
        sizes = vec![-1];
    } else {
        sizes.extend([front_or_open, 2, size / 2]);
    }
    let sizes = net.ints(&sizes);
    net.node(("Reshape", &[]), &[x, sizes])
}
