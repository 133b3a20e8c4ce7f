//! Which attributes each operator has, of which kind and in which versions of the operator set.
//! `tests/python/operator_schemas.py` compares them with ONNX's own schemas.

use byoc_plugin_api::{Attribute, closest};

use super::OpDef;
use super::infer::bad;
use crate::diagnostic::Result;
use crate::ir::Node;

/// What an attribute holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is named after ONNX's own word")]
pub enum Kind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Tensor,
}

impl Kind {
    fn described(self) -> &'static str {
        match self {
            Kind::Int => "an integer",
            Kind::Float => "a number",
            Kind::String => "a text",
            Kind::Ints => "a list of integers",
            Kind::Floats => "a list of numbers",
            Kind::Tensor => "a tensor",
        }
    }
}

/// An attribute of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeDef {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The first version of the operator set in which the operator has it.
    pub since: i64,
    /// The last one, `None` while it still does.
    pub until: Option<i64>,
}

impl AttributeDef {
    const fn new(name: &'static str, kind: Kind) -> AttributeDef {
        AttributeDef { name, kind, since: 1, until: None }
    }

    const fn since(mut self, version: i64) -> AttributeDef {
        self.since = version;
        self
    }

    const fn until(mut self, version: i64) -> AttributeDef {
        self.until = Some(version);
        self
    }

    fn holds_in(&self, version: i64) -> bool {
        self.since <= version && self.until.is_none_or(|until| version <= until)
    }
}

const fn int(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Int)
}

const fn float(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Float)
}

const fn string(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::String)
}

const fn ints(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Ints)
}

/// The attributes of an operator.
pub type List = &'static [AttributeDef];

pub(super) const ALPHA: List = &[float("alpha")];
pub(super) const ARG: List = &[int("axis"), int("keepdims"), int("select_last_index").since(12)];
pub(super) const ATTENTION: List = &[
    int("is_causal"),
    int("kv_num_heads"),
    int("left_window_size").since(25),
    int("q_num_heads"),
    int("qk_matmul_output_mode"),
    int("right_window_size").since(25),
    float("scale"),
    float("softcap"),
    int("softmax_precision"),
];
pub(super) const AVERAGE_POOL: List = &[
    string("auto_pad"),
    int("ceil_mode").since(10),
    int("count_include_pad").since(7),
    ints("dilations").since(19),
    ints("kernel_shape"),
    ints("pads"),
    ints("strides"),
];
pub(super) const AXIS: List = &[int("axis")];
pub(super) const BATCH_NORMALIZATION: List = &[
    float("epsilon"),
    int("is_test").until(6),
    float("momentum"),
    int("spatial").until(8),
    int("training_mode").since(14),
];
/// How two shapes met before they were broadcast as today.
pub(super) const BROADCAST: List = &[int("axis").until(6), int("broadcast").until(6)];
pub(super) const CAST: List = &[string("round_mode").since(24), int("saturate").since(19), int("to")];
pub(super) const CLIP: List = &[float("max").until(10), float("min").until(10)];
pub(super) const CONSTANT_OF_SHAPE: List = &[AttributeDef::new("value", Kind::Tensor)];
pub(super) const CONV: List =
    &[string("auto_pad"), ints("dilations"), int("group"), ints("kernel_shape"), ints("pads"), ints("strides")];
