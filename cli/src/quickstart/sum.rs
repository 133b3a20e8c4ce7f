//! The model in a new backend's folder: `y = Relu(x + w)`. The skeleton takes the first node; a host backend has to take
//! the second.

use super::protobuf::{Message, node, tensor, value};

/// The shape of `x`, `w` and `y`.
const SHAPE: [i64; 2] = [2, 4];

/// The bytes of the model file.
pub(crate) fn sum() -> Vec<u8> {
    let weights: Vec<f32> = (0..8).map(|i| i as f32 / 4.0 - 1.0).collect();
    let nodes = [node("sum", "Add", &["x", "w"], "sum", vec![]), node("y", "Relu", &["sum"], "y", vec![])];
    let graph = Message::default()
        .messages(1, nodes)
        .bytes(2, b"sum")
        .message(5, tensor("w", &SHAPE, &weights))
        .message(11, value("x", &SHAPE))
        .message(12, value("y", &SHAPE));
    let opset = Message::default().bytes(1, b"").int(2, 17);
    Message::default().int(1, 8).bytes(2, b"byoc plugin new").message(7, graph).message(8, opset).into_bytes()
}
