//! `byoc merge` and `byoc extract`: any way to a set of variants leads to the same bytes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, external};
use byoc_tests::places;
use byoc_tests::program::{Outcome, byoc};

use super::{Bench, model};

/// Variants of the model, and what belongs to each on the command line.
const ALL: [(&str, &str, &[&str]); 5] = [
    ("gpu", "blas,cpu", &[]),
    ("npu", "panels,cpu", &[]),
    ("wide", "panels,cpu", &["--backend-opt", "wide:panels.layout=panels-16/1"]),
    ("chip", "embedder,cpu", &[]),
    ("cpu", "cpu", &[]),
];

/// Compiles some of them at once, in that order.
fn compile(bench: &Bench, output: &str, chosen: &[usize]) {
    let variants: Vec<_> = chosen.iter().map(|&it| format!("{}={}", ALL[it].0, ALL[it].1)).collect();
    let variants: Vec<_> = variants.iter().map(String::as_str).collect();
    let flags: Vec<_> = chosen.iter().flat_map(|&it| ALL[it].2.iter().copied()).collect();
    bench.compile(output, &variants, &flags);
}

fn merge(folder: &Folder, files: &[String], output: &str) -> Outcome {
    let files = files.iter().map(String::as_str);
    folder.byoc(&["merge"].into_iter().chain(files).chain(["-o", output]).collect::<Vec<_>>())
}

fn extract(folder: &Folder, file: &str, chosen: &[usize], output: &str) -> Outcome {
    let names = chosen.iter().flat_map(|&it| ["--variant", ALL[it].0]);
    folder.byoc(&["extract", file].into_iter().chain(names).chain(["-o", output]).collect::<Vec<_>>())
}

/// Any subset in any order: compiled at once, merged from parts of any size, and cut out of a larger file, it is the same.
#[test]
fn any_way_leads_to_the_same_bytes() {
    let bench = Bench::new();
    for (index, (name, ..)) in ALL.iter().enumerate() {
        compile(&bench, &format!("{name}.byoc"), &[index]);
    }
    let mut random = fastrand::Rng::with_seed(21);
    for round in 0..8 {
        let mut order: Vec<usize> = (0..ALL.len()).collect();
        random.shuffle(&mut order);
        let (chosen, others) = order.split_at(random.usize(1..=ALL.len()));
        compile(&bench, "once.byoc", chosen);
        let once = bench.read("once.byoc");
        let parts: Vec<String> = chosen.iter().map(|&it| format!("{}.byoc", ALL[it].0)).collect();
        if let [_, _, ..] = parts.as_slice() {
            merge(bench.folder(), &parts, "merged.byoc").success();
            assert!(bench.read("merged.byoc") == once, "round {round}, merged: {chosen:?}");
            let (first, rest) = parts.split_at(random.usize(1..parts.len()));
            // A part of one file stays as it is.
            let joined = |files: &[String], name: &str| match files {
                [one] => one.clone(),
                several => {
                    merge(bench.folder(), several, name).success();
                    name.to_owned()
                }
            };
            let halves = [joined(first, "first.byoc"), joined(rest, "rest.byoc")];
            merge(bench.folder(), &halves, "halves.byoc").success();
            assert!(bench.read("halves.byoc") == once, "round {round}, by halves: {chosen:?}");
        }
        if let [first, ..] = others {
            let larger: Vec<usize> = [&[*first], chosen].concat();
            compile(&bench, "larger.byoc", &larger);
            extract(bench.folder(), "larger.byoc", chosen, "cut.byoc").success();
            assert!(bench.read("cut.byoc") == once, "round {round}, cut out: {chosen:?}");
        }
    }
}

