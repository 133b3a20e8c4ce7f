//! Chooses the variant of a program for a device.

use byoc_plugin_api::Error;

use crate::compile::Arch;
use crate::device::Device;
use crate::locate::one_line;
use crate::program::Program;

/// The index of the best variant for the device: one for its very architecture (`sm_90a`), or else the newest.
pub(super) fn choose(program: &Program, device: &Device, backend: &str) -> Result<usize, Error> {
    let arches: Vec<Arch> = program
        .variants
        .iter()
        .map(|variant| variant.arch.parse())
        .collect::<Result<_, Error>>()
        .map_err(|error| Error::new(format!("damaged code: {}", error.message)))?;
    let fitting = arches.iter().enumerate().filter(|(_, arch)| arch.runs_on(device.capability));
    if let Some((position, _)) = fitting.max_by_key(|(_, arch)| **arch) {
        return Ok(position);
    }
    let (major, minor) = device.capability;
    let own = format!("sm_{major}{minor}");
    // The architecture with instructions that kernels use.
    let wanted = if (major, minor) == (9, 0) { "sm_90a".to_owned() } else { own.clone() };
    let names: Vec<_> = arches.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() { "no architecture".into() } else { names.join(" and ") };
    let error = one_line(format!("{} has code for {names}, and cuda:{} is {own}", program.title, device.ordinal));
    Err(error.hint(match major {
        ..8 => format!("Kernels are for sm_80 and newer: leave {backend} out of --backend"),
        _ => format!("Compile the model again with --backend-opt {backend}.arch={wanted}"),
    }))
}

/// The indices of the variants that these devices can run; all of them without a device.
pub(super) fn run(program: &Program, devices: &[Device]) -> Vec<usize> {
    let chosen: Vec<_> = devices.iter().filter_map(|device| choose(program, device, "").ok()).collect();
    (0..program.variants.len()).filter(|at| chosen.is_empty() || chosen.contains(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Variant;

    fn chosen(arches: &[&str], capability: (u32, u32)) -> String {
        let variant = |arch: &&str| Variant { arch: (*arch).into(), scratch: vec![], launches: vec![] };
        let program =
            Program { title: "softmax".into(), variants: arches.iter().map(variant).collect(), ..Program::default() };
        let device = Device { ordinal: 1, name: "a".into(), capability, multiprocessors: 1, memory: 1, shared: 1 };
        match choose(&program, &device, "cuda") {
            Ok(position) => arches[position].into(),
            Err(error) => format!("{} ({})", error.message, error.hint.unwrap_or_default()),
        }
    }

    #[test]
    fn the_best_that_runs() {
        assert_eq!(chosen(&["sm_80", "sm_90a", "sm_90"], (9, 0)), "sm_90a");
        assert_eq!(chosen(&["sm_90a", "sm_80", "sm_86"], (8, 9)), "sm_86");
        assert_eq!(chosen(&["sm_90a", "sm_80", "sm_86"], (8, 0)), "sm_80");
        assert_eq!(chosen(&["sm_100f", "sm_100", "sm_100a"], (10, 3)), "sm_100f");
    }

    #[test]
    fn those_that_devices_run() {
        let variant = |arch: &str| Variant { arch: arch.into(), scratch: vec![], launches: vec![] };
        let program = Program { variants: ["sm_80", "sm_90a"].map(variant).to_vec(), ..Program::default() };
        let device =
            |capability| Device { ordinal: 0, name: "a".into(), capability, multiprocessors: 1, memory: 1, shared: 1 };
        assert_eq!(run(&program, &[device((9, 0)), device((9, 0))]), [1]);
        assert_eq!(run(&program, &[device((9, 0)), device((8, 6))]), [0, 1]);
        assert_eq!(run(&program, &[device((12, 0))]), [0, 1]);
        assert_eq!(run(&program, &[]), [0, 1]);
    }

    #[test]
    fn none_that_runs() {
        let again = |arch: &str| format!("(Compile the model again with --backend-opt cuda.arch={arch})");
        let said = "softmax has code for sm_80 and sm_90a, and cuda:1 is sm_120";
        assert_eq!(chosen(&["sm_80", "sm_90a"], (12, 0)), format!("{said} {}", again("sm_120")));
        assert_eq!(
            chosen(&[], (8, 0)),
            format!("softmax has code for no architecture, and cuda:1 is sm_80 {}", again("sm_80"))
        );
        let said = "softmax has code for sm_80, and cuda:1 is";
        assert_eq!(chosen(&["sm_80"], (9, 0)), format!("{said} sm_90 {}", again("sm_90a")));
        let old = "(Kernels are for sm_80 and newer: leave cuda out of --backend)";
        assert_eq!(chosen(&["sm_80"], (7, 5)), format!("{said} sm_75 {old}"));
        assert_eq!(chosen(&["sm_8"], (8, 0)), "damaged code: 'sm_8' is not an architecture of a GPU ()");
    }
}
