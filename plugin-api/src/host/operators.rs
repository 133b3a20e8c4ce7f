//! The custom operators that a description names, judged: the compiler and the kit take them at their word.

use super::answer::one_line;
use crate::operator::{AttributeKind, DTypeRule, Operator, ShapeRule};

/// Most operators of a backend, and most inputs and outputs of one.
const MOST: usize = 4096;

/// What is wrong with the operators of a backend, if anything is.
pub(super) fn wrong(operators: &[Operator]) -> Option<String> {
    if operators.len() > MOST {
        return Some(format!("has more than {MOST} operators"));
    }
    for (index, operator) in operators.iter().enumerate() {
        let Operator { domain, name, since, until, .. } = operator;
        let named = |text: &str| text.chars().all(|char| !char.is_control() && !char.is_whitespace());
        if name.is_empty() || !named(name) || !named(domain) {
            let name = one_line(&format!("{domain}::{name}"));
            return Some(format!("has an operator '{name}', which no model can name"));
        }
        let problem = if until.is_some_and(|until| until < *since) {
            Some(format!("has no version: it is known since {since} and until {}", until.unwrap_or_default()))
        } else if operators[..index].iter().any(|other| same_version(other, operator)) {
            Some("stands twice for one version of its operator set".into())
        } else {
            attributes(operator).or_else(|| outputs(operator))
        };
        if let Some(problem) = problem {
            return Some(format!("has an operator '{domain}::{name}' that {problem}"));
        }
    }
    None
}

fn same_version(one: &Operator, other: &Operator) -> bool {
    let both = (&one.domain, &one.name) == (&other.domain, &other.name);
    both && (one.holds_in(other.since) || other.holds_in(one.since))
}

fn attributes(operator: &Operator) -> Option<String> {
    for (index, attribute) in operator.attributes.iter().enumerate() {
        let name = one_line(&attribute.name);
        if name.is_empty() || name != attribute.name {
            return Some(format!("has an attribute '{name}', which no model can name"));
        }
        if operator.attributes[..index].iter().any(|other| other.name == name) {
            return Some(format!("has the attribute '{name}' twice"));
        }
        if attribute.default.as_ref().is_some_and(|default| AttributeKind::of(default) != attribute.kind) {
            return Some(format!("has the attribute '{name}', whose default is not {}", attribute.kind.described()));
        }
        if attribute.required && attribute.default.is_some() {
            return Some(format!("has the attribute '{name}', which is required and has a default"));
        }
    }
    None
}

fn outputs(operator: &Operator) -> Option<String> {
    let most = operator.most_inputs().unwrap_or(operator.inputs);
    if most > MOST || operator.outputs.len() > MOST {
        return Some(format!("has more than {MOST} inputs or outputs"));
    }
    let no_input = |input: &usize| (*input >= operator.inputs).then(|| format!("input {input}, which it may lack"));
    let lacks = |name: &str, kind: AttributeKind| {
        let found = operator.attributes.iter().find(|attribute| attribute.name == name && attribute.kind == kind);
        match found {
            Some(found) if found.required || found.default.is_some() => None,
            Some(_) => Some(format!("the attribute '{}', which it may lack", one_line(name))),
            None => Some(format!("the attribute '{}', and has none that is {}", one_line(name), kind.described())),
        }
    };
    for (index, rule) in operator.outputs.iter().enumerate() {
        let dtype = match &rule.dtype {
            DTypeRule::Input(input) => no_input(input),
            DTypeRule::Attribute(name) => lacks(name, AttributeKind::Int),
            DTypeRule::Fixed(_) | DTypeRule::Later(_) => None,
        };
        let shape = match &rule.shape {
            ShapeRule::Input(input) => no_input(input),
            ShapeRule::Attribute(name) => lacks(name, AttributeKind::Ints),
            ShapeRule::RunTime(rank) => {
                (*rank == 0 || *rank > MOST).then(|| format!("{rank} sizes of the run, of 1 to {MOST}"))
            }
            ShapeRule::Broadcast | ShapeRule::Fixed(_) | ShapeRule::Later(_) => None,
        };
        if let Some(what) = dtype.or(shape) {
            return Some(format!("takes the type of output {index} from {what}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::operator::{CustomAttribute, OutputRule};
    use crate::region::Attribute;

    fn swirl() -> Operator {
        Operator {
            domain: "com.acme".into(),
            name: "Swirl".into(),
            inputs: 2,
            attributes: vec![
                CustomAttribute::required("table", AttributeKind::Tensor),
                CustomAttribute::with_default("sizes", Attribute::Ints(vec![1])),
                CustomAttribute::optional("to", AttributeKind::Int),
            ],
            outputs: vec![OutputRule::like(1)],
            ..Operator::default()
        }
    }

    #[test]
    fn sound_ones_pass() {
        let later = Operator { since: 3, ..swirl() };
        let sizes = OutputRule { dtype: DTypeRule::Fixed(DType::I64), shape: ShapeRule::Attribute("sizes".into()) };
        let first = Operator { until: Some(2), outputs: vec![sizes], ..swirl() };
        let own = Operator { domain: String::new(), outputs: Vec::new(), ..swirl() };
        assert_eq!(wrong(&[first, later, own]), None);
    }

    #[test]
    fn contradictions_are_named() {
        type Change = fn(&mut Operator);
        let that = |what: &str| format!("has an operator 'com.acme::Swirl' that {what}");
        let cases: &[(Change, String)] = &[
            (|it| it.name = "a\nb".into(), "has an operator 'com.acme::a b', which no model can name".into()),
            (|it| it.until = Some(0), that("has no version: it is known since 1 and until 0")),
            (|it| it.attributes[2].name = "table".into(), that("has the attribute 'table' twice")),
            (|it| it.attributes[2].name = "\n".into(), that("has an attribute '', which no model can name")),
            (
                |it| it.attributes[2].default = Some(Attribute::Float(1.0)),
                that("has the attribute 'to', whose default is not an integer"),
            ),
            (
                |it| it.attributes[1].required = true,
                that("has the attribute 'sizes', which is required and has a default"),
            ),
            (
                |it| it.outputs[0] = OutputRule::like(2),
                that("takes the type of output 0 from input 2, which it may lack"),
            ),
            (
                |it| it.outputs[0].dtype = DTypeRule::Attribute("to".into()),
                that("takes the type of output 0 from the attribute 'to', which it may lack"),
            ),
            (
                |it| it.outputs[0].shape = ShapeRule::Attribute("to".into()),
                that("takes the type of output 0 from the attribute 'to', and has none that is a list of integers"),
            ),
            (|it| it.inputs = 5000, that("has more than 4096 inputs or outputs")),
        ];
        for (change, expected) in cases {
            let mut operator = swirl();
            change(&mut operator);
            assert_eq!(wrong(&[operator]).as_ref(), Some(expected));
        }
        let twice = that("stands twice for one version of its operator set");
        assert_eq!(wrong(&[swirl(), Operator { since: 3, ..swirl() }]), Some(twice));
        assert_eq!(wrong(&vec![swirl(); 4097]).as_deref(), Some("has more than 4096 operators"));
    }
}
