//! `--profile` and `--trace`: what regions consist of, and when it happened.

use byoc_plugin_api::Attribute;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::program::Outcome;
use serde_json::Value;

/// Convolutions behind one another, as in networks for small devices.
const LAYERS: usize = 24;

fn layers() -> Model {
    let weights: Vec<f32> = (0..16 * 16 * 9).map(|i| (i % 7) as f32 / 64.0 - 0.05).collect();
    let model = Model::default().input("x0", Type::Float, &[1, 16, 32, 32]).weight("w", &[16, 16, 3, 3], &weights);
    let pads = [("pads", Attribute::Ints(vec![1; 4]))];
    let layer = |model: Model, index: usize| {
        let [from, plain, to] = [format!("x{index}"), format!("plain{index}"), format!("x{}", index + 1)];
        model.node_with("Conv", &[&from, "w"], &[&plain], &pads).node("Relu", &[&plain], &[&to])
    };
    (0..LAYERS).fold(model, layer).output(&format!("x{LAYERS}"), Type::Float, &[1, 16, 32, 32])
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).expect("JSON")
}

fn seconds(of: &Value) -> f64 {
    of["seconds"].as_f64().expect("a time")
}

#[test]
fn a_profile_tells_the_steps_of_a_region() {
    let folder = Folder::compiled(layers());
    let report = json(folder.run(&["bench", "model.byoc", "--repeat", "5", "--profile", "--json"]).as_bytes());
    let region = &report["regions"][0];
    let steps = region["steps"].as_array().expect("steps");
    assert!(steps.len() >= 20, "{region}");
    let (sum, all) = (steps.iter().map(seconds).sum::<f64>(), seconds(region));
    assert!(sum <= all && sum >= 0.9 * all, "{sum} of {all}");
    let convolution = steps.iter().find(|step| step["operator"] == "Conv").expect("a convolution");
    assert_eq!((&convolution["kernel"], &convolution["nodes"][0]), (&Value::from("conv"), &Value::from("make_plain0")));
    let (tensor, weights) = (16 * 32 * 32, 16 * 16 * 9);
    assert_eq!(convolution["operations"], 2 * tensor * 16 * 9);
    assert_eq!(convolution["bytes"], 4 * (2 * tensor + weights));
    let sums = |list: &str| report[list].as_array().expect("sums").iter().map(seconds).sum::<f64>();
    assert!((sums("operators") - sum).abs() < 1e-6 && (sums("backends") - all).abs() < 1e-6, "{report}");
    // What the rates are held against.
    let ceilings = |report: &Value| {
        let rate = |name: &str| report["ceilings"][name].as_f64().expect("a rate");
        assert!(rate("operations_per_second") > 1e6 && rate("bytes_per_second") > 1e6, "{report}");
        report["ceilings"]["threads"].as_u64()
    };
    let one = ["bench", "model.byoc", "--repeat", "1", "--profile", "--threads", "1"];
    assert_eq!(ceilings(&json(folder.run(&[&one[..], &["--json"]].concat()).as_bytes())), Some(1));
    assert!(ceilings(&report) >= Some(1));
    let printed = folder.run(&one);
    let line = printed.lines().last().expect("a line");
    assert!(line.starts_with("ceilings of 1 thread: ") && line.ends_with(" GB/s from memory"), "{printed}");
    // For people: the longest first, with sums, and nothing is cut off at 80 columns.
    let printed = folder.run(&["run", "model.byoc", "--fill", "ones", "--profile"]);
    let titles = printed.lines().filter(|line| line.ends_with("share"));
    let titles: Vec<_> = titles.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "step node backend time Gop/s GB/s share",
        "operator backend steps time Gop/s GB/s share",
        "backend regions time share",
        "region backend time share",
    ];
    assert_eq!(titles, expected, "{printed}");
    assert!(printed.contains("(rest of the region)  byoc_main_json_0 "), "{printed}");
    assert!(printed.lines().skip(3).all(|line| line.chars().count() <= 80), "{printed}");
    // Without the flag nothing is told.
    let plain = json(folder.run(&["run", "model.byoc", "--fill", "ones", "--json"]).as_bytes());
    assert_eq!((&plain["regions"], &plain["operators"]), (&Value::Null, &Value::Null));
}

