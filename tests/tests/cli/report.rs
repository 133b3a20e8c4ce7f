//! The page that shows a model or an artifact: it holds all that there is to say, loads nothing from anywhere, and works in a browser.

use std::process::Command;

use byoc_plugin_api::Attribute;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::places;
use byoc_tests::trial::{Needed, Skip, Trial, trial};
use serde_json::Value;

/// The data of a page.
fn data(folder: &Folder, page: &str) -> Value {
    let html = html(folder, page);
    let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").expect("data");
    let (data, _) = rest.split_once("</script>").expect("the end of the data");
    serde_json::from_str(data).expect("JSON")
}

fn html(folder: &Folder, page: &str) -> String {
    String::from_utf8(places::read(&folder.path().join(page))).expect("text")
}

/// A chain of convolutions and of operators that the K210 does not have, with a name that tries to end the script.
fn mixed() -> Model {
    let weight: Vec<f32> = (0..8 * 8 * 9).map(|i| (i % 7) as f32 / 7.0 - 0.5).collect();
    let pads = [("pads", Attribute::Ints(vec![1; 4]))];
    Model::default()
        .input("x", Type::Float, &[1, 8, 16, 16])
        .weight("w", &[8, 8, 3, 3], &weight)
        .node_with("Conv", &["x", "w"], &["a"], &pads)
        .node("Erf", &["a"], &["</script><b>"])
        .node_with("Conv", &["</script><b>", "w"], &["y"], &pads)
        .output("y", Type::Float, &[1, 8, 16, 16])
}

