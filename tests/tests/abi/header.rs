//! The C header is the Rust definitions, C and C++ compilers read it without a warning, and a plugin written in C is one
//! like any other.

use std::path::Path;
use std::process::Command;

use byoc_core::artifact::Fate;
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::small;
use byoc_tests::program::outcome;
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::{engine, places};

/// What stands before the generated part.
const HEAD: &str = include_str!("header/head.h");

/// What stands after it.
const TAIL: &str = include_str!("header/tail.h");

/// Rust's names of what C sees, and C's.
const NAMES: &[(&str, &str)] = &[
    ("Slice", "byoc_slice"),
    ("Sink", "byoc_sink"),
    ("Output", "byoc_output"),
    ("DLDevice", "byoc_device"),
    ("DLDataType", "byoc_dtype"),
    ("DLTensor", "byoc_tensor"),
    ("ConstantView", "byoc_constant"),
    ("SliceList", "byoc_slices"),
    ("ConstantList", "byoc_constants"),
    ("TensorList", "byoc_tensors"),
    ("PluginInfo", "byoc_info"),
    ("PluginTable", "byoc_table"),
    ("DomainHandles", "byoc_domain_handles"),
    ("DeviceConstantView", "byoc_device_constant"),
    ("DeviceConstantList", "byoc_device_constants"),
    ("DomainTable", "byoc_domain_table"),
    ("DeviceTable", "byoc_device_table"),
    ("OutputAllocator", "byoc_output_allocator"),
    ("SizedTable", "byoc_sized_table"),
    ("TextTable", "byoc_text_table"),
    ("StringsTable", "byoc_strings_table"),
    ("StepsTable", "byoc_steps_table"),
    ("EventSink", "byoc_event_sink"),
    ("EventsTable", "byoc_events_table"),
    ("DOMAIN_VERSION", "BYOC_DOMAIN_VERSION"),
    ("DEVICE_VERSION", "BYOC_DEVICE_VERSION"),
    ("SIZED_VERSION", "BYOC_SIZED_VERSION"),
    ("STRINGS_VERSION", "BYOC_STRINGS_VERSION"),
    ("STEPS_VERSION", "BYOC_STEPS_VERSION"),
    ("DEVICE_STEPS_VERSION", "BYOC_DEVICE_STEPS_VERSION"),
    ("EVENTS_VERSION", "BYOC_EVENTS_VERSION"),
    ("ABI_VERSION", "BYOC_ABI_VERSION"),
    ("OK", "BYOC_OK"),
    ("FAILED", "BYOC_FAILED"),
    ("UNKNOWN", "BYOC_UNKNOWN"),
];

fn generate() -> String {
    let source = |name: &str| places::checkout().join("plugin-api/src").join(name);
    let mut config = cbindgen::Config {
        language: cbindgen::Language::C,
        style: cbindgen::Style::Type,
        documentation_style: cbindgen::DocumentationStyle::C99,
        usize_is_size_t: true,
        no_includes: true,
        line_length: 100,
        ..Default::default()
    };
    config.export.include = NAMES.iter().map(|(rust, _)| (*rust).to_owned()).collect();
    config.export.rename = NAMES.iter().map(|(rust, c)| ((*rust).to_owned(), (*c).to_owned())).collect();
    let rust_only = ["MAGIC", "OLDEST_ABI_VERSION", "CPU", "PluginModule"];
    let ids = ["DOMAIN_ID", "DEVICE_ID", "SIZED_ID", "STRINGS_ID", "STEPS_ID", "EVENTS_ID"];
    config.export.exclude = rust_only.into_iter().chain(ids).map(str::to_owned).collect();
    let files = [
        "abi.rs",
        "dlpack.rs",
        "table.rs",
        "domain_tables.rs",
        "sized_table.rs",
        "strings_table.rs",
        "steps_table.rs",
        "events_table.rs",
    ];
    let builder = files
        .into_iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, name| builder.with_src(source(name)));
    let mut generated = Vec::new();
    builder.generate().expect("the definitions are C's").write(&mut generated);
    let mut generated = String::from_utf8(generated).expect("text");
    for (rust, c) in NAMES {
        generated = generated.replace(&format!("[`{rust}`]"), &format!("`{c}`"));
    }
    format!("{HEAD}\n{}\n\n{TAIL}", generated.trim())
}

