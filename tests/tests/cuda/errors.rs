//! What users are told of backends that generate kernels: without a compiler, for an architecture that kernels are not for,
//! and by a device that the code is not for. Nothing here needs NVIDIA's compiler: a stand-in takes its place.

use std::sync::LazyLock;

use byoc_nvidia_standins::{all, shield};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::program::{Outcome, byoc, outcome};

/// A softmax for `cuda`, with the folder that commands run in.
fn bench() -> Folder {
    let folder = Folder::empty();
    let model = Model::default().input("x", Type::Float, &[4, 8]).node("Softmax", &["x"], &["y"]);
    folder.write("model.onnx", model.output("y", Type::Float, &[4, 8]).finish());
    folder
}

/// Runs the program with libraries of these folders only.
fn run(folder: &Folder, arguments: &[&str], settings: &[(&str, &str)]) -> Outcome {
    static SHIELD: LazyLock<tempfile::TempDir> = LazyLock::new(places::temporary);
    let mut command = byoc(arguments);
    for name in ["BYOC_CUDA_PATH", "CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"] {
        command.env_remove(name);
    }
    command.arg("--plugin").arg(places::plugin("cuda")).env("LD_LIBRARY_PATH", shield(SHIELD.path()));
    command.env("BYOC_CACHE_DIR", folder.path().join("cache")).envs(settings.iter().copied());
    outcome(command.current_dir(folder.path()))
}

fn compile(folder: &Folder, arch: &str, settings: &[(&str, &str)]) -> Outcome {
    let arch = format!("cuda.arch={arch}");
    let arguments = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "cuda,json", "--backend-opt", &arch];
    run(folder, &arguments, settings)
}

fn standing_in() -> [(&'static str, &'static str); 1] {
    [("BYOC_CUDA_PATH", all().to_str().expect("a plain path"))]
}

#[test]
fn without_a_compiler_it_is_said_how_to_get_one() {
    let folder = bench();
    let told = compile(&folder, "sm_80", &[]);
    let missing = "error: [B306] backend 'cuda' failed on region byoc_main_cuda_0: there is no libnvrtc.so.13 or \
                   libnvrtc.so.12 in the loader's path\n  hint: Try `pip install nvidia-cuda-nvrtc==13.0.*`, or name its \
                   folder in BYOC_CUDA_PATH\n";
    assert_eq!((told.code, told.stderr.as_str()), (Some(1), missing));
    assert!(!folder.path().join("model.byoc").exists());
}

#[test]
fn kernels_are_for_some_architectures() {
    let folder = bench();
    let region = "error: [B306] backend 'cuda' failed on region byoc_main_cuda_0:";
    for (arch, told) in [
        (
            "sm_75",
            "kernels are not written for sm_75\n  hint: They are for sm_80 and newer: leave sm_75 out of the option 'arch'",
        ),
        ("banana", "'banana' is not an architecture of a GPU\n  hint: Write it as in sm_80 or sm_90a"),
    ] {
        let found = compile(&folder, arch, &standing_in());
        assert_eq!((found.code, found.stderr), (Some(1), format!("{region} {told}\n")));
    }
}

#[test]
fn a_device_of_another_architecture_asks_for_another_compile() {
    let folder = bench();
    compile(&folder, "sm_80", &standing_in()).success();
    let on = |capability: &str, arguments: &[&str]| {
        let settings = [&standing_in()[..], &[("STANDIN_CAPABILITY", capability)]].concat();
        run(&folder, arguments, &settings)
    };
    on("86", &["verify", "model.byoc", "--model", "model.onnx"]).success();
    let checked = on("90", &["check", "model.byoc"]);
    let reason =
        "Softmax has code for sm_80, and cuda:0 is sm_90. Compile the model again with --backend-opt cuda.arch=sm_90a";
    assert!(checked.code == Some(3) && checked.stdout.contains(reason), "{checked:?}");
    let told = on("90", &["run", "model.byoc", "--fill", "ones"]);
    let cannot = "error: [B703] backend 'cuda' cannot load region byoc_main_cuda_0: Softmax has code for sm_80, and cuda:0 is \
                  sm_90\n  hint: Compile the model again with --backend-opt cuda.arch=sm_90a\n";
    assert_eq!((told.code, told.stderr.as_str()), (Some(1), cannot));
}
