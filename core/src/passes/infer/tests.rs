//! Properties of operators that inference uses; whole graphs are in `tests/filetests/infer`.

use bytes::Bytes;

use super::*;
use crate::ops::NoOp;

#[test]
fn no_ops_and_views_are_told() {
    let matrix = TensorType { dtype: DType::F32, shape: vec![Dim::Fixed(2)] };
    let node = Node {
        name: "n".into(),
        op: "Cast".into(),
        inputs: vec![Some(ValueId(0))],
        outputs: vec![Some(ValueId(1))],
        attributes: Default::default(),
        ..Node::default()
    };
    let cast = ops::find("", "Cast").expect("Cast");
    let other = TensorType { dtype: DType::F16, ..matrix.clone() };
    assert!(cast.is_no_op(&node, &matrix, &matrix));
    assert!(!cast.is_no_op(&node, &matrix, &other));
    for name in ["Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"] {
        let def = ops::find("", name).expect(name);
        assert!(def.no_op == NoOp::Always && def.view.is_some(), "{name}");
    }
    let mut table = ConstantTable::default();
    let ints = table.insert("i", DType::I32, &[2], Bytes::from_static(&[1, 0, 0, 0, 255, 255, 255, 255]));
    assert_eq!(constant_ints(&table, &ints), Some(vec![1, -1]));
}
