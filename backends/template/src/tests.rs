//! A region end to end through the backend, without byoc: check, codegen, claims, load, run.

use byoc_plugin_api::testing::{Lies, RegionBuilder, Tensor, options};
use byoc_plugin_api::{BoundConstants, Environment, HostRuntime, Options, RefusalCode};

use crate::TemplateBackend;

/// `y = x + w`, with `x` an input of two elements and `w` that constant.
fn add(w: Tensor) -> RegionBuilder {
    let mut net = RegionBuilder::new("template");
    let x = net.input("f32[2]");
    let w = net.constant(w);
    let y = net.node("Add", &[x, w], "f32[2]", "");
    net.output(y);
    net
}

#[test]
fn what_is_not_taken_is_refused_with_the_reason() {
    let refusal = |w| add(w).check(&TemplateBackend, &options(&TemplateBackend, &[])).expect_err("refused");
    let other_type = refusal(Tensor::new("i32[2]", &[1.0, 2.0]));
    assert_eq!((other_type.code, other_type.message.as_str()), (RefusalCode::Type, "'w1' is i32, only f32 is taken"));
    let other_shape = refusal(Tensor::new("f32[1]", &[1.0]));
    assert_eq!((other_shape.code, other_shape.message.as_str()), (RefusalCode::Shape, "'x0' and 'w1' differ in shape"));
}

#[test]
fn a_region_runs_however_its_constant_lies() {
    for lies in [Lies::RowMajor, Lies::Spread] {
        let net = add(Tensor::of([2], &[10f32, 20.0]).lying(lies));
        let compiled = net.compile(&TemplateBackend, &[]).expect("it is taken");
        assert_eq!(compiled.claims.words(), ["host"]);
        let found = compiled.run(&[Tensor::of([2], &[1f32, 2.0])], &[]).expect("it runs");
        assert_eq!(found[0].to_vec::<f32>(), [11.0, 22.0]);
    }
}

#[test]
fn damaged_code_is_an_error() {
    let environment = Environment { threads: 1, options: Options::default() };
    for code in [&b""[..], b"{}", br#"{"operands":[]}"#] {
        assert!(TemplateBackend.load(code, &BoundConstants::new(vec![]), &environment).is_err());
    }
}
