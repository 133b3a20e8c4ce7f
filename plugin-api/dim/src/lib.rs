//! Arithmetic on sizes. A [`Dim`] is a number or the text of a symbolic expression; [`Expr`] is that expression in
//! polynomial normal form: integer coefficients over products of atoms (symbols, `floor(a/b)`, `max(a, b)`,
//! `min(a, b)`). Equal normal forms have equal texts, so two dims are equal when `==` says so.
//!
//! A symbol stands for a size, so it is at least 0; a division by an expression takes the divisor to be positive.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

mod arena;
mod bounds;
mod divide;
mod error;
mod text;

pub use arena::*;
pub use error::{DimError, DimErrorKind};

/// One dimension: a number, or the text of a symbolic expression such as `"batch"` or `"batch*12"`, which is a number
/// by the time `run` is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Dim {
    /// A size known when the model is compiled.
    Fixed(usize),
    /// A size known only when the model is run.
    Symbolic(String),
}

/// By hand: what serde derives for an untagged enum copies each number first, which is much of what loading a model takes.
impl<'de> Deserialize<'de> for Dim {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Dim;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size, or the text of an expression")
            }

            fn visit_u64<E: Error>(self, size: u64) -> std::result::Result<Dim, E> {
                usize::try_from(size).map(Dim::Fixed).map_err(|_| E::invalid_value(Unexpected::Unsigned(size), &self))
            }

            // Formats that tell no signs apart.
            fn visit_i64<E: Error>(self, size: i64) -> std::result::Result<Dim, E> {
                usize::try_from(size).map(Dim::Fixed).map_err(|_| E::invalid_value(Unexpected::Signed(size), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Dim, E> {
                Ok(Dim::Symbolic(text.to_owned()))
            }
        }

        from.deserialize_any(Either)
    }
}

impl Dim {
    /// The size, if it is known.
    pub fn fixed(&self) -> Option<usize> {
        match self {
            Dim::Fixed(size) => Some(*size),
            Dim::Symbolic(_) => None,
        }
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Self {
        Dim::Fixed(size)
    }
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Fixed(size) => write!(f, "{size}"),
            Dim::Symbolic(text) => f.write_str(text),
        }
    }
}

type Result<T> = std::result::Result<T, DimError>;

/// More terms than any sane size has: a limit for texts that somebody else wrote.
const MAX_TERMS: usize = 256;

/// A factor of a term that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Atom {
    Symbol(String),
    Floor(Box<Expr>, Box<Expr>),
    Max(Box<Expr>, Box<Expr>),
    Min(Box<Expr>, Box<Expr>),
}

/// The atoms of one term, sorted, repeated for powers; empty for the constant term.
type Monomial = Vec<Atom>;

/// An integer expression in normal form. No coefficient is 0, so 0 has no terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr {
    terms: BTreeMap<Monomial, i64>,
}

fn overflow() -> DimError {
    DimError::new(DimErrorKind::Invalid, "a size is too large to compute with")
}

impl From<i64> for Expr {
    fn from(value: i64) -> Self {
        Expr { terms: if value == 0 { BTreeMap::new() } else { BTreeMap::from([(Vec::new(), value)]) } }
    }
}

impl Expr {
    /// The symbol of that name, which may hold any character.
    pub fn symbol(name: &str) -> Expr {
        Expr::atom(Atom::Symbol(name.to_owned()))
    }

    fn atom(atom: Atom) -> Expr {
        Expr { terms: BTreeMap::from([(vec![atom], 1)]) }
    }

    /// The expression that `dim` stands for.
    pub fn of(dim: &Dim) -> Result<Expr> {
        match dim {
            Dim::Fixed(size) => Ok(Expr::from(i64::try_from(*size).map_err(|_| overflow())?)),
            Dim::Symbolic(text) => text.parse(),
        }
    }

