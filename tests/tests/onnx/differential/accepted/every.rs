//! Differences in the operators of [`EVERY`](super::super::operators::EVERY).

use byoc_plugin_api::Attribute;

use byoc_tests::tensor::Tensor;

use super::Accepted;

/// Those of onnxruntime's domain that quantise with a vector of floats.
const QUANTISED: &[&str] = &[
    "com.microsoft.QLinearAdd",
    "com.microsoft.QLinearMul",
    "com.microsoft.QLinearAveragePool",
    "com.microsoft.QLinearGlobalAveragePool",
    "com.microsoft.QLinearLeakyRelu",
    "com.microsoft.QLinearConcat",
    "com.microsoft.QLinearSigmoid",
    "com.microsoft.QLinearSoftmax",
    "com.microsoft.QLinearWhere",
];

/// What runs of more graphs than usual have met.
pub(super) const OF_LONG_RUNS: [&str; 4] = [
    "a Gelu of onnxruntime's domain of a number far below 0 is nearly 0, of few digits",
    "LogSoftmax of a row with an infinity is NaN, as ONNX's function has it; onnxruntime's of f64 is -inf beside it",
    "DFT of f64 is scaled in f64; onnxruntime divides by its length in f32",
    "a loss that is nearly 0 has few digits",
];

pub(super) const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "a number in the middle between two levels becomes the even one before the zero point is added, as in ONNX; \
                 onnxruntime's own operators round the sum, or off zero",
        holds: |it| it.only(QUANTISED).is_some() && !it.is_float() && it.elements(|a, b| (a - b).abs() <= 1.0),
    },
    Accepted {
        reason: "windows are computed in f64, as in ONNX's reference; onnxruntime's are of f32",
        holds: |it| {
            let window = it.only(&["BlackmanWindow", "HammingWindow", "HannWindow"]).is_some();
            window && it.elements(|a, b| (a - b).abs() <= 2e-7)
        },
    },
    Accepted {
        reason: "InstanceNormalization takes the mean off first, as ONNX says; onnxruntime takes off what it is scaled to, in few digits",
        holds: |it| it.only(&["InstanceNormalization"]).is_some() && it.elements(|a, b| (a - b).abs() <= 1e-3),
    },
    Accepted {
        reason: "MeanVarianceNormalization of elements that are all the same is 0, as ONNX's function has it; onnxruntime divides by 0",
        holds: |it| it.only(&["MeanVarianceNormalization"]).is_some() && it.elements(|a, b| a == 0.0 && b.is_nan()),
    },
    Accepted {
        reason: "StringSplit of an empty text by a delimiter has one part, as Python's split and ONNX's reference; onnxruntime: none",
        holds: |it| {
            let parts = |tensor: &Tensor| tensor.shape.last().copied();
            let none = parts(&it.difference.found) == Some(1) && parts(&it.difference.expected) == Some(0);
            it.only(&["StringSplit"]).is_some() && (none || it.elements(|a, b| a == 1.0 && b == 0.0))
        },
    },
    Accepted {
        reason: "a region of Resize counts along axes that stay as long as they are, as ONNX says; onnxruntime's nearest skips those",
        holds: |it| {
            let crop = Attribute::String("tf_crop_and_resize".into());
            it.only(&["Resize"]).is_some_and(|node| node.attributes.iter().any(|(_, value)| *value == crop))
        },
    },
    Accepted {
        reason: OF_LONG_RUNS[1],
        holds: |it| it.only(&["LogSoftmax"]).is_some() && it.elements(|a, b| a.is_nan() && b == f64::NEG_INFINITY),
    },
    Accepted {
        reason: "the Sigmoid that ends a product is nearly 0 far below 0; onnxruntime's is 0",
        holds: |it| {
            let fused = it.only(&["com.microsoft.FusedGemm", "com.microsoft.FusedConv"]).is_some();
            fused && it.elements(|a, b| a.abs() < 1e-4 && b == 0.0)
        },
    },
    Accepted {
        reason: OF_LONG_RUNS[2],
        holds: |it| it.only(&["DFT"]).is_some() && it.elements(|a, b| (a - b).abs() <= 1e-6 * (1.0 + b.abs())),
    },
    Accepted {
        reason: OF_LONG_RUNS[0],
        holds: |it| {
            let gelu = ["BiasGelu", "FastGelu", "Gelu", "QuickGelu"].map(|name| format!("com.microsoft.{name}"));
            let is_gelu = matches!(&it.case.nodes[..], [node] if gelu.iter().any(|name| name == node.op));
            is_gelu && it.elements(|a, b| (a - b).abs() <= 1e-5 && b.abs() <= 1e-4)
        },
    },
    Accepted {
        reason: OF_LONG_RUNS[3],
        holds: |it| it.only(&["SoftmaxCrossEntropyLoss"]).is_some() && it.elements(|a, b| (a - b).abs() <= 1e-6),
    },
    Accepted {
        reason: "Col2Im puts every tap of a dilated window in its place, along any number of axes; onnxruntime does along two",
        holds: |it| {
            let dilated = |value: &Attribute| matches!(value, Attribute::Ints(all) if all.iter().any(|&one| one > 1));
            it.only(&["Col2Im"]).is_some_and(|node| {
                let dilated = node.attributes.iter().any(|(name, value)| *name == "dilations" && dilated(value));
                dilated && it.difference.found.shape.len() != 4
            })
        },
    },
    Accepted {
        reason: "NonZero of a number without dimensions has no row, as ONNX says; onnxruntime's has one",
        holds: |it| it.only(&["NonZero"]).is_some() && it.difference.found.shape[0] == 0,
    },
];
