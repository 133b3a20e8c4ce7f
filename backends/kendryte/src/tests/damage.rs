//! A kmodel damaged at every byte of its headers, and cut at every length: whatever it says, nothing panics.

use super::layers::{every_layer, input};
use crate::kmodel::{Kmodel, Operation, placement};
use crate::simulator::Simulator;

/// Reads, checks and runs, as far as it goes. Whether it ran.
fn digest(file: &[u8]) -> bool {
    let _ = placement::check(file);
    let Ok(kmodel) = Kmodel::parse(file) else { return false };
    let _ = kmodel.check();
    let Ok(mut simulator) = Simulator::new(kmodel, 1) else { return false };
    let input = vec![9; simulator.input().bytes()];
    simulator.run(&input).is_ok()
}

/// The bytes of the file that are neither weights nor a table of bytes: all that a reader may stumble over.
fn headers(file: &[u8], kmodel: &Kmodel) -> Vec<usize> {
    let bodies = crate::kmodel::body_ranges(file).expect("a kmodel");
    let mut bytes: Vec<_> = (0..bodies[0].start).collect();
    for (layer, body) in kmodel.layers.iter().zip(bodies) {
        let length = match &layer.operation {
            // Offsets, arguments; then the tables at the end.
            Operation::Conv(conv) => {
                let tables = conv.batch_norm.len() * 8 + 256;
                bytes.extend(body.end.saturating_sub(tables)..body.end);
                24 + 8 + 96
            }
            _ => 80,
        };
        bytes.extend(body.start..body.end.min(body.start + length));
    }
    bytes
}

#[test]
fn every_byte_of_the_headers() {
    let kmodel = every_layer();
    let file = kmodel.emit().expect("a kmodel");
    assert!(digest(&file));
    let (mut ran, mut cases) = (0, 0);
    for at in headers(&file, &kmodel) {
        for value in [0, 1, 0x7f, 0x80, 0xff, file[at] ^ 1, file[at].wrapping_add(4)] {
            let mut damaged = file.clone();
            damaged[at] = value;
            ran += usize::from(digest(&damaged));
            cases += 1;
        }
    }
    assert!(ran > 0 && ran < cases, "{ran} of {cases} ran");
}

#[test]
fn every_length() {
    let file = every_layer().emit().expect("a kmodel");
    assert!((0..file.len() - 7).all(|length| !digest(&file[..length])));
    assert!(!input().is_empty());
}

/// Each of them would be compared with all others.
#[test]
fn more_places_than_any_model_has() {
    let mut kmodel = every_layer();
    let places = kmodel.layers.iter().map(|layer| 1 + layer.accesses().len()).sum::<usize>();
    let output = kmodel.outputs[0];
    kmodel.outputs = vec![output; 16_384 - places];
    Kmodel::parse(&kmodel.emit().expect("a kmodel")).expect("as many as are taken");
    kmodel.outputs.push(output);
    let error = Kmodel::parse(&kmodel.emit().expect("a kmodel")).expect_err("one more");
    assert_eq!(
        error.message,
        "damaged kmodel: header at offset 12: 16385 layers, outputs and stretches of memory, more than 16384"
    );
}
