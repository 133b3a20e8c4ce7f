//! A program of kernels end to end: loaded, planned, prepared, run and replayed. Its kernels run on the host.

mod bench;
mod damage;

use byoc_nvidia_standins::{FOLDER, all, tried};
use byoc_plugin_api::{ConstantId, DType, DeviceTensor, Error};

use self::bench::{Bench, code, cubin, expected, program};
use self::damage::{damage, damaged_code};
use crate::child::refused;

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("launch::numbers_for_each_batch", numbers_for_each_batch),
    ("launch::regions_share_machine_code", regions_share_machine_code),
    ("launch::the_variant_of_the_device", the_variant_of_the_device),
    ("launch::damaged_code", damaged_code),
    ("launch::tensors_that_do_not_fit", tensors_that_do_not_fit),
    ("launch::constants_that_do_not_fit", constants_that_do_not_fit),
    ("launch::a_kernel_that_goes_wrong", a_kernel_that_goes_wrong),
];

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    match action {
        "launch-numbers" => numbers(),
        "launch-share" => share(),
        "launch-variant" => variant(),
        "launch-damage" => damage(),
        "launch-tensors" => tensors(),
        "launch-constants" => constants(),
        "launch-outside" => outside(),
        _ => Err(Error::new(format!("no action {action}"))),
    }
}

/// What a child of that action prints, and the log, with all stand-ins.
fn ran(action: &str, settings: &[(&str, &str)]) -> (String, String) {
    let folder = all().to_str().expect("a plain path");
    tried(action, &[&[(FOLDER, folder), ("BYOC_CUDA_PATH", folder)], settings].concat())
}

fn numbers() -> Result<Vec<String>, Error> {
    let mut bench = Bench::open()?;
    let mut executable = bench.load(&code(&program()))?;
    let mut lines = Vec::new();
    for rows in [3, 17, 1] {
        bench.fill(rows, 10)?;
        let scratch = bench.prepare(&mut *executable, rows)?;
        executable.run()?;
        lines.push(format!("{rows} rows, {scratch} bytes: {}", bench.result(rows)? == expected(rows, 10)));
    }
    bench.domain.begin_recording()?;
    executable.run()?;
    let recording = bench.domain.end_recording()?;
    bench.fill(1, 200)?;
    bench.domain.replay(recording)?;
    lines.push(format!("replayed: {}", bench.result(1)? == expected(1, 200)));
    bench.prepare(&mut *executable, 0)?;
    executable.run()?;
    lines.push(format!("nothing launched: {}", bench.result(1)? == expected(1, 200)));
    drop(executable);
    Ok(lines)
}

