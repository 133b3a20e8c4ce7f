//! `MatMulNBits`: a product with weights of a few bits.

use byoc_plugin_api::{
    Attribute, AttributeKind, CustomAttribute, DType, Dim, Error, Node, Operator, OutputType, Region,
};

use super::{MICROSOFT, text};
use crate::reference::Packing;

/// The operator.
pub(super) fn operator() -> Operator {
    let attributes = vec![
        CustomAttribute::required("K", AttributeKind::Int),
        CustomAttribute::required("N", AttributeKind::Int),
        // Which precision a kernel may compute in: json takes that of 8 bits (4) where few rows are multiplied, and single precision.
        CustomAttribute::with_default("accuracy_level", Attribute::Int(0)),
        CustomAttribute::with_default("bits", Attribute::Int(4)),
        CustomAttribute::required("block_size", AttributeKind::Int),
        CustomAttribute::with_default("weight_prepacked", Attribute::Int(0)),
    ];
    let name = "MatMulNBits".into();
    Operator { domain: MICROSOFT.into(), name, inputs: 3, optional_inputs: 3, attributes, ..Operator::default() }
}

/// The type of its output.
pub(super) fn infer(candidate: &Region, node: &Node) -> Result<Vec<OutputType>, Error> {
    let value = |index: usize| node.input(index).map(|value| &candidate.values[value]);
    let (Some(a), Some(b)) = (value(0), value(1)) else { return Err(Error::new("it has a factor and weights")) };
    let packing = Packing::of(node)?;
    let Some((depth, rows)) = a.shape.split_last() else { return Err(Error::new("input 0 has no dimensions")) };
    if depth.fixed().is_some_and(|depth| depth != packing.depth) {
        return Err(Error::new(format!("input 0 has {depth} columns, and attribute 'K' is {}", packing.depth)));
    }
    let expected = [packing.columns, packing.blocks(), packing.block_bytes()];
    if b.dtype != DType::U8 || b.fixed_shape().as_deref() != Some(&expected) {
        return Err(Error::new(format!("input 1 is {}, expected u8{expected:?}", text(b))));
    }
    let zeros = value(3).map_or(0, |zeros| match zeros.dtype {
        DType::U8 => packing.zero_bytes(),
        _ => packing.blocks(),
    });
    for (index, each) in [(2, packing.blocks()), (3, zeros), (5, 1)] {
        let found = value(index).and_then(|value| Some((value, value.fixed_shape()?.iter().product::<usize>())));
        if let Some((value, found)) = found.filter(|(_, found)| *found != packing.columns * each) {
            let expected = packing.columns * each;
            return Err(Error::new(format!("input {index} is {}, {found} elements, expected {expected}", text(value))));
        }
    }
    let shape = [rows, &[Dim::Fixed(packing.columns)]].concat();
    Ok(vec![OutputType { dtype: a.dtype, shape }])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Value;

    use super::*;

    fn node(attributes: &[(&str, i64)]) -> Node {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value))).collect();
        Node { op: "MatMulNBits".into(), inputs: vec![Some(0), Some(1), Some(2)], attributes, ..Node::default() }
    }

    fn inferred(attributes: &[(&str, i64)], b: &[usize]) -> Result<Vec<OutputType>, String> {
        let value = |dtype, shape: Vec<Dim>| Value { name: "x".into(), dtype, shape };
        let a = value(DType::F32, vec![Dim::Symbolic("batch".into()), 40.into()]);
        let b = value(DType::U8, b.iter().map(|&size| size.into()).collect());
        let scales = attributes.iter().find(|(name, _)| *name == "scales").map_or(9, |(_, count)| *count as usize);
        let scales = value(DType::F32, vec![scales.into()]);
        let region = Region { values: vec![a, b, scales], nodes: vec![node(attributes)], ..Region::default() };
        infer(&region, &region.nodes[0]).map_err(|error| error.message)
    }

    #[test]
    fn shapes_follow_from_the_packing() {
        let shape = vec![Dim::Symbolic("batch".into()), 3.into()];
        let found = inferred(&[("K", 40), ("N", 3), ("bits", 4), ("block_size", 16)], &[3, 3, 8]);
        assert_eq!(found, Ok(vec![OutputType { dtype: DType::F32, shape }]));
        let cases: [(&[(&str, i64)], &str); 8] = [
            (&[("K", 40), ("N", 3), ("block_size", 16), ("scales", 8)], "input 2 is f32[8], 8 elements, expected 9"),
            (&[("K", 40), ("N", 3), ("block_size", 32)], "input 1 is u8[3, 3, 8], expected u8[3, 2, 16]"),
            (&[("K", 41), ("N", 3), ("block_size", 16)], "input 0 has 40 columns, and attribute 'K' is 41"),
            (&[("K", 40), ("N", 0), ("block_size", 16)], "attribute 'N' is 0, expected 1 to 268435456"),
            (&[("K", 40), ("N", 3), ("block_size", 16), ("bits", 3)], "attribute 'bits' is 3, expected 2, 4 or 8"),
            (
                &[("K", 40), ("N", 3), ("block_size", 8)],
                "attribute 'block_size' is 8, expected a power of 2 that is at least 16",
            ),
            (
                &[("K", 40), ("N", 3), ("block_size", 16), ("accuracy_level", 5)],
                "attribute 'accuracy_level' is 5, expected 0 to 4",
            ),
            (
                &[("K", 40), ("N", 3), ("block_size", 16), ("weight_prepacked", 1)],
                "its weights are packed for another runtime (attribute 'weight_prepacked')",
            ),
        ];
        for (attributes, message) in cases {
            assert_eq!(inferred(attributes, &[3, 3, 8]), Err(message.to_owned()));
        }
    }
}
