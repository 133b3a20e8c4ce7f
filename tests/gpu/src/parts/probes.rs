//! The first things to know of a device: that a launch of the driver's API runs, that a copy by TMA brings what it should, and
//! that the smallest product by tensor cores is right. Where these fail, what fails later needs no other explanation.

use byoc_nvidia::compile::{Cache, Needs, Request, Toolchain};
use byoc_nvidia::launch;
use byoc_nvidia::locate::{self, CudaSearchPath};
use byoc_nvidia::program::{Argument, BufferRef, Launch, Program, Tensor, TensorMap, Variant};
use byoc_plugin_api::{
    DType, DeviceConstants, DeviceExecutable, DeviceTensor, Dim, Domain, Environment, Options,
};

use super::Scope;
use crate::check::Check;
use crate::fixture::{Fixture, PRODUCTS};
use crate::gpu::POISON;
use crate::net::{Allowed, Net, Op};
use crate::report::{Result, ensure, failure};

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let mut all = vec![Check::check("a launch", launched)];
    // Stand-ins have neither.
    if !scope.quick {
        all.push(Check::check("a copy by TMA", copied));
        all.push(Check::check("a product by wgmma", |fixture| multiplied(fixture, "64x64x64_12 wgmma")));
    }
    if scope.has(PRODUCTS) {
        all.push(Check::check("a product by mma", |fixture| multiplied(fixture, "32x64x64_5 mma")));
    }
    if !scope.prepares {
        all.push(Check::check("sizes of parameters", |_| parameters()));
    }
    all
}

/// The machine code of a source for that architecture, from the cache or compiled now.
pub(super) fn compiled(name: &str, text: &str, arch: &str, cutlass: bool) -> Result<Vec<u8>> {
    let toolchain = Toolchain::find(&CudaSearchPath::of_process(None))?;
    let needs = Needs { cutlass, ..Needs::default() };
    let request = Request { name, source: text, arch: arch.parse()?, options: &[], needs, memory: 0 };
    Ok(toolchain.compile(&request, &Cache::of_process())?.bytes)
}

/// A program on the device, without core: it owns its buffers.
pub(super) struct Kernel<'a> {
    fixture: &'a Fixture,
    executable: Box<dyn DeviceExecutable>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl<'a> Kernel<'a> {
    /// Loads a program that has no constants.
    pub(super) fn load(fixture: &'a Fixture, program: &Program, cubin: &[u8]) -> Result<Kernel<'a>> {
        let mut code = Vec::new();
        program.write(&[cubin], &mut code)?;
        let environment = Environment { threads: 1, options: Options::default() };
        let constants = DeviceConstants::new(Vec::new());
        let handles = fixture.gpu().domain.handles();
        let executable = launch::load_on("cuda", &code, &constants, &environment, &handles)?;
        Ok(Kernel { fixture, executable, inputs: program.inputs.clone(), outputs: program.outputs.clone() })
    }

    /// Runs once on inputs of these bytes and shapes: the bytes of the only output, which was NaN before.
    pub(super) fn run(&mut self, inputs: &[(&[u8], &[i64])], shape: &[i64]) -> Result<Vec<u8>> {
        let mut gpu = self.fixture.gpu();
        let [output] = &self.outputs[..] else { return failure("a program of one output") };
        let bytes = shape.iter().product::<i64>() as usize * output.dtype.unpacked_bytes();
        let mut addresses = Vec::new();
        for (data, _) in inputs {
            let address = gpu.domain.allocate(data.len().max(1) as u64)?;
            // SAFETY: both are of so many bytes, which stay until the queue was waited for.
            unsafe { gpu.domain.upload(address, data.as_ptr(), data.len()) }?;
            addresses.push(address);
        }
        let to = gpu.domain.allocate(bytes.max(1) as u64)?;
        // SAFETY: it was allocated just now.
        unsafe { gpu.poison(to, bytes as u64) }?;
        let shaped = self.inputs.iter().zip(inputs).zip(&addresses);
        let inputs: Vec<_> = shaped
            .map(|((known, (_, shape)), &address)| DeviceTensor { address, dtype: known.dtype, shape })
            .collect();
        let outputs = [DeviceTensor { address: to, dtype: output.dtype, shape }];
        let scratch = self.executable.plan(&inputs, &outputs)?.scratch;
        ensure(scratch == 0, || format!("{scratch} bytes of scratch memory"))?;
        self.executable.prepare(&inputs, &outputs, 0)?;
        self.executable.run()?;
        gpu.domain.synchronize()?;
        let mut found = vec![POISON; bytes];
        // SAFETY: both are of so many bytes, and the copy is waited for.
        unsafe { gpu.domain.download(found.as_mut_ptr(), to, bytes) }?;
        gpu.domain.synchronize()?;
        for address in addresses.into_iter().chain([to]) {
            // SAFETY: it was allocated above, and the work was waited for.
            unsafe { gpu.domain.release(address) };
        }
        Ok(found)
    }
}

fn program(arch: &str, kernel: &str, threads: u32, shared: u32, arguments: Vec<Argument>, sizes: [usize; 2]) -> Program {
    let tensor = |size: usize| Tensor { dtype: DType::I32, shape: vec![Dim::Fixed(size)] };
    let launch = Launch {
        cubin: 0,
        kernel: kernel.into(),
        grid: [Dim::Fixed(sizes[1].div_ceil(threads as usize)), Dim::Fixed(1), Dim::Fixed(1)],
        persistent: false,
        block: [threads, 1, 1],
        shared,
        arguments,
        nodes: Vec::new(),
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
    let cubin = compiled("probe_index", text, fixture.arch(), false)?;
    fixture.ready()?;
    let output = vec![Argument::Pointer(BufferRef::Output(0))];
    let program = program(fixture.arch(), "k_index", 128, 0, output, [1, COUNT]);
    let found = Kernel::load(fixture, &program, &cubin)?.run(&[(&[0; 4], &[1])], &[COUNT as i64])?;
    let wrong = numbers(&found).iter().enumerate().filter(|(at, found)| *at as i32 != **found).count();
    ensure(wrong == 0, || format!("{wrong} of {COUNT} threads did not write their number"))?;
    Ok(format!("{COUNT} threads"))
}

/// A box of 8 x 8 numbers at row 2, column 4 of a matrix of 16 x 16.
fn copied(fixture: &Fixture) -> Result<String> {
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
    let cubin = compiled("probe_box", text, fixture.arch(), false)?;
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
    let program = program(fixture.arch(), "k_box", 64, 0, arguments, [SIDE * SIDE, 64]);
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
