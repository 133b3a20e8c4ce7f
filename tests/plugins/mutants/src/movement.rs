//! Operators that only move what they read.

mod index;
mod layout;
mod pad;
mod resize;

use byoc_plugin_api::{
    Attribute, AttributeKind, CustomAttribute, Dim, Error, Node, Operator, OutputType, Refusal, RefusalCode, Region,
};

use crate::backend::{Mutant, host};
use crate::call::{Bugs, Call};
use crate::check;
use crate::tensor::Tensor;

const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("transpose-inverse", "Transpose reads perm as its inverse"),
    ("transpose-last-two", "Transpose of more than two dimensions exchanges the last two"),
    ("transpose-tail-8", "Transpose gives 0 in rows behind the last full 8, where there are 8"),
    ("concat-front", "Concat puts its inputs one behind the other, whatever the axis"),
    ("concat-third-ignored", "Concat has the second input again in place of any further one"),
    ("concat-first-size", "Concat takes all inputs to be as large as the first one"),
    ("split-equal", "Split takes all parts to be as large as the first one"),
    ("split-first", "All parts of Split are the first one"),
    ("split-uneven", "The last part of a Split that does not come out even begins where an even one would"),
    ("slice-start-negative", "A negative start of Slice is 0"),
    ("slice-step-ignored", "Steps of Slice are taken for 1 or -1"),
    ("slice-backwards-ignored", "Negative steps of Slice go forwards"),
    ("slice-axes-ignored", "Starts and steps of Slice are for the first axes"),
    ("slice-start-clamped", "A start of Slice beyond the end, going backwards, reads one element further"),
    ("pad-value-ignored", "Pad fills up with 0"),
    ("pad-reflect-as-edge", "Pad repeats the outermost element in mode reflect"),
    ("pad-reflect-symmetric", "Pad in mode reflect repeats the outermost element once"),
    ("pad-edge-as-constant", "Pad fills up with 0 in mode edge"),
    ("pad-swapped", "The padding behind is taken for that in front of it"),
    ("pad-axes-ignored", "Pads are for the first axes, whatever the axes are"),
    ("pad-interleaved", "Pads are read as pairs of front and back"),
    ("pad-negative", "A negative pad cuts nothing away in front"),
    ("gather-negative", "Negative indices of Gather are 0"),
    ("gather-axis-first", "Gather goes along the first axis"),
    ("gather-first-row", "Gather reads the first row of its indices only"),
    ("gather-scalar", "Gather by a single index gives what is at 0"),
    ("elements-negative", "Negative indices of GatherElements are 0"),
    ("elements-axis-first", "GatherElements goes along the first axis"),
    ("elements-data-index", "GatherElements takes other axes from the shape of the data"),
    ("expand-flat", "Expand reads its input element by element, modulo its size"),
    ("expand-front", "Expand aligns dimensions at the front"),
    ("tile-interleaved", "Tile repeats each element"),
    ("tile-last", "Tile repeats along the last axis only"),
    ("reshape-channels-last", "Flatten and Reshape of images read them with channels last"),
    ("copy-4096", "Reshape, Squeeze and Unsqueeze leave out elements from the 4097th on"),
    ("copy-tail-16", "Squeeze and Unsqueeze give 0 behind the last full 16 elements"),
    ("unsqueeze-copies-first", "Unsqueeze gives the first row everywhere"),
    ("resize-nearest-rounds", "Nearest neighbours are rounded to, not down"),
    ("resize-asymmetric", "Linear interpolation is from the corner of elements"),
    ("resize-corners", "Linear interpolation aligns corners"),
    ("resize-edge", "Linear interpolation goes on beyond the edge with 0"),
    ("resize-swapped", "Scales of height and width are exchanged"),
    ("resize-integer", "Scales are rounded to integers, and are at least 1"),
    ("resize-nearest-always", "Linear interpolation takes the nearest neighbour"),
    ("resize-channels-8", "Channels from the ninth on are resized as the first"),
    ("depth-crd-as-dcr", "DepthToSpace of mode CRD is that of mode DCR"),
    ("depth-dcr-as-crd", "DepthToSpace of mode DCR is that of mode CRD"),
    ("depth-block-transposed", "DepthToSpace fills blocks column by column"),
    ("space-order", "SpaceToDepth has channels before the place in a block"),
    ("trilu-k-ignored", "Trilu takes k for 0"),
    ("trilu-k-sign", "Trilu has k the other way round"),
    ("trilu-always-upper", "Trilu keeps the upper part"),
    ("trilu-batch", "Trilu leaves all but the first matrix of a batch as they are"),
    ("strided-constant", "Constants are read as they lie in memory, whatever their strides"),
];

