//! The C library: its header is the Rust definitions, C and C++ compilers take it without a warning, and programs run artifacts by it and
//! do wrong what can be done wrong.

#[macro_use]
extern crate byoc_tests_macros;

mod devices;
mod installed;
mod threads;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use byoc_core::onnx_types;
use byoc_plugin_api::DType;
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::small;
use byoc_tests::places;
use byoc_tests::program::{Outcome, outcome};
use byoc_tests::trial;

fn main() -> ExitCode {
    trial::run(&[("installed", installed::trials)])
}

/// What stands before the generated part.
const HEAD: &str = "/* byoc's runtime as a C library: artifacts are opened and run. Generated from core/bindings/c.\n \
    *\n \
    * Functions return a byoc_status. Sessions are numbers: one that was closed, or never given, is an error. Every function may be called\n \
    * from any thread; calls for one session take turns. Types and functions are only ever added. */\n\
    #ifndef BYOC_H\n#define BYOC_H\n\n#include <stddef.h>\n#include <stdint.h>\n";

const TAIL: &str = "#endif\n";

fn folder_of_library() -> PathBuf {
    places::checkout().join("core/bindings/c")
}

fn generate() -> String {
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Type,
        documentation_style: cbindgen::DocumentationStyle::C99,
        usize_is_size_t: true,
        no_includes: true,
        cpp_compat: true,
        line_length: 110,
        ..Default::default()
    };
    // No function takes it as such: what C gives may be any number.
    config.export.include.push("byoc_element".into());
    // It names the others.
    let builder = cbindgen::Builder::new().with_config(config).with_src(folder_of_library().join("src/lib.rs"));
    let mut generated = Vec::new();
    builder.generate().expect("the definitions are C's").write(&mut generated);
    let generated = String::from_utf8(generated).expect("text").replace("// # Safety", "// What must hold:");
    format!("{HEAD}\n{}\n\n{TAIL}", generated.trim())
}

#[test]
fn the_header_is_generated() {
    golden("../../core/bindings/c/include/byoc.h", &generate());
}

/// The header has a name for the number of every type but texts.
#[test]
fn element_types_have_the_numbers_of_onnx() {
    let header = generate();
    for dtype in DType::all().filter(|dtype| *dtype != DType::String) {
        let line = format!("BYOC_{} = {},", dtype.name().to_uppercase(), onnx_types::to_onnx(dtype));
        assert!(header.lines().any(|found| found.trim() == line), "{line}");
    }
}

const COMPILERS: &[&[&str]] = &[
    &["cc", "-std=c99", "-pedantic"],
    &["cc", "-std=c11", "-pedantic"],
    &["c++", "-x", "c++", "-std=c++11"],
    &["c++", "-x", "c++", "-std=c++20", "-pedantic"],
];

/// A library that is compiled with ThreadSanitizer, which `tests/tsan.sh` gives.
struct Instrumented {
    /// Where it lies.
    library: PathBuf,
    /// The sanitizer of the compiler that made it; that of the C compiler may be older.
    runtime: PathBuf,
}

impl Instrumented {
    fn given() -> Option<Instrumented> {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Some(Instrumented { library: path("BYOC_TSAN_LIBRARY")?, runtime: path("BYOC_TSAN_RUNTIME")? })
    }

    /// Links a program that was compiled with it too.
    fn link(&self, object: &Path, program: &Path) {
        let mut command = Command::new("cc");
        command.arg(object).args(["-rdynamic", "-Wl,--whole-archive"]).arg(&self.runtime).arg("-Wl,--no-whole-archive");
        command.arg("-L").arg(&self.library).arg(format!("-Wl,-rpath,{}", self.library.display()));
        command.args(["-lbyoc", "-lpthread", "-ldl", "-lm", "-lrt", "-o"]).arg(program);
        outcome(&mut command).success();
    }
}

