//! The invariants of `docs/architecture.md` that can be read off the sources.

mod imports;
mod subjects;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use byoc_core::ops::{self, OpDef, REWRITTEN};
use byoc_tests::places;
use byoc_tests::sources::{EVERYWHERE, Source, sources, texts};

/// Most code lines in a file.
const MOST_LINES: usize = 400;

/// Files that may be longer, with the reason.
const LONG_FILES: &[(&str, &str)] = &[("core/src/onnx/proto.rs", "generated from onnx.proto")];

/// Files and folders in which `unsafe` may stand, with the reason. `docs/architecture.md` tells more.
const UNSAFE: &[(&str, &str)] = &[
    ("plugin-api/src/abi.rs", "the wire: borrowed slices"),
    ("plugin-api/src/events.rs", "the host's place for events, from any thread"),
    ("plugin-api/src/domain.rs", "copies between memories, by address"),
    ("plugin-api/src/domain_tables.rs", "opaque handles of a device"),
    ("plugin-api/src/export.rs", "the wire: the plugin's side"),
    ("plugin-api/src/export", "the wire: the plugin's side of domains"),
    ("plugin-api/src/host", "the wire: opening libraries, opaque handles"),
    ("plugin-api/src/tensor.rs", "views of memory that the other side owns"),
    ("plugin-api/src/testing/allocation.rs", "an allocator that counts"),
    ("core/src/compute.rs", "views of operands and results for backends"),
    ("core/src/codegen/constant_views.rs", "views of constants for backends"),
    ("core/src/map/cut.rs", "the signal that a file was cut short"),
    ("core/src/map.rs", "mapping files"),
    ("core/src/memory.rs", "zeroed memory that may not be there"),
    ("core/tools/src/ceilings.rs", "vector instructions, to measure what the processor can do"),
    ("core/src/map/shared.rs", "memory that host and worker map"),
    ("core/src/plugin/bound.rs", "what is loaded borrows from memory beside it"),
    ("core/src/plugin/worker/regions.rs", "views of tensors in memory that the host maps too"),
    ("core/src/plugin/worker/shared.rs", "views of files that host and worker map"),
    ("core/src/crash.rs", "signals"),
    ("core/src/signals.rs", "handlers of signals"),
    ("core/src/runtime/bind.rs", "views of the mapped file for backends"),
    ("core/src/runtime/device.rs", "memory of a device, given back"),
    ("core/src/runtime/resident.rs", "copies of constants from the mapped file to a device"),
    ("core/src/runtime/session.rs", "views of outputs in the arena"),
    ("core/src/runtime/session", "views of the arena for backends, copies to and from devices"),
    ("core/bindings/c/src", "what C gives: texts, arrays, places of results"),
    ("core/bindings/python/src/array.rs", "arrays of NumPy"),
    ("core/bindings/python/src/dlpack.rs", "tensors of DLPack, which others own"),
    ("core/bindings/python/src/out.rs", "arrays of NumPy that are written to"),
    ("core/bindings/python/src/session.rs", "runs on arrays that are on a device"),
    ("backends/cublas/src/runtime", "calls of cublasLt"),
    ("backends/cublas/tests/standins", "device memory of the stand-ins"),
    ("backends/nvidia/src/compile/nvrtc.rs", "calls of CUDA's compiler"),
    ("backends/nvidia/src/device.rs", "calls of CUDA's driver"),
    ("backends/nvidia/src/domain", "calls of CUDA's driver"),
    ("backends/nvidia/src/attached_domain.rs", "a borrowed stream, which may go to another thread"),
    ("backends/nvidia/src/launch", "calls of CUDA's driver"),
    ("backends/nvidia/src/locate", "opening CUDA's libraries, asking them for their versions"),
    ("backends/nvidia/src/device_buffer.rs", "calls of CUDA's driver"),
    ("backends/nvidia/src/marks.rs", "calls of CUDA's driver"),
    ("backends/nvidia/src/step_clock.rs", "a borrowed stream, and marks that may go to another thread"),
    ("backends/nvidia/src/primary_context.rs", "calls of CUDA's driver"),
    ("backends/nvidia/standins/src/cpu.rs", "calls of kernels that run on the host"),
    ("backends/nvidia/tests/standins", "calls of the stand-ins for CUDA's libraries"),
    ("backends/json/src/kernels", "vector instructions, disjoint parts of one buffer for several threads"),
    ("backends/json/src/runtime/buffer.rs", "memory that regions allocate"),
    ("backends/json/src/runtime/memory.rs", "views of the region's own arena"),
    ("backends/kendryte/src/simulator/isa", "vector instructions"),
    ("tests/bench/src/gemm.rs", "calls of the crate gemm"),
    ("tests/conformance/src/device.rs", "copies to and from a device"),
    ("tests/conformance/src/memory.rs", "views of watched memory, in every layout"),
    ("tests/conformance/src/tensor.rs", "views of test data"),
    ("tests/conformance/src/usage.rs", "what the allocator counts"),
    ("tests/gpu/src/direct.rs", "calls of cublasLt"),
    ("tests/gpu/src/gpu.rs", "filling memory of a device"),
    ("tests/gpu/src/kernel.rs", "buffers of a kernel that is run without core"),
    ("tests/gpu/src/watch.rs", "a domain, and filling its memory"),
    ("tests/plugins/hostile/src/lib.rs", "a plugin that crashes"),
    ("tests/plugins/simdev/src", "a device that copies from and to the host"),
    ("tests/tests/devices/domains_in_c.rs", "calls of domains"),
    ("tests/tests/devices/graphs.rs", "runs on arrays that are on a device"),
    ("tests/tests/devices/on_device.rs", "runs on arrays that are on a device"),
    ("tests/tests/devices/simdev", "calls of domains"),
    ("tests/tests/runtime/interleavings.rs", "cells of a model checker"),
    ("tests/tests/runtime/variants.rs", "pages that cannot be read"),
];

