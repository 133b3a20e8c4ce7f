//! Which regions match attention, and the reasons for others.

use byoc_nvidia::attention::{Effect, Layout, Mask, MatchedAttention, patterns, read};
use byoc_plugin_api::testing::{RegionBuilder, Type};
use byoc_plugin_api::{DType, Dim};

const HEADS: &str = "perm=[0,2,1,3]";
const TURNED: &str = "perm=[0,2,3,1]";

/// An empty region, whose tensors are of this type where nothing else is said.
fn of(dtype: DType) -> RegionBuilder {
    RegionBuilder::of("nvidia", dtype)
}

/// An input of that name.
fn input(model: &mut RegionBuilder, name: &str, ty: impl Into<Type>) -> usize {
    let value = model.input(ty);
    model.region.values[value].name = name.into();
    value
}

fn read_of(model: RegionBuilder, output: usize) -> MatchedAttention {
    read(&model.with(&[output]).region).expect("it is attention")
}

fn refused(model: RegionBuilder, output: usize) -> String {
    read(&model.with(&[output]).region).expect_err("it is not taken").to_string()
}

const WEIGHTS: &str = "[1,12,128,128]";

/// `softmax(q k' / 8 ...) v` of heads of rows, with `masked` between scores and softmax, and with the result in rows.
fn in_rows(model: &mut RegionBuilder, masked: impl FnOnce(&mut RegionBuilder, usize) -> usize) -> usize {
    let [q, k, v] = ["q", "k", "v"].map(|name| input(model, name, "[1,128,12,64]"));
    let q = model.node("Transpose", &[q], "[1,12,128,64]", HEADS);
    let k = model.node("Transpose", &[k], "[1,12,64,128]", TURNED);
    let v = model.node("Transpose", &[v], "[1,12,128,64]", HEADS);
    let scores = model.node("MatMul", &[q, k], WEIGHTS, "");
    let eight = model.number(8.0);
    let scaled = model.node("Div", &[scores, eight], WEIGHTS, "");
    let scores = masked(model, scaled);
    let weights = model.node("Softmax", &[scores], WEIGHTS, "axis=-1");
    let product = model.node("MatMul", &[weights, v], "[1,12,128,64]", "");
    model.node("Transpose", &[product], "[1,128,12,64]", HEADS)
}

#[test]
fn heads_of_rows() {
    let mut model = of(DType::F32);
    let output = in_rows(&mut model, |model, scores| {
        let mask = input(model, "mask", "[1,1,1,128]");
        model.node("Add", &[scores, mask], WEIGHTS, "")
    });
    let form = read_of(model, output);
    let rows = Layout::RowsFirst { width: 768, start: 0 };
    let spec = &form.spec;
    assert_eq!([spec.q, spec.k, spec.v, spec.y], [rows; 4]);
    assert_eq!((spec.heads, spec.kv_heads, spec.size, spec.value_size, spec.scale), (12, 12, 64, 64, 0.125));
    assert_eq!([&spec.batch, &spec.queries, &spec.keys], [&Dim::Fixed(1), &Dim::Fixed(128), &Dim::Fixed(128)]);
    let shape = [1, 1, 1, 128].map(Dim::Fixed);
    assert_eq!(spec.mask, Some(Mask { effect: Effect::Added(DType::F32), shape, short: false }));
    assert_eq!((form.q, form.k, form.v, form.mask), (0, 1, 2, Some(9)));
    assert_eq!((form.output, form.numbers), (output, vec![7]));
}

#[test]
fn booleans_choose_between_scores_and_a_number() {
    for hides in [false, true] {
        let mut model = of(DType::F32);
        let output = in_rows(&mut model, |model, scores| {
            let visible = input(model, "visible", "bool[128,128]");
            let lowest = model.number(f32::MIN.into());
            let inputs = if hides { [visible, lowest, scores] } else { [visible, scores, lowest] };
            model.node("Where", &inputs, WEIGHTS, "")
        });
        let mask = read_of(model, output).spec.mask.expect("it has one");
        assert_eq!(mask.effect, Effect::Fills { hides, fill: f32::MIN });
        assert_eq!(mask.shape, [1, 1, 128, 128].map(Dim::Fixed));
    }
}