/// What was settled over all variants stays settled.
#[test]
fn shared_forms_stay_as_they_are() {
    let bench = Bench::new();
    bench.compile("all.byoc", &["npu=panels,cpu", "gpu=blas,cpu"], &["--share"]);
    for name in ["npu", "gpu"] {
        let output = format!("{name}.byoc");
        bench.folder().byoc(&["extract", "all.byoc", "--variant", name, "-o", &output]).success();
        bench.byoc(&["verify", &output, "--model", "model.onnx"]).success();
    }
    merge(bench.folder(), &["npu.byoc".into(), "gpu.byoc".into()], "again.byoc").success();
    assert!(bench.read("again.byoc") == bench.read("all.byoc"));
}

/// An artifact of before is given a name, and a file with one variant another one.
#[test]
fn names_are_given_on_the_command_line() {
    let bench = Bench::new();
    bench.byoc(&["compile", "model.onnx", "-o", "plain.byoc"]).success();
    compile(&bench, "gpu.byoc", &[0]);
    let merged = merge(bench.folder(), &["old=plain.byoc".into(), "new=gpu.byoc".into()], "m.byoc");
    assert!(merged.success().contains("\nold      json"), "{}", merged.stdout);
    bench.compile("once.byoc", &["old=cpu", "new=blas,cpu"], &[]);
    assert!(bench.read("m.byoc") == bench.read("once.byoc"));
    let said = |files: &[&str]| {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        merge(bench.folder(), &files, "out.byoc")
    };
    said(&["plain.byoc", "gpu.byoc"]).fails(
        2,
        "error: [B901] 'plain.byoc' was compiled without --variant, so that its variant has no name\n  hint: Put one in front of it: NAME=plain.byoc",
    );
    said(&["gpu.byoc", "gpu=plain.byoc"])
        .fails(2, "error: [B901] there are two variants 'gpu'\n  hint: Give each a name of its own");
    said(&["x=m.byoc", "gpu.byoc"]).fails(
        2,
        "error: [B901] 'm.byoc' has 2 variants, which cannot all have one name\n  hint: Leave out the name in front of it",
    );
    said(&["gpu.byoc", "model.onnx"]).fails(
        1,
        "error: [B602] 'model.onnx' is not an artifact: it is an ONNX model\n  hint: Compile it first: byoc compile model.onnx -o model.byoc",
    );
}

/// Files that are not of one model are refused by what differs.
#[test]
fn other_models_are_refused() {
    let bench = Bench::new();
    compile(&bench, "gpu.byoc", &[0]);
    let compiled = |name: &str, model: Model, flags: &[&str]| {
        bench.folder().write("other.onnx", model.finish());
        let variant = format!("{name}=cpu");
        let arguments = ["compile", "other.onnx", "-o", "other.byoc", "--variant", &variant];
        bench.folder().byoc(&[&arguments, flags].concat()).success();
        merge(bench.folder(), &["gpu.byoc".into(), "other.byoc".into()], "out.byoc")
    };
    compiled("cpu", model(2), &[]).fails(
        2,
        "error: [B701] constant `v` has other elements in variant 'cpu' than in 'gpu'\n  hint: Compile both from one model, or swap the weights of one",
    );
    let small = |weight: &str, size: i64| {
        let values: Vec<f32> = (0..size).map(|i| i as f32).collect();
        Model::default()
            .input("x", Type::Float, &[2, size])
            .weight(weight, &[size], &values)
            .node("Mul", &["x", weight], &["y"])
            .output("y", Type::Float, &[2, size])
    };
    compiled("cpu", small("k", 256), &[]).fails(
        2,
        "error: [B701] variants 'gpu' and 'cpu' are not of the same model: they have no constant in common\n  hint: Compile both from one model",
    );
    compiled("cpu", small("k", 255), &[]).fails(
        2,
        "error: [B701] variants 'gpu' and 'cpu' are not of the same model: entry main: input 'x' is f32[2,256] and f32[2,255]\n  hint: Compile both from one model, with the same shapes",
    );
    let renamed = model(1).output("z", Type::Float, &[2, 256]).node("Relu", &["y"], &["z"]);
    compiled("cpu", renamed, &[]).fails(
        2,
        "error: [B701] variants 'gpu' and 'cpu' are not of the same model: entry main: its outputs are 'y' and 'y', 'z'\n  hint: Compile both from one model, with the same shapes",
    );
    bench.folder().byoc(&["compile", "e=model.onnx", "-o", "other.byoc", "--variant", "cpu=cpu"]).success();
    merge(bench.folder(), &["gpu.byoc".into(), "other.byoc".into()], "out.byoc").fails(
        2,
        "error: [B701] variants 'gpu' and 'cpu' are not of the same model: their entries are main and e\n  hint: Compile both from one model, with the same shapes",
    );
}