/// The modules of core from top to bottom: each may use those in lines below its own.
const LAYERS: &[&[&str]] = &[
    &["compile", "swap", "tune"],
    &["merge"],
    &["ownership", "fold", "calibrate"],
    &["compute"],
    &["codegen"],
    &["partition"],
    &["passes", "onnx"],
    &["runtime"],
    &["plugin", "artifact", "spool"],
    &["ops"],
    &["ir"],
    &["constants", "dim"],
    &["atomic_file", "overwrite", "file_kind"],
    &["events"],
    &["map", "buffer", "cpu", "crash", "onnx_types"],
    &["memory", "signals"],
    &["diagnostic"],
];

/// All that core may depend on: nothing that computes with tensors.
const CORE_DEPENDENCIES: &[&str] = &[
    "blake3",
    "byoc-dim",
    "byoc-plugin-api",
    "bytes",
    "data-encoding",
    "flate2",
    "half",
    "indexmap",
    "libc",
    "memmap2",
    "prost",
    "rustix",
    "serde",
    "serde_json",
    "strsim",
    "tempfile",
    "wildmatch",
];

/// Fails with one line for each offence.
#[track_caller]
fn none(offences: &[String]) {
    assert!(offences.is_empty(), "{} offences:\n{}", offences.len(), offences.join("\n"));
}

/// Folders beside the backends that are none: code that several of them share, each with the reason.
const SHARED: &[(&str, &str)] = &[("nvidia", "finding CUDA and calling it, for every backend that runs on a GPU")];

/// Terms of the field that hold a backend's name and do not mean the backend.
const TERMS: &[&str] = &["cuda:0", "cuda-graph"];

/// The names of the backends: those of their folders.
fn backends() -> Vec<String> {
    let folder = places::checkout().join("backends");
    let is_package = |name: &String| folder.join(name).join("Cargo.toml").is_file();
    let is_shared = |name: &String| SHARED.iter().any(|(shared, _)| shared == name);
    let names: Vec<_> = places::list(&folder).into_iter().filter(|name| is_package(name) && !is_shared(name)).collect();
    assert!(names.len() >= 2, "{names:?}");
    names
}

