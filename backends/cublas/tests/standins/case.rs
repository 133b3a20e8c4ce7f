//! Products of every kind that is taken, at random.

use std::collections::HashMap;

use byoc_plugin_api::testing::{Lies, RegionBuilder, Rng, Tensor};
use byoc_plugin_api::{Attribute, DType, Dim};

/// A region, and sizes for what it does not know.
pub(crate) struct Case {
    pub(crate) net: RegionBuilder,
    pub(crate) sizes: Vec<Vec<(&'static str, usize)>>,
}

/// A size of the problem: a number, or a symbol with a number for each time that the region is run.
struct Letters {
    dims: HashMap<&'static str, Dim>,
    sizes: Vec<Vec<(&'static str, usize)>>,
}

/// How often a region with unknown sizes is run.
const TIMES: usize = 3;

impl Letters {
    /// Sizes from 1 to 6, of which those named stay numbers.
    fn new(random: &mut Rng, known: &[&str]) -> Letters {
        let mut letters = Letters { dims: HashMap::new(), sizes: vec![Vec::new(); TIMES] };
        for name in ["b", "c", "m", "n", "k", "p"] {
            let dim = match random.u8(..3) == 0 && !known.contains(&name) {
                true => Dim::Symbolic(name.into()),
                false => Dim::Fixed(1 + random.usize(..6)),
            };
            for sizes in &mut letters.sizes {
                sizes.push((name, 1 + random.usize(..6)));
            }
            letters.dims.insert(name, dim);
        }
        letters
    }

    fn shape(&self, names: &[&str]) -> Vec<Dim> {
        names.iter().map(|&name| self.dims.get(name).cloned().unwrap_or(Dim::Fixed(1))).collect()
    }

    fn fixed(&self, names: &[&str]) -> Option<Vec<usize>> {
        self.shape(names).iter().map(Dim::fixed).collect()
    }
}

/// A case in the making.
struct Making<'r> {
    net: RegionBuilder,
    dtype: DType,
    letters: Letters,
    random: &'r mut Rng,
}

impl Case {
    pub(crate) fn new(random: &mut Rng, dtype: DType) -> Case {
        let (x_is_known, w_is_known) = (random.u8(..6) == 0, random.u8(..3) != 0);
        let known: &[&str] = match (x_is_known, w_is_known) {
            (true, true) => &["b", "c", "m", "n", "k"],
            (true, false) => &["b", "c", "m", "k"],
            (false, true) => &["b", "c", "n", "k", "m"],
            (false, false) => &[],
        };
        // Rows may stay unknown beside a known weight: it has none of them.
        let known = if known.len() == 5 && !x_is_known { &known[..4] } else { known };
        let letters = Letters::new(random, known);
        let mut making = Making { net: RegionBuilder::of("cublas", dtype), dtype, letters, random };
        let (product, names, has_rows) = match making.random.usize(..6) {
            0 => making.convolution(),
            1 | 2 => making.gemm(x_is_known, w_is_known),
            _ => making.matmul(x_is_known, w_is_known),
        };
        let sum = making.sums(product, &names, has_rows);
        let result = if dtype == DType::F64 { sum } else { making.activation(sum, &names) };
        Case { net: making.net.with(&[result]), sizes: making.letters.sizes }
    }
}

impl Making<'_> {
    /// An operand of these sizes, a constant if it may be one.
    fn operand(&mut self, names: &[&str], is_known: bool) -> usize {
        // A region has an input.
        match self.letters.fixed(names).filter(|_| is_known) {
            Some(shape) => {
                let all = [Lies::RowMajor, Lies::RowMajor, Lies::Transposed, Lies::Spread, Lies::Splat];
                let lies = all[self.random.usize(..all.len())];
                self.net.constant(Tensor::random((self.dtype, shape), -2.0..2.0, self.random).lying(lies))
            }
            None => {
                let shape = self.letters.shape(names);
                self.net.input(shape)
            }
        }
    }

    fn node(&mut self, op: &str, inputs: &[usize], names: &[&str], attributes: &[(&str, Attribute)]) -> usize {
        let shape = self.letters.shape(names);
        self.net.node(op, inputs, shape, attributes)
    }

