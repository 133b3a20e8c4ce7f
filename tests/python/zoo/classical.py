"""Cases of the operators of `ai.onnx.ml`, each with what onnxruntime makes of it, and a forest that scikit-learn has trained."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

from zoo import runner, seeds
from zoo.store import Arrays, Task, write_case, write_npz

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
ROWS, COLUMNS = 24, 5
FOREST, ESTIMATORS = "forest", 24

Case = tuple[str, onnx.NodeProto, Arrays]


def tasks() -> list[Task]:
    """Gives a task for all cases, and one for the forests."""
    return [Task("classical", fill), Task("forest/digits", fill_classifier), Task("forest/pixels", fill_regressor)]


def fill(folder: Path) -> None:
    """Writes a folder for each case."""
    for name, node, inputs in itertools.chain(features(), labels(), linear(), machines(), forests(), ensembles(), grams()):
        model = model_of(node, inputs)
        write_case(folder / name, model, inputs)
        onnx.save(as_onnxruntime_has_it(model), folder / "onnxruntime.onnx")
        session = runner.open_session(folder / "onnxruntime.onnx")
        names = [output.name for output in session.get_outputs()]
        write_npz(folder / name / "outputs.npz", dict(zip(names, session.run(names, dict(inputs)), strict=True)))
    (folder / "onnxruntime.onnx").unlink()


def as_onnxruntime_has_it(model: onnx.ModelProto) -> onnx.ModelProto:
    """Gives the model with onnxruntime's numbers: it takes the SOFTMAX (1) and the LOGISTIC (2) of `TreeEnsemble` for each other."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for attribute in copy.graph.node[0].attribute:
        if attribute.name == "post_transform" and attribute.i in (1, 2):
            attribute.i = 3 - attribute.i
    return copy


