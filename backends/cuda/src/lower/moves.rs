//! Operators that move elements, or generate them.

use byoc_dim as dim;
use byoc_plugin_api::{Attribute, DType, Dim, Node, Refusal, RefusalCode};

use super::{Lowering, refused};
use crate::ir::{Def, Edge, Move, Rotary, Start, number};

impl Lowering<'_> {
    /// Lowers the node if it is one of these.
    pub(super) fn moves(&mut self, node: &Node) -> Result<bool, Refusal> {
        let how = match node.op.as_str() {
            "Identity" => Move::Reshape,
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
                self.in_shape(node, 1);
                Move::Reshape
            }
            "Dropout" => return self.dropout(node),
            "Transpose" => {
                let x = self.operand(node, 0)?;
                let rank = self.shape(x).len();
                let reversed: Vec<i64> = (0..rank as i64).rev().collect();
                let perm = node.ints("perm").unwrap_or(&reversed);
                Move::Transpose(perm.iter().map(|&axis| self.axis(axis, rank)).collect::<Result<_, _>>()?)
            }
            "Expand" => {
                self.in_shape(node, 1);
                Move::Broadcast
            }
            "Tile" => {
                self.in_shape(node, 1);
                Move::Tile
            }
            "Slice" => return self.slice(node),
            "Split" => return self.split(node),
            "Concat" => return self.concat(node),
            "Pad" => return self.pad(node),
            "Gather" | "GatherElements" | "GatherND" => return self.gather(node),
            "Trilu" => {
                let diagonal = self.ints(node, 1, "diagonals")?.and_then(|values| values.first().copied()).unwrap_or(0);
                Move::Triangle(node.int("upper", 1) != 0, diagonal)
            }
            "Shape" => return self.sizes(node),
            "ConstantOfShape" => return self.fill(node),
            "Range" => return self.range(node),
            "RotaryEmbedding" => return self.rotary(node),
            _ => return Ok(false),
        };
        let x = self.operand(node, 0)?;
        self.give(node, 0, Def::Move(how, vec![x]));
        Ok(true)
    }

    fn dropout(&mut self, node: &Node) -> Result<bool, Refusal> {
        let training = self.ints(node, 2, "modes")?.is_some_and(|values| values.first() == Some(&1));
        if training {
            return Err(refused(RefusalCode::Attribute, "it is in training mode"));
        }
        let x = self.operand(node, 0)?;
        self.in_shape(node, 1);
        self.give(node, 0, Def::Move(Move::Reshape, vec![x]));
        self.give(node, 1, Def::Move(Move::Fill("true".into()), vec![]));
        Ok(true)
    }

    fn slice(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let shape = self.shape(x);
        let starts = self.ints(node, 1, "starts")?.unwrap_or_default();
        self.in_shape(node, 2);
        let axes = self.ints(node, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = self.ints(node, 4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
        let mut parts = vec![(Start::Front(0), 1); shape.len()];
        for ((&start, axis), &step) in starts.iter().zip(axes).zip(&steps) {
            let axis = self.axis(axis, shape.len())?;
            parts[axis] = (first(start, step, &shape[axis]), step);
        }
        self.give(node, 0, Def::Move(Move::Slice(parts), vec![x]));
        Ok(true)
    }

    fn split(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let shape = self.shape(x);
        let axis = self.axis(node.int("axis", 0), shape.len())?;
        let sizes = self.ints(node, 1, "sizes")?;
        let each = shape[axis].fixed().map(|size| size.div_ceil(node.outputs.len().max(1)) as i64);
        let mut start = 0;
        for output in 0..node.outputs.len() {
            let size = sizes.as_ref().map_or(each, |sizes| sizes.get(output).copied());
            let Some(size) = size else {
                return Err(refused(RefusalCode::Shape, "the size of the axis that is split is not known"));
            };
            let mut parts = vec![(Start::Front(0), 1); shape.len()];
            parts[axis] = (Start::Front(start), 1);
            self.give(node, output, Def::Move(Move::Slice(parts), vec![x]));
            start += size;
        }
        Ok(true)
    }

    fn concat(&mut self, node: &Node) -> Result<bool, Refusal> {
        let mut operands = self.operands(node)?;
        let rank = operands.first().map_or(0, |&operand| self.shape(operand).len());
        let axis = self.axis(node.int("axis", 0), rank)?;
        operands.retain(|&operand| self.graph.values[operand].shape[axis] != Dim::Fixed(0));
        let how = if operands.is_empty() { Move::Fill("0".into()) } else { Move::Concat(axis) };
        self.give(node, 0, Def::Move(how, operands));
        Ok(true)
    }

    fn pad(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let rank = self.shape(x).len();
        let edge = match node.string("mode", "constant") {
            "constant" => Edge::Constant,
            "edge" => Edge::Nearest,
            "reflect" => Edge::Reflect,
            "wrap" => Edge::Wrap,
            other => return Err(refused(RefusalCode::Attribute, format!("its mode is {other}"))),
        };
        let widths = self.ints(node, 1, "widths")?.unwrap_or_default();
        let axes = self.ints(node, 3, "axes")?.unwrap_or_else(|| (0..rank as i64).collect());
        let mut before = vec![0; rank];
        for (&axis, &width) in axes.iter().zip(&widths) {
            before[self.axis(axis, rank)?] = width;
        }
        let mut operands = vec![x];
        if let Some(fill) = self.optional(node, 2)? {
            operands.push(self.scalar(fill));
        }
        self.give(node, 0, Def::Move(Move::Pad(before, edge), operands));
        Ok(true)
    }

    fn gather(&mut self, node: &Node) -> Result<bool, Refusal> {
        let operands = vec![self.operand(node, 0)?, self.operand(node, 1)?];
        let (data, indices) = (self.shape(operands[0]), self.shape(operands[1]));
        let axis = self.axis(node.int("axis", 0), data.len());
        let how = match node.op.as_str() {
            "Gather" => Move::Gather(axis?),
            "GatherElements" => Move::GatherElements(axis?),
            _ if indices.last().and_then(Dim::fixed).is_none() => {
                return Err(refused(RefusalCode::Shape, "the length of its tuples is not known"));
            }
            _ => Move::GatherNd(usize::try_from(node.int("batch_dims", 0)).unwrap_or(0)),
        };
        self.give(node, 0, Def::Move(how, operands));
        Ok(true)
    }

    fn sizes(&mut self, node: &Node) -> Result<bool, Refusal> {
        let Some(x) = node.input(0) else { return Ok(false) };
        let shape = &self.region.values[x].shape;
        let rank = shape.len() as i64;
        let bound = |value: i64| (if value < 0 { value + rank } else { value }).clamp(0, rank) as usize;
        let (start, end) = (bound(node.int("start", 0)), bound(node.int("end", rank)));
        let sizes = shape.get(start..end).unwrap_or_default().to_vec();
        if self.region.constant(x).is_some() {
            self.graph.decided.insert(x);
        }
        self.give(node, 0, Def::Move(Move::Sizes(sizes), vec![]));
        Ok(true)
    }

    fn fill(&mut self, node: &Node) -> Result<bool, Refusal> {
        self.in_shape(node, 0);
        let text = match node.attributes.get("value") {
            Some(Attribute::Tensor { dtype, hex, .. }) => literal(*dtype, hex),
            _ => Some(number(0.0, DType::F32)),
        };
        let text = text.ok_or_else(|| refused(RefusalCode::Attribute, "its value has no element"))?;
        self.give(node, 0, Def::Move(Move::Fill(text), vec![]));
        Ok(true)
    }

    fn range(&mut self, node: &Node) -> Result<bool, Refusal> {
        let (start, step) = (self.operand(node, 0)?, self.operand(node, 2)?);
        self.in_shape(node, 1);
        let operands = vec![self.scalar(start), self.scalar(step)];
        self.give(node, 0, Def::Move(Move::Range, operands));
        Ok(true)
    }

    fn rotary(&mut self, node: &Node) -> Result<bool, Refusal> {
        let x = self.operand(node, 0)?;
        let (dtype, shape) = (self.dtype(x), self.shape(x));
        let mut heads = x;
        if let [batch, tokens, hidden] = shape.as_slice() {
            let count = Dim::Fixed(usize::try_from(node.int("num_heads", 0)).unwrap_or(0).max(1));
            let size = dim::div(hidden, &count).map_err(|error| refused(RefusalCode::Shape, error.to_string()))?;
            let apart = vec![batch.clone(), tokens.clone(), count.clone(), size.clone()];
            let apart = self.push(dtype, apart, Def::Move(Move::Reshape, vec![x]));
            let turned = vec![batch.clone(), count, tokens.clone(), size];
            heads = self.push(dtype, turned, Def::Move(Move::Transpose(vec![0, 2, 1, 3]), vec![apart]));
        }
        let Some(size) = self.shape(heads).get(3).and_then(Dim::fixed) else {
            return Err(refused(RefusalCode::Shape, "its head size is not known"));
        };
        let turned = match node.int("rotary_embedding_dim", 0) {
            0 => size as i64,
            turned => turned,
        };
        let mut operands = vec![heads, self.operand(node, 1)?, self.operand(node, 2)?];
        operands.extend(self.optional(node, 3)?);
        let ranks = if operands.len() == 4 { 2 } else { 3 };
        if turned < 2 || self.shape(operands[1]).len() != ranks || self.shape(operands[2]).len() != ranks {
            return Err(refused(RefusalCode::Shape, format!("its tables do not have {ranks} axes")));
        }
        let rotary = Move::Rotary(Rotary { turned, interleaved: node.int("interleaved", 0) != 0 });
        if heads == x {
            self.give(node, 0, Def::Move(rotary, operands));
            return Ok(true);
        }
        let own = self.shape(heads);
        let done = self.push(dtype, own.clone(), Def::Move(rotary, operands));
        let back = vec![own[0].clone(), own[2].clone(), own[1].clone(), own[3].clone()];
        let back = self.push(dtype, back, Def::Move(Move::Transpose(vec![0, 2, 1, 3]), vec![done]));
        self.give(node, 0, Def::Move(Move::Reshape, vec![back]));
        Ok(true)
    }
}

/// Where a slice begins, by the rules of ONNX.
fn first(start: i64, step: i64, size: &Dim) -> Start {
    let far = i64::from(i32::MAX);
    match size.fixed() {
        Some(size) => {
            let size = size as i64;
            let start = if start < 0 { start.saturating_add(size) } else { start };
            let most = if step > 0 { size } else { size - 1 };
            Start::Front(start.clamp(0, most.max(0)))
        }
        None if start < 0 => Start::Back(start.saturating_neg()),
        None if start >= far && step < 0 => Start::Back(1),
        None => Start::Front(start),
    }
}

/// C++ for the first element of a tensor in hex.
fn literal(dtype: DType, hex: &str) -> Option<String> {
    let bytes = byoc_plugin_api::from_hex(hex)?;
    let bytes = bytes.get(..dtype.unpacked_bytes())?;
    let bits = bytes.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
    Some(match dtype {
        DType::F32 => number(f32::from_bits(bits as u32).into(), dtype),
        DType::F64 => number(f64::from_bits(bits), dtype),
        DType::F16 => format!("to_float(f16{{u16({bits})}})"),
        DType::BF16 => format!("to_float(bf16{{u16({bits})}})"),
        DType::Bool => (if bits == 0 { "false" } else { "true" }).into(),
        dtype => format!("{}({bits}ull)", crate::ir::computed(dtype)),
    })
}
