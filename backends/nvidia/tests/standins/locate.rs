//! Where libraries are found, and the errors for missing and unsupported ones.

use std::path::Path;

use byoc_nvidia_standins::{Child, FOLDER, both, build, compile, copy, shield, temporary};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("locate::in_the_users_folder", in_the_users_folder),
    ("locate::in_every_place", in_every_place),
    ("locate::the_first_place_wins", the_first_place_wins),
    ("locate::what_is_found_is_remembered", what_is_found_is_remembered),
    ("locate::nothing_is_there", nothing_is_there),
    ("locate::a_file_does_not_open", a_file_does_not_open),
    ("locate::versions_that_do_not_fit", versions_that_do_not_fit),
    ("locate::an_older_one_for_an_older_driver", an_older_one_for_an_older_driver),
    ("locate::functions_that_are_missing", functions_that_are_missing),
    ("locate::another_name_comes_first", another_name_comes_first),
    ("locate::a_library_to_link_with", a_library_to_link_with),
    ("locate::nvrtc_finds_its_builtins", nvrtc_finds_its_builtins),
    ("locate::devices_that_are_missing", devices_that_are_missing),
];

const DEVICE: &str = "cuda:0 stand-in 0, compute capability 9.0";

fn in_the_users_folder() {
    let scratch = temporary();
    let child = Child::new("open").with(FOLDER, both()).with("LD_LIBRARY_PATH", shield(scratch.path()));
    let expected = format!("libcuda 13.0 (DIR/libcuda.so.1)\nlibcublasLt 13.0 (DIR/libcublasLt.so.13)\n{DEVICE}");
    assert_eq!(child.with("STANDIN_DEVICES", "1").output(both()), expected);
}

/// The driver comes from the loader's path, and cublasLt from each place in turn.
fn in_every_place() {
    let (driver, scratch) = (both().join("libcuda.so.1"), temporary());
    let shield = shield(scratch.path());
    copy(&driver, &shield.join("libcuda.so.1"));
    for (variable, value, folder, file, version) in [
        ("BYOC_CUDA_PATH", "asked", "asked", "libcublasLt.so.13", "13.0"),
        ("CUDA_HOME", "cuda", "cuda/lib64", "libcublasLt.so.13", "13.0"),
        ("CUDA_HOME", "home", "home/lib", "libcublasLt.so.12", "12.9"),
        ("VIRTUAL_ENV", "venv", "venv/lib/python3.11/site-packages/nvidia/cu13/lib", "libcublasLt.so.13", "13.0"),
        ("CONDA_PREFIX", "base", "base/lib", "libcublasLt.so.12", "12.9"),
        ("CONDA_PREFIX", "conda", "conda/lib/python3.9/site-packages/nvidia/cublas/lib", "libcublasLt.so.12", "12.9"),
    ] {
        build(&scratch.path().join(folder), "libcublasLt", file, &[]);
        let number = if version == "12.9" { "120904" } else { "130002" };
        let child = Child::new("open").with("LD_LIBRARY_PATH", &shield).with(variable, scratch.path().join(value));
        let output = child.with("STANDIN_CUBLASLT", number).output(scratch.path());
        let libraries = format!("libcuda 13.0 (DIR/shield/libcuda.so.1)\nlibcublasLt {version} (DIR/{folder}/{file})");
        assert_eq!(output, format!("{libraries}\n{DEVICE}"));
    }
}

fn the_first_place_wins() {
    let scratch = temporary();
    let place = |name: &str| {
        let folder = scratch.path().join(name);
        for file in ["libcuda.so.1", "libcublasLt.so.13"] {
            copy(&both().join(file), &folder.join(file));
        }
        folder
    };
    let (option, variable, loader) = (place("option"), place("variable"), place("loader"));
    place("home/lib64");
    let path = std::env::join_paths([loader, shield(scratch.path())]).expect("the names have no separators");
    let child = || {
        let child = Child::new("open").with("LD_LIBRARY_PATH", &path);
        child.with("CUDA_HOME", scratch.path().join("home"))
    };
    let used = |child: Child| child.output(scratch.path()).lines().nth(1).unwrap_or_default().to_owned();
    assert_eq!(used(child()), "libcublasLt 13.0 (DIR/loader/libcublasLt.so.13)");
    let child = || child().with("BYOC_CUDA_PATH", &variable);
    assert_eq!(used(child()), "libcublasLt 13.0 (DIR/variable/libcublasLt.so.13)");
    assert_eq!(used(child().with(FOLDER, &option)), "libcublasLt 13.0 (DIR/option/libcublasLt.so.13)");
}

