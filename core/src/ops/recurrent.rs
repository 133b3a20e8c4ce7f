//! Recurrent layers, after ONNX: LSTM 22, GRU 22, RNN 22.

use byoc_plugin_api::{Attribute, DType, Dim};

use super::attributes::{AttributeDef, Default, Kind, List, float, floats, int, int_or, string_or};
use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::Node;

const ACTIVATIONS: AttributeDef = AttributeDef::new("activations", Kind::Strings, Default::Shapes);
const DIRECTION: AttributeDef = string_or("direction", "forward");
const HIDDEN_SIZE: AttributeDef = int("hidden_size").by_shapes();
const LAYOUT: AttributeDef = int_or("layout", 0).since(14);
/// Whether output 0 is wanted, which its name says as well.
const OUTPUT_SEQUENCE: AttributeDef = int("output_sequence").until(6);

pub(super) const GRU: List = &[
    floats("activation_alpha"),
    floats("activation_beta"),
    ACTIVATIONS,
    float("clip"),
    DIRECTION,
    HIDDEN_SIZE,
    LAYOUT,
    int_or("linear_before_reset", 0).since(3),
    OUTPUT_SEQUENCE,
];
pub(super) const LSTM: List = &[
    floats("activation_alpha"),
    floats("activation_beta"),
    ACTIVATIONS,
    float("clip"),
    DIRECTION,
    HIDDEN_SIZE,
    int_or("input_forget", 0),
    LAYOUT,
    OUTPUT_SEQUENCE,
];
pub(super) const RNN: List = &[
    floats("activation_alpha"),
    floats("activation_beta"),
    ACTIVATIONS,
    float("clip"),
    DIRECTION,
    HIDDEN_SIZE,
    LAYOUT,
    OUTPUT_SEQUENCE,
];

/// The activation functions that a layer may have.
#[rustfmt::skip]
const FUNCTIONS: [&str; 11] = [
    "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign", "Tanh",
    "ThresholdedRelu",
];