/// Scales on both factors, a softmax in f32 of scores in f16, sizes that are not known, and no transposition but that of K.
#[test]
fn heads_as_they_are() {
    let mut model = of(DType::F16);
    let [q, k, v] = [("q", "[b,4,s,32]"), ("k", "[b,4,t,32]"), ("v", "[b,4,t,16]")]
        .map(|(name, shape)| input(&mut model, name, shape));
    let [half, quarter] = [0.5, 0.25].map(|number| model.number(number));
    let q = model.node("Mul", &[q, half], "[b,4,s,32]", "");
    let k = model.node("Transpose", &[k], "[b,4,32,t]", "perm=[0,1,3,2]");
    let k = model.node("Mul", &[quarter, k], "[b,4,32,t]", "");
    let scores = model.node("MatMul", &[q, k], "[b,4,s,t]", "");
    let wide = model.node("Cast", &[scores], "f32[b,4,s,t]", "");
    let mask = input(&mut model, "mask", "f32[b,1,s,t]");
    let masked = model.node("Add", &[mask, wide], "f32[b,4,s,t]", "");
    let weights = model.node("Softmax", &[masked], "f32[b,4,s,t]", "axis=3");
    let narrow = model.node("Cast", &[weights], "[b,4,s,t]", "");
    let output = model.node("MatMul", &[narrow, v], "[b,4,s,16]", "");
    let MatchedAttention { spec, .. } = read_of(model, output);
    assert_eq!([spec.q, spec.k, spec.v, spec.y], [Layout::HeadsFirst; 4]);
    assert_eq!((spec.dtype, spec.scale, spec.size, spec.value_size), (DType::F16, 0.125, 32, 16));
    let [b, s, t] = ["b", "s", "t"].map(|name| Dim::Symbolic(name.into()));
    assert_eq!((&spec.batch, &spec.queries, &spec.keys), (&b, &s, &t));
    let shape = [b, Dim::Fixed(1), s, t];
    assert_eq!(spec.mask, Some(Mask { effect: Effect::Added(DType::F32), shape, short: false }));
}

/// Of scores with three dimensions, the heads are part of the batch.
#[test]
fn one_head_a_batch() {
    let mut model = of(DType::BF16);
    let [q, k, v] = ["q", "k", "v"].map(|name| input(&mut model, name, "[24,50,64]"));
    let mask = input(&mut model, "mask", "[24,50,50]");
    let k = model.node("Transpose", &[k], "[24,64,50]", "perm=[0,2,1]");
    let scores = model.node("MatMul", &[q, k], "[24,50,50]", "");
    let masked = model.node("Add", &[scores, mask], "[24,50,50]", "");
    let weights = model.node("Softmax", &[masked], "[24,50,50]", "");
    let output = model.node("MatMul", &[weights, v], "[24,50,64]", "");
    let MatchedAttention { spec, .. } = read_of(model, output);
    assert_eq!((spec.heads, spec.scale, &spec.batch), (1, 1.0, &Dim::Fixed(24)));
    assert_eq!(spec.mask.expect("it has one").shape, [24, 1, 50, 50].map(Dim::Fixed));
}

/// `Attention` of folded heads, with more heads of Q than of K and V.
fn operator(model: &mut RegionBuilder, attributes: &str, more: &[usize]) -> usize {
    let shapes = [("q", "[2,50,128]"), ("k", "[2,60,64]"), ("v", "[2,60,32]")];
    let heads = shapes.map(|(name, shape)| input(model, name, shape));
    let attributes = format!("q_num_heads=4 kv_num_heads=2 {attributes}");
    model.node("Attention", &[&heads, more].concat(), "[2,50,64]", attributes.as_str())
}

