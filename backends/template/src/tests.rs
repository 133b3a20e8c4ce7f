//! A region on its whole way through the backend, without byoc: check, codegen, claims, load, run.

use byoc_plugin_api::{
    Backend, BoundConstant, BoundConstants, Claim, ClaimSink, Claims, Constant, ConstantId, Constants, DType, Dim,
    Environment, Error, Node, Options, RefusalCode, Region, SCHEMA, TensorView, TensorViewMut, Value,
};

use crate::TemplateBackend;

/// The id of the constant `w`; byoc may give any number.
const W: ConstantId = ConstantId(7);

/// `y = x + w`, with `x` an input of two elements and `w` a constant of that type and size.
fn add(dtype: DType, size: usize) -> Region {
    let value = |name: &str, dtype, size| Value { name: name.into(), dtype, shape: vec![Dim::Fixed(size)] };
    Region {
        schema: SCHEMA.into(),
        symbol: "byoc_main_template_0".into(),
        values: vec![value("x", DType::F32, 2), value("w", dtype, size), value("y", DType::F32, 2)],
        inputs: vec![0],
        outputs: vec![2],
        constants: vec![Constant { id: W, value: 1, inline: None, shared: false }],
        nodes: vec![Node {
            name: "sum".into(),
            op: "Add".into(),
            domain: String::new(),
            inputs: vec![Some(0), Some(1)],
            outputs: vec![Some(2)],
            attributes: Default::default(),
        }],
        ..Region::default()
    }
}

/// Collects claims.
#[derive(Default)]
struct Claimed(Vec<(ConstantId, Claim)>);

impl ClaimSink for Claimed {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.0.push((id, claim.clone()));
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<(), Error> {
        Err(Error::new("nothing is packed"))
    }
}

#[test]
fn what_is_not_taken_is_refused_with_the_reason() {
    let refusal = |region| TemplateBackend.check(&region, &Options::default()).expect_err("refused");
    let other_type = refusal(add(DType::I32, 2));
    assert_eq!((other_type.code, other_type.message.as_str()), (RefusalCode::Type, "'w' is i32, only f32 is taken"));
    let other_shape = refusal(add(DType::F32, 1));
    assert_eq!((other_shape.code, other_shape.message.as_str()), (RefusalCode::Shape, "'x' and 'w' differ in shape"));
}

#[test]
fn every_constant_is_claimed_once() {
    let mut claimed = Claimed::default();
    TemplateBackend
        .constant_updater(
            &add(DType::F32, 2),
            &Constants::new(vec![]),
            &[],
            &Options::default(),
            &mut Claims::new(&mut claimed),
        )
        .expect("claims");
    assert_eq!(claimed.0, [(W, Claim::Host)]);
}

#[test]
fn a_region_runs() {
    let region = add(DType::F32, 2);
    TemplateBackend.check(&region, &Options::default()).expect("taken");
    let mut code = Vec::new();
    TemplateBackend.codegen(&region, &Constants::new(vec![]), &Options::default(), &mut code).expect("code");

    let (x, w, mut y) = ([1f32, 2.0], [10f32, 20.0], [0f32; 2]);
    let view = TensorView::from_slice(&w, &[2], &[1]).expect("a tensor");
    let constants = BoundConstants::new(vec![BoundConstant { id: W, layout: None, view }]);
    let environment = Environment { threads: 1, options: Options::default() };
    let mut executable = TemplateBackend.load(&code, &constants, &environment).expect("loads");
    let input = TensorView::from_slice(&x, &[2], &[1]).expect("a tensor");
    let output = TensorViewMut::from_slice(&mut y, &[2], &[1]).expect("a tensor");
    executable.run(&[input], &mut [output]).expect("runs");
    drop(executable);
    assert_eq!(y, [11.0, 22.0]);
}

#[test]
fn damaged_code_is_an_error() {
    let environment = Environment { threads: 1, options: Options::default() };
    for code in [&b""[..], b"{}", br#"{"operands":[]}"#] {
        assert!(TemplateBackend.load(code, &BoundConstants::new(vec![]), &environment).is_err());
    }
}
