//! Every fault of the hostile plugin, through the command line: one exact error, the right exit code, and the output
//! file as it was.

use std::path::{Path, PathBuf};

use byoc_tests::fault::{Fault, VARIABLE};
use byoc_tests::program::{Outcome, byoc, outcome, without_places};
use byoc_tests::{onnx, places};

/// The model of the region in which the plugin crashes.
const REPRO: &str = "byoc_main_hostile_0.repro.onnx";

/// Which command meets the fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Compile,
    Run,
}

/// A folder with a model, and an artifact in which the plugin behaved.
struct Bench {
    folder: tempfile::TempDir,
    plugin: PathBuf,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench::uncompiled();
        bench.run(Verb::Compile, None).success();
        bench
    }

    /// A folder with a model only.
    fn uncompiled() -> Bench {
        let bench = Bench { folder: places::temporary(), plugin: places::plugin("hostile") };
        places::write(bench.folder.path(), "model.onnx", onnx::scale().finish());
        bench
    }

    fn run(&self, verb: Verb, fault: Option<Fault>) -> Outcome {
        let plugin = self.plugin.to_str().expect("a plain path");
        let mut command = match verb {
            Verb::Compile => byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "hostile"]),
            Verb::Run => byoc(&["run", "model.byoc", "--fill", "ones"]),
        };
        command.args(["--plugin", plugin]).current_dir(self.folder.path());
        if matches!(fault, Some(Fault::HangsInCodegen | Fault::WorksLong)) {
            command.args(["--plugin-timeout", "1"]);
        }
        if fault == Some(Fault::TakesAllMemory) {
            command.args(["--plugin-memory", "512"]);
        }
        if matches!(fault, Some(Fault::WritesEndlessCode | Fault::PacksEndlessly)) {
            command.args(["--plugin-output", "3"]);
        }
        match fault {
            Some(fault) => command.env(VARIABLE, fault.name()),
            None => command.env_remove(VARIABLE),
        };
        outcome(&mut command)
    }

    fn files(&self) -> (Vec<String>, Vec<u8>) {
        (places::list(self.folder.path()), places::read(&self.folder.path().join("model.byoc")))
    }
}

/// The command that meets a fault, the exit code, and the error with [`PARTS`] in braces.
fn expected(fault: Fault) -> (Verb, i32, &'static str) {
    use Fault::*;
    use Verb::*;
    match fault {
        PanicInDescribe => (Compile, 3, "[B305] {contract} describe failed: {panic}{report}"),
        PanicInPatterns => (Compile, 3, "[B305] backend 'hostile': {panic}{report}"),
        PanicInCheck => (Compile, 1, "[B306] backend 'hostile' failed while it checked node 'make_y': {panic}{leave}"),
        PanicInCodegen => (Compile, 1, "[B306] {failed}: {panic}{saved}"),
        PanicInConstantUpdater => (Compile, 1, "[B306] {failed}: {panic}{saved}"),
        PanicInLoad => (Run, 1, "[B703] {load}: {panic}"),
        PanicInRun => (Run, 1, "[B703] {run}: {panic}"),
        PanicInDrop => (Run, 0, ""),
        BadName => (Compile, 3, "[B305] {contract} its backend is called '../Hostile One'; {names}{report}"),
        BadPattern => (
            Compile,
            3,
            "[B305] backend 'hostile': pattern 'scale': expected ')' at column 17 of (Mul ?x ?w:const{report}",
        ),
        RefusesLate => (Compile, 1, "[B306] {failed}: no more than 3 dimensions are supported"),
        FailsWithHint => {
            (Compile, 1, "[B306] {failed}, node 'make_y': the kernel does not fit\n  hint: Lower hostile.size")
        }
        FailsInColour => (Compile, 1, "[B306] {failed}: [31mfirst line second line"),
        ClaimsNothing => (Compile, 1, "[B501] {claims} it does not claim {w}{once}"),
        ClaimsTwice => (Compile, 1, "[B501] {claims} it claims {w} twice, as Host and as Unused{once}"),
        ClaimsUnknown => (Compile, 1, "[B501] {claims} it claims constant 4711, which the region does not have{once}"),
        PacksWithoutLayout => (Compile, 1, "[B501] {claims} {w}: its packed layout has no name{bytes}"),
        PacksTooLittle => (Compile, 1, "[B501] {claims} it writes 7 of the 8 bytes of packed {w}{bytes}"),
        PacksTooMuch => (Compile, 1, "[B501] {claims} it writes more than the 8 bytes of packed {w}{bytes}"),
        PacksMisaligned => {
            (Compile, 1, "[B501] {claims} {w}: an alignment of 8192 is not a power of two up to 4096{bytes}")
        }
        EmbedsHost => {
            (Compile, 1, "[B502] {claims} embeds `w` (2.0 KiB) verbatim at offset 2 and claims Host{embedded}")
        }
        EmbedsPart => (
            Compile,
            1,
            "[B502] {claims} embeds 1.5 KiB of `w` (2.0 KiB) verbatim at offset 2 and claims Host{embedded}",
        ),
        ExitsInConstructor => {
            (Compile, 5, "[B307] plugin '{plugin}' ended its process (exit code 0) while it was opened{report}")
        }
        SegfaultInDescribe => (Compile, 5, "[B307] plugin '{plugin}' crashed (signal 11) while it was opened{report}"),
        SegfaultInCheck => {
            (Compile, 5, "[B307] backend 'hostile' crashed (signal 11) while checking node 'make_y'{leave}")
        }
        SegfaultInCodegen => (Compile, 5, "[B307] backend 'hostile' crashed (signal 11) {generating}"),
        AbortInConstantUpdater => (Compile, 5, "[B307] backend 'hostile' crashed (signal 6) {generating}"),
        HangsInCodegen => (Compile, 5, "[B307] backend 'hostile' did not answer within 1 s {generating}"),
        WorksLong => (Compile, 0, ""),
        TakesAllMemory => {
            (Compile, 5, "[B307] backend 'hostile' crashed (signal 6, with 512 MiB of memory) {generating}")
        }
        WritesEndlessCode => (Compile, 1, "[B306] {failed}: it writes more than 3 MiB of code{output}"),
        PacksEndlessly => (Compile, 1, "[B306] {failed}: it writes more than 3 MiB of packed constants{output}"),
        PrintsInCodegen => (Compile, 0, ""),
        FailsInLoad => (Run, 1, "[B703] {load}: the device is busy\n  hint: Try again later"),
        FailsInRun => (Run, 1, "[B703] {run}: the device is gone"),
    }
}

