//! A region as core would make it, and what becomes of it.

use byoc_nvidia::program::{Argument, BufferRef, Program};
use byoc_plugin_api::DType;
use byoc_plugin_api::host::checked_candidates;
use byoc_plugin_api::testing::{RegionBuilder, Rng, backend, options};

/// Set in the process that does the checks.
pub(crate) const CHILD: &str = "CUTLASS_TEST_REGION";

const K: usize = 256;
const N: usize = 128;

/// `relu(x w + bias)` in f16, with a bias that constant folding left in f32: the sum is taken in f32 and cast. Weights are
/// the seed's.
fn region(seed: u64) -> RegionBuilder {
    let mut net = RegionBuilder::new("cutlass");
    net.random = Rng::with_seed(seed);
    let x = net.input((DType::F16, format!("[rows,{K}]").as_str()));
    let (w, bias) = (net.weight((DType::F16, [K, N])), net.weight([N]));
    let rows = format!("[rows,{N}]");
    let rows = rows.as_str();
    let product = net.node("MatMul", &[x, w], (DType::F16, rows), "");
    let wide = net.node("Cast", &[product], rows, "to=1");
    let sum = net.node("Add", &[wide, bias], rows, "");
    let relu = net.node("Relu", &[sum], rows, "");
    let y = net.node("Cast", &[relu], (DType::F16, rows), "to=10");
    for node in &mut net.region.nodes {
        node.name += &seed.to_string();
    }
    net.with(&[y])
}

pub(crate) fn checks() {
    let backend = backend("cutlass");
    let net = region(1);
    let code = code(&net, &[("arch", "sm_80,sm_90a"), ("math", "f32")]);
    // Whatever the weights and the names are.
    assert_eq!(code, self::code(&region(2), &[("arch", "sm_80,sm_90a"), ("math", "f32")]));
    net.constants.iter().for_each(|constant| has_no_weights(&code, constant.memory()));

    let (program, _) = Program::read(&code).expect("it is a program");
    let arches: Vec<_> = program.variants.iter().map(|variant| variant.arch.as_str()).collect();
    assert_eq!(arches, ["sm_80", "sm_90a"]);
    // The kernel is given the bias of f32 as it lies.
    assert_eq!((program.constants[1].id, program.constants[1].dtype), (net.region.constants[1].id, DType::F32));
    // One for each range of rows, which is all that they differ in.
    let [launch, more @ ..] = &program.variants[0].launches[..] else { panic!("{program:?}") };
    let given = [BufferRef::Input(0), BufferRef::Constant(0), BufferRef::Constant(1), BufferRef::Output(0)];
    assert_eq!(launch.arguments[..4], given.map(Argument::Pointer));
    assert!(!more.is_empty() && more.iter().all(|other| other.arguments == launch.arguments), "{program:?}");
    let ranges = program.variants[0].launches.iter().map(|launch| launch.only.as_ref().expect("it is for some rows"));
    let ends: Vec<_> = ranges.flat_map(|range| [range.least, range.most]).collect();
    assert_eq!(ends, [0, 2048, 2049, u64::MAX]);

    let settings = [("arch", "sm_80"), ("math", "f32")];
    let code = self::code(&net, &settings);
    let others = backend.candidates(&code, &options(backend, &settings)).expect("they compile");
    let others = checked_candidates(others, &code).expect("they keep the contract");
    assert_eq!(others.len(), 6);
    for other in &others {
        let (program, _) = Program::read(&other.code).expect("it is a program");
        let launches = &program.variants[0].launches;
        assert!(launches.iter().all(|other| other.arguments == launch.arguments), "{}", other.name);
        let for_all = launches.len() == 1 && launches[0].only.is_none();
        assert_eq!(for_all, !other.name.contains(" rows"), "{}", other.name);
    }
}

/// The code of a region, whose constants are left where they are.
fn code(net: &RegionBuilder, settings: &[(&str, &str)]) -> Vec<u8> {
    let compiled = net.compile(backend("cutlass"), settings).expect("it is taken");
    assert_eq!(compiled.claims.words(), ["host", "host"]);
    compiled.code
}

/// Neither the code nor a cubin in it has 16 bytes of a constant.
fn has_no_weights(code: &[u8], constant: &[u8]) {
    let (_, cubins) = Program::read(code).expect("it is a program");
    let cubins = (0..cubins.len()).map(|at| cubins.get(at).expect("it is whole"));
    let known: std::collections::HashSet<&[u8]> = constant.chunks_exact(16).collect();
    for part in std::iter::once(code.to_vec()).chain(cubins) {
        assert!(!part.windows(16).any(|window| known.contains(window)));
    }
}