/// Files that go by the names of operators, each with the words in it that are none.
const BY_OPERATOR: &[(&str, &[&str])] = &[
    ("backends/json/src/codegen/lower.rs", &[]),
    ("backends/json/src/codegen/lower/movement.rs", &[]),
    ("backends/json/src/codegen/lower/sampling.rs", &[]),
    ("core/src/onnx/canonical.rs", &["Export"]),
    ("core/src/onnx/early_types.rs", &["Reduce"]),
    ("core/src/partition/matcher.rs", &[]),
    ("tests/conformance/src/recipes.rs", &["RIGHT"]),
    ("tests/tests/onnx/differential/operators/mod.rs", &[]),
];

/// Code for an operator that core does not know is code that no model reaches.
#[test]
fn operators_are_those_of_the_list() {
    let known = |word: &str| ops::all().chain(REWRITTEN).any(|def| def.name == word);
    let mut offences = Vec::new();
    for (path, others) in BY_OPERATOR {
        let source = sources(&[path.rsplit_once('/').expect("a folder").0]).into_iter().find(|one| one.path == *path);
        let source = source.unwrap_or_else(|| panic!("there is no {path}"));
        for (number, line) in source.code() {
            let names = texts(line).filter(|text| text.starts_with(|first: char| first.is_ascii_uppercase()));
            let words = names.map(|text| text.split(' ').next().unwrap_or_default());
            let unknown = words.filter(|word| !known(word) && !others.contains(word));
            offences.extend(unknown.map(|word| format!("{path}:{number}: {word} is not an operator of core")));
        }
    }
    none(&offences);
    let kernels = byoc_json_backend::reference::kernels().map(|kernel| kernel.op);
    // Those of domains that core does not know are brought by the backend itself.
    let of_core = |op: &&str| ops::domain(op.rsplit_once('.').map_or("", |(domain, _)| domain)).is_some();
    let kernels: BTreeSet<_> = kernels.filter(of_core).map(str::to_owned).collect();
    // By the time a backend sees it, CastLike is a Cast.
    let known = ops::all().filter(|def| def.name != "CastLike").map(OpDef::qualified);
    assert_eq!(kernels, known.collect(), "reference kernels, and operators of core");
}

/// Backends are known to core and cli by what they say of themselves. A backend's crate must not be named there, nor
/// its name stand as a word in a text or in a documentation comment (which clap prints); `--json` is the flag, `{json}` a
/// variable and `cuda:0` a device.
#[test]
fn core_and_cli_name_no_backend() {
    let backends = backends();
    let mut offences = Vec::new();
    for source in sources(&["core/src", "core/tools/src", "cli/src"]) {
        if source.path.starts_with("cli/src/embed") || source.is_test() {
            continue;
        }
        let code = source.code();
        let comments = source.text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("///"));
        let comments = comments.map(|(number, line)| (number + 1, line));
        for name in &backends {
            let found = |text: &str| names_word(text, name);
            let crate_name = format!("byoc_{name}");
            let lines = code.iter().copied().filter(|(_, line)| texts(line).any(found) || line.contains(&crate_name));
            let offending = lines.chain(comments.clone().filter(|(_, line)| found(line)));
            offences
                .extend(offending.map(|(number, line)| format!("{}:{number}: {name}: {}", source.path, line.trim())));
        }
    }
    none(&offences);
}

/// Whether `word` stands in `text` by itself, in none of the [`TERMS`] and neither as a flag nor as a variable.
fn names_word(text: &str, word: &str) -> bool {
    let text = TERMS.iter().fold(text.to_owned(), |text, term| text.replace(term, ""));
    let part = |char: char| char.is_alphanumeric() || char == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(|char| part(char) || matches!(char, '-' | '{' | '.'))
            && !after.starts_with(|char| part(char) || char == '}')
    })
}

#[test]
fn words_are_told_from_parts_of_words() {
    let cases = [
        ("such as json at the end", true),
        ("json", true),
        ("json.kernels", true),
        ("--json is a flag", false),
        ("{json}", false),
        ("report.json", false),
        ("as JSON", false),
        ("to_json", false),
    ];
    for (text, expected) in cases {
        assert_eq!(names_word(text, "json"), expected, "{text}");
    }
    for (text, expected) in [("on cuda:0", false), ("by cuda", true), ("cuda: no such kernel", true)] {
        assert_eq!(names_word(text, "cuda"), expected, "{text}");
    }
}

