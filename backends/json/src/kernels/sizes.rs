//! Checked arithmetic on untrusted sizes: `None` on overflow.

/// The product of sizes.
pub(crate) fn product(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
}

/// The smallest length that holds `counts` elements along each axis, which are `strides` apart.
pub(crate) fn reach(counts: &[usize], strides: &[usize]) -> Option<usize> {
    if counts.contains(&0) {
        return Some(0);
    }
    let last = |(&count, &stride): (&usize, &usize)| (count - 1).checked_mul(stride);
    counts.iter().zip(strides).map(last).try_fold(1usize, |sum, part| sum.checked_add(part?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wraps_is_none() {
        assert_eq!((product(&[2, 3]), product(&[1 << 63, 2]), product(&[])), (Some(6), None, Some(1)));
        assert_eq!(reach(&[2, 3], &[10, 2]), Some(15));
        assert_eq!((reach(&[0, 9], &[usize::MAX, 9]), reach(&[3, 2], &[usize::MAX, 1])), (Some(0), None));
        assert_eq!(reach(&[2, 2], &[usize::MAX, 1]), None);
    }
}