/// Each file is compared with all before it: one that has no such constant does not hide the difference of two others.
#[test]
fn every_file_is_compared_with_all_before_it() {
    let bench = Bench::new();
    let compiled = |name: &str, output: &str, model: Model| {
        bench.folder().write("part.onnx", model.finish());
        let variant = format!("{name}=cpu");
        bench.folder().byoc(&["compile", "part.onnx", "-o", output, "--variant", &variant]).success();
    };
    let weights = |w: &[f32]| {
        Model::default().input("x", Type::Float, &[4]).weight("k", &[4], &[1.0, 2.0, 3.0, 4.0]).weight("w", &[4], w)
    };
    let scaled = |w: &[f32]| {
        let model = weights(w).node("Mul", &["x", "k"], &["a"]).node("Add", &["a", "w"], &["y"]);
        model.output("y", Type::Float, &[4])
    };
    let without = Model::default().input("x", Type::Float, &[4]).weight("k", &[4], &[1.0, 2.0, 3.0, 4.0]);
    compiled("z", "z.byoc", without.node("Mul", &["x", "k"], &["y"]).output("y", Type::Float, &[4]));
    compiled("a", "a.byoc", scaled(&[0.5, 1.5, 2.5, 3.5]));
    compiled("b", "b.byoc", scaled(&[0.5, 1.5, 2.5, 9.5]));
    merge(bench.folder(), &["z.byoc".into(), "a.byoc".into(), "b.byoc".into()], "out.byoc").fails(
        2,
        "error: [B701] constant `w` has other elements in variant 'b' than in 'a'\n  hint: Compile both from one model, or swap the weights of one",
    );
}

/// A zero of one type beside a zero of another are two constants with the same bytes.
#[test]
fn equal_bytes_of_two_types_are_two_constants() {
    let folder = Folder::empty();
    // Little-endian, a zero and the k-th smallest number are the integer k << 32.
    let floats: Vec<f32> = (1..=32).flat_map(|k| [0.0, f32::from_bits(k)]).collect();
    let integers: Vec<i64> = (1..=32).map(|k| k << 32).collect();
    let model = Model::default()
        .input("x", Type::Float, &[2, 64])
        .input("i", Type::Int64, &[2, 32])
        .weight("f", &[64], &floats)
        .ints("n", &[32], &integers)
        .node("Add", &["x", "f"], &["y"])
        .node("Add", &["i", "n"], &["j"])
        .output("y", Type::Float, &[2, 64])
        .output("j", Type::Int64, &[2, 32]);
    folder.write("twin.onnx", model.finish());
    folder.byoc(&["compile", "twin.onnx", "-o", "once.byoc", "--variant", "a=cpu", "--variant", "b=cpu"]).success();
    for name in ["a", "b"] {
        folder.byoc(&["extract", "once.byoc", "--variant", name, "-o", &format!("{name}.byoc")]).success();
    }
    merge(&folder, &["a.byoc".into(), "b.byoc".into()], "merged.byoc").success();
    assert!(places::read(&folder.path().join("merged.byoc")) == places::read(&folder.path().join("once.byoc")));
    folder.byoc(&["verify", "merged.byoc", "--model", "twin.onnx"]).success();
}

