//! From a pattern to models that contain it: every shape of the pattern (optional operators, absent inputs,
//! alternatives), each in several shapes and element types, and with what is special of each of its operators.

mod build;
mod chains;
mod forms;
mod variants;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use byoc_plugin_api::{Description, Expr};

use self::build::{Built, build};
use self::forms::{FORMS, Form, forms};
pub(crate) use self::variants::Kind;
use self::variants::{Constants, Variant, variants};
use crate::onnx::Model;
use crate::recipes::{self, Wish};

/// Forms of a pattern that are put together with others.
const CHAINED: usize = 6;

/// Of as many models of several patterns there is one with an open dimension, and some with operands that are broadcast.
const OPEN_CHAINS: usize = 400;

/// A model with a name that says what is in it, such as `f32[2x8] constants`.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) model: Model,
    pub(crate) kind: Kind,
    origin: Origin,
}

/// What a sample was made from.
#[derive(Clone, Debug)]
struct Origin {
    form: Form,
    variant: Variant,
}

/// Every sample of a pattern, with nodes in front where the backend's regions may start with some operators only, and the
/// pattern starts with others; its name then ends with `inner`. Empty where no model could be made: the pattern has an
/// operator that neither the table of shape makers nor the backend's own operators have.
pub(crate) fn samples(pattern: &Expr, backend: &Description) -> Vec<Sample> {
    let mut samples = Samples { backend, list: Vec::new(), known: HashSet::new() };
    let forms = forms(pattern);
    for (index, form) in forms.iter().enumerate() {
        let place = if index == 0 { String::new() } else { format!(" form {index}") };
        for variant in variants() {
            let is_thorough = variant.kind == Kind::Thorough;
            if index == 0 || (is_thorough && index < FORMS) {
                samples.add(form, &place, variant);
            }
        }
    }
    let mut times = Times::default();
    for (index, form) in forms.iter().enumerate() {
        let place = if index == 0 { String::new() } else { format!(" form {index}") };
        samples.swept(form, &place, index == 0, &mut times);
    }
    samples.list
}

/// How often each thing special of an operator is tried in a pattern, whatever its forms: they are many, and what they have in
/// common need not be asked of each.
type Times = HashMap<String, usize>;

/// How often at most, and in the first form.
const MOST_TIMES: usize = 4;
const TIMES_IN_THE_FIRST: usize = 2;
/// Shapes in which another form than the first one is tried.
const SHAPES_OF_OTHERS: usize = 3;

/// Models of several patterns, which make one region where the backend merges. Each has a name with the patterns in it.
pub(crate) fn chains(patterns: &[(String, Expr)], backend: &Description) -> Vec<Sample> {
    let mut samples = Samples { backend, list: Vec::new(), known: HashSet::new() };
    let forms: Vec<_> = patterns
        .iter()
        .flat_map(|(name, pattern)| forms(pattern).into_iter().take(CHAINED).map(|form| (name.as_str(), form)))
        .collect();
    for chain in chains::all(&forms) {
        // The first shape that all of it can give.
        let place = format!(" {}", chain.name);
        for wish in variants::chained() {
            let plain = Variant { shared_are_outputs: chain.inner_outputs, ..Variant::plain(wish, Kind::Swept) };
            if !samples.add(&chain.form, &place, plain.clone()) {
                continue;
            }
            samples.add(&chain.form, &place, Variant { constants: Constants::AllButTheFirst, ..plain.clone() });
            if samples.list.len() < OPEN_CHAINS {
                samples.add(&chain.form, &place, Variant { kind: Kind::Symbolic, ..plain.clone() });
                samples.broadcast(&chain.form, &place, &plain);
            }
            break;
        }
    }
    samples.list
}

struct Samples<'a> {
    backend: &'a Description,
    list: Vec<Sample>,
    /// Hashes of the models that are there already.
    known: HashSet<u64>,
}

