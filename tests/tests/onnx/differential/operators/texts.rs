//! Texts: what is made of them, what is found in them, and what moves them.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Value, broadcast, fixed, is_fixed};
use super::super::values::Mood;
use super::short::{ints, node, some, text};

/// A text of the graph, or a new one.
fn pick(builder: &mut Builder, ranks: (usize, usize)) -> Value {
    builder.pick(&[DType::String], ranks, |_| true)
}

pub(crate) fn concat(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let x = pick(builder, (0, 3));
    let y = builder.fresh_partner(&x, DType::String, Mood::Tame);
    let dims = broadcast(&x.dims, &y.dims)?;
    let z = node(builder, op, &[x.name, y.name], vec![], (DType::String, dims));
    builder.exact(&z, true);
    Some(())
}

pub(crate) fn full_match(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let x = pick(builder, (0, 3));
    let pattern = builder.random.of(&["", "[a-z]*", ".*", "(cat|Dog|12)+", "[-0-9.]+", "\\s*\\w+\\s?", "d.j.*"]);
    let y = node(builder, op, &[x.name], vec![("pattern", text(pattern))], (DType::Bool, x.dims));
    builder.exact(&y, true);
    Some(())
}

/// StringNormalizer, of a list or of a table of one row.
pub(crate) fn normalizer(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let mut dims = vec![some(builder)];
    if builder.random.chance(30) {
        dims.insert(0, fixed(1));
    }
    // Which other letters have two cases is for a locale to say that this machine may not have.
    let x = builder.leaf(DType::String, &dims, Mood::Ascii);
    let mut attributes = vec![
        ("case_change_action", text(builder.random.of(&["NONE", "LOWER", "UPPER"]))),
        ("is_case_sensitive", super::short::flag(builder)),
        ("locale", text("C")),
    ];
    if builder.random.chance(60) {
        let words: Vec<String> = ["cat", "dog", "THE", "12"].map(str::to_owned).to_vec();
        attributes.push(("stopwords", Attribute::Strings(words[..1 + builder.random.below(4)].to_vec())));
    }
    let y = node(builder, op, &[x.name], attributes, (DType::String, dims));
    builder.unread(&[y]);
    Some(())
}

/// StringSplit: the most parts of a text are for a run to count.
pub(crate) fn split(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let x = pick(builder, (1, 2));
    let mut attributes = vec![];
    if builder.random.chance(60) {
        attributes.push(("delimiter", text(builder.random.of(&[",", " ", "a", ""]))));
    }
    if builder.random.chance(40) {
        attributes.push(("maxsplit", Attribute::Int(builder.random.between(1, 3))));
    }
    let parts = [&x.dims[..], &[fixed(2)]].concat();
    let outputs = vec![(DType::String, parts), (DType::I64, x.dims.clone())];
    let made = super::short::nodes(builder, op, &[x.name], attributes, outputs);
    builder.unread(&made[..1]);
    builder.exact(&made[1], true);
    Some(())
}

pub(crate) fn tf_idf(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let words = builder.random.chance(50);
    let (rows, columns) = (some(builder), fixed(builder.random.of(&[1, 4, 9])));
    let dims = if builder.random.chance(50) { vec![columns] } else { vec![rows, columns] };
    let x = match words {
        true => builder.leaf(DType::String, &dims, Mood::Tame),
        false => builder.leaf(DType::I64, &dims, Mood::Place(4)),
    };
    let attributes = vec![
        ("mode", text(builder.random.of(&["TF", "IDF", "TFIDF"]))),
        ("min_gram_length", Attribute::Int(1)),
        ("max_gram_length", Attribute::Int(2)),
        ("max_skip_count", Attribute::Int(builder.random.between(0, 2))),
        ("ngram_counts", ints(&[0, 3])),
        ("ngram_indexes", ints(&[0, 2, 1, 4, 3])),
        ("weights", Attribute::Floats(vec![1.0, 2.0, 3.0, 4.0, 0.5])),
        match words {
            true => {
                let pool = ["cat", "Dog", "THE", "cat", "Dog", "12", ""].map(str::to_owned).to_vec();
                ("pool_strings", Attribute::Strings(pool))
            }
            false => ("pool_int64s", ints(&[0, 1, 2, 0, 1, 2, 3])),
        },
    ];
    let out = dims[..dims.len() - 1].iter().copied().chain([fixed(5)]).collect();
    node(builder, op, &[x.name], attributes, (DType::F32, out));
    Some(())
}

/// A number as a text, and with others.
pub(crate) fn number(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 3), |x| x.exact);
    if !x.exact {
        return None;
    }
    let to = Attribute::Int(byoc_core::ops::cast::to_onnx(DType::String));
    let y = node(builder, op, &[x.name], vec![("to", to)], (DType::String, x.dims));
    builder.exact(&y, true);
    Some(())
}

/// Where, Concat, Reshape and others of texts.
pub(crate) fn moved(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let x = pick(builder, (1, 3));
    if !x.dims.iter().all(is_fixed) {
        return None;
    }
    let (mut inputs, mut attributes, mut dims) = (vec![x.name.clone()], vec![], x.dims.clone());
    match op {
        "Concat" => {
            inputs.push(x.name.clone());
            attributes.push(("axis", Attribute::Int(0)));
            dims[0] = dims[0].map(|size| 2 * size);
        }
        "Transpose" => dims.reverse(),
        "Equal" => {
            inputs.push(builder.fresh_partner(&x, DType::String, Mood::Tame).name);
            let y = node(builder, op, &inputs, attributes, (DType::Bool, dims));
            builder.exact(&y, true);
            return Some(());
        }
        _ => {}
    }
    let y = node(builder, op, &inputs, attributes, (DType::String, dims));
    builder.exact(&y, true);
    Some(())
}
