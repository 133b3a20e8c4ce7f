//! Upsample and the older forms of Resize.

use super::*;

#[test]
fn upsampling_is_resizing() {
    let tail = "coordinate_transformation_mode=String(\"asymmetric\")";
    let floor = |inputs: &str| {
        vec![format!("y = Resize({inputs}) {tail} mode=String(\"linear\") nearest_mode=String(\"floor\")")]
    };
    let scales = floats("s", &[4]);
    let old = |opset, op: &str, inputs: &[&str], attributes: &[AttributeProto]| {
        nodes(&model(
            opset,
            &[input("x", &[1, 1, 2, 2])],
            std::slice::from_ref(&scales),
            &[node(op, inputs, &["y"], attributes)],
        ))
    };
    let factors = AttributeProto { floats: vec![1.0, 1.0, 2.0, 3.0], ..attribute("scales", AttributeType::Floats) };
    assert_eq!(old(7, "Upsample", &["x"], &[factors, text("mode", "linear")]), floor("x, _, [1.0 1.0 2.0 3.0]"));
    let sides = [float("height_scale", 2.0), float("width_scale", 3.0), text("mode", "bilinear")];
    assert_eq!(old(1, "Upsample", &["x"], &sides), floor("x, _, [1.0 1.0 2.0 3.0]"));
    assert_eq!(old(9, "Upsample", &["x", "s"], &[text("mode", "linear")]), floor("x, _, [0.0 1.0 2.0 3.0]"));
}

#[test]
fn resize_10_rounds_as_it_did() {
    let resize = |scales: &[f32]| {
        let raw = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let scales = raw_tensor("s", DataType::Float, &[scales.len() as i64], raw);
        model(10, &[input("x", &[2, 2])], &[scales], &[node("Resize", &["x", "s"], &["y"], &[])])
    };
    let tail = "coordinate_transformation_mode=String(\"asymmetric\") nearest_mode=String";
    assert_eq!(nodes(&resize(&[1.0, 2.0])), [format!("y = Resize(x, _, [1.0 2.0]) {tail}(\"floor\")")]);
    assert_eq!(nodes(&resize(&[1.0, 0.5])), [format!("y = Resize(x, _, [1.0 0.5]) {tail}(\"ceil\")")]);
    let message = "node 'n': Resize version 10 to the nearest cannot shrink one axis and stretch another";
    assert_fails(&resize(&[0.5, 2.0]), Code::UnknownOperator, message);
}

#[test]
fn resize_drops_empty_inputs() {
    let empty = |name| raw_tensor(name, DataType::Float, &[0], vec![]);
    let sizes = raw_tensor("sizes", DataType::Int64, &[1], 7i64.to_le_bytes().to_vec());
    let resize = |inputs: &[&str]| {
        model(
            11,
            &[input("x", &[2])],
            &[empty("roi"), empty("scales"), sizes.clone()],
            &[node("Resize", inputs, &["y"], &[])],
        )
    };
    assert_eq!(nodes(&resize(&["x", "roi", "scales", "sizes"])), ["y = Resize(x, _, _, [7])"]);
    let message = "node 'n': Resize has neither scales nor sizes";
    assert_fails(&resize(&["x", "roi", "scales"]), Code::BadNode, message);
}

#[test]
fn a_coordinate_mode_that_is_gone_is_refused() {
    let mode = text("coordinate_transformation_mode", "tf_half_pixel_for_nn");
    let resize = node("Resize", &["x", "", "s"], &["y"], &[mode]);
    let message = "node 'n': Resize with the coordinate mode tf_half_pixel_for_nn is not supported";
    assert_fails(&model(11, &[input("x", &[2])], &[floats("s", &[1])], &[resize]), Code::UnknownOperator, message);
}
