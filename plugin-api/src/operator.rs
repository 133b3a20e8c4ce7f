//! Custom operators: those that a backend brings beside the ones that the compiler knows. A model may use them wherever
//! the backend is in the list; their nodes travel to the backends whose patterns name them.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::region::{Attribute, Dim};

/// An operator that a backend brings ([`crate::Description::operators`]). End a literal with `..Operator::default()`.
///
/// The compiler knows nothing of it but what stands here: it checks the numbers of inputs and outputs and the attributes,
/// writes defaults out, and gives the outputs their types. Its nodes keep the form that the model has
/// ([`crate::Node::version`]). Where the compiler knows an operator itself, what a backend says of it is not used.
///
/// ```
/// use byoc_plugin_api::{AttributeKind, CustomAttribute, Operator, OutputRule};
///
/// let swirl = Operator {
///     domain: "com.acme".into(),
///     name: "Swirl".into(),
///     inputs: 2,
///     attributes: vec![CustomAttribute::required("table", AttributeKind::Tensor)],
///     outputs: vec![OutputRule::like(0)],
///     ..Operator::default()
/// };
/// assert!(swirl.holds_in(1));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Operator {
    /// Its domain, such as `com.acme`; empty for one of ONNX's own that the compiler does not know.
    pub domain: String,
    /// Its name, as `op_type` of the model's nodes.
    pub name: String,
    /// The first version of its operator set in which it has this form. Rows of other versions may stand beside this one.
    pub since: i64,
    /// The last such version; `None` for every later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// How many inputs a node must have.
    pub inputs: usize,
    /// How many more it may have.
    #[serde(skip_serializing_if = "is_zero")]
    pub optional_inputs: usize,
    /// Whether it may have any number of inputs beyond those that it must have.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub variadic: bool,
    /// Its attributes. A model with any other is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<CustomAttribute>,
    /// The type of each output; a node need not use all. Empty where [`crate::Backend::infer`] gives the types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputRule>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Default for Operator {
    fn default() -> Operator {
        Operator {
            domain: String::new(),
            name: String::new(),
            since: 1,
            until: None,
            inputs: 1,
            optional_inputs: 0,
            variadic: false,
            attributes: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

impl Operator {
    /// Whether it has this form in that version of its operator set.
    pub fn holds_in(&self, version: i64) -> bool {
        self.since <= version && self.until.is_none_or(|until| version <= until)
    }

    /// Most inputs of a node; `None` where there is no limit.
    pub fn most_inputs(&self) -> Option<usize> {
        (!self.variadic).then(|| self.inputs.saturating_add(self.optional_inputs))
    }
}

/// An attribute of a custom operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomAttribute {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: AttributeKind,
    /// What a node has that leaves it out; where it has no default either, the node is without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Attribute>,
    /// Whether a model must not leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

impl CustomAttribute {
    /// One that a model may leave out.
    pub fn optional(name: impl Into<String>, kind: AttributeKind) -> CustomAttribute {
        CustomAttribute { name: name.into(), kind, default: None, required: false }
    }

    /// One that every node has.
    pub fn required(name: impl Into<String>, kind: AttributeKind) -> CustomAttribute {
        CustomAttribute { required: true, ..CustomAttribute::optional(name, kind) }
    }

    /// One with a default, which gives its kind.
    pub fn with_default(name: impl Into<String>, default: Attribute) -> CustomAttribute {
        let kind = AttributeKind::of(&default);
        CustomAttribute { default: Some(default), ..CustomAttribute::optional(name, kind) }
    }
}

/// What an attribute holds; the names are those of [`Attribute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "each variant is one of `Attribute`")]
#[non_exhaustive]
pub enum AttributeKind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Strings,
    Tensor,
    Tensors,
    Graph,
}

impl AttributeKind {
    /// That of an attribute.
    pub fn of(attribute: &Attribute) -> AttributeKind {
        match attribute {
            Attribute::Int(_) => AttributeKind::Int,
            Attribute::Float(_) => AttributeKind::Float,
            Attribute::String(_) => AttributeKind::String,
            Attribute::Ints(_) => AttributeKind::Ints,
            Attribute::Floats(_) => AttributeKind::Floats,
            Attribute::Strings(_) => AttributeKind::Strings,
            Attribute::Tensor { .. } => AttributeKind::Tensor,
            Attribute::Tensors(_) => AttributeKind::Tensors,
            Attribute::Graph(_) => AttributeKind::Graph,
        }
    }

    /// In words, as messages have it.
    pub fn described(self) -> &'static str {
        match self {
            AttributeKind::Int => "an integer",
            AttributeKind::Float => "a number",
            AttributeKind::String => "a text",
            AttributeKind::Ints => "a list of integers",
            AttributeKind::Floats => "a list of numbers",
            AttributeKind::Strings => "a list of texts",
            AttributeKind::Tensor => "a tensor",
            AttributeKind::Tensors => "a list of tensors",
            AttributeKind::Graph => "a graph",
        }
    }
}

