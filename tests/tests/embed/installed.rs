//! What `core/bindings/c/install.sh` installs.

use std::process::Command;

use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;
use byoc_tests::places;
use byoc_tests::program::outcome;
use byoc_tests::trial::{Needed, Skip, Trial, trial};

use crate::{COMPILERS, build, folder_of_library, run};

/// A program of CMake's that uses the installed library.
const PROJECT: &str = "cmake_minimum_required(VERSION 3.10)\nproject(example C)\nfind_package(byoc VERSION REQUIRED)\n\
    add_executable(program run.c)\ntarget_link_libraries(program byoc::byoc)\n";

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("is_found_by_pkg_config_and_cmake", is_found_by_pkg_config_and_cmake)]
}

fn is_found_by_pkg_config_and_cmake() -> Needed<()> {
    for tool in ["pkg-config", "cmake"] {
        let there = Command::new(tool).arg("--version").output();
        there.map_err(|error| Skip(format!("it needs {tool}: {error}")))?;
    }
    let folder = Folder::compiled(small());
    let prefix = folder.path().join("installed");
    let script = folder_of_library().join("install.sh");
    let installed =
        outcome(Command::new("bash").arg(script).arg(&prefix).arg(places::dependencies().join("libbyoc.so")));
    assert_eq!((installed.code, installed.stderr.as_str()), (Some(0), ""));
    // What is installed may be moved.
    let moved = folder.path().join("moved");
    std::fs::rename(&prefix, &moved).expect("the folder is ours");
    let expected = {
        build(COMPILERS[0], &places::checkout().join("docs/examples/run.c"), folder.path());
        run(&folder, &["model.byoc"]).success().to_owned()
    };

    let tell = |what: &[&str]| {
        let mut command = Command::new("pkg-config");
        outcome(command.env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig")).args(what).arg("byoc")).success().to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(tell(&["--modversion"]).trim(), version);
    let flags = tell(&["--cflags", "--libs"]);
    let mut compiler = Command::new("cc");
    compiler.arg(places::checkout().join("docs/examples/run.c")).args(flags.split_whitespace());
    compiler.arg(format!("-Wl,-rpath,{}", moved.join("lib").display())).arg("-o").arg(folder.path().join("program"));
    assert_eq!(outcome(&mut compiler).success(), "");
    assert_eq!(run(&folder, &["model.byoc"]).success(), expected);

    let project = folder.path().join("project");
    std::fs::create_dir(&project).expect("the folder is ours");
    places::copy_into(&project, &places::checkout().join("docs/examples/run.c"), "run.c");
    let cmake = |version: &str| {
        places::write(&project, "CMakeLists.txt", PROJECT.replace("VERSION REQUIRED", &format!("{version} REQUIRED")));
        let mut command = Command::new("cmake");
        command.arg("-S").arg(&project).arg("-B").arg(project.join("build"));
        outcome(command.arg(format!("-DCMAKE_PREFIX_PATH={}", moved.display())))
    };
    assert!(cmake("99.0").stderr.contains(&format!("byoc-config.cmake, version: {version}")), "{:?}", cmake("99.0"));
    cmake(version.rsplit_once('.').expect("three numbers").0).success();
    outcome(Command::new("cmake").arg("--build").arg(project.join("build"))).success();
    std::fs::rename(project.join("build/program"), folder.path().join("program")).expect("it was built");
    assert_eq!(run(&folder, &["model.byoc"]).success(), expected);
    Ok(())
}