    /// The last of the dimensions of a batch, some of them 1.
    fn batch(&mut self, of: usize) -> Vec<&'static str> {
        let all = &["b", "c"][2 - of..];
        let own = &all[all.len() - self.random.usize(..all.len() + 1)..];
        own.iter().map(|&name| if self.random.u8(..4) == 0 { "1" } else { name }).collect()
    }

    fn matmul(&mut self, x_is_known: bool, w_is_known: bool) -> (usize, Vec<&'static str>, bool) {
        let rank = self.random.usize(..3);
        let (row, column) = (self.random.u8(..8) == 0, self.random.u8(..8) == 0);
        let x_batch = if row { vec![] } else { self.batch(rank) };
        let w_batch = if column { vec![] } else { self.batch(rank) };
        let x_names = if row { vec!["k"] } else { [x_batch.as_slice(), &["m", "k"]].concat() };
        let w_names = if column { vec!["k"] } else { [w_batch.as_slice(), &["k", "n"]].concat() };
        let x = self.operand(&x_names, x_is_known);
        let w = self.operand(&w_names, w_is_known && !(x_is_known && self.net.region.inputs.is_empty()));
        let rank = x_batch.len().max(w_batch.len());
        let mut names: Vec<_> = (0..rank)
            .map(|axis| {
                let of = |batch: &[&'static str]| (axis + batch.len()).checked_sub(rank).map_or("1", |at| batch[at]);
                if of(&x_batch) == "1" { of(&w_batch) } else { of(&x_batch) }
            })
            .collect();
        names.extend((!row).then_some("m"));
        names.extend((!column).then_some("n"));
        (self.node("MatMul", &[x, w], &names, &[]), names, !column)
    }

    fn gemm(&mut self, x_is_known: bool, w_is_known: bool) -> (usize, Vec<&'static str>, bool) {
        let (turned_x, turned_w) = (self.random.u8(..2) == 0, self.random.u8(..2) == 0);
        let x = self.operand(if turned_x { &["k", "m"] } else { &["m", "k"] }, x_is_known);
        let w_is_known = w_is_known && !self.net.region.inputs.is_empty();
        let w = self.operand(if turned_w { &["n", "k"] } else { &["k", "n"] }, w_is_known);
        let mut inputs = vec![x, w];
        let beta = match self.random.usize(..3) {
            0 => 1.0,
            1 => {
                inputs.push(self.operand(&["m", "n"], false));
                0.5
            }
            _ => {
                inputs.push(self.operand(&["n"], w_is_known));
                1.0
            }
        };
        let flag = |turned: bool| Attribute::Int(turned.into());
        let attributes = [
            ("transA", flag(turned_x)),
            ("transB", flag(turned_w)),
            ("alpha", Attribute::Float([1.0, 0.75][self.random.usize(..2)])),
            ("beta", Attribute::Float(beta)),
        ];
        // No second one of what Gemm adds itself.
        let rows = inputs.len() == 2;
        (self.node("Gemm", &inputs, &["m", "n"], &attributes), vec!["m", "n"], rows)
    }

    fn convolution(&mut self) -> (usize, Vec<&'static str>, bool) {
        let x = self.operand(&["b", "k", "p", "c"], false);
        let w = self.operand(&["m", "k", "1", "1"], true);
        let names = vec!["b", "m", "p", "c"];
        (self.node("Conv", &[x, w], &names, &[]), names, false)
    }

    /// A bias where there are rows for it, and a residual, in any order.
    fn sums(&mut self, product: usize, names: &[&'static str], has_rows: bool) -> usize {
        let bias: &[&str] = [&["n"][..], &["1", "n"], &[]][self.random.usize(..3)];
        let bias = (has_rows && names.last() == Some(&"n") && bias.len() <= names.len()).then_some(bias);
        let bias = bias.filter(|bias| !bias.is_empty() || self.letters.fixed(&["n"]).is_some());
        let is_own = self.net.region.nodes[0].op == "Gemm" && !has_rows;
        let mut terms: Vec<(Vec<&str>, bool)> = Vec::new();
        if let Some(bias) = bias.filter(|_| self.random.u8(..2) == 0) {
            // One number may be a constant only.
            terms.push((bias.to_vec(), bias.is_empty() || self.random.u8(..2) == 0));
        }
        if !is_own && self.random.u8(..3) == 0 {
            terms.insert(self.random.usize(..terms.len() + 1), (names.to_vec(), self.random.u8(..4) == 0));
        }
        terms.into_iter().fold(product, |sum, (term, is_known)| {
            let term = self.operand(&term, is_known);
            let operands = if self.random.u8(..2) == 0 { [sum, term] } else { [term, sum] };
            self.node("Add", &operands, names, &[])
        })
    }

    fn activation(&mut self, x: usize, names: &[&'static str]) -> usize {
        match self.random.usize(..4) {
            0 => x,
            1 => self.node("Relu", &[x], names, &[]),
            2 => self.node("Gelu", &[x], names, &[("approximate", Attribute::String("tanh".into()))]),
            // The numbers in pieces are as exact as the type.
            _ if self.dtype != DType::F32 => x,
            _ => self.in_pieces(x, names),
        }
    }

    fn in_pieces(&mut self, x: usize, names: &[&'static str]) -> usize {
        let [three, factor, scale, one, half] =
            [3.0, 0.044715, (2.0 / std::f64::consts::PI).sqrt(), 1.0, 0.5].map(|number| self.net.number(number));
        let cube = if self.random.u8(..2) == 0 {
            self.node("Pow", &[x, three], names, &[])
        } else {
            let square = self.node("Mul", &[x, x], names, &[]);
            self.node("Mul", &[square, x], names, &[])
        };
        let term = self.node("Mul", &[factor, cube], names, &[]);
        let sum = self.node("Add", &[x, term], names, &[]);
        let scaled = self.node("Mul", &[sum, scale], names, &[]);
        let tanh = self.node("Tanh", &[scaled], names, &[]);
        let gate = self.node("Add", &[tanh, one], names, &[]);
        match self.random.usize(..3) {
            0 => {
                let product = self.node("Mul", &[x, gate], names, &[]);
                self.node("Mul", &[product, half], names, &[])
            }
            1 => {
                let product = self.node("Mul", &[half, x], names, &[]);
                self.node("Mul", &[product, gate], names, &[])
            }
            _ => {
                let product = self.node("Mul", &[gate, half], names, &[]);
                self.node("Mul", &[x, product], names, &[])
            }
        }
    }
}
