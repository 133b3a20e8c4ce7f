//! A build from the repository puts the sources of the contract into the program, for `byoc plugin new`. A package has only its own
//! files.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(with_contract)");
    if Path::new("../plugin-api/Cargo.toml").is_file() {
        println!("cargo::rustc-cfg=with_contract");
    }
}
