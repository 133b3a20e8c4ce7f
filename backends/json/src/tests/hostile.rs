//! Tampered code: whatever its numbers say, it is refused with a message, or computes something within its
//! memory. Nothing panics; overflow checks are on in these builds, so nothing wraps either.

use byoc_plugin_api::testing::{Compiled, RegionBuilder, Tensor};
use byoc_plugin_api::{Attribute, DType, Error};
use serde_json::{Value, json};

use super::harness::{call_of, compile, empty};

/// 2^63 + 3: times 2 it wraps to 6.
const HUGE: u64 = (1 << 63) + 3;

fn conv(channels: usize, out: usize, group: usize) -> RegionBuilder {
    let mut net = empty();
    let x = net.input([1, channels, 9, 9]);
    let y = net.conv(x, out, 3, 1, group);
    net.output(y);
    net
}

/// An image large enough for fewer multiplications.
fn winograd() -> RegionBuilder {
    let mut net = empty();
    let x = net.input([1, 16, 16, 16]);
    let y = net.conv(x, 16, 3, 1, 1);
    net.output(y);
    net
}

/// Factors for channels in front of a convolution.
fn gated() -> RegionBuilder {
    let mut net = empty();
    let (x, factors) = (net.input([1, 24, 8, 8]), net.input([1, 24, 1, 1]));
    let scaled = net.node("Mul", &[x, factors], [1, 24, 8, 8], &[]);
    let y = net.conv(scaled, 16, 1, 1, 1);
    net.output(y);
    net
}

fn product() -> RegionBuilder {
    let mut net = empty();
    let x = net.input([6, 8]);
    let w = net.weight([8, 40]);
    let y = net.node("MatMul", &[x, w], [6, 40], &[]);
    net.output(y);
    net
}

fn pools() -> RegionBuilder {
    let mut net = empty();
    let x = net.input([1, 4, 9, 9]);
    let norm = net.norm(x);
    let kernel = [("kernel_shape", Attribute::Ints(vec![2, 2]))];
    let y = net.node("MaxPool", &[norm], [1, 4, 8, 8], &kernel);
    let y = net.node("LRN", &[y], [1, 4, 8, 8], "size=3");
    net.output(y);
    net
}

fn movements() -> RegionBuilder {
    let mut net = empty();
    let x = net.input([3, 4, 5]);
    let [starts, ends, axes, steps] = [[-1, 1], [-9, 4], [2, 1], [-2, 1]].map(|values| net.ints(&values));
    let cut = net.node("Slice", &[x, starts, ends, axes, steps], [3, 3, 3], &[]);
    let turned = net.node("Transpose", &[cut], [3, 3, 3], "perm=[2,0,1]");
    let indices = net.ints(&[2, -3, 0, 1]);
    let rows = net.node("Gather", &[turned, indices], [3, 4, 3], "axis=1");
    let soft = net.node("Softmax", &[rows], [3, 4, 3], "axis=1");
    let axes = net.ints(&[1, 2]);
    let mean = net.node("ReduceMean", &[soft, axes], [3, 1, 1], &[]);
    let both = net.node("Concat", &[mean, mean], [3, 2, 1], "axis=1");
    let shape = net.ints(&[3, 2, 4]);
    let wide = net.node("Expand", &[both, shape], [3, 2, 4], &[]);
    net.output(wide);
    net
}

fn transposed() -> RegionBuilder {
    let mut net = empty();
    let (x, w) = (net.input([1, 4, 5, 6]), net.weight([4, 3, 3, 2]));
    let y = net.node("ConvTranspose", &[x, w], [1, 6, 11, 12], "group=2 strides=[2,2] dilations=[1,1]");
    let y = net.node("LogSoftmax", &[y], [1, 6, 11, 12], "axis=1");
    net.output(y);
    net
}

/// An embedding that ends the model too, and filters with factors, of 16 bits.
fn narrow() -> RegionBuilder {
    let mut net = RegionBuilder::of("json", DType::F16);
    let ids = net.constant(Tensor::new((DType::I64, [2]), &[3.0, 39.0]));
    let (wte, x, bias) = (net.weight([40, 24]), net.input([2, 24]), net.weight([40]));
    let rows = net.node("Gather", &[wte, ids], [2, 24], &[]);
    let sum = net.node("Add", &[rows, x], [2, 24], &[]);
    let y = net.node("Gemm", &[sum, wte, bias], [2, 40], "transB=1");
    net.output(y);
    let (image, filters) = (net.input([1, 32, 3, 3]), net.weight([32, 32, 3, 3]));
    let y = net.node("Conv", &[image, filters], [1, 32, 1, 1], &[]);
    let y = net.norm(y);
    net.output(y);
    net
}

