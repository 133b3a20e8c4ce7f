//! Matches the product itself: MatMul, Gemm, or a 1x1 convolution.

use byoc_plugin_api::{Dim, Node, Refusal, RefusalCode, Region, Window};

use super::other;
use crate::product::{Factor, MatrixView};

/// The factors X and W of a node, and alpha.
pub(super) fn read(region: &Region, node: &Node) -> Result<(Factor<usize>, Factor<usize>, f32), Refusal> {
    if !node.domain.is_empty() || !matches!(node.op.as_str(), "MatMul" | "Gemm" | "Conv") {
        return Err(other(&format!("'{}' ({}) is not a product of matrices", node.name, node.op)));
    }
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Err(other("a product needs two factors")) };
    let factor = |value: usize, read| Factor { from: value, shape: region.values[value].shape.clone(), read };
    let rank = |value: usize| region.values[value].shape.len();
    let (x, w, alpha) = match node.op.as_str() {
        "MatMul" => {
            let x = if rank(a) == 1 { MatrixView::Row } else { MatrixView::Matrix };
            let w = if rank(b) == 1 { MatrixView::Column } else { MatrixView::Matrix };
            (factor(a, x), factor(b, w), 1.0)
        }
        "Gemm" => {
            let turned = |name| if node.int(name, 0) != 0 { MatrixView::Transposed } else { MatrixView::Matrix };
            (factor(a, turned("transA")), factor(b, turned("transB")), node.float("alpha", 1.0))
        }
        _ => {
            one_pixel(region, node, a, b)?;
            (factor(b, MatrixView::Filter), factor(a, MatrixView::Pixels), 1.0)
        }
    };
    for (name, number) in [("alpha", alpha), ("beta", node.float("beta", 1.0))] {
        if !number.is_finite() {
            return Err(Refusal::new(RefusalCode::Attribute, format!("{name} is {number}")));
        }
    }
    for factor in [&x, &w] {
        let name = &region.values[factor.from].name;
        if factor.shape.len() < factor.read.least_rank() {
            return Err(Refusal::new(RefusalCode::Shape, format!("'{name}' is not a matrix")));
        }
        if factor.shape.contains(&Dim::Fixed(0)) {
            return Err(Refusal::new(RefusalCode::Shape, format!("'{name}' has no elements")));
        }
    }
    Ok((x, w, alpha))
}

/// The C of a Gemm, and beta.
pub(super) fn own_term(node: &Node) -> Option<(usize, f32)> {
    match node.op.as_str() {
        "Gemm" => node.input(2).map(|c| (c, node.float("beta", 1.0))),
        _ => None,
    }
}

/// A 1x1 convolution is a product of its weights with each image, in place. Its bias would be one per row of the result,
/// which no epilogue adds.
fn one_pixel(region: &Region, node: &Node, x: usize, w: usize) -> Result<(), Refusal> {
    let no = |what: &str| {
        let message =
            format!("{what}; a convolution is a product only with a kernel of 1, stride 1, no padding, group 1");
        Err(Refusal::new(RefusalCode::Attribute, message))
    };
    let (rank, kernel) = (region.values[x].shape.len(), region.values[w].shape.get(2..).unwrap_or_default());
    if rank < 3 || kernel.len() + 2 != rank || kernel.iter().any(|size| *size != Dim::Fixed(1)) {
        return no(&format!("the kernel is {}", super::shape_text(kernel)));
    }
    if node.int("group", 1) != 1 {
        return no(&format!("group is {}", node.int("group", 1)));
    }
    let window = Window::of(node, kernel.len(), Some(&vec![1; kernel.len()]))?;
    if window.strides.iter().any(|&stride| stride != 1) {
        return no(&format!("strides is {:?}", window.strides));
    }
    let pads = [window.begin, window.end].concat();
    if pads.iter().any(|&pad| pad != 0) {
        return no(&format!("pads is {pads:?}"));
    }
    if let Some(bias) = node.input(2) {
        let name = &region.values[bias].name;
        let message = format!("the bias '{name}' goes along the channels, but cublasLt adds one along the pixels");
        return Err(Refusal::new(RefusalCode::Other, message));
    }
    Ok(())
}
