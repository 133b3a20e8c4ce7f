//! What sources are made of, and how they are launched.

use byoc_nvidia::program::{Argument, Launch};
use byoc_plugin_api::testing::RegionBuilder;
use byoc_plugin_api::{DType, Dim};

use super::build::{build, mobile, residual};
use crate::conv::fprop::Fprop;
use crate::conv::lower::lower;
use crate::conv::net::Op;
use crate::conv::program::{Draft, draft};

/// Compares a text with the one that is kept.
#[track_caller]
fn golden(name: &str, found: &str) {
    let path = format!("{}/src/conv/tests/texts/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, found).expect("the checkout can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{path} is out of date; run UPDATE_GOLDEN=1 cargo test -p byoc-cutlass\n{found}");
}

/// A convolution with a residual, as CUDA C++.
#[test]
fn a_convolution() {
    let build = residual(DType::F16, Dim::Fixed(64), 224);
    let net = lower(&build.region, false).expect("it is taken");
    let step = net.steps.iter().find(|step| matches!(&step.op, Op::Conv(conv) if conv.residual.is_some()));
    let (Op::Conv(conv), to) = step.map(|step| (&step.op, step.to)).expect("there is one") else {
        panic!("no convolution")
    };
    let fprop = Fprop::of(conv, DType::F16, &net.images[&conv.from], &net.images[&to]);
    golden("conv.cu", &fprop.text());
}

/// Instances of the templates for images.
#[test]
fn images() {
    let text = sources(&mobile(DType::BF16, Dim::Symbolic("batch".into()), 14)).pop().expect("there are two");
    let instances = text.split_once("struct of_depthwise").expect("it has one");
    golden("images.cu", &format!("struct of_depthwise{}", instances.1));
}

fn drafted(build: &RegionBuilder) -> Draft {
    let net = lower(&build.region, true).expect("it is taken");
    draft(&net, &build.region).expect("it can be drafted")
}

fn sources(build: &RegionBuilder) -> Vec<String> {
    drafted(build).sources.into_iter().map(|source| source.text).collect()
}

/// A line for each launch: the source, the kernel, its grid, and what it is given.
fn lines(launches: &[Launch]) -> String {
    let given = |argument: &Argument| match argument {
        Argument::Pointer(place) => format!("{place:?}"),
        Argument::Size(size) => size.to_string(),
        other => panic!("{other:?}"),
    };
    let line = |launch: &Launch| {
        let [x, y, z] = &launch.grid;
        let arguments = match launch.arguments.as_slice() {
            [Argument::Made(made)] => &made.arguments,
            others => others,
        };
        let arguments: Vec<_> = arguments.iter().map(given).collect();
        format!("{} {} [{x}, {y}, {z}] ({})\n", launch.cubin, launch.kernel, arguments.join(", "))
    };
    launches.iter().map(line).collect()
}

#[test]
fn launches() {
    let Draft { launches, scratch, .. } = drafted(&residual(DType::F16, Dim::Symbolic("batch".into()), 32));
    golden("launches.txt", &lines(&launches));
    let scratch: Vec<_> = scratch.iter().map(ToString::to_string).collect();
    assert_eq!(scratch[..3], ["batch*8192", "batch*8192", "batch*2048"]);
}

/// CUTLASS's iterator for few channels counts bits, the other one elements.
#[test]
fn how_far_kernels_count() {
    let few = |dtype: DType| {
        let limits = drafted(&residual(dtype, Dim::Symbolic("batch".into()), 32)).program.limits;
        let of = |channels: usize| format!("a batch of images of {channels} channels");
        let most = |channels: usize| limits.iter().find(|limit| limit.of == of(channels)).map(|limit| limit.most);
        [most(3), most(8)]
    };
    assert_eq!(few(DType::F16), [Some((1 << 27) - 1); 2]);
    assert_eq!(few(DType::F32), [Some((1 << 26) - 1), Some((1 << 31) - 1)]);
    assert!(drafted(&residual(DType::F16, Dim::Fixed(1), 32)).program.limits.is_empty());
}

/// Regions that differ in names alone have one code; where there is nothing but convolutions of one pixel, one source.
#[test]
fn one_source() {
    let (mut build, x) = build(DType::F16, [4, 64, 1, 1]);
    let y = build.conv(x, 128, 1, 1, 1);
    let Draft { launches, sources, .. } = drafted(&build.with(&[y]));
    assert_eq!(sources.len(), 1);
    let expected = "0 conv_f16_64x64 [1, 2, 1] (Input(0), Constant(0), Output(0), Output(0), 4, 1, 1, 64, 128, 1, 1, 1, 1, 0, 0, \
                    1, 1, 1, 1)\n";
    assert_eq!(lines(&launches), expected);
}