fn nets() -> Vec<RegionBuilder> {
    let attentions = [false, true].map(|split| super::fusion::attention(split, !split));
    let convolutions = [(3, 16, 1), (16, 32, 1), (16, 16, 16), (6, 6, 3)].map(|(x, y, group)| conv(x, y, group));
    let others = [
        winograd(),
        gated(),
        product(),
        pools(),
        movements(),
        transposed(),
        super::recurrent::both_directions(),
        narrow(),
    ];
    let places = [super::places::cache(), super::sampling::chain()];
    convolutions.into_iter().chain(attentions).chain(others).chain(places).collect()
}

/// What loading and running says to the code after `edit`.
fn outcome(net: &RegionBuilder, compiled: &mut Compiled<'_>, code: &Value) -> Result<(), Error> {
    compiled.code = serde_json::to_vec(code).expect("JSON");
    compiled.run(&net.inputs(1, &[]), &[]).map(drop)
}

fn code(compiled: &Compiled<'_>) -> Value {
    serde_json::from_slice(&compiled.code).expect("JSON")
}

/// The error for the first step of that call where `field` has another value.
fn lie(net: &RegionBuilder, call: &str, field: &str, value: Value) -> Error {
    let mut compiled = compile(net, &[]);
    let mut code = code(&compiled);
    let steps = code["steps"].as_array_mut().expect("steps");
    let step = steps.iter_mut().find(|step| call_of(step) == call).expect("call");
    let place = if step.get(field).is_some() { &mut step[field] } else { &mut step["call"][call][field] };
    *place = value;
    outcome(net, &mut compiled, &code).expect_err("a lie")
}

#[test]
fn numbers_out_of_bounds_are_refused_by_name() {
    let window = "not 1 to 1048576";
    let (first, pool) = (conv(3, 16, 1), pools());
    let stride = u64::MAX - 999;
    let layer = super::recurrent::both_directions();
    let cases: [(&RegionBuilder, &str, &str, Value, String); 12] = [
        (&first, "conv", "kernel", json!([HUGE, 3]), format!("'Conv_0': a size of the window is {HUGE}, {window}")),
        (&first, "conv", "strides", json!([1, stride]), format!("'Conv_0': a stride is {stride}, {window}")),
        (&first, "conv", "dilations", json!([0, 1]), format!("'Conv_0': a dilation is 0, {window}")),
        (&first, "conv", "group", json!(0), format!("'Conv_0': the number of groups is 0, {window}")),
        (&first, "conv", "pads", json!([1, HUGE]), format!("'Conv_0': a padding is {HUGE}, not 0 to 1048576")),
        (&layer, "recurrent", "directions", json!(3), "'GRU_0': the number of directions is 3, not 1 to 2".into()),
        (&layer, "recurrent", "hidden", json!(0), "'GRU_0': the size of a state is 0, not 1 to 2147483648".into()),
        (&pool, "pool", "strides", json!([0, 1]), format!("'MaxPool_1': a stride is 0, {window}")),
        (&pool, "lrn", "size", json!(0), "'LRN_2': the size is 0, not 1 to 2147483648".into()),
        (&movements(), "softmax", "axis", json!(HUGE), format!("'Softmax_3': an axis is {HUGE}, not 0 to 2147483648")),
        (
            &super::fusion::attention(false, false),
            "attention",
            "head_dim",
            json!(HUGE + 1),
            format!("'Softmax_12': the size of a head is {}, not 1 to 2147483648", HUGE + 1),
        ),
        (
            &product(),
            "gemm",
            "packed",
            json!([HUGE, 40]),
            format!("'MatMul_0': a size of the packed matrix is {HUGE}, not 0 to 2147483648"),
        ),
    ];
    for (net, call, field, value, expected) in cases {
        let error = lie(net, call, field, value);
        assert_eq!(error.message, format!("damaged code: step {expected}"));
        assert_eq!(error.hint.as_deref(), Some("Compile the model again"));
    }
}

