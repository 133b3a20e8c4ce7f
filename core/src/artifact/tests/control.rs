//! Control flow whose parts do not fit is refused, whoever wrote it.

use byoc_plugin_api::{DType, Dim};

use super::{Contents, bytes_of, open, sample};
use crate::artifact::manifest::*;
use crate::artifact::write;

fn ty(dtype: DType, shape: &[&str]) -> ValueType {
    ValueType { dtype, shape: shape.iter().map(|size| Dim::Symbolic((*size).into())).collect(), list: None }
}

fn ports(values: &[usize]) -> Vec<Port> {
    values.iter().enumerate().map(|(index, &value)| Port { name: format!("p{index}"), value }).collect()
}

fn scalars() -> [ValueType; 2] {
    [ty(DType::I64, &[]), ty(DType::Bool, &[])]
}

/// The sample, whose `y` a loop hands on and keeps. `op` may be put in the place of the loop.
fn looped() -> Contents {
    let mut contents = sample(64);
    let entry = &mut contents.manifest.entries[0];
    entry.inputs.extend(ports(&[3, 4]));
    entry.values.extend(scalars());
    entry.values.extend([ty(DType::F32, &["n"]), ty(DType::F32, &["t", "n"])]);
    entry.outputs.extend(ports(&[5, 6]));
    entry.control = vec![Control {
        name: "l".into(),
        before: 1,
        kind: ControlKind::Loop { body: 1, carried: 1 },
        inputs: vec![3, 4, 2],
        outputs: vec![Some(5), Some(6)],
    }];
    contents.manifest.entries.push(Entry {
        name: "main/l".into(),
        body: true,
        inputs: ports(&[0, 1, 2]),
        outputs: ports(&[1, 2, 2]),
        values: scalars().into_iter().chain([ty(DType::F32, &["n"])]).collect(),
        ..Entry::default()
    });
    contents
}

/// A scan in its place, over `y` along its only axis.
fn scanned() -> Contents {
    let mut contents = looped();
    let kind = |axis: i64| ControlKind::Scan {
        body: 1,
        carried: 1,
        scanned: 1,
        input_axes: vec![axis],
        input_directions: vec![1],
        output_axes: vec![],
        output_directions: vec![0],
    };
    let [entry, body] = &mut contents.manifest.entries[..] else { panic!("two entries") };
    let control = &mut entry.control[0];
    (control.kind, control.inputs) = (kind(-1), vec![3, 2]);
    entry.values[5] = ty(DType::I64, &[]);
    entry.values[6] = ty(DType::F32, &["n"]);
    (body.inputs, body.outputs) = (ports(&[0, 1]), ports(&[0, 1]));
    body.values = vec![ty(DType::I64, &[]), ty(DType::F32, &[])];
    contents
}

/// An `If` in its place, whose branches both give `y`.
fn chosen() -> Contents {
    let mut contents = looped();
    let entries = &mut contents.manifest.entries;
    let control = &mut entries[0].control[0];
    control.kind = ControlKind::If { then_branch: 1, else_branch: 2 };
    (control.inputs, control.outputs) = (vec![4, 2], vec![Some(5)]);
    entries[0].outputs.pop();
    let branch = &mut entries[1];
    (branch.inputs, branch.outputs) = (ports(&[0]), ports(&[0]));
    branch.values = vec![ty(DType::F32, &["n"])];
    let other = Entry { name: "main/other".into(), ..branch.clone() };
    entries.push(other);
    contents
}

