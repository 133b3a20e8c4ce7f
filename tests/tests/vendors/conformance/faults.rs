//! What the kit finds: every fault of the hostile plugin that a kit can see, and faults put into the plugin in C.

use byoc_tests::fault::{Fault, VARIABLE};
use byoc_tests::places;

use super::{Tested, c_plugin};

/// The first case that fails, with its reason; `None` where nothing can be seen from outside.
fn expected(fault: Fault) -> Option<(&'static str, &'static str)> {
    use Fault::*;
    const PANIC: &str = "backend panicked: as the fault wants it";
    Some(match fault {
        PanicInDescribe | BadName => ("handshake", "breaks the plugin contract"),
        PanicInPatterns => ("patterns", PANIC),
        BadPattern => ("patterns", "pattern 'scale': expected ')' at column 17 of (Mul ?x ?w:const"),
        PanicInCheck => ("scale: matches", PANIC),
        PanicInCodegen | PanicInConstantUpdater => ("scale: f32[3x16] constants: codegen", PANIC),
        RefusesLate => ("scale: f32[3x16] constants: codegen", "no more than 3 dimensions are supported"),
        FailsWithHint => ("scale: f32[3x16] constants: codegen", "the kernel does not fit"),
        FailsInColour => ("scale: f32[3x16] constants: codegen", "[31mfirst line second line"),
        ClaimsNothing => ("scale: f32[3x16] constants: claims", "it does not claim constant 0"),
        ClaimsTwice => ("scale: f32[3x16] constants: claims", "twice, as Host and as Unused"),
        ClaimsUnknown => ("scale: f32[3x16] constants: claims", "it claims constant 4711"),
        PacksWithoutLayout => ("scale: f32[3x16] constants: claims", "its packed layout has no name"),
        PacksTooLittle => ("scale: f32[3x16] constants: claims", "it writes 7 of the 8 bytes"),
        PacksTooMuch => ("scale: f32[3x16] constants: claims", "it writes more than the 8 bytes"),
        PacksMisaligned => ("scale: f32[3x16] constants: claims", "an alignment of 8192 is not a power of two"),
        // Too small for the search for secret copies, but `load` does not expect them either.
        EmbedsHost | EmbedsPart => ("scale: f32[3x16] constants: run", "load fails: damaged code"),
        PanicInLoad => ("scale: f32[3x16] constants: run", PANIC),
        FailsInLoad => ("scale: f32[3x16] constants: run", "load fails: the device is busy"),
        PanicInRun => ("scale: f32[3x16] constants: run", PANIC),
        FailsInRun => ("scale: f32[3x16] constants: run", "run fails: the device is gone"),
        ExitsInConstructor => ("handshake", "ended the process (exit code 0)"),
        SegfaultInDescribe => ("handshake", "crashed (signal 11)"),
        SegfaultInCheck => ("scale: matches", "crashed (signal 11)"),
        SegfaultInCodegen => ("scale: f32[3x16] constants: codegen", "crashed (signal 11)"),
        AbortInConstantUpdater | TakesAllMemory => {
            ("scale: f32[3x16] constants: codegen", "crashed (signal 6, with 512 MiB of memory)")
        }
        WritesEndlessCode => ("scale: f32[3x16] constants: codegen", "it writes more than 256 MiB of code"),
        PacksEndlessly => ("scale: f32[3x16] constants: codegen", "it writes more than 256 MiB of packed constants"),
        HangsInCodegen => ("scale: f32[3x16] constants: codegen", "timed out after 2 s"),
        // The plugin's own side of the wire keeps the panic, and `free` has no answer; printing is not a fault here, and who
        // reports progress may take long.
        PanicInDrop | PrintsInCodegen | WorksLong => return None,
    })
}

#[test]
fn the_faults_of_the_hostile_plugin_are_found() {
    let plugin = places::plugin("hostile");
    for &fault in Fault::ALL {
        // What does not hang is given time: a busy machine needs a while to fill memory.
        let hangs = expected(fault).is_some_and(|(_, reason)| reason.starts_with("timed out"));
        let timeout = if hangs { "2" } else { "60" };
        let tested = Tested::of(&plugin, &["--timeout", timeout, "--memory", "512", "--fail-fast"], &|command| {
            command.env(VARIABLE, fault.name());
        });
        let Some((case, reason)) = expected(fault) else {
            assert_eq!(tested.code, Some(0), "{fault:?}");
            continue;
        };
        assert_eq!(tested.code, Some(if case == "handshake" { 3 } else { 1 }), "{fault:?}");
        let found = tested.first_failure();
        assert!(found.0 == case && found.1.contains(reason), "{fault:?}: {found:?}");
    }
    // Where a constant is large enough, the copy itself is found.
    let tested = Tested::of(&plugin, &[], &|command| {
        command.env(VARIABLE, Fault::EmbedsHost.name());
    });
    let copies = "embeds `w2` (1.9 KiB) verbatim at offset 2 and claims Host";
    assert!(tested.failures().iter().any(|(name, reason)| name.ends_with(": claims") && reason.contains(copies)));
}

/// The line of the plugin in C that writes an element of the output.
const WRITE: &str = "y[row * sizes->columns + column] = sum;";
/// The line of it that reads an element of the matrix.
const READ: &str = "float value = element(&matrix->tensor, row, column);";

