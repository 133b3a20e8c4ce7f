//! What the backend takes, and why not: checks of single nodes and of regions (kmodel v3, section 9).

use byoc_plugin_api::{Options, Pattern, Refusal, Region};

use crate::lower::{Settings, lower};
use crate::place::place;

/// What core matches, the most wanted first. Matches are merged into regions; what runs as one layer is found when a
/// region is lowered.
pub(crate) fn patterns() -> Vec<Pattern> {
    [
        (
            "conv_bn",
            "(BatchNormalization (Conv ?x ?w:const ?b:const?) ?scale:const ?bias:const ?mean:const ?var:const)",
        ),
        ("conv", "(Conv ?x ?w:const ?b:const?)"),
        ("dense_bias", "(Add (MatMul ?x ?w:const) ?b:const)"),
        ("dense", "(or (Gemm ?x ?w:const ?b:const?) (MatMul ?x ?w:const))"),
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
    ]
    .map(|(name, text)| Pattern::new(name, text))
    .into()
}

/// Whether a candidate can be lowered and fits into the chip's memories.
pub(crate) fn check(candidate: &Region, options: &Options) -> Result<(), Refusal> {
    place(&lower(candidate, Settings::of(options))?).map(drop)
}