fn numbers_for_each_batch() {
    let (output, log) = ran("launch-numbers", &[]);
    // Two of three pieces at a time: the third reuses the memory of the first.
    let expected = ["3 rows, 352 bytes: true", "17 rows, 1312 bytes: true", "1 rows, 288 bytes: true"];
    let replayed = ["replayed: true", "nothing launched: true"];
    assert_eq!(output.lines().collect::<Vec<_>>(), [&expected[..], &replayed].concat());
    let run = "launch k_add grid 3 1 1 block 8 1 1 shared 0\nlaunch k_scale grid 3 1 1 block 8 1 1 shared 100000\n\
               launch k_next grid 3 1 1 block 8 1 1 shared 0 overlapping\nlaunch k_last grid 3 1 1 block 8 1 1 shared 0\n";
    assert!(log.contains(run), "{log}");
    let made = "allocate 256\nlaunch k_make grid 1 1 1 block 1 1 1 shared 0\ndownload 256\nsynchronize stream\nfree 256\n\
                tensor map of type 11, rank 2, swizzle 1\n";
    assert!(log.contains(made), "{log}");
    assert!(log.contains("begin capture\nend capture: 4 pieces of work\n"), "{log}");
    assert_eq!(log.matches("launch k_add").count(), 4, "{log}");
    assert!(log.contains("unload module\nfree 32\n"), "{log}");
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

/// Three regions of one code and one of another; each runs on after others have gone.
fn share() -> Result<Vec<String>, Error> {
    let mut bench = Bench::open()?;
    let (one, mut other) = (program(), program());
    other.title = "another".into();
    let code = [code(&one), code(&other)];
    let mut regions = [0, 0, 1].iter().map(|&at: &usize| bench.load(&code[at])).collect::<Result<Vec<_>, Error>>()?;
    let mut lines = Vec::new();
    while let Some(mut region) = regions.pop() {
        bench.fill(2, 7)?;
        bench.prepare(&mut *region, 2)?;
        region.run()?;
        lines.push((bench.result(2)? == expected(2, 7)).to_string());
    }
    bench.load(&code[0])?;
    Ok(lines)
}

fn regions_share_machine_code() {
    let (output, log) = ran("launch-share", &[]);
    assert_eq!(output, "true\ntrue\ntrue");
    let events: Vec<_> = log.lines().filter(|line| line.ends_with("load module")).collect();
    assert_eq!(events, ["load module", "unload module", "load module", "unload module"]);
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn variant() -> Result<Vec<String>, Error> {
    let mut program = program();
    let mut plain = program.variants[0].clone();
    plain.arch = "sm_80".into();
    plain.launches.iter_mut().for_each(|launch| launch.cubin = 1);
    program.variants.push(plain);
    let mut code = Vec::new();
    program.write(&[&cubin("sm_90a"), &cubin("sm_80")], &mut code)?;
    let mut bench = Bench::open()?;
    let mut executable = bench.load(&code)?;
    bench.fill(2, 0)?;
    bench.prepare(&mut *executable, 2)?;
    executable.run()?;
    Ok(vec![(bench.result(2)? == expected(2, 0)).to_string()])
}

/// Each device takes one cubin only: the stand-in refuses code for another.
fn the_variant_of_the_device() {
    let said = |capability: &str| ran("launch-variant", &[("STANDIN_CAPABILITY", capability)]).0;
    // Kernels wait for those in front from compute capability 9.0 on, and drivers record that from CUDA 12.3 on.
    let overlaps = |capability: &str, driver: &str| {
        let settings = [("STANDIN_CAPABILITY", capability), ("STANDIN_DRIVER", driver)];
        let (output, log) = ran("launch-variant", &settings);
        assert_eq!(output, "true", "{capability}, {driver}");
        log.matches("overlapping").count()
    };
    assert_eq!([overlaps("90", "12030"), overlaps("90", "12020"), overlaps("86", "13000")], [1, 0, 0]);
    assert_eq!([said("90"), said("80"), said("86")], ["true"; 3]);
    let hint = "Compile the model again with --backend-opt cuda.arch=sm_120";
    let none = "sum and scale has code for sm_90a and sm_80, and cuda:0 is sm_120";
    assert_eq!(said("120"), format!("{none} ({hint})"));
}

fn tensors() -> Result<Vec<String>, Error> {
    let bench = Bench::open()?;
    let mut executable = bench.load(&code(&program()))?;
    let tensor = |dtype, shape| DeviceTensor { address: 0, dtype, shape };
    let (x, h, y) = (tensor(DType::F32, &[2, 8]), tensor(DType::F16, &[2, 8]), tensor(DType::F32, &[2, 8]));
    let mut said =
        |inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]| refused(executable.plan(inputs, outputs));
    let mut lines = vec![
        said(&[x], &[y]),
        said(&[x, x], &[y]),
        said(&[x, tensor(DType::F16, &[3, 8])], &[y]),
        said(&[x, tensor(DType::F16, &[2, 8, 1])], &[y]),
        said(&[tensor(DType::F32, &[2, 9]), h], &[y]),
        said(&[x, h], &[tensor(DType::F32, &[3, 8])]),
        said(&[x, h], &[]),
    ];
    lines.push(refused(executable.prepare(&[x, h], &[y], 0)));
    lines.push(refused(executable.run()));
    executable.plan(&[x, h], &[y])?;
    lines.push(refused(executable.prepare(&[x], &[y], 0)));
    Ok(lines)
}

fn tensors_that_do_not_fit() {
    let (output, _) = ran("launch-tensors", &[]);
    let expected = [
        "it has 2 inputs, not 1",
        "input 1 is f32 [2, 8], not f16 [N, 8]",
        "the size 'N' is 3, but the other inputs make it 2",
        "input 1 is f16 [2, 8, 1], not f16 [N, 8]",
        "input 0 is f32 [2, 9], not f32 [N, 8]",
        "output 0 is f32 [3, 8], not f32 [N, 8]",
        "it has 1 outputs, not 0",
        "it cannot be prepared before it is planned",
        "it cannot run before it is prepared",
        "it was planned for other tensors than it is prepared for",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected.map(|text| format!("sum and scale: {text} ()")));
}

fn constants() -> Result<Vec<String>, Error> {
    let bench = Bench::open()?;
    let code = code(&program());
    let said = |dtype, shape: &[i64], strides: &[i64]| refused(bench.load_with(&code, dtype, shape, strides));
    let mut lines = vec![
        said(DType::I32, &[2, 4], &[4, 1]),
        said(DType::F32, &[4, 2], &[2, 1]),
        said(DType::F32, &[8], &[1]),
        said(DType::F32, &[2, 4], &[1, 2]),
    ];
    for strides in [vec![0, 1], vec![1, -2], vec![1]] {
        let mut program = program();
        program.constants[0].strides = strides;
        lines.push(refused(bench.load(&self::code(&program))));
    }
    let mut packed = program();
    packed.constants[0].layout = Some("panels".into());
    lines.push(refused(bench.load(&self::code(&packed))));
    packed.constants[0].id = ConstantId(5);
    lines.push(refused(bench.load(&self::code(&packed))));
    Ok(lines)
}

fn constants_that_do_not_fit() {
    let (output, log) = ran("launch-constants", &[]);
    let lies = |strides: &str| {
        format!("constant 4 has strides [4, 1], but its kernels read {strides} (Compile the model again)")
    };
    let expected = [
        "constant 4 is i32 [2, 4], not f32 [2, 4] ()".into(),
        "constant 4 is f32 [4, 2], not f32 [2, 4] ()".into(),
        "constant 4 is f32 [8], not f32 [2, 4] ()".into(),
        "done".into(),
        lies("[0, 1]"),
        lies("[1, -2]"),
        "damaged code: constant 4 has an invalid shape ()".into(),
        "constant 4 is packed as 'the original', expected 'panels' (Compile the model again with this version of the backend)"
            .into(),
        "constant 5 is not bound ()".into(),
    ];
    let named = expected.map(|text: String| if text == "done" { text } else { format!("sum and scale: {text}") });
    assert_eq!(output.lines().collect::<Vec<_>>(), named);
    assert!(!log.contains("allocate 32\n"), "nothing was laid out anew: {log}");
}

fn outside() -> Result<Vec<String>, Error> {
    let mut program = program();
    program.variants[0].launches[0].kernel = "k_outside".into();
    program.variants[0].launches.truncate(1);
    let mut bench = Bench::open()?;
    let mut executable = bench.load(&code(&program))?;
    bench.prepare(&mut *executable, 2)?;
    Ok(vec![refused(executable.run()), refused(bench.result(2))])
}

/// The call that queues it succeeds; a later wait returns the failure.
fn a_kernel_that_goes_wrong() {
    let (output, log) = ran("launch-outside", &[]);
    let failure = "earlier work on cuda:0 failed: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access \
                   was encountered (CUDA accepts no more work from this process: start it again)";
    assert_eq!(output, format!("done\n{failure}"));
    assert!(log.contains("fault in k_outside: a write to byte -4 of an allocation of 64\n"), "{log}");
}
