//! Random graphs whose nodes are spread over two backends of a device and the host: the results are those of the host alone,
//! however values cross. The simulated device does nothing before it is waited for, fills memory with NaN, and does not
//! forgive an address that is not its own, so what is read too early or from the wrong place shows.

use byoc_core::plugin::Registry;
use byoc_core::runtime::{DeviceArray, Input, LoadOptions, Queueing, Session};
use byoc_plugin_api::testing::Rng;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

fn value(random: &mut Rng) -> f32 {
    2.0 * random.f32() - 1.0
}

/// A graph of `[batch, 4]` tensors: each node reads earlier ones, and some values are outputs.
fn model(random: &mut Rng) -> Model {
    let nodes = 3 + random.usize(..12);
    let weights: Vec<f32> = (0..16).map(|_| value(random)).collect();
    let mut model = Model::default()
        .input("x", Type::Float, &[-1, 4])
        .input("z", Type::Float, &[-1, 4])
        .weight("w", &[4, 4], &weights)
        .weight("v", &[4], &weights[..4])
        .weight("u", &[4], &weights[8..12]);
    let mut values = vec!["x".to_owned(), "z".to_owned()];
    for index in 0..nodes {
        let name = format!("n{index}");
        let pick = |random: &mut Rng| values[values.len() - 1 - random.usize(..values.len().min(4))].clone();
        let (one, other) = (pick(random), pick(random));
        model = match random.usize(..8) {
            0 => model.node("MatMul", &[&one, "w"], &[&name]),
            1 => model.node("Relu", &[&one], &[&name]),
            2 => model.node("Neg", &[&one], &[&name]),
            3 => model.node("Tanh", &[&one], &[&name]),
            4 => model.node("Mul", &[&one, ["v", "u"][random.usize(..2)]], &[&name]),
            5 => model.node("Add", &[&one, ["v", "u"][random.usize(..2)]], &[&name]),
            6 => model.node("Mul", &[&one, &other], &[&name]),
            _ => model.node("Add", &[&one, &other], &[&name]),
        };
        values.push(name);
    }
    let last = values.len() - 1;
    let outputs = values.iter().enumerate().filter(|(index, _)| *index == last || random.usize(..4) == 0);
    outputs.fold(model, |model, (_, name)| model.output(name, Type::Float, &[-1, 4]))
}

fn inputs(random: &mut Rng, batch: usize) -> Vec<(String, Tensor)> {
    let mut tensor = || Tensor::f32(&[batch as i64, 4], &(0..batch * 4).map(|_| value(random)).collect::<Vec<_>>());
    vec![("x".into(), tensor()), ("z".into(), tensor())]
}

/// Runs with inputs that change, of two sizes that take turns.
fn compare(seed: u64, registry: &Registry, queueing: Queueing) {
    let random = &mut Rng::with_seed(seed);
    let folder = places::temporary();
    let path = places::write(folder.path(), "model.onnx", model(random).finish());
    let operators = ["MatMul", "Add", "Relu", "Mul", "Neg"];
    let takes = |random: &mut Rng| {
        let taken = operators.iter().filter(|_| random.usize(..3) > 0);
        taken.copied().collect::<Vec<_>>().join(" ")
    };
    let (simdev, guest) = (takes(random), takes(random));
    let settings = [("simdev.takes", simdev.as_str()), ("simdev-guest.takes", guest.as_str())];
    let (spread, alone) = (folder.path().join("spread.byoc"), folder.path().join("alone.byoc"));
    engine::compile_with(&path, &spread, registry, &["simdev", "simdev-guest", "json"], &settings).expect("compiles");
    engine::compile(&path, &alone, registry, &["json"]).expect("compiles");
    let scratch = |name: &str| (format!("{name}.scratch"), (random_bytes(seed)).to_string());
    let run_options = vec![scratch("simdev"), scratch("simdev-guest")];
    let options = LoadOptions { threads: 1, queueing, run_options, ..LoadOptions::default() };
    let mut spread = Session::open(&spread, registry, &options).expect("loads");
    let mut alone = engine::load(&alone, registry, 1).expect("loads");
    for batch in [3, 3, 1, 0, 3] {
        let inputs = inputs(random, batch);
        let found = engine::run(&mut spread, &inputs).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected = engine::run(&mut alone, &inputs).expect("runs");
        assert_eq!(found.len(), expected.len());
        for ((name, found), (_, expected)) in found.iter().zip(&expected) {
            close(found, expected).unwrap_or_else(|why| panic!("seed {seed}, batch {batch}, output '{name}': {why}"));
        }
        resident(&mut spread, &inputs, &expected).unwrap_or_else(|why| panic!("seed {seed}, batch {batch}: {why}"));
        let fed = fed_back(&mut spread, &mut alone, &expected, random);
        fed.unwrap_or_else(|why| panic!("seed {seed}, batch {batch}, outputs as inputs: {why}"));
    }
}

