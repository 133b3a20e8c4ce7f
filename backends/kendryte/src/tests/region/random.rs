//! Random networks: whatever the compiler makes of them keeps every rule and computes what they say.

use byoc_plugin_api::Attribute;
use byoc_plugin_api::testing::Rng;

use super::build::Build;
use super::ratios;

type Pick<'a> = &'a mut dyn FnMut(&[usize]) -> usize;

/// A random network with up to `layers` layers.
fn network(seed: u64, layers: usize) -> Build {
    let mut random = Rng::with_seed(seed);
    let mut pick = |from: &[usize]| from[random.usize(..from.len())];
    let (channels, height, width) = (pick(&[1, 3, 4]), pick(&[8, 12, 16, 20]), pick(&[8, 16, 20, 32, 40]));
    let mut build = Build::new(&[1, channels, height, width], seed);
    let mut values = vec![build.region.inputs[0]];
    let first = build.conv(values[0], pick(&[2, 5, 8]), 3, 1, false);
    values[0] = first;
    for _ in 0..layers {
        let x = values[pick(&[0, 1, 2, 3]) % values.len()];
        let [_, channels, height, width] = build.sizes(x)[..] else { panic!("no image") };
        let halves = height.is_multiple_of(2) && width.is_multiple_of(2) && height.min(width) >= 8;
        let outputs = pick(&[2, 4, 7, 8]);
        let y = match pick(&[0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]) {
            0 => build.conv(x, outputs, 3, if halves { pick(&[1, 2]) } else { 1 }, false),
            1 => build.conv(x, outputs, 1, if halves { pick(&[1, 2]) } else { 1 }, false),
            2 => build.conv(x, channels, 3, if halves { pick(&[1, 2]) } else { 1 }, true),
            3 => {
                let y = build.conv(x, outputs, 3, 1, false);
                build.norm(y)
            }
            4 => build.like("Relu", &[x], ""),
            5 => build.clip(x, 0.0, 6.0),
            6 => build.like("LeakyRelu", &[x], &[("alpha", Attribute::Float(0.1))]),
            7 => {
                let other = build.conv(x, channels, 3, 1, false);
                build.add(x, other)
            }
            8 => {
                let other = build.conv(x, outputs, 1, 1, false);
                build.concat(other, x)
            }
            10 => clip(&mut build, x, &mut pick),
            11 => {
                let sum = build.add(x, x);
                clip(&mut build, sum, &mut pick)
            }
            12 => reshape(&mut build, x, &mut pick),
            13 => max_pool(&mut build, x, &mut pick),
            14 => join(&mut build, &values, x, &mut pick),
            _ if halves => build.pool(if pick(&[0, 1]) == 0 { "MaxPool" } else { "AveragePool" }, x, 2),
            _ => build.like("Tanh", &[x], ""),
        };
        values.push(y);
    }
    // Every unused value is an output, and now and then one that is read.
    let read: Vec<_> = build.region.nodes.iter().flat_map(|node| node.inputs.iter().flatten().copied()).collect();
    let outputs: Vec<_> =
        values.into_iter().filter(|value| !read.contains(value) || pick(&[0, 1, 2, 3]) == 0).collect();
    outputs.into_iter().for_each(|value| build.output(value));
    build
}

/// A clip on either side, whether it has 0 within or not.
fn clip(build: &mut Build, x: usize, pick: Pick<'_>) -> usize {
    let limits = [
        (Some(-0.5), Some(0.75)),
        (Some(0.125), None),
        (None, Some(0.5)),
        (Some(0.125), Some(f32::MAX)),
        (Some(f32::MIN), Some(0.5)),
        (None, None),
    ];
    let (min, max) = limits[pick(&[0, 1, 2, 3, 4, 5])];
    build.clip_some(x, min, max)
}

/// The same elements in other images.
fn reshape(build: &mut Build, x: usize, pick: Pick<'_>) -> usize {
    let [_, channels, height, width] = build.sizes(x)[..] else { panic!("no image") };
    let shapes =
        [[1, channels, width, height], [1, 2 * channels, height / 2, width], [1, channels, height / 2, 2 * width]];
    let shape = if height.is_multiple_of(2) && height >= 8 { shapes[pick(&[0, 1, 2])] } else { shapes[0] };
    build.reshape(x, &shape)
}

/// A pooling that the accelerator has not.
fn max_pool(build: &mut Build, x: usize, pick: Pick<'_>) -> usize {
    let [_, channels, height, width] = build.sizes(x)[..] else { panic!("no image") };
    let pads: [i64; 4] = [[0, 0, 2, 2], [1, 1, 1, 1], [2, 0, 0, 2]][pick(&[0, 1, 2])];
    let attributes = [("kernel_shape", Attribute::Ints(vec![3, 3])), ("pads", Attribute::Ints(pads.into()))];
    build.node("MaxPool", &[x], [1, channels, height, width], &attributes)
}

/// A value with others of its height and width, itself once more among them.
fn join(build: &mut Build, values: &[usize], x: usize, pick: Pick<'_>) -> usize {
    let mut shape = build.sizes(x);
    let mut parts = vec![x, x];
    parts.extend(values.iter().filter(|&&value| build.sizes(value)[2..] == shape[2..] && pick(&[0, 1]) == 0));
    shape[1] = parts.iter().map(|&part| build.sizes(part)[1]).sum();
    build.node("Concat", &parts, shape, "axis=1")
}

#[test]
fn random_networks_compute_what_they_say() {
    for seed in 0..250 {
        let mut build = network(seed, 2 + seed as usize % 8);
        let ops: Vec<_> = build.region.nodes.iter().map(|node| node.op.clone()).collect();
        for ratio in ratios(&mut build, &[]) {
            assert!(ratio > 20.0, "seed {seed}: {ratio:.1} dB, {ops:?}");
        }
    }
}

#[test]
fn a_classifier_is_one_kmodel() {
    for (seed, dense) in [(1, "false"), (2, "true")] {
        let mut build = network(seed, 6);
        let last = build.region.outputs.pop().expect("an output");
        build.region.outputs.clear();
        let probabilities = build.head(last, 10);
        build.output(probabilities);
        let ratio = ratios(&mut build, &[("float-dense", dense)])[0];
        assert!(ratio > 20.0, "{ratio:.1} dB");
    }
}
