//! Damaged code: one flaw each.

use byoc_nvidia::program::{Argument, Limit, Made, Program, Variant};
use byoc_plugin_api::{DType, Dim, Error};

use super::bench::{Bench, code, n, program};
use super::ran;
use crate::child::refused;

/// Programs that are wrong in one thing each.
fn wrong() -> Vec<(&'static str, Program)> {
    let mut cases = Vec::new();
    let mut case = |name, change: &dyn Fn(&mut Variant)| {
        let mut program = program();
        change(&mut program.variants[0]);
        cases.push((name, program));
    };
    case("arch", &|variant| variant.arch = "sm_9".into());
    case("no threads", &|variant| variant.launches[0].block = [8, 0, 1]);
    case("threads", &|variant| variant.launches[0].block = [1024, 2, 1]);
    case("wrapping", &|variant| variant.launches[0].block = [u32::MAX, u32::MAX, 2]);
    case("deep", &|variant| variant.launches[0].block = [1, 1, 65]);
    case("shared", &|variant| variant.launches[2].shared = 232_449);
    case("kernel", &|variant| variant.launches[1].kernel = "k_none".into());
    case("zero", &|variant| variant.launches[1].kernel = "k_\0".into());
    case("few", &|variant| drop(variant.launches[0].arguments.pop()));
    case("many", &|variant| variant.launches[2].arguments.push(Argument::Size(Dim::Fixed(1))));
    case("other", &|variant| variant.launches[3].arguments.swap(0, 1));
    case("grid", &|variant| variant.launches[0].grid[0] = n("M"));
    case("negative", &|variant| variant.launches[0].grid[0] = n("N - 4"));
    case("blocks", &|variant| variant.launches[0].grid[1] = n("70000*N"));
    case("size", &|variant| variant.launches[0].arguments[3] = Argument::Size(n("9000000000000000000*N")));
    case("fixed", &|variant| variant.launches[0].arguments[3] = Argument::Size(Dim::Fixed(usize::MAX)));
    case("scratch", &|variant| variant.scratch = vec![n("4000000000000000000*N"); 3]);
    for (name, kind) in [("rank", 0), ("block", 1), ("swizzle", 2), ("stride", 3), ("type", 4)] {
        case(name, &|variant| {
            if let Argument::TensorMap(map) = &mut variant.launches[3].arguments[1] {
                match kind {
                    0 => map.sizes.clear(),
                    1 => map.block.push(1),
                    2 => map.swizzle = 48,
                    3 => map.strides[0] = Dim::Fixed(33),
                    _ => map.dtype = DType::I8,
                }
            }
        });
    }
    case("bytes", &|variant| {
        if let Argument::Made(made) = &mut variant.launches[3].arguments[0] {
            made.bytes = u32::MAX;
        }
    });
    case("makers", &|variant| {
        if let Argument::Made(made) = &mut variant.launches[3].arguments[0] {
            let inner = Made { kernel: "k_next".into(), arguments: vec![], bytes: 8 };
            made.arguments[1] = Argument::Made(inner);
        }
    });
    let limit = |most| Limit { of: "a batch of rows".into(), elements: n("8*N"), most };
    cases.push(("limits", Program { limits: vec![limit(16), limit(15)], ..program() }));
    cases
}

pub(super) fn damage() -> Result<Vec<String>, Error> {
    let mut bench = Bench::open()?;
    let mut lines = Vec::new();
    for (name, program) in wrong() {
        let done = bench.load(&code(&program)).and_then(|mut executable| {
            bench.prepare(&mut *executable, 2)?;
            executable.run()
        });
        lines.push(format!("{name}: {}", refused(done)));
    }
    let whole = code(&program());
    let mut no_cubin = Vec::new();
    program().write(&[b"no cubin".as_slice()], &mut no_cubin)?;
    lines.push(refused(bench.load(&no_cubin)));
    let broken = (0..whole.len()).step_by(97).filter(|&end| bench.load(&whole[..end]).is_ok()).count();
    lines.push(format!("{broken} of the first parts load"));
    Ok(lines)
}

pub(super) fn damaged_code() {
    let (output, log) = ran("launch-damage", &[]);
    let title = "sum and scale";
    let damaged = "damaged code:";
    let map = format!("{title}: kernel k_last: {damaged} an invalid tensor map ()");
    let invalid = "CUDA_ERROR_INVALID_VALUE: invalid argument";
    let expected = [
        format!("arch: {damaged} 'sm_9' is not an architecture of a GPU ()"),
        format!("no threads: {title}: kernel k_add: no device has blocks of 8 x 0 x 1 threads ()"),
        format!("threads: {title}: kernel k_add: no device has blocks of 1024 x 2 x 1 threads ()"),
        format!("wrapping: {title}: kernel k_add: no device has blocks of 4294967295 x 4294967295 x 2 threads ()"),
        format!("deep: {title}: kernel k_add: no device has blocks of 1 x 1 x 65 threads ()"),
        format!(
            "shared: {title}: kernel k_next takes 232449 bytes of shared memory a block, and cuda:0 has 232448 \
             (Use a device of the kind that the model was compiled for)"
        ),
        format!("kernel: {title}: cuda:0 cannot find kernel k_none: CUDA_ERROR_NOT_FOUND: named symbol not found ()"),
        format!("zero: {title}: {damaged} the name of a kernel has a NUL character ()"),
        format!("few: {title}: {damaged} kernel k_add does not take arguments of [8, 8, 8] bytes ()"),
        format!("many: {title}: {damaged} kernel k_next does not take arguments of [8, 8, 8] bytes ()"),
        format!("other: {title}: {damaged} kernel k_last does not take arguments of [128, 136, 8] bytes ()"),
        format!(
            "grid: {title}: kernel k_add: the size 'M' is not known (fix it with --dim M=<number>, or give an input that \
             has it)"
        ),
        format!("negative: {title}: kernel k_add: the size 'N - 4' comes to -2, which is negative ()"),
        format!(
            "blocks: {title}: kernel k_add: a grid of 2 x 140000 x 1 blocks is more than a device takes \
             (Use a smaller batch)"
        ),
        format!("size: {title}: kernel k_add: a size is too large to compute with ()"),
        format!("fixed: {title}: kernel k_add: the size 18446744073709551615 is too large ()"),
        format!("scratch: {title}: its scratch memory is too large ()"),
        format!("rank: {map}"),
        format!("block: {map}"),
        format!("swizzle: {map}"),
        format!(
            "stride: {title}: kernel k_last: cuda:0 cannot map a tensor of sizes [8, 2], strides [33] and blocks [8, 1]: \
             {invalid} ()"
        ),
        format!("type: {map}"),
        format!("bytes: {title}: {damaged} kernel k_last has too many arguments ()"),
        format!("makers: {title}: {damaged} a kernel that makes an argument takes one that is made ()"),
        format!(
            "limits: {title}: a batch of rows has 16 elements, but its kernels support at most 15 (Use a smaller batch)"
        ),
        format!("{title}: damaged cubin: Invalid ELF header size or alignment ()"),
        "0 of the first parts load".into(),
    ];
    let output: Vec<_> = output.lines().collect();
    for (line, expected) in output.iter().zip(&expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(output.len(), expected.len());
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}
