//! `Einsum`: operands are multiplied from the left to the right, two at a time, as products of matrices. Floats are summed up in `f64`,
//! integers wrap.

use std::collections::BTreeMap;

use byoc_plugin_api::Error;
use ndarray::{Array2, ArrayD, ArrayView2};

use super::array::{Array, Item, count, each_number, shaped};
use super::call::{Call, Outputs, same};
use super::matmul::{dot, dot_wrapping, product};
use super::number::Number;
use super::{Kernel, NUMBER, SAME, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[kernel("Einsum", einsum, &[NUMBER, SAME])];

/// A tensor whose dimensions have letters.
struct Operand<T> {
    letters: Vec<char>,
    array: ArrayD<T>,
}

type Sizes = BTreeMap<char, usize>;
type Dot<T> = fn(&ArrayView2<'_, T>, &ArrayView2<'_, T>) -> Array2<T>;

/// The size of each letter: that of its dimensions, of which those of one element are repeated.
fn sizes<T>(operands: &[Operand<T>]) -> Result<Sizes, Error> {
    let mut sizes = Sizes::new();
    for (&letter, &size) in operands.iter().flat_map(|operand| operand.letters.iter().zip(operand.array.shape())) {
        let known = sizes.entry(letter).or_insert(size);
        match (*known, size) {
            (a, b) if a == b || b == 1 => {}
            (1, _) => *known = size,
            (a, b) => return Err(Error::new(format!("Einsum with {a} and {b} elements along '{letter}'"))),
        }
    }
    Ok(sizes)
}

/// The elements of an operand in the order of these letters: turned, repeated along those that it has not, and of one that it has
/// twice the diagonal.
fn arranged<T: Number>(operand: &Operand<T>, letters: &[char], sizes: &Sizes) -> Result<Vec<T>, Error> {
    let shape: Vec<usize> = letters.iter().map(|letter| sizes[letter]).collect();
    let total = count(&shape)?;
    let mut found = Vec::new();
    found.try_reserve_exact(total).map_err(|_| Error::new("a product of Einsum does not fit in memory"))?;
    let standard = operand.array.as_standard_layout();
    let data = standard.as_slice().unwrap_or_default();
    let mut strides = vec![0; letters.len()];
    let mut step = 1;
    for (letter, &size) in operand.letters.iter().zip(operand.array.shape()).rev() {
        if let Some(place) = letters.iter().position(|other| other == letter).filter(|_| size > 1) {
            strides[place] += step;
        }
        step *= size;
    }
    let mut at = vec![0; letters.len()];
    let mut offset = 0;
    for _ in 0..total {
        found.push(data[offset]);
        for axis in (0..at.len()).rev() {
            at[axis] += 1;
            offset += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            offset -= at[axis] * strides[axis];
            at[axis] = 0;
        }
    }
    Ok(found)
}

/// The operand with these letters, summed up over all others.
fn summed<T: Number>(operand: &Operand<T>, kept: &[char], sizes: &Sizes) -> Result<Operand<T>, Error> {
    let mut others: Vec<char> = operand.letters.iter().copied().filter(|letter| !kept.contains(letter)).collect();
    others.sort_unstable();
    others.dedup();
    let all = arranged(operand, &[kept, &others].concat(), sizes)?;
    let shape: Vec<usize> = kept.iter().map(|letter| sizes[letter]).collect();
    let each: usize = others.iter().map(|letter| sizes[letter]).product();
    let sum = |index: usize| all[index * each..][..each].iter().fold(T::default(), |sum, &value| sum.add(value));
    let sums = if others.is_empty() { all } else { (0..shape.iter().product()).map(sum).collect() };
    Ok(Operand { letters: kept.to_vec(), array: shaped(&shape, sums)? })
}

/// The letters of an operand that are needed, each once.
fn needed<T>(operand: &Operand<T>, wanted: impl Fn(char) -> bool) -> Vec<char> {
    let mut letters: Vec<char> = Vec::new();
    for &letter in operand.letters.iter().filter(|&&letter| wanted(letter)) {
        if !letters.contains(&letter) {
            letters.push(letter);
        }
    }
    letters
}

/// The product of two operands, summed up over the letters that are not wanted any more.
fn multiplied<T: Number>(
    (left, right): (&Operand<T>, &Operand<T>),
    wanted: impl Fn(char) -> bool,
    sizes: &Sizes,
    dot: Dot<T>,
) -> Result<Operand<T>, Error> {
    let of = |operand: &Operand<T>, both: bool, kept: bool| {
        let other = if std::ptr::eq(operand, left) { right } else { left };
        needed(operand, |letter| other.letters.contains(&letter) == both && wanted(letter) == kept)
    };
    let (batch, inner) = (of(left, true, true), of(left, true, false));
    let (rows, columns) = (of(left, false, true), of(right, false, true));
    // What only one of them has and nobody wants is summed up before.
    let left = summed(left, &[&batch[..], &rows, &inner].concat(), sizes)?;
    let right = summed(right, &[&batch[..], &inner, &columns].concat(), sizes)?;
    let total = |letters: &[char]| count(&letters.iter().map(|letter| sizes[letter]).collect::<Vec<_>>());
    let [b, m, k, n] = [total(&batch)?, total(&rows)?, total(&inner)?, total(&columns)?];
    let letters = [batch, rows, columns].concat();
    total(&letters)?;
    let left = left.array.into_shape_with_order(vec![b, m, k]);
    let right = right.array.into_shape_with_order(vec![b, k, n]);
    let (Ok(left), Ok(right)) = (left, right) else { return Err(Error::new("the sizes of Einsum do not match")) };
    let products = product(&left.view(), &right.view(), dot)?.into_raw_vec_and_offset().0;
    let shape: Vec<usize> = letters.iter().map(|letter| sizes[letter]).collect();
    Ok(Operand { array: shaped(&shape, products)?, letters })
}

fn evaluated<T: Number>(operands: Vec<Operand<T>>, output: &[char], dot: Dot<T>) -> Result<ArrayD<T>, Error> {
    let sizes = sizes(&operands)?;
    let mut rest = operands.into_iter();
    let mut result = rest.next().ok_or_else(|| Error::new("Einsum needs an input"))?;
    while let Some(next) = rest.next() {
        let later = |letter: char| rest.as_slice().iter().any(|operand| operand.letters.contains(&letter));
        result = multiplied((&result, &next), |letter| output.contains(&letter) || later(letter), &sizes, dot)?;
    }
    Ok(summed(&result, output, &sizes)?.array)
}

/// `Einsum` by an equation in which every dimension has a letter.
pub(crate) fn einsum(call: &Call<'_, '_>) -> Outputs {
    let equation = call.node.string("equation", "");
    let wrong = || Error::new(format!("the equation '{equation}' of Einsum does not fit its inputs"));
    let (terms, output) = equation.split_once("->").ok_or_else(wrong)?;
    let terms: Vec<Vec<char>> = terms.split(',').map(|term| term.chars().collect()).collect();
    let output: Vec<char> = output.chars().collect();
    let inputs: Vec<&Array<'_>> = call.inputs().collect();
    let fits = |(term, input): (&Vec<char>, &&Array<'_>)| term.len() == input.shape().len();
    let known = |letter: &char| terms.iter().flatten().any(|other| other == letter);
    let once = |letter: &char| output.iter().filter(|other| *other == letter).count() == 1;
    if terms.len() != inputs.len()
        || !terms.iter().zip(&inputs).all(fits)
        || !output.iter().all(|c| known(c) && once(c))
    {
        return Err(wrong());
    }
    let diagonal = |(term, input): (&Vec<char>, &&Array<'_>)| {
        let pairs = || term.iter().zip(input.shape());
        pairs().all(|(letter, size)| pairs().all(|(other, same)| letter != other || size == same))
    };
    if !terms.iter().zip(&inputs).all(diagonal) {
        return Err(wrong());
    }
    if inputs[0].dtype().is_float() {
        let operand = |(letters, input): (Vec<char>, &Array<'_>)| Operand { letters, array: input.to_f64() };
        let operands: Vec<_> = terms.into_iter().zip(inputs).map(operand).collect();
        return call.rounded(within(evaluated(operands, &output, dot)?, call)?);
    }
    each_number!(inputs[0], first => {
        let operand = |(letters, input): (Vec<char>, &Array<'_>)| {
            Ok(Operand { letters, array: same(&first.view(), input)?.to_owned() })
        };
        let operands: Result<Vec<_>, Error> = terms.into_iter().zip(inputs.iter().copied()).map(operand).collect();
        Ok(vec![Item::wrap(within(evaluated(operands?, &output, dot_wrapping)?, call)?)])
    })
}

/// The result, if it is of the shape that is wanted.
fn within<T>(result: ArrayD<T>, call: &Call<'_, '_>) -> Result<ArrayD<T>, Error> {
    call.count(result.shape())?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, tensor, text};

    fn sum(equation: &str, shapes: &[&[usize]]) -> (Vec<usize>, Vec<f64>) {
        first("Einsum", &[("equation", text(equation))], shapes.iter().map(|shape| counting(shape)).collect())
    }

    #[test]
    fn equations_multiply_and_sum() {
        assert_eq!(sum("ij,jk->ik", &[&[1, 2], &[2, 2]]), (vec![1, 2], vec![7.0, 10.0]));
        assert_eq!(sum("ij,jk->ki", &[&[1, 2], &[2, 2]]), (vec![2, 1], vec![7.0, 10.0]));
        assert_eq!(sum("ii->", &[&[3, 3]]), (vec![], vec![15.0]));
        assert_eq!(sum("ii->i", &[&[3, 3]]), (vec![3], vec![1.0, 5.0, 9.0]));
        assert_eq!(sum("ij->ji", &[&[2, 2]]), (vec![2, 2], vec![1.0, 3.0, 2.0, 4.0]));
        assert_eq!(sum("i,j,k->", &[&[2], &[2], &[2]]), (vec![], vec![27.0]));
        assert_eq!(sum("i,ij,j->", &[&[2], &[2, 2], &[2]]), (vec![], vec![27.0]));
        assert_eq!(sum("bi,bi->b", &[&[2, 2], &[2, 2]]), (vec![2], vec![5.0, 25.0]));
        // A dimension of one element is repeated.
        assert_eq!(sum("ai,bi->ab", &[&[1, 1], &[2, 2]]), (vec![1, 2], vec![3.0, 7.0]));
        assert_eq!(sum(",i->i", &[&[], &[2]]), (vec![2], vec![1.0, 2.0]));
        assert_eq!(sum("ij,jk->ik", &[&[2, 0], &[0, 1]]), (vec![2, 1], vec![0.0, 0.0]));
        let bytes = vec![tensor(&[2], &[100i8, 100]), tensor(&[2], &[2i8, 3])];
        assert_eq!(first("Einsum", &[("equation", text("i,i->"))], bytes).1, [-12.0]);
    }

    #[test]
    fn equations_that_do_not_fit_are_errors() {
        for (equation, shapes) in [
            ("ij", &[&[2, 2][..]][..]),
            ("i->i", &[&[2, 2]]),
            ("ij->k", &[&[2, 2]]),
            ("ij->ii", &[&[2, 2]]),
            ("ii->i", &[&[2, 1]]),
            ("i,i->i", &[&[2]]),
            ("i,i->", &[&[2], &[3]]),
        ] {
            let inputs = shapes.iter().map(|shape| counting(shape)).collect();
            assert!(all("Einsum", &[("equation", text(equation))], inputs).is_err(), "{equation}");
        }
    }
}
