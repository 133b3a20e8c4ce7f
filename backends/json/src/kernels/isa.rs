//! Which vector instructions the kernels use: detected once, overridable for tests.

/// An instruction set the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// What every CPU of the target has (SSE2 on x86-64, NEON on aarch64).
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, VL, DQ and BW (and AVX2, FMA, F16C).
    Avx512,
}

impl Isa {
    /// The best instruction set of this machine.
    pub fn detect() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::Portable)
    }

    /// Every instruction set this machine can run, worst first.
    pub fn available() -> &'static [Isa] {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2");
            if avx2 && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                let avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw");
                return if avx512 { &[Isa::Portable, Isa::Avx2, Isa::Avx512] } else { &[Isa::Portable, Isa::Avx2] };
            }
        }
        &[Isa::Portable]
    }

    /// Whether this machine has the dot products of bytes that belong to AVX-512 (AVX512-VNNI).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn has_vnni512(self) -> bool {
        self == Isa::Avx512 && is_x86_feature_detected!("avx512vnni")
    }

    /// Whether this machine has the permutations of bytes that belong to AVX-512 (AVX512-VBMI).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn has_vbmi(self) -> bool {
        self == Isa::Avx512 && is_x86_feature_detected!("avx512vbmi")
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        Isa::available().contains(&self)
    }
}

/// A computation written once over [`V16`](super::simd::V16) and compiled for each instruction set.
pub(crate) trait Kernel {
    /// What it returns.
    type Out;
    /// The body; `#[inline(always)]`, so that it takes over the features of the function it is inlined in.
    ///
    /// # Safety
    /// The CPU must have the features that `V` needs.
    unsafe fn run<V: super::simd::V16>(self) -> Self::Out;
}

/// Runs `kernel` with the vectors of `isa`.
#[inline]
pub(crate) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Out {
    debug_assert!(isa.is_available());
    match isa {
        // SAFETY: the portable vector needs no feature.
        Isa::Portable => unsafe { kernel.run::<super::simd::Portable16>() },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU by `Threads::with_isa`.
        Isa::Avx2 => unsafe { avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the portable vector needs no feature.
        _ => unsafe { kernel.run::<super::simd::Portable16>() },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: this function is entered only on CPUs with AVX2, FMA and F16C.
    unsafe { kernel.run::<super::simd::Avx2x16>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
unsafe fn avx512<K: Kernel>(kernel: K) -> K::Out {
    // SAFETY: this function is entered only on CPUs with these AVX-512 subsets.
    unsafe { kernel.run::<super::simd::Avx512x16>() }
}