#[test]
fn the_operator() {
    let mut model = of(DType::F16);
    let mask = input(&mut model, "mask", "bool[50,40]");
    let output = operator(&mut model, "is_causal=1 softcap=30.0", &[mask]);
    let MatchedAttention { spec, .. } = read_of(model, output);
    let rows = |width| Layout::RowsFirst { width, start: 0 };
    assert_eq!([spec.q, spec.k, spec.v, spec.y], [rows(128), rows(64), rows(32), rows(64)]);
    assert_eq!((spec.heads, spec.kv_heads, spec.size, spec.value_size), (4, 2, 32, 16));
    assert_eq!((spec.causal, spec.softcap, spec.scale), (true, 30.0, 1.0 / 32f32.sqrt()));
    let effect = Effect::Fills { hides: false, fill: f32::NEG_INFINITY };
    assert_eq!(spec.mask, Some(Mask { effect, shape: [1, 1, 50, 40].map(Dim::Fixed), short: true }));

    let mut model = of(DType::F32);
    let [q, k, v] = ["q", "k", "v"].map(|name| input(&mut model, name, "[2,50,3,16]"));
    let [q, k, v] = [q, k, v].map(|value| model.node("Transpose", &[value], "[2,3,50,16]", HEADS));
    let attention = model.node("Attention", &[q, k, v], "[2,3,50,16]", "scale=0.5");
    let output = model.node("Transpose", &[attention], "[2,50,3,16]", HEADS);
    let MatchedAttention { spec, .. } = read_of(model, output);
    assert_eq!([spec.q, spec.k, spec.v, spec.y], [rows(48); 4]);
    assert_eq!(spec.scale, 0.5);
}

/// Rows of which a node splits three parts of those widths.
fn parts(model: &mut RegionBuilder, input: usize, shapes: [&str; 3]) -> [usize; 3] {
    let parts = model.nodes("Split", &[Some(input)], &shapes.map(Into::into), "axis=-1");
    [parts[0], parts[1], parts[2]]
}

/// Q, K and V are parts of the rows that one product makes, and are read there.
#[test]
fn parts_of_rows() {
    let rows = |start| Layout::RowsFirst { width: 2304, start };
    let mut model = of(DType::F32);
    let product = input(&mut model, "product", "[s,2304]");
    let wide = model.node("Reshape", &[product], "[1,s,2304]", "");
    let parts_of = parts(&mut model, wide, ["[1,s,768]"; 3]);
    let [q, k, v] = parts_of.map(|part| model.node("Reshape", &[part], "[1,s,12,64]", ""));
    let q = model.node("Transpose", &[q], "[1,12,s,64]", HEADS);
    let k = model.node("Transpose", &[k], "[1,12,64,s]", TURNED);
    let v = model.node("Transpose", &[v], "[1,12,s,64]", HEADS);
    let scores = model.node("MatMul", &[q, k], "[1,12,s,s]", "");
    let weights = model.node("Softmax", &[scores], "[1,12,s,s]", "");
    let output = model.node("MatMul", &[weights, v], "[1,12,s,64]", "");
    let MatchedAttention { spec, q, k, v, .. } = read_of(model, output);
    assert_eq!(([spec.q, spec.k, spec.v], [q, k, v]), ([rows(0), rows(768), rows(1536)], [product; 3]));

    // Of the operator, with fewer heads of K and V; what begins where no 16 bytes do is split before.
    let split = |width: &str, shapes: [&str; 3]| {
        let mut model = of(DType::F16);
        let all = input(&mut model, "all", width);
        let inputs = parts(&mut model, all, shapes);
        let heads = "q_num_heads=4 kv_num_heads=2";
        let output = model.node("Attention", &inputs, "[2,50,128]", heads);
        (all, read(&model.with(&[output]).region))
    };
    let (all, form) = split("[2,50,256]", ["[2,50,128]", "[2,50,64]", "[2,50,64]"]);
    let MatchedAttention { spec, q, k, v, .. } = form.expect("it is attention");
    let rows = |start| Layout::RowsFirst { width: 256, start };
    assert_eq!(([spec.q, spec.k, spec.v], [q, k, v]), ([rows(0), rows(128), rows(192)], [all; 3]));
    let (_, form) = split("[2,50,260]", ["[2,50,128]", "[2,50,64]", "[2,50,68]"]);
    let cause = form.expect_err("it is not taken").to_string();
    assert_eq!(cause, "shape: heads of V have 34 columns; supported are multiples of 8 up to 256");
}

