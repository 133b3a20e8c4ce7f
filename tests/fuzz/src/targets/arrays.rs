//! Files of arrays: one as npy, several as npz. What reads is written and reads back the same.

use byoc_tools::npz;
use byoc_tools::{npy, npy::Array};
use zip::CompressionMethod;

use crate::{Target, array_file, models};

pub(crate) const TARGET: Target =
    Target { name: "arrays", seeds, run: |input| take(input).is_some(), mutate: array_file::bytes };

fn take(input: &[u8]) -> Option<()> {
    if let Ok(array) = npy::read(input) {
        again(array);
        return Some(());
    }
    let path = models::place("arrays.npz");
    std::fs::write(&path, input).ok()?;
    npz::read(&path).ok()?.into_iter().for_each(|(_, array)| again(array));
    Some(())
}

/// Writes an array of a known type and reads it once more.
fn again(array: Array) {
    let Ok(tensor) = array.into_tensor_like(None) else { return };
    let mut file = Vec::new();
    npy::write(&tensor, &mut file).expect("to memory");
    let read = npy::read(&file).expect("what is written reads").into_tensor(tensor.dtype());
    assert_eq!(read.as_ref(), Ok(&tensor));
    std::hint::black_box(tensor.numbers().map(|number| number.value()).sum::<f64>());
}

fn seeds() -> Vec<Vec<u8>> {
    let npy = |header: &str, data: &[u8]| {
        let length = (header.len() as u16).to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), data].concat()
    };
    let files = [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &[0; 24]),
        npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3, 1), }\n", &[7; 12]),
        npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", &[1]),
        npy("{'descr': '<V2', 'fortran_order': False, 'shape': (0, 4), }\n", &[]),
    ];
    let members: Vec<_> = files.iter().enumerate().map(|(at, file)| (format!("a{at}.npy"), file.clone())).collect();
    let archives =
        [CompressionMethod::Stored, CompressionMethod::Deflated].map(|method| array_file::write(&members, method));
    files.into_iter().chain(archives.into_iter().flatten()).collect()
}
