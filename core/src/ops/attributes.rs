//! Which attributes each operator has, of which kind, with which default and in which versions of the operator set.
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
    Strings,
    Tensor,
    Graph,
}

impl Kind {
    fn described(self) -> &'static str {
        match self {
            Kind::Int => "an integer",
            Kind::Float => "a number",
            Kind::String => "a text",
            Kind::Ints => "a list of integers",
            Kind::Floats => "a list of numbers",
            Kind::Strings => "a list of texts",
            Kind::Tensor => "a tensor",
            Kind::Graph => "a graph",
        }
    }
}

/// The default of an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// A model must not leave it out.
    Required,
    /// It stays absent, which has a meaning of its own.
    Absent,
    /// What follows from the shapes.
    Shapes,
    /// An integer.
    Int(i64),
    /// A number.
    Float(f32),
    /// A text.
    String(&'static str),
    /// A list of integers.
    Ints(&'static [i64]),
}

impl Default {
    /// The value, if it is one whatever the shapes are.
    pub fn value(self) -> Option<Attribute> {
        match self {
            Default::Required | Default::Absent | Default::Shapes => None,
            Default::Int(value) => Some(Attribute::Int(value)),
            Default::Float(value) => Some(Attribute::Float(value)),
            Default::String(value) => Some(Attribute::String(value.into())),
            Default::Ints(values) => Some(Attribute::Ints(values.into())),
        }
    }
}

/// An attribute of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttributeDef {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Its default.
    pub default: Default,
    /// The first version of the operator set in which the operator has it.
    pub since: i64,
    /// The last one, `None` while it still does.
    pub until: Option<i64>,
    /// Whether it is a constant in canonical form, and an input.
    pub lifted: bool,
}

/// The last version of attributes that models of any version may have and the canonical form has not.
const EVER: i64 = i64::MAX;

impl AttributeDef {
    pub(crate) const fn new(name: &'static str, kind: Kind, default: Default) -> AttributeDef {
        AttributeDef { name, kind, default, since: 1, until: None, lifted: false }
    }

    pub(crate) const fn since(mut self, version: i64) -> AttributeDef {
        self.since = version;
        self
    }

    /// It went after that version, so that its default does not matter.
    pub(super) const fn until(mut self, version: i64) -> AttributeDef {
        self.until = Some(version);
        self
    }

    pub(crate) const fn required(mut self) -> AttributeDef {
        self.default = Default::Required;
        self
    }

    /// In canonical form it is a constant: the node's weights are found by their content, as all others are.
    pub(super) const fn lifted(mut self) -> AttributeDef {
        self.lifted = true;
        self
    }

    /// The importer makes something else of it, whatever the version.
    pub(super) const fn rewritten(self) -> AttributeDef {
        self.until(EVER)
    }

    /// Whether nodes in canonical form have it.
    pub fn stays(&self) -> bool {
        self.until.is_none() && !self.lifted
    }

    pub(super) const fn by_shapes(mut self) -> AttributeDef {
        self.default = Default::Shapes;
        self
    }

    fn holds_in(&self, version: i64) -> bool {
        self.since <= version && self.until.is_none_or(|until| version <= until)
    }
}

pub(crate) const fn int(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Int, Default::Absent)
}

pub(crate) const fn int_or(name: &'static str, default: i64) -> AttributeDef {
    AttributeDef::new(name, Kind::Int, Default::Int(default))
}

pub(crate) const fn float(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Float, Default::Absent)
}

pub(crate) const fn float_or(name: &'static str, default: f32) -> AttributeDef {
    AttributeDef::new(name, Kind::Float, Default::Float(default))
}

pub(crate) const fn string_or(name: &'static str, default: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::String, Default::String(default))
}

pub(crate) const fn ints(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Ints, Default::Absent)
}

pub(crate) const fn graph(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Graph, Default::Absent)
}

pub(crate) const fn floats(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Floats, Default::Absent)
}

pub(super) const fn tensor(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Tensor, Default::Absent)
}

pub(crate) const fn string(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::String, Default::Absent)
}

pub(super) const fn strings(name: &'static str) -> AttributeDef {
    AttributeDef::new(name, Kind::Strings, Default::Absent)
}

/// The attributes of an operator.
pub type List = &'static [AttributeDef];

pub(super) const ARG: List = &[int_or("axis", 0), int_or("keepdims", 1), int_or("select_last_index", 0).since(12)];
pub(super) const ATTENTION: List = &[
    int_or("is_causal", 0),
    int("kv_num_heads"),
    int_or("left_window_size", -1).since(25),
    int("q_num_heads"),
    int_or("qk_matmul_output_mode", 0),
    int_or("right_window_size", -1).since(25),
    float("scale"),
    float_or("softcap", 0.0),
    int("softmax_precision"),
];
pub(super) const AVERAGE_POOL: List = &[
    AUTO_PAD,
    int_or("ceil_mode", 0).since(10),
    int_or("count_include_pad", 0).since(7),
    ints("dilations").by_shapes().since(19),
    ints("kernel_shape").required(),
    ints("pads").by_shapes(),
    ints("strides").by_shapes(),
];
pub(super) const AUTO_PAD: AttributeDef = string_or("auto_pad", "NOTSET");
pub(super) const BATCH_NORMALIZATION: List = &[
    float_or("epsilon", 1e-5),
    int("is_test").until(6),
    float_or("momentum", 0.9),
    int("spatial").until(8),
    int_or("training_mode", 0).since(14),
];
/// How two shapes met before they were broadcast as today.
pub(super) const BROADCAST: List = &[int("axis").until(6), int("broadcast").until(6)];
pub(super) const CAST: List =
    &[string_or("round_mode", "up").since(24), int_or("saturate", 1).since(19), int("to").required()];
