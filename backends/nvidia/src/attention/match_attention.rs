//! Matches a region to attention: the operator `Attention`, or two products with a softmax between them.

use byoc_plugin_api::{Attribute, DType, Dim, Node, Refusal, RefusalCode, Region};

use super::matcher::{Matcher, Parts, are_rows_of};
use super::operands::{Heads, result, shape};
use super::{Effect, Layout, MOST, Mask, STEP, Spec};
use crate::match_product::shape_text;

/// A region that is attention.
#[derive(Clone, Debug)]
pub struct MatchedAttention {
    /// What is computed.
    pub spec: Spec,
    /// The region's value of Q.
    pub q: usize,
    /// The region's value of K.
    pub k: usize,
    /// The region's value of V.
    pub v: usize,
    /// The region's value of the mask.
    pub mask: Option<usize>,
    /// The region's value of the result.
    pub output: usize,
    /// Constants whose numbers are in the code, which does not read them otherwise.
    pub numbers: Vec<usize>,
    /// The nodes that the kernel computes.
    pub nodes: Vec<usize>,
}

/// The scores, up to their softmax.
struct Scores {
    q: Heads,
    k: Heads,
    scale: f64,
    mask: Option<(usize, Mask)>,
}

/// Matches a whole region.
///
/// # Errors
///
/// When the region is not attention, or the kernels do not support it: which part, and what is supported.
pub fn read(region: &Region) -> Result<MatchedAttention, Refusal> {
    let &[output] = region.outputs.as_slice() else { return Err(other("there is more than one result")) };
    let matched = read_at(region, output)?;
    let unread = region.nodes.iter().enumerate().find(|(index, _)| !matched.nodes.contains(index));
    if let Some((_, node)) = unread {
        return Err(other(&format!("'{}' is not part of the attention that the kernel computes", node.name)));
    }
    Ok(matched)
}

/// Matches the part of a region that makes a value.
///
/// # Errors
///
/// Those of [`read`], but that nodes may be left over.
pub fn read_at(region: &Region, output: usize) -> Result<MatchedAttention, Refusal> {
    let mut matcher = Matcher::new(region, Parts::new());
    let before = |value: usize, op: &str| {
        matcher.producer(value).filter(|node| node.op == op).and_then(|node| node.input(0)).unwrap_or(value)
    };
    let inner = before(before(output, "Reshape"), "Transpose");
    let node = matcher.producer(inner).ok_or_else(|| other("there is no attention"))?;
    let matched = match node.op.as_str() {
        "Attention" => operator(&mut matcher, node, output)?,
        "MatMul" => in_pieces(&mut matcher, node, output)?,
        _ => return Err(other("there is no attention")),
    };
    check(&matcher, &matched)?;
    Ok(MatchedAttention { numbers: matcher.numbers(), nodes: matcher.nodes(), ..matched })
}

