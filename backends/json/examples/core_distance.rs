//! How far apart the cores of two busy threads are: nanoseconds in which a line of cache goes from one to the other and back
//! (`cargo run --release -p byoc-json --example core_distance [times]`).
//!
//! Where they share a third-level cache it takes some 50, elsewhere several times as long. Virtual machines move between the two, and
//! times of two threads with them: tell both.
#![expect(clippy::print_stdout, reason = "it prints a time")]

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Of one measurement: some 50 ms.
const ROUND_TRIPS: usize = 300_000;

fn main() {
    let times = std::env::args().nth(1).and_then(|times| times.parse().ok()).unwrap_or(1);
    for _ in 0..times {
        println!("{:.0} ns", measure());
    }
}

/// Two threads wait for each other in turn.
fn measure() -> f64 {
    let turn = AtomicUsize::new(0);
    let take = |first: usize| {
        for turn_of_this in (first..2 * ROUND_TRIPS).step_by(2) {
            while turn.load(Ordering::Acquire) != turn_of_this {
                spin_loop();
            }
            turn.store(turn_of_this + 1, Ordering::Release);
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| take(1));
        take(0);
    });
    start.elapsed().as_secs_f64() * 1e9 / ROUND_TRIPS as f64
}
