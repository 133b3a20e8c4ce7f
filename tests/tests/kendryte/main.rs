//! The K210: models on its simulator, its files, and what it refuses.

mod files;
mod models;
mod netron;
mod quantised;
mod refused;

use std::process::ExitCode;

use byoc_tests::{data, trial};

fn main() -> ExitCode {
    // Training takes a minute of one core; those that need it come last.
    if trial::takes_all() {
        data::make_ahead("digits");
    }
    trial::run(&[
        ("netron", netron::trials),
        ("refused", refused::trials),
        ("quantised", quantised::trials),
        ("files", files::trials),
        ("models", models::trials),
    ])
}