#[test]
fn the_header_is_generated() {
    golden("../../plugin-api/include/byoc_plugin.h", &generate());
}

/// The compilers that ship with the system's C compiler, which Rust needs to link: C99, C11 and, where it is there, C++.
const COMPILERS: &[(&str, &[&str])] = &[
    ("cc", &["-std=c99", "-pedantic"]),
    ("cc", &["-std=c11", "-pedantic"]),
    ("c++", &["-x", "c++", "-std=c++11"]),
    ("c++", &["-x", "c++", "-std=c++20", "-pedantic"]),
];

/// Compiles a C file of the tests.
fn compile(compiler: &str, arguments: &[&str], source: &Path, output: &Path) {
    let include = places::checkout().join("plugin-api/include");
    let mut command = Command::new(compiler);
    command.args(arguments).args(["-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-I"]);
    command.arg(include).arg(source).arg("-o").arg(output);
    let compiled = outcome(&mut command);
    assert_eq!((compiled.code, compiled.stderr.as_str()), (Some(0), ""), "{compiler} {arguments:?}");
}

#[test]
fn c_and_cpp_compilers_take_it_without_a_warning() {
    let folder = places::temporary();
    let sources = [
        "tests/plugins/c/matmul.c",
        "tests/plugins/c/swirl.c",
        "tests/plugins/c/strings.c",
        "tests/plugins/c/device.c",
        "backends/template/c/template.c",
        "backends/template/c/test.c",
    ];
    let present = |compiler: &str| Command::new(compiler).arg("--version").output().is_ok();
    assert!(present("cc"), "Rust links with it");
    for (compiler, arguments) in COMPILERS.iter().filter(|(compiler, _)| present(compiler)) {
        for source in sources {
            compile(compiler, arguments, &places::checkout().join(source), &folder.path().join("plugin.so"));
        }
    }
}

/// The readers and writers of JSON, numbers and sizes that a vendor copies, against a program of checks; under the sanitizers of
/// the compiler as well.
#[test]
fn what_c_reads_and_writes_is_right() {
    let folder = places::temporary();
    let (source, program) = (places::checkout().join("tests/plugins/c/json_check.c"), folder.path().join("check"));
    let sanitized = ["-std=c99", "-pedantic", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let present = |compiler: &str| Command::new(compiler).arg("--version").output().is_ok();
    for (compiler, arguments) in COMPILERS.iter().copied().chain([("cc", &sanitized[..])]) {
        if !present(compiler) {
            continue;
        }
        let mut command = Command::new(compiler);
        command.args(arguments).args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]);
        command.arg(places::checkout().join("plugin-api/include")).arg(&source).arg("-o").arg(&program);
        let compiled = outcome(&mut command);
        assert_eq!((compiled.code, compiled.stderr.as_str()), (Some(0), ""), "{compiler} {arguments:?}");
        let ran = outcome(&mut Command::new(&program));
        assert!(ran.code == Some(0) && ran.stdout.starts_with("all tests pass"), "{compiler} {arguments:?}: {ran:?}");
    }
}

