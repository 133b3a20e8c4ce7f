//! What people get wrong, each with the whole answer, in one page to be read: `tests/golden/mistakes.txt`. Every answer names the thing, the
//! cause and, where there is one, the remedy; the exit code is that of `docs/errors.md`, nothing is printed as a result and no file is left.
//! Plugins that crash, hang or eat memory are in `plugins::hostile`, full disks in `full_disk`, files that would be overwritten in
//! `overwriting`, and files of another kind than a verb reads in `file_kinds`.

use byoc_core::onnx::write::value;
use byoc_dim::symbol;
use byoc_plugin_api::{DType, Dim};
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, external, small};
use byoc_tests::program::{byoc, outcome};
use byoc_tests::repack::{GRAPH, Repacked};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use serde_json::json;

/// The mistakes, by what they are about. Words are separated by spaces.
const MISTAKES: &[(&str, &[&str])] = &[
    (
        "verbs and options",
        &[
            "compil model.onnx",
            "model.onnx",
            "compile model.onnx --outptu x.byoc",
            "compile model.onnx -o x.byoc y.byoc",
            "run model.byoc --threads two",
            "run model.byoc --threads",
            "run model.byoc --fill sevens",
            "run model.byoc --fill-range 1,0",
            "run model.byoc --fill-range -1",
            "run model.byoc --fill zeros --fill-range -1,1",
            "compile model.onnx -o nowhere/x.byoc",
            "compile model.onnx -o text.txt",
            "compile model.onnx -o pool.onnx",
            "compile model.onnx -o good.npz",
            "run model.byoc --fill ones -o text.txt",
            "run model.byoc --fill ones --trace pool.onnx",
            "report model.byoc -o pool.onnx",
            "run model.byoc --batch 4",
            "bench model.byoc --duration -1",
            "bench model.byoc --duration soon",
            "verify model.byoc --model model.onnx --atol -1",
            "verify model.byoc --model model.onnx --snr 20 --atol 1",
            "compile model.onnx -o x.byoc --stop-after lunch",
            "compile model.onnx -o x.byoc --stop-after artifact --print",
            "compile model.onnx --print",
            "compile model.onnx --threads 2",
            "run model.byoc --fill ones --labels text.txt",
            "run model.byoc --iters 9",
            "bench model.byoc -niter=9",
            "check",
            "version",
            "compile model.onnx --plugin-dir nowhere",
            "compile model.onnx --plugin-dir text.txt",
        ],
    ),
    (
        "backends and placement",
        &[
            "compile model.onnx -o x.byoc --backend jsn",
            "compile model.onnx -o x.byoc --backend cublas,cpu",
            "compile model.onnx -o x.byoc --backend-opt cpu.kernals=reference",
            "compile model.onnx -o x.byoc --backend-opt cpu.kernels=fastest",
            "compile model.onnx -o x.byoc --backend-opt kendryte.float-dense=true",
            "compile model.onnx -o x.byoc --backend-opt kernels=reference",
            "compile model.onnx -o x.byoc --backend kendryte",
            "compile model.onnx -o x.byoc --backend kendryte,cpu --no-fallback",
            "compile model.onnx -o x.byoc --backend kendryte,cpu --max-host-nodes 1",
            "compile model.onnx -o x.byoc --require kendryte=MatMul --backend kendryte,cpu",
            "compile model.onnx -o x.byoc --require kendyte=MatMul --backend kendryte,cpu",
            "compile model.onnx -o x.byoc --require cpu=Conv*",
            "explain model.onnx --op Conv",
            "explain model.onnx --region byoc_main_json_7",
        ],
    ),
    (
        "plugins",
        &[
            "plugin info model --plugin text.txt",
            "plugin info model --plugin empty.so",
            "plugin info model --plugin nothing.so",
            "plugin info jsn",
        ],
    ),
    (
        "models",
        &[
            "compile nothing.onnx -o x.byoc",
            "compile modle.onnx -o x.byoc",
            "compile folder -o x.byoc",
            "compile empty.onnx -o x.byoc",
            "compile text.txt -o x.byoc",
            "compile cut.onnx -o x.byoc",
            "compile zipped.onnx -o x.byoc",
            "compile unknown.onnx -o x.byoc",
            "compile vendor.onnx -o x.byoc",
            "compile later.onnx -o x.byoc",
            "compile external.onnx -o x.byoc",
            "compile short.onnx -o x.byoc",
            "compile a=model.onnx a=model.onnx -o x.byoc",
        ],
    ),
    (
        "shapes",
        &[
            "compile free.onnx -o x.byoc --dim bach=4",
            "compile free.onnx -o x.byoc --dim batch=four",
            "compile free.onnx -o x.byoc --dim batch",
            "compile free.onnx -o x.byoc --shape y:4x3",
            "compile free.onnx -o x.byoc --shape x:4x5",
            "compile free.onnx -o x.byoc --shape x:4",
            "compile model.onnx -o x.byoc --shape x:4x3",
            "compile model.onnx -o x.byoc --dim batch=4",
        ],
    ),
    (
        "inputs and outputs",
        &[
            "run model.byoc",
            "run model.byoc -i nothing.npz",
            "run model.byoc -i other_name.npz",
            "run model.byoc -i type.npz",
            "run model.byoc -i shape.npz",
            "run model.byoc -i extra.npz",
            "run model.byoc -i good.npz -i good.npz",
            "run model.byoc -i cut.npz",
            "run two.byoc --fill ones",
            "run two.byoc --fill ones --entry c",
            "verify model.byoc -i good.npz --reference nothing.npz",
            "verify model.byoc -i good.npz --reference good.npz",
            "verify model.byoc -i good.npz",
            "verify model.byoc -i good.npz --model pool.onnx",
            "verify model.byoc -i good.npz --reference text.txt",
            "compile pool.onnx -o x.byoc --backend kendryte,cpu --dataset folder",
            "compile pool.onnx -o x.byoc --backend kendryte,cpu --dataset broken",
            "compile pool.onnx -o x.byoc --backend kendryte,cpu",
        ],
    ),
    (
        "artifacts",
        &[
            "run nothing.byoc",
            "run folder",
            "check cut.byoc",
            "check flipped.byoc",
            "run flipped.byoc --fill ones --verify-digests",
            "check newer.byoc",
            "run newer.byoc --fill ones",
            "check elsewhere.byoc",
            "run elsewhere.byoc --fill ones",
            "run refers.byoc --fill ones",
            "run replaced.byoc --fill ones",
            "inspect model.byoc --region byoc_main_json_7",
            "inspect model.byoc --region byoc_main_json_0 --extract x.bin",
            "inspect model.onnx --constants",
            "swap model.byoc --from pool.onnx -o x.byoc",
        ],
    ),
];

