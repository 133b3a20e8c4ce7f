//! Division of expressions, exact where it can be: `batch*12 / 12` is `batch`.

use super::{Atom, Expr, Monomial, overflow};
use super::{DimError, DimErrorKind, Result};

/// `a / b` in numbers, rounded down.
pub(super) fn floor_i64(a: i64, b: i64) -> Result<i64> {
    let zero = || DimError::new(DimErrorKind::Invalid, "a size is divided by zero");
    let quotient = a.checked_div(b).ok_or_else(if b == 0 { zero } else { overflow })?;
    Ok(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

impl Expr {
    /// `self / other`, rounded down.
    pub fn floor_div(&self, other: &Expr) -> Result<Expr> {
        if let Some(divisor) = other.as_constant() {
            if divisor < 0 {
                return self.scale(-1)?.floor_div(&other.scale(-1)?);
            }
            return self.floor_div_number(divisor);
        }
        if let Some(quotient) = self.exact_div(other)? {
            return Ok(quotient);
        }
        Ok(Expr::atom(Atom::Floor(Box::new(self.clone()), Box::new(other.clone()))))
    }

    /// `self / other`, rounded up.
    pub fn ceil_div(&self, other: &Expr) -> Result<Expr> {
        self.scale(-1)?.floor_div(other)?.scale(-1).and_then(|up| match up.as_constant() {
            Some(_) => Ok(up),
            // `(a + b - 1) / b` reads better than `-floor(-a/b)`, and has bounds.
            None => self.plus(other)?.minus(&Expr::from(1))?.floor_div(other),
        })
    }

    /// The quotient, if `other` divides `self` without a remainder.
    pub fn exact_div(&self, other: &Expr) -> Result<Option<Expr>> {
        let Some((lead, &factor)) = other.leading() else {
            return Ok(None);
        };
        let (mut rest, mut quotient) = (self.clone(), Expr::default());
        // Each step removes the leading term for good, but a bound costs nothing.
        for _ in 0..super::MAX_TERMS {
            let Some((monomial, &coefficient)) = rest.leading() else {
                return Ok(Some(quotient));
            };
            let divides = coefficient.checked_rem(factor).ok_or_else(overflow)? == 0;
            let Some(monomial) = remove_all(monomial, lead).filter(|_| divides) else {
                return Ok(None);
            };
            let mut term = Expr::default();
            term.insert(monomial, coefficient / factor)?;
            rest = rest.minus(&term.times(other)?)?;
            quotient = quotient.plus(&term)?;
        }
        Ok(None)
    }

    /// The term of the highest degree, the last of them in the order of atoms.
    fn leading(&self) -> Option<(&Monomial, &i64)> {
        self.terms.iter().max_by(|a, b| (a.0.len(), a.0).cmp(&(b.0.len(), b.0)))
    }

    /// Takes out what the divisor divides, then reduces the fraction that is left.
    fn floor_div_number(&self, divisor: i64) -> Result<Expr> {
        if divisor == 0 {
            floor_i64(0, 0)?;
        }
        let (mut whole, mut rest) = (Expr::default(), Expr::default());
        for (monomial, &coefficient) in &self.terms {
            // The constant term leaves a remainder from 0 up; other terms leave all or nothing.
            if coefficient % divisor == 0 {
                whole.insert(monomial.clone(), coefficient / divisor)?;
            } else if monomial.is_empty() {
                whole = whole.plus(&Expr::from(coefficient.div_euclid(divisor)))?;
                rest.insert(monomial.clone(), coefficient.rem_euclid(divisor))?;
            } else {
                rest.insert(monomial.clone(), coefficient)?;
            }
        }
        if rest.as_constant().is_some() {
            return Ok(whole);
        }
        whole.plus(&reduced_fraction(&rest, divisor)?)
    }
}

/// `floor(rest/divisor)` as an atom, with common factors gone and a division inside a division made one.
fn reduced_fraction(rest: &Expr, divisor: i64) -> Result<Expr> {
    let constant = rest.terms.get(&Vec::new()).copied().unwrap_or(0);
    let factors = rest.terms.iter().filter(|(monomial, _)| !monomial.is_empty()).map(|(_, &factor)| factor);
    let common = factors.fold(divisor, gcd);
    if common > 1 {
        let mut reduced = Expr::from(constant.div_euclid(common));
        for (monomial, &factor) in rest.terms.iter().filter(|(monomial, _)| !monomial.is_empty()) {
            reduced.insert(monomial.clone(), factor / common)?;
        }
        return reduced.floor_div_number(divisor / common);
    }
    let others: Vec<_> = rest.terms.iter().filter(|(monomial, _)| !monomial.is_empty()).collect();
    if let [(monomial, 1)] = others.as_slice()
        && let [Atom::Floor(inner, inner_divisor)] = monomial.as_slice()
        && let Some(inner_divisor) = inner_divisor.as_constant().filter(|&value| value > 0)
    {
        // floor((floor(x/m) + k)/n) = floor((x + k*m)/(m*n))
        let shift = constant.checked_mul(inner_divisor).ok_or_else(overflow)?;
        let divisor = divisor.checked_mul(inner_divisor).ok_or_else(overflow)?;
        return inner.plus(&Expr::from(shift))?.floor_div_number(divisor);
    }
    Ok(Expr::atom(Atom::Floor(Box::new(rest.clone()), Box::new(Expr::from(divisor)))))
}

/// `from` without the atoms of `what`, if it has them all.
fn remove_all(from: &Monomial, what: &Monomial) -> Option<Monomial> {
    let mut left = from.clone();
    for atom in what {
        let place = left.iter().position(|other| other == atom)?;
        left.remove(place);
    }
    Some(left)
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, (a % b).abs()) }
}
