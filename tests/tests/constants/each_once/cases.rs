//! Cases in which a constant is kept by one, shared, tied or folded.

use byoc_core::artifact::Artifact;
use byoc_core::artifact::Fate;
use byoc_core::artifact::manifest::ClaimKind;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use half::f16;

use super::check::{Case, Checked, Constant, check, input, model, numbers, rows};

/// Rows of inputs, rows of a weight, and its columns: 3 MiB of f32.
pub(crate) const BATCH: i64 = 2;
pub(crate) const DEPTH: i64 = 768;
pub(crate) const WIDTH: i64 = 1024;

/// What f32 sums in another order differ by.
pub(crate) const CLOSE: f64 = 1e-5;

/// What weights of a byte differ by.
pub(crate) const COARSE: f64 = 2e-2;

pub(crate) fn weight(name: &'static str) -> Constant {
    Constant::random(name, &[DEPTH, WIDTH], 1)
}

pub(crate) fn x() -> (String, Tensor) {
    input("x", &[BATCH, DEPTH], 77)
}

/// `y = x w`.
fn product(w: &Constant) -> Model {
    model(&[w]).input("x", Type::Float, &[BATCH, DEPTH]).node("MatMul", &["x", "w"], &["y"]).output(
        "y",
        Type::Float,
        &[BATCH, WIDTH],
    )
}

