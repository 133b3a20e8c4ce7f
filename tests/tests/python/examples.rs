//! The examples of `docs/examples` that use the Python module.

use std::path::Path;

use byoc_tests::program::outcome;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, places, sample};

use crate::with_module;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("a_batch_job_on_ray", a_batch_job_on_ray), trial("pictures_of_a_model", pictures_of_a_model)]
}

/// What is tested of the job with Ray, which takes a minute each.
const JOBS: [&str; 2] =
    ["test_replicas_share_the_file_and_compute_what_one_process_does", "test_a_killed_replica_loses_no_rows"];

/// `docs/examples/ray_batch.py`.
fn a_batch_job_on_ray() -> Needed<()> {
    let folder = places::temporary();
    let mut command = with_module(&data::examples()?, folder.path());
    command.args(["-W", "error::ResourceWarning", "-m", "unittest", "test_ray.Replica"]);
    command.args(sample::every(2, JOBS).into_iter().map(|job| format!("test_ray.Batch.{job}")));
    let output = command.current_dir(places::checkout().join("core/bindings/python/tests")).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// `docs/examples/look_inside.py` with the model that it makes, and with that as a model of the user's.
fn pictures_of_a_model() -> Needed<()> {
    let folder = places::temporary();
    let mut command = with_module(&data::examples()?, folder.path());
    let script = places::checkout().join("docs/examples/look_inside.py");
    // The cache of fonts is not the user's.
    command.env("MPLBACKEND", "Agg").env("MPLCONFIGDIR", folder.path()).current_dir(folder.path());
    command.args(["-W", "error"]).arg(script);
    let first = outcome(command.args(["--output", "out"])).success().to_owned();
    let file = folder.path().join("out/model.byoc").metadata().expect("it was compiled").len();
    let lines: Vec<_> = first.lines().collect();
    let [placement, ledger, bytes, steps] = lines[..] else { panic!("{first}") };
    assert_eq!(placement, "placement: kendryte 28, json 9");
    assert_eq!(ledger, "ledger: 25 constants, 2975232 bytes in the model, 2713088 without repetitions");
    assert_eq!(bytes, format!("file: {file} bytes"));
    assert!(file < 2_713_088 && steps.starts_with("steps: ") && steps.ends_with(" in 4 regions"), "{steps}");
    pictures(&folder.path().join("out"));
    let again = outcome(command.args(["--model", "out/network.onnx", "--backends", "cpu", "--output", "cpu"]));
    assert!(again.success().starts_with("placement: json 37\n"), "{again:?}");
    pictures(&folder.path().join("cpu"));
    Ok(())
}

fn pictures(folder: &Path) {
    for name in ["placement.png", "ledger.png", "steps.png"] {
        let picture = places::read(&folder.join(name));
        // The signature, and the width in the first chunk.
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture[16..20] == 1350u32.to_be_bytes(), "{name}");
        assert!((10_000..80_000).contains(&picture.len()), "{name} has {} bytes", picture.len());
    }
}
