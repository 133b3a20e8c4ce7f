//! Where the kernels for sm_90a copy their operands to, against where `wgmma` reads them: a program for the host has the
//! kernels' own copies and layouts, CuTe's descriptors of these, and models of what TMA and `wgmma` do.

use std::process::Command;

use byoc_cutlass::all_kernels::{KernelSource, tile_names, wgmma_kernels};
use byoc_nvidia::program::{Argument, Launch};
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places, sample};

/// What is before the kernels in the program, and what is behind them.
const DEVICE: &str = include_str!("placement/device.h");
const CHECK: &str = include_str!("placement/check.h");

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("copies_are_where_wgmma_reads", copies_are_where_wgmma_reads)]
}

/// In all kernels as they are, and not in those whose copies or layouts are others: one change in a sample.
fn copies_are_where_wgmma_reads() -> Needed<()> {
    let kernels = wgmma_kernels().expect("they can be generated");
    let right = wrong_elements(&kernels, |text| text)?;
    assert_eq!(right, vec![0; kernels.unsettled_launches().count()]);

    let tiles: Vec<_> = tile_names().into_iter().filter(|name| name.contains("wgmma")).collect();
    assert_eq!(right.len(), 2 * tiles.len(), "w by rows and by columns");
    // Of more than 64 columns stored by rows, the next 64 lie behind all of K.
    let by_columns = |name: &String| [name.split('x').nth(1) != Some("64"), false];
    let for_some: Vec<bool> = tiles.iter().flat_map(by_columns).collect();
    let for_all = vec![true; right.len()];
    let changes = [
        ("Deep<N>{}, KFirst{}", "Deep<N>{}", &for_some),
        ("to + j * DEEP, n + j", "to + j, n + j", &for_some),
        ("Layout_K_SW128_Atom", "Layout_K_SW64_Atom", &for_all),
    ];
    for (here, there, expected) in sample::every(3, changes) {
        let found = wrong_elements(&kernels, |text| changed(text, here, there))?;
        let wrong: Vec<_> = found.iter().map(|&count| count != 0).collect();
        assert_eq!(&wrong, expected, "{there}: {found:?}");
    }
    Ok(())
}

fn changed(text: String, here: &str, there: &str) -> String {
    assert!(text.contains(here), "there is no '{here}'");
    text.replace(here, there)
}

/// How many elements each kernel would read that are not its own, after a change of the source.
fn wrong_elements(kernels: &KernelSource, change: impl Fn(String) -> String) -> Needed<Vec<i64>> {
    let packages = data::nvidia()?;
    let scratch = places::temporary();
    let (source, program) = (scratch.path().join("placement.cpp"), scratch.path().join("placement"));
    let calls: String = kernels.unsettled_launches().map(call).collect();
    let kernels = change(without_functions(&kernels.source.text));
    let text = format!("{DEVICE}\n{kernels}\n{CHECK}\nint main() {{\n{calls}}}\n");
    std::fs::write(&source, text).expect("the folder is ours");

    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O1", "-w", "-fpermissive"]);
    let cutlass = packages.with_file_name("cutlass_library/source/include");
    for folder in [packages.join("cu13/include"), packages.join("cu13/include/cccl"), cutlass] {
        compiler.arg("-I").arg(folder);
    }
    let output = compiler.arg(&source).arg("-o").arg(&program).output().expect("C++ is compiled here");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().expect("it has been made");
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).expect("it is text");
    Ok(lines.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("'{line}' is not a number"))).collect())
}

/// The headers, and the type of each kernel without the function that is launched.
fn without_functions(text: &str) -> String {
    let mut pieces = text.split("extern \"C\" __global__");
    let first = pieces.next().expect("a text has a beginning").to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once("\n}\n").expect("a function ends").1)
}

/// The statement that tells of a kernel, with the boxes of its tensor maps.
fn call(launch: &Launch) -> String {
    let [Argument::TensorMap(x), Argument::TensorMap(w), ..] = &launch.arguments[..] else { panic!("{launch:?}") };
    assert_eq!((x.swizzle, w.swizzle), (128, 128));
    let [x, w] = [x, w].map(|map| format!("Box{{{}, {}}}", map.block[0], map.block[1]));
    format!("  printf(\"%d\\n\", wrong((k_::Kernel *)nullptr, {x}, {w}));\n")
        .replace("k_", &format!("{}_", launch.kernel))
}