/// A damaged section is found before it takes the place of a whole one, and nothing is written.
#[test]
fn damage_is_found() {
    let bench = Bench::new();
    compile(&bench, "gpu.byoc", &[0]);
    compile(&bench, "cpu.byoc", &[4]);
    let mut bytes = bench.read("gpu.byoc");
    let place = bytes.len() - 3000;
    bytes[place] ^= 1;
    bench.folder().write("damaged.byoc", &bytes);
    let message = |outcome: &Outcome| {
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{}", outcome.stderr);
        outcome.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let merged = merge(bench.folder(), &["damaged.byoc".into(), "cpu.byoc".into()], "out.byoc");
    let expected = "error: [B602] 'damaged.byoc' is damaged: section 'const/";
    assert!(message(&merged).starts_with(expected), "{}", merged.stderr);
    let cut = extract(bench.folder(), "damaged.byoc", &[0], "out.byoc");
    assert!(message(&cut).starts_with(expected), "{}", cut.stderr);
    assert!(!bench.folder().path().join("out.byoc").exists());
}

#[test]
fn what_is_not_there_is_not_extracted() {
    let bench = Bench::new();
    compile(&bench, "two.byoc", &[0, 4]);
    bench.byoc(&["compile", "model.onnx", "-o", "plain.byoc"]).success();
    let said = |arguments: &[&str], error: &str| {
        bench.folder().byoc(&[&["extract", "-o", "out.byoc"], arguments].concat()).fails(2, error);
    };
    said(
        &["two.byoc", "--variant", "tpu"],
        "error: [B702] 'two.byoc' has no variant 'tpu'\n  hint: Did you mean 'cpu'?",
    );
    said(
        &["plain.byoc", "--variant", "cpu"],
        "error: [B702] 'plain.byoc' has no variants\n  hint: Leave the name of the variant out",
    );
    said(
        &["two.byoc", "--variant", "cpu", "--variant", "cpu"],
        "error: [B901] there are two variants 'cpu'\n  hint: Give each a name of its own",
    );
}

/// Constants in other files stay there, and are seen from the folder of the files that refer to them.
#[test]
fn constants_in_other_files_stay_there() {
    let bench = Bench::new();
    bench.compile("gpu.byoc", &["gpu=blas,cpu"], &["--external-constants"]);
    bench.compile("npu.byoc", &["npu=csource,cpu"], &["--external-constants"]);
    merge(bench.folder(), &["gpu.byoc".into(), "npu.byoc".into()], "m.byoc").success();
    assert!(bench.size("m.byoc") < 20_000, "{}", bench.size("m.byoc"));
    bench.compile("once.byoc", &["gpu=blas,cpu", "npu=csource,cpu"], &["--external-constants"]);
    assert!(bench.read("m.byoc") == bench.read("once.byoc"));
    bench.byoc(&["verify", "m.byoc", "--model", "model.onnx"]).success();
    std::fs::create_dir(bench.folder().path().join("away")).expect("the folder is ours");
    merge(bench.folder(), &["gpu.byoc".into(), "npu.byoc".into()], "away/m.byoc").fails(
        2,
        "error: [B901] 'gpu.byoc' refers to 'model.onnx' from its folder\n  hint: Write the output into the same folder",
    );
}

/// A variant that has its constants in the file does not make files of another one free to be written over; and where those are gone,
/// it is taken.
#[test]
fn files_of_other_variants_are_not_written_over() {
    const SIDE: i64 = 64;
    let folder = Folder::empty();
    let data: Vec<u8> = (0..SIDE * SIDE).flat_map(|i| (i as f32).to_le_bytes()).collect();
    folder.write("weights.bin", &data);
    let model = Model::default()
        .input("x", Type::Float, &[2, SIDE])
        .tensor(external("w", &[SIDE, SIDE], "weights.bin"))
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[2, SIDE]);
    folder.write("model.onnx", model.finish());
    let compile = |output: &str, flags: &[&str]| {
        let unpacked = ["--backend-opt", "cpu.pack=false"];
        folder.byoc(&[&["compile", "model.onnx", "-o", output], &unpacked[..], flags].concat()).success();
    };
    compile("beside.byoc", &["--external-constants", "--variant", "beside=cpu"]);
    compile("within.byoc", &["--variant", "within=cpu"]);
    merge(&folder, &["beside.byoc".into(), "within.byoc".into()], "both.byoc").success();
    let refused = |arguments: &[&str]| {
        let outcome = folder.byoc(arguments);
        let error = "error: [B901] the output 'weights.bin' is the file 'weights.bin', which is read as constants of the artifact";
        assert_eq!((outcome.code, outcome.stderr.lines().next()), (Some(2), Some(error)), "{arguments:?}");
        assert!(places::read(&folder.path().join("weights.bin")) == data);
    };
    let within = ["--variant", "within", "-o", "weights.bin"];
    refused(&[&["extract", "both.byoc"], &within[..]].concat());
    refused(&[&["run", "both.byoc", "--fill", "ones"], &within[..]].concat());
    refused(&[&["report", "both.byoc"], &within[..]].concat());
    folder.byoc(&["extract", "both.byoc", "--variant", "within", "-o", "alone.byoc"]).success();
    std::fs::remove_file(folder.path().join("weights.bin")).expect("ours");
    let next = folder.byoc(&["run", "both.byoc", "--fill", "ones"]);
    next.success();
    let reason = "variant within; not beside: 'both.byoc' takes constants from 'weights.bin': cannot open";
    assert!(next.stderr.starts_with(reason), "{}", next.stderr);
    let check = folder.byoc(&["check", "both.byoc"]);
    assert!(check.success().ends_with("this machine can run it, and takes variant within\n"), "{}", check.stdout);
    folder.byoc(&["run", "alone.byoc", "--fill", "ones"]).success();
}