def model_of(node: onnx.NodeProto, inputs: Arrays, version: int | None = None) -> onnx.ModelProto:
    """Gives a model of one node, for any number of rows."""
    def declared(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        shape = ["rows" if name == "x" and array.ndim == 2 and axis == 0 else size for axis, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    version = version or {"TreeEnsemble": 5, "LabelEncoder": 4}.get(node.op_type, 3)
    values = [declared(name, array) for name, array in inputs.items()]
    graph = helper.make_graph([node], "case", values, [onnx.ValueInfoProto(name=name) for name in node.output])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(op: str, inputs: Arrays, outputs: int = 1, **attributes: object) -> onnx.NodeProto:
    """Gives a node of the domain."""
    names = ["y", "scores"][:outputs]
    return helper.make_node(op, list(inputs), names, domain=DOMAIN, **attributes)


def table(name: str, columns: int = COLUMNS, dtype: type = np.float32) -> np.ndarray:
    """Draws features; with repeated and whole numbers among them, so that some equal a threshold."""
    values = seeds.normal(seeds.generator("classical", name), (ROWS, columns), 1.0)
    values[::3] = np.round(values[::3] * 2) / 2
    return values.astype(dtype)


def case(name: str, op: str, inputs: Arrays, outputs: int = 1, **attributes: object) -> Case:
    """Gives a case."""
    return name, node(op, inputs, outputs, **attributes), inputs


def features() -> Iterator[Case]:
    """Gives cases of what prepares features."""
    x = table("features")
    offset, scale = x[1].tolist(), x[2].tolist()
    for dtype in (np.float32, np.float64, np.int64, np.int32):
        typed = {"x": (x * 3).astype(dtype)}
        kind = np.dtype(dtype).name
        yield case(f"scaler_{kind}", "Scaler", typed, offset=offset, scale=scale)
        for norm in ("MAX", "L1", "L2"):
            yield case(f"normalizer_{norm}_{kind}", "Normalizer", typed, norm=norm)
        yield case(f"vectorizer_{kind}", "FeatureVectorizer", {**typed, "z": typed["x"][:, :2]}, inputdimensions=[COLUMNS, 2])
        yield case(f"extractor_{kind}", "ArrayFeatureExtractor", {**typed, "z": np.array([[3, 0, 3]])})
    yield case("scaler_one", "Scaler", {"x": x}, offset=[0.5], scale=[-2.0])
    yield case("scaler_vector", "Scaler", {"x": x[0]}, offset=offset, scale=scale)
    yield case("extractor_vector", "ArrayFeatureExtractor", {"x": x[0], "z": np.array([1, 2])})
    yield case("binarizer", "Binarizer", {"x": x}, threshold=0.5)
    holes = np.where(x > 1, np.float32(np.nan), x)
    yield case("imputer_nan", "Imputer", {"x": holes}, imputed_value_floats=offset, replaced_value_float=float("nan"))
    yield case("imputer_one", "Imputer", {"x": x}, imputed_value_floats=[7.0], replaced_value_float=0.5)
    whole = (x * 2).astype(np.int64)
    yield case("imputer_int64", "Imputer", {"x": whole}, imputed_value_int64s=[9, 8, 7, 6, 300], replaced_value_int64=1)


def labels() -> Iterator[Case]:
    """Gives cases of categories and labels."""
    x = table("labels")
    whole = (x * 2).astype(np.int64)
    yield case("one_hot_float32", "OneHotEncoder", {"x": x * 2}, cats_int64s=[-2, 0, 1, 3])
    yield case("one_hot_int64", "OneHotEncoder", {"x": whole}, cats_int64s=[1, 0, 1], zeros=1)
    yield case("label_int64_float", "LabelEncoder", {"x": whole}, keys_int64s=[0, 1, -1, 0], values_floats=[0.5, 1.5, 2.5, 3.5], default_float=9.0)
    yield case("label_float_int64", "LabelEncoder", {"x": x}, keys_floats=[0.5, 0.0, -1.0], values_int64s=[5, 6, 7])
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([0, 1, 2], np.int64)),
        "values_tensor": numpy_helper.from_array(np.array([10, 20, 1 << 40], np.int64)),
        "default_tensor": numpy_helper.from_array(np.array([-3], np.int64)),
    }
    yield case("label_tensors", "LabelEncoder", {"x": whole}, **tensors)
    yield from texts()


def texts() -> Iterator[Case]:
    """Gives cases of categories and labels that are texts."""
    names = ["cat", "dog", "", "emu", "déjà"]
    drawn = seeds.generator("classical", "texts").integers(0, len(names), (ROWS, 2))
    x = np.array(names, object)[drawn]
    whole = drawn.astype(np.int64)
    yield case("label_string_int64", "LabelEncoder", {"x": x}, keys_strings=["cat", "", "dog"], values_int64s=[3, 4, 5], default_int64=9)
    yield case("label_string_float", "LabelEncoder", {"x": x}, keys_strings=["cat", "emu"], values_floats=[0.5, 1.5])
    yield case("label_int64_string", "LabelEncoder", {"x": whole}, keys_int64s=[0, 2], values_strings=["zero", "two"])
    yield case("label_string_string", "LabelEncoder", {"x": x}, keys_strings=["cat", "dog"], values_strings=["dog", "cat"], default_string="none")
    tensors = {
        "keys_tensor": helper.make_tensor("keys", TensorProto.STRING, [2], ["cat", "déjà"]),
        "values_tensor": numpy_helper.from_array(np.array([1, 2], np.int64)),
        "default_tensor": numpy_helper.from_array(np.array([-3], np.int64)),
    }
    yield case("label_string_tensors", "LabelEncoder", {"x": x}, **tensors)
    yield case("mapper_string", "CategoryMapper", {"x": x}, cats_strings=["cat", "dog", "emu"], cats_int64s=[5, 6, 7], default_int64=-2)
    yield case("mapper_int64", "CategoryMapper", {"x": whole}, cats_strings=["zero", "two"], cats_int64s=[0, 2], default_string="other")
    yield case("one_hot_string", "OneHotEncoder", {"x": x}, cats_strings=["dog", "cat", "emu"])
    yield case("extractor_string", "ArrayFeatureExtractor", {"x": x, "z": np.array([1, 0, 1])})
    grams = {"mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 3]}
    pool = {"pool_strings": ["cat", "dog", "emu", "cat", "dog", "emu", ""], "ngram_indexes": [0, 2, 1, 4, 3], "weights": [1.0, 2.0, 3.0, 4.0, 5.0]}
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **grams, **pool)
    yield "grams_string", node, {"x": np.array(names, object)[drawn.reshape(4, -1)]}