pub(super) const CUM_SUM: List = &[int("exclusive"), int("reverse")];
pub(super) const DROPOUT: List = &[int("is_test").until(6), float("ratio").until(11), int("seed").since(12)];
pub(super) const GATHER_ND: List = &[int("batch_dims").since(12)];
pub(super) const GELU: List = &[string("approximate")];
pub(super) const GEMM: List = &[float("alpha"), float("beta"), int("broadcast").until(6), int("transA"), int("transB")];
pub(super) const HARD_SIGMOID: List = &[float("alpha"), float("beta")];
pub(super) const LAYER_NORMALIZATION: List = &[int("axis"), float("epsilon"), int("stash_type")];
pub(super) const LRN: List = &[float("alpha"), float("beta"), float("bias"), int("size")];
pub(super) const MAX_POOL: List = &[
    string("auto_pad"),
    int("ceil_mode").since(10),
    ints("dilations").since(10),
    ints("kernel_shape"),
    ints("pads"),
    int("storage_order").since(8),
    ints("strides"),
];
pub(super) const MOD: List = &[int("fmod")];
pub(super) const PAD: List =
    &[string("mode"), ints("paddings").until(1), ints("pads").since(2).until(10), float("value").until(10)];
pub(super) const RANGE: List = &[int("stash_type").since(27)];
/// ReduceSum has had its axes as an input since 13, the other reductions since 18.
pub(super) const REDUCE: List = &[ints("axes").until(17), int("keepdims"), int("noop_with_empty_axes").since(18)];
pub(super) const REDUCE_SUM: List = &[ints("axes").until(12), int("keepdims"), int("noop_with_empty_axes").since(13)];
pub(super) const RESHAPE: List = &[int("allowzero").since(14), ints("shape").until(4)];
pub(super) const RESIZE: List = &[
    int("antialias").since(18),
    ints("axes").since(18),
    string("coordinate_transformation_mode").since(11),
    float("cubic_coeff_a").since(11),
    int("exclude_outside").since(11),
    float("extrapolation_value").since(11),
    string("keep_aspect_ratio_policy").since(18),
    string("mode"),
    string("nearest_mode").since(11),
];
pub(super) const ROTARY: List = &[int("interleaved"), int("num_heads"), int("rotary_embedding_dim")];
pub(super) const SCATTER_ND: List = &[string("reduction").since(16)];
pub(super) const SHAPE: List = &[int("end").since(15), int("start").since(15)];
pub(super) const SLICE: List = &[ints("axes").until(9), ints("ends").until(9), ints("starts").until(9)];
pub(super) const SPLIT: List = &[int("axis"), int("num_outputs").since(18), ints("split").until(12)];
pub(super) const SQUEEZE: List = &[ints("axes").until(12)];
pub(super) const TRANSPOSE: List = &[ints("perm")];
pub(super) const TRILU: List = &[int("upper")];
/// Upsample has no row among the operators: it is rewritten to Resize.
const UPSAMPLE: List = &[
    float("height_scale").until(6),
    string("mode"),
    AttributeDef::new("scales", Kind::Floats).since(7).until(8),
    float("width_scale").until(6),
];

/// The attributes that an operator has had in any version, by its name in that version; `None` for one that core does
/// not know.
pub fn of(op: &str) -> Option<&'static [AttributeDef]> {
    match op {
        "Upsample" => Some(UPSAMPLE),
        _ => super::find("", op).map(|def| def.attributes),
    }
}

/// Fails where a node of that version of the operator set has an attribute that its operator does not have there.
pub(crate) fn check_names<'a>(op: &str, version: i64, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let all = of(op).unwrap_or_default();
    let known = || all.iter().filter(|attribute| attribute.holds_in(version)).map(|attribute| attribute.name);
    for name in names {
        // Operator sets 1 to 5 told of every operator which inputs it may overwrite.
        if known().any(|other| other == name) || version < 6 && name == "consumed_inputs" {
            continue;
        }
        let cause = format!("attribute '{name}' is not known for operator {op} version {version}");
        let error = bad(cause);
        return Err(match (all.iter().find(|attribute| attribute.name == name), closest(name, known())) {
            (Some(other), _) if other.since > version => error
                .hint(format!("It came with operator set {}; export the model with that or a newer one", other.since)),
            (Some(AttributeDef { until: Some(until), .. }), _) => {
                error.hint(format!("It went after operator set {until}; export the model anew"))
            }
            (_, Some(near)) => error.hint(format!("Did you mean '{near}'?")),
            (_, None) => error.hint(format!("Export the model anew; {op} has {}", listed(known()))),
        });
    }
    Ok(())
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "no attributes".into() } else { names.join(", ") }
}

