//! Matrix products and convolutions of 8 bits: which there are kernels for, and their packed weights.

use byoc_plugin_api::DType;

use super::super::graph::Graph;
use super::super::lift::four;
use super::super::window::Window;
use super::{elements, is_bytes};
use crate::constants::{Form, Recipe};
use crate::kernels::Activation;
use crate::kernels::integer::{MAX_DEPTH, MAX_TAPS, window_len};
use crate::program::{IntegerConv, IntegerGemm, Op, Step};

/// A product without what follows it: the call, its left side, and its right side, packed where it is constant.
pub(super) struct Product {
    pub(super) op: Op,
    pub(super) a: usize,
    pub(super) b: usize,
    /// Columns of the result, or channels.
    pub(super) columns: usize,
}

/// The product of `a` and `b`.
pub(super) fn gemm(graph: &mut Graph<'_>, [a, b, y]: [usize; 3], trans_b: bool) -> Option<Product> {
    let (a_shape, y_shape) = (graph.shape(a), graph.shape(y));
    let b_shape = graph.fixed_shape(b);
    if !is_bytes(graph, a) || !is_bytes(graph, b) || a_shape.len() < 2 || a_shape.len() != y_shape.len() {
        return None;
    }
    let (k, n) = (a_shape.last()?.fixed()?, y_shape.last()?.fixed()?);
    if k > MAX_DEPTH || k == 0 || n == 0 {
        return None;
    }
    let unsigned = graph.values[b].dtype == DType::U8;
    let mut gemm = IntegerGemm { trans_b, packed: None, unsigned: false, act: Activation::None };
    let constant = graph.constant(b).map(|constant| constant.id).filter(|_| graph.shape(b).len() == 2);
    if let (Some(weights), Some(shape)) = (constant, b_shape) {
        if shape != if trans_b { [n, k] } else { [k, n] } {
            return None;
        }
        let form = Form::Matrix { transposed: trans_b, k, n };
        let packed = graph.derive(Recipe::Integer { weights, form, unsigned })?;
        (gemm.packed, gemm.unsigned, gemm.trans_b) = (Some([k, n]), unsigned, false);
        return Some(Product { op: Op::IntegerGemm(gemm), a, b: packed, columns: n });
    }
    // As many matrices on both sides.
    let rank = graph.shape(b).len();
    let lead = |value: usize| &graph.shape(value)[..graph.shape(value).len() - 2];
    let fits = rank >= 2 && (rank == 2 || lead(b) == lead(a)) && lead(a) == lead(y);
    fits.then_some(Product { op: Op::IntegerGemm(gemm), a, b, columns: n })
}

/// The convolution of `x` with the constant filters `w`, whose attributes `step` has. The images are in the order of ONNX still.
pub(super) fn conv(graph: &mut Graph<'_>, step: &Step, [x, w, y]: [usize; 3]) -> Option<Product> {
    let shape = four(&graph.fixed_shape(w)?, 1)?;
    let weights = graph.constant(w)?.id;
    let channels = graph.shape(x).get(1)?.fixed()?;
    if !is_bytes(graph, x) || !is_bytes(graph, w) || elements(graph, w)? == 0 {
        return None;
    }
    let [filters, each, height, width] = shape;
    let window = Window::of(step, graph.shape(x), graph.shape(y), Some(&shape[2..]))?;
    let group = usize::try_from(step.int("group", 1)).ok()?;
    let depthwise = group == channels && filters == channels && each == 1 && channels > 1;
    let taps = height.checked_mul(width)?;
    let fits = if depthwise {
        taps <= MAX_TAPS
    } else {
        group == 1 && each == channels && window_len(window.kernel, each)? <= MAX_DEPTH
    };
    if !fits {
        return None;
    }
    let unsigned = graph.values[w].dtype == DType::U8;
    let form = if depthwise { Form::Depthwise { channels, taps } } else { Form::Filters(shape) };
    let conv = IntegerConv {
        depthwise,
        unsigned,
        kernel: window.kernel,
        strides: window.strides,
        pads: [window.pads[0], window.pads[1]],
        dilations: window.dilations,
        act: Activation::None,
    };
    let op = Op::IntegerConv(conv);
    op.check().ok()?;
    let packed = graph.derive(Recipe::Integer { weights, form, unsigned })?;
    Some(Product { op, a: x, b: packed, columns: filters })
}
