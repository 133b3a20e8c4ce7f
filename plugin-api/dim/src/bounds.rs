//! What is certain about an expression's sign, so that `max`, `min` and comparisons can be decided without numbers.

use super::Result;
use super::{Atom, Expr};

/// How many `min` and `max` atoms are opened for one bound; each opening doubles the work.
const DEPTH: usize = 6;

impl Expr {
    /// Whether `self >= other` whatever the symbols are. `false` means "not certain".
    pub fn is_at_least(&self, other: &Expr) -> Result<bool> {
        Ok(self.minus(other)?.lower_bound().is_some_and(|bound| bound >= 0))
    }

    /// A number that the expression is never below, if one is found.
    pub fn lower_bound(&self) -> Option<i64> {
        bound(self, DEPTH)
    }

    /// Whether the two are equal: `None` where that depends on the symbols.
    pub fn equals(&self, other: &Expr) -> Result<Option<bool>> {
        let difference = self.minus(other)?;
        if let Some(value) = difference.as_constant() {
            return Ok(Some(value == 0));
        }
        let apart = |expr: &Expr| expr.lower_bound().is_some_and(|bound| bound > 0);
        Ok((apart(&difference) || apart(&difference.scale(-1)?)).then_some(false))
    }

    /// Whether `self < other`: `None` where that depends on the symbols.
    pub fn less_than(&self, other: &Expr) -> Result<Option<bool>> {
        if self.is_at_least(other)? {
            return Ok(Some(false));
        }
        let above = other.minus(self)?.lower_bound().is_some_and(|bound| bound > 0);
        Ok(above.then_some(true))
    }
}

fn bound(expr: &Expr, depth: usize) -> Option<i64> {
    if let Some(bound) = sum_of_bounds(expr, depth) {
        return Some(bound);
    }
    if depth == 0 {
        return None;
    }
    expr.terms.iter().find_map(|(monomial, &factor)| {
        let [atom] = monomial.as_slice() else { return None };
        let with = |part: &Expr, factor: i64| {
            let mut rest = expr.clone();
            rest.terms.remove(monomial);
            bound(&rest.plus(&part.scale(factor).ok()?).ok()?, depth - 1)
        };
        match atom {
            Atom::Symbol(_) => None,
            // `-min(a, b)` is at least `-a` and at least `-b`; `max(a, b)` is at least `a` and at least `b`.
            Atom::Min(a, b) if factor < 0 => with(a, factor).max(with(b, factor)),
            Atom::Max(a, b) if factor > 0 => with(a, factor).max(with(b, factor)),
            // The other way round it is one of the two, and both must hold.
            Atom::Min(a, b) | Atom::Max(a, b) => Some(with(a, factor)?.min(with(b, factor)?)),
            // `k * floor(a/c)` is at most `a * ceil(k/c)` where `a` is not negative.
            Atom::Floor(a, b) => {
                let divisor = b.as_constant().filter(|&divisor| divisor > 0 && factor < 0)?;
                bound(a, depth - 1).filter(|&bound| bound >= 0)?;
                with(a, factor.div_euclid(divisor))
            }
        }
    })
}

/// The sum of each term's own bound; a term with a negative factor has none.
fn sum_of_bounds(expr: &Expr, depth: usize) -> Option<i64> {
    expr.terms.iter().try_fold(0i64, |sum, (monomial, &factor)| {
        if monomial.is_empty() {
            return sum.checked_add(factor);
        }
        if factor < 0 {
            return None;
        }
        let term = monomial.iter().try_fold(factor, |product, atom| {
            let bound = atom_bound(atom, depth).filter(|&bound| bound >= 0)?;
            product.checked_mul(bound)
        });
        sum.checked_add(term?)
    })
}

fn atom_bound(atom: &Atom, depth: usize) -> Option<i64> {
    let depth = depth.checked_sub(1)?;
    match atom {
        Atom::Symbol(_) => Some(0),
        Atom::Floor(a, b) => match (bound(a, depth)?, b.as_constant()) {
            (low, Some(divisor)) if divisor > 0 => Some(low.div_euclid(divisor)),
            // The divisor is taken to be positive, so the sign of the quotient is the dividend's.
            (low, None) if low >= 0 => Some(0),
            _ => None,
        },
        Atom::Max(a, b) => bound(a, depth).max(bound(b, depth)),
        Atom::Min(a, b) => Some(bound(a, depth)?.min(bound(b, depth)?)),
    }
}