/// Fails where an attribute of a node in canonical form is not one of its operator's, or is of another kind.
pub(super) fn check_kinds(def: &OpDef, node: &Node) -> Result<()> {
    for (name, value) in &node.attributes {
        let mut today = def.attributes.iter().filter(|attribute| attribute.until.is_none());
        let Some(attribute) = today.find(|attribute| attribute.name == name) else {
            return Err(bad(format!("attribute '{name}' is not known for operator {}", def.name)));
        };
        let fits = matches!(
            (attribute.kind, value),
            (Kind::Int, Attribute::Int(_))
                | (Kind::Float, Attribute::Float(_))
                | (Kind::String, Attribute::String(_))
                | (Kind::Ints, Attribute::Ints(_))
                | (Kind::Floats, Attribute::Floats(_))
                | (Kind::Tensor, Attribute::Tensor { .. })
        );
        if !fits {
            return Err(bad(format!("attribute '{name}' must be {}", attribute.kind.described())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::OPS;
    use crate::ops::testing::{Case, check};

    /// The error for an attribute of an operator in a version of the operator set: cause and remedy.
    fn names(op: &str, version: i64, name: &str) -> Option<(String, String)> {
        let error = check_names(op, version, [name]).err()?;
        Some((error.message, error.hint.unwrap_or_default()))
    }

    #[test]
    fn names_are_those_of_the_version() {
        for (op, version, name) in [
            ("ReduceMax", 17, "axes"),
            ("ReduceMax", 18, "noop_with_empty_axes"),
            ("ReduceSum", 12, "axes"),
            ("Upsample", 9, "mode"),
            ("Relu", 1, "consumed_inputs"),
            ("Attention", 25, "left_window_size"),
        ] {
            assert_eq!(names(op, version, name), None, "{op} {version} {name}");
        }
        let cases = [
            ("Conv", 22, "stride", "Did you mean 'strides'?"),
            ("Relu", 6, "consumed_inputs", "Export the model anew; Relu has no attributes"),
            ("Gather", 13, "batch_dimensions", "Export the model anew; Gather has axis"),
            ("ReduceMax", 18, "axes", "It went after operator set 17; export the model anew"),
            (
                "Attention",
                24,
                "left_window_size",
                "It came with operator set 25; export the model with that or a newer one",
            ),
        ];
        for (op, version, name, remedy) in cases {
            let cause = format!("attribute '{name}' is not known for operator {op} version {version}");
            assert_eq!(names(op, version, name), Some((cause, remedy.to_owned())));
        }
    }

    const KINDS: &[Case] = &[
        ("Relu", "alpha=1", "f32[2]", "[B106] attribute 'alpha' is not known for operator Relu"),
        ("ReduceSum", "axes=[0]", "f32[2]", "[B106] attribute 'axes' is not known for operator ReduceSum"),
        ("Elu", "alpha=1", "f32[2]", "[B106] attribute 'alpha' must be a number"),
        ("Concat", "axis=[1]", "f32[2]", "[B106] attribute 'axis' must be an integer"),
        ("Pad", "mode=1", "f32[2] i64[2]=1,1", "[B106] attribute 'mode' must be a text"),
        ("Transpose", "perm=0", "f32[2]", "[B106] attribute 'perm' must be a list of integers"),
    ];

    #[test]
    fn kinds_are_the_operators() {
        check(KINDS);
    }

    #[test]
    fn lists_are_sorted_by_name() {
        for def in OPS {
            let sorted = def.attributes.windows(2).all(|pair| pair[0].name < pair[1].name);
            assert!(sorted && def.attributes.iter().all(|one| one.until.is_none_or(|until| one.since <= until)));
        }
    }
}
