//! The K210: models on its simulator, its files, and what it refuses.

mod files;
mod models;
mod netron;
mod quantised;
mod refused;

use std::process::ExitCode;

use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[
        ("files", files::trials),
        ("models", models::trials),
        ("netron", netron::trials),
        ("quantised", quantised::trials),
        ("refused", refused::trials),
    ])
}