/// A change of the plugin in C, the case that finds it, and the reason that is given.
const CHANGES: &[(&str, &str, &str, &str)] = &[
    (WRITE, "y[row * sizes->columns + column] = sum * 1.01f;", "run", "of 48 elements differ"),
    (WRITE, "if (column != 5) y[row * sizes->columns + column] = sum;", "run", "byte 20 of output 'v5' is not written"),
    (WRITE, "y[row * sizes->columns + column] = sum; y[rows * sizes->columns] = 0;", "run", "writes outside output 0"),
    (WRITE, "y[row * sizes->columns + column] = sum; ((float *)x)[0] = 2;", "run", "the run writes to input 0"),
    (
        WRITE,
        "static float drift; y[row * sizes->columns + column] = sum + (drift += 1e-6f);",
        "run",
        "byte 0 of output 'v5' is another one in the second run",
    ),
    (WRITE, "*(volatile int *)0 = 1;", "run", "crashed (signal 11)"),
    (
        "return reason ? byoc_refuse(out, \"shape\", reason) : BYOC_OK;",
        "if (byoc_json_ok(byoc_json_get(byoc_json_of(region), \"of_a_later_version\"))) return byoc_refuse(out, \"other\", \"what is this\");\n    \
         return reason ? byoc_refuse(out, \"shape\", reason) : BYOC_OK;",
        "newer host",
        "with fields of a later version check refuses region byoc_main_cmatmul_0: what is this",
    ),
    (
        "(long long)sizes.rows, (long long)sizes.columns)",
        "(long long)sizes.rows + 1, (long long)sizes.columns)",
        "open",
        "open tells of other outputs than those of the region",
    ),
    (
        "if (file.len != sizeof sizes) return byoc_fail(",
        "if (file.len == 0) return byoc_put(out, \"{\\\"format\\\":\\\"\\\",\\\"file_bytes\\\":0,\\\"inputs\\\":[],\\\"outputs\\\":[]}\");\n    \
         if (file.len != sizeof sizes) return byoc_fail(",
        "open",
        "open takes empty code",
    ),
    (
        "return byoc_put(out, text);\n}\n\nstatic int32_t call",
        "static int calls; if (calls++ % 2) text[strlen(\"{'format':'dense \")] = '2'; return byoc_put(out, text);\n}\n\n\
         static int32_t call",
        "open",
        " bytes in the file alone",
    ),
    (WRITE, "abort();", "run", "crashed (signal 6)"),
    (WRITE, "exit(0);", "run", "ended the process (exit code 0)"),
    (
        READ,
        "float value = ((const float *)matrix->tensor.data)[row * found.columns + column];",
        "layouts",
        "with constants laid out as Transposed: output 'v5': ",
    ),
    (
        "bytes.len = sizeof found;",
        "bytes.len = sizeof found; { static int n; found.inner += n++; }",
        "codegen",
        "other code",
    ),
    (
        "if (code.len != sizeof(dense)) return byoc_fail(error, \"damaged code\");",
        "",
        "damaged code",
        "crashed (signal 11)",
    ),
    ("bias->layout.len != 0", "0", "damaged constants", "load with constant 1 packed in another layout is taken"),
    (
        "const char *reason = read_region(region, &found);\n    (void)backend, (void)constants, (void)options;",
        "const char *reason = \"no more scratch memory\";\n    (void)backend, (void)constants, (void)options, (void)region;",
        "codegen",
        "check takes region byoc_main_cmatmul_0, and then it fails: no more scratch memory",
    ),
];

#[test]
fn faults_in_c_are_found_and_crashes_do_not_end_the_report() {
    let folder = places::temporary();
    for (old, new, case, reason) in CHANGES {
        let tested = Tested::plain(&c_plugin(folder.path(), &[(old, new)]), &[]);
        assert_eq!(tested.code, Some(1), "{new}");
        let found = tested.first_failure();
        let name = format!("dense: f32[3x16] constants broadcast: {case}");
        assert!(found.0 == name && found.1.contains(reason), "{new}: {found:?}");
        // What comes after it is still asked.
        let cases = tested.report["cases"].as_array().map_or(0, Vec::len);
        assert!(cases >= 25, "{new}: {cases} cases");
    }
}

#[test]
fn a_hang_is_a_failure() {
    let folder = places::temporary();
    let plugin = c_plugin(folder.path(), &[(WRITE, "for (;;) sizes = region->sizes.inner ? sizes : 0;")]);
    let tested = Tested::plain(&plugin, &["--timeout", "1"]);
    assert_eq!(tested.code, Some(1));
    let found = tested.first_failure();
    assert_eq!(found, ("dense: f32[3x16] constants broadcast: run", "timed out after 1 s"));
}

#[test]
fn a_crash_before_the_handshake_is_a_refusal() {
    let folder = places::temporary();
    let constructor = "__attribute__((constructor)) static void begin(void) { exit(0); }\nstatic size_t count(void)";
    let plugin = c_plugin(folder.path(), &[("static size_t count(void)", constructor)]);
    let tested = Tested::plain(&plugin, &[]);
    assert_eq!(tested.code, Some(3));
    assert_eq!(tested.failures(), [("handshake", "ended the process (exit code 0)")]);
}

#[test]
fn a_crash_at_the_end_is_a_case() {
    let folder = places::temporary();
    let destructor = "__attribute__((destructor)) static void end(void) { abort(); }\nstatic size_t count(void)";
    let plugin = c_plugin(folder.path(), &[("static size_t count(void)", destructor)]);
    let tested = Tested::plain(&plugin, &[]);
    assert_eq!(tested.code, Some(1));
    assert_eq!(tested.failures(), [("end of the process", "crashed (signal 6)")]);
}

/// Not even a line that looks like the report's own.
#[test]
fn what_a_plugin_prints_is_no_result() {
    let folder = places::temporary();
    let event = "\\n\\001byoc-conformance {\\\"Done\\\":1}\\nno end of line";
    let print = format!("y[row * sizes->columns + column] = sum; printf(\"{event}\"); fflush(stdout);");
    let tested = Tested::plain(&c_plugin(folder.path(), &[(WRITE, &print)]), &[]);
    assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
    assert!(tested.count("pass") >= 25);
}
