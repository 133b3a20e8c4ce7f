//! Every constant exactly once: the cases in which other compilers store weights twice or lose them, one test a case,
//! with backends of every kind behind the real plugin interface. `each_once.expected` beside this file is the
//! table of sizes.

mod bodies;
mod cases;
mod check;
mod forms;
mod refused;

use std::sync::OnceLock;

use byoc_tests::golden::golden_file;
use byoc_tests::trial::{Trial, trial};

use self::check::{Checked, HEAD};

/// A case: makes its model under the name that the table has, and checks it.
type Run = fn(&'static str) -> Checked;

const CASES: &[(&str, Run)] = &[
    ("a embedded", cases::embedded),
    ("a embedded as bytes", cases::quantised),
    ("b referenced", cases::referenced),
    ("c source after folding", cases::source),
    ("d embedded and referenced", cases::mixed),
    ("e tied by three layers, folded", cases::tied_and_folded),
    ("f for host and offload: host", forms::host_and_host),
    ("f for host and offload: packed", forms::host_and_packed),
    ("f for host and offload: both kept", forms::host_and_packed_kept),
    ("f for host and offload: embedded", forms::host_and_embedded),
    ("f for host and offload: unused", forms::host_and_unused),
    ("g three regions, by id", cases::three_regions),
    ("h transposed copy", cases::transposed),
    ("h transposed copy, packed by json", cases::transposed_on_host),
    ("h transposed copy, 8 bits by json", cases::transposed_in_8_bits),
    ("i 47 aliases", cases::aliases),
    ("j embedded as bytes, and host", forms::embedded_and_host),
    ("k one layout twice", forms::one_layout),
    ("k two layouts, both given up", forms::two_layouts),
    ("k two layouts, one given up", forms::one_layout_kept),
    ("k two layouts, both kept", forms::two_layouts_kept),
    ("k convolution, packed by json", forms::convolution),
    ("k convolution, part of a block", forms::convolution_of_few_blocks),
    ("k convolution, 8 bits by json", forms::convolution_in_8_bits),
    ("k convolution, and host", forms::convolution_and_host),
    ("l nobody reads it", cases::unread),
    ("m empty and scalar: host", forms::tiny_host),
    ("m empty and scalar: embedded", forms::tiny_embedded),
    ("m empty and scalar: packed", forms::tiny_packed),
    ("n around and in branches: host", bodies::branches),
    ("n around and in branches: packed", bodies::branches_packed),
    ("n in nested loops", bodies::loops),
];

/// The line of each case, made by whichever test needs it first.
static LINES: [OnceLock<String>; CASES.len()] = [const { OnceLock::new() }; CASES.len()];

fn line(index: usize) -> &'static str {
    let (name, run) = CASES[index];
    LINES[index].get_or_init(|| run(name).line)
}

pub(crate) fn trials() -> Vec<Trial> {
    let cases = CASES.iter().enumerate().map(|(index, (name, _))| {
        trial(*name, move || {
            line(index);
            Ok(())
        })
    });
    let mut trials: Vec<_> = cases.collect();
    trials.push(trial("table", || {
        let lines: String = (0..CASES.len()).map(line).collect();
        golden_file("tests/tests/constants/each_once.expected", &format!("{HEAD}{lines}"));
        Ok(())
    }));
    trials.push(trial("another layout is refused", refused::another_layout));
    trials.push(trial("a processor that lacks a feature is refused", refused::missing_feature));
    trials
}
