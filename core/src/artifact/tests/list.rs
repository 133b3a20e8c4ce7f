//! Operators on sequences whose parts do not fit are refused, whoever wrote them.

use byoc_plugin_api::{DType, Dim};

use super::{Contents, bytes_of, open, sample};
use crate::artifact::manifest::*;
use crate::artifact::write;

fn tensor(dtype: DType, shape: &[&str]) -> ValueType {
    ValueType { dtype, shape: shape.iter().map(|size| Dim::Symbolic((*size).into())).collect(), list: None }
}

fn list(optional: bool, sequence: bool, dtype: DType) -> ValueType {
    let list = ListType { optional, sequence, dtype, shape: Some(vec![None]) };
    ValueType { list: Some(list), ..tensor(DType::U64, &[]) }
}

fn step(op: ListOp, inputs: &[usize], output: usize) -> Control {
    let name = format!("{op:?}").split(' ').next().unwrap_or_default().to_lowercase();
    Control { name, before: 1, kind: ControlKind::List(op), inputs: inputs.to_vec(), outputs: vec![Some(output)] }
}

/// The sample, with a sequence of its `y` that is given, and a position that is.
fn listed() -> Contents {
    let mut contents = sample(64);
    let entry = &mut contents.manifest.entries[0];
    let ports = |values: &[usize]| -> Vec<Port> {
        values.iter().map(|&value| Port { name: format!("p{value}"), value }).collect()
    };
    entry.values.extend([
        tensor(DType::I64, &[]),
        list(true, true, DType::F32),
        list(false, true, DType::F32),
        list(false, true, DType::F32),
        tensor(DType::F32, &["a"]),
        list(true, false, DType::F32),
        tensor(DType::F32, &["b"]),
    ]);
    entry.inputs.extend(ports(&[3, 4]));
    entry.outputs.extend(ports(&[6, 7, 9]));
    entry.control = vec![
        step(ListOp::GetElement, &[4], 5),
        step(ListOp::Insert, &[5, 2, 3], 6),
        step(ListOp::At, &[6, 3], 7),
        step(ListOp::Wrap, &[2], 8),
        step(ListOp::GetElement, &[8], 9),
    ];
    contents
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    open(bytes_of(&listed())).expect("it fits").verify_digests().expect("whole");
    let types = |name: &str| format!("entry 'main': '{name}': its values are not of the types that it needs");
    type Change = fn(&mut Entry);
    let cases: Vec<(Change, String)> = vec![
        (
            |e| e.values[5].dtype = DType::I64,
            "entry 'main': value 5 is a sequence or an optional, and not one u64".into(),
        ),
        (
            |e| e.values[4].shape = vec![1.into()],
            "entry 'main': value 4 is a sequence or an optional, and not one u64".into(),
        ),
        (|e| e.control[1].inputs.truncate(1), "entry 'main': 'insert': it has a wrong number of values".into()),
        (|e| e.control[2].inputs.push(3), "entry 'main': 'at': it has a wrong number of values".into()),
        (|e| e.control[2].outputs.clear(), "entry 'main': 'at': it has a wrong number of values".into()),
        (|e| e.control[1].inputs[0] = 4, types("insert")),
        (|e| e.control[1].inputs[1] = 3, types("insert")),
        (|e| e.control[1].inputs[2] = 2, types("insert")),
        (|e| e.control[2].inputs[0] = 2, types("at")),
        (|e| e.values[7].dtype = DType::F64, types("at")),
        (|e| e.values[6] = list(false, true, DType::I8), types("insert")),
        (|e| e.control[3].inputs.push(3), "entry 'main': 'wrap': it has a wrong number of values".into()),
        (|e| e.values[8] = list(false, true, DType::F32), types("wrap")),
        (|e| e.control[4].inputs[0] = 2, types("getelement")),
        (|e| e.values[9] = list(true, false, DType::F32), types("getelement")),
        (|e| e.control[0].kind = ControlKind::List(ListOp::HasElement), types("getelement")),
        (
            |e| e.control[2].kind = ControlKind::List(ListOp::Concat { axis: 0, new_axis: false }),
            "entry 'main': 'at': it has a wrong number of values".into(),
        ),
        (
            |e| e.values[2] = list(false, true, DType::F32),
            "entry 'main': value 2 is not of the type that 'byoc_main_acme_0' has for 'y'".into(),
        ),
    ];
    for (change, expected) in cases {
        let mut contents = listed();
        change(&mut contents.manifest.entries[0]);
        assert_eq!(write::Plan::new(&contents).err(), Some(expected));
    }
}

#[test]
fn a_map_runs_over_sequences() {
    let mapped = || {
        let mut contents = listed();
        let entry = &mut contents.manifest.entries[0];
        let kind = ControlKind::SequenceMap { body: 1, mapped: vec![true] };
        entry.control[2] = Control { name: "map".into(), before: 1, kind, inputs: vec![6, 3], outputs: vec![Some(7)] };
        entry.values[7] = list(false, true, DType::I64);
        let port = |value: usize| Port { name: format!("p{value}"), value };
        contents.manifest.entries.push(Entry {
            name: "main/map".into(),
            body: true,
            inputs: vec![port(0), port(1)],
            outputs: vec![port(1)],
            values: vec![tensor(DType::F32, &["n"]), tensor(DType::I64, &[])],
            ..Entry::default()
        });
        contents
    };
    open(bytes_of(&mapped())).expect("it fits").verify_digests().expect("whole");
    let map = |what: &str| format!("entry 'main': 'map': its body 'main/map' {what}");
    let kind = |entries: &mut [Entry], mapped: Vec<bool>| {
        entries[0].control[2].kind = ControlKind::SequenceMap { body: 1, mapped };
    };
    type Change = Box<dyn Fn(&mut [Entry])>;
    let cases: Vec<(Change, String)> = vec![
        (Box::new(move |e| kind(e, vec![])), map("maps more than there is, or no sequence")),
        (Box::new(move |e| kind(e, vec![true; 3])), map("maps more than there is, or no sequence")),
        (Box::new(move |e| kind(e, vec![true, true])), map("maps what is not a sequence")),
        (Box::new(|e| e[1].values[0].dtype = DType::I8), map("does not take what it is given")),
        (Box::new(|e| e[0].values[7] = tensor(DType::I64, &["n"])), map("does not give output 0 of its node")),
        (Box::new(|e| e[0].values[7] = list(false, true, DType::F32)), map("does not give output 0 of its node")),
    ];
    for (change, expected) in cases {
        let mut contents = mapped();
        change(&mut contents.manifest.entries);
        assert_eq!(write::Plan::new(&contents).err(), Some(expected));
    }
}
