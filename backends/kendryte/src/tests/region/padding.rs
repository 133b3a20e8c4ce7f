//! Convolutions with other paddings and strides than the accelerator's: the same bytes as those pixels of the whole map.

use byoc_plugin_api::testing::{options, run};

use super::build::Build;
use super::{compile, ratios};
use crate::KendryteBackend;
use crate::kmodel::{Kmodel, Operation};
use crate::runtime;
use crate::trailer::Trailer;

/// A window: rows and columns of the image, padding (top, left, bottom, right), strides.
#[derive(Clone, Copy, Debug)]
struct Case {
    image: [usize; 2],
    pads: [usize; 4],
    strides: [usize; 2],
    kernel: usize,
    depthwise: bool,
}

impl Case {
    /// Rows and columns of the result.
    fn result(&self) -> [usize; 2] {
        let size = |axis: usize| {
            (self.image[axis] + self.pads[axis] + self.pads[axis + 2] - self.kernel) / self.strides[axis] + 1
        };
        [size(0), size(1)]
    }

    /// The convolution, its padding in a node of its own where that is asked for, and its observations those of `whole`.
    fn build(&self, pads: [usize; 4], strides: [usize; 2], apart: bool) -> Build {
        let [height, width] = self.image;
        let mut build = Build::new(&[1, 4, height, width], 5);
        let (outputs, group) = if self.depthwise { (4, 4) } else { (6, 1) };
        let weights = build.weight([outputs, 4 / group, self.kernel, self.kernel]);
        let bias = build.drawn([outputs], -0.5..0.5);
        let case = Case { pads, strides, ..*self };
        let [rows, columns] = case.result();
        let [top, left, bottom, right] = pads;
        let mut x = 0;
        let mut own = pads;
        if apart {
            let list = build.ints(&[0, 0, top as i64, left as i64, 0, 0, bottom as i64, right as i64]);
            let padded = [1, 4, height + top + bottom, width + left + right];
            x = build.node("Pad", &[0, list], padded, "mode=constant");
            own = [0; 4];
        }
        let text = format!("pads={own:?} strides={strides:?} group={group}").replace(", ", ",");
        let y = build.node("Conv", &[x, weights, bias], [1, outputs, rows, columns], text.as_str());
        let y = build.like("Relu", &[y], "");
        build.output(y);
        build
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for image in [[8, 8], [9, 8], [12, 33], [7, 70]] {
        for strides in [[1, 1], [2, 2], [2, 1], [3, 3]] {
            for pads in [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]] {
                for depthwise in [false, true] {
                    cases.push(Case { image, pads, strides, kernel: 3, depthwise });
                }
            }
            cases.push(Case { image, pads: [0; 4], strides, kernel: 1, depthwise: false });
        }
    }
    cases
}

/// The result of a region for one of its samples, as numbers.
fn result(build: &Build) -> Vec<f64> {
    let code = compile(build, &[]).expect("it compiles");
    let kmodel = Kmodel::parse(Trailer::split(&code).expect("code").0).expect("a kmodel");
    assert_eq!(kmodel.check(), []);
    let mut executable = runtime::load(&code, 1).expect("the code can run");
    let results = run(build, executable.as_mut(), &[build.sample(1)], &[]).expect("it runs");
    results[0].numbers()
}

#[test]
fn every_padding_and_stride_gives_pixels_of_the_whole_map() {
    for case in cases() {
        let border = case.kernel / 2;
        let mut whole = case.build([border; 4], [1, 1], false);
        whole.observe(2);
        let all = result(&whole);
        for apart in [false, true] {
            let mut build = case.build(case.pads, case.strides, apart);
            // The same scales.
            build.observe(2);
            let seen = |value: usize| whole.region.observed(value).expect("observed").clone();
            let (from, to) = (whole.region.outputs[0], build.region.outputs[0]);
            let theirs = seen(from);
            for observed in build.region.observed.iter_mut().filter(|observed| observed.value == to) {
                (observed.min, observed.max) = (theirs.min, theirs.max);
            }
            let found = result(&build);
            let ([height, width], [rows, columns]) = (case.image, case.result());
            let channels = found.len() / rows / columns;
            for (at, found) in found.iter().enumerate() {
                let (channel, y, x) = (at / columns / rows, at / columns % rows, at % columns);
                let row = y * case.strides[0] + border - case.pads[0];
                let column = x * case.strides[1] + border - case.pads[1];
                let expected = all[(channel * height + row) * width + column];
                assert_eq!(*found, expected, "{case:?} of {channels} channels, in a Pad {apart}: {channel}, {y}, {x}");
            }
        }
    }
}

#[test]
fn every_padding_and_stride_computes_what_it_says() {
    for case in cases() {
        let ratio = ratios(&mut case.build(case.pads, case.strides, true), &[])[0];
        assert!(ratio > 30.0, "{case:?}: {ratio:.1} dB");
    }
}

