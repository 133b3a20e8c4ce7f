//! Vector instructions are instructions, and not calls of functions that have one each: in a closure the compiler does not
//! know of the features of the function around it, and whether it makes one of both depends on settings of the build. A model
//! took 1.7 times as long where it did not. This needs optimisation, which the profile for tests has for this crate.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

use object::{Object, ObjectSymbol};

/// What other crates call.
const OTHERS: [&str; 1] = ["_mm256_movemask_epi8"];

#[test]
fn vector_instructions_are_no_calls() {
    let program = std::fs::read("/proc/self/exe").expect("the program can be read");
    let program = object::File::parse(&*program).expect("it is an ELF file");
    let names: Vec<_> = program.symbols().filter_map(|symbol| symbol.name().ok()).collect();
    assert!(names.iter().any(|name| name.contains("vector_instructions_are_no_calls")), "it has been stripped");
    // core::core_arch::x86::avx512f::_mm512_fmadd_ps and its like, as they are mangled.
    let is_vector = |name: &&&str| name.contains("core_arch") && (name.contains("_mm256_") || name.contains("_mm512_"));
    let calls = names.iter().filter(is_vector).filter(|name| !OTHERS.iter().any(|other| name.contains(other)));
    assert_eq!(calls.collect::<Vec<_>>(), Vec::<&&str>::new());
}
