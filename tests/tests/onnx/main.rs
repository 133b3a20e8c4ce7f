//! From ONNX models to results: ONNX's own cases, random graphs, graphs as text for each stage, and whole models.

mod classical;
mod differential;
mod digits;
mod filetests;
mod microsoft;
mod models;
mod nodes;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[
        ("classical", classical::trials),
        ("differential", differential::trials),
        ("digits", digits::trials),
        ("filetests", filetests::trials),
        ("microsoft", microsoft::trials),
        ("models", models::trials),
        ("nodes", nodes::trials),
    ])
}
