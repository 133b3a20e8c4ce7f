//! Times the audit: code of some size, searched for copies of constants of some size. Usage:
//!
//!     cargo run --release -p byoc-bench --bin audit [CODE_MIB CONSTANTS_MIB]
//!
//! A backend made for this takes every node, claims `Host` and writes code without any copy. What is timed is the whole
//! stage 'ownership' of a compile, of which all but the audit takes microseconds. Prints a Markdown row for each kind of
//! code, beside a copy of as many bytes from memory to memory in the same process, each the best of three.

#![allow(clippy::print_stdout, reason = "what was measured is what it is for")]

use std::error::Error as AnyError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use byoc_core::compile::{Observer, Request, Stage, compile_until};
use byoc_core::plugin::{Registry, SearchPath};
use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Description, Environment, Error, Executable, Generated,
    HostRuntime, Job, OptionSpec, Options, Pattern, Refusal, Region, RegionPolicy, Runtime,
};

use onnx::{Model, Type, external_at};

#[allow(dead_code, unreachable_pub, reason = "the tests' own writer of models, of which this needs a part")]
#[path = "../../src/onnx.rs"]
mod onnx;

const MIB: usize = 1 << 20;

/// Bytes of a constant.
const CONSTANT: usize = 64 * MIB;

/// What is measured where the user says nothing: MiB of code and of constants.
const SIZES: [(usize, usize); 3] = [(16, 2048), (64, 2048), (256, 64)];

/// Takes everything and writes code that nobody runs.
struct Blob;

impl Backend for Blob {
    fn describe(&self) -> Description {
        Description {
            name: "blob".into(),
            version: "1.0.0".into(),
            code_version: 1,
            summary: "Writes code of a given size".into(),
            host: true,
            regions: RegionPolicy::default(),
            constant_access: ConstantAccess::Load,
            options: vec![OptionSpec::int("bytes", 0, ""), OptionSpec::bool("text", false, "")],
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(vec![Pattern::new("mul", "(Mul ?x ?w:const)")])
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        Ok(())
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let seed = 1000 + job.region.constants.first().map_or(0, |constant| constant.id.0);
        noise(seed, job.options.int("bytes") as usize, job.options.bool("text"), code)?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.host(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Blob {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("this backend is for measuring only"))
    }
}

/// Writes bytes that repeat nowhere: any bytes, or hexadecimal digits as in generated source.
fn noise(seed: u64, bytes: usize, text: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut piece = vec![0u8; MIB];
    let mut left = bytes;
    while left > 0 {
        for word in piece.as_chunks_mut::<8>().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = state.wrapping_mul(0x2545_f491_4f6c_dd1d);
            *word = if text {
                std::array::from_fn(|i| b"0123456789abcdef"[(value >> (4 * i) & 15) as usize])
            } else {
                value.to_le_bytes()
            };
        }
        let length = left.min(MIB);
        out.write_all(&piece[..length])?;
        left -= length;
    }
    Ok(())
}

/// Writes `y = x * w0 * w1 ...`, element by element, with its constants in a file beside it.
fn write_model(folder: &Path, constants: usize) -> Result<PathBuf, Box<dyn AnyError>> {
    let width = (CONSTANT / 4) as i64;
    let mut model = Model::default().input("x", Type::Float, &[width]);
    let mut data = BufWriter::new(File::create(folder.join("weights.bin"))?);
    let mut last = "x".to_owned();
    for index in 0..constants {
        noise(index as u64 + 1, CONSTANT, false, &mut data)?;
        let (weight, next) = (format!("w{index}"), format!("y{index}"));
        let external = external_at(&weight, &[width], "weights.bin", index * CONSTANT);
        model = model.tensor(external).node("Mul", &[&last, &weight], &[&next]);
        last = next;
    }
    data.flush()?;
    let path = folder.join("model.onnx");
    std::fs::write(&path, model.output(&last, Type::Float, &[width]).finish())?;
    Ok(path)
}

/// Times the stage 'ownership'.
#[derive(Default)]
struct Stopwatch {
    start: Option<Instant>,
    seconds: f64,
}

impl Observer for Stopwatch {
    fn stage(&mut self, stage: Stage) {
        self.start = (stage == Stage::Ownership).then(Instant::now);
    }

    fn dump(&mut self, stage: Stage, _: &dyn Fn() -> String) {
        if let Some(start) = self.start.filter(|_| stage == Stage::Ownership) {
            self.seconds = start.elapsed().as_secs_f64();
        }
    }
}

/// The seconds that the audit takes, the best of three.
fn audit(model: &Path, constants: usize, code: usize, text: bool) -> Result<f64, Box<dyn AnyError>> {
    let registry = Registry::discover(&SearchPath::default(), &[&Blob], None).map_err(|error| error.to_string())?;
    // A region a node, and so one a constant.
    let settings = [("blob.bytes", (code / constants).to_string()), ("blob.text", text.to_string())];
    let settings = settings.map(|(key, value)| (key.to_owned(), value));
    let backends = registry.select(&["blob".to_owned()], &settings).map_err(|error| error.to_string())?;
    let request = Request::new(vec![("main".into(), model.to_owned())], backends);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let mut stopwatch = Stopwatch::default();
        compile_until(&request, Stage::Ownership, &mut stopwatch).map_err(|error| error.to_string())?;
        best = best.min(stopwatch.seconds);
    }
    Ok(best)
}

/// The seconds that a copy of that many bytes takes, the best of three.
fn copy(bytes: usize) -> f64 {
    // Piece by piece, for both sides together may be more than memory has; larger than any cache.
    let (from, mut to) = (vec![1u8; 256 * MIB], vec![2u8; 256 * MIB]);
    let once = |_| {
        let start = Instant::now();
        let mut left = bytes;
        while left > 0 {
            let length = left.min(from.len());
            to[..length].copy_from_slice(std::hint::black_box(&from[..length]));
            left -= length;
        }
        std::hint::black_box(&to);
        start.elapsed().as_secs_f64()
    };
    (0..3).map(once).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn AnyError>> {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let sizes = match arguments.as_slice() {
        [] => SIZES.to_vec(),
        &[code, constants] => vec![(code, constants)],
        _ => return Err("usage: audit [CODE_MIB CONSTANTS_MIB]".into()),
    };
    println!("| code MiB | constants MiB | kind of code | audit s | GB/s of both | copy s | audit / copy |");
    println!("|---|---|---|---|---|---|---|");
    for (code, constants) in sizes {
        let folder = tempfile::tempdir()?;
        let count = (constants * MIB / CONSTANT).max(1);
        let model = write_model(folder.path(), count)?;
        let bytes = code * MIB + count * CONSTANT;
        for text in [false, true] {
            let (audit, copy) = (audit(&model, count, code * MIB, text)?, copy(bytes));
            let (kind, speed, ratio) =
                (if text { "text" } else { "any bytes" }, bytes as f64 / audit / 1e9, audit / copy);
            println!("| {code} | {constants} | {kind} | {audit:.3} | {speed:.1} | {copy:.3} | {ratio:.2} |");
        }
    }
    Ok(())
}