impl Samples<'_> {
    /// Adds the model, if there is one and it is a new one; whether it did.
    fn add(&mut self, form: &Form, place: &str, variant: Variant) -> bool {
        build(form, &variant, self.backend).is_some_and(|built| self.push(form, place, variant, built))
    }

    fn push(&mut self, form: &Form, place: &str, variant: Variant, built: Built) -> bool {
        let is_new = self.known.insert(hash(&built.model));
        if is_new {
            let inner = if built.model.front.is_empty() { "" } else { " inner" };
            let name = format!("{}{place}{inner}", variant.name());
            let origin = Origin { form: form.clone(), variant };
            self.list.push(Sample { name, model: built.model, kind: origin.variant.kind, origin });
        }
        is_new
    }

    /// Adds models in which the last operator has operands of different shapes.
    fn broadcast(&mut self, form: &Form, place: &str, plain: &Variant) {
        let Some(built) = build(form, plain, self.backend) else { return };
        let Some((op, wish)) = built.nodes.first() else { return };
        let named =
            |swept: &recipes::Swept| swept.name.ends_with(": the last axis") || swept.name == "first: one number";
        for swept in recipes::sweep(op, wish).into_iter().filter(named) {
            self.add(form, place, Variant { swept: Some((0, swept)), ..plain.clone() });
        }
    }

    /// Adds models of a form in several shapes, with a constant in each place, and with what is special of each operator.
    fn swept(&mut self, form: &Form, place: &str, is_first: bool, times: &mut Times) {
        let mut places = [0; 3];
        let mut shapes = 0;
        let most = if is_first { TIMES_IN_THE_FIRST } else { 1 };
        for wish in variants::swept().into_iter().chain(form.root().map(recipes::own_wishes).unwrap_or_default()) {
            let plain = Variant::plain(wish, Kind::Swept);
            if is_first || shapes < SHAPES_OF_OTHERS {
                shapes += usize::from(self.add(form, place, plain.clone()));
                self.add(form, place, Variant { constants: Constants::AllButTheFirst, ..plain.clone() });
                self.one_value_twice(form, place, &plain);
                if form.shares() {
                    let shared = Variant { shared_are_outputs: true, ..plain.clone() };
                    self.add(form, &format!("{place} inner results"), shared);
                }
            }
            for (at, count) in places.iter_mut().enumerate().filter(|(_, count)| **count < most) {
                *count +=
                    usize::from(self.add(form, place, Variant { constants: Constants::Only(at), ..plain.clone() }));
            }
            self.specials(form, place, &plain, (is_first, times));
        }
    }

    /// Adds the model in which both operands of the form are one value.
    fn one_value_twice(&mut self, form: &Form, place: &str, plain: &Variant) {
        let own = Form::Leaf { name: Some("own".into()), constant: false, quantized: false };
        if let Some(twice) = form.with(1, &own).and_then(|form| form.with(0, &own)) {
            self.add(&twice, &format!("{place} one value twice"), plain.clone());
        }
    }

    /// Adds models in which one operator of the form is special.
    fn specials(&mut self, form: &Form, place: &str, plain: &Variant, (is_first, times): (bool, &mut Times)) {
        let Some(built) = build(form, plain, self.backend) else { return };
        for (node, (op, wish)) in built.nodes.iter().enumerate() {
            for swept in recipes::sweep(op, wish) {
                // Windows over one axis and over two are not the same thing.
                let key = format!("{op} {} {}", wish.shape.len(), swept.name);
                let count = times.get(&key).copied().unwrap_or(0);
                let is_enough = if is_first { count >= TIMES_IN_THE_FIRST } else { count >= MOST_TIMES };
                if is_enough {
                    continue;
                }
                // A constant beside what is special: weights are constants in most models.
                let constants = if count.is_multiple_of(2) { Constants::AllButTheFirst } else { Constants::None };
                if self.add(form, place, Variant { constants, swept: Some((node, swept)), ..plain.clone() }) {
                    times.insert(key, count + 1);
                }
            }
        }
    }
}

fn hash(model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.finish().hash(&mut hasher);
    hasher.finish()
}

impl Sample {
    /// Smaller models of the same kind, the smallest ones first: fewer nodes, then smaller sizes.
    pub(crate) fn smaller(&self, backend: &Description) -> Vec<Sample> {
        let mut samples = Samples { backend, list: Vec::new(), known: HashSet::from([hash(&self.model)]) };
        let Origin { form, variant } = &self.origin;
        for form in form.parts() {
            samples.add(&form, "", variant.clone());
        }
        let shape = &variant.wish.shape;
        for axis in 0..shape.len() {
            for size in [1, 2, 3, shape[axis] / 2, shape[axis].saturating_sub(1)] {
                if size == 0 || size >= shape[axis] {
                    continue;
                }
                let mut shape = shape.clone();
                shape[axis] = size;
                let wish = Wish { shape, ..variant.wish.clone() };
                if let Some(variant) = variant.resized(form, wish, backend) {
                    samples.add(form, "", variant);
                }
            }
        }
        samples.list
    }
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

    /// What others may read too becomes an output of some models.
    #[test]
    fn inner_results_are_outputs() {
        let samples = samples(&Pattern::new("p", "(Relu (Add+ ?x ?y))").parse().expect("valid"), &acme(&[]));
        let of = |sample: &Sample| sample.name.contains(" inner results");
        let outputs = |sample: &Sample| sample.model.outputs();
        assert!(samples.iter().filter(|sample| of(sample)).count() > 3);
        assert!(samples.iter().all(|sample| outputs(sample) == if of(sample) { 2 } else { 1 }));
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