/// The files go away after the first search; another search path is searched all the same.
fn what_is_found_is_remembered() {
    let scratch = temporary();
    let folder = scratch.path().join("folder");
    for file in ["libcuda.so.1", "libcublasLt.so.13"] {
        copy(&both().join(file), &folder.join(file));
    }
    let child = Child::new("open-again").with(FOLDER, &folder).with("LD_LIBRARY_PATH", shield(scratch.path()));
    let found = "libcuda 13.0 (DIR/folder/libcuda.so.1), libcublasLt 13.0 (DIR/folder/libcublasLt.so.13)";
    let other = format!("there is no libcuda.so.1 in DIR/folder/libcuda.so.1 ({DRIVER_HINT})");
    assert_eq!(child.output(scratch.path()), format!("{found}\n{found}\n{other}"));
}

const DRIVER_HINT: &str = "Install NVIDIA's driver 525 or newer, or name the folder of libcuda.so.1 in BYOC_CUDA_PATH";
const CUBLASLT_HINT: &str = "Try `pip install nvidia-cublas==13.0.*`, or name its folder in BYOC_CUDA_PATH";

fn nothing_is_there() {
    let scratch = temporary();
    let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
    let folders = std::env::join_paths([&one, &other]).expect("the names have no separators");
    let output = Child::new("open-only").with(FOLDER, &folders).output(scratch.path());
    assert_eq!(output, format!("there is no libcuda.so.1 in DIR/one, DIR/other ({DRIVER_HINT})"));
    copy(&both().join("libcuda.so.1"), &one.join("libcuda.so.1"));
    let child = || Child::new("open-only").with("LD_LIBRARY_PATH", shield(scratch.path()));
    let output = child().with(FOLDER, &folders).output(scratch.path());
    let what = "libcublasLt.so.13 or libcublasLt.so.12";
    assert_eq!(output, format!("there is no {what} in DIR/one, DIR/other ({CUBLASLT_HINT})"));

    // Every place that there is, with the folders that packages of a Python environment may have.
    std::fs::create_dir_all(scratch.path().join("venv/lib/python3.12")).expect("the folder is ours");
    let child = Child::new("open").with(FOLDER, &one).with("LD_LIBRARY_PATH", shield(scratch.path()));
    let child = child.with("CUDA_HOME", scratch.path().join("cuda")).with("BYOC_CUDA_PATH", &other);
    let output = child.with("VIRTUAL_ENV", scratch.path().join("venv")).output(scratch.path());
    let packages = "DIR/venv/lib/python3.12/site-packages/nvidia";
    let searched = format!(
        "DIR/one, DIR/other, the loader's path, DIR/cuda/lib64, DIR/cuda/lib, {packages}/cu13/lib, {packages}/cublas/lib"
    );
    assert_eq!(output, format!("there is no {what} in {searched} ({CUBLASLT_HINT})"));
}

fn a_file_does_not_open() {
    let scratch = temporary();
    let file = scratch.path().join("libcuda.so.1");
    std::fs::write(&file, "no library").expect("the folder is ours");
    let output = Child::new("open-only").with(FOLDER, scratch.path()).output(scratch.path());
    let cause = "DIR/libcuda.so.1 does not open: DIR/libcuda.so.1: file too short";
    assert_eq!(output, format!("there is no libcuda.so.1 in DIR; {cause} ({DRIVER_HINT})"));
    assert_eq!(output.lines().count(), 1);
}

fn versions_that_do_not_fit() {
    let (scratch, path) = (temporary(), both());
    let shield = shield(scratch.path());
    let said = |driver: &str, cublaslt: &str| {
        let child = Child::new("open").with(FOLDER, path).with("LD_LIBRARY_PATH", &shield);
        child.with("STANDIN_DRIVER", driver).with("STANDIN_CUBLASLT", cublaslt).output(path)
    };
    let driver = "libcuda 11.4 (DIR/libcuda.so.1) is not 12.0 or newer";
    assert_eq!(said("11040", "130002"), format!("{driver} ({DRIVER_HINT})"));
    for (number, version) in [("110605", "11.6"), ("140000", "14.0"), ("0", "0.0")] {
        let library = format!("libcublasLt {version} (DIR/libcublasLt.so.13) is not 12.0 to 13.x");
        assert_eq!(said("13000", number), format!("{library} ({CUBLASLT_HINT})"));
    }
    let pair = "libcublasLt 13.0 (DIR/libcublasLt.so.13) is newer than the driver (DIR/libcuda.so.1), \
                which runs CUDA up to 12.4";
    let hint = "Update NVIDIA's driver, or try `pip install nvidia-cublas-cu12`";
    assert_eq!(said("12040", "130002"), format!("{pair} ({hint})"));
    assert!(said("14020", "130102").starts_with("libcuda 14.2 (DIR/libcuda.so.1)\nlibcublasLt 13.1 "));
}

