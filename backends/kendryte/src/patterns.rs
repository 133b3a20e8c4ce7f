//! What the backend takes, and why not: checks of single nodes and of regions (kmodel v3, section 9).

use byoc_plugin_api::{Options, Pattern, Refusal, Region};

use crate::lower::{Settings, lower};
use crate::place::place;

/// Weights: a constant, or one of a quantised model. The second way has a `DequantizeLinear` for each of several readers; the third
/// one matches what no layer holds, so that the reason is told.
const WEIGHTS: &str = "(or ?w:const ?w:q8const (DequantizeLinear ?w:const ?ws:const ?wz:const?))";

/// A bias, which may be absent: the same of 32 bits.
const BIAS: &str = "(or ?b:const? (DequantizeLinear ?b:const ?bs:const ?bz:const?))";

/// The parameters of a batch normalisation.
const NORM: &str = "?scale:const ?bias:const ?mean:const ?var:const";

/// Zeros around an image, which the convolution behind them has as its padding.
const PADDED: &str = "(Pad ?x PADS)";

/// The operands behind the image.
const PADS: &str = "?pads:const ?value:const? ?axes:const?";

/// What normalises an image in front of a convolution, in one or two nodes, and zeros around that.
const IMAGE: &str = "(or (Pad (or TWICE ONCE) PADS) TWICE ONCE)";
const TWICE: &str = "(Sub|Div|Mul|Add ONCE ?second:const)";
const ONCE: &str = "(Sub|Div|Mul ?x ?first:const)";

/// What core matches, the most wanted first. Matches are merged into regions; what runs as one layer is found when a
/// region is lowered.
pub(crate) fn patterns() -> Vec<Pattern> {
    let table = [
        ("image_conv_bn", "(BatchNormalization (Conv IMAGE WEIGHTS BIAS) NORM)"),
        ("image_conv", "(Conv IMAGE WEIGHTS BIAS)"),
        ("padded_conv_bn", "(BatchNormalization (Conv PADDED WEIGHTS BIAS) NORM)"),
        ("padded_conv", "(Conv PADDED WEIGHTS BIAS)"),
        ("conv_bn", "(BatchNormalization (Conv ?x WEIGHTS BIAS) NORM)"),
        ("conv", "(Conv ?x WEIGHTS BIAS)"),
        ("dense_bias", "(Add (MatMul ?x WEIGHTS) BIAS)"),
        ("dense", "(or (Gemm ?x WEIGHTS BIAS) (MatMul ?x WEIGHTS))"),
        ("swish", "(Mul ?x (Sigmoid ?x))"),
        ("add", "(Add ?x ?y)"),
        ("concat", "(Concat ...)"),
        ("max_pool", "(MaxPool ?x)"),
        ("average_pool", "(or (AveragePool|GlobalAveragePool ?x) (ReduceMean ?x ?axes:const?))"),
        (
            "function",
            "(or (Relu|LeakyRelu|Sigmoid|Tanh|HardSigmoid|HardSwish|Swish ?x) (Clip ?x ?min:const? ?max:const?))",
        ),
        ("resize", "(Resize ?x _? ?scales:const? ?sizes:const?)"),
        ("softmax", "(Softmax ?x)"),
        (
            "reshape",
            "(or (Flatten|Identity ?x) (Dropout ?x ...) (Reshape ?x ?shape:const) (Squeeze|Unsqueeze ?x ?axes:const?))",
        ),
        ("quantized", "(QuantizeLinear|DequantizeLinear ?x ?s:const ?z:const?)"),
    ];
    let names = [
        ("IMAGE", IMAGE),
        ("TWICE", TWICE),
        ("ONCE", ONCE),
        ("PADDED", PADDED),
        ("PADS", PADS),
        ("WEIGHTS", WEIGHTS),
        ("BIAS", BIAS),
        ("NORM", NORM),
    ];
    let whole = |text: &str| names.iter().fold(text.to_owned(), |text, (name, part)| text.replace(name, part));
    table.map(|(name, text)| Pattern::new(name, whole(text))).into()
}

/// Whether a candidate can be lowered and fits into the chip's memories.
pub(crate) fn check(candidate: &Region, options: &Options) -> Result<(), Refusal> {
    place(&lower(candidate, Settings::of(options))?).map(drop)
}