/// What is changed, and what is said of it.
type Unfit = (fn(&mut [Entry]), &'static str);

fn control(entries: &mut [Entry]) -> &mut Control {
    &mut entries[0].control[0]
}

const LOOP: &[Unfit] = &[
    (|e| e[1].body = false, "entry 'main': 'l' runs entry 1, which is not a body behind it"),
    (
        |e| control(e).kind = ControlKind::Loop { body: 0, carried: 1 },
        "entry 'main': 'l' runs entry 0, which is not a body behind it",
    ),
    (
        |e| control(e).kind = ControlKind::Loop { body: 9, carried: 1 },
        "entry 'main': 'l' runs entry 9, which is not a body behind it",
    ),
    (|e| e[0].control.clear(), "entry 'main/l': 0 nodes run it as a body"),
    (|e| e[0].control.extend(e[0].control.clone()), "entry 'main/l': 2 nodes run it as a body"),
    (|e| control(e).before = 2, "entry 'main': 'l' runs behind call 2 of 1"),
    (|e| control(e).before = 0, "entry 'main': 'l': it reads value 2, which is not computed before it"),
    (|e| control(e).inputs[0] = 99, "entry 'main': 'l': it reads value 99, which is not computed before it"),
    (|e| control(e).outputs[0] = Some(2), "entry 'main': 'l': value 2 is made twice"),
    (|e| control(e).outputs[0] = Some(99), "entry 'main': 'l': it refers to value 99 of 7"),
    (|e| control(e).inputs[0] = 4, "entry 'main': 'l': its body 'main/l' has no limit or no condition"),
    (
        |e| control(e).kind = ControlKind::Loop { body: 1, carried: 2 },
        "entry 'main': 'l': its body 'main/l' gives no condition, or carries more than there is",
    ),
    (
        |e| e[1].outputs[0].value = 2,
        "entry 'main': 'l': its body 'main/l' gives no condition, or carries more than there is",
    ),
    (
        |e| e[1].values[2] = ty(DType::F16, &["n"]),
        "entry 'main': 'l': its body 'main/l' does not take what it is given",
    ),
    (|e| e[1].values[2] = ty(DType::F32, &[]), "entry 'main': 'l': its body 'main/l' does not take what it is given"),
    (|e| e[1].outputs.truncate(2), "entry 'main': 'l': its body 'main/l' does not give as many values as its node"),
    (|e| e[1].outputs[1].value = 0, "entry 'main': 'l': its body 'main/l' does not give what it carries"),
    (
        |e| e[0].values[5] = ty(DType::I64, &[]),
        "entry 'main': 'l': its body 'main/l' does not give output 0 of its node",
    ),
    (
        |e| e[0].values[6] = ty(DType::F32, &["n"]),
        "entry 'main': 'l': its body 'main/l' does not give output 1 of its node",
    ),
];

/// Changes a field of the scan.
fn scan(entries: &mut [Entry], change: fn(&mut usize, [&mut Vec<i64>; 4])) {
    let ControlKind::Scan { scanned, input_axes, input_directions, output_axes, output_directions, .. } =
        &mut control(entries).kind
    else {
        panic!("a scan");
    };
    change(scanned, [input_axes, input_directions, output_axes, output_directions]);
}

const NO_AXIS: &str = "entry 'main': 'l': its body 'main/l' has an axis or a direction that there is not";

const SCAN: &[Unfit] = &[
    (
        |e| scan(e, |scanned, _| *scanned = 0),
        "entry 'main': 'l': its body 'main/l' scans more than there is, or nothing",
    ),
    (
        |e| scan(e, |scanned, _| *scanned = 9),
        "entry 'main': 'l': its body 'main/l' scans more than there is, or nothing",
    ),
    (|e| control(e).inputs[1] = 4, "entry 'main': 'l': its body 'main/l' scans a tensor without dimensions"),
    (|e| scan(e, |_, [axes, ..]| axes[0] = 1), NO_AXIS),
    (|e| scan(e, |_, [axes, ..]| axes[0] = i64::MIN), NO_AXIS),
    (|e| scan(e, |_, [axes, ..]| axes.push(0)), NO_AXIS),
    (|e| scan(e, |_, [_, ways, ..]| ways[0] = 2), NO_AXIS),
    (|e| scan(e, |_, [_, _, axes, _]| axes.push(1)), NO_AXIS),
    (|e| scan(e, |_, [.., ways]| ways.push(0)), NO_AXIS),
];

const IF: &[Unfit] = &[
    (
        |e| control(e).kind = ControlKind::If { then_branch: 1, else_branch: 1 },
        "entry 'main/l': 2 nodes run it as a body",
    ),
    (|e| control(e).inputs.swap(0, 1), "entry 'main': 'l': its body 'main/l' has no condition"),
    (|e| control(e).inputs.clear(), "entry 'main': 'l': its body 'main/l' has no condition"),
    (
        |e| e[2].values[0] = ty(DType::I64, &["n"]),
        "entry 'main': 'l': its body 'main/other' does not take what it is given",
    ),
    (|e| e[2].outputs.clear(), "entry 'main': 'l': its body 'main/other' does not give as many values as its node"),
];

#[test]
fn control_flow_that_does_not_fit_is_refused() {
    for (base, changes) in [(looped as fn() -> Contents, LOOP), (scanned, SCAN), (chosen, IF)] {
        open(bytes_of(&base())).expect("it fits").verify_digests().expect("whole");
        for (change, expected) in changes {
            let mut contents = base();
            change(&mut contents.manifest.entries);
            assert_eq!(write::Plan::new(&contents).err().as_deref(), Some(*expected));
        }
    }
}
