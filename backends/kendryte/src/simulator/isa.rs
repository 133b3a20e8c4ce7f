//! Instruction sets: the best that this machine has, and code that is compiled for it.

mod products;

pub(crate) use products::{LANES, Lanes, OUTPUTS, PIXELS, Tile};

/// An instruction set that this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Whatever the program is compiled for.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// With dot products of bytes (VNNI).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Those that this machine has, the best last.
    pub(crate) fn all() -> impl Iterator<Item = Isa> {
        #[cfg(target_arch = "x86_64")]
        let kinds = {
            let avx2 = is_x86_feature_detected!("avx2");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni");
            [Some(Kind::Portable), avx2.then_some(Kind::Avx2), avx512.then_some(Kind::Avx512)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let kinds = [Some(Kind::Portable)];
        kinds.into_iter().flatten().map(Isa)
    }

    /// The best.
    pub(crate) fn best() -> Isa {
        Isa::all().last().unwrap_or(Isa(Kind::Portable))
    }

    /// Calls `work`, which is compiled for this instruction set as far as it is inlined.
    #[inline(always)]
    pub(crate) fn with<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            Kind::Portable => work(),
            // SAFETY: `Isa::all`, which alone makes these, found the instruction set.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { avx512(work) },
        }
    }

    /// Sums of products of a tile: `sums` holds `stride` pixels for each of [`OUTPUTS`] output channels.
    pub(crate) fn products(self, tile: &Tile<'_>, sums: &mut [i32], stride: usize) {
        match self.0 {
            Kind::Portable => products::portable(tile, sums, stride),
            // SAFETY: `Isa::all`, which alone makes these, found the instruction set.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { products::avx2(tile, sums, stride) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { products::avx512(tile, sums, stride) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}
