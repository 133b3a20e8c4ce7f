//! Fuzzing. Each target of `byoc-fuzz` is run on a sample of changed inputs, the same ones each time. With `BYOC_FUZZ_SECONDS` it
//! is run for so many seconds under libFuzzer and AddressSanitizer in its place, guided by coverage: that takes a build of its own,
//! of six minutes. `docs/testing.md` says how to go on from a finding.

#![allow(clippy::print_stdout, reason = "what was tried is part of a test's report")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use byoc_fuzz::{Rng, TARGETS, Target};
use libtest_mimic::{Arguments, Trial};

/// What makes the compiler count which edges are taken and what is compared. All of it is stable; libFuzzer asks for it.
const COVERAGE: &str = "--cfg=fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0";

/// Finds accesses out of bounds. The flag is not stable, so the compiler has to allow it.
const SANITIZER: &str = "-Zsanitizer=address";

/// Ends of an input that are findings: longer than this many seconds, or more than this many MiB.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// Larger allocations fail, as they would on a machine that has no room for them; code that cannot handle it is found.
const MEMORY: &str = "max_allocation_size_mb=256:allocator_may_return_null=1:detect_leaks=0:quarantine_size_mb=64";

/// Longest input.
const LONGEST: usize = 1 << 17;

static ENGINE: LazyLock<PathBuf> = LazyLock::new(build);

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let seconds = std::env::var("BYOC_FUZZ_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("BYOC_FUZZ_SECONDS is a number"));
    let trial = |target: &'static Target| {
        Trial::test(target.name, move || {
            match seconds {
                Some(seconds) => fuzz(target, seconds),
                None => sample(target),
            }
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, TARGETS.iter().map(trial).collect()).exit();
}

/// Inputs of a sample.
const SAMPLE: u32 = 2000;

/// Most inputs that others are made from.
const POOL: usize = 256;

/// Runs a target on changed inputs. What ran to its end joins those that others are made from, so that changes add up.
fn sample(target: &Target) {
    let mut pool = (target.seeds)();
    let seeds = pool.len();
    let mut random = Rng::with_seed(7);
    let mut ended = 0;
    for number in 0..SAMPLE {
        let [input, other] = [(); 2].map(|()| &pool[random.usize(..pool.len())]);
        let changed = target
            .mutated(input, Some(other), random.u32(..), &mut |bytes| raw(bytes, &mut Rng::with_seed(number.into())));
        if changed.len() > LONGEST {
            continue;
        }
        let Ok(valid) = std::panic::catch_unwind(|| (target.run)(&changed)) else {
            let file = folder("findings", target).join(format!("sample-{number}"));
            std::fs::write(&file, &changed).expect("a finding can be kept");
            panic!("input {number} of the sample panics; it is kept in {}", file.display());
        };
        ended += u32::from(valid);
        if valid && pool.len() < POOL {
            pool.push(changed);
        } else if valid {
            pool[random.usize(seeds..POOL)] = changed;
        }
    }
    // Where nearly everything is refused at its beginning, nothing behind that is tried. Code of regions is refused most often: of 2,000
    // inputs 77 ran to their end.
    assert!(ended > SAMPLE / 50, "{ended} of {SAMPLE} inputs ran to their end");
}

/// Changes a few bytes: one is replaced, goes, or comes.
fn raw(bytes: &mut Vec<u8>, random: &mut Rng) {
    for _ in 0..random.usize(1..4) {
        let place = random.usize(..=bytes.len());
        match random.u8(..3) {
            0 if place < bytes.len() => bytes[place] = random.u8(..),
            1 if place < bytes.len() => drop(bytes.remove(place)),
            _ => bytes.insert(place, random.u8(..)),
        }
    }
}

/// The folder of this package.
fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where all of it is kept: the build, what has been tried, what was found.
fn home() -> PathBuf {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("it lies in the build folder").join("fuzz")
}

/// The triple of this machine: with it, build scripts are built without the flags.
fn machine(cargo: &Path) -> String {
    let output = Command::new(cargo).arg("-vV").output().expect("cargo runs");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo names its machine").to_owned()
}

/// Builds the engine and says where it is.
fn build() -> PathBuf {
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let machine = machine(&cargo);
    // Its run time comes with the toolchain on Linux.
    let flags = if machine.contains("linux-gnu") { format!("{COVERAGE} {SANITIZER}") } else { COVERAGE.to_owned() };
    let status = Command::new(cargo)
        .current_dir(package())
        .args(["build", "--profile", "fuzz", "--package", "byoc-fuzz-engine", "--features", "libfuzzer"])
        .args(["--target", &machine, "--target-dir"])
        .arg(home())
        .env("RUSTFLAGS", flags)
        .env("RUSTC_BOOTSTRAP", "1")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the fuzz targets do not build");
    home().join(machine).join("fuzz/byoc-fuzz")
}

/// A folder of that name for a target.
fn folder(kind: &str, target: &Target) -> PathBuf {
    let folder = home().join(kind).join(target.name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// Runs a target for its time, from all that was worth keeping in earlier runs. Fails where something was found.
fn fuzz(target: &Target, seconds: u64) {
    let (corpus, seeds, findings) = (folder("corpus", target), folder("seeds", target), folder("findings", target));
    let regressions = package().join("regressions").join(target.name);
    let log = home().join(format!("{}.log", target.name));
    // In memory, where there is such. The engine ends without clearing up after itself.
    let shared = Path::new("/dev/shm");
    let temporary = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
    let temporary = temporary.expect("a folder can be made");
    let mut command = Command::new(&*ENGINE);
    command
        .env("TMPDIR", temporary.path())
        .env("BYOC_FUZZ_TARGET", target.name)
        .env("BYOC_FUZZ_SEEDS", &seeds)
        .env("ASAN_OPTIONS", MEMORY)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(LIMITS)
        .args(["-print_final_stats=1", "-len_control=0"])
        .args([&corpus, &seeds])
        .args(regressions.is_dir().then_some(regressions))
        .stderr(File::create(&log).expect("a log can be made"));
    let status = command.status().expect("the engine runs");
    let text = String::from_utf8_lossy(&std::fs::read(&log).expect("the log")).into_owned();
    println!("{:9}{}", target.name, summary(&text));
    assert!(status.success(), "{status}; see {}:\n{}", log.display(), end(&text));
}

/// Executions and coverage, from what the engine says at its end.
fn summary(log: &str) -> String {
    let statistic = |name: &str| log.lines().find_map(|line| line.strip_prefix(name)).map_or("?", str::trim);
    let coverage = log.lines().rev().find_map(|line| Some(line.split_once("cov: ")?.1.split_once(" exec/s")?.0));
    let executions = statistic("stat::number_of_executed_units:");
    format!("{executions} executions, edges {}", coverage.unwrap_or("?"))
}

/// The last part of the log, where the finding is.
fn end(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
