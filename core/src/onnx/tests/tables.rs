//! Operators of `ai.onnx.ml`: weights that become constants, and trees that are none.

use byoc_plugin_api::Attribute::{self, Floats, Ints, String, Strings};
use byoc_plugin_api::{Constant, ConstantId, Constants, DType, Dim, Region, TensorView, Value, text_block, to_hex};
use prost::Message;

use super::{failure, graph, input, model};
use crate::diagnostic::Code;
use crate::ir::{Graph, Node, ValueId};
use crate::onnx::proto::{ModelProto, NodeProto, OperatorSetIdProto};
use crate::onnx::{region_model, write};

/// A model of one node of the domain, from `x` of 3 columns to `y`.
fn with(version: i64, op: &str, attributes: &[(&str, Attribute)]) -> ModelProto {
    let node = write::node("n", ("ai.onnx.ml", op), vec!["x".into()], vec!["y".into()]);
    let attribute = attributes.iter().map(|(name, value)| write::attribute(name, value)).collect();
    let mut made = model(13, &[input("x", &[2, 3])], &[], &[NodeProto { attribute, ..node }]);
    made.opset_import.push(OperatorSetIdProto { domain: Some("ai.onnx.ml".into()), version: Some(version) });
    made
}

/// The error of such a model: message and remedy.
fn error(version: i64, op: &str, attributes: &[(&str, Attribute)]) -> (Code, std::string::String, std::string::String) {
    failure(&with(version, op, attributes))
}