    /// The expression as a dimension; a number below 0 is an error.
    pub fn to_dim(&self) -> Result<Dim> {
        match self.as_constant() {
            Some(value) => usize::try_from(value).map(Dim::Fixed).map_err(|_| {
                DimError::new(DimErrorKind::Invalid, format!("a dimension would have the negative size {value}"))
            }),
            None => Ok(Dim::Symbolic(self.to_string())),
        }
    }

    /// The value, if the expression is a number.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    fn insert(&mut self, monomial: Monomial, coefficient: i64) -> Result<()> {
        let sum = self.terms.remove(&monomial).unwrap_or(0).checked_add(coefficient).ok_or_else(overflow)?;
        if sum != 0 {
            self.terms.insert(monomial, sum);
        }
        if self.terms.len() > MAX_TERMS { Err(overflow()) } else { Ok(()) }
    }

    /// `self + other`.
    pub fn plus(&self, other: &Expr) -> Result<Expr> {
        let mut sum = self.clone();
        for (monomial, &coefficient) in &other.terms {
            sum.insert(monomial.clone(), coefficient)?;
        }
        Ok(sum)
    }

    /// `self - other`.
    pub fn minus(&self, other: &Expr) -> Result<Expr> {
        self.plus(&other.scale(-1)?)
    }

    /// `self * factor`.
    pub fn scale(&self, factor: i64) -> Result<Expr> {
        let mut product = Expr::default();
        for (monomial, &coefficient) in &self.terms {
            product.insert(monomial.clone(), coefficient.checked_mul(factor).ok_or_else(overflow)?)?;
        }
        Ok(product)
    }

    /// `self * other`.
    pub fn times(&self, other: &Expr) -> Result<Expr> {
        let mut product = Expr::default();
        for (left, &a) in &self.terms {
            for (right, &b) in &other.terms {
                let mut monomial: Monomial = left.iter().chain(right).cloned().collect();
                if monomial.len() > MAX_TERMS {
                    return Err(overflow());
                }
                monomial.sort();
                product.insert(monomial, a.checked_mul(b).ok_or_else(overflow)?)?;
            }
        }
        Ok(product)
    }

    /// The larger of two expressions.
    pub fn larger(&self, other: &Expr) -> Result<Expr> {
        if self.is_at_least(other)? {
            return Ok(self.clone());
        }
        if other.is_at_least(self)? {
            return Ok(other.clone());
        }
        let (a, b) = if self < other { (self, other) } else { (other, self) };
        Ok(Expr::atom(Atom::Max(Box::new(a.clone()), Box::new(b.clone()))))
    }

    /// The smaller of two expressions.
    pub fn smaller(&self, other: &Expr) -> Result<Expr> {
        if self.is_at_least(other)? {
            return Ok(other.clone());
        }
        if other.is_at_least(self)? {
            return Ok(self.clone());
        }
        let (a, b) = if self < other { (self, other) } else { (other, self) };
        Ok(Expr::atom(Atom::Min(Box::new(a.clone()), Box::new(b.clone()))))
    }

    /// The names of the symbols, sorted, each once.
    pub fn symbols(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.collect_symbols(&mut names);
        names.sort();
        names.dedup();
        names
    }

    fn collect_symbols(&self, names: &mut Vec<String>) {
        for atom in self.terms.keys().flatten() {
            match atom {
                Atom::Symbol(name) => names.push(name.clone()),
                Atom::Floor(a, b) | Atom::Max(a, b) | Atom::Min(a, b) => {
                    a.collect_symbols(names);
                    b.collect_symbols(names);
                }
            }
        }
    }

    /// The value under the given sizes of the symbols.
    pub fn value(&self, symbols: &HashMap<String, usize>) -> Result<i64> {
        let mut sum = 0i64;
        for (monomial, &coefficient) in &self.terms {
            let mut term = coefficient;
            for atom in monomial {
                term = term.checked_mul(atom.value(symbols)?).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(term).ok_or_else(overflow)?;
        }
        Ok(sum)
    }
}

