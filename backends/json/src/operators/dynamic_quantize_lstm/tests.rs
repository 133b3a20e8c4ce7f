//! Types that follow from the weights, and what does not fit.

use super::*;

/// The types for inputs of these shapes, each `-` or its element type and its sizes; the shape of the input has sizes that only a run tells.
fn inferred(inputs: &str, attributes: &[(&str, Attribute)]) -> Result<Vec<OutputType>, String> {
    let mut region = Region::default();
    let mut indices = Vec::new();
    for input in inputs.split(' ') {
        let Some((dtype, sizes)) = input.split_once(':') else {
            indices.push(None);
            continue;
        };
        let size = |size: &str| size.parse::<usize>().map_or_else(|_| Dim::Symbolic(size.into()), Dim::Fixed);
        let dtype = DType::all().find(|known| known.name() == dtype).expect("an element type");
        indices.push(Some(region.values.len()));
        region.values.push(Value { name: "x".into(), dtype, shape: sizes.split(',').map(size).collect() });
    }
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let domain = MICROSOFT.into();
    region.nodes.push(Node { op: NAME.into(), domain, inputs: indices, attributes, ..Node::default() });
    infer(&region, &region.nodes[0]).map_err(|error| error.message)
}

const WEIGHTS: &str =
    "f32:t,n,3 i8:2,3,8 i8:2,2,8 f32:2,16 i32:n f32:2,n,2 f32:2,n,2 f32:2,6 f32:2 i8:2 f32:2,8 i8:2,8";

fn both() -> (&'static str, Attribute) {
    ("direction", Attribute::String("bidirectional".into()))
}

#[test]
fn states_have_the_sizes_of_the_weights() {
    let found = inferred(WEIGHTS, &[both(), ("hidden_size", Attribute::Int(2))]).expect("it fits");
    let shape = |sizes: &[&str]| -> Vec<Dim> {
        sizes
            .iter()
            .map(|size| size.parse::<usize>().map_or_else(|_| Dim::Symbolic((*size).into()), Dim::Fixed))
            .collect()
    };
    let expected = [shape(&["t", "2", "n", "2"]), shape(&["2", "n", "2"]), shape(&["2", "n", "2"])];
    assert_eq!(found, expected.map(|shape| OutputType { dtype: DType::F32, shape }));
}

#[test]
fn what_does_not_fit_is_named() {
    let fails = |from: &str, to: &str, attributes: &[(&str, Attribute)], message: &str| {
        assert!(WEIGHTS.contains(from), "{from}");
        let attributes = [&[both()], attributes].concat();
        assert_eq!(inferred(&WEIGHTS.replacen(from, to, 1), &attributes), Err(message.to_owned()));
    };
    let same = "f32:t";
    fails("f32:t,n,3", "f32:t,3", &[], "input 0 is f32[t, 3], expected 3 dimensions");
    fails("f32:t,n,3", "f32:t,n,4", &[], "input 1 is i8[2, 3, 8], expected the shape [2, 4, 8]");
    fails("i8:2,2,8", "i8:2,3,8", &[], "input 1 is i8[2, 3, 8], expected the shape [2, 3, 12]");
    fails("i8:2,2,8", "i8:2,h,8", &[], "input 2 is i8[2, h, 8], expected a hidden size that is known");
    fails("f32:2,16", "f32:2,8", &[], "input 3 is f32[2, 8], expected the shape [2, 16]");
    fails("f32:2,6", "f32:2,7", &[], "input 7 is f32[2, 7], expected the shape [2, 6]");
    fails("f32:2 i8:2 ", "f32:1 i8:2 ", &[], "input 8 is f32[1], expected the shape [2]");
    fails("f32:2,8 i8:2,8", "f32:2,8 i8:2,4", &[], "input 11 is i8[2, 4], expected the shape [2, 8]");
    fails("f32:2,8 i8:2,8", "f32:2,8", &[], "input 11 is missing");
    let message = "input 11 is u8[2, 8], and the weights are i8[2, 2, 8]: expected u8 or i8 of both";
    fails("f32:2,8 i8:2,8", "f32:2,8 u8:2,8", &[], message);
    let message = "attribute 'hidden_size' is 3, and input 2 is i8[2, 2, 8]";
    fails(same, same, &[("hidden_size", Attribute::Int(3))], message);
    let message = "attribute 'direction' is 'sideways', expected forward, reverse or bidirectional";
    fails(same, same, &[("direction", Attribute::String("sideways".into()))], message);
    let names =
        |names: &[&str]| [("activations", Attribute::Strings(names.iter().map(|name| (*name).into()).collect()))];
    fails(same, same, &names(&["Tanh"]), "DynamicQuantizeLSTM has 1 activations, expected 6");
    let message = "there is no activation 'Cosine'";
    fails(same, same, &names(&["Tanh", "Cosine", "Tanh", "Tanh", "Tanh", "Tanh"]), message);
    let message = "the clip of DynamicQuantizeLSTM is not a number from 0 on";
    fails(same, same, &[("clip", Attribute::Float(-1.0))], message);
}
