//! Fuzz targets, each with a seed corpus and a structure-aware mutator. The engine is `tests/fuzz/engine`; nothing here
//! depends on it, so all of this is built and tested like the rest.

mod array_file;
mod artifact_file;
mod json;
mod kmodel_file;
mod models;
mod owned;
mod pool;
mod protobuf;
mod run;
mod targets;

pub use fastrand::Rng;

/// The engine's own change of some bytes.
pub type Raw<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// Something that takes bytes from anybody.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Runs an input, and returns whether it was valid to its end. For any input there is no panic, no crash, and
    /// an end soon.
    pub run: fn(&[u8]) -> bool,
    /// How its inputs are changed.
    pub mutate: Mutate,
}

/// An input changed a little; with another one, parts of that may be in it. `None` where the input is not of the form that
/// the target takes.
pub type Mutate = fn(&[u8], Option<&[u8]>, &mut Rng, Raw<'_>) -> Option<Vec<u8>>;

/// Every target.
pub static TARGETS: &[Target] = &[
    targets::onnx::TARGET,
    targets::artifact::TARGET,
    targets::code::TARGET,
    targets::arrays::TARGET,
    targets::kmodel::TARGET,
    targets::plugin::TARGET,
    targets::worker::TARGET,
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// An input changed a little, the same for the same `seed`: by its form most often, and byte by byte now and then, or
    /// where it has none.
    pub fn mutated(&self, input: &[u8], other: Option<&[u8]>, seed: u32, raw: Raw<'_>) -> Vec<u8> {
        let mut rng = Rng::with_seed(seed.into());
        let by_form = if rng.u8(..) < 12 { None } else { (self.mutate)(input, other, &mut rng, raw) };
        by_form.unwrap_or_else(|| {
            let mut bytes = input.to_vec();
            raw(&mut bytes);
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn seeds_run_to_their_end() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() > 2, "{}: {} seeds", target.name, seeds.len());
            let stuck = seeds.iter().enumerate().filter(|(_, seed)| !(target.run)(seed)).map(|(index, _)| index);
            assert_eq!(stuck.collect::<Vec<_>>(), [0; 0], "{}", target.name);
        }
    }

    /// What was found once is not found again. Each file is in a folder called after its target.
    #[test]
    fn findings_stay_mended() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
        for target in TARGETS {
            let Ok(files) = std::fs::read_dir(folder.join(target.name)) else { continue };
            for file in files.flatten() {
                let input = std::fs::read(file.path()).expect("a file");
                let ended = std::panic::catch_unwind(|| (target.run)(&input));
                assert!(ended.is_ok(), "{}", file.path().display());
            }
        }
    }

    #[test]
    fn changes_are_the_same_for_the_same_seed() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            for seed in 0..50 {
                let input = &seeds[seed as usize % seeds.len()];
                let changed = || target.mutated(input, Some(&seeds[0]), seed, &mut |bytes| bytes.push(1));
                assert_eq!(changed(), changed(), "{}", target.name);
            }
        }
    }
}
