//! The window of a convolution or a pooling, with its padding in numbers.

use byoc_plugin_api::{Node, Refusal, RefusalCode};

use super::net::{Image, Window};

/// The window of a node that makes `y` of `x`, and its padding below and to the right.
pub(super) fn read(node: &Node, kernel: [usize; 2], x: &Image, y: &Image) -> Result<(Window, [usize; 2]), Refusal> {
    let strides = pair(node, "strides")?;
    let dilations = pair(node, "dilations")?;
    let sizes = [(x.height, y.height), (x.width, y.width)];
    let pads = match node.string("auto_pad", "NOTSET") {
        "NOTSET" | "" => explicit(node)?,
        "VALID" => [0; 4],
        same => {
            let mut pads = [0; 4];
            for (axis, (size, out)) in sizes.into_iter().enumerate() {
                let reach = (out - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1;
                let total = reach.saturating_sub(size);
                pads[axis] = if same == "SAME_LOWER" { total.div_ceil(2) } else { total / 2 };
                pads[axis + 2] = total - pads[axis];
            }
            pads
        }
    };
    let [top, left, bottom, right] = pads;
    Ok((Window { kernel, strides, dilations, pads: [top, left] }, [bottom, right]))
}

/// The attribute `kernel_shape`, for nodes without weights.
pub(super) fn kernel(node: &Node) -> Result<[usize; 2], Refusal> {
    node.ints("kernel_shape").map_or_else(|| Err(odd(node, "kernel_shape")), |sizes| two(node, "kernel_shape", sizes))
}

fn pair(node: &Node, name: &str) -> Result<[usize; 2], Refusal> {
    node.ints(name).map_or(Ok([1, 1]), |sizes| two(node, name, sizes))
}

fn two(node: &Node, name: &str, sizes: &[i64]) -> Result<[usize; 2], Refusal> {
    let sizes: Option<Vec<_>> = sizes.iter().map(|&size| usize::try_from(size).ok().filter(|&size| size > 0)).collect();
    sizes.and_then(|sizes| sizes.try_into().ok()).ok_or_else(|| odd(node, name))
}

fn explicit(node: &Node) -> Result<[usize; 4], Refusal> {
    let Some(pads) = node.ints("pads") else { return Ok([0; 4]) };
    let pads: Option<Vec<_>> = pads.iter().map(|&pad| usize::try_from(pad).ok()).collect();
    pads.and_then(|pads| pads.try_into().ok()).ok_or_else(|| odd(node, "pads"))
}

fn odd(node: &Node, name: &str) -> Refusal {
    Refusal::new(RefusalCode::Attribute, format!("'{}' has no {name} of two dimensions that counts up", node.name))
}
