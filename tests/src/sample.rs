//! What takes long is tried on a sample, another one in each run. The variable `BYOC_SAMPLE` of the environment says which: `all` takes
//! everything, and a number the sample that a run has told. A run that names tests takes everything of them.

use std::sync::OnceLock;

use byoc_conformance::Shard;

/// The number of this run's sample; none where it takes everything.
static SEED: OnceLock<Option<u64>> = OnceLock::new();

fn seed() -> Option<u64> {
    *SEED.get_or_init(|| asked().unwrap_or_else(|| Some(fastrand::u64(..1_000_000))))
}

/// What the environment says, if it does.
fn asked() -> Option<Option<u64>> {
    match std::env::var("BYOC_SAMPLE").as_deref() {
        Ok("all") => Some(None),
        Ok(seed) => {
            Some(Some(seed.parse().unwrap_or_else(|_| panic!("BYOC_SAMPLE is 'all' or a number, not '{seed}'"))))
        }
        Err(_) => None,
    }
}

/// Has this run take everything, where the environment does not say what it takes.
pub fn default_to_all() {
    let _ = SEED.set(asked().unwrap_or(None));
}

/// Whether a run takes everything.
pub fn is_all() -> bool {
    seed().is_none()
}

/// Which of so many parts of a whole this run takes, from 0.
pub fn part(of: usize) -> Option<usize> {
    seed().map(|seed| fastrand::Rng::with_seed(seed).usize(..of))
}

/// The part of the kit's models that this run takes, of so many.
pub fn shard(count: usize) -> Shard {
    part(count).map_or(Shard::ALL, |index| Shard { index, count })
}

/// Every so many-th element of a list, and one at least.
pub fn every<T>(step: usize, all: impl IntoIterator<Item = T>) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    match part(step.min(all.len().max(1))) {
        Some(first) => all.into_iter().skip(first).step_by(step).collect(),
        None => all,
    }
}

/// What takes the same sample again, where one was taken.
pub fn taken() -> Option<String> {
    let seed = (*SEED.get()?)?;
    Some(format!("BYOC_SAMPLE={seed}"))
}
