//! Products of matrices.

use byoc_plugin_api::{Attribute, DType};

use super::super::{INNER, Operand, Wish, any, last};
use super::{List, int, word};

/// Inner sizes around the width of vectors and blocks.
const INNER_SIZES: [usize; 5] = [1, 8, 17, 33, 100];

pub(super) fn sweep(op: &str, wish: &Wish, found: &mut List) {
    match op {
        "MatMul" => matmul(wish, found),
        "Gemm" => gemm(wish, found),
        "Einsum" => einsum(wish, found),
        _ => {}
    }
}

fn matmul(Wish { dtype, shape }: &Wish, found: &mut List) {
    let tensor = |shape: &[usize]| any(*dtype, shape);
    match shape.as_slice() {
        [] => found.add("two vectors", vec![tensor(&[INNER]), tensor(&[INNER])], &[]),
        [size] => {
            found.add("vector times matrix", vec![tensor(&[INNER]), tensor(&[INNER, *size])], &[]);
            found.add("matrix times vector", vec![tensor(&[*size, INNER]), tensor(&[INNER])], &[]);
        }
        [batch @ .., rows, columns] => {
            let matrices = [&[batch, &[*rows]].concat()[..], &[INNER, *columns]].concat();
            found.add("vector times matrices", vec![tensor(&[INNER]), tensor(&matrices)], &[]);
            let matrices = [shape.as_slice(), &[INNER]].concat();
            found.add("matrices times vector", vec![tensor(&matrices), tensor(&[INNER])], &[]);
            for inner in INNER_SIZES {
                let operands = vec![tensor(&last(shape, inner)), tensor(&[inner, *columns])];
                found.add(&format!("{inner} inner"), operands, &[]);
            }
            let matrix = |batch: &[usize], rows: usize, columns: usize| tensor(&[batch, &[rows, columns]].concat());
            if !batch.is_empty() {
                let (left, right) = (matrix(batch, *rows, INNER), matrix(batch, INNER, *columns));
                found.add("a matrix each", vec![left.clone(), right.clone()], &[]);
                let ones = vec![1; batch.len()];
                found.add("left broadcast", vec![matrix(&ones, *rows, INNER), right.clone()], &[]);
                found.add("left without a batch", vec![tensor(&[*rows, INNER]), right], &[]);
                found.add("right broadcast", vec![left, matrix(&ones, INNER, *columns)], &[]);
            }
            if let [first, second] = *batch {
                let (left, right) = (matrix(&[first, 1], *rows, INNER), matrix(&[1, second], INNER, *columns));
                found.add("both broadcast", vec![left, right], &[]);
            }
        }
    }
}

fn gemm(Wish { dtype, shape }: &Wish, found: &mut List) {
    let &[rows, columns] = shape.as_slice() else { return };
    let tensor = |shape: &[usize]| any(*dtype, shape);
    let mut add = |name: &str, inner: usize, added: &[usize], attributes: &[(&str, Attribute)]| {
        let is_set = |name: &str| attributes.iter().any(|(known, value)| *known == name && *value == int(1));
        let left = if is_set("transA") { [inner, rows] } else { [rows, inner] };
        let right = if is_set("transB") { [columns, inner] } else { [inner, columns] };
        found.optional(name, vec![tensor(&left), tensor(&right), tensor(added)], 2, attributes);
    };
    let (alpha, beta) = (("alpha", Attribute::Float(0.5)), ("beta", Attribute::Float(-2.0)));
    let (left, right) = (("transA", int(1)), ("transB", int(1)));
    let bias = [columns];
    add("transA", INNER, &bias, std::slice::from_ref(&left));
    add("transB", INNER, &bias, std::slice::from_ref(&right));
    add("transA and transB", INNER, &bias, &[left, right.clone()]);
    add("alpha=0.5", INNER, &bias, std::slice::from_ref(&alpha));
    add("beta=0", INNER, &bias, &[("beta", Attribute::Float(0.0))]);
    add("beta=-2", INNER, &bias, std::slice::from_ref(&beta));
    add("alpha, beta and transB", INNER, &bias, &[alpha, beta, right]);
    add("C=MxN", INNER, &[rows, columns], &[]);
    add("C=1xN", INNER, &[1, columns], &[]);
    add("C=Mx1", INNER, &[rows, 1], &[]);
    add("C=1", INNER, &[1], &[]);
    add("C of one number", INNER, &[], &[]);
    for inner in INNER_SIZES {
        add(&format!("{inner} inner"), inner, &bias, &[]);
    }
}

fn einsum(Wish { dtype, shape }: &Wish, found: &mut List) {
    let mut add = |equation: &str, operands: &[&[usize]]| {
        let operands: Vec<Operand> = operands.iter().map(|shape| any(*dtype, shape)).collect();
        found.add(equation, operands, &[("equation", word(equation))]);
    };
    let is_known = *dtype != DType::Bool;
    match *shape.as_slice() {
        [rows, columns] if is_known => {
            add("ji,jk->ik", &[&[INNER, rows], &[INNER, columns]]);
            add("ij,kj->ik", &[&[rows, INNER], &[columns, INNER]]);
            add("ji->ij", &[&[columns, rows]]);
            add("ijk->ik", &[&[rows, INNER, columns]]);
            add("i,j->ij", &[&[rows], &[columns]]);
        }
        [batch, rows, columns] if is_known => {
            add("bij,bjk->bik", &[&[batch, rows, INNER], &[batch, INNER, columns]]);
            add("bij,bkj->bik", &[&[batch, rows, INNER], &[batch, columns, INNER]]);
        }
        [batch, heads, rows, columns] if is_known => {
            add("bqhd,bkhd->bhqk", &[&[batch, rows, heads, INNER], &[batch, columns, heads, INNER]]);
        }
        _ => {}
    }
}