/// The activation functions of a node, written as ONNX does, those of the second direction behind those of the first: the attribute, whose
/// names may be written in any case, as onnxruntime has it, or ONNX's defaults.
pub(crate) fn activations(node: &Node) -> Result<Vec<String>> {
    let usual: &[&str] = match node.op.as_str() {
        "LSTM" => &["Sigmoid", "Tanh", "Tanh"],
        "GRU" => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    let directions = if node.string("direction", "forward") == "bidirectional" { 2 } else { 1 };
    let count = usual.len() * directions;
    let given = match node.attributes.get("activations") {
        Some(Attribute::Strings(given)) if !given.is_empty() => given,
        _ => return Ok(usual.repeat(directions).into_iter().map(str::to_owned).collect()),
    };
    // The default of RNN, which exporters write out, is for two directions whatever there are.
    let given = if node.op == "RNN" && given.len() == 2 { &given[..count] } else { given.as_slice() };
    if given.len() != count {
        return Err(bad(format!("attribute 'activations' has {} names, expected {count}", given.len())));
    }
    let known = |name: &String| {
        let found = FUNCTIONS.iter().find(|known| known.eq_ignore_ascii_case(name));
        let listed = || bad(format!("the activation '{name}' is not one of {}", FUNCTIONS.join(", ")));
        found.map(|name| (*name).to_owned()).ok_or_else(listed)
    };
    given.iter().map(known).collect()
}

/// LSTM, GRU and RNN.
pub(super) fn recurrent(infer: &mut Infer<'_>) -> Result<()> {
    let gates = match infer.node.op.as_str() {
        "LSTM" => 4,
        "GRU" => 3,
        _ => 1,
    };
    let x = infer.ranked(0, FLOAT, 3)?;
    let by_batch = match infer.int("layout", 0)? {
        layout @ (0 | 1) => layout == 1,
        other => return Err(bad(format!("attribute 'layout' is {other}, expected 0 or 1"))),
    };
    let (steps, batch) = if by_batch { (&x.shape[1], &x.shape[0]) } else { (&x.shape[0], &x.shape[1]) };
    let directions = match infer.choice("direction", &["forward", "reverse", "bidirectional"])? {
        "bidirectional" => Dim::Fixed(2),
        _ => Dim::Fixed(1),
    };
    activations(infer.node)?;
    let hidden = hidden_size(infer)?;
    let times = |count: usize| dim::mul(&hidden, &Dim::Fixed(count));
    like_first(infer, 1, &[&directions, &times(gates)?, &x.shape[2]])?;
    like_first(infer, 2, &[&directions, &times(gates)?, &hidden])?;
    like_first(infer, 3, &[&directions, &times(2 * gates)?])?;
    if infer.has(4) {
        infer.typed(4, &[DType::I32])?;
        fits(infer, 4, &[batch])?;
    }
    let state = if by_batch { [batch, &directions, &hidden] } else { [&directions, batch, &hidden] };
    like_first(infer, 5, &state)?;
    like_first(infer, 6, &state)?;
    like_first(infer, 7, &[&directions, &times(3)?])?;
    let all = if by_batch { [batch, steps, &directions, &hidden] } else { [steps, &directions, batch, &hidden] };
    infer.set(0, x.dtype, all.map(Dim::clone).to_vec());
    infer.set(1, x.dtype, state.map(Dim::clone).to_vec());
    infer.set(2, x.dtype, state.map(Dim::clone).to_vec());
    Ok(())
}

/// The size of the hidden state: that of the recurrent weights, which the attribute must agree with.
fn hidden_size(infer: &Infer<'_>) -> Result<Dim> {
    let r = infer.ranked(2, FLOAT, 3)?;
    let given = infer.optional_int("hidden_size")?;
    match (given, r.shape[2].fixed()) {
        (Some(given), Some(size)) if usize::try_from(given).ok() != Some(size) => {
            Err(bad(format!("attribute 'hidden_size' is {given}, but input 2 is {r}")))
        }
        _ => Ok(r.shape[2].clone()),
    }
}

/// Fails where an input is there and has not the type of input 0 and this shape.
fn like_first(infer: &Infer<'_>, index: usize, shape: &[&Dim]) -> Result<()> {
    if infer.has(index) {
        infer.like_first(index)?;
        fits(infer, index, shape)?;
    }
    Ok(())
}

fn fits(infer: &Infer<'_>, index: usize, shape: &[&Dim]) -> Result<()> {
    let ty = infer.input(index)?;
    if ty.shape.len() == shape.len() && ty.shape.iter().zip(shape).all(|(a, b)| dim::same(a, b).is_some()) {
        return Ok(());
    }
    let sizes = shape.iter().map(|size| size.to_string()).collect::<Vec<_>>().join(",");
    Err(mismatch(format!("input {index} is {ty}, expected the shape [{sizes}]")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, check};

    const LAYERS: &[Case] = &[
        ("LSTM", "", "f32[t,n,8] f32[1,20,8] f32[1,20,5]", "f32[t,1,n,5] f32[1,n,5] f32[1,n,5]"),
        (
            "LSTM",
            "direction=bidirectional layout=1 hidden_size=5",
            "f16[n,t,8] f16[2,20,8] f16[2,20,5] f16[2,40] i32[n] f16[n,2,5] f16[n,2,5] f16[2,15]",
            "f16[n,t,2,5] f16[n,2,5] f16[n,2,5]",
        ),
        ("GRU", "direction=reverse", "f32[7,n,8] f32[1,15,8] f32[1,15,5] f32[1,30]", "f32[7,1,n,5] f32[1,n,5]"),
        ("RNN", "", "f32[t,n,8] f32[1,5,8] f32[1,5,5] - i32[n] f32[1,n,5]", "f32[t,1,n,5] f32[1,n,5]"),
        (
            "LSTM",
            "",
            "f32[t,n,8] f32[1,15,8] f32[1,20,5]",
            "[B202] input 1 is f32[1,15,8], expected the shape [1,20,8]",
        ),
        ("GRU", "", "f32[t,n,8] f32[1,15,8] f32[1,15,5] - i32[4]", "f32[t,1,n,5]"),
        ("RNN", "", "f32[t,3,8] f32[1,5,8] f32[1,5,5] - i32[4]", "[B202] input 4 is i32[4], expected the shape [3]"),
        ("RNN", "", "f32[t,3,8] f32[1,5,8] f32[1,5,5] - i64[3]", "[B201] input 4 is i64[3], expected i32"),
        (
            "RNN",
            "hidden_size=6",
            "f32[t,3,8] f32[1,5,8] f32[1,5,5]",
            "[B106] attribute 'hidden_size' is 6, but input 2 is f32[1,5,5]",
        ),
        ("RNN", "layout=2", "f32[t,3,8] f32[1,5,8] f32[1,5,5]", "[B106] attribute 'layout' is 2, expected 0 or 1"),
        (
            "RNN",
            "direction=foward",
            "f32[t,3,8] f32[1,5,8] f32[1,5,5]",
            "[B106] attribute 'direction' is 'foward', expected one of forward, reverse, bidirectional",
        ),
    ];

    #[test]
    fn layers() {
        check(LAYERS);
    }

    #[test]
    fn activations_are_those_of_each_direction() {
        let of = |op: &str, direction: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let attributes = [
                ("direction".to_owned(), Attribute::String(direction.into())),
                ("activations".to_owned(), Attribute::Strings(names)),
            ];
            let node = Node { op: op.into(), attributes: attributes.into(), ..Node::default() };
            activations(&node).map(|names| names.join(" ")).map_err(|error| error.message)
        };
        assert_eq!(of("GRU", "bidirectional", &[]), Ok("Sigmoid Tanh Sigmoid Tanh".into()));
        assert_eq!(of("LSTM", "reverse", &["hardsigmoid", "TANH", "Relu"]), Ok("HardSigmoid Tanh Relu".into()));
        assert_eq!(of("RNN", "forward", &["Relu", "Tanh"]), Ok("Relu".into()));
        let count = "attribute 'activations' has 1 names, expected 2";
        assert_eq!(of("GRU", "forward", &["Tanh"]), Err(count.into()));
        let error = of("RNN", "forward", &["Gelu"]).expect_err("another function");
        assert!(error.starts_with("the activation 'Gelu' is not one of Affine, Elu, "), "{error}");
    }
}
