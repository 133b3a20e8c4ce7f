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
    add_executable(program run.c)\ntarget_link_libraries(program byoc::byoc)\n\
    add_executable(whole run.c)\ntarget_link_libraries(whole byoc::static)\n";

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
    let built = ["libbyoc.so", "libbyoc.a"].map(|name| places::dependencies().join(name));
    let installed = outcome(Command::new("bash").arg(script).arg(&prefix).args(built));
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
        outcome(command.env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig")).args(what)).success().to_owned()
    };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(tell(&["--modversion", "byoc"]).trim(), version);
    let compile = |package: &str| {
        let mut compiler = Command::new("cc");
        compiler.arg(places::checkout().join("docs/examples/run.c"));
        compiler.args(tell(&["--cflags", "--libs", package]).split_whitespace());
        compiler.arg("-o").arg(folder.path().join("program"));
        compiler
    };
    let rpath = format!("-Wl,-rpath,{}", moved.join("lib").display());
    assert_eq!(outcome(compile("byoc").arg(rpath)).success(), "");
    assert_eq!(run(&folder, &["model.byoc"]).success(), expected);
    // As a part of the program, which needs no library of ours then.
    assert_eq!(outcome(&mut compile("byoc-static")).success(), "");
    std::fs::rename(moved.join("lib/libbyoc.so"), moved.join("lib/elsewhere.so")).expect("the folder is ours");
    assert_eq!(run(&folder, &["model.byoc"]).success(), expected);
    std::fs::rename(moved.join("lib/elsewhere.so"), moved.join("lib/libbyoc.so")).expect("the folder is ours");

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
    for program in ["program", "whole"] {
        std::fs::rename(project.join("build").join(program), folder.path().join("program")).expect("it was built");
        assert_eq!(run(&folder, &["model.byoc"]).success(), expected, "{program}");
    }
    Ok(())
}