/// Killed at any point, `merge` and `extract` leave the old file or the new one, and mostly nothing beside it.
#[test]
fn what_is_killed_leaves_whole_files() {
    const KILLS: u32 = 30;
    let bench = Bench::new();
    compile(&bench, "gpu.byoc", &[0]);
    compile(&bench, "npu.byoc", &[1]);
    compile(&bench, "both.byoc", &[0, 1]);
    let mut random = fastrand::Rng::with_seed(3);
    let merge = ["merge", "gpu.byoc", "npu.byoc", "-o", "out.byoc"];
    let extract = ["extract", "both.byoc", "--variant", "npu", "-o", "out.byoc"];
    for command in [&merge[..], &extract] {
        let start = || {
            let mut command = byoc(command);
            command.current_dir(bench.folder().path()).stdout(Stdio::null()).spawn().expect("it starts")
        };
        let begin = Instant::now();
        assert!(start().wait().expect("it is ours").success());
        let time = begin.elapsed();
        let new = bench.read("out.byoc");
        let (mut killed, mut beside) = (0, 0);
        for _ in 0..KILLS {
            bench.folder().write("out.byoc", b"\x01old");
            let mut child = start();
            std::thread::sleep(Duration::min(time.mul_f64(1.2 * random.f64()), Duration::from_secs(5)));
            child.kill().expect("it is ours");
            killed += u32::from(!child.wait().expect("it is ours").success());
            let found = bench.read("out.byoc");
            assert!(found == b"\x01old" || found == new, "{command:?}: {} bytes", found.len());
            for name in places::list(bench.folder().path()).into_iter().filter(|name| name.ends_with(".tmp")) {
                std::fs::remove_file(bench.folder().path().join(name)).expect("it is ours");
                beside += 1;
            }
        }
        assert!(killed > KILLS / 10, "only {killed} of {command:?} were killed before they ended");
        assert!(beside <= KILLS / 10, "{beside} were killed between two system calls, which cannot be chance");
    }
}