/// Each package of ours with the packages of ours that it links.
fn links() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(places::checkout())
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    let normal = |package: &serde_json::Value| -> BTreeSet<String> {
        let all = package["dependencies"].as_array().into_iter().flatten();
        all.filter(|dependency| dependency["kind"].is_null()).map(|dependency| text(&dependency["name"])).collect()
    };
    packages.iter().map(|package| (text(&package["name"]), normal(package))).collect()
}

#[test]
fn core_has_no_kernels() {
    let links = links();
    let allowed: BTreeSet<_> = CORE_DEPENDENCIES.iter().map(|name| (*name).to_owned()).collect();
    let unknown: Vec<_> =
        links["byoc-core"].difference(&allowed).map(|name| format!("core depends on {name}")).collect();
    none(&unknown);
}

#[test]
fn abi_stable_only_in_plugin_api() {
    let links = links();
    let naming: Vec<_> = links.iter().filter(|(_, deps)| deps.contains("abi_stable")).map(|(name, _)| name).collect();
    assert_eq!(naming, ["byoc-plugin-api"]);
    let serialisable = sources(&["core/src"]).into_iter().filter(|source| source.path.starts_with("core/src/ir"));
    let offences = serialisable.filter(|source| source.text.contains("serde")).map(|source| source.path);
    none(&offences.collect::<Vec<_>>());
}

/// Crates depend in one direction: the command line on core, core and the backends on the plugin API, the API on the sizes
/// of tensors alone.
#[test]
fn packages_depend_in_one_direction() {
    let mut offences = Vec::new();
    for (package, dependencies) in links() {
        let allowed: &[&str] = match package.as_str() {
            "byoc-dim" | "byoc-plugin-api" => &[],
            // The kit is part of the program, so that a vendor needs no sources; it knows core and no backend.
            "byoc-cli" => {
                &["byoc-conformance", "byoc-core", "byoc-json", "byoc-kendryte", "byoc-plugin-api", "byoc-tools"]
            }
            "byoc" => &["byoc-core", "byoc-json", "byoc-kendryte", "byoc-plugin-api", "byoc-tools"],
            "byoc-bench" => &["byoc-core", "byoc-json", "byoc-plugin-api"],
            "byoc-fuzz-engine" => &["byoc-fuzz"],
            "byoc-c" => &["byoc", "byoc-core", "byoc-plugin-api"],
            "byoc-python" => &["byoc", "byoc-core", "byoc-plugin-api", "byoc-tools"],
            "byoc-conformance" | "byoc-tools" => &["byoc-core", "byoc-plugin-api"],
            "byoc-cublas" | "byoc-cuda" | "byoc-cutlass" => &["byoc-nvidia", "byoc-plugin-api"],
            "byoc-fuzz" | "byoc-tests" => {
                &["byoc-conformance", "byoc-core", "byoc-json", "byoc-kendryte", "byoc-plugin-api", "byoc-tools"]
            }
            "byoc-gpu-suite" => &["byoc-conformance", "byoc-core", "byoc-nvidia", "byoc-json", "byoc-plugin-api"],
            "byoc-json" => &["byoc-json-reference", "byoc-plugin-api"],
            "byoc-json-plugin" => &["byoc-json", "byoc-plugin-api"],
            "byoc-kendryte-plugin" => &["byoc-kendryte", "byoc-plugin-api"],
            _ => &["byoc-plugin-api"],
        };
        // Sizes of tensors belong to both sides of the contract.
        let ours = dependencies.iter().filter(|name| name.starts_with("byoc") && *name != "byoc-dim");
        offences.extend(
            ours.filter(|name| !allowed.contains(&name.as_str())).map(|name| format!("{package} links {name}")),
        );
    }
    none(&offences);
}

/// Modules of core use only what lies below them, and the two towers never meet.
#[test]
fn layers() {
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let runtime = layer("runtime");
    let mut offences = Vec::new();
    for source in sources(&["core/src"]) {
        let Some(module) = module_of(&source).filter(|module| *module != "lib") else { continue };
        let Some(own) = layer(module) else {
            offences.push(format!("{}: module {module} has no place in LAYERS", source.path));
            continue;
        };
        for (number, line) in source.code() {
            for used in line.split("crate::").skip(1).map(identifier).filter(|used| *used != module) {
                let below = layer(used).is_some_and(|used| own < used && Some(used) != runtime);
                if layer(used).is_some() && !below {
                    offences.push(format!("{}:{number}: {module} uses {used}", source.path));
                }
            }
        }
    }
    none(&offences);
}

