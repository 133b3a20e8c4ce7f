//! Vendors' stories from end to end. A DSP that computes with weights of 16 and of 8 bits passes the kit, is found out where it is
//! wrong, and its users are told how near to exact it is; each weight is stored once, in the form in which it is read.

use byoc_core::artifact::Artifact;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::places;

use serde_json::{Value, json};

use super::{Tested, c_plugin};

const INT8: [&str; 2] = ["--backend-opt", "tarn.matrices=int8"];

#[test]
fn the_kit_passes_what_is_right_in_every_form() {
    let plugin = places::plugin("tarn");
    for options in [&[][..], &INT8] {
        let tested = Tested::plain(&plugin, options);
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]), "{options:?}");
        assert!(tested.count("pass") > 300, "{}", tested.report["summary"]);
        // What the Conv in front of a Relu gives is an output as well.
        assert!(tested.passed().any(|case| case.starts_with("conv-relu: ") && case.contains(" inner results: ")));
    }
}

#[test]
fn the_kit_finds_what_is_wrong_behind_reduced_precision() {
    let plugin = places::plugin("tarn");
    let bug = |bug: &'static str| [&INT8[..], &["--backend-opt", bug, "--fail-fast"]].concat();
    let plus_one = Tested::plain(&plugin, &bug("tarn.bug=plus-one"));
    assert!(plus_one.first_failure().1.contains("dB above the noise"), "{:?}", plus_one.first_failure());
    let scale = Tested::plain(&plugin, &bug("tarn.bug=scale-of-next"));
    assert!(scale.first_failure().1.contains("dB above the noise, not 30.0"), "{:?}", scale.first_failure());
}

/// A convolution, a product, and a product whose matrix somebody else reads as well.
fn model() -> Model {
    let values = |count: usize, seed: usize| -> Vec<f32> {
        (0..count).map(|at| ((at * 7919 + seed) % 1009) as f32 / 504.0 - 1.0).collect()
    };
    Model::default()
        .input("x", Type::Float, &[-1, 8, 6, 6])
        .weight("filters", &[32, 8, 3, 3], &values(32 * 8 * 9, 1))
        .weight("bias", &[32], &values(32, 2))
        .weight("matrix", &[32 * 16, 64], &values(32 * 16 * 64, 3))
        .weight("both", &[64, 64], &values(64 * 64, 4))
        .node("Conv", &["x", "filters", "bias"], &["c"])
        .node("Relu", &["c"], &["r"])
        .node("Flatten", &["r"], &["f"])
        .node("MatMul", &["f", "matrix"], &["m"])
        .node("MatMul", &["m", "both"], &["n"])
        .node("Exp", &["both"], &["e"])
        .node("MatMul", &["n", "e"], &["o"])
        .node("ReduceMean", &["both"], &["mean"])
        .node("Add", &["o", "mean"], &["y"])
        .output("y", Type::Float, &[-1, 64])
        .input("u", Type::Float, &[-1, 64])
        .weight("third", &[64, 16], &values(64 * 16, 5))
        .node("MatMul", &["u", "third"], &["z"])
        .output("z", Type::Float, &[-1, 16])
}

#[test]
fn users_are_told_and_each_weight_is_stored_once() {
    let folder = Folder::empty();
    folder.write("model.onnx", model().finish());
    let plugin = places::plugin("tarn");
    let plugin = ["--plugin", plugin.to_str().expect("a plain path")];
    let told = folder.byoc(&[&["plugin", "info", "tarn"][..], &plugin].concat());
    assert!(told.success().contains("\nprecise to MatMul: 30.0 dB above the noise\n"), "{}", told.stdout);
    assert!(told.stdout.contains("\nmatmul     (MatMul ?x ?w:const)\n"), "{}", told.stdout);
    for (matrices, layout, bytes) in [
        ("bf16", "tarn-panels/1", [32 * 16 * 64 * 2, 64 * 16 * 2]),
        ("int8", "tarn-int8/1", [32 * 16 * 64 + 64 * 4, 64 * 16 + 16 * 4]),
    ] {
        let option = format!("tarn.matrices={matrices}");
        let compile = ["compile", "model.onnx", "-o", "m.byoc", "--backend", "tarn,cpu", "--backend-opt", &option];
        folder.byoc(&[&compile[..], &plugin].concat()).success();
        let artifact = Artifact::open(&folder.path().join("m.byoc")).expect("an artifact");
        let forms: Vec<_> = artifact.manifest().regions.iter().flat_map(|region| &region.constants).collect();
        let packed: Vec<_> =
            forms.iter().filter_map(|bound| Some((bound.layout.as_deref()?, bound.used.as_ref()?))).collect();
        let of = |layout: &str| {
            let of_layout: Vec<_> = packed.iter().filter(|(found, _)| *found == layout).collect();
            let sizes = of_layout.iter().map(|(_, used)| artifact.stored(used.constant).expect("it is there").len());
            sizes.collect::<Vec<_>>()
        };
        assert_eq!((of("tarn-filters/1"), of(layout)), (vec![32 * 8 * 9 * 2], bytes.to_vec()));
        let verify = ["verify", "m.byoc", "--model", "model.onnx", "--dim", "batch=2"];
        folder.byoc(&[&verify[..], &plugin].concat()).success();
        let told = folder.byoc(&[&verify[..], &plugin, &["--json"]].concat());
        let report: Value = serde_json::from_str(told.success()).expect("JSON");
        let criterion = |name: &str| {
            let outputs = report["outputs"].as_array().expect("a list").iter();
            outputs.clone().find(|output| output["name"] == name).expect("it is there")["criterion"].clone()
        };
        // Each output has what the regions declare that it depends on.
        assert!(criterion("y")["snr"].as_f64().is_some_and(|least| (20.0..30.0).contains(&least)), "{report}");
        assert_eq!(criterion("z")["snr"], json!(30.0), "{report}");
        let shown = folder.byoc(&["inspect", "m.byoc", "--region", "byoc_main_tarn_0"]);
        assert!(shown.success().contains("byoc_main_tarn_0"), "{}", shown.stdout);
        assert_eq!(shown.stderr, "the backend 'tarn' is not here, and may say more of its code\n");
        let run = ["run", "m.byoc", "--fill", "ones", "--dim", "batch=2", "--json"];
        for more in [&[][..], &["--isolate"]] {
            let ran = folder.byoc(&[&run[..], &plugin, more].concat());
            let report: Value = serde_json::from_str(ran.success()).expect("JSON");
            let line = json!({ "about": "region byoc_main_tarn_0 of the backend 'tarn'", "text": "72 x 32 weights as Filters" });
            assert_eq!(report["log"][0], line, "{more:?}");
        }
    }
}