/// A library that the driver cannot use does not hide one that it can.
fn an_older_one_for_an_older_driver() {
    let scratch = temporary();
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    for file in ["libcuda.so.1", "libcublasLt.so.13"] {
        copy(&both().join(file), &first.join(file));
    }
    let folders = std::env::join_paths([&first, &second]).expect("the names have no separators");
    let said = |driver: &str, number: &str| {
        let child = Child::new("open-only").with(FOLDER, &folders).with("LD_LIBRARY_PATH", shield(scratch.path()));
        child.with("STANDIN_DRIVER", driver).with("STANDIN_CUBLASLT", number).output(scratch.path())
    };
    build(&second, "libcublasLt", "libcublasLt.so.12", &[]);
    let older = "libcublasLt 12.9 (DIR/second/libcublasLt.so.12)";
    assert_eq!(said("12040", "120904"), format!("libcuda 12.4 (DIR/first/libcuda.so.1)\n{older}\n{DEVICE}"));
    let newer = "libcublasLt 13.0 (DIR/first/libcublasLt.so.13)";
    assert_eq!(said("13000", "130002"), format!("libcuda 13.0 (DIR/first/libcuda.so.1)\n{newer}\n{DEVICE}"));
    for folder in [&first, &second] {
        std::fs::remove_dir_all(folder).expect("the folder is ours");
    }
    copy(&both().join("libcuda.so.1"), &first.join("libcuda.so.1"));
    let missing = "there is no libcublasLt.so.13 or libcublasLt.so.12 in DIR/first, DIR/second";
    let hint = CUBLASLT_HINT.replace("nvidia-cublas==13.0.*", "nvidia-cublas-cu12");
    assert_eq!(said("12040", "120904"), format!("{missing} ({hint})"));
}

/// Drivers and cublasLts that have all functions but one.
fn functions_that_are_missing() {
    use byoc_nvidia::locate::Library;
    let scratch = temporary();
    let shield = shield(scratch.path());
    let lists = [
        (Library::Driver, "libcuda.so.1", 51, DRIVER_HINT),
        (Library::CublasLt, "libcublasLt.so.13", 13, CUBLASLT_HINT),
    ];
    for (library, file, count, hint) in lists {
        assert_eq!(library.functions().len(), count);
        // Building takes most of the time; the first, the last, and some between are enough.
        for function in library.functions().iter().step_by(6).chain(library.functions().last()) {
            let folder = scratch.path().join(function);
            let left_out: Vec<_> = function.split(" or ").collect();
            for other in ["libcuda.so.1", "libcublasLt.so.13"] {
                copy(&both().join(other), &folder.join(other));
            }
            build(&folder, library.name(), file, &left_out);
            let child = Child::new("open").with(FOLDER, &folder).with("LD_LIBRARY_PATH", &shield);
            let output = child.output(&folder);
            assert_eq!(output, format!("{} (DIR/{file}) has no function {function} ({hint})", library.name()));
        }
    }
}

/// What cudarc opens first is `libcublasLt.so`, of whatever version.
fn another_name_comes_first() {
    let scratch = temporary();
    let shield = shield(scratch.path());
    build(&scratch.path().join("other"), "libcublasLt", "libcublasLt.so.12", &[]);
    let path = std::env::join_paths([&scratch.path().join("other"), &shield]).expect("the names have no separators");
    std::fs::rename(scratch.path().join("other/libcublasLt.so.12"), scratch.path().join("other/libcublasLt.so"))
        .expect("the file is there");
    let output = Child::new("open").with(FOLDER, both()).with("LD_LIBRARY_PATH", path).output(scratch.path());
    let both = both();
    let asked = both.join("libcublasLt.so.13");
    let message = format!("DIR/other/libcublasLt.so comes before {} under another name", asked.display());
    assert_eq!(
        output,
        format!("{message} (Take DIR/other out of LD_LIBRARY_PATH, or name that folder in BYOC_CUDA_PATH)")
    );

    // Where the loader decides anyway, the one that it finds first is as good as another.
    let path =
        std::env::join_paths([&scratch.path().join("other"), both, &shield]).expect("the names have no separators");
    let output = Child::new("open").with("LD_LIBRARY_PATH", path).output(scratch.path());
    assert_eq!(output.lines().nth(1), Some("libcublasLt 13.0 (DIR/other/libcublasLt.so)"));
}

