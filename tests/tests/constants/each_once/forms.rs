//! Cases in which several read one constant and want it in different forms, and constants of no or one element.

use byoc_core::artifact::Fate;
use byoc_core::artifact::manifest::ClaimKind;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;

use super::cases::{BATCH, CLOSE, COARSE, DEPTH, WIDTH, weight, x};
use super::check::{Case, Checked, Constant, Expected, check, input, model};

/// Bytes of the weight that several read.
const WEIGHT_BYTES: usize = (DEPTH * WIDTH * 4) as usize;

/// What the ledger notes where such a weight is stored packed as well.
const MORE_THAN_ORIGINAL: &str = "3.0 MiB more than the original alone";

/// Two readers of one weight `w`: one that only json takes, and another.
fn shared(w: &Constant, other: impl FnOnce(Model) -> Model) -> (Model, Vec<(String, Tensor)>) {
    let model = model(&[w])
        .input("x", Type::Float, &[BATCH, DEPTH])
        .input("column", Type::Float, &[DEPTH, 1])
        .node("Sub", &["column", "w"], &["difference"])
        .output("difference", Type::Float, &[DEPTH, WIDTH]);
    (other(model), vec![x(), input("column", &[DEPTH, 1], 5)])
}

/// The other reader: `y = x w`.
fn product(model: Model) -> Model {
    model.node("MatMul", &["x", "w"], &["y"]).output("y", Type::Float, &[BATCH, WIDTH])
}

/// f. One weight read by json and by an offloaded region.
fn with_host(
    name: &'static str,
    backends: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
    expected: impl FnOnce(&Constant) -> Expected,
    extra: usize,
) -> Checked {
    let w = weight("w");
    let (model, inputs) = shared(&w, product);
    let constants = vec![expected(&w)];
    check(Case { name, model, inputs, backends, settings, constants, extra, tolerance: CLOSE })
}

/// The claim of the one region of a backend on its one constant.
fn claim(checked: &Checked, backend: &str) -> ClaimKind {
    let manifest = checked.artifact.manifest();
    let region = manifest.regions.iter().find(|region| region.backend == backend).expect("a region");
    region.constants[0].claim
}

/// f. The offloaded region claims `Host`.
pub(crate) fn host_and_host(name: &'static str) -> Checked {
    let checked = with_host(name, &["blas"], &[], Constant::stored, 0);
    assert_eq!(claim(&checked, "blas"), ClaimKind::Host);
    checked
}

/// f. The offloaded region would pack, and leaves the weight to the host as the host needs it.
pub(crate) fn host_and_packed(name: &'static str) -> Checked {
    let checked = with_host(name, &["panels"], &[], Constant::stored, 0);
    assert_eq!(claim(&checked, "panels"), ClaimKind::Host);
    checked
}

/// f. The offloaded region insists on packing: the file has both forms, and the ledger says what that costs.
pub(crate) fn host_and_packed_kept(name: &'static str) -> Checked {
    let expected = |w: &Constant| w.expect(1, &[Fate::Stored, Fate::Packed]).noted(MORE_THAN_ORIGINAL);
    let checked = with_host(name, &["panels"], &[("panels.honour", "false")], expected, WEIGHT_BYTES);
    assert_eq!(claim(&checked, "panels"), ClaimKind::Packed);
    checked
}

/// f. The offloaded region has the weight in its code, as it must: the file has it there and for the host.
pub(crate) fn host_and_embedded(name: &'static str) -> Checked {
    let note = "also embedded in the code of byoc_main_embedder_0";
    let checked = with_host(name, &["embedder"], &[], |w| w.expect(2, &[Fate::Stored]).noted(note), WEIGHT_BYTES);
    assert_eq!(claim(&checked, "embedder"), ClaimKind::Embedded);
    checked
}

/// f. The offloaded region reads the weight by the model's words, and does not need it.
pub(crate) fn host_and_unused(name: &'static str) -> Checked {
    let w = weight("w");
    let mask = Constant { name: "mask", ty: Type::Bool, shape: vec![1], bytes: vec![1] };
    let (model, inputs) = shared(&w, |model| {
        mask.add_to(model).node("Where", &["mask", "column", "w"], &["y"]).output("y", Type::Float, &[DEPTH, WIDTH])
    });
    let checked = check(Case {
        name,
        model,
        inputs,
        backends: &["csource"],
        settings: &[],
        constants: vec![w.stored(), mask.expect(0, &[Fate::Embedded])],
        extra: 0,
        tolerance: CLOSE,
    });
    let manifest = checked.artifact.manifest();
    let region = manifest.regions.iter().find(|region| region.backend == "csource").expect("a region");
    let claims: Vec<_> = region.constants.iter().map(|binding| binding.claim).collect();
    assert!(claims.contains(&ClaimKind::Unused), "{claims:?}");
    assert_eq!(checked.ledger.rows[0].readers, ["byoc_main_json_0"]);
    checked
}

