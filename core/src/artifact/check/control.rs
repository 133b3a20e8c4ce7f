//! Consistency of what core runs: bodies stand behind the entries that run them, and take and give what their nodes do.

use byoc_plugin_api::DType;

use super::{Checked, list, make};
use crate::artifact::manifest::{Control, ControlKind, Entry, Manifest, Port, ValueType};

/// Checks that each body has one node that runs it, in an entry before it: so no entry runs itself, and none is run twice.
pub(super) fn check_bodies(manifest: &Manifest) -> Checked {
    let mut runs = vec![0usize; manifest.entries.len()];
    for (index, entry) in manifest.entries.iter().enumerate() {
        for control in &entry.control {
            for body in control.kind.bodies() {
                let place = || format!("entry '{}': '{}'", entry.name, control.name);
                match manifest.entries.get(body) {
                    Some(found) if found.body && body > index => runs[body] += 1,
                    _ => return Err(format!("{} runs entry {body}, which is not a body behind it", place())),
                }
            }
        }
    }
    let unlike = |(entry, runs): &(&Entry, &usize)| **runs != usize::from(entry.body);
    match manifest.entries.iter().zip(&runs).find(unlike) {
        Some((entry, runs)) => Err(format!("entry '{}': {runs} nodes run it as a body", entry.name)),
        None => Ok(()),
    }
}

/// Checks the control flow of an entry that runs before the call of that index, or behind all calls.
pub(super) fn check_before(
    manifest: &Manifest,
    entry: &Entry,
    (next, call): (&mut usize, Option<usize>),
    made: &mut [bool],
) -> Checked {
    while let Some(control) = entry.control.get(*next).filter(|control| call.is_none_or(|call| control.before <= call))
    {
        let previous = next.checked_sub(1).and_then(|previous| entry.control.get(previous));
        if control.before > entry.calls.len() || previous.is_some_and(|previous| previous.before > control.before) {
            return Err(format!("'{}' runs behind call {} of {}", control.name, control.before, entry.calls.len()));
        }
        check_control(manifest, entry, control, made).map_err(|cause| format!("'{}': {cause}", control.name))?;
        *next += 1;
    }
    Ok(())
}

fn check_control(manifest: &Manifest, entry: &Entry, control: &Control, made: &mut [bool]) -> Checked {
    for &value in &control.inputs {
        if made.get(value) != Some(&true) {
            return Err(format!("it reads value {value}, which is not computed before it"));
        }
    }
    control.outputs.iter().flatten().try_for_each(|&value| make(made, value))?;
    // Both have been seen to be values of the entry.
    let given: Vec<&ValueType> = control.inputs.iter().map(|&value| &entry.values[value]).collect();
    let results: Vec<_> = control.outputs.iter().map(|value| value.map(|value| &entry.values[value])).collect();
    if let ControlKind::List(op) = &control.kind {
        return list::check(op, &given, &results);
    }
    for body in control.kind.bodies() {
        let Some(body) = manifest.entries.get(body) else { return Err(format!("there is no entry {body}")) };
        fits(&control.kind, &given, &results, body).map_err(|cause| format!("its body '{}' {cause}", body.name))?;
    }
    Ok(())
}

/// What a body takes or gives, but for sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    dtype: DType,
    rank: usize,
    /// Of a list, whether it is a sequence, and the type of its elements. An optional that holds nothing is met in the run.
    list: Option<(bool, DType)>,
}

impl Form {
    pub(super) const fn tensor(dtype: DType, rank: usize) -> Form {
        Form { dtype, rank, list: None }
    }

    pub(super) fn of(ty: &ValueType) -> Form {
        let list = ty.list.as_ref().map(|list| (list.sequence, list.dtype));
        Form { dtype: ty.dtype, rank: ty.shape.len(), list }
    }
}

