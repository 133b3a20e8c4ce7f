//! That there is a test here makes cargo build the program with all tests of the workspace, with the same features as
//! their libraries. `tests/src/program.rs` finds it where this one says it is.

use std::path::Path;
use std::process::Command;

#[test]
fn it_is_beside_the_tests_and_says_its_version() {
    let program = Path::new(env!("CARGO_BIN_EXE_byoc"));
    let tests = std::env::current_exe().unwrap();
    let profile = tests.parent().and_then(Path::parent).unwrap();
    assert_eq!(program.parent().unwrap().canonicalize().unwrap(), profile.canonicalize().unwrap());
    let output = Command::new(program).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("byoc {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &[][..]));
}