/// j. One weight read by two backends: in the code of one, from the host by the other.
pub(crate) fn embedded_and_host(name: &'static str) -> Checked {
    let w = weight("w");
    let model = product(model(&[&w]).input("x", Type::Float, &[BATCH, DEPTH]))
        .input("column", Type::Float, &[DEPTH, 1])
        .node("Add", &["column", "w"], &["sum"])
        .output("sum", Type::Float, &[DEPTH, WIDTH]);
    check(Case {
        name,
        model,
        inputs: vec![x(), input("column", &[DEPTH, 1], 5)],
        backends: &["embedder", "csource"],
        settings: &[("embedder.precision", "i8")],
        constants: vec![w.stored().noted("also embedded in the code of byoc_main_embedder_0")],
        extra: w.bytes.len() / 4,
        tolerance: 2e-2,
    })
}

/// `y = x w` by two different operators, so that two backends read the weight.
fn two_products(w: &Constant, second: &str) -> Model {
    product(model(&[w]).input("x", Type::Float, &[BATCH, DEPTH]))
        .input("x2", Type::Float, &[BATCH, DEPTH])
        .node(second, &["x2", "w"], &["y2"])
        .output("y2", Type::Float, &[BATCH, WIDTH])
}

/// k. One weight packed by several regions.
fn packed(
    name: &'static str,
    second: &str,
    backends: &'static [&'static str],
    settings: &'static [(&'static str, &'static str)],
    expected: impl FnOnce(&Constant) -> Expected,
    extra: usize,
) -> Checked {
    let w = weight("w");
    check(Case {
        name,
        model: two_products(&w, second),
        inputs: vec![x(), input("x2", &[BATCH, DEPTH], 78)],
        backends,
        settings,
        constants: vec![expected(&w)],
        extra,
        tolerance: CLOSE,
    })
}

/// The layouts of the stored constants.
fn layouts(checked: &Checked) -> Vec<Option<&str>> {
    checked.artifact.manifest().constants.iter().map(|stored| stored.layout.as_deref()).collect()
}

/// k. The same layout twice.
pub(crate) fn one_layout(name: &'static str) -> Checked {
    let checked = packed(name, "MatMul", &["panels"], &[], |w| w.expect(0, &[Fate::Packed]), 0);
    assert_eq!(checked.artifact.manifest().regions.len(), 2);
    assert_eq!(layouts(&checked), [Some("panels-8/1")]);
    checked
}

/// k. Two layouts, by backends that leave a weight to the host once they hear that another wants it otherwise.
pub(crate) fn two_layouts(name: &'static str) -> Checked {
    let checked = packed(name, "Gemm", &["panels", "slabs"], &[], Constant::stored, 0);
    assert_eq!(layouts(&checked), [None]);
    assert_eq!([claim(&checked, "panels"), claim(&checked, "slabs")], [ClaimKind::Host; 2]);
    checked
}

/// k. Two layouts, by backends that insist: the file has both forms, and the ledger has a row for each.
pub(crate) fn two_layouts_kept(name: &'static str) -> Checked {
    let settings = &[("panels.honour", "false"), ("slabs.honour", "false")];
    let note = "3.0 MiB more than one form alone";
    let expected = |w: &Constant| w.expect(0, &[Fate::Packed, Fate::Packed]).noted(note);
    let checked = packed(name, "Gemm", &["panels", "slabs"], settings, expected, WEIGHT_BYTES);
    assert_eq!(layouts(&checked), [Some("panels-8/1"), Some("panels-16/1")]);
    checked
}

/// k. Two layouts, by backends of which one insists.
pub(crate) fn one_layout_kept(name: &'static str) -> Checked {
    let settings = &[("slabs.honour", "false")];
    let expected = |w: &Constant| w.expect(1, &[Fate::Stored, Fate::Packed]).noted(MORE_THAN_ORIGINAL);
    let checked = packed(name, "Gemm", &["panels", "slabs"], settings, expected, WEIGHT_BYTES);
    assert_eq!(layouts(&checked), [None, Some("panels-16/1")]);
    checked
}