/// How the type of an output follows from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputRule {
    /// Its element type.
    pub dtype: DTypeRule,
    /// Its shape.
    pub shape: ShapeRule,
}

impl OutputRule {
    /// Element type and shape of the input at that position.
    pub fn like(input: usize) -> OutputRule {
        OutputRule { dtype: DTypeRule::Input(input), shape: ShapeRule::Input(input) }
    }

    /// The element type of input 0, and the shape that all inputs are broadcast to.
    pub fn broadcast() -> OutputRule {
        OutputRule { dtype: DTypeRule::Input(0), shape: ShapeRule::Broadcast }
    }
}

/// How the element type of an output follows from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DTypeRule {
    /// That of the input at this position.
    Input(usize),
    /// Always this one.
    Fixed(DType),
    /// The one whose number in ONNX this attribute holds, as `to` of `Cast` does.
    Attribute(String),
    /// A rule of a later version.
    #[serde(untagged)]
    Later(serde_json::Value),
}

/// How the shape of an output follows from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShapeRule {
    /// That of the input at this position.
    Input(usize),
    /// The one that all inputs are broadcast to.
    Broadcast,
    /// Always this one.
    Fixed(Vec<usize>),
    /// The list of integers in this attribute.
    Attribute(String),
    /// As many sizes, which only the run tells: for backends that say
    /// [`run_time_sizes`](crate::Description::run_time_sizes).
    #[serde(rename = "run_time")]
    RunTime(usize),
    /// A rule of a later version.
    #[serde(untagged)]
    Later(serde_json::Value),
}

/// The type of an output, as [`crate::Backend::infer`] tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputType {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension: a number, or an expression over the sizes of the inputs such as `batch*2`. A text that begins with
    /// `?`, such as `?rows`, is a size that only the run tells; equal texts are equal sizes. It is for backends that say
    /// [`run_time_sizes`](crate::Description::run_time_sizes).
    pub shape: Vec<Dim>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a vendor in C writes is enough, and what a later version adds is no damage.
    #[test]
    fn short_forms_and_later_ones_are_read() {
        let text = r#"{"domain":"com.acme","name":"Swirl","inputs":2,"later":1,"outputs":[
            {"dtype":{"input":0},"shape":"broadcast"}, {"dtype":{"fixed":"i64"},"shape":{"later":[1]}}]}"#;
        let read: Operator = serde_json::from_str(text).expect("valid");
        let outputs = vec![
            OutputRule::broadcast(),
            OutputRule {
                dtype: DTypeRule::Fixed(DType::I64),
                shape: ShapeRule::Later(serde_json::json!({"later": [1]})),
            },
        ];
        let expected =
            Operator { domain: "com.acme".into(), name: "Swirl".into(), inputs: 2, outputs, ..Operator::default() };
        assert_eq!(read, expected);
        let written = serde_json::to_string(&expected).expect("JSON");
        assert_eq!(serde_json::from_str::<Operator>(&written).expect("valid"), expected);
    }

    #[test]
    fn versions_and_counts() {
        let operator = Operator { since: 2, until: Some(3), inputs: 1, optional_inputs: 2, ..Operator::default() };
        assert_eq!([1, 2, 3, 4].map(|version| operator.holds_in(version)), [false, true, true, false]);
        assert_eq!(operator.most_inputs(), Some(3));
        assert_eq!(Operator { variadic: true, ..operator }.most_inputs(), None);
    }
}
