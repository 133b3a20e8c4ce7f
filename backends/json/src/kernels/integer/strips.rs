//! Channels that are last, in strips of one width each, so that the compiler has vectors of them.

/// What is computed for neighbouring channels at a time.
pub(super) trait Strips {
    /// Computes the channels from `first` on, `N` of them; some of them may have been computed before.
    ///
    /// `#[inline(always)]`, as [`Kernel::run`](crate::kernels::isa::Kernel::run) is.
    fn strip<const N: usize>(&mut self, first: usize);
}

/// Computes all channels. Where the last strip would reach beyond them, it starts earlier.
#[inline(always)]
pub(super) fn all(channels: usize, strips: &mut impl Strips) {
    let mut at = 0;
    while at < channels {
        let left = channels - at;
        if left > 32 && channels >= 64 {
            strips.strip::<64>(at.min(channels - 64));
            at += 64;
        } else if left > 16 && channels >= 32 {
            strips.strip::<32>(at.min(channels - 32));
            at += 32;
        } else if left > 8 && channels >= 16 {
            strips.strip::<16>(at.min(channels - 16));
            at += 16;
        } else if channels >= 8 {
            strips.strip::<8>(at.min(channels - 8));
            at += 8;
        } else {
            strips.strip::<1>(at);
            at += 1;
        }
    }
}

/// `N` elements from `first` on.
#[inline(always)]
pub(super) fn of<T, const N: usize>(list: &[T], first: usize) -> &[T; N] {
    let list = &list[first..][..N];
    // SAFETY: as many elements.
    unsafe { &*list.as_ptr().cast::<[T; N]>() }
}

/// The same, to be written.
#[inline(always)]
pub(super) fn of_mut<T, const N: usize>(list: &mut [T], first: usize) -> &mut [T; N] {
    let list = &mut list[first..][..N];
    // SAFETY: as many elements.
    unsafe { &mut *list.as_mut_ptr().cast::<[T; N]>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(Vec<u8>);

    impl Strips for Count {
        fn strip<const N: usize>(&mut self, first: usize) {
            of_mut::<_, N>(&mut self.0, first).iter_mut().for_each(|count| *count = 1);
        }
    }

    #[test]
    fn all_channels_are_computed() {
        for channels in 0..300 {
            let mut count = Count(vec![0; channels]);
            all(channels, &mut count);
            assert_eq!(count.0, vec![1; channels]);
        }
    }
}