/// The compilers to build with: with an instrumented library only those that instrument the program.
fn compilers<'a>(all: &[&'a [&'a str]]) -> Vec<&'a [&'a str]> {
    let fits = |compiler: &&[&str]| Instrumented::given().is_none() || compiler.contains(&"-fsanitize=thread");
    all.iter().copied().filter(fits).collect()
}

/// Builds a program with the library. The compiler must not say anything.
fn build(compiler: &[&str], source: &Path, folder: &Path) {
    let library = places::dependencies();
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Wredundant-decls", "-Werror", "-O1", "-g", "-I"]);
    command.arg(folder_of_library().join("include")).arg("-I").arg(places::checkout().join("plugin-api/include"));
    command.arg(source);
    let (instrumented, program) = (Instrumented::given(), folder.join("program"));
    if instrumented.is_some() {
        command.args(["-c", "-o"]).arg(folder.join("program.o"));
    } else {
        command.args(["-x", "none", "-L"]).arg(&library).args(["-lbyoc", "-lpthread", "-o"]).arg(&program);
        command.arg(format!("-Wl,-rpath,{}", library.display()));
    }
    let compiled = outcome(&mut command);
    assert_eq!((compiled.code, compiled.stderr.as_str()), (Some(0), ""), "{compiler:?}");
    if let Some(instrumented) = instrumented {
        instrumented.link(&folder.join("program.o"), &program);
    }
}

fn run(folder: &Folder, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(folder.path().join("program"));
    byoc_tests::program::isolate(&mut command);
    // Memory of the library's lives as long as the process.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    let races = match Instrumented::given() {
        Some(instrumented) => {
            // Cargo names the folder of the other one there, which goes before what the program says.
            command.env("LD_LIBRARY_PATH", instrumented.library);
            format!("suppressions={}", places::checkout().join("tests/tsan.supp").display())
        }
        // The library is not compiled with it, so that its locks are not seen.
        None => "ignore_noninstrumented_modules=1".to_owned(),
    };
    command.env("TSAN_OPTIONS", races).args(arguments).current_dir(folder.path());
    outcome(&mut command)
}

#[test]
fn the_example_runs_in_c_and_cpp() {
    let folder = Folder::compiled(small());
    let found = folder.run(&["run", "model.byoc", "--fill", "ones", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
    let first = found["outputs"][0]["first"][0].as_f64().expect("a number");
    for compiler in COMPILERS {
        build(compiler, &places::checkout().join("docs/examples/run.c"), folder.path());
        let found = run(&folder, &["model.byoc"]);
        let (name, value) = found.success().trim_end().split_once(": ").expect("a line");
        assert_eq!(name, "y");
        assert!((value.parse::<f64>().expect("a number") - first).abs() < 1e-5, "{value} is not {first}");
    }
    let failed = run(&folder, &["model.onnx"]);
    let message = "[B602] 'model.onnx' is not an artifact: it is an ONNX model. Compile it first: byoc compile model.onnx -o model.byoc\n";
    assert_eq!((failed.code, failed.stderr.as_str()), (Some(1), message));
}

#[test]
fn misuse_is_a_code_and_threads_take_turns() {
    let folder = Folder::compiled(small());
    let variants = ["--variant", "first=cpu", "--variant", "second=cpu", "-o", "variants.byoc"];
    folder.byoc(&[&["compile", "model.onnx"], &variants[..]].concat()).success();
    let source = places::checkout().join("tests/tests/embed/misuse.c");
    let plain: &[&str] = &["cc", "-std=c11", "-D_GNU_SOURCE"];
    let sanitized: &[&str] = &["cc", "-std=c11", "-D_GNU_SOURCE", "-fsanitize=address,undefined"];
    // Of the library it sees nothing: what threads of the program itself do with what the library gives.
    let threads: &[&str] = &["cc", "-std=c11", "-D_GNU_SOURCE", "-fsanitize=thread"];
    for compiler in compilers(&[plain, sanitized, threads]) {
        build(compiler, &source, folder.path());
        let found = run(&folder, &["model.byoc", "model.onnx", "variants.byoc"]);
        assert!(found.success().starts_with("0 wrong"), "{compiler:?}: {found:?}");
    }
}