/// Channels of a convolution that json packs: whole blocks.
const CHANNELS: i64 = 288;

/// A convolution's weight, and the convolution.
fn filters(channels: i64) -> (Constant, Model) {
    let w = Constant::random("w", &[channels, channels, 3, 3], 1);
    let model = model(&[&w]).input("x", Type::Float, &[1, channels, 6, 6]).node("Conv", &["x", "w"], &["y"]).output(
        "y",
        Type::Float,
        &[1, channels, 4, 4],
    );
    (w, model)
}

/// k. A convolution's weight, which json packs.
pub(crate) fn convolution(name: &'static str) -> Checked {
    convolution_of(name, CHANNELS, &[], CLOSE)
}

/// k. The same, of channels that fill no blocks.
pub(crate) fn convolution_of_few_blocks(name: &'static str) -> Checked {
    convolution_of(name, CHANNELS + 10, &[], CLOSE)
}

/// k. The same in 8 bits.
pub(crate) fn convolution_in_8_bits(name: &'static str) -> Checked {
    let channels = CHANNELS + 10;
    let checked = convolution_of(name, channels, &[("json.weights", "int8")], COARSE);
    let [stored] = &checked.artifact.manifest().constants[..] else { panic!("`w` is one constant") };
    // A scale and a sum for each filter; channels are filled up to four, and filters to eight.
    let (rows, filters) = ((channels + 2) * 9, channels + 6);
    assert_eq!(stored.shape, [(rows * filters + 8 * filters) as usize]);
    checked
}

fn convolution_of(name: &'static str, channels: i64, settings: &'static [(&str, &str)], tolerance: f64) -> Checked {
    let (w, model) = filters(channels);
    check(Case {
        name,
        model,
        inputs: vec![input("x", &[1, channels, 6, 6], 77)],
        backends: &[],
        settings,
        constants: vec![w.expect(0, &[Fate::Packed])],
        extra: 0,
        tolerance,
    })
}

/// k. The same, read by another backend as it is.
pub(crate) fn convolution_and_host(name: &'static str) -> Checked {
    let (w, model) = filters(CHANNELS);
    let model = model.input("one", Type::Float, &[1, 1, 1, 1]).node("Add", &["one", "w"], &["sum"]).output(
        "sum",
        Type::Float,
        &w.shape,
    );
    check(Case {
        name,
        model,
        inputs: vec![input("x", &[1, CHANNELS, 6, 6], 77), input("one", &[1, 1, 1, 1], 5)],
        backends: &["csource"],
        settings: &[],
        constants: vec![w.stored()],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// m. A weight, one without elements, a scalar, and one whose elements are all equal: one of them is kept.
fn tiny(name: &'static str, backends: &'static [&'static str], fates: &'static [Fate], copies: usize) -> Checked {
    let (w, s) = (weight("w"), Constant::of("s", &[], &[1.25]));
    let empty = Constant::of("empty", &[0, 16], &[]);
    let equal = Constant::of("equal", &[1, WIDTH], &[0.5; WIDTH as usize]);
    let element = Constant::of("equal", &[], &[0.5]);
    let model = product(model(&[&w, &s, &empty, &equal]).input("x", Type::Float, &[BATCH, DEPTH]))
        .input("nothing", Type::Float, &[BATCH, 0])
        .node("MatMul", &["nothing", "empty"], &["zero"])
        .node("Mul", &["y", "s"], &["scaled"])
        .node("Add", &["scaled", "equal"], &["shifted"])
        .output("shifted", Type::Float, &[BATCH, WIDTH])
        .node("Add", &["zero", "s"], &["lifted"])
        .output("lifted", Type::Float, &[BATCH, 16]);
    check(Case {
        name,
        model,
        inputs: vec![x(), ("nothing".to_owned(), Tensor::f32(&[BATCH, 0], &[]))],
        backends,
        settings: &[],
        constants: vec![w.expect(copies, fates), empty.expect(0, fates), s.stored(), element.stored()],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// m. All left to the host.
pub(crate) fn tiny_host(name: &'static str) -> Checked {
    tiny(name, &["blas", "csource"], &[Fate::Stored], 1)
}

/// m. In the code.
pub(crate) fn tiny_embedded(name: &'static str) -> Checked {
    tiny(name, &["embedder", "csource"], &[Fate::Embedded], 1)
}

/// m. Packed.
pub(crate) fn tiny_packed(name: &'static str) -> Checked {
    tiny(name, &["panels", "csource"], &[Fate::Packed], 0)
}