fn models(folder: &Folder) {
    let io = |model: Model| model.input("x", Type::Float, &[2]).output("y", Type::Float, &[2]);
    let whole = small().finish();
    folder.write("model.onnx", &whole);
    folder.write("cut.onnx", &whole[..whole.len() / 2]);
    folder.write("empty.onnx", "");
    folder.write("text.txt", "just a text\n");
    folder.write("zipped.onnx", b"PK\x03\x04 and so on");
    folder.write("unknown.onnx", io(Model::default()).node("Frobnicate", &["x"], &["y"]).finish());
    let vendor = io(Model::default()).domain("com.acme", 1).node_of(("com.acme", "Scale"), &["x"], &["y"], &[]);
    folder.write("vendor.onnx", vendor.finish());
    folder.write("later.onnx", io(Model::default()).opset(99).node("Relu", &["x"], &["y"]).finish());
    for (name, location) in [("external.onnx", "nothing.data"), ("short.onnx", "short.data")] {
        let model = io(Model::default()).tensor(external("w", &[2], location)).node("Add", &["x", "w"], &["y"]);
        folder.write(name, model.finish());
    }
    folder.write("short.data", [0; 4]);
    let mut free = Model::default().node("Relu", &["x"], &["y"]);
    let shape = [symbol("batch"), Dim::Fixed(3)];
    free.graph.input.push(value("x", Type::Float, Some(&shape)));
    free.graph.output.push(value("y", Type::Float, Some(&shape)));
    folder.write("free.onnx", free.finish());
    let weight: Vec<f32> = (0..4 * 3 * 9).map(|i| i as f32 / 99.0 - 0.5).collect();
    let pool = Model::default().input("x", Type::Float, &[1, 3, 16, 16]).weight("w", &[4, 3, 3, 3], &weight);
    let pads = [("pads", byoc_plugin_api::Attribute::Ints(vec![1; 4]))];
    let pool = pool.node_with("Conv", &["x", "w"], &["y"], &pads).output("y", Type::Float, &[1, 4, 16, 16]);
    folder.write("pool.onnx", pool.finish());
    std::fs::create_dir(folder.path().join("folder")).expect("the folder is ours");
    folder.write("empty.so", "");
}