/// a. A backend that has its weights in the code.
pub(crate) fn embedded(name: &'static str) -> Checked {
    let w = weight("w");
    check(Case {
        name,
        model: product(&w),
        inputs: vec![x()],
        backends: &["embedder"],
        settings: &[],
        constants: vec![w.expect(1, &[Fate::Embedded])],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// a. The same, as bytes.
pub(crate) fn quantised(name: &'static str) -> Checked {
    let w = weight("w");
    let checked = check(Case {
        name,
        model: product(&w),
        inputs: vec![x()],
        backends: &["embedder"],
        settings: &[("embedder.precision", "i8")],
        constants: vec![w.expect(0, &[Fate::Embedded])],
        extra: 0,
        tolerance: COARSE,
    });
    let most = w.bytes.len() as u64 * 26 / 100;
    assert!(checked.artifact.size() <= most, "{} bytes: the original must not be kept", checked.artifact.size());
    checked
}

/// b. A backend that references every weight.
pub(crate) fn referenced(name: &'static str) -> Checked {
    let (first, second) = (weight("w"), Constant::random("v", &[WIDTH, DEPTH], 2));
    let model =
        second.add_to(product(&first)).node("MatMul", &["y", "v"], &["z"]).output("z", Type::Float, &[BATCH, DEPTH]);
    check(Case {
        name,
        model,
        inputs: vec![x()],
        backends: &["blas"],
        settings: &[],
        constants: vec![first.stored(), second.stored()],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// The scalars of a GELU: 1 / sqrt(2), 1 and 1 / 2.
const GELU: [f32; 3] = [std::f32::consts::FRAC_1_SQRT_2, 1.0, 0.5];

/// Half-precision `gelu(x w + b)`, where the model has `b` in single precision and casts it.
fn gelu(name: &'static str, bias: u64, scalars: [f32; 3]) -> Checked {
    const COLUMNS: i64 = 2048;
    let w = Constant::half("w", &[DEPTH, COLUMNS], &numbers(1, DEPTH * COLUMNS));
    let b = Constant::random("b", &[COLUMNS], bias);
    let folded = Constant::half("b16", &[COLUMNS], &b.values());
    let scalar = |name, value| Constant::half(name, &[], &[value]);
    let scalars = [scalar("s", scalars[0]), scalar("one", scalars[1]), scalar("half", scalars[2])];
    let [s, one, half] = &scalars;
    let model = model(&[&w, &b, s, one, half])
        .input("x", Type::Float16, &[BATCH, DEPTH])
        .cast("b", Type::Float16, "b16")
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b16"], &["sum"])
        .node("Mul", &["sum", "s"], &["scaled"])
        .node("Erf", &["scaled"], &["erf"])
        .node("Add", &["erf", "one"], &["gate"])
        .node("Mul", &["sum", "gate"], &["gated"])
        .node("Mul", &["gated", "half"], &["y"])
        .output("y", Type::Float16, &[BATCH, COLUMNS]);
    let bytes = numbers(3, BATCH * DEPTH).into_iter().flat_map(|x| f16::from_f32(x * 20.0).to_le_bytes()).collect();
    let x = Tensor::new(byoc_plugin_api::DType::F16, vec![BATCH, DEPTH], bytes);
    let mut constants = vec![w.stored(), b.expect(0, &[Fate::Folded]), folded.stored()];
    constants.extend(scalars.iter().map(Constant::stored));
    check(Case {
        name,
        model,
        inputs: vec![("x".to_owned(), x)],
        backends: &["csource"],
        settings: &[],
        constants,
        extra: 0,
        tolerance: 5e-3,
    })
}

/// c. Code in source form after folding: every constant is a parameter, and the source tells the value of none.
pub(crate) fn source(name: &'static str) -> Checked {
    let source = |checked: &Checked| {
        let [region] = checked.artifact.manifest().regions.as_slice() else { panic!("one region is enough") };
        assert!(region.constants.iter().all(|binding| binding.claim == ClaimKind::Host));
        let code = checked.artifact.section(&region.code).expect("code");
        let text = String::from_utf8(code.to_vec()).expect("source is text");
        let parameters: Vec<_> = region.constants.iter().map(|binding| format!(" c{}", binding.id)).collect();
        assert_eq!(parameters.len(), 5, "{text}");
        let (head, body) = text.split_once('{').expect("a function");
        assert!(parameters.iter().all(|parameter| head.contains(parameter) && body.contains(parameter)), "{text}");
        assert!(!text.contains('.'), "there is a literal in\n{text}");
        text
    };
    let checked = gelu(name, 2, GELU);
    let other = gelu(name, 9, [0.75, 1.5, 0.25]);
    assert_eq!(source(&checked), source(&other), "the source depends on the values");
    checked
}

/// d. One weight in the code, the next one referenced.
pub(crate) fn mixed(name: &'static str) -> Checked {
    let (small, large) = (Constant::random("small", &[DEPTH, 256], 1), Constant::random("large", &[256, 4096], 2));
    let model = model(&[&small, &large])
        .input("x", Type::Float, &[BATCH, DEPTH])
        .node("MatMul", &["x", "small"], &["h"])
        .node("MatMul", &["h", "large"], &["y"])
        .output("y", Type::Float, &[BATCH, 4096]);
    check(Case {
        name,
        model,
        inputs: vec![x()],
        backends: &["embedder", "blas"],
        settings: &[("embedder.most", "1048576")],
        constants: vec![small.expect(1, &[Fate::Embedded]), large.stored()],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// e. A weight that three layers share, each of which doubles it first: what they compute ahead of time is one constant.
pub(crate) fn tied_and_folded(name: &'static str) -> Checked {
    let w = Constant::random("w", &[WIDTH, WIDTH], 1);
    let two = Constant::of("two", &[], &[2.0]);
    let doubled: Vec<f32> = w.values().iter().map(|value| value * 2.0).collect();
    let doubled = Constant::of("w1", &w.shape, &doubled);
    let mut model = model(&[&w, &two]).input("x", Type::Float, &[BATCH, WIDTH]);
    for (from, weight, to) in [("x", "w1", "h1"), ("h1", "w2", "h2"), ("h2", "w3", "y")] {
        model = model.node("Mul", &["w", "two"], &[weight]).node("MatMul", &[from, weight], &[to]);
    }
    let checked = check(Case {
        name,
        model: model.output("y", Type::Float, &[BATCH, WIDTH]),
        inputs: vec![input("x", &[BATCH, WIDTH], 77)],
        backends: &["blas"],
        settings: &[],
        constants: vec![w.expect(0, &[Fate::Folded]), two.expect(0, &[Fate::Folded]), doubled.stored()],
        extra: 0,
        tolerance: CLOSE,
    });
    assert_eq!(regions_of(&checked.artifact, "blas"), 3);
    checked
}

/// g. Three regions of one plugin that share three constants, each with them in another order: all get all, by id.
pub(crate) fn three_regions(name: &'static str) -> Checked {
    let w = Constant::random("w", &[WIDTH, WIDTH], 1);
    let (b, c) = (Constant::random("b", &[WIDTH], 2), Constant::random("c", &[WIDTH], 3));
    let orders = [["w", "b", "c"], ["c", "b", "w"], ["b", "w", "c"]];
    let mut model = model(&[&w, &b, &c]).input("x", Type::Float, &[BATCH, WIDTH]);
    let mut last = "x".to_owned();
    for (layer, order) in orders.iter().enumerate() {
        for constant in order {
            let op = if *constant == "w" { "MatMul" } else { ["Add", "Mul"][usize::from(*constant == "c")] };
            let next = format!("{last}{constant}");
            model = model.node(op, &[&last, constant], &[&next]);
            last = next;
        }
        let next = format!("y{layer}");
        model = model.node("Sigmoid", &[&last], &[&next]);
        last = next;
    }
    let checked = check(Case {
        name,
        model: model.output(&last, Type::Float, &[BATCH, WIDTH]),
        inputs: vec![input("x", &[BATCH, WIDTH], 77)],
        backends: &["csource"],
        settings: &[],
        constants: vec![w.stored(), b.stored(), c.stored()],
        extra: 0,
        tolerance: CLOSE,
    });
    let manifest = checked.artifact.manifest();
    let regions = manifest.regions.iter().filter(|region| region.backend == "csource");
    let orders: Vec<Vec<_>> = regions
        .map(|region| region.constants.iter().map(|binding| binding.used.as_ref().expect("bound").constant).collect())
        .collect();
    assert_eq!(orders.len(), 3);
    for order in &orders {
        assert!((0..3).all(|constant| order.contains(&constant)), "{orders:?}");
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2] && orders[0] != orders[2], "{orders:?}");
    checked
}

/// h. An embedding and an output layer that is its transpose, as exporters write tied weights.
pub(crate) fn transposed(name: &'static str) -> Checked {
    let (e, model, tokens) = tied();
    let checked = check(Case {
        name,
        model,
        inputs: vec![tokens],
        backends: &["blas"],
        settings: &[],
        constants: vec![e.stored()],
        extra: 0,
        tolerance: CLOSE,
    });
    let ledger = &checked.ledger;
    assert_eq!(ledger.rows.len(), 1);
    assert_eq!(rows(ledger, "t")[0].transposed, ["t"]);
    checked
}

/// h. The same on the host: the product's layout is the only form, and the embedding reads it too.
pub(crate) fn transposed_on_host(name: &'static str) -> Checked {
    on_host(name, &[], CLOSE)
}

/// h. The same in 8 bits.
pub(crate) fn transposed_in_8_bits(name: &'static str) -> Checked {
    let checked = on_host(name, &[("json.weights", "int8")], COARSE);
    let ledger = &checked.ledger;
    let [row] = rows(ledger, "e")[..] else { panic!("`e` is one constant") };
    let stored = &checked.artifact.manifest().constants[row.stored.expect("it is packed")];
    // A scale and a sum for each row of the embedding.
    assert_eq!(stored.shape, [(WIDTH * DEPTH + 8 * WIDTH) as usize]);
    checked
}

fn on_host(name: &'static str, settings: &'static [(&str, &str)], tolerance: f64) -> Checked {
    let (e, model, tokens) = tied();
    check(Case {
        name,
        model,
        inputs: vec![tokens],
        backends: &[],
        settings,
        constants: vec![e.expect(0, &[Fate::Packed])],
        extra: 0,
        tolerance,
    })
}

/// The matrix, a model that reads it as it is and transposed, and its input.
fn tied() -> (Constant, Model, (String, Tensor)) {
    let (rows_of_e, columns) = (WIDTH as usize, DEPTH as usize);
    let e = Constant::random("e", &[WIDTH, DEPTH], 1);
    let values = e.values();
    let turned: Vec<f32> = (0..columns)
        .flat_map(|column| (0..rows_of_e).map(move |row| row * columns + column))
        .map(|at| values[at])
        .collect();
    let t = Constant::of("t", &[DEPTH, WIDTH], &turned);
    let model = model(&[&e, &t])
        .input("tokens", Type::Int64, &[BATCH])
        .node("Gather", &["e", "tokens"], &["h"])
        .node("MatMul", &["h", "t"], &["y"])
        .output("y", Type::Float, &[BATCH, WIDTH]);
    let tokens = [5i64, 1000].iter().flat_map(|token| token.to_le_bytes()).collect();
    let tokens = Tensor::new(byoc_plugin_api::DType::I64, vec![BATCH], tokens);
    (e, model, ("tokens".to_owned(), tokens))
}

/// i. 47 names for one weight, each read by a layer of its own.
pub(crate) fn aliases(name: &'static str) -> Checked {
    let w = Constant::random("w", &[WIDTH, WIDTH], 1);
    let mut model = model(&[&w]).input("h0", Type::Float, &[1, WIDTH]);
    for layer in 0..47 {
        let [from, alias, to] = [format!("h{layer}"), format!("w{layer}"), format!("h{}", layer + 1)];
        model = model.node("Identity", &["w"], &[&alias]).node("MatMul", &[&from, &alias], &[&to]);
    }
    let checked = check(Case {
        name,
        model: model.output("h47", Type::Float, &[1, WIDTH]),
        inputs: vec![input("h0", &[1, WIDTH], 77)],
        backends: &["blas"],
        settings: &[],
        constants: vec![w.stored()],
        extra: 0,
        tolerance: 1e-3,
    });
    assert_eq!(regions_of(&checked.artifact, "blas"), 47);
    checked
}

/// l. A constant that nobody reads, which the importer does not read either, so the ledger has no row for it; and one
/// that only a node reads whose result nobody does.
pub(crate) fn unread(name: &'static str) -> Checked {
    let w = weight("w");
    let (idle, late) = (Constant::random("idle", &[DEPTH, WIDTH], 2), Constant::random("late", &[DEPTH, WIDTH], 3));
    let model = late.add_to(idle.add_to(product(&w))).node("MatMul", &["x", "late"], &["nothing"]);
    check(Case {
        name,
        model,
        inputs: vec![x()],
        backends: &["blas"],
        settings: &[],
        constants: vec![w.stored(), idle.expect(0, &[Fate::Dropped]), late.expect(0, &[Fate::Dropped])],
        extra: 0,
        tolerance: CLOSE,
    })
}

/// How many regions the backend has.
fn regions_of(artifact: &Artifact, backend: &str) -> usize {
    artifact.manifest().regions.iter().filter(|region| region.backend == backend).count()
}