def linear() -> Iterator[Case]:
    """Gives cases of linear models. Probits are of numbers between 0 and 1."""
    x = table("linear")
    rng = seeds.generator("classical", "linear coefficients")
    for count, transform in itertools.product((1, 3), TRANSFORMS):
        coefficients = seeds.normal(rng, (count * COLUMNS,), 0.02 if transform == "PROBIT" else 1.0).tolist()
        intercepts = [0.5, 0.4, 0.6][:count]
        common = {"coefficients": coefficients, "intercepts": intercepts, "post_transform": transform}
        yield case(f"linear_regressor_{count}_{transform}", "LinearRegressor", {"x": x}, targets=count, **common)
        if (count, transform) != (1, "PROBIT"):
            given = [30, 10, 300] if count > 1 else [7, -7]
            yield case(f"linear_classifier_{count}_{transform}", "LinearClassifier", {"x": x}, 2, classlabels_ints=given, **common)
            if transform == "NONE":
                words = ["no", "yes", "maybe"][: len(given)]
                yield case(f"linear_classifier_{count}_strings", "LinearClassifier", {"x": x}, 2, classlabels_strings=words, **common)


def machines() -> Iterator[Case]:
    """Gives cases of support vector machines."""
    x = table("machines")
    rng = seeds.generator("classical", "support vectors")
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        common = {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 3.0]}
        vectors = seeds.normal(rng, (7 * COLUMNS,), 0.5).tolist()
        weights = seeds.normal(rng, (21,), 1.0).tolist()
        for one_class in (0, 1):
            name = f"svm_regressor_{kernel}_{one_class}"
            yield case(name, "SVMRegressor", {"x": x}, coefficients=weights[:7], support_vectors=vectors, n_supports=7, rho=[0.1], one_class=one_class, **common)
        yield case(f"svm_regressor_{kernel}_linear", "SVMRegressor", {"x": x}, coefficients=weights[:COLUMNS], rho=[0.1], **common)
        for classes, probable, transform in itertools.product((2, 4), (False, True), TRANSFORMS[:4]):
            pairs = classes * (classes - 1) // 2
            extra = {"prob_a": [-1.5, -1.0, -2.0, -0.5, -1.2, -0.7][:pairs], "prob_b": [0.2, 0.0, 0.1, -0.3, 0.4, 0.1][:pairs]} if probable else {}
            yield case(
                f"svm_classifier_{kernel}_{classes}_{probable}_{transform}", "SVMClassifier", {"x": x}, 2,
                support_vectors=vectors, vectors_per_class=[3, 4] if classes == 2 else [2, 1, 3, 1], coefficients=weights[: 7 * (classes - 1)],
                rho=[0.1, 0.2, -0.3, 0.0, 0.4, -0.1][:pairs], classlabels_ints=[5, 7, 600, -1][:classes], post_transform=transform, **extra, **common,
            )
        yield case(
            f"svm_classifier_{kernel}_linear", "SVMClassifier", {"x": x}, 2, coefficients=weights[: 3 * COLUMNS], rho=[0.1, 0.2, 0.3], classlabels_ints=[5, 7, 9], **common
        )
        yield case(
            f"svm_classifier_{kernel}_strings", "SVMClassifier", {"x": x}, 2, support_vectors=vectors, vectors_per_class=[3, 4], coefficients=weights[:7], rho=[0.1], classlabels_strings=["no", "yes"], **common
        )