fn inputs(folder: &Folder) {
    let good = Tensor::f32(&[2, 3], &[1.0; 6]);
    let f64s = Tensor { dtype: DType::F64, shape: vec![2, 3], bytes: vec![0; 48] };
    let write = |name: &str, arrays: &[(&str, &Tensor)]| npz::write(&folder.path().join(name), arrays);
    write("good.npz", &[("x", &good)]);
    write("other_name.npz", &[("images", &good)]);
    write("type.npz", &[("x", &f64s)]);
    write("shape.npz", &[("x", &Tensor::f32(&[3, 2], &[1.0; 6]))]);
    write("extra.npz", &[("x", &good), ("z", &good)]);
    let bytes = places::read(&folder.path().join("good.npz"));
    folder.write("cut.npz", &bytes[..bytes.len() - 30]);
    std::fs::create_dir(folder.path().join("broken")).expect("the folder is ours");
    folder.write("broken/a.png", b"\x89PNG\r\n\x1a\n");
}

fn artifacts(folder: &Folder) {
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc"]).success();
    folder.byoc(&["compile", "a=model.onnx", "b=model.onnx", "-o", "two.byoc"]).success();
    let whole = places::read(&folder.path().join("model.byoc"));
    folder.write("cut.byoc", &whole[..whole.len() - 100]);
    let mut bytes = whole.clone();
    // In the section of code, which begins so.
    let start = b"{\"version\":";
    let code = whole.windows(start.len()).position(|window| window == start).expect("code");
    bytes[code + 1] ^= 1;
    folder.write("flipped.byoc", bytes);
    let mut newer = Repacked::read(&whole);
    let mut graph = newer.json(GRAPH);
    graph["format"] = json!(99);
    newer.set_json(GRAPH, &graph);
    newer.metadata.insert("byoc_format".into(), json!("99"));
    folder.write("newer.byoc", newer.write());
    let mut elsewhere = Repacked::read(&whole);
    let mut graph = elsewhere.json(GRAPH);
    graph["requirements"]["cpu_features"] = json!(["sve2"]);
    elsewhere.set_json(GRAPH, &graph);
    folder.write("elsewhere.byoc", elsewhere.write());
    let data: Vec<u8> = (0..65536u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    for (name, file) in [("refers", "gone.data"), ("replaced", "other.data")] {
        folder.write(file, &data);
        let model = Model::default().input("x", Type::Float, &[1]).tensor(external("w", &[65536], file));
        let model = model.node("Add", &["x", "w"], &["y"]).output("y", Type::Float, &[65536]);
        folder.write(&format!("{name}.onnx"), model.finish());
        let output = format!("{name}.byoc");
        folder.byoc(&["compile", &format!("{name}.onnx"), "-o", &output, "--external-constants"]).success();
    }
    std::fs::remove_file(folder.path().join("gone.data")).expect("the file is ours");
    folder.write("other.data", &data[..1024]);
}

/// The page: command, exit code and answer of each.
#[test]
fn each_is_answered() {
    let folder = Folder::empty();
    models(&folder);
    inputs(&folder);
    artifacts(&folder);
    let before = places::list(folder.path());
    let mut page = String::new();
    for (title, mistakes) in MISTAKES {
        page += &format!("# {title}\n\n");
        for mistake in *mistakes {
            let arguments: Vec<_> = mistake.split(' ').collect();
            let answer = outcome(byoc(&arguments).current_dir(folder.path()));
            let code = answer.code.unwrap_or_else(|| panic!("{mistake}: ended by a signal"));
            assert!((1..=4).contains(&code), "{mistake}: {answer:?}");
            // What `check` finds is its result.
            assert!(answer.stdout.is_empty() || mistake.starts_with("check "), "{mistake}: {answer:?}");
            assert!(!answer.stderr.contains("panicked"), "{mistake}: {answer:?}");
            let text = answer.stderr + &answer.stdout;
            page += &format!("$ byoc {mistake}\n{}(exit code {code})\n\n", steady(&text, &folder));
            assert_eq!(places::list(folder.path()), before, "{mistake} leaves a file");
        }
    }
    golden("mistakes.txt", &page);
}

/// Without what differs from machine to machine.
fn steady(text: &str, folder: &Folder) -> String {
    let version = env!("CARGO_PKG_VERSION");
    text.replace(&folder.path().display().to_string(), "FOLDER").replace(version, "VERSION")
}
