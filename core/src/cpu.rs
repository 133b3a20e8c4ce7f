//! Processor features that packed constants may depend on.

macro_rules! features {
    ($($name:tt)*) => {
        /// Every feature that an artifact may name.
        #[cfg(feature = "compiler")]
        pub(crate) const FEATURES: &[&str] = &[$($name),*];

        /// Whether this processor has the feature of that name.
        pub(crate) fn has(name: &str) -> bool {
            match name {
                $(
                    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
                    $name => std::arch::is_x86_feature_detected!($name),
                )*
                _ => false,
            }
        }
    };
}

#[rustfmt::skip]
features! {
    "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c"
    "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16" "avxvnni"
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_not_there() {
        assert!(!has("avx9000"));
        // A processor that has the wider one has the narrower.
        assert!(!has("avx512f") || has("avx2"));
        assert_eq!(FEATURES.len(), FEATURES.iter().collect::<std::collections::BTreeSet<_>>().len());
    }
}