#[test]
fn numbers_that_do_not_fit_the_shapes_are_refused_by_step() {
    for (channels, out, group) in [(3, 16, 1), (16, 32, 1), (16, 16, 16), (6, 6, 3)] {
        let net = conv(channels, out, group);
        for (field, value) in [("kernel", json!([1 << 20, 3])), ("group", json!(1 << 20))] {
            let error = lie(&net, "conv", field, value);
            assert_eq!(error.node.as_deref(), Some("Conv_0"), "{error:?}");
            assert!(error.message.starts_with("no kernel for the shapes [1, "), "{error:?}");
        }
    }
    let error = lie(&product(), "gemm", "inputs", json!([0]));
    assert_eq!((error.message.as_str(), error.node.as_deref()), ("input 1 is missing", Some("MatMul_0")));
}

#[test]
fn values_and_recipes_out_of_bounds_are_refused() {
    let net = conv(16, 32, 1);
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut compiled = compile(&net, &[]);
        let mut code = code(&compiled);
        edit(&mut code);
        outcome(&net, &mut compiled, &code).expect_err("a lie").message
    };
    let too_large = edited(&|code| code["values"][0]["shape"] = json!([0, 1_u64 << 40, 1_u64 << 40, 1]));
    assert_eq!(too_large, "damaged code: value 0 of shape [0, 1099511627776, 1099511627776, 1] is too large");
    let recipe = |field: &'static str, value: Value| {
        edited(&move |code| {
            let constants = code["constants"].as_array_mut().expect("constants");
            let derived = constants.iter_mut().find(|constant| constant["source"]["derived"].is_object());
            derived.expect("derived")["source"]["derived"]["recipe"]["weights"][field] = value.clone();
        })
    };
    assert!(recipe("group", json!(0)).ends_with(": the number of groups is 0, not 1 to 1048576"));
    assert!(
        recipe("shape", json!([1_u64 << 31, 1_u64 << 31, 1 << 20, 1 << 20])).ends_with("a recipe that no kernel takes")
    );
    let blocked = edited(&|code| {
        let values = code["values"].as_array_mut().expect("values");
        values.iter_mut().for_each(|value| drop(value["blocked"].take()));
        values
            .iter_mut()
            .for_each(|value| value["blocked"] = json!(value["shape"].as_array().map(Vec::len) == Some(4)));
    });
    assert_eq!(blocked, "no kernel for the shapes [1, 16, 9, 9] to [1, 16, 9, 9]");
}

/// What is computed at load takes no more memory than what it is computed from, or than its place in the program.
#[test]
fn a_number_of_channels_is_no_reason_to_take_memory() {
    let channels: u64 = 1 << 30;
    let net = pools();
    for (recipe, with_shape, expected) in [
        ("scale", false, "a bound constant has another type or shape than the code says"),
        ("shift", false, "a bound constant has another type or shape than the code says"),
        ("scale", true, "4 values for 1073741824 channels"),
        ("shift", true, "4 values for 1073741824 channels"),
    ] {
        let mut compiled = compile(&net, &[("pack", "false")]);
        let mut code = code(&compiled);
        let constants = code["constants"].as_array_mut().expect("constants");
        let recipes = constants.iter_mut().filter_map(|constant| {
            let value = constant["value"].as_u64()?;
            let derived = constant["source"]["derived"]["recipe"].get_mut(recipe)?;
            Some((value, derived))
        });
        let (value, derived) = recipes.last().expect("a recipe");
        derived["channels"] = json!(channels);
        if with_shape {
            code["values"][value as usize]["shape"] = json!([channels]);
        }
        let error = outcome(&net, &mut compiled, &code).expect_err("a lie");
        assert_eq!(error.message, expected, "{recipe}");
    }
}

/// The places of all numbers, as JSON pointers.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| numbers(item, &format!("{path}/{i}"), found))
        }
        Value::Object(map) => map.iter().for_each(|(key, item)| numbers(item, &format!("{path}/{key}"), found)),
        _ => {}
    }
}

#[test]
fn no_number_makes_a_panic() {
    let plain: &[(&str, &str)] = &[];
    let rounded = [product(), narrow(), conv(18, 20, 1)].map(|net| (net, &[("weights", "int8")][..]));
    for (net, settings) in nets().into_iter().map(|net| (net, plain)).chain(rounded) {
        let mut compiled = compile(&net, settings);
        let original = code(&compiled);
        let mut places = Vec::new();
        numbers(&original, "", &mut places);
        for place in places {
            for value in [0, 1, 2, 5, 17, 1 << 20, 1 << 31, 1 << 60, HUGE, u64::MAX] {
                let mut edited = original.clone();
                *edited.pointer_mut(&place).expect("place") = json!(value);
                // Errors and results are both right: what counts is that it comes back.
                drop(outcome(&net, &mut compiled, &edited));
            }
        }
    }
}
