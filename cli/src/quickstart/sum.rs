//! The model in a new backend's folder: `y = Relu(x + w)`. The skeleton takes the first node; a host backend has to take
//! the second.

use byoc_core::onnx::proto::tensor_proto::DataType::Float;
use byoc_core::onnx::write::Model;

/// The shape of `x`, `w` and `y`.
const SHAPE: [i64; 2] = [2, 4];

/// The bytes of the model file.
pub(crate) fn sum() -> Vec<u8> {
    let weights: Vec<f32> = (0..8).map(|i| i as f32 / 4.0 - 1.0).collect();
    let mut model = Model::default()
        .input("x", Float, &SHAPE)
        .weight("w", &SHAPE, &weights)
        .node("Add", &["x", "w"], &["sum"])
        .node("Relu", &["sum"], &["y"])
        .output("y", Float, &SHAPE);
    model.head.producer_name = Some("byoc plugin new".into());
    model.finish()
}