/// The backend.
pub(crate) const BACKEND: Mutant = Mutant {
    name: "mutant-movement",
    summary: "Operators that move elements, with a bug if one is asked for",
    patterns: &[
        // What moves nothing in memory is taken with arithmetic behind it only.
        "(Relu (Expand ?x ?shape:const))",
        "(Relu (Reshape ?x ?shape:const))",
        "(Relu (Flatten ?x))",
        "(Relu (Squeeze ?x ?axes:const?))",
        "(Relu (Unsqueeze ?x ?axes:const))",
        "(Transpose ?x)",
        "(Concat ...)",
        "(Split ...)",
        "(Slice ...)",
        "(Pad ...)",
        "(Gather ?x ?indices)",
        "(GatherElements ?x ?indices)",
        "(Expand ?x ?shape:const)",
        "(Tile ?x ?repeats:const)",
        "(Reshape ?x ?shape:const)",
        "(Flatten ?x)",
        "(Squeeze ?x ?axes:const?)",
        "(Unsqueeze ?x ?axes:const)",
        "(Resize ...)",
        "(DepthToSpace ?x)",
        "(SpaceToDepth ?x)",
        "(Trilu ...)",
    ],
    bugs: BUGS,
    operators,
    infer,
    check,
    wants: host,
    kernel,
};

fn operators() -> Vec<Operator> {
    let attributes = || {
        let mode = CustomAttribute::with_default("mode", Attribute::String("DCR".into()));
        vec![CustomAttribute::required("blocksize", AttributeKind::Int), mode]
    };
    let operator = |name: &str| Operator { name: name.into(), attributes: attributes(), ..Operator::default() };
    vec![operator("DepthToSpace"), operator("SpaceToDepth")]
}

/// The type of what `DepthToSpace` and `SpaceToDepth` give.
fn infer(candidate: &Region) -> Result<OutputType, Error> {
    let node = candidate.nodes.first().ok_or_else(|| Error::new("there is no node"))?;
    let value = node.input(0).map(|value| &candidate.values[value]).ok_or_else(|| Error::new("it has one input"))?;
    let [batch, channels, height, width] = value.shape.as_slice() else {
        return Err(Error::new(format!("{} wants images of 4 dimensions", node.op)));
    };
    let block = usize::try_from(node.int("blocksize", 1)).ok().filter(|&block| block > 0);
    let block = block.ok_or_else(|| Error::new("a block has at least 1 element"))?;
    let times = |dim: &Dim, by: usize| match dim {
        Dim::Fixed(size) => Dim::Fixed(size * by),
        Dim::Symbolic(text) => Dim::Symbolic(format!("({text})*{by}")),
    };
    let part = |dim: &Dim, by: usize| match dim {
        Dim::Fixed(size) => Dim::Fixed(size / by),
        Dim::Symbolic(text) => Dim::Symbolic(format!("floor(({text})/{by})")),
    };
    let square = block * block;
    let shape = match node.op.as_str() {
        "DepthToSpace" => vec![batch.clone(), part(channels, square), times(height, block), times(width, block)],
        _ => vec![batch.clone(), times(channels, square), part(height, block), part(width, block)],
    };
    Ok(OutputType { dtype: value.dtype, shape })
}

fn check(region: &Region, node: &Node) -> Result<(), Refusal> {
    match node.op.as_str() {
        "Split" => Ok(()),
        "Pad" => check::text(node, "mode", "constant", &["constant", "reflect", "edge"]),
        "DepthToSpace" => {
            check::ranks(region, node, &[4])?;
            check::text(node, "mode", "DCR", &["DCR", "CRD"])
        }
        "SpaceToDepth" => {
            check::ranks(region, node, &[4])?;
            check::text(node, "mode", "DCR", &["DCR"])
        }
        "Resize" => resize::check(region, node),
        "Reshape" if node.int("allowzero", 0) != 0 => {
            Err(Refusal::new(RefusalCode::Attribute, "allowzero of Reshape has no kernel"))
        }
        _ => check::one_output(node),
    }
}

fn kernel(call: &mut Call<'_>) -> Result<Vec<Tensor>, Error> {
    Ok(vec![match call.node.op.as_str() {
        "Transpose" => layout::transpose(call)?,
        "Concat" => layout::concat(call)?,
        "Split" => return layout::split(call),
        "Slice" => index::slice(call)?,
        "Pad" => pad::pad(call)?,
        "Gather" => index::gather(call)?,
        "GatherElements" => index::gather_elements(call)?,
        "Expand" => layout::expand(call)?,
        "Tile" => layout::tile(call)?,
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => layout::reshape(call)?,
        "Resize" => resize::resize(call)?,
        "DepthToSpace" => index::depth_to_space(call)?,
        "SpaceToDepth" => index::space_to_depth(call)?,
        "Trilu" => index::trilu(call)?,
        "Relu" => {
            let x = call.x(0)?;
            Tensor::of(x.shape, |index| if x.at(index) < 0.0 { 0.0 } else { x.at(index) })
        }
        _ => return Err(call.unknown()),
    }])
}
