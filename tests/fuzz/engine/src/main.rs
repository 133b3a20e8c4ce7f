//! One target of [`byoc_fuzz::TARGETS`] under libFuzzer, whose options and files are the arguments. `BYOC_FUZZ_TARGET`
//! names it, and `BYOC_FUZZ_SEEDS` a folder that gets the inputs to start from.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use byoc_fuzz::Target;
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target, fuzzer_mutate};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("BYOC_FUZZ_TARGET").unwrap_or_default();
    let names = byoc_fuzz::TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    byoc_fuzz::target(&name).unwrap_or_else(|| panic!("BYOC_FUZZ_TARGET is '{name}', and must be one of {names}"))
});

fn write_seeds() {
    let Some(folder) = std::env::var_os("BYOC_FUZZ_SEEDS") else { return };
    for (index, seed) in (TARGET.seeds)().iter().enumerate() {
        std::fs::write(Path::new(&folder).join(index.to_string()), seed).expect("a seed can be written");
    }
}

fuzz_target!(init: write_seeds(), |data: &[u8]| {
    (TARGET.run)(data);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let changed = TARGET.mutated(&data[..size], None, seed, &mut |bytes| raw(bytes, max_size));
    put(&changed, data, size)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    let room = out.len();
    let changed = TARGET.mutated(one, Some(other), seed, &mut |bytes| raw(bytes, room));
    put(&changed, out, 0)
});

/// libFuzzer's own change of bytes.
fn raw(bytes: &mut Vec<u8>, most: usize) {
    let size = bytes.len();
    let room = (size + size / 2 + 64).min(most.max(size));
    bytes.resize(room.max(1), 0);
    let room = bytes.len();
    let size = fuzzer_mutate(bytes, size, room);
    bytes.truncate(size);
}

/// Hands a changed input over; where it has no room, the input stays as it was, which has `size` bytes.
fn put(changed: &[u8], out: &mut [u8], size: usize) -> usize {
    match out.get_mut(..changed.len()) {
        Some(place) if !changed.is_empty() => {
            place.copy_from_slice(changed);
            changed.len()
        }
        _ => size,
    }
}
