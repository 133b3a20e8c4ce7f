//! Packed constants that must not be read: in another layout than the code wants, or on another processor.

use byoc_core::artifact::{Artifact, Contents, Section};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::trial::Needed;

use super::check::{Constant, model};

/// A product with a weight that `panels` packs.
fn product() -> Model {
    model(&[&Constant::random("w", &[16, 32], 1)])
        .input("x", Type::Float, &[2, 16])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[2, 32])
}

/// A folder with an artifact of [`product`], compiled with an option of `panels`.
fn compiled(option: &str, plugin: &str) -> Folder {
    let folder = Folder::empty();
    folder.write("model.onnx", product().finish());
    let arguments = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "panels", "--plugin", plugin];
    folder.byoc(&[&arguments[..], &["--backend-opt", option]].concat()).success();
    folder
}

fn run(folder: &Folder, plugin: &str) -> byoc_tests::program::Outcome {
    folder.byoc(&["run", "model.byoc", "--fill", "ones", "--plugin", plugin])
}

/// Code that wants a layout and is given another does not run.
pub(crate) fn another_layout() -> Needed<()> {
    let plugin = places::plugin("claim_variants");
    let plugin = plugin.to_str().expect("a plain path");
    run(&compiled("panels.expect=panels-8/1", plugin), plugin).success();
    run(&compiled("panels.expect=panels-16/1", plugin), plugin).fails(
        1,
        "error: [B703] backend 'panels' cannot load region byoc_main_panels_0: constant 0 is packed as 'panels-8/1', \
         expected 'panels-16/1'\n  hint: Compile the model again with this version of the backend",
    );
    Ok(())
}

/// A layout for a processor that this one is not. The feature is one that this processor lacks; where it has all that
/// byoc knows, the file is changed to name one of the future.
pub(crate) fn missing_feature() -> Needed<()> {
    let plugin = places::plugin("claim_variants");
    let plugin = plugin.to_str().expect("a plain path");
    let lacking = lacking();
    let folder = compiled(&format!("panels.feature={}", lacking.unwrap_or("sse4.1")), plugin);
    let path = folder.path().join("model.byoc");
    if lacking.is_none() {
        run(&folder, plugin).success();
        demand(&path, "avx9000");
    }
    let missing = lacking.unwrap_or("avx9000");
    let needed = Artifact::open(&path).expect("opens").manifest().requirements.cpu_features.clone();
    assert_eq!(needed, [missing]);
    run(&folder, plugin).fails(
        3,
        &format!(
            "error: [B604] 'model.byoc' has constants packed for processors with {missing}, which this one lacks\n  \
             hint: Compile the model again on this machine"
        ),
    );
    Ok(())
}

/// A feature that this processor lacks, if there is one.
#[cfg(target_arch = "x86_64")]
fn lacking() -> Option<&'static str> {
    let features = [
        ("avx512fp16", std::arch::is_x86_feature_detected!("avx512fp16")),
        ("avx512bf16", std::arch::is_x86_feature_detected!("avx512bf16")),
        ("avxvnni", std::arch::is_x86_feature_detected!("avxvnni")),
        ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
        ("avx2", std::arch::is_x86_feature_detected!("avx2")),
    ];
    features.into_iter().find(|(_, there)| !there).map(|(name, _)| name)
}

/// Other processors have none of them.
#[cfg(not(target_arch = "x86_64"))]
fn lacking() -> Option<&'static str> {
    Some("avx2")
}

/// Writes the artifact again as if it needed this processor feature.
fn demand(path: &std::path::Path, feature: &str) {
    let artifact = Artifact::open(path).expect("opens");
    let mut manifest = artifact.manifest().clone();
    manifest.requirements.cpu_features = vec![feature.to_owned()];
    let content =
        artifact.sections().filter(|section| section.name.contains("code/") || section.name.contains("const/"));
    let sections = content.map(|section| Section {
        name: section.name.to_owned(),
        dtype: section.dtype,
        shape: section.shape.to_vec(),
        bytes: artifact.section(section.name).expect("it is listed"),
        digest: None,
        alignment: 0,
    });
    let contents = Contents {
        manifest,
        ledger: artifact.ledger().expect("it fits").to_vec(),
        nodes: artifact.nodes().expect("it fits").to_vec(),
        sections: sections.collect(),
    };
    contents.write(path, &mut |_, _, _| {}).expect("written");
}