#[test]
fn what_is_refused_of_the_operator() {
    let refused_with = |dtype: DType, attributes: &str, more: &[(&str, DType, &str)]| {
        let mut model = of(dtype);
        let more: Vec<_> = more.iter().map(|(name, dtype, shape)| input(&mut model, name, (*dtype, *shape))).collect();
        let output = operator(&mut model, attributes, &more);
        refused(model, output)
    };
    let f32 = DType::F32;
    assert_eq!(refused_with(DType::F64, "", &[]), "type: 'q' is f64; supported are f32, f16 and bf16");
    let mask = ("mask", f32, "[50,60]");
    let past = [mask, ("past_k", f32, "[2,2,9,32]"), ("past_v", f32, "[2,2,9,16]")];
    assert_eq!(refused_with(f32, "", &past), "attribute: the input 'past_key' is given, and the kernel has no cache");
    let window = refused_with(f32, "right_window_size=0", &[]);
    assert_eq!(window, "attribute: 'right_window_size' is 0, and the kernel sees all keys");
    let refused_mask = |dtype, shape| refused_with(f32, "", &[("mask", dtype, shape)]);
    assert_eq!(
        refused_mask(DType::I64, "[50,60]"),
        "type: the mask 'mask' is i64; supported are bool, f32, f16 and bf16"
    );
    assert_eq!(refused_mask(f32, "[s,60]"), "shape: the mask 'mask' is [s,60], and the scores [2,4,50,60]");
    let heads = "q_num_heads=16 kv_num_heads=8";
    assert_eq!(
        refused_with(f32, heads, &[]),
        "shape: heads of V have 4 columns; supported are multiples of 8 up to 256"
    );
    let other = refused_with(f32, "q_num_heads=8", &[]);
    assert_eq!(other, "shape: 'k' does not have the sizes that follow from the other operands");
    let uneven = refused_with(f32, "q_num_heads=1", &[]);
    assert_eq!(uneven, "shape: 1 heads of Q are not a multiple of 2 heads of K and V");
}

#[test]
fn what_is_refused_of_pieces() {
    let mut model = of(DType::F32);
    let output = in_rows(&mut model, |model, scores| model.node("Relu", &[scores], WEIGHTS, ""));
    assert_eq!(refused(model, output), "other: the scores are not from a MatMul");

    let mut model = of(DType::F32);
    let [q, k, v] = [("q", "[1,12,50,64]"), ("k", "[1,12,64,50]"), ("v", "[1,12,50,64]")]
        .map(|(name, shape)| input(&mut model, name, shape));
    let scores = model.node("MatMul", &[q, k], "[1,12,50,50]", "");
    let weights = model.node("Softmax", &[scores], "[1,12,50,50]", "axis=-1");
    let output = model.node("MatMul", &[weights, v], "[1,12,50,64]", "");
    assert_eq!(refused(model, output), "shape: the keys 'k' are stored by columns, and not by a Transpose");

    let mut model = of(DType::F32);
    let weights = input(&mut model, "x", "[4,4]");
    let output = model.node("Softmax", &[weights], "[4,4]", "");
    assert_eq!(refused(model, output), "other: there is no attention");
}

#[test]
fn patterns_are_read() {
    let patterns = patterns();
    let names: Vec<_> = patterns.iter().map(|pattern| pattern.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "attention in pieces with heads of parts of rows to joined rows",
            "attention with heads of parts of rows to joined rows",
            "attention in pieces with heads of parts of rows to rows",
            "attention with heads of parts of rows to rows",
            "attention in pieces with heads of parts of rows",
            "attention with heads of parts of rows",
            "attention in pieces with heads of rows to joined rows",
            "attention with heads of rows to joined rows",
            "attention in pieces with heads of rows to rows",
            "attention with heads of rows to rows",
            "attention in pieces with heads of rows",
            "attention with heads of rows",
            "attention in pieces to joined rows",
            "attention to joined rows",
            "attention in pieces to rows",
            "attention to rows",
            "attention in pieces",
            "attention",
        ]
    );
    patterns.iter().for_each(|pattern| drop(pattern.parse().expect("it is one")));
}
