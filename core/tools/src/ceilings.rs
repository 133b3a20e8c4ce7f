//! What this processor can do at most, measured: what the rates of a profile are held against.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long each rate is measured, at least.
const TIME: Duration = Duration::from_millis(100);

/// Elements of eight bytes that each thread reads: 64 MiB, more than a core's caches hold.
const ELEMENTS: usize = 8 << 20;

/// Sums that one thread adds to at a time: more than hide how long a multiply-add takes.
const SUMS: usize = 12;

/// Rounds of multiply-adds between two looks at the clock.
const ROUNDS: usize = 1 << 16;

/// The highest rates of some threads together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// How many threads.
    pub threads: usize,
    /// Multiplications and additions of f32 a second, by multiply-adds on vectors in registers.
    pub operations_per_second: f64,
    /// Bytes a second, read one after another from more memory than caches hold.
    pub bytes_per_second: f64,
}

impl Ceilings {
    /// Measures both for about a tenth of a second each, on threads of its own.
    pub fn measure(threads: usize) -> Ceilings {
        let threads = threads.max(1);
        let operations_per_second = rate(threads, || (), |()| multiply_adds(ROUNDS));
        let bytes_per_second = rate(threads, || vec![1u64; ELEMENTS], |data| read(data));
        Ceilings { threads, operations_per_second, bytes_per_second }
    }
}

/// The rate of all threads together: each makes what it works on, and then they begin. `work` tells how much it did; of a thread
/// counts its median turn.
fn rate<T>(threads: usize, make: impl Fn() -> T + Sync, work: impl Fn(&T) -> usize + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let data = make();
        work(&data);
        barrier.wait();
        let (begin, mut rates) = (Instant::now(), Vec::new());
        while rates.is_empty() || begin.elapsed() < TIME {
            let start = Instant::now();
            let amount = work(&data);
            rates.push(amount as f64 / start.elapsed().as_secs_f64().max(1e-9));
        }
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(0.0)).sum()
    })
}

/// Reads all elements, a quarter after another in step, as memory gives more of several streams; how many bytes that was.
fn read(data: &[u64]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        return unsafe { x86::read(data) };
    }
    sum(data);
    size_of_val(data)
}

/// Inlined into functions with vector features, whose vectors it then takes.
#[inline(always)]
fn sum(data: &[u64]) {
    let (front, back) = data.split_at(data.len() / 2);
    let quarters = [front.split_at(front.len() / 2), back.split_at(back.len() / 2)];
    let [(a, b), (c, d)] = quarters.map(|(one, other)| (one.as_chunks::<8>().0, other.as_chunks::<8>().0));
    let mut sums = [[0u64; 8]; 4];
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        for (sums, line) in sums.iter_mut().zip([a, b, c, d]) {
            for (sum, element) in sums.iter_mut().zip(line) {
                *sum = sum.wrapping_add(*element);
            }
        }
    }
    black_box(sums);
}

/// Rounds of multiply-adds to every sum, on the widest vectors; how many operations that was.
fn multiply_adds(rounds: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the feature.
            return unsafe { x86::multiply_adds_512(rounds) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has the features.
            return unsafe { x86::multiply_adds_256(rounds) };
        }
    }
    let (factor, addend) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [[1.0f32; 4]; SUMS];
    for _ in 0..rounds {
        for value in sums.iter_mut().flatten() {
            *value = *value * factor + addend;
        }
    }
    black_box(sums);
    2 * 4 * SUMS * rounds
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::SUMS;

    #[target_feature(enable = "avx2")]
    pub(super) fn read(data: &[u64]) -> usize {
        super::sum(data);
        size_of_val(data)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply_adds_512(rounds: usize) -> usize {
        let (factor, addend) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
        let mut sums = [_mm512_set1_ps(1.0); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, addend);
            }
        }
        black_box(sums);
        2 * 16 * SUMS * rounds
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_adds_256(rounds: usize) -> usize {
        let (factor, addend) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
        let mut sums = [_mm256_set1_ps(1.0); SUMS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, addend);
            }
        }
        black_box(sums);
        2 * 8 * SUMS * rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How fast they are no test can say; but no processor is a thousand times slower or faster than others.
    #[test]
    fn rates_are_those_of_a_processor() {
        for threads in [0, 2] {
            let Ceilings { threads: counted, operations_per_second, bytes_per_second } = Ceilings::measure(threads);
            assert_eq!(counted, threads.max(1));
            assert!((1e6..1e14).contains(&operations_per_second), "{operations_per_second}");
            assert!((1e6..1e14).contains(&bytes_per_second), "{bytes_per_second}");
        }
    }
}
