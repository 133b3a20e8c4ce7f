//! Memory that a kmodel may take.

use super::build::Build;
use super::compile;
use crate::KendryteBackend;

/// Two convolutions, the second with the most weights.
fn network() -> Build {
    let mut build = Build::new(&[1, 3, 16, 16], 1);
    let x = build.conv(0, 8, 3, 1, false);
    let x = build.conv(x, 64, 3, 1, false);
    build.output(x);
    build.observe(2);
    build.region.covers_entry = true;
    build
}

#[test]
fn a_budget_that_is_exceeded_is_an_error_with_what_takes_it() {
    let build = network();
    let compiled = build.compile(&KendryteBackend, &[("require-whole-model", "true")]).expect("it fits");
    assert!(compiled.notes.is_empty(), "{:?}", compiled.notes);
    let error = compile(&build, &[("memory-budget", "60000")]).expect_err("it does not fit");
    // 64 maps of 16x16 in bytes and in f32.
    let main = 64 * 256 * 5;
    let words: Vec<_> = error.message.split(' ').collect();
    let file: u64 = words[3].parse().expect("a number");
    let both = file + main;
    let expected = format!(
        "the kmodel of {file} bytes and its main memory of {main} take {both} bytes, {} more than the memory-budget of 60000",
        both - 60000
    );
    assert_eq!(error.message, expected);
    assert_eq!(
        error.hint.as_deref(),
        Some(
            "The most costly layers: weights of 'Conv_1' 4608, 'Conv_0' 216 bytes; main memory of 'y6' 81920, 'Conv_1' 16384 \
             bytes; KPU RAM of 'Conv_1' 18432, 'Conv_0' 3072 bytes"
        )
    );
    let exact = both.to_string();
    compile(&build, &[("memory-budget", &exact), ("require-whole-model", "true")]).expect("it fits");
}

/// What no K210 can hold is an error for those who flash it, and a note for others.
#[test]
fn more_than_a_k210_has_is_an_error_for_a_whole_model() {
    let mut build = Build::new(&[1, 1024, 4, 4], 2);
    let x = build.conv(0, 700, 3, 1, false);
    build.output(x);
    build.observe(1);
    build.region.covers_entry = true;
    let error = compile(&build, &[("require-whole-model", "true")]).expect_err("it does not fit");
    assert!(error.message.ends_with(" more than the memory-budget of 6291456"), "{}", error.message);
    let notes = build.compile(&KendryteBackend, &[]).expect("it compiles").notes;
    let [note] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(note.ends_with(" bytes, a K210 has 6291456 for them and the program"), "{note}");
}