impl Atom {
    fn value(&self, symbols: &HashMap<String, usize>) -> Result<i64> {
        Ok(match self {
            Atom::Symbol(name) => {
                let size = symbols.get(name).ok_or_else(|| {
                    DimError::new(DimErrorKind::Unknown, format!("the size '{name}' is not known"))
                        .hint(format!("fix it with --dim {name}=<number>, or give an input that has it"))
                })?;
                i64::try_from(*size).map_err(|_| overflow())?
            }
            Atom::Floor(a, b) => divide::floor_i64(a.value(symbols)?, b.value(symbols)?)?,
            Atom::Max(a, b) => a.value(symbols)?.max(b.value(symbols)?),
            Atom::Min(a, b) => a.value(symbols)?.min(b.value(symbols)?),
        })
    }
}

/// The dimension for a symbol of that name. An expression in the name, such as `past + 1`, is one: exporters write
/// derived sizes so. Any other name, whatever its characters, is a plain symbol.
pub fn symbol(name: &str) -> Dim {
    let expr = name.parse().unwrap_or_else(|_| Expr::symbol(name));
    expr.to_dim().unwrap_or_else(|_| Dim::Symbolic(Expr::symbol(name).to_string()))
}

/// The size that a dimension's text has under the given sizes of the symbols.
pub fn eval(text: &str, symbols: &HashMap<String, usize>) -> Result<usize> {
    let value = text.parse::<Expr>()?.value(symbols)?;
    usize::try_from(value).map_err(|_| {
        DimError::new(DimErrorKind::Invalid, format!("the size '{text}' comes to {value}, which is negative"))
    })
}

/// The symbol that [`bind`] learns from an actual size of `dim` where `known` are known: the only other one, in a linear term.
pub fn teaches(dim: &Dim, known: &HashSet<String>) -> Option<String> {
    let Dim::Symbolic(text) = dim else { return None };
    let mut expr: Expr = text.parse().ok()?;
    let mut unknown = expr.symbols().into_iter().filter(|name| !known.contains(name));
    let name = unknown.next().filter(|_| unknown.next().is_none())?;
    expr.terms.remove(&vec![Atom::Symbol(name.clone())])?;
    (!expr.symbols().contains(&name)).then_some(name)
}

/// The symbols that actual sizes of these shapes tell.
pub fn told<'a>(shapes: impl Iterator<Item = &'a [Dim]>) -> HashSet<String> {
    let dims: Vec<&Dim> = shapes.flatten().filter(|dim| dim.fixed().is_none()).collect();
    let mut known = HashSet::new();
    loop {
        let before = known.len();
        for dim in &dims {
            known.extend(teaches(dim, &known));
        }
        if known.len() == before {
            return known;
        }
    }
}

/// The symbols in a shape, each as often as a size has it.
pub fn symbols(shape: &[Dim]) -> impl Iterator<Item = String> + '_ {
    shape
        .iter()
        .filter(|size| size.fixed().is_none())
        .flat_map(|size| Expr::of(size).map_or_else(|_| vec![], |of| of.symbols()))
}

/// The shape in numbers under the given sizes of the symbols.
pub fn eval_shape(shape: &[Dim], symbols: &HashMap<String, usize>) -> Result<Vec<usize>> {
    let size = |dim: &Dim| match dim {
        Dim::Fixed(size) => Ok(*size),
        Dim::Symbolic(text) => eval(text, symbols),
    };
    shape.iter().map(size).collect()
}

