//! From ONNX models to results: ONNX's own cases, random graphs, graphs as text for each stage, and whole models.

#[macro_use]
extern crate byoc_tests_macros;

mod arg_max;
mod classical;
mod differential;
mod digits;
mod filetests;
mod generation;
mod microsoft;
mod microsoft_quantised;
mod models;
mod nodes;
mod out_of_range;
mod suites;
mod trained;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[
        ("arg_max", arg_max::trials),
        ("classical", classical::trials),
        ("differential", differential::trials),
        ("digits", digits::trials),
        ("filetests", filetests::trials),
        ("generation", generation::trials),
        ("microsoft", microsoft::trials),
        ("microsoft_quantised", microsoft_quantised::trials),
        ("models", models::trials),
        ("nodes", nodes::trials),
        ("suites", suites::trials),
        ("trained", trained::trials),
    ])
}