/// Sizes and offsets on this side, for the C compiler to compare with its own.
#[test]
fn both_sides_lay_out_the_same() {
    let word = size_of::<usize>();
    let sizes = [
        ("byoc_slice", 2 * word),
        ("byoc_sink", 2 * word),
        ("byoc_output", 4 * word),
        ("byoc_slices", 2 * word),
        ("byoc_tensor", size_of::<byoc_plugin_api::dlpack::DLTensor>()),
        ("byoc_constant", 8 + 2 * word + size_of::<byoc_plugin_api::dlpack::DLTensor>()),
        ("byoc_info", 16 + 4 * word),
        ("byoc_table", 7 * word),
        ("byoc_domain_handles", 8 + 2 * word),
        ("byoc_device_constant", 16 + 2 * word + size_of::<byoc_plugin_api::dlpack::DLTensor>()),
        ("byoc_domain_table", 17 * word),
        ("byoc_device_table", 6 * word),
        ("byoc_output_allocator", 2 * word),
        ("byoc_sized_table", 2 * word),
        ("byoc_text_table", 3 * word),
        ("byoc_strings_table", 2 * word),
        ("byoc_steps_table", 3 * word),
        ("byoc_event_sink", 2 * word),
        ("byoc_events_table", 2 * word),
    ];
    let checks: String =
        sizes.iter().map(|(name, size)| format!("_Static_assert(sizeof({name}) == {size}, \"{name}\");\n")).collect();
    let folder = places::temporary();
    let source = places::write(folder.path(), "sizes.c", format!("#include \"byoc_plugin.h\"\n{checks}"));
    compile("cc", &["-std=c11"], &source, &folder.path().join("sizes.so"));
}

/// A plugin in C compiles a model, packs its weights, and gives the results of the host backend.
#[test]
fn a_plugin_in_c_is_a_plugin() {
    let folder = places::temporary();
    let plugin = folder.path().join("libbyoc_cmatmul.so");
    compile("cc", &["-std=c99"], &places::checkout().join("tests/plugins/c/matmul.c"), &plugin);
    let registry = engine::from_files(vec![plugin, places::plugin("json")]);
    let (model, artifact) =
        (places::write(folder.path(), "model.onnx", small().finish()), folder.path().join("m.byoc"));
    let input = [("x".to_owned(), Tensor::f32(&[2, 3], &[1.0, -2.0, 3.0, 0.5, 0.25, -1.0]))];
    let mut results = Vec::new();
    for backends in [&["cmatmul", "json"][..], &["json"]] {
        let report = engine::compile(&model, &artifact, &registry, backends).expect("compiles");
        let packed = report.ledger.rows.iter().filter(|row| row.fate == Fate::Packed).count();
        assert_eq!(packed, usize::from(backends.len() == 2), "{:?}", report.ledger);
        let mut session = engine::load(&artifact, &registry, 1).expect("loads");
        results.push(engine::run(&mut session, &input).expect("runs"));
    }
    let [(_, c)] = results[0].as_slice() else { panic!("one output") };
    compare(c, &results[1][0].1, Tolerance { relative: 1e-6, absolute: 1e-6 }).expect("the same");
}

/// What C makes easy to get wrong is refused in a line.
#[test]
fn broken_tables_are_refused() {
    let source = String::from_utf8(places::read(&places::checkout().join("tests/plugins/c/matmul.c"))).expect("text");
    let cases = [
        ("sizeof(byoc_table), count", "sizeof(byoc_table), 0", "the function 'count' of its byoc_plugin_table is null"),
        ("sizeof(byoc_table), count", "16, count", "its byoc_plugin_table has 16 bytes, and 56 are needed"),
    ];
    let folder = Folder::empty();
    for (text, new, cause) in cases {
        assert!(source.contains(text));
        let path = folder.write("broken.c", source.replace(text, new));
        compile("cc", &["-std=c99", "-Wno-unused-function"], &path, &folder.path().join("broken.so"));
        let message = format!("error: [B301] 'broken.so' cannot be loaded as a plugin: {cause}");
        let outcome = folder.byoc(&["plugin", "list", "--plugin", "broken.so"]);
        assert_eq!((outcome.code, outcome.stderr.lines().next()), (Some(3), Some(message.as_str())));
    }
}