/// What several messages have in common, so that each stands in one line above.
const PARTS: &[(&str, &str)] = &[
    ("{panic}", "backend panicked: as the fault wants it"),
    ("{contract}", "'{plugin}' breaks the plugin contract:"),
    ("{generating}", "while generating byoc_main_hostile_0{saved}"),
    (
        "{saved}",
        "; the region, with its weights, is saved in 'byoc_main_hostile_0.repro.onnx'\n  hint: Report this to the backend's maker; --fallback-on-crash gives the region to the next backend",
    ),
    ("{names}", "names are lower-case letters, digits and '-'"),
    ("{report}", "\n  hint: Report this to the plugin's maker"),
    ("{leave}", "\n  hint: Report this to the backend's maker, or leave it out of --backend"),
    ("{failed}", "backend 'hostile' failed on region byoc_main_hostile_0"),
    ("{load}", "backend 'hostile' cannot load region byoc_main_hostile_0"),
    ("{run}", "region byoc_main_hostile_0 failed on backend 'hostile'"),
    ("{claims} embeds", "hostile: region byoc_main_hostile_0 embeds"),
    ("{claims}", "hostile: region byoc_main_hostile_0:"),
    ("{w}", "constant 0 (`w`)"),
    ("{bytes}", "\n  hint: Report this to the backend's maker"),
    ("{output}", "\n  hint: Report this to the backend's maker, or allow more with --plugin-output"),
    ("{once}", "\n  hint: The backend's constant_updater must claim each constant of its region exactly once"),
    (
        "{embedded}",
        "\n  hint: The backend should claim Embedded, or read the bytes at load; --allow-duplicates makes this a warning",
    ),
];

/// The error that ends the output; what a panicking plugin prints stands before it.
fn last_error(stderr: &str) -> &str {
    stderr.rfind("error: ").map_or("", |at| stderr[at + "error: ".len()..].trim_end())
}