/// Learns from an actual `size` of the dimension `text`: a lone unknown symbol in a linear term gets its value. Gives
/// `false` when more than that is unknown; a caller may come back once other inputs have been seen. A size that
/// contradicts what is known is an error.
pub fn bind(text: &str, size: usize, symbols: &mut HashMap<String, usize>) -> Result<bool> {
    let expr: Expr = text.parse()?;
    let wrong =
        |found: String| DimError::new(DimErrorKind::Contradiction, format!("the size '{text}' is {size}, but {found}"));
    let unknown: Vec<_> = expr.symbols().into_iter().filter(|name| !symbols.contains_key(name)).collect();
    let [name] = unknown.as_slice() else {
        if !unknown.is_empty() {
            return Ok(false);
        }
        let expected = expr.value(symbols)?;
        return match usize::try_from(expected) {
            Ok(expected) if expected == size => Ok(true),
            _ => Err(wrong(format!("the other inputs make it {expected}"))),
        };
    };
    let key = vec![Atom::Symbol(name.clone())];
    let mut rest = expr.clone();
    let Some(factor) = rest.terms.remove(&key).filter(|_| !rest.symbols().contains(name)) else {
        return Ok(false);
    };
    let left = i64::try_from(size).map_err(|_| overflow())?.checked_sub(rest.value(symbols)?).ok_or_else(overflow)?;
    match (left.checked_rem(factor), left.checked_div(factor).map(usize::try_from)) {
        (Some(0), Some(Ok(value))) => {
            symbols.insert(name.clone(), value);
            Ok(true)
        }
        _ => Err(wrong(format!("no size of '{name}' gives that"))),
    }
}

/// `a + b`.
pub fn add(a: &Dim, b: &Dim) -> Result<Dim> {
    Expr::of(a)?.plus(&Expr::of(b)?)?.to_dim()
}

/// `a - b`; a negative number is an error.
pub fn sub(a: &Dim, b: &Dim) -> Result<Dim> {
    Expr::of(a)?.minus(&Expr::of(b)?)?.to_dim()
}

/// `a * b`.
pub fn mul(a: &Dim, b: &Dim) -> Result<Dim> {
    Expr::of(a)?.times(&Expr::of(b)?)?.to_dim()
}

/// `a / b`, rounded down.
pub fn div(a: &Dim, b: &Dim) -> Result<Dim> {
    Expr::of(a)?.floor_div(&Expr::of(b)?)?.to_dim()
}

/// `a / b`, rounded up.
pub fn ceil_div(a: &Dim, b: &Dim) -> Result<Dim> {
    Expr::of(a)?.ceil_div(&Expr::of(b)?)?.to_dim()
}

/// The number of elements of a shape.
pub fn product(shape: &[Dim]) -> Result<Expr> {
    shape.iter().try_fold(Expr::from(1), |product, dim| product.times(&Expr::of(dim)?))
}

/// The one size that two dims must both have: a number wins over a symbol. Of two different symbolic sizes the one
/// with the shorter text is taken, `a` if both are as long: they may well be equal at run time, and refusing the
/// model would help nobody. `None` for two different numbers.
pub fn same(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(x), Dim::Fixed(y)) => (x == y).then(|| a.clone()),
        (Dim::Fixed(_), Dim::Symbolic(_)) => Some(a.clone()),
        (Dim::Symbolic(_), Dim::Fixed(_)) => Some(b.clone()),
        (Dim::Symbolic(x), Dim::Symbolic(y)) => Some(if y.len() < x.len() { b.clone() } else { a.clone() }),
    }
}

/// The size of two dims broadcast against each other: as [`same`], but a 1 gives way to anything.
pub fn unify(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(1), _) => Some(b.clone()),
        (_, Dim::Fixed(1)) => Some(a.clone()),
        _ => same(a, b),
    }
}

/// The shape of two tensors broadcast against each other by ONNX's (NumPy's) rules, if they fit.
pub fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let lead = long.len() - short.len();
    let mut shape = long[..lead].to_vec();
    for i in lead..long.len() {
        // In the order of the arguments, so that `a` wins a tie.
        let (x, y) = if a.len() >= b.len() { (&long[i], &short[i - lead]) } else { (&short[i - lead], &long[i]) };
        shape.push(unify(x, y)?);
    }
    Some(shape)
}

#[cfg(test)]
mod tests;
