//! From a pattern to models that contain it: every shape of the pattern (optional operators, absent inputs,
//! alternatives), each in several shapes and element types.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{DType, Description, Expr};

use crate::data;
use crate::front;
use crate::onnx::{Fill, Model};
use crate::recipes::{self, Operand, Recipe, Wish};

/// Most forms of one pattern that are tried.
const MOST_FORMS: usize = 12;

/// A model with a name that says what is in it, such as `f32[2x8] constants`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) model: Model,
    pub(crate) kind: Kind,
}

/// Which cases are worth their time on a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All of them.
    Thorough,
    /// Those that compute.
    Plain,
    /// Those that work with a first dimension of unknown size.
    Symbolic,
}

/// A pattern without choices.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    Leaf { name: Option<String>, constant: bool, quantized: bool },
    Absent,
    Node { op: (String, String), operands: Vec<Form>, rest: bool },
}

/// What the pattern's outermost node is to give, and how operands are chosen that the pattern leaves open.
struct Variant {
    wish: Wish,
    /// Operands beside the first one that may be constants are constants, and optional ones are there.
    constants: bool,
    /// The second operand of an element-wise operator has only the last dimension.
    broadcast: bool,
    kind: Kind,
}

/// Where an operand comes from that is not a node of the pattern.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Constant,
    Input,
    /// Nodes that read an input, where there are some for the operand.
    Front,
}

/// Every sample of a pattern, with nodes in front where the backend's regions may start with some operators only, and the
/// pattern starts with others; its name then ends with `inner`. Empty where no model could be made: the pattern has an
/// operator that neither the table of shape makers nor the backend's own operators have.
pub(crate) fn samples(pattern: &Expr, backend: &Description) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for (index, form) in forms(pattern).iter().enumerate() {
        for variant in variants().iter().filter(|variant| index == 0 || variant.kind == Kind::Thorough) {
            let Some(model) = build(form, variant, backend) else { continue };
            let bytes = model.finish();
            if samples.iter().any(|known| known.model.finish() == bytes) {
                continue;
            }
            let form = if index == 0 { String::new() } else { format!(" form {index}") };
            let place = if model.front.is_empty() { "" } else { " inner" };
            let name = format!("{}{form}{place}", name(variant));
            samples.push(Sample { name, model, kind: variant.kind });
        }
    }
    samples
}

fn name(variant: &Variant) -> String {
    let mut shape: Vec<_> = variant.wish.shape.iter().map(usize::to_string).collect();
    if variant.kind == Kind::Symbolic {
        shape[0] = "batch".into();
    }
    let style = match (variant.constants, variant.broadcast) {
        (false, false) => "",
        (true, false) => " constants",
        (false, true) => " broadcast",
        (true, true) => " constants broadcast",
    };
    format!("{}[{}]{style}", variant.wish.dtype, shape.join("x"))
}

/// The shapes and types that are tried. Thorough ones come first, of each rank that operators ask for.
fn variants() -> Vec<Variant> {
    const THOROUGH: &[(DType, &[usize])] = &[
        (DType::F32, &[3, 16]),
        // Sizes that are not taken for one another.
        (DType::F32, &[1, 6, 10, 8]),
        (DType::F32, &[1, 8, 1, 1]),
        // One row: all that some accelerators take.
        (DType::F32, &[1, 7]),
        // Large enough for the compiler's search for secret copies of constants.
        (DType::F32, &[64, 64]),
        (DType::Bool, &[3, 16]),
        (DType::I64, &[4]),
    ];
    // Run with these sizes as well: constants may have been made for them.
    const SYMBOLIC: &[(DType, &[usize])] = &[(DType::F32, &[3, 16]), (DType::F32, &[3, 8, 6, 6])];
    const PLAIN: &[(DType, &[usize])] = &[
        (DType::F32, &[2, 3, 8]),
        (DType::F32, &[5]),
        (DType::F32, &[]),
        (DType::F32, &[65, 129]),
        (DType::F32, &[0, 8]),
        (DType::F32, &[0, 8, 6, 6]),
        (DType::F16, &[3, 16]),
        (DType::BF16, &[3, 16]),
        (DType::F64, &[3, 16]),
        (DType::I32, &[3, 16]),
        (DType::I64, &[3, 16]),
        (DType::U8, &[3, 16]),
    ];
    let mut variants = Vec::new();
    let mut add = |list: &[(DType, &[usize])], kind: Kind, broadcast: bool| {
        for (dtype, shape) in list {
            let wish = Wish { dtype: *dtype, shape: shape.to_vec() };
            let variant = |constants| Variant { wish: wish.clone(), constants, broadcast, kind };
            variants.extend([true, false].map(variant));
        }
    };
    add(THOROUGH, Kind::Thorough, false);
    add(&THOROUGH[..2], Kind::Thorough, true);
    add(PLAIN, Kind::Plain, false);
    add(&PLAIN[..1], Kind::Plain, true);
    add(SYMBOLIC, Kind::Symbolic, false);
    variants
}