/// `Attention` of ONNX.
fn operator(matcher: &mut Matcher<'_>, node: &Node, output: usize) -> Result<MatchedAttention, Refusal> {
    let behind = [("past_key", 4), ("past_value", 5), ("nonpad_kv_seqlen", 6)];
    if let Some((name, _)) = behind.iter().find(|(_, at)| node.input(*at).is_some()) {
        return Err(attribute(format!("the input '{name}' is given, and the kernel has no cache")));
    }
    if (1..4).any(|at| node.output(at).is_some()) {
        return Err(attribute("the kernel does not output keys, values or scores".into()));
    }
    if let Some(side) = ["left_window_size", "right_window_size"].iter().find(|side| node.int(side, -1) >= 0) {
        return Err(attribute(format!("'{side}' is {}, and the kernel sees all keys", node.int(side, -1))));
    }
    let operand = |at: usize| node.input(at).ok_or_else(|| other("an operand is missing"));
    let (q, k, v) = (operand(0)?, operand(1)?, operand(2)?);
    let (q_heads, kv_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
    let dtype = matcher.dtype(q);
    let in_rows = matcher.shape(q).len() == 3;
    let q = Heads::of_attention(matcher, q, q_heads)?;
    let k = Heads::of_attention(matcher, k, kv_heads)?;
    let v = Heads::of_attention(matcher, v, kv_heads)?;
    let (inner, mut y) = result(matcher, output, q.heads, v.size);
    if in_rows {
        y = Layout::RowsFirst { width: q.heads * v.size, start: 0 };
    }
    if matcher.step(inner, "Attention").is_none() || (in_rows && inner != output) {
        return Err(other("the result of Attention is transposed in an unsupported way"));
    }
    let scale = match node.attributes.get("scale") {
        Some(Attribute::Float(scale)) => f64::from(*scale),
        _ => 1.0 / (q.size as f64).sqrt(),
    };
    let mask = match node.input(3) {
        Some(mask) => Some((mask, mask_of(matcher, mask, &scores_shape(&q, &k, 4), f32::NEG_INFINITY, false)?)),
        None => None,
    };
    let scores = Scores { q, k, scale, mask };
    let matched = matched(scores, v, output, dtype, y);
    let spec =
        Spec { softcap: node.float("softcap", 0.0).max(0.0), causal: node.int("is_causal", 0) != 0, ..matched.spec };
    Ok(MatchedAttention { spec, ..matched })
}

/// Two products with a softmax between them.
fn in_pieces(matcher: &mut Matcher<'_>, product: &Node, output: usize) -> Result<MatchedAttention, Refusal> {
    let (Some(weights), Some(v)) = (product.input(0), product.input(1)) else {
        return Err(other("a product needs two factors"));
    };
    let v_rank = matcher.shape(v).len();
    let v = Heads::read_unscaled(matcher, v)?;
    let weights = matcher.uncast(weights);
    let softmax = matcher.step(weights, "Softmax").ok_or_else(|| other("the weights are not from a Softmax"))?;
    let rank = matcher.shape(weights).len() as i64;
    if ![-1, rank - 1].contains(&softmax.int("axis", -1)) {
        return Err(attribute(format!("the softmax '{}' is not along the keys", softmax.name)));
    }
    let value = softmax.input(0).ok_or_else(|| other("the softmax has no input"))?;
    let scores = scores(matcher, value)?;
    let (inner, y) = result(matcher, output, scores.q.heads, v.size);
    if matcher.step(inner, "MatMul").is_none() || v_rank != matcher.shape(inner).len() {
        return Err(other("the result is transposed in an unsupported way"));
    }
    let dtype = matcher.dtype(scores.q.from);
    Ok(matched(scores, v, output, dtype, y))
}

fn matched(scores: Scores, v: Heads, output: usize, dtype: DType, y: Layout) -> MatchedAttention {
    let Scores { q, k, scale, mask } = scores;
    let (mask, mask_spec) = mask.unzip();
    let spec = Spec {
        dtype,
        batch: q.batch.clone(),
        heads: q.heads,
        kv_heads: k.heads,
        queries: q.rows,
        keys: k.rows,
        size: q.size,
        value_size: v.size,
        scale: (scale * q.scale * k.scale) as f32,
        softcap: 0.0,
        causal: false,
        mask: mask_spec,
        q: q.layout,
        k: k.layout,
        v: v.layout,
        y,
    };
    MatchedAttention { spec, q: q.from, k: k.from, v: v.from, mask, output, numbers: Vec::new(), nodes: Vec::new() }
}

/// Matches the scores from the input of the softmax back to the product of Q and K.
fn scores(matcher: &mut Matcher<'_>, value: usize) -> Result<Scores, Refusal> {
    let value = matcher.uncast(value);
    if matcher.step(value, "Add").is_some() {
        return added(matcher, value);
    }
    let Some(node) = matcher.step(value, "Where") else { return unmasked(matcher, value) };
    let operand = |at: usize| node.input(at).ok_or_else(|| other("an operand is missing"));
    let (mask, a, b) = (operand(0)?, operand(1)?, operand(2)?);
    let is_number = |value: usize| matcher.region.constant_floats(value).is_some_and(|numbers| numbers.len() == 1);
    let (inner, fill, hides) = if is_number(b) { (a, b, false) } else { (b, a, true) };
    let number = matcher.number(fill).filter(|fill| !fill.is_nan() && *fill < f64::INFINITY);
    let number = number.ok_or_else(|| other(&format!("'{}' is not one number", matcher.name(fill))))?;
    require_same_shape(matcher, value, inner)?;
    let scores = unmasked(matcher, inner)?;
    let mask_spec =
        mask_of(matcher, mask, &scores_shape(&scores.q, &scores.k, matcher.shape(inner).len()), number as f32, hides)?;
    Ok(Scores { mask: Some((mask, mask_spec)), ..scores })
}

/// Scores to which a mask is added: either operand may be the scores.
fn added(matcher: &mut Matcher<'_>, value: usize) -> Result<Scores, Refusal> {
    let node = matcher.producer(value).ok_or_else(|| other("no sum"))?;
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Err(other("a sum needs two operands")) };
    let first = matcher.producer(a).is_some();
    let before = matcher.clone();
    let found = plus(matcher, value, if first { a } else { b }, if first { b } else { a });
    if found.is_ok() || !first || matcher.producer(b).is_none() {
        return found;
    }
    *matcher = before;
    plus(matcher, value, b, a).or(found)
}