/// The top module that a file of core belongs to.
fn module_of(source: &Source) -> Option<&str> {
    source.path.strip_prefix("core/src/").map(identifier)
}

/// The identifier at the start of the text.
fn identifier(text: &str) -> &str {
    text.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or_default()
}

/// Most files that may import one another in a ring.
const LARGEST_RING: usize = 3;

/// Files that import one another can only be read together.
#[test]
fn rings_of_imports_are_small() {
    let all = sources(EVERYWHERE);
    let roots: BTreeSet<&str> = all
        .iter()
        .filter_map(|source| Some(source.path.split_at(source.path.find("/src/")? + "/src/".len()).0))
        .collect();
    let rings = roots.into_iter().flat_map(|root| imports::rings(&all, root));
    none(&rings.filter(|ring| ring.len() > LARGEST_RING).map(|ring| ring.join(" ")).collect::<Vec<_>>());
}

#[test]
fn rings_are_found() {
    let source = |path: &str, text: &str| Source { path: format!("x/src/{path}.rs"), text: text.to_owned() };
    let files = [
        source("lib", "mod a; pub use self::a::A;"),
        source("a", "mod part;\nuse crate::b::{self, more::B};\nfn f() { part::g() }"),
        source("a/part", "use super::A;\n#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}"),
        source("b", "pub(crate) fn g() -> usize { super::c::h() }"),
        source("c", "use crate::d;\nfn h() { crate::a::part::g() }"),
        source("d", "use std::collections::BTreeMap;"),
    ];
    let ring = ["x/src/a.rs", "x/src/a/part.rs", "x/src/b.rs", "x/src/c.rs"];
    // A part needs the file that it is a part of, and that file the ring.
    assert_eq!(imports::rings(&files, "x/src/"), [ring]);
}

#[test]
fn unsafe_files() {
    let mut unused: BTreeSet<&str> = UNSAFE.iter().map(|(path, _)| *path).collect();
    let mut offences = Vec::new();
    for source in sources(EVERYWHERE) {
        let is_unsafe =
            |line: &str| line.split(|char: char| !char.is_alphanumeric() && char != '_').any(|word| word == "unsafe");
        if source.path == "tests/tests/tidy/main.rs" || !source.code().iter().any(|(_, line)| is_unsafe(line)) {
            continue;
        }
        match UNSAFE.iter().find(|(path, _)| source.path.starts_with(path)) {
            Some((path, _)) => drop(unused.remove(path)),
            None => offences.push(source.path),
        }
    }
    offences.extend(unused.iter().map(|path| format!("{path} has no unsafe code any more")));
    none(&offences);
}

#[test]
fn file_size() {
    let mut offences = Vec::new();
    for source in sources(EVERYWHERE) {
        let lines = source.code().len();
        let listed = LONG_FILES.iter().any(|(path, _)| *path == source.path);
        if (lines > MOST_LINES) != listed {
            offences.push(format!(
                "{}: {lines} code lines, {}",
                source.path,
                if listed { "listed as long" } else { "too many" }
            ));
        }
    }
    none(&offences);
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources(EVERYWHERE).into_iter().filter(|source| !source.text.starts_with("//! "));
    none(&silent.map(|source| source.path).collect::<Vec<_>>());
}

/// Whoever knows one backend finds the way in every other.
#[test]
fn backends_have_the_same_files() {
    let mut offences = Vec::new();
    for name in backends() {
        let folder = places::checkout().join("backends").join(&name).join("src");
        let files = ["lib.rs", "patterns.rs", "codegen.rs", "constants.rs", "runtime.rs"];
        let missing = files.into_iter().filter(|file| !folder.join(file).is_file());
        offences.extend(missing.map(|file| format!("backends/{name}/src/{file} is missing")));
    }
    none(&offences);
}

/// The field's terms are the same in code, comments, messages and pages.
#[test]
fn words() {
    none(&words::offences());
}