/// The forms of a pattern, the one with the most in it first.
fn forms(pattern: &Expr) -> Vec<Form> {
    let mut forms = match pattern {
        Expr::Any { name, constant, absent } | Expr::Dequantized { name, constant, absent } => {
            let quantized = matches!(pattern, Expr::Dequantized { .. });
            let leaf = Form::Leaf { name: name.clone(), constant: *constant, quantized };
            if *absent { vec![leaf, Form::Absent] } else { vec![leaf] }
        }
        Expr::Or(alternatives) => alternatives.iter().flat_map(forms).collect(),
        Expr::Node { ops, optional, operands, rest } => {
            let mut lists = vec![Vec::new()];
            for operand in operands {
                let choices = forms(operand);
                let grown = choices.iter().flat_map(|choice| {
                    lists.iter().map(|list: &Vec<Form>| list.iter().cloned().chain([choice.clone()]).collect())
                });
                lists = grown.collect();
                lists.truncate(MOST_FORMS);
            }
            let node = |op: &(String, String), operands: &Vec<Form>| Form::Node {
                op: op.clone(),
                operands: operands.clone(),
                rest: *rest,
            };
            let there = lists.iter().flat_map(|operands| ops.iter().map(|op| node(op, operands)));
            let missing = operands.first().filter(|_| *optional).map(forms).unwrap_or_default();
            there.chain(missing).collect()
        }
    };
    forms.truncate(MOST_FORMS);
    forms
}

fn build(form: &Form, variant: &Variant, backend: &Description) -> Option<Model> {
    let (model, bound) = (Model::default(), HashMap::new());
    let mut behind = HashSet::new();
    shared_with_others(form, &backend.regions.starts_with, &mut behind);
    let mut builder = Builder { model, bound, behind, front_inputs: Vec::new(), values: 0, variant, backend };
    let output = builder.node(form, &variant.wish)?;
    builder.model.output(&output, variant.wish.dtype);
    // A model that reads nothing would be computed ahead of time.
    (!builder.model.inputs.is_empty()).then_some(builder.model)
}

/// Names of operands that a node reads with which no region may start: whatever else reads one, something has to be in front of it.
fn shared_with_others(form: &Form, starts: &[String], names: &mut HashSet<String>) {
    let Form::Node { op: (domain, op), operands, .. } = form else { return };
    let is_start = starts.is_empty() || (domain.is_empty() && starts.contains(op));
    for operand in operands {
        match operand {
            Form::Leaf { name: Some(name), constant: false, .. } if !is_start => {
                names.insert(name.clone());
            }
            operand => shared_with_others(operand, starts, names),
        }
    }
}

struct Builder<'a> {
    model: Model,
    /// Named operands: the same name is the same value.
    bound: HashMap<String, (String, Operand)>,
    /// Names of operands that something has to be in front of.
    behind: HashSet<String>,
    /// Inputs of nodes in front: all that want the same read the same one.
    front_inputs: Vec<(Wish, String)>,
    values: usize,
    variant: &'a Variant,
    backend: &'a Description,
}

