//! Files of versions 4 and 5: shown, and never a panic.

use byoc_plugin_api::{CodeFile, DType, Dim};

use super::build;
use crate::files::open;

/// Little-endian words.
fn words(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|word| word.to_le_bytes()).collect()
}

const MARK: u32 = 0x4b4d_444c;

/// Version 4 with a convolution on the accelerator and a node that dequantises.
fn v4() -> Vec<u8> {
    let mut arguments = build::arguments(3, 8, 16, 12).pack().expect("arguments");
    // How far the tables are away stands where v3 has their addresses.
    [4, 5, 7].into_iter().for_each(|index| arguments[index] |= 0xd8 << 32);
    let conv = [words(&[1, 1, 0, 64, 1, 0]), arguments.iter().flat_map(|word| word.to_le_bytes()).collect()].concat();
    let header = words(&[MARK, 4, 0, 1, 5, 4096, 2, 1, 1, 0]);
    let ends = words(&[2, 1, 0, 576, 1, 3, 12, 16, 1, 0, 1024, 40]);
    let nodes = words(&[0x2002, conv.len() as u32, 3, 8]);
    [header, ends, vec![7; 5], nodes, conv, vec![0; 8]].concat()
}

/// Version 5 with one module of one function.
fn v5() -> Vec<u8> {
    let name = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(16, 0);
        bytes
    };
    let place = |location: u8, dtype: u8, bytes: u32| [vec![location, dtype, 0, 0], words(&[0, bytes])].concat();
    let ends = [place(0, 9, 3136), words(&[4, 1, 1, 28, 28]), place(1, 4, 10), words(&[2, 1, 10])].concat();
    let function = [words(&[32, 32 + ends.len() as u32, 3136, 10, 1, 1, 0, 100]), ends].concat();
    let sections = [name(".text"), words(&[0, 0, 100, 0]), vec![1; 100]].concat();
    let pools = words(&[3, 51016]);
    let size = 48 + (pools.len() + function.len() + sections.len()) as u32;
    let module = [name("k210"), words(&[1, 48, size, 1, 0, 1, 1, 0]), pools, function, sections].concat();
    [words(&[MARK, 5, 32, 0, 8, 1, 0, 0]), module].concat()
}

fn rows(file: &CodeFile, title: &str) -> Vec<Vec<String>> {
    let table = file.tables.iter().find(|table| table.title == title);
    table.unwrap_or_else(|| panic!("{title} of {:?}", file.tables)).rows.clone()
}

fn shape(sizes: &[usize]) -> Vec<Dim> {
    sizes.iter().map(|&size| Dim::Fixed(size)).collect()
}

#[test]
fn nodes_of_version_4() {
    let file = open(&v4()).expect("a file");
    assert_eq!((file.format.as_str(), file.file_bytes), ("kmodel v4", v4().len() as u64));
    assert_eq!((file.inputs[0].dtype, &file.inputs[0].shape), (DType::U8, &shape(&[1, 3, 12, 16])));
    assert_eq!((file.outputs[0].dtype, &file.outputs[0].shape), (DType::F32, &shape(&[10])));
    assert_eq!(rows(&file, "memory")[3], ["main memory", "4096 bytes"]);
    assert_eq!(rows(&file, "inputs and outputs"), [["input", "KPU 0..576"], ["output", "main 1024..1064"]]);
    let nodes = [["0", "kpu_conv2d", "3x3, 3x12x16 to 8x12x16", "120"], ["1", "dequantize", "", "8"]];
    assert_eq!(rows(&file, "nodes"), nodes);
}

#[test]
fn modules_of_version_5() {
    let file = open(&v5()).expect("a file");
    assert_eq!(file.format, "kmodel v5");
    assert_eq!((file.inputs[0].dtype, &file.inputs[0].shape), (DType::F32, &shape(&[1, 1, 28, 28])));
    assert_eq!((file.outputs[0].dtype, &file.outputs[0].shape), (DType::U8, &shape(&[1, 10])));
    assert_eq!(rows(&file, "module 0 (k210): memory")[2], ["data", "51016 bytes"]);
    assert_eq!(rows(&file, "module 0 (k210): functions"), [["0", "100"]]);
    assert_eq!(rows(&file, "module 0 (k210): sections"), [[".text", "100", "0"]]);
}

/// Cut at every length, and with every byte changed.
#[test]
fn damage_is_an_error() {
    for (file, version) in [(v4(), 4), (v5(), 5)] {
        for length in 12..file.len() - 100 {
            let error = open(&file[..length]).expect_err("it is cut").message;
            assert!(error.starts_with(&format!("damaged kmodel: version {version} at offset ")), "{length}: {error}");
        }
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] = value;
                let _ = open(&damaged);
            }
        }
    }
    // A beta of nncase 1.0 wrote another version 5.
    let beta = words(&[MARK, 5, 0, 8, 1, 0, 0]);
    assert_eq!(
        open(&beta).expect_err("not known").message,
        "the file is a kmodel of version 5, only version 3 is supported"
    );
}
