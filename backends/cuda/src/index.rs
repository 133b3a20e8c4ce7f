//! Symbolic coordinates, as mixed-radix digits of the loop counters, so that reshapes and transposes cost nothing where the
//! order of elements stays.

use byoc_dim as dim;
use byoc_plugin_api::Dim;

use crate::kernel::Stop;

/// A part of a counter: `counter / divisor % size`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Digit {
    /// The counter.
    pub(crate) atom: usize,
    /// What it is divided by.
    pub(crate) divisor: Dim,
    /// Its exclusive upper bound.
    pub(crate) size: Dim,
}

/// A coordinate: digits, the most significant first. No digits are 0.
pub(crate) type Coordinate = Vec<Digit>;

pub(crate) const ONE: Dim = Dim::Fixed(1);

/// `a * b`.
pub(crate) fn times(a: &Dim, b: &Dim) -> Result<Dim, Stop> {
    Ok(dim::mul(a, b)?)
}

/// The product of some sizes.
pub(crate) fn product<'a>(sizes: impl IntoIterator<Item = &'a Dim>) -> Result<Dim, Stop> {
    sizes.into_iter().try_fold(ONE, |product, size| times(&product, size))
}

/// `a / b`, if `b` is known to divide `a`.
pub(crate) fn quotient(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (_, Dim::Fixed(1)) => Some(a.clone()),
        (_, Dim::Fixed(0)) => None,
        (Dim::Fixed(a), Dim::Fixed(b)) => a.is_multiple_of(*b).then(|| Dim::Fixed(a / b)),
        _ if a == b => Some(ONE),
        (Dim::Fixed(_), _) => None,
        _ => {
            let whole = dim::div(a, b).ok()?;
            let same = dim::mul(&whole, b).ok()? == *a;
            (same && !whole.to_string().contains("floor")).then_some(whole)
        }
    }
}

/// Whether a size is a multiple of a number for all values of its symbols.
pub(crate) fn divides(number: usize, size: &Dim) -> bool {
    quotient(size, &Dim::Fixed(number)).is_some()
}

/// Merges adjacent digits of the same counter.
pub(crate) fn joined(digits: impl IntoIterator<Item = Digit>) -> Result<Coordinate, Stop> {
    let mut result: Coordinate = Vec::new();
    for digit in digits {
        if digit.size == ONE {
            continue;
        }
        let beside = times(&digit.divisor, &digit.size)?;
        match result.last_mut() {
            Some(last) if last.atom == digit.atom && last.divisor == beside => {
                *last = Digit { size: times(&last.size, &digit.size)?, ..digit };
            }
            _ => result.push(digit),
        }
    }
    Ok(result)
}

/// Splits one counter into coordinates along axes of these sizes, the last one the fastest.
pub(crate) fn spread(atom: usize, sizes: &[Dim]) -> Result<Vec<Coordinate>, Stop> {
    let mut divisor = ONE;
    let mut coordinates = Vec::with_capacity(sizes.len());
    for size in sizes.iter().rev() {
        let digit = Digit { atom, divisor: divisor.clone(), size: size.clone() };
        coordinates.push(if *size == ONE { Vec::new() } else { vec![digit] });
        divisor = times(&divisor, size)?;
    }
    coordinates.reverse();
    Ok(coordinates)
}

/// Regroups digits as coordinates along axes of these sizes. Digits that cannot be split are made a counter of their own by
/// `collapse`.
pub(crate) fn regroup(
    digits: Vec<Digit>,
    sizes: &[Dim],
    collapse: &mut dyn FnMut(Coordinate, Dim) -> Result<usize, Stop>,
) -> Result<Vec<Coordinate>, Stop> {
    if sizes.contains(&Dim::Fixed(0)) {
        return Ok(vec![Vec::new(); sizes.len()]);
    }
    let mut left = joined(digits)?;
    let mut coordinates = Vec::with_capacity(sizes.len());
    for (axis, size) in sizes.iter().enumerate().rev() {
        match take(&mut left, size)? {
            Some(coordinate) => coordinates.push(coordinate),
            None => {
                let all = product(&sizes[..=axis])?;
                let atom = collapse(left, all)?;
                coordinates.extend(spread(atom, &sizes[..=axis])?.into_iter().rev());
                break;
            }
        }
    }
    coordinates.reverse();
    Ok(coordinates)
}

/// Takes the least significant digits whose product is a size; `None`, with nothing taken, if there are none.
fn take(left: &mut Coordinate, size: &Dim) -> Result<Option<Coordinate>, Stop> {
    let before = left.clone();
    let (mut need, mut taken) = (size.clone(), Vec::new());
    while need != ONE {
        let Some(digit) = left.pop() else {
            *left = before;
            return Ok(None);
        };
        if let Some(rest) = quotient(&need, &digit.size) {
            need = rest;
            taken.push(digit);
        } else if let Some(high) = quotient(&digit.size, &need) {
            let divisor = times(&digit.divisor, &need)?;
            left.push(Digit { atom: digit.atom, divisor, size: high });
            taken.push(Digit { size: need, ..digit });
            need = ONE;
        } else {
            *left = before;
            return Ok(None);
        }
    }
    taken.reverse();
    Ok(Some(joined(taken)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digit(atom: usize, divisor: usize, size: usize) -> Digit {
        Digit { atom, divisor: divisor.into(), size: size.into() }
    }

    fn sizes(sizes: &[usize]) -> Vec<Dim> {
        sizes.iter().map(|&size| size.into()).collect()
    }

    fn strict(digits: Vec<Digit>, to: &[usize]) -> Vec<Coordinate> {
        regroup(digits, &sizes(to), &mut |_, _| panic!("it comes apart")).expect("sizes are small")
    }

    #[test]
    fn heads_are_digits_of_the_hidden_axis() {
        let hidden = spread(0, &sizes(&[2, 5, 12])).expect("small").concat();
        let heads = strict(hidden, &[2, 5, 3, 4]);
        assert_eq!(heads[2..], [vec![digit(0, 4, 3)], vec![digit(0, 1, 4)]]);
        assert_eq!(joined(heads.concat()), Ok(vec![digit(0, 1, 120)]));
        // Another counter in between keeps them apart.
        let moved = vec![digit(0, 4, 3), digit(1, 1, 5), digit(0, 1, 4)];
        assert_eq!(strict(moved.clone(), &[15, 4]), [moved[..2].to_vec(), moved[2..].to_vec()]);
    }

    #[test]
    fn digits_that_cannot_be_split_get_a_counter() {
        let mut asked = Vec::new();
        let digits = vec![digit(0, 1, 3), digit(1, 1, 4)];
        let found = regroup(digits.clone(), &sizes(&[2, 6]), &mut |digits, size| {
            asked.push((digits, size));
            Ok(7)
        });
        assert_eq!(found, Ok(vec![vec![digit(7, 6, 2)], vec![digit(7, 1, 6)]]));
        assert_eq!(asked, [(digits, Dim::Fixed(12))]);
    }

    #[test]
    fn sizes_with_names_divide_where_that_is_certain() {
        let named = |text: &str| Dim::Symbolic(text.into());
        assert_eq!(quotient(&named("batch*12"), &Dim::Fixed(4)), Some(named("batch*3")));
        assert_eq!(quotient(&named("batch*12"), &named("batch")), Some(Dim::Fixed(12)));
        assert_eq!(quotient(&named("batch"), &Dim::Fixed(4)), None);
        assert_eq!(quotient(&Dim::Fixed(12), &named("batch")), None);
    }
}