/// Scores, and the mask that is added to them.
fn plus(matcher: &mut Matcher<'_>, value: usize, inner: usize, mask: usize) -> Result<Scores, Refusal> {
    require_same_shape(matcher, value, inner)?;
    let scores = unmasked(matcher, inner)?;
    let shape = scores_shape(&scores.q, &scores.k, matcher.shape(inner).len());
    let mask_spec = mask_of(matcher, mask, &shape, 0.0, false)?;
    if matches!(mask_spec.effect, Effect::Fills { .. }) {
        return Err(other("a boolean mask is added to the scores"));
    }
    Ok(Scores { mask: Some((mask, mask_spec)), ..scores })
}

/// A mask must not broadcast the scores.
fn require_same_shape(matcher: &Matcher<'_>, value: usize, inner: usize) -> Result<(), Refusal> {
    if matcher.shape(value) == matcher.shape(inner) {
        return Ok(());
    }
    Err(shape(format!("'{}' is larger than the scores before the mask", matcher.name(value))))
}

/// A product of Q and K with its factors.
fn unmasked(matcher: &mut Matcher<'_>, value: usize) -> Result<Scores, Refusal> {
    let value = matcher.uncast(value);
    let (inner, scale) = matcher.unscaled(value);
    let inner = matcher.uncast(inner);
    let product = matcher.step(inner, "MatMul").ok_or_else(|| other("the scores are not from a MatMul"))?;
    let (Some(q), Some(k)) = (product.input(0), product.input(1)) else {
        return Err(other("a product needs two factors"));
    };
    if matcher.shape(q).len() != matcher.shape(k).len() {
        return Err(shape("Q and K have different ranks".into()));
    }
    Ok(Scores { q: Heads::read(matcher, q)?, k: Heads::read_transposed(matcher, k)?, scale, mask: None })
}

/// The shape of scores: batch, heads, queries and keys; and the rank that they have in the model.
struct Shape {
    sizes: [Dim; 4],
    rank: usize,
}

fn scores_shape(q: &Heads, k: &Heads, rank: usize) -> Shape {
    Shape { sizes: [q.batch.clone(), Dim::Fixed(q.heads), q.rows.clone(), k.rows.clone()], rank }
}

/// A mask for scores of that shape. One of fewer dimensions broadcasts.
fn mask_of(matcher: &Matcher<'_>, value: usize, scores: &Shape, fill: f32, hides: bool) -> Result<Mask, Refusal> {
    let effect = match matcher.dtype(value) {
        DType::Bool => Effect::Fills { hides, fill },
        dtype @ (DType::F32 | DType::F16 | DType::BF16) => Effect::Added(dtype),
        dtype => {
            let message =
                format!("the mask '{}' is {dtype}; supported are bool, f32, f16 and bf16", matcher.name(value));
            return Err(Refusal::new(RefusalCode::Type, message));
        }
    };
    let own = matcher.shape(value);
    let mut sizes = [const { Dim::Fixed(1) }; 4];
    let places = scores.rank.checked_sub(own.len());
    if places.is_none() || own.is_empty() {
        return Err(shape(format!("the mask '{}' has {} dimensions", matcher.name(value), own.len())));
    }
    // Of scores without a dimension of heads, the first one is the batch.
    let axes = if scores.rank == 3 { &[3, 2, 0][..] } else { &[3, 2, 1, 0] };
    axes.iter().zip(own.iter().rev()).for_each(|(&axis, size)| sizes[axis] = size.clone());
    let scores = &scores.sizes;
    let one = Dim::Fixed(1);
    let fits = |at: usize| sizes[at] == one || sizes[at] == scores[at];
    let short = !fits(3) && sizes[3].fixed().zip(scores[3].fixed()).is_some_and(|(own, all)| own < all);
    if !(0..3).all(fits) || !(fits(3) || short) {
        let (name, own, scores) = (matcher.name(value), shape_text(own), shape_text(scores));
        let message = format!("the mask '{name}' is {own}, and the scores {scores}");
        return Err(shape(message));
    }
    Ok(Mask { effect, shape: sizes, short })
}

