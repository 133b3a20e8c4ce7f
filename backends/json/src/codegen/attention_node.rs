//! ONNX's operator `Attention` becomes the step that the same products and softmax become when they are written out. What the
//! kernel does not do stays a node: a past, soft caps, windows, and outputs beside the first.

use byoc_plugin_api::Dim;

use super::graph::{Graph, Rewrite, Search};
use crate::kernels::Math;
use crate::program::{Attention, Op, Side, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(|search, index| search.attention_node(index));
}

/// The sizes of the operands.
struct Sizes {
    batch: Dim,
    queries: Dim,
    keys: Dim,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
}

impl Search<'_, '_> {
    /// The node at `index` as a step: its place, the step, and what it replaces.
    fn attention_node(&self, index: usize) -> Option<Rewrite> {
        let node = &self.graph.steps[index];
        if node.onnx() != Some("Attention") || !is_plain(node) {
            return None;
        }
        let (q, k, v, mask) = (node.input(0)?, node.input(1)?, node.input(2)?, node.input(3));
        let mut output = node.output(0)?;
        if ![q, k, v, output].iter().chain(&mask).all(|&value| self.graph.is_fast(value)) {
            return None;
        }
        let sizes = self.sizes(node, [q, k, v])?;
        let causal = node.int("is_causal", 0) != 0;
        // The kernel counts from the last key, the operator from the first.
        if causal && sizes.queries != sizes.keys || !mask.is_none_or(|mask| self.mask_fits(mask, &sizes)) {
            return None;
        }
        let Sizes { heads, kv_heads, head_dim, value_dim, .. } = sizes;
        let flat = self.graph.shape(q).len() == 3;
        let mut scale = f64::from(node.float("scale", 1.0 / (head_dim as f32).sqrt()));
        let side = |value: usize, columns: usize, scale: &mut f64| match flat {
            true => self.cut_rows(value, columns),
            false => self.heads(value, scale).filter(|(_, side)| side.holds(columns)),
        };
        let (q, q_side) = side(q, heads * head_dim, &mut scale)?;
        let (k, k_side) = side(k, kv_heads * head_dim, &mut scale)?;
        let (v, v_side) = match flat {
            true => self.cut_rows(v, kv_heads * value_dim)?,
            false => self.values(v).filter(|(_, side)| side.holds(kv_heads * value_dim))?,
        };
        let (mut at, mut rows_first, mut gone) = (index, flat, vec![index]);
        let transposes = |step: &Step| step.onnx() == Some("Transpose") && step.ints("perm") == Some(&[0, 2, 1, 3]);
        if let Some((place, step)) = self.reader(output).filter(|(_, step)| !flat && transposes(step)) {
            (at, output, rows_first) = (place, step.output(0)?, true);
            gone.push(place);
        }
        let attention = Attention {
            heads,
            kv_heads: Some(kv_heads).filter(|&fewer| fewer != heads),
            head_dim,
            value_dim,
            scale: scale as f32,
            causal,
            sides: [q_side, k_side, v_side],
            rows_first,
            hidden_gives_zeros: true,
            math: Math::F32,
        };
        let op = Some(Op::Attention(attention)).filter(|op| op.check().is_ok() && (scale as f32).is_finite())?;
        let inputs = vec![Some(q), Some(k), Some(v), mask];
        let step = Step { name: node.name.clone(), op, inputs, outputs: vec![Some(output)] };
        Some(Rewrite { at, step, gone })
    }

    fn sizes(&self, node: &Step, operands: [usize; 3]) -> Option<Sizes> {
        let [q, k, v] = operands.map(|value| self.graph.shape(value));
        let count = |name: &str| usize::try_from(node.int(name, 0)).ok().filter(|&count| count > 0);
        let part = |hidden: &Dim, heads: usize| Some(hidden.fixed()? / heads);
        let sizes = match (q, k, v) {
            ([batch, heads, queries, size], [_, kv_heads, keys, _], [_, _, _, value]) => Sizes {
                batch: batch.clone(),
                queries: queries.clone(),
                keys: keys.clone(),
                heads: heads.fixed()?,
                kv_heads: kv_heads.fixed()?,
                head_dim: size.fixed()?,
                value_dim: value.fixed()?,
            },
            ([batch, queries, hidden], [_, keys, _], [_, _, value]) => {
                let (heads, kv_heads) = (count("q_num_heads")?, count("kv_num_heads")?);
                Sizes {
                    batch: batch.clone(),
                    queries: queries.clone(),
                    keys: keys.clone(),
                    heads,
                    kv_heads,
                    head_dim: part(hidden, heads)?,
                    value_dim: part(value, kv_heads)?,
                }
            }
            _ => return None,
        };
        Some(sizes).filter(|sizes| sizes.kv_heads > 0 && sizes.heads % sizes.kv_heads == 0)
    }

    /// Whether a mask broadcasts to the scores. One whose last axis is shorter hides what it lacks, which the kernel does not.
    fn mask_fits(&self, mask: usize, sizes: &Sizes) -> bool {
        let scores = [&sizes.batch, &Dim::Fixed(sizes.heads), &sizes.queries, &sizes.keys];
        let shape = self.graph.shape(mask);
        let ends = shape.iter().rev().zip(scores.into_iter().rev()).enumerate();
        (1..=4).contains(&shape.len())
            && ends.into_iter().all(|(from_end, (size, score))| size == score || from_end > 0 && *size == Dim::Fixed(1))
    }

    /// Where rows of `columns` columns are: as they are, or cut out of wider ones.
    fn cut_rows(&self, value: usize, columns: usize) -> Option<(usize, Side)> {
        let whole = (value, Side::RowsFirst { width: columns, start: 0 });
        Some(self.part(value, columns).unwrap_or(whole))
    }
}

impl Side {
    /// Whether the heads can be as many columns together.
    fn holds(self, columns: usize) -> bool {
        match self {
            Side::HeadsFirst => true,
            Side::RowsFirst { width, start } => start + columns <= width,
        }
    }
}

/// Whether the node asks for nothing that the kernel does not do.
fn is_plain(node: &Step) -> bool {
    let alone = node.outputs.iter().skip(1).all(Option::is_none) && node.inputs.iter().skip(4).all(Option::is_none);
    let windows = ["left_window_size", "right_window_size"].iter().all(|name| node.int(name, -1) == -1);
    alone && windows && node.float("softcap", 0.0) == 0.0
}
