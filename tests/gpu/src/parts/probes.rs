//! The first things to know of a device: that a launch of the driver's API runs, that a copy by TMA brings what it should, and
//! that the smallest product by tensor cores is right. Where these fail, what fails later needs no other explanation.

use byoc_nvidia::locate::{self, CudaSearchPath};
use byoc_nvidia::program::{Argument, BufferRef, Launch, Program, Tensor, TensorMap, Variant};
use byoc_plugin_api::{DType, Dim};

use super::Scope;
use crate::check::Check;
use crate::fixture::{Fixture, PRODUCTS};
use crate::kernel::{Kernel, compiled};
use crate::net::{Allowed, Net, Op};
use crate::report::{Result, ensure};

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let mut all = vec![Check::one("a launch", launched)];
    // Stand-ins have neither.
    if !scope.quick {
        all.push(Check::one("a copy by TMA", copied));
    }
    if scope.has(PRODUCTS) && !scope.quick {
        all.push(Check::one("a product by wgmma", |fixture| multiplied(fixture, "64x64x64_12 wgmma")));
    }
    if scope.has(PRODUCTS) {
        all.push(Check::one("a product by mma", |fixture| multiplied(fixture, "32x64x64_5 mma")));
    }
    if !scope.prepares {
        all.push(Check::one("sizes of parameters", |_| parameters()));
    }
    all
}

fn program(arch: &str, kernel: &str, threads: u32, arguments: Vec<Argument>, sizes: [usize; 2]) -> Program {
    let tensor = |size: usize| Tensor { dtype: DType::I32, shape: vec![Dim::Fixed(size)] };
    let launch = Launch {
        cubin: 0,
        kernel: kernel.into(),
        grid: [Dim::Fixed(sizes[1].div_ceil(threads as usize)), Dim::Fixed(1), Dim::Fixed(1)],
        persistent: false,
        waits: false,
        block: [threads, 1, 1],
        shared: 0,
        arguments,
        nodes: Vec::new(),
        only: None,
    };
    Program {
        title: kernel.into(),
        inputs: vec![tensor(sizes[0])],
        outputs: vec![tensor(sizes[1])],
        variants: vec![Variant { arch: arch.into(), scratch: Vec::new(), launches: vec![launch] }],
        ..Program::default()
    }
}

fn numbers(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect()
}

/// Every thread of some blocks writes its number.
fn launched(fixture: &Fixture) -> Result<String> {
    const COUNT: usize = 1000;
    let text = "extern \"C\" __global__ void k_index(int *y) { int i = blockIdx.x * 128 + threadIdx.x; if (i < 1000) \
                y[i] = i; }";
    let cubin = compiled("probe_index", text, fixture.arch())?;
    fixture.ready()?;
    let output = vec![Argument::Pointer(BufferRef::Output(0))];
    let program = program(fixture.arch(), "k_index", 128, output, [1, COUNT]);
    let found = Kernel::load(fixture, &program, &cubin)?.run(&[(&[0; 4], &[1])], &[COUNT as i64])?;
    let wrong = numbers(&found).iter().enumerate().filter(|(at, found)| *at as i32 != **found).count();
    ensure(wrong == 0, || format!("{wrong} of {COUNT} threads did not write their number"))?;
    Ok(format!("{COUNT} threads"))
}

/// A box of 8 x 8 numbers at row 2, column 4 of a matrix of 16 x 16.
fn copied(fixture: &Fixture) -> Result<String> {
    if let Some(why) = fixture.without_hopper() {
        return Ok(why);
    }
    const SIDE: usize = 16;
    let text = "
struct __align__(64) Map { unsigned words[32]; };
extern \"C\" __global__ void k_box(const __grid_constant__ Map map, int *y) {
  __shared__ alignas(128) int box[64];
  __shared__ alignas(8) unsigned long long full;
  unsigned barrier = (unsigned)__cvta_generic_to_shared(&full), to = (unsigned)__cvta_generic_to_shared(box);
  if (threadIdx.x == 0) {
    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" :: \"r\"(barrier));
    asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: \"memory\");
    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;\" :: \"r\"(barrier));
    asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];\"
                 :: \"r\"(to), \"l\"(&map), \"r\"(barrier), \"r\"(4), \"r\"(2) : \"memory\");
  }
  __syncthreads();
  unsigned done = 0;
  for (int i = 0; !done && i < 1000000; ++i)
    asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }\"
                 : \"=r\"(done) : \"r\"(barrier) : \"memory\");
  y[threadIdx.x] = done ? box[threadIdx.x] : -1;
}";
    let cubin = compiled("probe_box", text, fixture.arch())?;
    fixture.ready()?;
    let map = TensorMap {
        at: BufferRef::Input(0),
        dtype: DType::F32,
        sizes: vec![Dim::Fixed(SIDE); 2],
        strides: vec![Dim::Fixed(4 * SIDE)],
        block: vec![8, 8],
        swizzle: 0,
    };
    let arguments = vec![Argument::TensorMap(map), Argument::Pointer(BufferRef::Output(0))];
    let program = program(fixture.arch(), "k_box", 64, arguments, [SIDE * SIDE, 64]);
    // Floats that TF32, as which TMA reads them, has as well.
    let value = |at: usize| 0x4000_0000 | (at as i32) << 13;
    let input: Vec<u8> = (0..SIDE * SIDE).flat_map(|at| value(at).to_ne_bytes()).collect();
    let found = Kernel::load(fixture, &program, &cubin)?.run(&[(&input, &[(SIDE * SIDE) as i64])], &[64])?;
    let expected: Vec<_> = (0..64).map(|at| value((2 + at / 8) * SIDE + 4 + at % 8)).collect();
    let found = numbers(&found);
    ensure(found == expected, || format!("the box is {found:?}, expected {expected:?}"))?;
    Ok("a box of 8 x 8".into())
}

/// One tile, one step of K of one instruction.
fn multiplied(fixture: &Fixture, tile: &str) -> Result<String> {
    if let Some(why) = fixture.without_hopper().filter(|_| tile.ends_with("wgmma")) {
        return Ok(why);
    }
    let (mut net, mut random) = (Net::new(DType::F16), fixture.random("probe"));
    let (x, w) = (net.input(&[64, 16]), net.constant(&mut random, &[16, 64], 1.0));
    net.step(Op::MatMul, &[x, w]);
    let compiled = fixture.compile("probe", &net.onnx(), &[PRODUCTS], &[("cutlass.tile", tile)])?;
    let mut session = fixture.load(&fixture.registry, &compiled.path, byoc_core::runtime::Queueing::Direct)?;
    let inputs = net.inputs(&mut random, 0);
    let found = crate::fixture::run(&mut session, &inputs)?;
    let (expected, sums) = net.evaluate(&inputs);
    let worst = Allowed::new(DType::F16, false, false).worst(&found, &expected, &sums)?;
    Ok(format!("64 x 64 x 16, {worst:.3} of what is allowed"))
}

/// Whether the driver tells the sizes of a kernel's parameters, by which code is checked.
fn parameters() -> Result<String> {
    let driver = locate::driver(&CudaSearchPath::of_process(None))?;
    Ok(match locate::tells_parameters(&driver) {
        true => "the driver tells them: code is checked".into(),
        false => "the driver does not tell them: code is not checked".into(),
    })
}
