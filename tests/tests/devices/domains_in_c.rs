//! Memory domains in C, and what a host makes of one that breaks the contract: each case is a change to the plugin in C and
//! one exact error.

use std::path::Path;

use byoc_plugin_api::host::LoadedBackend;
use byoc_plugin_api::{
    Backend, BoundConstant, ConstantId, DType, DeviceConstant, DeviceConstants, DevicePlan, DeviceTensor, Environment,
    Error, Options, TensorView,
};
use byoc_tests::engine;
use byoc_tests::fixture::{Change, c_device_plugin};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::tensor::{Tensor, Tolerance, compare};

/// The code of a region with constant 7.
static CODE: [u8; 8] = 7i64.to_ne_bytes();

fn backend(plugin: &Path) -> LoadedBackend {
    byoc_plugin_api::host::open(plugin).expect("it opens").backends.remove(0)
}

fn options(backend: &LoadedBackend) -> Options {
    Options::resolve(&backend.describe().run_options, []).expect("defaults")
}

/// Opens the domain and runs a region that multiplies by 2.5, on memory that the domain gives.
fn run_region(backend: &LoadedBackend) -> Result<Vec<f32>, Error> {
    let device = backend.runtime().device()?;
    let mut domain = device.open_domain(0, &options(backend))?;
    let (x, y, by) = (domain.allocate(8)?, domain.allocate(8)?, domain.allocate(4)?);
    let (values, factor, mut result) = ([1.0f32, -2.0], [2.5f32], [0f32; 2]);
    let host = domain.allocate_host(8)?;
    // SAFETY: everything is as long as it says, and lives until the domain has been waited for.
    unsafe {
        host.copy_from(values.as_ptr().cast(), 8);
        domain.upload(x, host, 8)?;
        domain.upload(by, factor.as_ptr().cast(), 4)?;
    }
    let view = TensorView::from_slice(&factor, &[1], &[1])?;
    let bound = BoundConstant { id: ConstantId(7), layout: None, view };
    let constants = DeviceConstants::new(vec![DeviceConstant { bound, address: by }]);
    let environment = Environment { threads: 1, options: options(backend) };
    let mut region = device.load(&CODE, &constants, &environment, &domain.handles())?;
    let tensor = |address| DeviceTensor { address, dtype: DType::F32, shape: &[2] };
    let plan = region.plan(&[tensor(0)], &[tensor(0)])?;
    assert_eq!(plan, DevicePlan { scratch: 0, records: false, recordings_last: false });
    region.prepare(&[tensor(x)], &[tensor(y)], 0)?;
    domain.mark(0)?;
    region.run()?;
    domain.mark(1)?;
    // SAFETY: as above.
    unsafe {
        domain.copy(x, y, 8)?;
        domain.download(result.as_mut_ptr().cast(), x, 8)?;
    }
    domain.synchronize()?;
    assert!(domain.elapsed(0, 1)? >= 0.0);
    drop(region);
    // SAFETY: it came from this domain, and nobody uses it.
    unsafe {
        domain.release(y);
        domain.release_host(host);
    }
    Ok(result.to_vec())
}

#[test]
fn a_domain_in_c_is_a_domain() {
    let folder = places::temporary();
    let backend = backend(&c_device_plugin(folder.path(), "cdevice", &[]));
    assert_eq!(run_region(&backend), Ok(vec![2.5, -5.0]));
    let device = backend.runtime().device().expect("a device");
    let mut domain = device.open_domain(0, &options(&backend)).expect("opens");
    let info = domain.info();
    assert_eq!((info.title.as_str(), info.memory, info.records, info.libraries), ("the heap", 1 << 20, false, vec![]));
    assert_eq!(domain.handles().device.device_type, 12);
    assert_eq!(domain.begin_recording(), Err(Error::new("the heap records nothing")));
    assert_eq!(device.open_domain(1, &options(&backend)).err(), Some(Error::new("there is one heap")));
}

/// The whole way: a model with a region on the device in C gives the results of the host backend.
#[test]
fn a_model_runs_on_a_device_in_c() {
    let folder = places::temporary();
    let registry = engine::from_files(vec![c_device_plugin(folder.path(), "cdevice", &[]), places::plugin("json")]);
    let model = Model::default()
        .input("x", Type::Float, &[2, 3])
        .weight("by", &[1], &[3.0])
        .node("Relu", &["x"], &["positive"])
        .node("Mul", &["positive", "by"], &["scaled"])
        .node("Add", &["scaled", "x"], &["y"])
        .output("y", Type::Float, &[2, 3]);
    let (model, path) = (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("m.byoc"));
    let input = [("x".to_owned(), Tensor::f32(&[2, 3], &[1.0, -2.0, 3.0, 0.5, 0.25, -1.0]))];
    let results = [&["cdevice", "json"][..], &["json"]].map(|backends| {
        engine::compile(&model, &path, &registry, backends).expect("compiles");
        let mut session = engine::load(&path, &registry, 1).expect("loads");
        engine::run(&mut session, &input).expect("runs")
    });
    compare(&results[0][0].1, &results[1][0].1, Tolerance::EXACT).expect("the same");
}

const FAILED: &str = "(void)domain, (void)error;\n    return BYOC_OK;\n}\n\nstatic int32_t mark(";

