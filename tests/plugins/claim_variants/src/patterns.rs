//! What each backend takes, and why not.

use byoc_plugin_api::{DType, Node, Options, Pattern, Refusal, RefusalCode, Region};

use crate::Variant;
use crate::constants::panel_width;
use crate::program::Placement;

pub(crate) fn patterns(variant: &Variant) -> Vec<Pattern> {
    variant.takes.iter().map(|text| Pattern::new("node", *text)).collect()
}

/// Accepts tensors of f32 and f16 of known sizes.
pub(crate) fn check(variant: &Variant, candidate: &Region, options: &Options) -> Result<(), Refusal> {
    for value in &candidate.values {
        if !matches!(value.dtype, DType::F32 | DType::F16 | DType::Bool) {
            return Err(Refusal::new(RefusalCode::Type, format!("'{}' is {}", value.name, value.dtype)));
        }
        if value.fixed_shape().is_none() {
            return Err(Refusal::new(RefusalCode::Shape, format!("'{}' has no fixed size", value.name)));
        }
    }
    for constant in &candidate.constants {
        let value = &candidate.values[constant.value];
        if value.dtype == DType::F16 && variant.placement != Placement::Host {
            return Err(Refusal::new(RefusalCode::Type, format!("'{}' is f16, and only f32 is laid out", value.name)));
        }
        let elements: usize = value.fixed_shape().unwrap_or_default().iter().product();
        let (bytes, most) = (elements * value.dtype.unpacked_bytes(), options.int("most"));
        if most > 0 && bytes as i64 > most {
            return Err(Refusal::limit("the weight is too large", bytes as f64, most as f64));
        }
    }
    candidate.nodes.iter().try_for_each(|node| check_node(variant, candidate, node, options))
}

fn check_node(variant: &Variant, candidate: &Region, node: &Node, options: &Options) -> Result<(), Refusal> {
    let shape = |index| node.input(index).and_then(|value| candidate.values[value].fixed_shape()).unwrap_or_default();
    match node.op.as_str() {
        "MatMul" | "Gemm" => {
            let (left, right) = (shape(0), shape(1));
            if left.len() < 2 || right.len() != 2 {
                return Err(Refusal::new(RefusalCode::Shape, "the weight must be a matrix"));
            }
            let factors = ["alpha", "beta"].map(|name| node.float(name, 1.0));
            if factors != [1.0; 2] || node.int("transA", 0) != 0 || node.int("transB", 0) != 0 {
                return Err(Refusal::new(RefusalCode::Attribute, "only a plain product is taken"));
            }
            let width = panel_width(options.text("layout"));
            if variant.placement == Placement::Packed && width.is_none_or(|width| right[1] % width != 0) {
                return Err(Refusal::new(RefusalCode::Shape, format!("{} columns make no panels", right[1])));
            }
        }
        // A choice that is known: what is not chosen is not read.
        "Where" => {
            let chosen = node.input(0).and_then(|value| candidate.constant_ints(value));
            if chosen.is_none_or(|chosen| chosen.contains(&0)) {
                return Err(Refusal::new(RefusalCode::ConstantNeeded, "the condition must be true everywhere"));
            }
        }
        _ => {}
    }
    Ok(())
}