def grow(name: str, trees: int, modes: tuple[str, ...] = MODES) -> dict[str, list]:
    """Draws trees: about half of the nodes are branches."""
    rng = seeds.generator("classical", name)
    nodes: dict[str, list] = {f"nodes_{list_name}": [] for list_name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    for tree in range(trees):
        # Numbers of nodes need not begin with 0.
        numbers = itertools.count(tree)
        waiting = [(next(numbers), 0)]
        while waiting:
            number, depth = waiting.pop()
            branch = depth == 0 or depth < 5 and rng.random() < 0.7
            children = [next(numbers), next(numbers)] if branch else [0, 0]
            waiting += [(child, depth + 1) for child in children if branch]
            row = (tree, number, int(rng.integers(COLUMNS)), rng.choice(modes) if branch else "LEAF", round(float(rng.normal()) * 2) / 2, *children, int(rng.integers(2)))
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
    nodes["nodes_modes"] = [str(mode) for mode in nodes["nodes_modes"]]
    return nodes


def weights(name: str, what: str, nodes: dict[str, list], targets: int, positive: bool = False) -> dict[str, list]:
    """Gives each leaf a weight for each target."""
    rng = seeds.generator("classical", f"{name} weights")
    leaves = [(t, n) for t, n, mode in zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True) if mode == "LEAF"]
    rows = [(tree, number, target) for tree, number in leaves for target in range(targets)]
    numbers = seeds.uniform(rng, (len(rows),), 0.0 if positive else -0.5, 0.3)
    lists = zip(*rows, strict=True)
    return {f"{what}_{part}": list(values) for part, values in zip(("treeids", "nodeids", "ids"), lists, strict=True)} | {f"{what}_weights": numbers.tolist()}


