//! Plugins in C and C++ that break the contract in ways that the Rust API rules out: each change to the test plugin is
//! one line of error and an exit code.

use std::path::Path;
use std::process::Command;

use byoc_tests::c_plugin;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;
use byoc_tests::places;

/// Which command meets the fault.
#[derive(Clone, Copy)]
enum Verb {
    List,
    Compile,
    Run,
}

/// A change of `tests/plugins/c/matmul.c`, what meets it, and what comes of it; `{it}` stands for the file.
struct Case {
    name: &'static str,
    cpp: bool,
    text: &'static str,
    new: &'static str,
    verb: Verb,
    code: i32,
    message: &'static str,
}

const fn case(
    name: &'static str,
    text: &'static str,
    new: &'static str,
    verb: Verb,
    code: i32,
    message: &'static str,
) -> Case {
    Case { name, cpp: false, text, new, verb, code, message }
}

const INFO: &str = "BYOC_PLUGIN_INFO(\"cmatmul\", \"1.0.0\")";
const IN_CODEGEN: &str = "    (void)backend, (void)constants, (void)options;\n    if (reason)";
const HANDLE: &str = "*executable = region;";
const REGION: &str = "backend 'cmatmul' failed on region byoc_main_cmatmul_0";

const CASES: &[Case] = &[
    case(
        "another magic",
        INFO,
        "{{'n', 'o', 't', ' ', 'o', 'u', 'r', 's'}, sizeof(byoc_info), 1, {NULL, 0}, {NULL, 0}}",
        Verb::List,
        3,
        "[B301] '{it}' cannot be loaded as a plugin: its symbol byoc_plugin_info is not what it should be",
    ),
    case(
        "a newer ABI",
        INFO,
        "{{'b', 'y', 'o', 'c', 'p', 'l', 'u', 'g'}, sizeof(byoc_info), 99, {(const uint8_t *)\"cmatmul\", 7}, {(const uint8_t *)\"9.0\", 3}}",
        Verb::List,
        3,
        "[B302] '{it}': plugin 'cmatmul' 9.0 speaks ABI 99; this byoc speaks 1\n  hint: Update byoc, or install an older cmatmul",
    ),
    case(
        "no backend",
        "count(void) BYOC_NOEXCEPT { return 1; }",
        "count(void) BYOC_NOEXCEPT { return 0; }",
        Verb::List,
        3,
        "[B305] '{it}' breaks the plugin contract: it registers no backend",
    ),
    case(
        "a description that is not JSON",
        "\"{\\\"name\\\":\\\"cmatmul\\\"",
        "\"name: cmatmul",
        Verb::List,
        3,
        "[B305] '{it}' breaks the plugin contract: describe failed: the plugin's answer is not valid: expected ident at \
         line 1 column 2",
    ),
    case(
        "patterns that are not JSON",
        "\"[{\\\"name\\\":\\\"dense\\\"",
        "\"[{\\xff",
        Verb::Compile,
        3,
        "[B305] backend 'cmatmul': the plugin's answer is not valid: key must be a string at line 1 column 3",
    ),
    case(
        "an error that is not UTF-8",
        IN_CODEGEN,
        "    (void)backend, (void)constants, (void)options;\n    return byoc_fail(error, \"bad \\xff text\\nof two lines\");\n    if (reason)",
        Verb::Compile,
        1,
        "[B306] {region}: bad \u{fffd} text of two lines",
    ),
    case(
        "an unknown status",
        IN_CODEGEN,
        "    (void)backend, (void)constants, (void)options;\n    return 42;\n    if (reason)",
        Verb::Compile,
        1,
        "[B306] {region}: the plugin answered with the unknown status 42",
    ),
    case(
        "a failure without a reason",
        IN_CODEGEN,
        "    (void)backend, (void)constants, (void)options;\n    return BYOC_FAILED;\n    if (reason)",
        Verb::Compile,
        1,
        "[B306] {region}: the plugin failed and gave no reason",
    ),
    case(
        "codegen that it says it does not have",
        IN_CODEGEN,
        "    (void)backend, (void)constants, (void)options;\n    return BYOC_UNKNOWN;\n    if (reason)",
        Verb::Compile,
        1,
        "[B306] {region}: the plugin does not have a method that every plugin has",
    ),
    case(
        "a claim that is not JSON",
        "found.bias, \"\\\"host\\\"\"",
        "found.bias, \"host\"",
        Verb::Compile,
        1,
        "[B306] {region}: a claim is not valid: expected value at line 1 column 17",
    ),
    case(
        "a claim that nobody knows",
        "found.bias, \"\\\"host\\\"\"",
        "found.bias, \"\\\"guest\\\"\"",
        Verb::Compile,
        1,
        "[B306] {region}: a claim is not valid: unknown variant `guest`, expected one of `host`, `packed`, \
         `embedded`, `unused` at line 1 column 23",
    ),
    case(
        "no handle",
        HANDLE,
        "free(region); *executable = NULL;",
        Verb::Run,
        1,
        "[B703] backend 'cmatmul' cannot load region byoc_main_cmatmul_0: the plugin loaded the region and gave no handle",
    ),
    Case {
        name: "an exception",
        cpp: true,
        text: IN_CODEGEN,
        new: "    (void)backend, (void)constants, (void)options;\n    throw 1;\n    if (reason)",
        verb: Verb::Compile,
        code: 5,
        message: "[B307] backend 'cmatmul' crashed (signal 6) while generating byoc_main_cmatmul_0; the region, with its weights, is saved in \
                  'byoc_main_cmatmul_0.repro.onnx'",
    },
];

/// Compiles the plugin with a change, without optimisation or any opinion on it.
fn build(folder: &Path, case: Option<&Case>) {
    let source = c_plugin::matmul();
    let source = match case {
        Some(case) => {
            assert!(source.contains(case.text), "{}: nothing to change", case.name);
            source.replace(case.text, case.new)
        }
        None => source,
    };
    c_plugin::build(folder, &source, case.is_some_and(|case| case.cpp));
}

#[test]
fn each_is_one_error() {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    build(folder.path(), None);
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "cmatmul,json", "--plugin", "plugin.so"];
    folder.byoc(&compile).success();
    let before = places::read(&folder.path().join("model.byoc"));
    let has_cpp = Command::new("c++").arg("--version").output().is_ok();
    let mut wrong = Vec::new();
    for case in CASES.iter().filter(|case| has_cpp || !case.cpp) {
        build(folder.path(), Some(case));
        let found = folder.byoc(match case.verb {
            Verb::List => &["plugin", "list", "--plugin", "plugin.so"],
            Verb::Compile => &compile,
            Verb::Run => &["run", "model.byoc", "--fill", "ones", "--plugin", "plugin.so"],
        });
        let message = case.message.replace("{it}", "plugin.so").replace("{region}", REGION);
        let error = found.stderr.rfind("error: ").map_or("", |at| &found.stderr[at + 7..]);
        // The hints are those of other tests.
        let exact = error.strip_prefix(&message).is_some_and(|rest| rest == "\n" || rest.starts_with("\n  hint: "));
        if found.code != Some(case.code) || !exact {
            wrong.push(format!(
                "{}:\n  expected {} {message}\n  found {:?} {}",
                case.name, case.code, found.code, found.stderr
            ));
        }
        assert_eq!(places::read(&folder.path().join("model.byoc")), before, "{}", case.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