impl<'a> Builder<'a> {
    /// Operators that a region may start with; any where there is none.
    fn starts(&self) -> &'a [String] {
        &self.backend.regions.starts_with
    }

    fn fresh(&mut self, kind: &str) -> String {
        self.values += 1;
        format!("{kind}{}", self.values)
    }

    /// Adds the node that gives what is wished for, and what it reads.
    fn node(&mut self, form: &Form, wish: &Wish) -> Option<String> {
        let Form::Node { op: (domain, op), operands, rest } = form else { return None };
        let inner = operands.get(1).is_some_and(|operand| matches!(operand, Form::Node { .. }));
        let recipe = match domain.as_str() {
            "" => recipes::find(op, wish, self.variant.broadcast && !inner),
            _ => None,
        };
        let own = || self.backend.operators.iter().find(|own| own.domain == *domain && own.name == *op);
        let recipe = recipe.or_else(|| Some(recipes::custom(own()?, wish)))?;
        if let Some(own) = own() {
            self.model.import(domain, own.since);
        }
        let count = match rest {
            true if self.variant.constants => recipe.operands.len().max(operands.len()),
            true => recipe.needed.max(operands.len()),
            false => operands.len(),
        };
        if count > recipe.operands.len() || count < recipe.needed {
            return None;
        }
        let open = Form::Leaf { name: None, constant: false, quantized: false };
        let form = |index: usize| operands.get(index).unwrap_or(&open);
        let is_constant = |index: usize| matches!(form(index), Form::Leaf { constant: true, .. });
        let starts = self.starts().is_empty() || (domain.is_empty() && self.starts().contains(op));
        let data = (0..count).find(|&index| !is_constant(index));
        let mut inputs = Vec::with_capacity(count);
        for (index, operand) in recipe.operands[..count].iter().enumerate() {
            let constant = is_constant(index) || (self.variant.constants && data != Some(index));
            let behind = matches!(form(index), Form::Leaf { name: Some(name), .. } if self.behind.contains(name));
            let origin = match (constant, starts && !behind) {
                (true, _) => Origin::Constant,
                (false, true) => Origin::Input,
                (false, false) => Origin::Front,
            };
            inputs.push(self.operand(form(index), operand, origin)?);
        }
        Some(self.add((domain, op), &recipe, inputs))
    }

    /// Adds a node and returns the name of its first output.
    fn add(&mut self, op: (&str, &str), recipe: &Recipe, inputs: Vec<String>) -> String {
        let output = self.fresh("v");
        let more = (0..recipe.more_outputs).map(|_| self.fresh("unread"));
        let outputs = std::iter::once(output.clone()).chain(more.collect::<Vec<_>>()).collect();
        self.model.node(op, inputs, outputs, &recipe.attributes);
        output
    }

    /// Adds an operand and returns its name.
    fn operand(&mut self, form: &Form, operand: &Operand, origin: Origin) -> Option<String> {
        match (form, operand) {
            (Form::Absent, _) | (Form::Leaf { .. }, Operand::Absent) => Some(String::new()),
            (Form::Node { .. }, Operand::Any(wish) | Operand::Finite(wish) | Operand::Positive(wish)) => {
                self.node(form, wish)
            }
            (Form::Node { .. }, _) => None,
            (
                Form::Leaf { quantized: true, name, constant },
                Operand::Any(wish) | Operand::Finite(wish) | Operand::Positive(wish),
            ) => self.dequantized(name.as_ref(), wish, *constant),
            (Form::Leaf { quantized: true, .. }, _) => None,
            (Form::Leaf { name: None, .. }, _) => Some(self.leaf(operand, origin)),
            (Form::Leaf { name: Some(name), .. }, _) => match self.bound.get(name) {
                Some((value, known)) => (known == operand).then(|| value.clone()),
                None => {
                    let value = self.leaf(operand, origin);
                    self.bound.insert(name.clone(), (value.clone(), operand.clone()));
                    Some(value)
                }
            },
        }
    }

    /// What a `DequantizeLinear` makes of an input or a constant of 8 bits.
    fn dequantized(&mut self, name: Option<&String>, wish: &Wish, constant: bool) -> Option<String> {
        if wish.dtype != DType::F32 {
            return None;
        }
        let (dtype, origin) = if constant { (DType::I8, Origin::Constant) } else { (DType::U8, Origin::Input) };
        let tensor = Form::Leaf { name: name.cloned(), constant, quantized: false };
        let x = self.operand(&tensor, &Operand::Any(Wish { dtype, shape: wish.shape.clone() }), origin)?;
        let (scale, zero) = (self.fixed(DType::F32, &[], [0.0625]), self.fixed(dtype, &[], [3.0]));
        Some(self.add(("", "DequantizeLinear"), &Recipe::default(), vec![x, scale, zero]))
    }

    fn leaf(&mut self, operand: &Operand, origin: Origin) -> String {
        let (wish, fill) = match operand {
            Operand::Any(wish) => (wish.clone(), Fill::Any),
            Operand::Finite(wish) => (wish.clone(), Fill::Finite),
            Operand::Positive(wish) => (wish.clone(), Fill::Positive),
            Operand::Below(limit, shape) => (Wish { dtype: DType::I64, shape: shape.clone() }, Fill::Below(*limit)),
            Operand::Ints(values, shape) => return self.fixed(DType::I64, shape, values.iter().map(|&int| int as f64)),
            Operand::Number(value, dtype) => return self.fixed(*dtype, &[], [*value]),
            Operand::Absent => return String::new(),
        };
        let front = (origin == Origin::Front && matches!(fill, Fill::Any | Fill::Finite))
            .then(|| front::nodes(self.starts(), &wish))
            .flatten();
        match (origin, front) {
            (Origin::Constant, _) => {
                let name = self.fresh("w");
                self.model.constant(&name, data::random(wish.dtype, &signed(&wish.shape), fill, &name));
                name
            }
            (_, Some(nodes)) => self.front(&nodes),
            (_, None) => self.input(&wish, fill),
        }
    }

    fn input(&mut self, wish: &Wish, fill: Fill) -> String {
        let name = self.fresh("x");
        let symbolic = self.variant.kind == Kind::Symbolic && wish.shape.first() == self.variant.wish.shape.first();
        self.model.input(&name, wish.dtype, &wish.shape, fill, symbolic);
        name
    }

    /// Adds nodes in front, given the last first, and returns what they give. All but their first operands are constants.
    fn front(&mut self, nodes: &[(&str, Recipe)]) -> String {
        let mut value = String::new();
        for (op, recipe) in nodes.iter().rev() {
            if let (true, Some(wish)) = (value.is_empty(), front::first(recipe)) {
                value = self.front_input(wish);
            }
            let others = recipe.operands[1..].iter().map(|operand| self.leaf(operand, Origin::Constant));
            let inputs = std::iter::once(value.clone()).chain(others.collect::<Vec<_>>()).collect();
            value = self.add(("", op), recipe, inputs);
            self.model.in_front(&value);
        }
        value
    }

    fn front_input(&mut self, wish: &Wish) -> String {
        if let Some((_, name)) = self.front_inputs.iter().find(|(known, _)| known == wish) {
            return name.clone();
        }
        let name = self.input(wish, Fill::Any);
        self.front_inputs.push((wish.clone(), name.clone()));
        name
    }

    fn fixed(&mut self, dtype: DType, shape: &[usize], values: impl IntoIterator<Item = f64>) -> String {
        let name = self.fresh("c");
        self.model.constant(&name, data::tensor(dtype, &signed(shape), values));
        name
    }
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::{Operator, Pattern};

    use super::*;

    /// A backend whose regions start with these operators.
    fn acme(starts: &[&str]) -> Description {
        let mut backend = Description::default();
        backend.regions.starts_with = starts.iter().map(|&op| op.to_owned()).collect();
        backend.operators =
            vec![Operator { domain: "com.acme".into(), name: "Swirl".into(), inputs: 2, ..Operator::default() }];
        backend
    }

    fn ops(text: &str) -> Vec<Vec<String>> {
        let samples = samples(&Pattern::new("p", text).parse().expect("valid"), &acme(&[]));
        let mut found: Vec<Vec<String>> = Vec::new();
        for sample in samples {
            let ops = sample.model.ops.into_iter().map(|(_, op)| op).collect();
            if !found.contains(&ops) {
                found.push(ops);
            }
        }
        found
    }

    #[test]
    fn every_form_of_a_pattern_becomes_a_model() {
        let cases: [(&str, &[&[&str]]); 8] = [
            ("(Relu ?x)", &[&["Relu"]]),
            ("(Add (MatMul ?x ?w:const) ?b:const)", &[&["MatMul", "Add"]]),
            ("(Relu|Tanh (Conv ?x ?w:const ?b:const?))", &[&["Conv", "Relu"], &["Conv", "Tanh"]]),
            ("(Add (Relu? (MatMul ?x ?w)) ?b)", &[&["MatMul", "Relu", "Add"], &["MatMul", "Add"]]),
            ("(or (Gemm ?x ?w:const ?b) (MatMul ?x ?w:const))", &[&["Gemm"], &["MatMul"]]),
            ("(MatMul ?x:q8 ?w:q8const)", &[&["DequantizeLinear", "DequantizeLinear", "MatMul"]]),
            ("(com.acme::Foo ?x)", &[]),
            ("(com.acme::Swirl ?x ?w:const)", &[&["Swirl"]]),
        ];
        for (text, expected) in cases {
            assert_eq!(ops(text), expected, "{text}");
        }
    }

    #[test]
    fn one_name_is_one_value() {
        let samples = samples(&Pattern::new("p", "(Mul ?x ?x)").parse().expect("valid"), &acme(&[]));
        assert!(samples.iter().all(|sample| sample.model.inputs.len() == 1));
    }

    /// The product may start a region, and what reads the same value may not.
    #[test]
    fn a_value_that_others_read_has_a_node_in_front() {
        let pattern = Pattern::new("p", "(Mul ?x (Sigmoid ?x))").parse().expect("valid");
        let samples = samples(&pattern, &acme(&["Conv", "Mul"]));
        let ops = |sample: &Sample| sample.model.ops.iter().map(|(_, op)| op.clone()).collect::<Vec<_>>();
        assert!(samples.iter().any(|sample| ops(sample) == ["Conv", "Sigmoid", "Mul"]));
        assert!(samples.iter().all(|sample| ops(sample) != ["Sigmoid", "Mul"]));
    }

    /// Name of a sample, its operators, and how many inputs it has.
    type Known = (&'static str, &'static [&'static str], usize);

    #[test]
    fn what_cannot_start_a_region_has_nodes_in_front() {
        let behind = |text: &str| {
            let samples = samples(&Pattern::new("p", text).parse().expect("valid"), &acme(&["Conv"]));
            let is_inner = |sample: &&Sample| sample.name.ends_with(" inner") && !sample.name.contains("broadcast");
            let sample = samples.iter().filter(is_inner).rfind(|sample| sample.name.starts_with("f32[1x6x10x8]"));
            let ops = |sample: &Sample| sample.model.ops.iter().map(|(_, op)| op.clone()).collect::<Vec<_>>();
            sample.map(|sample| (sample.name.clone(), ops(sample), sample.model.inputs.len()))
        };
        let cases: [(&str, Option<Known>); 4] = [
            ("(Conv ?x ?w:const)", None),
            ("(Relu ?x)", Some(("f32[1x6x10x8] constants inner", &["Conv", "Relu"], 1))),
            ("(Add ?x ?y)", Some(("f32[1x6x10x8] inner", &["Conv", "Conv", "Add"], 1))),
            ("(Sqrt ?x)", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(name, ops, inputs)| {
                (name.to_owned(), ops.iter().map(|op| op.to_string()).collect::<Vec<_>>(), inputs)
            });
            assert_eq!(behind(text), expected, "{text}");
        }
    }
}