/// A tree of two branches and three leaves, with the attributes of `changed` in place of its own.
fn tree(changed: &[(&'static str, Attribute)]) -> Vec<(&'static str, Attribute)> {
    let modes = "BRANCH_LEQ LEAF BRANCH_LT LEAF LEAF".split(' ').map(str::to_owned).collect();
    let own = [
        ("nodes_treeids", Ints(vec![0; 5])),
        ("nodes_nodeids", Ints(vec![0, 1, 2, 3, 4])),
        ("nodes_featureids", Ints(vec![0, 0, 2, 0, 0])),
        ("nodes_modes", Strings(modes)),
        ("nodes_values", Floats(vec![0.5; 5])),
        ("nodes_truenodeids", Ints(vec![1, 0, 3, 0, 0])),
        ("nodes_falsenodeids", Ints(vec![2, 0, 4, 0, 0])),
        ("nodes_hitrates", Floats(vec![1.0; 5])),
        ("target_treeids", Ints(vec![0; 3])),
        ("target_nodeids", Ints(vec![1, 3, 4])),
        ("target_ids", Ints(vec![0; 3])),
        ("target_weights", Floats(vec![1.0, 2.0, 3.0])),
    ];
    let kept = own.into_iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    kept.chain(changed.iter().cloned()).collect()
}

/// The names of the inputs of a node.
fn names(graph: &Graph, node: &Node) -> std::string::String {
    let name = |input: &Option<ValueId>| input.map_or_else(|| "-".into(), |id| graph.value(id).name.clone());
    node.inputs.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn weights_become_constants_of_the_smallest_type() {
    let graph = graph(&with(3, "TreeEnsembleRegressor", &tree(&[])));
    let node = &graph.nodes[0];
    assert!(node.attributes.is_empty(), "{:?}", node.attributes);
    let expected = "x - - n_nodes_falsenodeids n_nodes_featureids - n_nodes_modes n_nodes_nodeids n_nodes_treeids \
                    n_nodes_truenodeids n_nodes_values - n_target_ids n_target_nodeids n_target_treeids n_target_weights";
    assert_eq!(names(&graph, node), expected);
    let dtype = |index: usize| node.input(index).and_then(|id| graph.value(id).ty.clone()).map(|ty| ty.dtype);
    assert_eq!([dtype(6), dtype(8), dtype(15)], [Some(DType::U8), Some(DType::U8), Some(DType::F32)]);
}

#[test]
fn trees_that_lead_nowhere_are_errors() {
    let modes = |first: &str| Strings([first, "LEAF", "BRANCH_LT", "LEAF", "LEAF"].map(str::to_owned).to_vec());
    let cases: [(&[(&'static str, Attribute)], &str); 10] = [
        (&[("nodes_modes", modes("BRANCH_MEMBER"))], "only TreeEnsemble has the mode 'BRANCH_MEMBER'"),
        (&[("nodes_truenodeids", Ints(vec![9, 0, 3, 0, 0]))], "tree 0: node 0 leads to node 9, which is not there"),
        (&[("nodes_falsenodeids", Ints(vec![2, 0, 0, 0, 0]))], "tree 0: what follows node 0 leads back to it"),
        (&[("nodes_nodeids", Ints(vec![0, 1, 2, 3, 3]))], "tree 0 has two nodes 3"),
        (&[("nodes_featureids", Ints(vec![0, 0, 3, 0, 0]))], "attribute 'nodes_featureids' has 3, and there are 3"),
        (&[("nodes_featureids", Ints(vec![0, 0, -1, 0, 0]))], "attribute 'nodes_featureids' has -1, and there are 3"),
        (
            &[("target_nodeids", Ints(vec![1, 3, 5]))],
            "attribute 'target_weights' is for node 5 of tree 0, which is not there",
        ),
        (&[("target_ids", Ints(vec![0, 1, 0]))], "attribute 'target_ids' has 1, and there are 1"),
        (&[("nodes_values", Floats(vec![0.5; 4]))], "attribute 'nodes_values' has 4 elements, and 'nodes_treeids' 5"),
        (
            &[("nodes_modes", modes("BRANCH"))],
            "the mode 'BRANCH' is not one of BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ, \
             BRANCH_MEMBER, LEAF",
        ),
    ];
    for (changed, cause) in cases {
        let (code, message, _) = error(3, "TreeEnsembleRegressor", &tree(changed));
        assert_eq!((code, message), (Code::BadNode, format!("node 'n': {cause}")));
    }
}

/// As [`tree`], of version 5.
fn ensemble(changed: &[(&'static str, Attribute)]) -> Vec<(&'static str, Attribute)> {
    let tensor =
        |dtype, count: usize, bytes: &[u8]| Attribute::Tensor { dtype, shape: vec![count], hex: to_hex(bytes) };
    let own = [
        ("tree_roots", Ints(vec![0])),
        ("nodes_featureids", Ints(vec![0, 2])),
        ("nodes_truenodeids", Ints(vec![1, 0])),
        ("nodes_falsenodeids", Ints(vec![0, 1])),
        ("nodes_trueleafs", Ints(vec![0, 1])),
        ("nodes_falseleafs", Ints(vec![1, 1])),
        ("nodes_modes", tensor(DType::U8, 2, &[0, 6])),
        ("nodes_splits", tensor(DType::F32, 2, &[0; 8])),
        ("membership_values", tensor(DType::F32, 1, &1f32.to_le_bytes())),
        ("leaf_targetids", Ints(vec![0, 0])),
        ("leaf_weights", tensor(DType::F32, 2, &[0; 8])),
    ];
    let kept = own.into_iter().filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
    kept.chain(changed.iter().cloned()).collect()
}

#[test]
fn ensembles_that_lead_nowhere_are_errors() {
    assert_eq!(graph(&with(5, "TreeEnsemble", &ensemble(&[]))).nodes[0].inputs.len(), 13);
    let modes = |modes: &[u8]| Attribute::Tensor { dtype: DType::U8, shape: vec![2], hex: to_hex(modes) };
    let cases: [(&[(&'static str, Attribute)], &str); 7] = [
        (&[("nodes_truenodeids", Ints(vec![2, 0]))], "node 0 of its trees leads to node 2, and there are 2"),
        (&[("nodes_truenodeids", Ints(vec![1, 2]))], "node 1 of its trees leads to leaf 2, and there are 2"),
        (&[("nodes_truenodeids", Ints(vec![0, 0]))], "what follows node 0 of its trees leads back to it"),
        (&[("tree_roots", Ints(vec![0, 2]))], "attribute 'tree_roots' has 2, and there are 2 nodes"),
        (&[("leaf_targetids", Ints(vec![0, 1]))], "attribute 'leaf_targetids' has 1, and there are 1"),
        (&[("nodes_modes", modes(&[0, 7]))], "attribute 'nodes_modes' has 7, expected 0 to 6"),
        (&[("nodes_modes", modes(&[6, 6]))], "attribute 'membership_values' has 1 sets, and 2 nodes ask for one"),
    ];
    for (changed, cause) in cases {
        let (code, message, _) = error(5, "TreeEnsemble", &ensemble(changed));
        assert_eq!((code, message), (Code::BadNode, format!("node 'n': {cause}")));
    }
}

#[test]
fn maps_are_refused_by_name() {
    let cause = "node 'n': operator ai.onnx.ml.ZipMap version 1 makes maps, which byoc does not carry";
    let remedy = "Export the model without it: with skl2onnx, options={id(model): {'zipmap': False}}";
    assert_eq!(error(1, "ZipMap", &[]), (Code::UnknownOperator, cause.into(), remedy.into()));
}

/// Lists of texts are constants with a node that makes texts of them, version 1 of LabelEncoder a CategoryMapper.
#[test]
fn texts_are_made_of_constants() {
    let texts = |texts: &[&str]| Strings(texts.iter().map(|text| (*text).to_owned()).collect());
    let attributes = [("classlabels_strings", texts(&["no", "yes"])), ("coefficients", Floats(vec![1.0]))];
    let model = with(1, "LinearClassifier", &attributes);
    let read = graph(&model);
    let shown: Vec<_> = read.nodes.iter().map(|node| format!("{} {}", node.op, names(&read, node))).collect();
    assert_eq!(
        shown,
        ["DecodeStrings n_classlabels_strings_block", "LinearClassifier x - n_classlabels_strings n_coefficients"]
    );
    let encoder = [("classes_strings", texts(&["a", "b"])), ("default_int64", Attribute::Int(7))];
    let read = graph(&with(1, "LabelEncoder", &encoder));
    let mapper = read.nodes.last().expect("a node");
    let shown = format!("{} {}", mapper.op, names(&read, mapper));
    assert_eq!(shown, "CategoryMapper x n_cats_int64s n_cats_strings");
    assert_eq!(mapper.attributes.keys().collect::<Vec<_>>(), ["default_int64"]);
}

#[test]
fn forms_that_do_not_fit_are_errors() {
    type Case<'a> = (&'a str, i64, Vec<(&'a str, Attribute)>, Code, &'a str);
    let cases: [Case<'_>; 5] = [
        (
            "Scaler",
            6,
            vec![],
            Code::UnknownOperator,
            "node 'n': operator set 6 of ai.onnx.ml is not known; this build knows 1 to 5",
        ),
        (
            "Scaler",
            1,
            vec![("offset", Ints(vec![1]))],
            Code::BadNode,
            "node 'n': attribute 'offset' must be a list of numbers",
        ),
        ("LinearClassifier", 1, vec![], Code::BadNode, "node 'n': attribute 'coefficients' is missing"),
        (
            "LabelEncoder",
            4,
            vec![("keys_int64s", Ints(vec![1])), ("keys_floats", Floats(vec![1.0]))],
            Code::BadNode,
            "node 'n': LabelEncoder needs exactly one of the attributes keys_int64s, keys_floats, keys_strings, keys_tensor",
        ),
        (
            "Normalizer",
            1,
            vec![("norms", String("L1".into()))],
            Code::BadNode,
            "node 'n': attribute 'norms' is not known for operator ai.onnx.ml.Normalizer version 1",
        ),
    ];
    for (op, version, attributes, code, message) in cases {
        let found = error(version, op, &attributes);
        assert_eq!((found.0, found.1.as_str()), (code, message));
    }
}

/// A region that is written as a model has as attributes again what ONNX has as such; of a forest that is hidden, the integers stay.
#[test]
fn constants_are_attributes_again_in_a_written_region() {
    let value = |name: &str, dtype, size: usize| Value { name: name.into(), dtype, shape: vec![Dim::Fixed(size)] };
    let region = Region {
        symbol: "r".into(),
        values: vec![
            value("x", DType::F32, 3),
            value("n_cats_int64s", DType::I8, 2),
            value("n_scale", DType::F32, 3),
            value("y", DType::F32, 3),
            value("z", DType::F32, 6),
        ],
        inputs: vec![0],
        outputs: vec![4],
        constants: (1..3)
            .map(|at| Constant { id: ConstantId(at), value: at as usize, inline: None, shared: false })
            .collect(),
        nodes: vec![
            region_node("Scaler", vec![Some(0), None, Some(2)], 3),
            region_node("OneHotEncoder", vec![Some(3), Some(1)], 4),
        ],
        ..Region::default()
    };
    let (categories, scale) = ([-1i8, 5], [2f32, 3.0, 4.0]);
    let written = |strip: bool| {
        let views = vec![
            (ConstantId(1), TensorView::from_slice(&categories, &[2], &[1]).expect("fits")),
            (ConstantId(2), TensorView::from_slice(&scale, &[3], &[1]).expect("fits")),
        ];
        let bytes = region_model(&region, &Constants::new(views), strip, &[]).expect("writes");
        ModelProto::decode(bytes).expect("a model")
    };
    let model = written(false);
    assert_eq!(model.opset_import, [write::opset("ai.onnx.ml", 1)]);
    let read = graph(&model);
    assert_eq!(read.nodes.iter().map(|node| node.inputs.len()).collect::<Vec<_>>(), [3, 2]);
    let nodes = |model: ModelProto| model.graph.expect("a graph").node;
    let attributes =
        |node: &NodeProto| node.attribute.iter().map(|it| (it.floats.clone(), it.ints.clone())).collect::<Vec<_>>();
    let nodes_of = nodes(model);
    assert_eq!([nodes_of[0].input.len(), nodes_of[1].input.len()], [1, 1]);
    assert_eq!(attributes(&nodes_of[0]), [(scale.to_vec(), vec![])]);
    assert_eq!(attributes(&nodes_of[1]), [(vec![], vec![-1, 5])]);
    let hidden = nodes(written(true));
    assert_ne!(attributes(&hidden[0]), attributes(&nodes_of[0]));
    assert_eq!(attributes(&hidden[1]), attributes(&nodes_of[1]));
}

/// Constant texts are attributes, or tensors of texts, again in a written region; those that come from elsewhere are no attribute.
#[test]
fn texts_are_texts_again_in_a_written_region() {
    let value = |name: &str, dtype, size: usize| Value { name: name.into(), dtype, shape: vec![Dim::Fixed(size)] };
    let block = text_block(&["cat", "dog"]).expect("few texts");
    let decode = byoc_plugin_api::Node {
        attributes: [("shape".to_owned(), Ints(vec![2]))].into(),
        domain: "byoc".into(),
        ..region_node("DecodeStrings", vec![Some(1)], 2)
    };
    let concat = byoc_plugin_api::Node { domain: "".into(), ..region_node("StringConcat", vec![Some(0), Some(2)], 4) };
    let region = |last: byoc_plugin_api::Node, decodes: bool| Region {
        symbol: "r".into(),
        values: vec![
            value("x", DType::String, 2),
            value("block", DType::U8, block.len()),
            value("pets", DType::String, 2),
            value("y", DType::F32, 4),
            value("z", DType::String, 2),
        ],
        inputs: if decodes { vec![0] } else { vec![0, 2] },
        outputs: last.outputs.iter().map(|output| output.expect("an output")).collect(),
        constants: vec![Constant { id: ConstantId(1), value: 1, inline: None, shared: false }],
        nodes: decodes.then(|| decode.clone()).into_iter().chain([last]).collect(),
        ..Region::default()
    };
    let written = |region: &Region| {
        let (shape, strides) = ([block.len() as i64], [1]);
        let view = TensorView::from_slice(&block, &shape, &strides).expect("fits");
        let model = region_model(region, &Constants::new(vec![(ConstantId(1), view)]), false, &[]);
        model.map(|bytes| ModelProto::decode(bytes).expect("a model").graph.expect("a graph"))
    };
    let encoder = || region_node("OneHotEncoder", vec![Some(0), None, Some(2)], 3);
    let graph = written(&region(encoder(), true)).expect("writes");
    assert_eq!((graph.node.len(), graph.initializer.len(), graph.node[0].input.len()), (1, 0, 1));
    assert_eq!(graph.node[0].attribute[0].strings, ["cat", "dog"]);
    let graph = written(&region(concat, true)).expect("writes");
    assert_eq!((graph.node.len(), graph.initializer.len()), (1, 1));
    assert_eq!(
        (&graph.node[0].input[1], &graph.initializer[0].string_data[..]),
        (&"pets".to_owned(), &["cat", "dog"].map(Into::into)[..])
    );
    let error = written(&region(encoder(), false)).expect_err("it comes from elsewhere");
    assert_eq!(error.message, "attribute 'cats_strings' of node 'OneHotEncoder' is computed outside of the region");
}

fn region_node(op: &str, inputs: Vec<Option<usize>>, output: usize) -> byoc_plugin_api::Node {
    byoc_plugin_api::Node {
        name: op.into(),
        op: op.into(),
        domain: "ai.onnx.ml".into(),
        inputs,
        outputs: vec![Some(output)],
        ..byoc_plugin_api::Node::default()
    }
}