/// The events of a trace that take time, as (category, track, begin, end) in nanoseconds, by name.
fn events(trace: &Value) -> Vec<(String, String, i64, i64, i64)> {
    let all = trace["traceEvents"].as_array().expect("events");
    let timed = all.iter().filter(|event| event["ph"] == "X").map(|event| {
        let text = |key: &str| event[key].as_str().expect("a text").to_owned();
        let nanos = |key: &str| (event[key].as_f64().expect("a number") * 1e3).round() as i64;
        let (start, track) = (nanos("ts"), event["tid"].as_i64().expect("a track"));
        assert_eq!(event["pid"], 1);
        assert!(start >= 0 && nanos("dur") >= 0, "{event}");
        (text("name"), text("cat"), track, start, start + nanos("dur"))
    });
    let rest = all.iter().filter(|event| event["ph"] != "X");
    assert!(rest.into_iter().all(|event| event["ph"] == "M" && event["args"]["name"].is_string()), "{trace}");
    timed.collect()
}

/// What is rounded to nanoseconds at both of its ends may overlap its neighbour by so many.
const ROUNDING: i64 = 2;

/// On a track, one thing ends before the next begins, or contains it.
fn assert_nested(events: &[(String, String, i64, i64, i64)]) {
    for (index, (a, _, track, start, end)) in events.iter().enumerate() {
        for (b, _, other, begin, finish) in &events[index + 1..] {
            let apart = track != other || *finish <= start + ROUNDING || *begin >= end - ROUNDING;
            let within = (start <= begin && finish <= end) || (begin <= start && end <= finish);
            assert!(apart || within, "{a} {start}-{end} and {b} {begin}-{finish} overlap on track {track}");
        }
    }
}

#[test]
fn a_trace_has_regions_and_steps() {
    let folder = Folder::compiled(layers());
    for verb in [&["run", "model.byoc", "--fill", "ones"][..], &["bench", "model.byoc", "--repeat", "2"]] {
        folder.run(&[verb, &["--trace", "trace.json"]].concat());
        let trace = json(&places::read(&folder.path().join("trace.json")));
        let events = events(&trace);
        assert_nested(&events);
        let of = |kind: &str| events.iter().filter(|event| event.1 == kind).count();
        assert_eq!(of("region"), 1, "{trace}");
        assert!(of("step") >= 20, "{trace}");
    }
}

#[test]
fn a_trace_of_a_compile_has_its_stages() {
    let folder = Folder::empty();
    folder.write("model.onnx", layers().finish());
    folder.run(&["compile", "model.onnx", "-o", "model.byoc", "--trace", "trace.json"]);
    let events = events(&json(&places::read(&folder.path().join("trace.json"))));
    assert_nested(&events);
    let stages = events.iter().filter(|event| event.1 == "stage").map(|event| event.0.as_str());
    assert_eq!(stages.collect::<Vec<_>>(), ["onnx", "passes", "partition", "codegen", "ownership", "artifact"]);
    assert!(events.iter().any(|event| event.0 == "byoc_main_json_0" && event.1 == "step"), "{events:?}");
    // A compile that fails leaves none.
    let failed = folder.byoc(&["compile", "model.onnx", "-o", "no/model.byoc", "--trace", "new.json"]);
    assert_ne!(failed.code, Some(0));
    assert!(!folder.path().join("new.json").exists());
}

/// Copies and regions of a device are on its own track, beside that of the host.
#[test]
fn devices_have_tracks_of_their_own() {
    let plugin = places::plugin("simdev").to_str().expect("a plain path").to_owned();
    let folder = Folder::empty();
    let model = Model::default()
        .input("x", Type::Float, &[4, 4])
        .weight("w", &[4, 4], &[0.5; 16])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Tanh", &["product"], &["curved"])
        .node("Relu", &["curved"], &["y"])
        .output("y", Type::Float, &[4, 4]);
    folder.write("model.onnx", model.finish());
    let byoc = |arguments: &[&str]| -> Outcome { folder.byoc(&[arguments, &["--plugin", &plugin]].concat()) };
    byoc(&["run", "model.onnx", "--fill", "ones", "--backend", "simdev,json", "--trace", "trace.json"]).success();
    let trace = json(&places::read(&folder.path().join("trace.json")));
    let names = trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["name"] == "thread_name");
    let mut names: Vec<_> = names.filter_map(|event| event["args"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["host", "sim:0"]);
    let events = events(&trace);
    assert_nested(&events);
    let of =
        |kind: &str| events.iter().filter(|event| event.1 == kind).map(|event| event.0.as_str()).collect::<Vec<_>>();
    assert_eq!(of("copy"), ["x", "product", "curved", "y"], "{trace}");
    assert_eq!(of("region").len(), 3, "{trace}");
}