#[test]
fn a_model_with_who_takes_what() {
    let folder = Folder::empty();
    folder.write("model.onnx", mixed().finish());
    let report = ["report", "model.onnx", "--backend", "kendryte,cpu", "-o", "page.html"];
    let printed = folder.run(&report);
    let bytes = places::read(&folder.path().join("page.html")).len();
    assert_eq!(printed, format!("written to 'page.html', {:.1} KiB\n", bytes as f64 / 1024.0));
    let first = html(&folder, "page.html");
    folder.run(&report);
    assert_eq!(html(&folder, "page.html"), first, "the same page each time");
    // The data and the script: the name ends neither.
    assert_eq!(first.matches("</script>").count(), 2);
    let data = data(&folder, "page.html");
    let names = |list: &str, key: &str| {
        data[list]
            .as_array()
            .expect("a list")
            .iter()
            .map(|it| it[key].as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("nodes", "name"), ["make_a", "make_</script><b>", "make_y"]);
    assert_eq!(names("nodes", "backend"), ["kendryte", "json", "kendryte"]);
    assert_eq!(names("regions", "region"), ["byoc_main_kendryte_0", "byoc_main_json_0", "byoc_main_kendryte_1"]);
    assert_eq!(data["edges"], serde_json::json!([[0, 1], [1, 2]]));
    assert_eq!(data["reasons"][0]["reason"], "no pattern matches");
    assert_eq!(data["nodes"][1]["refused"], serde_json::json!([["kendryte", "no pattern matches"]]));
}

#[test]
fn an_artifact_with_each_constant_once() {
    let folder = Folder::compiled(mixed());
    folder.run(&["report", "model.byoc", "-o", "page.html"]);
    let data = data(&folder, "page.html");
    let tiles = data["tiles"].as_array().expect("tiles");
    let bytes: u64 = tiles.iter().map(|tile| tile["bytes"].as_u64().expect("a number")).sum();
    assert_eq!(bytes as usize, places::read(&folder.path().join("model.byoc")).len(), "the tiles are the file");
    let of_w = tiles.iter().filter(|tile| tile["label"] == "w").count();
    assert_eq!(of_w, 1, "{tiles:?}");
    assert_eq!(data["constants"][0]["names"], serde_json::json!(["w"]));
    let names: Vec<_> = data["nodes"].as_array().expect("nodes").iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["make_a", "make_</script><b>", "make_y"]);
    assert!(data["nodes"].as_array().into_iter().flatten().all(|node| node["region"] == "byoc_main_json_0"));
    assert_eq!(data["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(data["groups"][0]["label"], "3 nodes: byoc_main_json_0");
    let ports = ["main: input  x: f32[1,8,16,16]", "main: output y: f32[1,8,16,16]"];
    assert_eq!(data["ports"], serde_json::json!(ports));
}

#[test]
fn times_of_a_profile() {
    let folder = Folder::compiled(small());
    let profile = folder.run(&["bench", "model.byoc", "--repeat", "2", "--profile", "--json"]);
    folder.write("profile.json", profile);
    folder.run(&["report", "model.byoc", "--profile", "profile.json", "-o", "page.html"]);
    let times = data(&folder, "page.html")["times"].as_array().expect("times").clone();
    assert!(!times.is_empty() && times.iter().all(|time| time["region"] == "byoc_main_json_0"), "{times:?}");
    let once = folder.run(&["run", "model.byoc", "--fill", "ones", "--profile", "--json"]);
    folder.write("once.json", once);
    folder.run(&["report", "model.byoc", "--profile", "once.json", "-o", "page.html"]);
    let mistake = folder.byoc(&["report", "model.byoc", "--profile", "model.onnx", "-o", "other.html"]);
    assert_eq!(mistake.code, Some(2), "{mistake:?}");
    let message = "error: [B701] 'model.onnx' is not a profile: it is not JSON: ";
    assert!(mistake.stderr.starts_with(message), "{mistake:?}");
    folder.write("empty.json", "{}");
    folder.byoc(&["report", "model.byoc", "--profile", "empty.json", "-o", "other.html"]).fails(
        2,
        "error: [B701] 'empty.json' is not a profile: it has no list 'regions'\n  hint: Give what `byoc bench FILE --profile --json` \
         prints",
    );
    folder.byoc(&["report", "model.byoc", "--backend", "cpu", "-o", "other.html"]).fails(
        2,
        "error: [B901] 'model.byoc' is compiled already, so it takes no --backend\n  hint: Leave the flag out, or name the .onnx model",
    );
    assert!(!folder.path().join("other.html").exists());
}

/// Times of another file are not shown as those of this one.
#[test]
fn a_profile_is_of_the_file_that_is_shown() {
    let folder = Folder::compiled(small());
    let profile = folder.run(&["bench", "model.byoc", "--repeat", "2", "--profile", "--json"]);
    let digest = blake3::hash(&places::read(&folder.path().join("model.byoc"))).to_hex().to_string();
    folder.write("profile.json", &profile);
    let fails = |file: &str, message: &str| {
        let hint = format!("  hint: `byoc bench {file} --profile --json` measures it");
        let outcome = folder.byoc(&["report", file, "--profile", "profile.json", "-o", "page.html"]);
        outcome.fails(2, &format!("error: [B701] 'profile.json' {message}\n{hint}"));
    };
    let measured = format!("was measured on 'model.byoc' (blake3 {}...), not on 'model.onnx'", &digest[..16]);
    fails("model.onnx", &measured);
    // Where the file is not named, its regions are.
    let mut unnamed: Value = serde_json::from_str(&profile).expect("JSON");
    unnamed["file_blake3"] = Value::Null;
    unnamed["regions"][0]["region"] = "byoc_main_json_7".into();
    folder.write("profile.json", unnamed.to_string());
    fails("model.byoc", "has times of region byoc_main_json_7 of json, which 'model.byoc' does not have");
    assert!(!folder.path().join("page.html").exists());
}

/// Behind a node that nobody knows no backend is asked about any: only that one is without a backend.
#[test]
fn nodes_that_nobody_was_asked_about_are_not_those_that_nobody_takes() {
    let folder = Folder::empty();
    let model = Model::default()
        .input("x", Type::Float, &[2])
        .node("Relu", &["x"], &["a"])
        .node("Frobnicate", &["a"], &["b"])
        .node("Relu", &["b"], &["y"])
        .output("y", Type::Float, &[2]);
    folder.write("model.onnx", model.finish());
    folder.run(&["report", "model.onnx", "-o", "page.html"]);
    let data = data(&folder, "page.html");
    let backends: Vec<_> = data["nodes"].as_array().expect("nodes").iter().map(|node| &node["backend"]).collect();
    assert_eq!(backends, ["json", "unassigned", "not asked"]);
    let counts: Vec<_> = data["backends"].as_array().expect("backends").iter().map(|it| &it["nodes"]).collect();
    assert_eq!(counts, [1, 1, 1]);
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_browser_shows_a_large_model", a_browser_shows_a_large_model),
        trial("a_browser_finds_and_shows_nodes_of_an_artifact", a_browser_finds_nodes),
    ]
}

/// What a browser makes of a page.
fn shown(folder: &Folder, page: &str) -> Needed<String> {
    if Command::new("chromium").arg("--version").output().is_err() {
        return Err(Skip("there is no chromium to show a page".into()));
    }
    let url = format!("file://{}", folder.path().join(page).display());
    let mut browser = Command::new("chromium");
    browser.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,800", "--dump-dom", &url]);
    // What it keeps goes into the folder.
    let shown = browser.env("HOME", folder.path()).output().expect("it runs");
    let dom = String::from_utf8_lossy(&shown.stdout).into_owned();
    let head = dom.split_once("<head>").expect("a page").0;
    assert!(!head.contains("data-error"), "{head}");
    Ok(dom)
}

/// Searches for an operator, goes to its node, and clicks on another one.
fn a_browser_finds_nodes() -> Needed<()> {
    let folder = Folder::compiled(mixed());
    folder.run(&["report", "model.byoc", "-o", "page.html"]);
    let script = "<script>
        // No pointer of a device is behind the events.
        canvas.setPointerCapture = () => {};
        const tell = (what) => { document.documentElement.dataset[what] = by('panel').textContent + '|' + by('hits').textContent; };
        by('search').value = 'erf';
        by('search').dispatchEvent(new Event('input'));
        by('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
        tell('found');
        const area = canvas.getBoundingClientRect();
        const [x, y] = toScreen(data.nodes[2].at);
        const at = { clientX: area.left + x, clientY: area.top + y };
        canvas.dispatchEvent(new PointerEvent('pointerdown', at));
        canvas.dispatchEvent(new PointerEvent('pointerup', at));
        tell('clicked');
    </script></body>";
    folder.write("page.html", html(&folder, "page.html").replace("</body>", script));
    let dom = shown(&folder, "page.html")?;
    let head = dom.split_once("<head>").expect("a page").0;
    let told = |what: &str| {
        let (_, rest) = head.split_once(&format!("data-{what}=\"")).unwrap_or_else(|| panic!("no {what} in {head}"));
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    let (found, clicked) = (told("found"), told("clicked"));
    assert!(found.contains("Erf") && found.ends_with("|1 hit"), "{found}");
    assert!(clicked.starts_with("make_y") && clicked.contains("byoc_main_json_0"), "{clicked}");
    Ok(())
}

/// 3,000 nodes are on the screen at once, without an error of the script.
fn a_browser_shows_a_large_model() -> Needed<()> {
    let folder = Folder::empty();
    let mut model = Model::default().input("x0", Type::Float, &[4, 4]);
    for index in 0..3000usize {
        let (from, near, to) =
            (format!("x{index}"), format!("x{}", index.saturating_sub(3)), format!("x{}", index + 1));
        let (op, inputs) =
            if index % 5 == 0 { ("Erf", vec![from.as_str()]) } else { ("Add", vec![from.as_str(), near.as_str()]) };
        model = model.node(op, &inputs, &[&to]);
    }
    folder.write("model.onnx", model.output("x3000", Type::Float, &[4, 4]).finish());
    folder.run(&["report", "model.onnx", "--backend", "kendryte,cpu", "-o", "page.html"]);
    let dom = shown(&folder, "page.html")?;
    let head = dom.split_once("<head>").expect("a page").0;
    let ready = head.split_once("data-ready-ms=\"").unwrap_or_else(|| panic!("the script did not end: {head}")).1;
    let ready: u64 = ready.split('"').next().and_then(|number| number.parse().ok()).expect("a number");
    // Some tens of milliseconds; the bound is for a machine that does other things.
    assert!(ready < 3000, "{ready} ms");
    assert!(dom.contains("3000 nodes"), "the legend");
    Ok(())
}
