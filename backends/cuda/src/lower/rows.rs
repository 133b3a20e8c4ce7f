//! Reductions and normalisations: operators that reduce rows, and elementwise steps on the results.

use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode};

use super::{Lowering, refused};
use crate::expr::{Expr, X};
use crate::index::{ONE, product};
use crate::ir::{Def, Fold, Id, Move, computed, wide};

impl Lowering<'_> {
    /// Lowers the node if it is one of these.
    pub(super) fn rows(&mut self, node: &Node) -> Result<bool, Refusal> {
        match node.op.as_str() {
            "Softmax" => self.softmax(node),
            "LayerNormalization" | "RMSNormalization" => self.norm(node),
            "ReduceSum" | "ReduceMean" | "ReduceMax" => self.reduce(node),
            "GlobalAveragePool" => {
                let x = self.operand(node, 0)?;
                let axes: Vec<usize> = (2..self.shape(x).len()).collect();
                let mean = self.mean(x, &axes)?;
                self.give(node, 0, Def::Move(Move::Reshape, vec![mean]));
                Ok(())
            }
            "ArgMax" => self.arg_max(node),
            "CumSum" => self.running_sum(node),
            "LRN" => self.local_response(node),
            _ => return Ok(false),
        }
        .map(|()| true)
    }

    fn each(&mut self, dtype: DType, shape: Vec<Dim>, expression: Expr, operands: Vec<Id>) -> Id {
        self.push(dtype, shape, Def::Each(expression, operands))
    }

    /// Reduces axes to size 1; integers as i64.
    fn fold(&mut self, kind: Fold, x: Id, axes: &[usize]) -> Result<Id, Refusal> {
        let dtype = self.dtype(x);
        if dtype == DType::U64 && kind != Fold::Sum {
            return Err(refused(RefusalCode::Type, "comparing u64 is not supported"));
        }
        let mut shape = self.shape(x);
        axes.iter().for_each(|&axis| shape[axis] = ONE);
        let float = dtype.is_float() && !matches!(kind, Fold::ArgMax(_));
        let dtype = if float { wide(dtype) } else { DType::I64 };
        Ok(self.push(dtype, shape, Def::Fold(kind, x, axes.to_vec())))
    }

    /// The number of elements along axes, with an operand if it is unknown.
    fn count(&mut self, x: Id, axes: &[usize], dtype: DType, operands: &mut Vec<Id>) -> Result<Expr, Refusal> {
        let shape = self.shape(x);
        let count = product(axes.iter().map(|&axis| &shape[axis]))
            .map_err(|_| refused(RefusalCode::Shape, "it reduces too many elements"))?;
        if let Dim::Fixed(count) = count {
            return Ok(match dtype.is_float() {
                true => Expr::number(count as f64, dtype),
                false => Expr::Literal(format!("i64({count})")),
            });
        }
        operands.push(self.push(DType::I64, Vec::new(), Def::Move(Move::Sizes(vec![count]), vec![])));
        Ok(Expr::light(computed(dtype), [Expr::Operand(operands.len() - 1)]))
    }

    /// Means, in the type of sums.
    fn mean(&mut self, x: Id, axes: &[usize]) -> Result<Id, Refusal> {
        let sum = self.fold(Fold::Sum, x, axes)?;
        let dtype = self.dtype(sum);
        let mut operands = vec![sum];
        let count = self.count(x, axes, dtype, &mut operands)?;
        let mean = if dtype.is_float() { X / count } else { Expr::heavy("divide", [X, count]) };
        Ok(self.each(dtype, self.shape(sum), mean, operands))
    }

    fn softmax(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let (dtype, shape) = (wide(self.dtype(x)), self.shape(x));
        let axis = self.axis(node.int("axis", -1), shape.len())?;
        let largest = self.fold(Fold::Max, x, &[axis])?;
        let exp = Expr::math("exp", dtype, [X - Expr::Operand(1)]);
        let powers = self.each(dtype, shape, exp, vec![x, largest]);
        let total = self.fold(Fold::Sum, powers, &[axis])?;
        self.give(node, 0, Def::Each(X / Expr::Operand(1), vec![powers, total]));
        Ok(())
    }

    fn norm(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let scale = self.operand(node, 1)?;
        let (dtype, shape) = (wide(self.dtype(x)), self.shape(x));
        let bias = self.optional(node, 2)?;
        for other in [Some(scale), bias].into_iter().flatten() {
            if wide(self.dtype(other)) != dtype {
                return Err(refused(RefusalCode::Type, format!("it scales {dtype} by {}", self.dtype(other))));
            }
        }
        let axis = self.axis(node.int("axis", -1), shape.len())?;
        let axes: Vec<usize> = (axis..shape.len()).collect();
        let mut centred = x;
        if node.op == "LayerNormalization" {
            let mean = self.mean(x, &axes)?;
            centred = self.each(dtype, shape.clone(), X - Expr::Operand(1), vec![x, mean]);
            self.give(node, 1, Def::Move(Move::Reshape, vec![mean]));
        }
        let squares = self.each(dtype, shape, X * X, vec![centred]);
        let variance = self.mean(squares, &axes)?;
        let epsilon = Expr::number(node.float("epsilon", 1e-5).into(), dtype);
        let factor = Expr::number(1.0, dtype) / Expr::math("sqrt", dtype, [X + epsilon]);
        let factor = self.each(dtype, self.shape(variance), factor, vec![variance]);
        if node.op == "LayerNormalization" {
            self.give(node, 2, Def::Move(Move::Reshape, vec![factor]));
        }
        let mut operands = vec![centred, factor, scale];
        operands.extend(bias);
        let scaled = X * Expr::Operand(1) * Expr::Operand(2);
        let normed = if bias.is_some() { scaled + Expr::Operand(3) } else { scaled };
        self.give(node, 0, Def::Each(normed, operands));
        Ok(())
    }

    fn reduce(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let rank = self.shape(x).len();
        let axes = self.ints(node, 1, "axes")?.unwrap_or_default();
        let mut axes: Vec<usize> = axes.into_iter().map(|axis| self.axis(axis, rank)).collect::<Result<_, _>>()?;
        if axes.is_empty() && node.int("noop_with_empty_axes", 0) == 0 {
            axes = (0..rank).collect();
        }
        axes.sort_unstable();
        axes.dedup();
        if axes.is_empty() {
            self.give(node, 0, Def::Move(Move::Reshape, vec![x]));
            return Ok(());
        }
        let folded = match node.op.as_str() {
            "ReduceMax" => self.fold(Fold::Max, x, &axes)?,
            "ReduceSum" => self.fold(Fold::Sum, x, &axes)?,
            _ => self.mean(x, &axes)?,
        };
        self.narrow(node, folded);
        Ok(())
    }

    /// Defines the result by a reduction, cast and reshaped.
    fn narrow(&mut self, node: &Node, folded: Id) {
        let Some(output) = node.output(0) else { return };
        let to = self.region.values[output].dtype;
        let narrow = match to {
            DType::Bool => Expr::infix("!=", X, Expr::Literal("0".into())),
            to if to.is_float() => X,
            to => Expr::light(computed(to), [X]),
        };
        let narrowed = self.each(to, self.shape(folded), narrow, vec![folded]);
        self.give(node, 0, Def::Move(Move::Reshape, vec![narrowed]));
    }

    fn arg_max(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let axis = self.axis(node.int("axis", 0), self.shape(x).len())?;
        let last = node.int("select_last_index", 0) != 0;
        let folded = self.fold(Fold::ArgMax(last), x, &[axis])?;
        self.give(node, 0, Def::Move(Move::Reshape, vec![folded]));
        Ok(())
    }

    /// Each prefix sum is computed separately: models have short axes.
    fn running_sum(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let mut shape = self.shape(x);
        let axes = self.ints(node, 1, "axes")?.unwrap_or_default();
        let axis = self.axis(axes.first().copied().unwrap_or(0), shape.len())?;
        shape.push(shape[axis].clone());
        let how = Move::Sums(axis, node.int("exclusive", 0) != 0, node.int("reverse", 0) != 0);
        let rank = shape.len();
        let terms = self.push(self.dtype(x), shape, Def::Move(how, vec![x]));
        let sums = self.fold(Fold::Sum, terms, &[rank - 1])?;
        self.narrow(node, sums);
        Ok(())
    }

    fn local_response(&mut self, node: &Node) -> Result<(), Refusal> {
        let x = self.operand(node, 0)?;
        let (dtype, shape) = (self.dtype(x), self.shape(x));
        let size = node.int("size", 0);
        if !(1..=31).contains(&size) || shape.len() < 2 {
            return Err(refused(RefusalCode::Attribute, format!("its size is {size}, but at most 31 is supported")));
        }
        let mut operands = vec![x];
        let mut squares = Vec::new();
        for offset in -(size - 1) / 2..=size / 2 {
            let mut before = vec![0; shape.len()];
            before[1] = -offset;
            let near = Def::Move(Move::Pad(before, crate::ir::Edge::Constant), vec![x]);
            let index = operands.len();
            operands.push(if offset == 0 { x } else { self.push(dtype, shape.clone(), near) });
            squares.push(Expr::Operand(index) * Expr::Operand(index));
        }
        let squares = squares.into_iter().reduce(|sum, square| sum + square).unwrap_or_else(|| Expr::zero(dtype));
        let factor = Expr::number(f64::from(node.float("alpha", 1e-4)) / size as f64, dtype);
        let bias = Expr::number(node.float("bias", 1.0).into(), dtype);
        let beta = Expr::number(node.float("beta", 0.75).into(), dtype);
        let power = Expr::math("pow", dtype, [bias + factor * squares, beta]);
        self.give(node, 0, Def::Each(X / power, operands));
        Ok(())
    }
}
