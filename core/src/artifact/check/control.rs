//! Consistency of control flow: bodies stand behind the entries that run them, and take and give what their nodes do.

use byoc_plugin_api::DType;

use super::{Checked, make};
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
    for body in control.kind.bodies() {
        let Some(body) = manifest.entries.get(body) else { return Err(format!("there is no entry {body}")) };
        fits(&control.kind, &given, &results, body).map_err(|cause| format!("its body '{}' {cause}", body.name))?;
    }
    Ok(())
}

/// What a body takes or gives: an element type, and how many dimensions.
type Form = (DType, usize);

fn form(ty: &ValueType) -> Form {
    (ty.dtype, ty.shape.len())
}

/// Whether a body takes and gives what its node says, but for sizes, which the run compares.
fn fits(kind: &ControlKind, given: &[&ValueType], results: &[Option<&ValueType>], body: &Entry) -> Checked {
    let of = |ports: &[Port]| -> Checked<Vec<Form>> {
        let ty = |port: &Port| body.values.get(port.value).map(form);
        ports.iter().map(ty).collect::<Option<_>>().ok_or_else(|| "has a port without a value".into())
    };
    let (takes, gives) = (of(&body.inputs)?, of(&body.outputs)?);
    let given: Vec<Form> = given.iter().map(|ty| form(ty)).collect();
    let (expected, carried) = match *kind {
        ControlKind::If { .. } => {
            let condition = given.first().filter(|(dtype, _)| *dtype == DType::Bool);
            condition.ok_or("has no condition")?;
            (given[1..].to_vec(), 0)
        }
        ControlKind::Loop { carried, .. } => {
            let [(DType::I64, _), (DType::Bool, _), rest @ ..] = given.as_slice() else {
                return Err("has no limit or no condition".into());
            };
            if rest.len() < carried || gives.first().is_none_or(|(dtype, _)| *dtype != DType::Bool) {
                return Err("gives no condition, or carries more than there is".into());
            }
            let own = [(DType::I64, 0), (DType::Bool, 0)];
            (own.into_iter().chain(rest.iter().copied()).collect(), carried)
        }
        ControlKind::Scan { carried, scanned, .. } => {
            if carried.checked_add(scanned).is_none_or(|own| own > given.len()) || scanned == 0 {
                return Err("scans more than there is, or nothing".into());
            }
            let mut expected = given;
            for (_, rank) in &mut expected[carried..carried + scanned] {
                *rank = rank.checked_sub(1).ok_or("scans a tensor without dimensions")?;
            }
            (expected, carried)
        }
    };
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
    for (index, (&(dtype, rank), result)) in values.iter().zip(results).enumerate() {
        let stacked = !matches!(kind, ControlKind::If { .. }) && index >= carried;
        if result.is_some_and(|result| form(result) != (dtype, rank + usize::from(stacked))) {
            return Err(format!("does not give output {index} of its node"));
        }
    }
    scan_axes(kind, &given_ranks(&takes, carried), values.get(carried..).unwrap_or_default())
}

/// The ranks of what a body takes behind what is carried.
fn given_ranks(takes: &[Form], carried: usize) -> Vec<usize> {
    takes.iter().skip(carried).map(|(_, rank)| *rank).collect()
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
    let ranks: Vec<usize> = stacked.iter().map(|(_, rank)| *rank).collect();
    let fits = axes(input_axes, &slices[..*scanned])
        && axes(output_axes, &ranks)
        && ways(input_directions, *scanned)
        && ways(output_directions, ranks.len());
    if fits { Ok(()) } else { Err("has an axis or a direction that there is not".into()) }
}
