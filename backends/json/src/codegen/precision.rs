//! How exactly products are computed on processors that are faster at those of bf16: what the user asked for, of every step that can be
//! computed so.

use super::graph::Graph;
use crate::kernels::{ConvKind, Math};
use crate::program::Op;

pub(super) fn run(graph: &mut Graph<'_>, math: Math) {
    for step in &mut graph.steps {
        match &mut step.op {
            Op::Gemm(gemm) if gemm.packed.is_some() => gemm.math = math,
            Op::Attention(attention) => attention.math = math,
            Op::Conv(conv) if matches!(conv.kind, ConvKind::Blocked | ConvKind::Winograd) => conv.math = math,
            _ => {}
        }
    }
}
