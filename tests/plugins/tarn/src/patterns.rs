//! What is taken: one convolution or product with constant weights, of f32.

use byoc_plugin_api::{DType, Pattern, Refusal, RefusalCode, Region, Window};

pub(crate) fn patterns() -> Vec<Pattern> {
    vec![
        Pattern::new("conv-relu", "(Relu (Conv+ ?x ?w:const ?b:const?))"),
        Pattern::new("conv", "(Conv ?x ?w:const ?b:const?)"),
        Pattern::new("matmul", "(MatMul ?x ?w:const)"),
    ]
}

pub(crate) fn check(candidate: &Region) -> Result<(), Refusal> {
    if let Some(value) = candidate.values.iter().find(|value| value.dtype != DType::F32) {
        return Err(Refusal::new(RefusalCode::Type, format!("'{}' is {}, only f32 is taken", value.name, value.dtype)));
    }
    let node = &candidate.nodes[0];
    let shape = |position| node.input(position).map(|value| candidate.values[value].shape.as_slice());
    let rank = |position| shape(position).map_or(0, <[_]>::len);
    match node.op.as_str() {
        "Conv" if rank(0) == 4 => {
            let kernel = shape(1).unwrap_or_default().iter().skip(2).map(|size| size.fixed());
            let kernel: Option<Vec<usize>> = kernel.collect();
            Window::of(node, 2, kernel.as_deref()).map(drop)
        }
        "MatMul" if rank(0) >= 2 && rank(1) == 2 => Ok(()),
        _ => Err(Refusal::new(RefusalCode::Shape, format!("'{}' has {} dimensions", node.name, rank(0)))),
    }
}