/// Checks the limits of the kernels.
fn check(matcher: &Matcher<'_>, matched: &MatchedAttention) -> Result<(), Refusal> {
    let Spec { dtype, heads, kv_heads, size, value_size, .. } = &matched.spec;
    if ![DType::F32, DType::F16, DType::BF16].contains(dtype) {
        let message = format!("'{}' is {dtype}; supported are f32, f16 and bf16", matcher.name(matched.q));
        return Err(Refusal::new(RefusalCode::Type, message));
    }
    if let Some(&value) = [matched.k, matched.v, matched.output].iter().find(|&&value| matcher.dtype(value) != *dtype) {
        let message = format!("'{}' is {}, but another operand is {dtype}", matcher.name(value), matcher.dtype(value));
        return Err(Refusal::new(RefusalCode::Type, message));
    }
    for (what, size) in [("Q and K", *size), ("V", *value_size)] {
        if size == 0 || size % STEP != 0 || size > MOST {
            let message =
                format!("heads of {what} have {size} columns; supported are multiples of {STEP} up to {MOST}");
            return Err(shape(message));
        }
    }
    if *heads == 0 || *kv_heads == 0 || heads % kv_heads != 0 {
        return Err(shape(format!("{heads} heads of Q are not a multiple of {kv_heads} heads of K and V")));
    }
    agree(matcher, matched)
}

/// Checks that sizes agree, and that the grid is within the limits of a launch.
fn agree(matcher: &Matcher<'_>, matched: &MatchedAttention) -> Result<(), Refusal> {
    let spec = &matched.spec;
    let expected = |layout: &Layout, heads: usize, rows: &Dim, size: usize| match layout {
        Layout::HeadsFirst => vec![spec.batch.clone(), heads.into(), rows.clone(), size.into()],
        Layout::RowsFirst { .. } => vec![spec.batch.clone(), rows.clone(), heads.into(), size.into()],
    };
    let operands = [
        (matched.k, &spec.k, spec.kv_heads, &spec.keys, spec.size),
        (matched.v, &spec.v, spec.kv_heads, &spec.keys, spec.value_size),
        (matched.output, &spec.y, spec.heads, &spec.queries, spec.value_size),
    ];
    for (value, layout, heads, rows, size) in operands {
        let whole = expected(layout, heads, rows, size);
        let own = match layout {
            Layout::RowsFirst { start, .. } => matcher.shape_from(value, *start),
            Layout::HeadsFirst => matcher.shape(value).to_vec(),
        };
        let joined = matches!(layout, Layout::RowsFirst { .. }) && are_rows_of(&own, &whole);
        let fits = match own.as_slice() {
            _ if joined => true,
            [batch, rows, columns] => heads == 1 && [&whole[0], &whole[2], &whole[3]] == [batch, rows, columns],
            _ => own == whole,
        };
        if !fits {
            return Err(shape(format!(
                "'{}' does not have the sizes that follow from the other operands",
                matcher.name(value)
            )));
        }
    }
    let most = 65535;
    let blocks = [spec.batch.fixed().unwrap_or(1), spec.heads];
    if blocks.iter().any(|&count| count > most) || [&spec.queries, &spec.keys].iter().any(|dim| is_too_long(dim)) {
        return Err(shape("there are too many heads, batches or rows for one launch".into()));
    }
    if [&spec.batch, &spec.queries, &spec.keys].contains(&&Dim::Fixed(0)) {
        return Err(shape("there is nothing to compute".into()));
    }
    Ok(())
}

fn is_too_long(dim: &Dim) -> bool {
    dim.fixed().is_some_and(|size| size > i32::MAX as usize / 2)
}

fn attribute(message: String) -> Refusal {
    Refusal::new(RefusalCode::Attribute, message)
}

fn other(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