/// A network as those for handwritten digits are written: convolutions without padding, each with a maximum pooling behind it.
#[test]
fn a_maximum_pooling_is_taken_with_the_pixels() {
    let mut build = Build::new(&[1, 1, 28, 28], 6);
    let mut x = 0;
    for (channels, size) in [(8, 26), (12, 11)] {
        let inputs = build.sizes(x)[1];
        let weights = build.weight([channels, inputs, 3, 3]);
        x = build.node("Conv", &[x, weights], [1, channels, size, size], "");
        x = build.like("Relu", &[x], "");
        x = build.pool("MaxPool", x, 2);
    }
    let weights = build.weight([16, 12, 3, 3]);
    x = build.node("Conv", &[x, weights], [1, 16, 3, 3], "");
    let x = build.node("Flatten", &[x], [1, 144], "");
    let x = build.gemm(x, 10);
    build.output(x);
    let ratio = ratios(&mut build, &[])[0];
    assert!(ratio > 30.0, "{ratio:.1} dB");
    let code = compile(&build, &[]).expect("it compiles");
    let kmodel = Kmodel::parse(Trailer::split(&code).expect("code").0).expect("a kmodel");
    let windows = kmodel.layers.iter().filter_map(|layer| match &layer.operation {
        Operation::QuantizedMaxPool(pool) => Some((pool.kernel_width, pool.stride_width, pool.output_shape.width)),
        _ => None,
    });
    assert_eq!(windows.collect::<Vec<_>>(), [(2, 2, 13), (2, 2, 5), (1, 1, 3)]);
}

/// A pooling may be greater than what the pixels go to: then it is a layer of its own.
#[test]
fn a_pooling_beyond_the_pixels_is_not_taken_with_them() {
    let mut build = Build::new(&[1, 3, 9, 9], 7);
    let weights = build.weight([4, 3, 3, 3]);
    let x = build.node("Conv", &[0, weights], [1, 4, 7, 7], "");
    let x = build.node("MaxPool", &[x], [1, 4, 4, 4], "kernel_shape=[2,2] strides=[2,2] pads=[0,0,1,1]");
    build.output(x);
    let ratio = ratios(&mut build, &[])[0];
    assert!(ratio > 30.0, "{ratio:.1} dB");
}

fn refusal(build: &Build) -> String {
    build.check(&KendryteBackend, &options(&KendryteBackend, &[])).expect_err("it is refused").to_string()
}

#[test]
fn paddings_that_no_convolution_has() {
    let padded = |pads: &[i64], attributes: &str, value: Option<f64>, reader: &str| {
        let mut build = Build::new(&[1, 4, 8, 8], 8);
        let list = build.ints(pads);
        let value = value.map(|value| build.number(value));
        let x = build.nodes("Pad", &[Some(0), Some(list), value], &[[1, 4, 10, 10].into()], attributes)[0];
        let y = match reader {
            "Conv" => {
                let weights = build.weight([4, 4, 3, 3]);
                build.node("Conv", &[x, weights], [1, 4, 8, 8], "")
            }
            other => build.like(other, &[x], ""),
        };
        build.output(y);
        refusal(&build)
    };
    let ones = [0, 0, 1, 1, 0, 0, 1, 1];
    assert_eq!(padded(&ones, "mode=reflect", None, "Conv"), "attribute: mode 'reflect', only constant has code");
    assert_eq!(padded(&ones, "", Some(0.5), "Conv"), "attribute: it pads with [0.5], only 0 has code");
    assert_eq!(padded(&ones, "", None, "Relu"), "other: Pad is taken in front of a convolution only");
    let channels = [0, 1, 1, 1, 0, 0, 1, 1];
    let expected = "attribute: pads [0, 1, 1, 1, 0, 0, 1, 1], only rows and columns are padded";
    assert_eq!(padded(&channels, "", None, "Conv"), expected);
    let expected = "attribute: pads [2, 1, 0, 1], a kernel of 3x3 has at most 1 on each side";
    assert_eq!(padded(&[0, 0, 2, 1, 0, 0, 0, 1], "", Some(0.0), "Conv"), expected);
}

/// A layer has 16 bits for the pixels of a map that it sends to main memory.
#[test]
fn maps_of_more_pixels_than_a_layer_can_say_are_a_note() {
    let notes = |height: usize, stride: usize| {
        let mut build = Build::new(&[1, 1, height, 512], 9);
        let weights = build.weight([1, 1, 1, 1]);
        let attributes = format!("strides=[{stride},{stride}]");
        let result = [1, 1, height.div_ceil(stride), 512 / stride];
        let y = build.node("Conv", &[0, weights], result, attributes.as_str());
        build.output(y);
        build.observe(1);
        build.compile(&KendryteBackend, &[]).expect("it compiles").notes
    };
    let expected = "'y2' goes to main memory in maps of 130x512: more than 65536 pixels do not fit into a number of its layer, and what \
                    a board does then is not known";
    assert_eq!(notes(130, 1), [expected]);
    // Half of them are picked on the way; 65,536 are not too many.
    assert!(notes(130, 2).is_empty() && notes(128, 1).is_empty());
}