/// The toolkit's own `libcuda.so` answers every call with CUDA_ERROR_STUB_LIBRARY.
fn a_library_to_link_with() {
    let scratch = temporary();
    let source = scratch.path().join("stub.c");
    std::fs::write(&source, "int cuDriverGetVersion(int *version) { *version = 0; return 34; }\n")
        .expect("the folder is ours");
    let built = compile(&[source], &scratch.path().join("libcuda.so.1"), &[]);
    copy(&built, &scratch.path().join("stubs/libcuda.so"));
    let path = std::env::join_paths([&scratch.path().join("stubs"), both()]).expect("the names have no separators");
    let output = Child::new("open").with("LD_LIBRARY_PATH", path).output(scratch.path());
    let hint = "Take DIR/stubs out of LD_LIBRARY_PATH: it has stubs, which are only to link with";
    assert_eq!(output, format!("libcuda (DIR/stubs/libcuda.so) does not report its version ({hint})"));
}

/// NVRTC that cannot open its builtins by their bare name is of no use; this one does not even tell its version.
const NVRTC: &str = r#"
#include <dlfcn.h>
int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return dlopen("libnvrtc-builtins.so.13.0", RTLD_NOW) ? 0 : 7;
}
#define FUNCTION(name) int name(void) { return 7; }
FUNCTION(nvrtcCompileProgram) FUNCTION(nvrtcCreateProgram) FUNCTION(nvrtcDestroyProgram) FUNCTION(nvrtcGetCUBIN)
FUNCTION(nvrtcGetCUBINSize) FUNCTION(nvrtcGetErrorString) FUNCTION(nvrtcGetProgramLog) FUNCTION(nvrtcGetProgramLogSize)
FUNCTION(nvrtcGetNumSupportedArchs) FUNCTION(nvrtcGetSupportedArchs)
"#;

fn nvrtc_finds_its_builtins() {
    let scratch = temporary();
    let folder = scratch.path().join("venv/lib/python3.11/site-packages/nvidia/cu13/lib");
    let source = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("the folder is ours");
        path
    };
    compile(&[source("nvrtc.c", NVRTC)], &folder.join("libnvrtc.so.13"), &[]);
    let child = || {
        let child = Child::new("nvrtc").with("LD_LIBRARY_PATH", shield(scratch.path()));
        child.with("VIRTUAL_ENV", scratch.path().join("venv"))
    };
    let path = "DIR/venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
    let hint = "Try `pip install nvidia-cuda-nvrtc==13.0.*`, or name its folder in BYOC_CUDA_PATH";
    let expected = format!("libnvrtc ({path}) does not report its version ({hint})");
    assert_eq!(child().output(scratch.path()), expected);
    let builtins = source("builtins.c", "int builtins;\n");
    compile(&[builtins], &folder.join("libnvrtc-builtins.so.13.0"), &[]);
    // A twin in the packages that must not be opened in its stead.
    std::fs::write(folder.join("libnvrtc-builtins.alt.so.13.0"), "").expect("the folder is ours");
    assert_eq!(child().output(scratch.path()), format!("libnvrtc 13.0 ({path})"));
}

fn devices_that_are_missing() {
    let scratch = temporary();
    let shield = shield(scratch.path());
    let said = |action: &str, variable: &str, value: &str| {
        let child = Child::new(action).with(FOLDER, both()).with("LD_LIBRARY_PATH", &shield);
        child.with(variable, value).output(Path::new(both()))
    };
    let driver = "the driver for CUDA 13.0 (DIR/libcuda.so.1)";
    let hint = "Check whether `nvidia-smi` lists it, and whether CUDA_VISIBLE_DEVICES leaves it out";
    let none = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected";
    assert_eq!(said("open", "STANDIN_DEVICES", "0"), format!("{driver} cannot be initialised: {none} ({hint})"));
    let other = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: system has unsupported display driver / cuda driver combination";
    assert_eq!(said("open", "STANDIN_INIT", "803"), format!("{driver} cannot be initialised: {other} ({hint})"));
    let three = said("third-device", "STANDIN_DEVICES", "2");
    assert_eq!(three, format!("{driver} finds no device cuda:2 (It finds cuda:0, cuda:1)"));
    assert_eq!(said("third-device", "STANDIN_DEVICES", "3"), "");
    // No other device is asked anything.
    let child = Child::new("third-device").with(FOLDER, both()).with("LD_LIBRARY_PATH", &shield);
    assert_eq!(child.with("STANDIN_DEVICES", "3").with("STANDIN_LOST", "1").output(both()), "");
    let lost = "CUDA_ERROR_INVALID_DEVICE: invalid device ordinal";
    assert_eq!(said("open", "STANDIN_LOST", "0"), format!("{driver} cannot read cuda:0: {lost} ({hint})").as_str());
}