/// The other vendor's, in C: the matrix is packed (as it is), or stays as the model has it and is read through any strides.
#[test]
fn a_backend_in_c_packs_its_matrix_or_leaves_it_to_the_host() {
    let to_the_host = [
        (
            "if (byoc_claim(claims, found.matrix, claim) != BYOC_OK)",
            "return byoc_claim(claims, found.matrix, \"\\\"host\\\"\");\n    if (claim[0])",
        ),
        (
            "matrix->layout.len != strlen(LAYOUT) || memcmp(matrix->layout.data, LAYOUT, strlen(LAYOUT)) != 0",
            "matrix->layout.len != 0",
        ),
        ("w[column * sizes->inner + k]", "element(&region->matrix, k, column)"),
        ("*w = (const float *)region->matrix.data;", "*w = NULL; (void)w;"),
    ];
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    for (changes, layouts) in [(&[][..], vec!["columns/1".to_owned()]), (&to_the_host, vec![])] {
        let plugin = c_plugin(folder.path(), changes);
        let tested = Tested::plain(&plugin, &[]);
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]), "{layouts:?}");
        let compile = ["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu", "--plugin"];
        folder.byoc(&[&compile[..], &[plugin.to_str().expect("plain")]].concat()).success();
        let artifact = Artifact::open(&folder.path().join("m.byoc")).expect("an artifact");
        let own = artifact.manifest().regions.iter().filter(|region| region.backend == "cmatmul");
        let found: Vec<String> = own.flat_map(|region| &region.constants).filter_map(|it| it.layout.clone()).collect();
        assert_eq!(found, layouts);
    }
}

/// The regions of a model beside the host's kernels.
#[test]
fn regions_are_timed_beside_the_host() {
    let folder = Folder::empty();
    folder.write("model.onnx", model().finish());
    let plugin = places::plugin("tarn");
    let bench = ["plugin", "bench", plugin.to_str().expect("a plain path"), "model.onnx", "--duration", "0.01"];
    let told = folder.byoc(&[&bench[..], &["--dim", "batch=2", "--json"]].concat());
    let report: Value = serde_json::from_str(told.success()).expect("JSON");
    assert_eq!(report["beside"], "json");
    let rows = report["regions"].as_array().expect("a list");
    let of = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<_>>();
    assert_eq!(of("nodes"), [json!(["Conv", "Relu"]), json!(["MatMul"]), json!(["MatMul"]), json!(["MatMul"])]);
    assert_eq!(of("region"), ["byoc_main_tarn_0", "byoc_main_tarn_1", "byoc_main_tarn_2", "byoc_main_tarn_3"]);
    for row in rows {
        let number = |field: &str| row[field].as_f64().expect("a number");
        assert!(number("seconds") > 0.0 && number("beside_seconds") > 0.0 && number("runs") >= 5.0, "{row}");
        assert!((number("seconds") / number("beside_seconds") / number("ratio") - 1.0).abs() < 1e-9, "{row}");
    }
    let other = folder.byoc(&[&bench[..], &["--backend", "tarm"]].concat());
    let error = format!("error: [B303] '{}' has no backend 'tarm'\n  hint: It has tarn", plugin.display());
    assert_eq!((other.code, other.stderr.trim_end()), (Some(3), error.as_str()));
    let itself = folder.byoc(&[&bench[..], &["--beside", "tarn"]].concat());
    let error = "error: [B901] 'tarn' is a backend of the plugin itself\n  hint: Name another one with --beside";
    assert_eq!((itself.code, itself.stderr.trim_end()), (Some(2), error));
    let open = folder.byoc(&bench);
    let error = "error: [B701] input 'x' of shape [batch,8,6,6] cannot be filled: the size 'batch' is open\n  \
                 hint: Set it, as in --dim 'batch=1'";
    assert_eq!((open.code, open.stderr.trim_end()), (Some(2), error));
    folder.write(
        "other.onnx",
        Model::default()
            .input("x", Type::Float, &[2])
            .node("Exp", &["x"], &["y"])
            .output("y", Type::Float, &[2])
            .finish(),
    );
    let none = folder.byoc(&["plugin", "bench", plugin.to_str().expect("a plain path"), "other.onnx"]);
    let error =
        format!("error: [B403] '{}' takes no node of the model\n  hint: byoc explain says why", plugin.display());
    assert_eq!((none.code, none.stderr.trim_end()), (Some(4), error.as_str()));
}