#[test]
fn every_fault_is_one_error_and_leaves_the_output_alone() {
    let bench = Bench::new();
    let before = bench.files();
    let mut wrong = Vec::new();
    for &fault in Fault::ALL {
        let (verb, code, message) = expected(fault);
        let message = PARTS.iter().fold(message.to_owned(), |message, (part, text)| message.replace(part, text));
        let message = message.replace("{plugin}", &bench.plugin.display().to_string());
        let outcome = bench.run(verb, Some(fault));
        let told = without_places(last_error(&outcome.stderr));
        let found = (outcome.code, told.as_str());
        if found != (Some(code), message.as_str()) {
            wrong.push(format!("{fault:?}:\n  expected {code} {message}\n  found {found:?}"));
        }
        // What a crash leaves on purpose.
        let saved = std::fs::remove_file(bench.folder.path().join(REPRO)).is_ok();
        if saved != message.contains(REPRO) {
            wrong.push(format!("{fault:?}: the region is saved: {saved}"));
        }
        if bench.files() != before {
            wrong.push(format!("{fault:?} changed the folder: {:?}", places::list(bench.folder.path())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A backend that lies about its constants, or fails while it claims them, leaves no file where there was none.
#[test]
fn a_lie_leaves_no_file() {
    let bench = Bench::uncompiled();
    for fault in [
        Fault::ClaimsNothing,
        Fault::ClaimsTwice,
        Fault::ClaimsUnknown,
        Fault::EmbedsHost,
        Fault::EmbedsPart,
        Fault::PacksTooMuch,
    ] {
        assert_eq!(bench.run(Verb::Compile, Some(fault)).code, Some(1), "{fault:?}");
        assert_eq!(places::list(bench.folder.path()), ["model.onnx"], "{fault:?}");
    }
}

#[test]
fn a_secret_copy_is_a_warning_when_allowed() {
    let bench = Bench::new();
    let plugin = bench.plugin.to_str().expect("a plain path");
    let mut command =
        byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "hostile", "--allow-duplicates"]);
    command.args(["--plugin", plugin]).current_dir(bench.folder.path()).env(VARIABLE, Fault::EmbedsHost.name());
    let outcome = outcome(&mut command);
    outcome.success();
    assert!(
        outcome.stderr.starts_with("warning: [B502] hostile: region byoc_main_hostile_0 embeds"),
        "{}",
        outcome.stderr
    );
}

/// The region of a crash, as it was saved, crashes again by itself, with its own weights or made-up ones.
#[test]
fn a_crash_can_be_replayed() {
    let bench = Bench::new();
    bench.run(Verb::Compile, Some(Fault::SegfaultInCodegen));
    let plugin = bench.plugin.to_str().expect("a plain path");
    let byoc = |arguments: &[&str], fault: Option<Fault>| {
        let mut command = byoc(arguments);
        command.args(["--plugin", plugin]).current_dir(bench.folder.path()).env_remove(VARIABLE);
        if let Some(fault) = fault {
            command.env(VARIABLE, fault.name());
        }
        outcome(&mut command)
    };
    let repro = ["repro", "model.onnx", "--backend", "hostile", "--region", "byoc_main_hostile_0"];
    byoc(&[&repro[..], &["-o", "again.onnx"]].concat(), None).success();
    let saved = places::read(&bench.folder.path().join(REPRO));
    assert_eq!(places::read(&bench.folder.path().join("again.onnx")), saved);
    byoc(&[&repro[..], &["-o", "stripped.repro.onnx", "--strip-weights"]].concat(), None).success();
    assert_ne!(places::read(&bench.folder.path().join("stripped.repro.onnx")), saved);
    for model in [REPRO, "stripped.repro.onnx"] {
        // The backend is the one that the model was made for.
        byoc(&["compile", model, "-o", "replayed.byoc"], None).success();
        let crashed = byoc(&["compile", model, "-o", "replayed.byoc"], Some(Fault::SegfaultInCodegen));
        assert_eq!(crashed.code, Some(5), "{}", crashed.stderr);
        let start = "backend 'hostile' crashed (signal 11) while generating byoc_main_hostile_0";
        assert!(last_error(&crashed.stderr).contains(start), "{}", crashed.stderr);
        // It would take the place of the very model that shows the crash.
        let kept =
            crashed.stderr.contains("; the region cannot be saved: the output './byoc_main_hostile_0.repro.onnx' is ");
        assert_eq!(kept, model == REPRO, "{}", crashed.stderr);
    }
    byoc(&["repro", "model.onnx", "--backend", "hostile", "--region", "byoc_main_hostile_1", "-o", "x.onnx"], None)
        .fails(
            2,
            "error: [B702] the model has no region 'byoc_main_hostile_1'\n  hint: Did you mean 'byoc_main_hostile_0'?",
        );
}

/// With --fallback-on-crash a crash costs the backend its region, and the model still compiles and runs.
#[test]
fn a_crash_can_give_the_region_to_the_next_backend() {
    let bench = Bench::new();
    let plugin = bench.plugin.to_str().expect("a plain path");
    let crashed = "warning: [B307] backend 'hostile' crashed (signal ";
    let panicked = "warning: [B306] backend 'hostile' failed ";
    for (fault, warning) in [
        (Fault::SegfaultInCheck, crashed),
        (Fault::SegfaultInCodegen, crashed),
        (Fault::AbortInConstantUpdater, crashed),
        (Fault::PanicInCheck, panicked),
        (Fault::PanicInCodegen, panicked),
        (Fault::PanicInConstantUpdater, panicked),
    ] {
        let mut command = byoc(&["compile", "model.onnx", "-o", "fallback.byoc", "--backend", "hostile,json"]);
        command.args(["--fallback-on-crash", "--plugin", plugin]).current_dir(bench.folder.path());
        let outcome = outcome(command.env(VARIABLE, fault.name()));
        outcome.success();
        assert!(outcome.stderr.contains(warning), "{fault:?}: {}", outcome.stderr);
        assert!(outcome.stderr.ends_with("  hint: Its nodes go to the next backend\n"), "{}", outcome.stderr);
        let mut run = byoc(&["verify", "fallback.byoc", "--model", "model.onnx"]);
        byoc_tests::program::outcome(run.current_dir(bench.folder.path())).success();
    }
}

/// Not even a path that is part of a name may leave the folder.
#[test]
fn nothing_is_written_outside() {
    let bench = Bench::new();
    let parent = bench.folder.path().parent().map(Path::to_owned).expect("a folder has a parent");
    bench.run(Verb::Compile, Some(Fault::BadName));
    assert!(!places::list(&parent).iter().any(|name| name.contains("Hostile")));
}
