//! From a pattern to models that contain it: every shape of the pattern (optional operators, absent inputs,
//! alternatives), each in several shapes and element types.

use std::collections::HashMap;

use byoc_plugin_api::{DType, Expr};

use crate::data;
use crate::onnx::{Fill, Model};
use crate::recipes::{self, Operand, Wish};

/// Most forms of one pattern that are tried.
const MOST_FORMS: usize = 6;

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
    Leaf { name: Option<String>, constant: bool },
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

/// Every sample of a pattern. Empty where no model could be made: the pattern has an operator of another domain, or one
/// that the table of shape makers does not have.
pub(crate) fn samples(pattern: &Expr) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for (index, form) in forms(pattern).iter().enumerate() {
        for variant in variants().iter().filter(|variant| index == 0 || variant.kind == Kind::Thorough) {
            let Some(model) = build(form, variant) else { continue };
            let bytes = model.finish();
            if samples.iter().any(|known| known.model.finish() == bytes) {
                continue;
            }
            let name =
                format!("{}{}", name(variant), if index == 0 { String::new() } else { format!(" form {index}") });
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

/// The shapes and types that are tried. Thorough ones come first, one for each rank that operators ask for.
fn variants() -> Vec<Variant> {
    const THOROUGH: &[(DType, &[usize])] = &[
        (DType::F32, &[3, 16]),
        (DType::F32, &[1, 8, 6, 6]),
        (DType::F32, &[1, 8, 1, 1]),
        // Large enough for the compiler's search for secret copies of constants.
        (DType::F32, &[64, 64]),
        (DType::Bool, &[3, 16]),
        (DType::I64, &[4]),
    ];
    // Run with these sizes as well: constants may have been made for them.
    const SYMBOLIC: &[(DType, &[usize])] = &[(DType::F32, &[3, 16]), (DType::F32, &[3, 8, 6, 6])];
    const PLAIN: &[(DType, &[usize])] = &[
        (DType::F32, &[2, 3, 8]),
        (DType::F32, &[1, 7]),
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
        Expr::Any { name, constant, absent } => {
            let leaf = Form::Leaf { name: name.clone(), constant: *constant };
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

fn build(form: &Form, variant: &Variant) -> Option<Model> {
    let mut builder = Builder { model: Model::default(), bound: HashMap::new(), values: 0, variant };
    let output = builder.node(form, &variant.wish)?;
    builder.model.output(&output, variant.wish.dtype);
    // A model that reads nothing would be computed ahead of time.
    (!builder.model.inputs.is_empty()).then_some(builder.model)
}

struct Builder<'a> {
    model: Model,
    /// Named operands: the same name is the same value.
    bound: HashMap<String, (String, Operand)>,
    values: usize,
    variant: &'a Variant,
}

impl Builder<'_> {
    fn fresh(&mut self, kind: &str) -> String {
        self.values += 1;
        format!("{kind}{}", self.values)
    }

    /// Adds the node that gives what is wished for, and what it reads.
    fn node(&mut self, form: &Form, wish: &Wish) -> Option<String> {
        let Form::Node { op: (domain, op), operands, rest } = form else { return None };
        let inner = operands.get(1).is_some_and(|operand| matches!(operand, Form::Node { .. }));
        let recipe = match domain.as_str() {
            "" => recipes::find(op, wish, self.variant.broadcast && !inner)?,
            _ => return None,
        };
        let count = match rest {
            true if self.variant.constants => recipe.operands.len().max(operands.len()),
            true => recipe.needed.max(operands.len()),
            false => operands.len(),
        };
        if count > recipe.operands.len() || count < recipe.needed {
            return None;
        }
        let open = Form::Leaf { name: None, constant: false };
        let form = |index: usize| operands.get(index).unwrap_or(&open);
        let is_constant = |index: usize| matches!(form(index), Form::Leaf { constant: true, .. });
        let data = (0..count).find(|&index| !is_constant(index));
        let mut inputs = Vec::with_capacity(count);
        for (index, operand) in recipe.operands[..count].iter().enumerate() {
            let constant = is_constant(index) || (self.variant.constants && data != Some(index));
            inputs.push(self.operand(form(index), operand, constant)?);
        }
        let output = self.fresh("v");
        let more = (0..recipe.more_outputs).map(|_| self.fresh("unread"));
        let outputs = std::iter::once(output.clone()).chain(more.collect::<Vec<_>>()).collect();
        self.model.node((domain, op), inputs, outputs, &recipe.attributes);
        Some(output)
    }

    /// Adds an operand and returns its name.
    fn operand(&mut self, form: &Form, operand: &Operand, constant: bool) -> Option<String> {
        match (form, operand) {
            (Form::Absent, _) | (Form::Leaf { .. }, Operand::Absent) => Some(String::new()),
            (Form::Node { .. }, Operand::Any(wish) | Operand::Positive(wish)) => self.node(form, wish),
            (Form::Node { .. }, _) => None,
            (Form::Leaf { name: None, .. }, _) => Some(self.leaf(operand, constant)),
            (Form::Leaf { name: Some(name), .. }, _) => match self.bound.get(name) {
                Some((value, known)) => (known == operand).then(|| value.clone()),
                None => {
                    let value = self.leaf(operand, constant);
                    self.bound.insert(name.clone(), (value.clone(), operand.clone()));
                    Some(value)
                }
            },
        }
    }

    fn leaf(&mut self, operand: &Operand, constant: bool) -> String {
        let (wish, fill) = match operand {
            Operand::Any(wish) => (wish.clone(), Fill::Any),
            Operand::Positive(wish) => (wish.clone(), Fill::Positive),
            Operand::Below(limit, shape) => (Wish { dtype: DType::I64, shape: shape.clone() }, Fill::Below(*limit)),
            Operand::Ints(values, shape) => return self.fixed(DType::I64, shape, values.iter().map(|&int| int as f64)),
            Operand::Number(value, dtype) => return self.fixed(*dtype, &[], [*value]),
            Operand::Absent => return String::new(),
        };
        if !constant {
            let name = self.fresh("x");
            let symbolic = self.variant.kind == Kind::Symbolic && wish.shape.first() == self.variant.wish.shape.first();
            self.model.input(&name, wish.dtype, &wish.shape, fill, symbolic);
            return name;
        }
        let name = self.fresh("w");
        self.model.constant(&name, data::random(wish.dtype, &signed(&wish.shape), fill, &name));
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
    use byoc_plugin_api::Pattern;

    use super::*;

    fn ops(text: &str) -> Vec<Vec<String>> {
        let samples = samples(&Pattern::new("p", text).parse().expect("valid"));
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
        let cases: [(&str, &[&[&str]]); 6] = [
            ("(Relu ?x)", &[&["Relu"]]),
            ("(Add (MatMul ?x ?w:const) ?b:const)", &[&["MatMul", "Add"]]),
            ("(Relu|Tanh (Conv ?x ?w:const ?b:const?))", &[&["Conv", "Relu"], &["Conv", "Tanh"]]),
            ("(Add (Relu? (MatMul ?x ?w)) ?b)", &[&["MatMul", "Relu", "Add"], &["MatMul", "Add"]]),
            ("(or (Gemm ?x ?w:const ?b) (MatMul ?x ?w:const))", &[&["Gemm"], &["MatMul"]]),
            ("(com.acme::Foo ?x)", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(ops(text), expected, "{text}");
        }
    }

    #[test]
    fn one_name_is_one_value() {
        let samples = samples(&Pattern::new("p", "(Mul ?x ?x)").parse().expect("valid"));
        assert!(samples.iter().all(|sample| sample.model.inputs.len() == 1));
    }
}
