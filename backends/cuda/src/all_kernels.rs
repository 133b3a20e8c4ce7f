//! Standalone kernels of every variant, for tests that compile all of them.

use byoc_nvidia::build::GeneratedKernel;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Dim};

use crate::kernels::conv::{self, Activation, ConvSpec};
use crate::kernels::pool::{self, Kind, PoolSpec};
use crate::kernels::window::Window;

/// Kernels called `k0`, `k1` and so on: poolings and convolutions of each type, every tile, every way to load one, and every
/// epilogue.
pub fn all_kernels() -> Vec<GeneratedKernel> {
    let mut pools = Vec::new();
    let mut convs = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::U8, DType::I8] {
        let kinds = [Kind::Maximum, Kind::Mean { padding_counts: false }, Kind::Mean { padding_counts: true }];
        for kind in if dtype.unpacked_bytes() == 1 { &kinds[..1] } else { &kinds } {
            for window in [square(112, 3, 2, 1), square(28, 14, 7, 0)] {
                let count = if window.is_inside() { Dim::Symbolic("n".into()) } else { Dim::Fixed(1 << 20) };
                pools.push(PoolSpec { kind: *kind, dtype, window, count });
            }
        }
        if dtype.unpacked_bytes() != 1 && dtype != DType::F64 {
            convs.extend(convolutions(dtype));
        }
    }
    let places = |count: usize| -> Vec<_> { (0..count).map(BufferRef::Input).chain([BufferRef::Output(0)]).collect() };
    let pools = pools.iter().enumerate().map(|(at, spec)| pool::generate(spec, &format!("k{at}"), &places(1)));
    let mut all: Vec<_> = pools.collect();
    for spec in &convs {
        let operands = 2 + usize::from(spec.bias) + usize::from(spec.residual);
        all.push(conv::generate(spec, &format!("k{}", all.len()), &places(operands)));
    }
    all
}

fn convolutions(dtype: DType) -> Vec<ConvSpec> {
    let open = || Dim::Symbolic("n".into());
    let sizes = [
        (square(224, 7, 2, 3), 1.into(), 1, [3, 64]),
        (square(56, 1, 1, 0), 8.into(), 1, [64, 256]),
        (square(56, 3, 1, 1), open(), 1, [64, 64]),
        (square(56, 3, 1, 1), 4.into(), 1, [16, 32]),
        (square(7, 3, 1, 1), 1.into(), 1, [512, 512]),
        (square(14, 1, 1, 0), 1.into(), 1, [1024, 512]),
        (square(7, 1, 1, 0), 1.into(), 1, [511, 2048]),
        (square(28, 1, 2, 0), open(), 1, [256, 512]),
        (square(56, 3, 1, 1), open(), 64, [1, 1]),
        (square(28, 3, 1, 1), 1.into(), 32, [8, 16]),
    ];
    let behind = [Activation::None, Activation::Relu, Activation::Clip { low: 0.0, high: 6.0 }];
    let spec = |(at, (window, batch, groups, [depth, filters])): (usize, (Window, Dim, usize, [usize; 2]))| {
        let (bias, residual, activation) = (at % 2 == 0, at % 3 == 1, behind[at % 3]);
        ConvSpec { dtype, window, batch, groups, depth, filters, bias, residual, activation }
    };
    sizes.into_iter().enumerate().map(spec).collect()
}

/// A square window.
fn square(input: usize, kernel: usize, stride: usize, pad: usize) -> Window {
    let output = (input + 2 * pad - kernel) / stride + 1;
    Window {
        input: [1, input, input],
        kernel: [1, kernel, kernel],
        stride: [1, stride, stride],
        dilation: [1; 3],
        begin: [0, pad, pad],
        end: [0, pad, pad],
        output: [1, output, output],
    }
}
