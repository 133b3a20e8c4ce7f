//! A region as core would make it, and what becomes of it.

use std::collections::BTreeMap;

use byoc_nvidia::program::{Argument, Place, Program};
use byoc_plugin_api::host::checked_candidates;
use byoc_plugin_api::{
    Attribute, Backend, Claim, ClaimSink, Claims, Constant, ConstantId, Constants, DType, Dim, Error, Node, Options,
    Region, SCHEMA, TensorView, Value,
};

/// Set in the process that does the checks.
pub(crate) const CHILD: &str = "CUTLASS_TEST_REGION";

const K: usize = 256;
const N: usize = 128;

/// `relu(x w + bias)` in f16, with a bias that constant folding left in f32: the sum is taken in f32 and cast.
fn region(name: &str) -> Region {
    let rows = || Dim::Symbolic("rows".into());
    let value = |at: usize, dtype: DType, shape: Vec<Dim>| Value { name: format!("{name}{at}"), dtype, shape };
    let y = || vec![rows(), Dim::Fixed(N)];
    let values = vec![
        value(0, DType::F16, vec![rows(), Dim::Fixed(K)]),
        value(1, DType::F16, vec![Dim::Fixed(K), Dim::Fixed(N)]),
        value(2, DType::F32, vec![Dim::Fixed(N)]),
        value(3, DType::F16, y()),
        value(4, DType::F32, y()),
        value(5, DType::F32, y()),
        value(6, DType::F32, y()),
        value(7, DType::F16, y()),
    ];
    let node = |op: &str, inputs: &[usize], output: usize| Node {
        name: format!("{name}_{op}_{output}"),
        op: op.into(),
        domain: String::new(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: vec![Some(output)],
        attributes: match (op, output) {
            ("Cast", 4) => BTreeMap::from([("to".to_owned(), Attribute::Int(1))]),
            ("Cast", _) => BTreeMap::from([("to".to_owned(), Attribute::Int(10))]),
            _ => BTreeMap::new(),
        },
    };
    let nodes = vec![
        node("MatMul", &[0, 1], 3),
        node("Cast", &[3], 4),
        node("Add", &[4, 2], 5),
        node("Relu", &[5], 6),
        node("Cast", &[6], 7),
    ];
    let constant = |id: u64, value: usize| Constant { id: ConstantId(id), value, inline: None, shared: false };
    let constants = vec![constant(0, 1), constant(1, 2)];
    let (schema, symbol) = (SCHEMA.into(), format!("byoc_{name}_cutlass_0"));
    Region { schema, symbol, values, inputs: vec![0], outputs: vec![7], constants, nodes, ..Region::default() }
}

/// Bytes of no pattern.
fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper bit pattern of small numbers, of either type.
        (state >> 56) as u8 & 0x3f
    };
    (0..count).map(|_| next()).collect()
}

struct Kept(Vec<(ConstantId, Claim)>);

impl ClaimSink for Kept {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.0.push((id, claim.clone()));
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<(), Error> {
        panic!("nothing is packed")
    }
}

pub(crate) fn checks() {
    let backend = byoc_plugin_api::registered().into_iter().find(|backend| backend.describe().name == "cutlass");
    let backend = backend.expect("it is linked");
    let options: Options = serde_json::from_value(serde_json::json!({ "arch": "sm_80,sm_90a", "math": "f32" }))
        .expect("it is a map of texts");
    let (w, bias) = (bytes(2 * K * N, 1), bytes(4 * N, 2));
    let code = code(backend, "first", &w, &bias, &options);
    // Whatever the weights and the names are.
    assert_eq!(code, self::code(backend, "second", &bytes(2 * K * N, 3), &bytes(4 * N, 4), &options));
    has_no_weights(&code, &w);
    has_no_weights(&code, &bias);

    let (program, _) = Program::read(&code).expect("it is a program");
    let arches: Vec<_> = program.variants.iter().map(|variant| variant.arch.as_str()).collect();
    assert_eq!(arches, ["sm_80", "sm_90a"]);
    // The kernel is given the bias of f32 as it lies.
    assert_eq!((program.constants[1].id, program.constants[1].dtype), (ConstantId(1), DType::F32));
    let [launch] = &program.variants[0].launches[..] else { panic!("{program:?}") };
    let given = [Place::Input(0), Place::Constant(0), Place::Constant(1), Place::Output(0)];
    assert_eq!(launch.arguments[..4], given.map(Argument::Pointer));

    let options: Options =
        serde_json::from_value(serde_json::json!({ "arch": "sm_80", "math": "f32" })).expect("it is a map of texts");
    let code = self::code(backend, "first", &w, &bias, &options);
    let others = backend.candidates(&code, &options).expect("they compile");
    let others = checked_candidates(others, &code).expect("they keep the contract");
    assert_eq!(others.len(), 6);
    for other in &others {
        let (program, _) = Program::read(&other.code).expect("it is a program");
        assert_eq!(program.variants[0].launches[0].arguments, launch.arguments, "{}", other.name);
    }
}

/// The code of a region, whose constants are left where they are.
fn code(backend: &dyn Backend, name: &str, w: &[u8], bias: &[u8], options: &Options) -> Vec<u8> {
    let region = region(name);
    let (k, n) = (K as i64, N as i64);
    let (of_w, of_bias) = ([k, n], [n]);
    let (steps_w, steps_bias) = ([n, 1], [1]);
    let w = TensorView::from_bytes(w, DType::F16, &of_w, &steps_w).expect("as many bytes");
    let bias = TensorView::from_bytes(bias, DType::F32, &of_bias, &steps_bias).expect("as many bytes");
    let constants = Constants::new(vec![(ConstantId(0), w), (ConstantId(1), bias)]);
    backend.check(&region, options).expect("it is taken");
    let mut code = Vec::new();
    backend.codegen(&region, &constants, options, &mut code).expect("it compiles");
    let mut kept = Kept(Vec::new());
    let mut claims = Claims::new(&mut kept);
    backend.constant_updater(&region, &constants, &code, options, &mut claims).expect("each is claimed");
    assert_eq!(kept.0, [(ConstantId(0), Claim::Host), (ConstantId(1), Claim::Host)]);
    code
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