pub(super) const CAST_LIKE: List = &[string_or("round_mode", "up").since(24), int_or("saturate", 1).since(19)];
pub(super) const CLIP: List = &[float("max").until(10), float("min").until(10)];
pub(super) const COMPRESS: List = &[int("axis")];
pub(super) const CONCAT: List = &[int("axis").required()];
pub(super) const CONSTANT_OF_SHAPE: List = &[tensor("value")];
pub(super) const CONV: List = &[
    AUTO_PAD,
    ints("dilations").by_shapes(),
    int_or("group", 1),
    ints("kernel_shape").by_shapes(),
    ints("pads").by_shapes(),
    ints("strides").by_shapes(),
];
pub(super) const BIT_CAST: List = &[int("to").required()];
pub(super) const BIT_SHIFT: List = &[AttributeDef::new("direction", Kind::String, Default::Required)];
pub(super) const CUM_SUM: List = &[int_or("exclusive", 0), int_or("reverse", 0)];
pub(super) const DEQUANTIZE_LINEAR: List =
    &[int_or("axis", 1).since(13), int_or("block_size", 0).since(21), int_or("output_dtype", 0).since(23)];
pub(super) const DROPOUT: List = &[int("is_test").until(6), float("ratio").until(11), int("seed").since(12)];
pub(super) const ELU: List = &[float_or("alpha", 1.0)];
pub(super) const EYE_LIKE: List = &[int("dtype"), int_or("k", 0)];
pub(super) const FLATTEN: List = &[int_or("axis", 1)];
pub(super) const GATHER: List = &[int_or("axis", 0)];
pub(super) const GATHER_ND: List = &[int_or("batch_dims", 0).since(12)];
pub(super) const GELU: List = &[string_or("approximate", "none")];
pub(super) const GEMM: List = &[
    float_or("alpha", 1.0),
    float_or("beta", 1.0),
    int("broadcast").until(6),
    int_or("transA", 0),
    int_or("transB", 0),
];
pub(super) const HARD_SIGMOID: List = &[float_or("alpha", 0.2), float_or("beta", 0.5)];
pub(super) const IS_INF: List = &[int_or("detect_negative", 1), int_or("detect_positive", 1)];
pub(super) const LAYER_NORMALIZATION: List = &[int_or("axis", -1), float_or("epsilon", 1e-5), int_or("stash_type", 1)];
pub(super) const LEAKY_RELU: List = &[float_or("alpha", 0.01)];
pub(super) const LRN: List =
    &[float_or("alpha", 1e-4), float_or("beta", 0.75), float_or("bias", 1.0), int("size").required()];
pub(super) const MAX_POOL: List = &[
    AUTO_PAD,
    int_or("ceil_mode", 0).since(10),
    ints("dilations").by_shapes().since(10),
    ints("kernel_shape").required(),
    ints("pads").by_shapes(),
    int_or("storage_order", 0).since(8),
    ints("strides").by_shapes(),
];
pub(super) const MOD: List = &[int_or("fmod", 0)];
pub(super) const NON_MAX_SUPPRESSION: List = &[int_or("center_point_box", 0)];
pub(super) const ONE_HOT: List = &[int_or("axis", -1)];
pub(super) const PAD: List = &[
    string_or("mode", "constant"),
    ints("paddings").until(1),
    ints("pads").since(2).until(10),
    float("value").until(10),
];
pub(super) const RANGE: List = &[int_or("stash_type", 1).since(27)];
pub(super) const QUANTIZE_LINEAR: List = &[
    int_or("axis", 1).since(13),
    int_or("block_size", 0).since(21),
    int_or("output_dtype", 0).since(21),
    int_or("precision", 0).since(23),
    int_or("saturate", 1).since(19),
];
/// ReduceSum has had its axes as an input since 13, the other reductions since 18.
pub(super) const REDUCE: List =
    &[ints("axes").until(17), int_or("keepdims", 1), int_or("noop_with_empty_axes", 0).since(18)];
pub(super) const REDUCE_SUM: List =
    &[ints("axes").until(12), int_or("keepdims", 1), int_or("noop_with_empty_axes", 0).since(13)];
