//! Kernels of whole operators, compiled by NVIDIA's compiler on a machine without a GPU: that all of them compile, what they
//! use, and that attention multiplies on tensor cores. Nothing is run. Attention is a
//! sample of element types and architectures, and all of them are for more sizes of heads.

use byoc_nvidia::attention::{Effect, Layout, Mask, Spec, generate};
use byoc_nvidia::build::{GeneratedKernel, PRELUDE, Source};
use byoc_nvidia::compile::{CubinInfo, Needs};
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Dim};
use byoc_tests::sample;
use byoc_tests::trial::{Needed, Trial, trial};

use crate::cubins;

pub(crate) fn trials() -> Vec<Trial> {
    let dtypes = [DType::F16, DType::BF16, DType::F32];
    let all = ARCHES.into_iter().flat_map(|on| dtypes.map(|dtype| (dtype, on)));
    let attention = sample::every(3, all)
        .into_iter()
        .map(|(dtype, on)| trial(format!("attention/{dtype}_on_{on}"), move || attention(dtype, on)));
    let operators =
        sample::every(2, ARCHES).into_iter().map(|on| trial(format!("operators_on_{on}"), move || operators(on)));
    attention.chain(operators).collect()
}

/// What kernels are compiled for.
const ARCHES: [&str; 2] = ["sm_80", "sm_90a"];

/// The accesses to local memory from the first multiplication of a kernel to its last one.
fn local_in_loops(cubin: &[u8], kernel: &str) -> Needed<Vec<String>> {
    let code = cubins::instructions(cubin, kernel)?;
    let lines: Vec<_> = code.lines().collect();
    // Kernels that multiply on tensor cores have other multiplications behind their loops.
    let word = if code.contains("HMMA.") { "HMMA." } else { "FFMA " };
    let first = lines.iter().position(|line| line.contains(word)).unwrap_or(0);
    let last = lines.iter().rposition(|line| line.contains(word)).unwrap_or(0);
    let local = lines[first..last].iter().filter(|line| line.contains("LDL") || line.contains("STL"));
    Ok(local.map(|line| line.trim().to_owned()).collect())
}

/// Compiles kernels as one source. None has a value in memory in its loops for which there are no registers, and a block of
/// each fits.
fn compiled(name: &str, all: &[GeneratedKernel], on: &str) -> Needed<Vec<u8>> {
    let texts: Vec<_> = [PRELUDE].into_iter().chain(all.iter().map(|generated| generated.text.as_str())).collect();
    let source = Source { name: name.into(), text: texts.join("\n"), needs: Needs::default(), memory: 0 };
    let cubin = cubins::compile(&source, on.parse().expect("it is one"))?;
    let info = CubinInfo::of(&cubin).expect("it is a cubin");
    assert_eq!(info.kernels().len(), all.len());
    // Of the devices of generation 8, the smaller ones have 99 KiB of shared memory a block.
    let most = 99 << 10;
    for launch in all.iter().map(|generated| &generated.launch) {
        let kernel = info.kernel_named(&launch.kernel).expect("it has the kernel");
        let in_loops = if kernel.local > 0 { local_in_loops(&cubin, &launch.kernel)? } else { Vec::new() };
        assert!(in_loops.is_empty(), "{name} on {on}: {kernel:?}: {}", in_loops.join("; "));
        assert!(kernel.registers * launch.block[0] <= 65536, "{name} on {on}: {kernel:?}");
        assert!(kernel.shared + u64::from(launch.shared) <= most, "{name} on {on}: {kernel:?} {launch:?}");
        assert_eq!(kernel.arguments as usize, 8 * launch.arguments.len(), "{name} on {on}: {kernel:?}");
    }
    Ok(cubin)
}

/// Sizes of heads, of values as well: what most models have, sizes that fill no tile, and the largest.
const USUAL: [(usize, usize); 3] = [(64, 64), (72, 40), (256, 256)];
/// The smallest, and the others that published models have.
const OTHERS: [(usize, usize); 4] = [(8, 8), (80, 80), (128, 128), (192, 128)];

fn attention(dtype: DType, on: &str) -> Needed<()> {
    let others = if sample::is_all() { &OTHERS[..] } else { &[] };
    let sizes = [&USUAL[..], others].concat();
    let specs = sizes.iter().flat_map(|&(size, value_size)| specs(dtype, size, value_size));
    let generated = specs.enumerate().map(|(at, spec)| {
        let inputs = (0..3 + usize::from(spec.mask.is_some())).map(BufferRef::Input);
        let at_places: Vec<_> = inputs.chain([BufferRef::Output(0)]).collect();
        generate(&spec, &format!("k{at}"), &at_places).expect("it has sizes that can be counted")
    });
    let all: Vec<_> = generated.collect();
    let cubin = compiled(&format!("attention_{dtype}"), &all, on)?;
    let code = cubins::instructions(&cubin, "k1")?;
    let word = match (dtype, on) {
        (DType::F16, "sm_90a") => "HGMMA.64x64x16.F32 ",
        (DType::BF16, "sm_90a") => "HGMMA.64x64x16.F32.BF16 ",
        (DType::F16, _) => "HMMA.16816.F32 ",
        (DType::BF16, _) => "HMMA.16816.F32.BF16 ",
        _ => "FFMA ",
    };
    assert!(code.contains(word) && code.contains("LDGSTS.E.BYPASS.128"), "{dtype} on {on}");
    Ok(())
}

/// Attention with heads of those sizes: plain, with masks, and with all else that changes scores.
fn specs(dtype: DType, size: usize, value_size: usize) -> Vec<Spec> {
    let rows = |size: usize| Layout::RowsFirst { width: 12 * size, start: 0 };
    let plain = Spec {
        dtype,
        batch: Dim::Fixed(2),
        heads: 12,
        kv_heads: 12,
        queries: Dim::Fixed(512),
        keys: Dim::Fixed(500),
        size,
        value_size,
        scale: 0.125,
        softcap: 0.0,
        causal: false,
        mask: None,
        q: rows(size),
        k: rows(size),
        v: rows(value_size),
        y: rows(value_size),
    };
    let length = || Dim::Symbolic("s".into());
    let fills = Effect::Fills { hides: false, fill: f32::MIN };
    let row = Mask { effect: Effect::Added(DType::F32), shape: [2, 1, 1, 500].map(Dim::Fixed), short: false };
    let square = Mask { effect: fills, shape: [1.into(), 12.into(), length(), length()], short: false };
    let heads_first = Layout::HeadsFirst;
    let mut specs = vec![
        Spec { mask: Some(row), ..plain.clone() },
        Spec { kv_heads: 4, causal: true, k: heads_first, v: heads_first, ..plain.clone() },
        Spec { queries: length(), keys: length(), mask: Some(square), ..plain.clone() },
        Spec { softcap: 30.0, ..plain.clone() },
    ];
    if dtype == DType::F32 {
        // Of few queries a block has fewer.
        specs.extend([200, 100].map(|queries| Spec { queries: queries.into(), ..plain.clone() }));
    }
    specs
}

fn operators(on: &str) -> Needed<()> {
    compiled("operators", &byoc_cuda::all_kernels::all_kernels(), on).map(drop)
}