/// A change of the plugin, and what comes of [`whole`].
const BROKEN: &[(&str, &str, &str)] = &[
    ("*domain = opened;", "free(opened);", "the plugin opened the domain and gave no handle"),
    (
        "\\\"memory\\\":1048576}",
        "\\\"memory\\\":}",
        "the plugin's answer is not valid: expected value at line 1 column 30",
    ),
    (
        "\\\"memory\\\":1048576}",
        "\\\"space\\\":1}",
        "the plugin's answer is not valid: missing field `memory` at line 1 column 30",
    ),
    ("*address = (uint64_t)(uintptr_t)taken;", "*address = 0;", "the plugin allocated memory at address 0"),
    (
        "*address = take((heap *)domain, bytes);\n    return *address ? BYOC_OK",
        "*address = NULL;\n    return !*address ? BYOC_OK",
        "the plugin allocated host memory at address 0",
    ),
    (
        "*address = (uint64_t)(uintptr_t)taken;",
        "(void)taken; *address = 0x1080;",
        "the plugin allocated memory at 0x1080, which is not a multiple of 256",
    ),
    (
        "*address = take((heap *)domain, bytes);",
        "*address = (void *)(uintptr_t)(0x1020 + 0 * bytes);",
        "the plugin allocated host memory at 0x1020, which is not a multiple of 64",
    ),
    // A table that is not whole is as good as none.
    ("end_recording, replay, forget,", "end_recording, NULL, forget,", "this backend opens no memory domain"),
    ("sizeof(byoc_domain_table), ", "sizeof(byoc_domain_table) - 8, ", "this backend opens no memory domain"),
    ("sizeof(byoc_domain_table), ", "0, ", "this backend opens no memory domain"),
    ("version == BYOC_DOMAIN_VERSION", "version == 2", "this backend opens no memory domain"),
    (
        "load_on, plan, prepare, run_on, free_loaded,",
        "load_on, NULL, prepare, run_on, free_loaded,",
        "this backend runs in host memory only",
    ),
    ("sizeof(byoc_device_table), ", "sizeof(byoc_device_table) - 1, ", "this backend runs in host memory only"),
    ("*executable = region;", "free(region);", "the plugin loaded the region and gave no handle"),
    (
        "{\\\"scratch\\\":0,\\\"records\\\":false}",
        "{\\\"scratch\\\":-1}",
        "the plugin's answer is not valid: invalid value: integer `-1`, expected u64 at line 1 column 13",
    ),
    (
        "{\\\"scratch\\\":0,\\\"records\\\":false}",
        "",
        "the plugin's answer is not valid: EOF while parsing a value at line 1 column 0",
    ),
    (
        FAILED,
        "(void)domain, (void)error;\n    return 42;\n}\n\nstatic int32_t mark(",
        "the plugin answered with the unknown status 42",
    ),
    (
        FAILED,
        "(void)domain, (void)error;\n    return BYOC_FAILED;\n}\n\nstatic int32_t mark(",
        "the plugin failed and gave no reason",
    ),
    (
        FAILED,
        "(void)domain;\n    return byoc_fail(error, \"lost\\nfor good\");\n}\n\nstatic int32_t mark(",
        "lost for good",
    ),
];

#[test]
fn each_is_one_error() {
    let folder = places::temporary();
    let mut wrong = Vec::new();
    for (index, (text, new, expected)) in BROKEN.iter().enumerate() {
        let change: Change<'_> = ("plugin.c", text, new);
        let found = run_region(&backend(&c_device_plugin(folder.path(), &format!("broken{index}"), &[change])));
        if found.as_ref().err().map(|error| error.message.as_str()) != Some(expected) {
            wrong.push(format!("{new}:\n  expected {expected}\n  found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is left out of an answer has the value that its absence always meant, and texts are made one line.
#[test]
fn answers_are_read_with_patience() {
    let folder = places::temporary();
    let changes: [Change<'_>; 2] = [
        (
            "plugin.c",
            "{\\\"scratch\\\":0,\\\"records\\\":false}",
            "{\\\"records\\\":false,\\\"of_a_later_version\\\":[]}",
        ),
        ("plugin.c", "\\\"memory\\\":1048576}", "\\\"memory\\\":1,\\\"libraries\\\":[\\\"a\\\\nb\\\"],\\\"more\\\":1}"),
    ];
    let backend = backend(&c_device_plugin(folder.path(), "patient", &changes));
    assert_eq!(run_region(&backend), Ok(vec![2.5, -5.0]));
    let device = backend.runtime().device().expect("a device");
    let domain = device.open_domain(0, &options(&backend)).expect("opens");
    assert_eq!(domain.info().libraries, ["a b"]);
}

/// Kinds of memory stand in the names of devices, on the command line and in texts; and what runs on a device does not run
/// on the host.
#[test]
fn descriptions_that_are_refused() {
    let folder = places::temporary();
    let domain = "\\\"domain\\\":\\\"heap\\\"";
    let twice = "\\\"options\\\":[{\\\"name\\\":\\\"title\\\",\\\"kind\\\":\\\"text\\\",\\\"default\\\":\\\"\\\",\\\"help\\\":\\\"\\\"}]";
    let cases = [
        (
            "kind",
            "\\\"domain\\\":\\\"The\\\\nheap:0\\\"".to_owned(),
            "its backend 'cdevice' runs in memory of the kind 'The heap:0'; kinds are lower-case letters, digits and '-'",
        ),
        (
            "host",
            format!("{domain},\\\"host\\\":true"),
            "its backend 'cdevice' is a host backend and runs in memory of the kind 'heap'",
        ),
        (
            "twice",
            format!("{domain},{twice}"),
            "its backend 'cdevice' has the option 'title' both of compiling and of running",
        ),
    ];
    for (name, said, expected) in cases {
        let change: Change<'_> = ("plugin.c", domain, &said);
        let refused = byoc_plugin_api::host::open(&c_device_plugin(folder.path(), name, &[change])).err();
        assert_eq!(refused, Some(byoc_plugin_api::host::LoadError::Contract(expected.into())));
    }
}