pub(super) const RESHAPE: List = &[int_or("allowzero", 0).since(14), ints("shape").until(4)];
pub(super) const RESIZE: List = &[
    int_or("antialias", 0).since(18),
    ints("axes").by_shapes().since(18),
    string_or("coordinate_transformation_mode", "half_pixel").since(11),
    float_or("cubic_coeff_a", -0.75).since(11),
    int_or("exclude_outside", 0).since(11),
    float_or("extrapolation_value", 0.0).since(11),
    string_or("keep_aspect_ratio_policy", "stretch").since(18),
    string_or("mode", "nearest"),
    string_or("nearest_mode", "round_prefer_floor").since(11),
];
pub(super) const REVERSE_SEQUENCE: List = &[int_or("batch_axis", 1), int_or("time_axis", 0)];
pub(super) const ROTARY: List = &[int_or("interleaved", 0), int("num_heads"), int_or("rotary_embedding_dim", 0)];
pub(super) const SCATTER_ELEMENTS: List = &[int_or("axis", 0), string_or("reduction", "none").since(16)];
pub(super) const SCATTER_ND: List = &[string_or("reduction", "none").since(16)];
pub(super) const SHAPE: List = &[int("end").since(15), int_or("start", 0).since(15)];
pub(super) const SLICE: List = &[ints("axes").until(9), ints("ends").until(9), ints("starts").until(9)];
pub(super) const SOFTMAX: List = &[int_or("axis", -1)];
pub(super) const SPLIT: List = &[int_or("axis", 0), int("num_outputs").since(18), ints("split").until(12)];
pub(super) const SQUEEZE: List = &[ints("axes").until(12)];
pub(super) const SWISH: List = ELU;
pub(super) const TOP_K: List =
    &[int_or("axis", -1), int("k").required().until(9), int_or("largest", 1).since(11), int_or("sorted", 1).since(11)];
pub(super) const TRANSPOSE: List = &[ints("perm").by_shapes()];
pub(super) const TRILU: List = &[int_or("upper", 1)];
pub(super) const UNIQUE: List = &[int("axis"), int_or("sorted", 1)];
pub(super) const UPSAMPLE: List = &[
    float("height_scale").until(6),
    string_or("mode", "nearest"),
    floats("scales").since(7).until(8),
    float("width_scale").until(6),
];

/// Fails where a node of that version of the operator set has an attribute that its operator does not have there.
pub(crate) fn check_names<'a>(def: &OpDef, version: i64, names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    check_names_of(&def.qualified(), def.attributes, version, names)
}

/// The same for an operator that has these attributes.
pub(crate) fn check_names_of<'a>(
    op: &str,
    all: List,
    version: i64,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<()> {
    let known = || all.iter().filter(|attribute| attribute.holds_in(version)).map(|attribute| attribute.name);
    // Operator sets 1 to 5 named for every operator the inputs that it may overwrite. Operators of other domains have a dot.
    let everywhere = |name: &str| version < 6 && name == "consumed_inputs" && !op.contains('.');
    for name in names {
        if known().any(|other| other == name) || everywhere(name) {
            continue;
        }
        let cause = format!("attribute '{name}' is not known for operator {op} version {version}");
        let error = bad(cause);
        return Err(match (all.iter().find(|attribute| attribute.name == name), closest(name, known())) {
            (Some(other), _) if other.since > version => error
                .hint(format!("It came with operator set {}; export the model with that or a newer one", other.since)),
            (Some(AttributeDef { until: Some(until), .. }), _) => {
                error.hint(format!("It went after operator set {until}; export the model again"))
            }
            (_, Some(near)) => error.hint(format!("Did you mean '{near}'?")),
            (_, None) => error.hint(format!("Export the model again; {op} has {}", listed(known()))),
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
        let Some(attribute) = def.attribute(name) else {
            return Err(bad(format!("attribute '{name}' is not known for operator {}", def.qualified())));
        };
        check_kind(attribute, value)?;
    }
    Ok(())
}

/// Fails where the value of an attribute is of another kind.
pub(crate) fn check_kind(attribute: &AttributeDef, value: &Attribute) -> Result<()> {
    let fits = matches!(
        (attribute.kind, value),
        (Kind::Int, Attribute::Int(_))
            | (Kind::Float, Attribute::Float(_))
            | (Kind::String, Attribute::String(_))
            | (Kind::Ints, Attribute::Ints(_))
            | (Kind::Floats, Attribute::Floats(_))
            | (Kind::Strings, Attribute::Strings(_))
            | (Kind::Tensor, Attribute::Tensor { .. })
    );
    match fits {
        true => Ok(()),
        false => Err(bad(format!("attribute '{}' must be {}", attribute.name, attribute.kind.described()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, check};
    use crate::ops::{all, find_any};

    /// The error for an attribute of an operator in a version of the operator set: cause and remedy.
    fn names(op: &str, version: i64, name: &str) -> Option<(String, String)> {
        let error = check_names(find_any("", op)?, version, [name]).err()?;
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
            ("Relu", 6, "consumed_inputs", "Export the model again; Relu has no attributes"),
            ("Gather", 13, "batch_dimensions", "Export the model again; Gather has axis"),
            ("ReduceMax", 18, "axes", "It went after operator set 17; export the model again"),
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
        for def in all() {
            let sorted = def.attributes.windows(2).all(|pair| pair[0].name < pair[1].name);
            assert!(sorted && def.attributes.iter().all(|one| one.until.is_none_or(|until| one.since <= until)));
        }
    }
}