def forests() -> Iterator[Case]:
    """Gives cases of the older operators of trees."""
    x = table("forests")
    holes = np.where(x > 1, np.float32(np.nan), x)
    nodes = grow("forests", 6)
    for targets, aggregate in itertools.product((1, 3), AGGREGATES):
        lists = nodes | weights("regressor", "target", nodes, targets)
        base = {"base_values": [0.25, -1.0, 2.0][:targets]} if aggregate in ("SUM", "MIN") else {}
        for values, kind in ((x, "float32"), (holes, "holes"), (x.astype(np.float64), "float64")):
            yield case(f"trees_regressor_{targets}_{aggregate}_{kind}", "TreeEnsembleRegressor", {"x": values}, n_targets=targets, aggregate_function=aggregate, **base, **lists)
    for mode in MODES:
        lists = grow(mode, 4, (mode,))
        yield case(f"trees_{mode}", "TreeEnsembleRegressor", {"x": holes}, n_targets=1, **lists, **weights(mode, "target", lists, 1))
    # Means of six weights below 0.3: probits are of numbers between 0 and 1.
    for targets, transform in itertools.product((1, 3), TRANSFORMS):
        lists = nodes | weights("transforms", "target", nodes, targets, positive=True)
        yield case(f"trees_regressor_{targets}_{transform}", "TreeEnsembleRegressor", {"x": x}, n_targets=targets, aggregate_function="AVERAGE", post_transform=transform, **lists)
    for transform in TRANSFORMS[:4]:
        lists = nodes | weights("classes", "class", nodes, 4)
        yield case(f"trees_classifier_4_{transform}_strings", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_strings=["a", "b", "c", "d"], post_transform=transform, **lists)
        yield case(f"trees_classifier_4_{transform}", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, -6, 700, 8], post_transform=transform, **lists)
        for sign in (False, True):
            lists = nodes | weights(f"binary {sign}", "class", nodes, 1, positive=sign)
            yield case(f"trees_classifier_2_{transform}_{sign}", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, 6], post_transform=transform, base_values=[0.1], **lists)
            second = lists | {"class_ids": [1] * len(lists["class_ids"])}
            yield case(f"trees_classifier_2_{transform}_{sign}_strings", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_strings=["no", "yes"], post_transform=transform, **lists)
            yield case(f"trees_classifier_second_{transform}_{sign}", "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, 6], post_transform=transform, **second)


def ensembles() -> Iterator[Case]:
    """Gives cases of `TreeEnsemble`, of whole numbers: of others onnxruntime looks for the whole part in sets."""
    for dtype, transform, aggregate in itertools.product((np.float32, np.float64), range(5), range(4)):
        if transform and aggregate:
            continue
        kind = np.dtype(dtype).name
        x = np.round(table("ensembles", dtype=dtype) * 2)
        lists = placed("ensembles", dtype, positive=transform > 0)
        yield case(f"ensemble_{kind}_{transform}_{aggregate}", "TreeEnsemble", {"x": x}, n_targets=2, post_transform=transform, aggregate_function=aggregate, **lists)
        yield case(f"ensemble_holes_{kind}_{transform}_{aggregate}", "TreeEnsemble", {"x": np.where(x > 1, dtype(np.nan), x)}, n_targets=2, post_transform=transform, aggregate_function=aggregate, **lists)


def placed(name: str, dtype: type, positive: bool) -> dict[str, object]:
    """Gives the lists of `TreeEnsemble` for drawn trees, of which some branches ask for membership."""
    trees = grow(name, 5)
    rng = seeds.generator("classical", f"{name} sets")
    keys = list(zip(trees["nodes_treeids"], trees["nodes_nodeids"], strict=True))
    is_leaf = [mode == "LEAF" for mode in trees["nodes_modes"]]
    place = {key: sum(leaf == is_leaf[at] for leaf in is_leaf[:at]) for at, key in enumerate(keys)}
    leafs = dict(zip(keys, is_leaf, strict=True))
    branches = [at for at, leaf in enumerate(is_leaf) if not leaf]
    member = rng.random(len(branches)) < 0.2
    modes = [6 if asks else MODES.index(trees["nodes_modes"][at]) for at, asks in zip(branches, member, strict=True)]
    sets = [[*np.unique(rng.integers(-2, 3, size=3)).tolist(), np.nan] for asks in member if asks]
    lists: dict[str, object] = {
        "nodes_featureids": [trees["nodes_featureids"][at] for at in branches],
        "nodes_missing_value_tracks_true": [trees["nodes_missing_value_tracks_true"][at] for at in branches],
    }
    for way in ("true", "false"):
        children = [(keys[at][0], trees[f"nodes_{way}nodeids"][at]) for at in branches]
        lists[f"nodes_{way}nodeids"] = [place[child] for child in children]
        lists[f"nodes_{way}leafs"] = [int(leafs[child]) for child in children]
    leaves = sum(is_leaf)
    weight = seeds.uniform(rng, (leaves,), 0.0 if positive else -0.5, 0.2).astype(dtype)
    roots = [place[keys[at]] for at in branches if at == 0 or keys[at][0] != keys[at - 1][0]]
    return lists | {
        "tree_roots": roots,
        "leaf_targetids": rng.integers(2, size=leaves).tolist(),
        "leaf_weights": numpy_helper.from_array(weight),
        "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([trees["nodes_values"][at] for at in branches], dtype)),
        "membership_values": numpy_helper.from_array(np.array(sum(sets, []), dtype)),
    }


def fill_classifier(folder: Path) -> None:
    """Writes a boosted forest that tells digits."""
    digits = load_digits()
    model = GradientBoostingClassifier(n_estimators=ESTIMATORS, max_depth=3, random_state=0, init="zero")
    model.fit(digits.data[:1200], digits.target[:1200])
    trees = [(tree.tree_, target) for stage in model.estimators_ for target, tree in enumerate(stage)]
    lists = exported(trees, "class", lambda value: value[0, 0] * model.learning_rate)
    x = {"x": digits.data[1200:].astype(np.float32)}
    made = node("TreeEnsembleClassifier", x, 2, classlabels_int64s=model.classes_.tolist(), post_transform="SOFTMAX", **lists)
    write_forest(folder, made, x)
    found = np.load(folder / "outputs.npz")
    if np.mean(found["y"] == model.predict(x["x"])) < 0.999:
        raise ValueError("onnxruntime does not give what scikit-learn does")


def fill_regressor(folder: Path) -> None:
    """Writes a forest that tells a pixel of the others."""
    digits = load_digits()
    model = RandomForestRegressor(n_estimators=ESTIMATORS, max_depth=9, random_state=0)
    model.fit(digits.data[:1200, :30], digits.data[:1200, 36])
    lists = exported([(tree.tree_, 0) for tree in model.estimators_], "target", lambda value: value[0, 0])
    x = {"x": digits.data[1200:, :30].astype(np.float32)}
    write_forest(folder, node("TreeEnsembleRegressor", x, n_targets=1, aggregate_function="AVERAGE", **lists), x)


def write_forest(folder: Path, made: onnx.NodeProto, inputs: Arrays) -> None:
    """Writes a model with onnxruntime's outputs."""
    write_case(folder, model_of(made, inputs), inputs)
    write_npz(folder / "outputs.npz", runner.run(runner.open_session(folder / "model.onnx"), inputs))


def exported(trees: list[tuple[object, int]], what: str, weight: object) -> dict[str, list]:
    """Gives the lists of trees that scikit-learn has trained, each for one target."""
    nodes: dict[str, list] = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")}
    leaves: dict[str, list] = {f"{what}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for number, (tree, target) in enumerate(trees):
        for at in range(tree.node_count):
            leaf = tree.children_left[at] < 0
            # It compares f32 with a threshold of f64: rounded down, the answer is the same.
            threshold = np.float32(tree.threshold[at])
            threshold = np.nextafter(threshold, np.float32(-np.inf)) if threshold > tree.threshold[at] else threshold
            row = (number, at, max(int(tree.feature[at]), 0), "LEAF" if leaf else "BRANCH_LEQ", 0.0 if leaf else float(threshold), max(int(tree.children_left[at]), 0), max(int(tree.children_right[at]), 0))
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
            if leaf:
                for values, value in zip(leaves.values(), (number, at, target, float(weight(tree.value[at]))), strict=True):
                    values.append(value)
    return nodes | leaves


def grams() -> Iterator[Case]:
    """Gives cases of `TfIdfVectorizer`, which is of ONNX's own domain."""
    rng = seeds.generator("classical", "grams")
    x = rng.integers(0, 5, (ROWS, 12))
    pool = [0, 3, 4, 0, 1, 1, 2, 3, 3, 0, 1, 2, 4, 4, 4]
    common = {"ngram_counts": [0, 3, 9], "pool_int64s": pool, "ngram_indexes": [0, 9, 2, 1, 5, 4, 3, 8]}
    for mode, weighed, skips, (least, most) in itertools.product(("TF", "IDF", "TFIDF"), (False, True), (0, 2), ((1, 1), (1, 3), (2, 3))):
        weight = {"weights": seeds.uniform(rng, (8,), 0.5, 2.0).tolist()} if weighed else {}
        lengths = {"min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
        for dtype in (np.int64, np.int32):
            inputs = {"x": x.astype(dtype)}
            made = helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode=mode, **common, **weight, **lengths)
            yield f"grams_{mode}_{weighed}_{skips}_{least}_{most}_{np.dtype(dtype).name}", made, inputs