/// Once more, with outputs of the last run for inputs: where they are on the device, from there.
fn fed_back(
    session: &mut Session,
    alone: &mut Session,
    last: &[(String, Tensor)],
    random: &mut Rng,
) -> Result<(), String> {
    let text = |error: byoc_core::diagnostic::Diagnostic| error.to_string();
    let chosen: Vec<usize> = ["x", "z"].iter().map(|_| random.usize(..last.len())).collect();
    let named = |(name, &index): (&str, &usize)| (name.to_owned(), last[index].1.clone());
    let expected = engine::run(alone, &["x", "z"].into_iter().zip(&chosen).map(named).collect::<Vec<_>>());
    let expected = expected.map_err(text)?;
    let arrays = chosen.iter().map(|&index| {
        let array = session.device_output(index).map_err(text)?;
        Ok(array.map(|array| (array.device, array.address, array.dtype, array.shape.to_vec())))
    });
    let arrays = arrays.collect::<Result<Vec<_>, String>>()?;
    let borrowed: Vec<_> = chosen.iter().map(|&index| last[index].1.borrowed()).collect();
    let mut inputs = Vec::new();
    for (array, host) in arrays.iter().zip(&borrowed) {
        inputs.push(match array {
            None => Input::Host(host.view()),
            &Some((device, address, dtype, ref shape)) => Input::Device(DeviceArray { device, address, dtype, shape }),
        });
    }
    // SAFETY: the session itself has the arrays.
    unsafe { session.run_on_devices(&inputs) }.map_err(text)?;
    session.fetch().map_err(text)?;
    for (index, (_, expected)) in expected.iter().enumerate() {
        let found = Tensor::of(&session.output(index).map_err(text)?);
        if expected.bytes.chunks_exact(4).all(|bytes| f32::from_le_bytes(bytes.try_into().expect("four")).is_finite()) {
            close(&found, expected)?;
        }
    }
    Ok(())
}

/// Once more, on the inputs that are on the device.
fn resident(session: &mut Session, inputs: &[(String, Tensor)], expected: &[(String, Tensor)]) -> Result<(), String> {
    let text = |error: byoc_core::diagnostic::Diagnostic| error.to_string();
    let given: Vec<_> = session.inputs().iter().map(|port| byoc_tests::npz::find(inputs, &port.name).clone()).collect();
    let borrowed: Vec<_> = given.iter().map(Tensor::borrowed).collect();
    let views: Vec<_> = borrowed.iter().map(|tensor| tensor.view()).collect();
    session.run_resident(&views).map_err(text)?;
    let unfetched = session.output(0).err().map(|error| error.to_string());
    let hint = "[B703] the outputs are on the device that computed them. Fetch them first";
    if unfetched.as_deref().is_some_and(|error| error != hint) {
        return Err(format!("before they are fetched: {unfetched:?}"));
    }
    session.fetch().map_err(text)?;
    let outputs = (0..expected.len()).map(|index| session.output(index).map(|view| Tensor::of(&view)).map_err(text));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    outputs.iter().zip(expected).try_for_each(|(found, (_, expected))| close(found, expected))
}

/// Any number, often not a multiple of anything.
fn random_bytes(seed: u64) -> u64 {
    seed % 3 * 97
}

fn close(found: &Tensor, expected: &Tensor) -> Result<(), String> {
    let floats = |tensor: &Tensor| -> Vec<f32> {
        tensor.bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])).collect()
    };
    let (found, expected) = (floats(found), floats(expected));
    let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4 * (1.0 + b.abs()) || a.is_nan();
    match found.len() == expected.len() && !found.iter().zip(&expected).any(far) {
        true => Ok(()),
        false => Err(format!("{found:?} is not {expected:?}")),
    }
}

#[test]
fn random_graphs_give_what_the_host_gives() {
    let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
    let queueings = [Queueing::Recorded, Queueing::Direct, Queueing::Timed, Queueing::Waiting];
    for seed in 0..96 {
        compare(seed, &registry, queueings[seed as usize % queueings.len()]);
    }
}