/// Whether a body takes and gives what its node says, but for sizes, which the run compares.
fn fits(kind: &ControlKind, given: &[&ValueType], results: &[Option<&ValueType>], body: &Entry) -> Checked {
    let of = |ports: &[Port]| -> Checked<Vec<Form>> {
        let ty = |port: &Port| body.values.get(port.value).map(Form::of);
        ports.iter().map(ty).collect::<Option<_>>().ok_or_else(|| "has a port without a value".into())
    };
    let (takes, gives) = (of(&body.inputs)?, of(&body.outputs)?);
    let given: Vec<Form> = given.iter().map(|ty| Form::of(ty)).collect();
    let (expected, carried) = expected(kind, given, (&takes, &gives))?;
    if takes != expected {
        return Err("does not take what it is given".into());
    }
    let (first, offset) = if let ControlKind::Loop { .. } = kind { (2, 1) } else { (0, 0) };
    let values = gives.get(offset..).unwrap_or_default();
    if values.len() != results.len() || values.len() < carried {
        return Err("does not give as many values as its node".into());
    }
    if !matches!(kind, ControlKind::If { .. }) && values[..carried] != takes[first..first + carried] {
        return Err("does not give what it carries".into());
    }
    for (index, (form, result)) in values.iter().zip(results).enumerate() {
        let result = result.map(Form::of);
        let fits = match kind {
            ControlKind::If { .. } => result.is_none_or(|result| result == *form),
            ControlKind::SequenceMap { .. } => {
                form.list.is_none() && result.is_none_or(|result| result.list == Some((true, form.dtype)))
            }
            _ if index < carried => result.is_none_or(|result| result == *form),
            // Put together along an axis more.
            _ => {
                let stacked = Form { rank: form.rank + 1, ..*form };
                form.list.is_none() && result.is_none_or(|result| result == stacked)
            }
        };
        if !fits {
            return Err(format!("does not give output {index} of its node"));
        }
    }
    scan_axes(kind, &given_ranks(&takes, carried), values.get(carried..).unwrap_or_default())
}

/// What a body has to take of what its node is given, and how many values it hands on, where it takes and gives these.
fn expected(kind: &ControlKind, given: Vec<Form>, (takes, gives): (&[Form], &[Form])) -> Checked<(Vec<Form>, usize)> {
    const LIMIT: Form = Form::tensor(DType::I64, 0);
    const CONDITION: Form = Form::tensor(DType::Bool, 0);
    match *kind {
        ControlKind::If { .. } => {
            let condition = given.first().filter(|form| form.dtype == DType::Bool);
            condition.ok_or("has no condition")?;
            Ok((given[1..].to_vec(), 0))
        }
        ControlKind::Loop { carried, .. } => {
            let [Form { dtype: DType::I64, .. }, Form { dtype: DType::Bool, .. }, rest @ ..] = given.as_slice() else {
                return Err("has no limit or no condition".into());
            };
            if rest.len() < carried || gives.first().is_none_or(|form| form.dtype != DType::Bool) {
                return Err("gives no condition, or carries more than there is".into());
            }
            Ok(([LIMIT, CONDITION].into_iter().chain(rest.iter().copied()).collect(), carried))
        }
        ControlKind::Scan { carried, scanned, .. } => {
            if carried.checked_add(scanned).is_none_or(|own| own > given.len()) || scanned == 0 {
                return Err("scans more than there is, or nothing".into());
            }
            let mut expected = given;
            for form in &mut expected[carried..carried + scanned] {
                form.rank = form.rank.checked_sub(1).ok_or("scans a tensor without dimensions")?;
            }
            Ok((expected, carried))
        }
        ControlKind::SequenceMap { ref mapped, .. } => {
            let mut expected = given;
            if mapped.len() > expected.len() || mapped.first() != Some(&true) {
                return Err("maps more than there is, or no sequence".into());
            }
            for (index, form) in expected.iter_mut().enumerate().filter(|(index, _)| mapped.get(*index) == Some(&true))
            {
                let Some((true, dtype)) = form.list else { return Err("maps what is not a sequence".into()) };
                // How many dimensions an element has is seen in the run.
                *form = Form::tensor(dtype, takes.get(index).map_or(0, |form| form.rank));
            }
            Ok((expected, 0))
        }
        ControlKind::List(_) => Err("is of a node that runs none".into()),
    }
}

/// The ranks of what a body takes behind what is carried.
fn given_ranks(takes: &[Form], carried: usize) -> Vec<usize> {
    takes.iter().skip(carried).map(|form| form.rank).collect()
}

fn scan_axes(kind: &ControlKind, slices: &[usize], stacked: &[Form]) -> Checked {
    let ControlKind::Scan { scanned, input_axes, input_directions, output_axes, output_directions, .. } = kind else {
        return Ok(());
    };
    let axes = |axes: &[i64], ranks: &[usize]| {
        axes.is_empty()
            || axes.len() == ranks.len()
                && axes.iter().zip(ranks).all(|(&axis, &rank)| {
                    let rank = i64::try_from(rank).unwrap_or(i64::MAX).saturating_add(1);
                    (-rank..rank).contains(&axis)
                })
    };
    let ways = |ways: &[i64], count: usize| {
        ways.is_empty() || ways.len() == count && ways.iter().all(|way| matches!(way, 0 | 1))
    };
    let ranks: Vec<usize> = stacked.iter().map(|form| form.rank).collect();
    let fits = axes(input_axes, &slices[..*scanned])
        && axes(output_axes, &ranks)
        && ways(input_directions, *scanned)
        && ways(output_directions, ranks.len());
    if fits { Ok(()) } else { Err("has an axis or a direction that there is not".into()) }
}
