//! Times the matrix products of the JSON runtime beside the crate `gemm`, and its thread pool beside `rayon-core`. Usage:
//!
//!     cargo run --release -p byoc-bench --features gemm --bin gemm
//!
//! Each line has medians of 15 rounds in which the candidates take turns, and the ratio to the first one.

#![allow(clippy::print_stdout, reason = "what was measured is what it is for")]

use std::time::Instant;

use byoc_json_backend::kernels::{
    Epilogue, GemmParams, PackedWeights, Threads, gemm, gemm_packed, gemm_scratch_len, pack_b, packed_b_len,
};

/// Something to be timed, with its name.
type Candidate<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// Rows, columns and inner sizes: BERT, squares, ViT, single rows, few rows, and convolutions of ResNet-50 as products.
const SIZES: [(usize, usize, usize); 14] = [
    (128, 768, 768),
    (128, 3072, 768),
    (128, 768, 3072),
    (512, 512, 512),
    (1024, 1024, 1024),
    (197, 768, 768),
    (1, 4096, 4096),
    (1, 1000, 2048),
    (4, 1024, 1024),
    (8, 1024, 1024),
    (49, 2048, 512),
    (3136, 64, 64),
    (3136, 256, 64),
    (196, 1024, 256),
];

fn main() {
    rayon_core::ThreadPoolBuilder::new().num_threads(2).build_global().expect("the first pool");
    for size in SIZES {
        for threads in [1, 2] {
            product(size, threads);
        }
    }
    for steps in [0, 100, 1000, 10_000] {
        two_tasks(steps);
    }
}

fn product((m, n, k): (usize, usize, usize), count: usize) {
    let threads = Threads::new(count);
    let params = GemmParams::dense(m, n, k);
    let a: Vec<f32> = (0..m * k).map(|i| (i % 97) as f32 / 97.0).collect();
    let b: Vec<f32> = (0..n * k).map(|i| (i % 89) as f32 / 89.0).collect();
    let mut panels = vec![0.0; packed_b_len(k, n).expect("it fits")];
    pack_b(k, n, &b, [n, 1], &mut panels);
    let epilogue = Epilogue::default();
    let scratch = || vec![0.0; gemm_scratch_len(&params, count).expect("it fits")];
    let (mut scratch_packed, mut scratch_strided) = (scratch(), scratch());
    let [mut packed, mut strided, mut others] = [(); 3].map(|()| vec![0f32; m * n]);
    let parallelism = if count == 1 { ::gemm::Parallelism::None } else { ::gemm::Parallelism::Rayon(count) };
    compare(
        &format!("{m}x{n}x{k}, threads {count}"),
        vec![
            (
                "packed",
                Box::new(|| {
                    gemm_packed(
                        &threads,
                        &params,
                        &a,
                        PackedWeights::F32(&panels),
                        &mut packed,
                        &epilogue,
                        &mut scratch_packed,
                    )
                }),
            ),
            ("as stored", Box::new(|| gemm(&threads, &params, &a, &b, &mut strided, &epilogue, &mut scratch_strided))),
            ("crate gemm", Box::new(|| by_gemm([m, n, k], &a, &b, &mut others, parallelism))),
        ],
    );
    let off = packed.iter().zip(&others).map(|(x, y)| (x - y).abs() / x.abs().max(1.0)).fold(0f32, f32::max);
    assert!(off < 1e-3, "the results differ by {off}");
}

/// The product of the crate `gemm`, of matrices as they are stored.
fn by_gemm([m, n, k]: [usize; 3], a: &[f32], b: &[f32], c: &mut [f32], parallelism: ::gemm::Parallelism) {
    assert_eq!([a.len(), b.len(), c.len()], [m * k, k * n, m * n]);
    let (c, a, b, [k_row, n_row]) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr(), [k, n].map(|columns| columns as isize));
    // SAFETY: the three matrices have as many rows and columns, row-major.
    unsafe {
        ::gemm::gemm(m, n, k, c, 1, n_row, false, a, 1, k_row, b, 1, n_row, 0.0, 1.0, false, false, false, parallelism);
    }
}

/// Two tasks of so many additions each.
fn two_tasks(steps: usize) {
    let task = |seed: usize| {
        let sum = (0..steps).fold(seed as f32, |sum, step| sum * 0.999 + step as f32);
        std::hint::black_box(sum);
    };
    let threads = Threads::new(2);
    compare(
        &format!("two tasks of {steps} steps"),
        vec![
            ("own pool", Box::new(|| threads.parallel_for(2, task))),
            (
                "rayon-core join",
                Box::new(|| {
                    rayon_core::join(|| task(0), || task(1));
                }),
            ),
            ("one thread", Box::new(|| [0, 1].into_iter().for_each(task))),
        ],
    );
}

/// Prints the median time of each candidate.
fn compare(title: &str, mut candidates: Vec<Candidate<'_>>) {
    let once = |run: &mut dyn FnMut(), times: usize| {
        let start = Instant::now();
        (0..times).for_each(|_| run());
        start.elapsed().as_secs_f64() / times as f64
    };
    for (_, run) in &mut candidates {
        once(run, 2);
    }
    // About 10 ms a round.
    let times = ((0.01 / once(&mut candidates[0].1, 3)) as usize).clamp(1, 20_000);
    let mut seconds = vec![Vec::new(); candidates.len()];
    for _ in 0..15 {
        for (all, (_, run)) in seconds.iter_mut().zip(&mut candidates) {
            all.push(once(run, times));
        }
    }
    let medians = seconds.iter_mut().map(|all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    let medians: Vec<f64> = medians.collect();
    let shown = candidates.iter().zip(&medians);
    let shown = shown.map(|((name, _), time)| format!("{name} {:.2} us ({:.2})", time * 1e6, time / medians[0]));
    println!("{title:<28} {}", shown.collect::<Vec<_>>().join("   "));
}
