//! The program of these cases, and a device with its inputs.

use std::sync::LazyLock;

use byoc_nvidia::compile::{Cache, Needs, Request, Toolchain};
use byoc_nvidia::launch;
use byoc_nvidia::program::{Argument, BufferRef, Constant, Launch, Made, Program, Tensor, TensorMap, Variant};
use byoc_plugin_api::{
    BoundConstant, ConstantId, DType, DeviceConstant, DeviceConstants, DeviceExecutable, DeviceTensor, Dim, Domain,
    Environment, Error, Options, TensorView,
};

use crate::child;

pub(super) const COLUMNS: usize = 8;

/// `y = ((x + h) * c + 1) * N`, over scratch memory, with a constant that is read transposed, an argument that a kernel makes
/// and a tensor map.
pub(super) const TEXT: &str = r#"
struct Params { float factor; int unused[30]; const float* from; };
struct __align__(64) Map { u32 words[32]; };
extern "C" __global__ void k_add(const float* in0, const f16* in1, float* t0, i64 n) {
    i64 i = blockIdx.x * 8 + threadIdx.x;
    if (i < n) t0[i] = in0[i] + to_float(in1[i]);
}
extern "C" __global__ void k_scale(const float* t0, const float* c0, float* t1) {
    BYOC_SHARED(memory);
    float* row = reinterpret_cast<float*>(memory);
    row[threadIdx.x ^ 7] = t0[blockIdx.x * 8 + threadIdx.x];
    __syncthreads();
    t1[blockIdx.x * 8 + threadIdx.x] = row[threadIdx.x ^ 7] * c0[threadIdx.x % 4 * 2 + threadIdx.x / 4];
}
extern "C" __global__ void k_next(const float* t1, float* t2) {
    wait_for_earlier_kernels();
    t2[blockIdx.x * 8 + threadIdx.x] = t1[blockIdx.x * 8 + threadIdx.x] + 1.0f;
}
extern "C" __global__ void k_make(const float* t2, i64 n, Params* params) { params->factor = float(n); params->from = t2; }
extern "C" __global__ void k_last(const Params params, const __grid_constant__ Map map, float* out0) {
    if (map.words[0] == 0x70616d74) out0[blockIdx.x * 8 + threadIdx.x] = params.from[blockIdx.x * 8 + threadIdx.x] * params.factor;
}
extern "C" __global__ void k_outside(const float* in0, const f16* in1, float* t0, i64 n) { t0[-1] = 1.0f; }
"#;

pub(super) fn n(text: &str) -> Dim {
    Dim::Symbolic(text.into())
}

pub(super) fn launch(kernel: &str, arguments: Vec<Argument>) -> Launch {
    let grid = [n("N"), Dim::Fixed(1), Dim::Fixed(1)];
    Launch {
        cubin: 0,
        kernel: kernel.into(),
        grid,
        block: [8, 1, 1],
        persistent: false,
        waits: false,
        shared: 0,
        arguments,
        nodes: Vec::new(),
        only: None,
    }
}

pub(super) fn program() -> Program {
    let pointer = Argument::Pointer;
    let tensor = |dtype| Tensor { dtype, shape: vec![n("N"), Dim::Fixed(COLUMNS)] };
    let map = TensorMap {
        at: BufferRef::Scratch(2),
        dtype: DType::F32,
        sizes: vec![Dim::Fixed(COLUMNS), n("N")],
        strides: vec![Dim::Fixed(32)],
        block: vec![8, 1],
        swizzle: 32,
    };
    let made = Made {
        kernel: "k_make".into(),
        arguments: vec![pointer(BufferRef::Scratch(2)), Argument::Size(n("N"))],
        bytes: 136,
    };
    let first = [BufferRef::Input(0), BufferRef::Input(1), BufferRef::Scratch(0)].map(pointer).to_vec();
    let scale =
        launch("k_scale", [BufferRef::Scratch(0), BufferRef::Constant(0), BufferRef::Scratch(1)].map(pointer).to_vec());
    let launches = vec![
        launch("k_add", [first, vec![Argument::Size(n("8*N"))]].concat()),
        Launch { shared: 100_000, ..scale },
        Launch {
            waits: true,
            ..launch("k_next", [BufferRef::Scratch(1), BufferRef::Scratch(2)].map(pointer).to_vec())
        },
        launch("k_last", vec![Argument::Made(made), Argument::TensorMap(map), pointer(BufferRef::Output(0))]),
    ];
    let scratch = vec![n("32*N"); 3];
    Program {
        title: "sum and scale".into(),
        inputs: vec![tensor(DType::F32), tensor(DType::F16)],
        outputs: vec![tensor(DType::F32)],
        constants: vec![Constant {
            id: ConstantId(4),
            layout: None,
            dtype: DType::F32,
            shape: vec![2, 4],
            strides: vec![1, 2],
        }],
        variants: vec![Variant { arch: "sm_90a".into(), scratch, launches }],
        ..Program::default()
    }
}

/// The cubin that most programs here have.
pub(super) static CUBIN: LazyLock<Vec<u8>> = LazyLock::new(|| cubin("sm_90a"));

pub(super) fn cubin(arch: &str) -> Vec<u8> {
    let toolchain = Toolchain::find(&child::search_path()).expect("the stand-in is there");
    let text = format!("{}{TEXT}", byoc_nvidia::build::PRELUDE);
    let arch = arch.parse().expect("it is one");
    let request = Request { name: "sums", source: &text, arch, options: &[], needs: Needs::default(), memory: 0 };
    toolchain.compile(&request, &Cache::new(&|_| None)).expect("it compiles").bytes
}

pub(super) fn code(program: &Program) -> Vec<u8> {
    let mut code = Vec::new();
    program.write(&[&CUBIN], &mut code).expect("a vector takes all");
    code
}

/// A device with memory for the inputs, the constant and the output.
pub(super) struct Bench {
    pub(super) domain: Box<dyn Domain>,
    pub(super) x: u64,
    pub(super) h: u64,
    pub(super) c: u64,
    pub(super) y: u64,
}

/// The constant, row-major.
pub(super) const C: [f32; 8] = [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0];

impl Bench {
    pub(super) fn open() -> Result<Bench, Error> {
        let mut domain = launch::open_domain(0, &Options::default())?;
        let [x, h, c, y] = [(); 4].map(|()| domain.allocate(1024));
        let mut bench = Bench { domain, x: x?, h: h?, c: c?, y: y? };
        let bytes: Vec<u8> = C.iter().flat_map(|value| value.to_ne_bytes()).collect();
        bench.send(bench.c, &bytes)?;
        Ok(bench)
    }

    pub(super) fn send(&mut self, to: u64, bytes: &[u8]) -> Result<(), Error> {
        // SAFETY: the memory is larger, and the bytes stay until the queue was waited for.
        unsafe { self.domain.upload(to, bytes.as_ptr(), bytes.len())? };
        self.domain.synchronize()
    }

    /// Inputs that count up from `first`; halves are 0.5 everywhere.
    pub(super) fn fill(&mut self, rows: usize, first: u16) -> Result<(), Error> {
        let values = (0..rows * COLUMNS).map(|at| f32::from(first + at as u16));
        let x: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
        let h: Vec<u8> = (0..rows * COLUMNS).flat_map(|_| half::f16::from_f32(0.5).to_ne_bytes()).collect();
        self.send(self.x, &x)?;
        self.send(self.h, &h)
    }

    pub(super) fn load(&self, code: &[u8]) -> Result<Box<dyn DeviceExecutable>, Error> {
        self.load_with(code, DType::F32, &[2, 4], &[4, 1])
    }

    /// Loads the code with the constant read as that.
    pub(super) fn load_with(
        &self,
        code: &[u8],
        dtype: DType,
        shape: &[i64],
        strides: &[i64],
    ) -> Result<Box<dyn DeviceExecutable>, Error> {
        let bytes: Vec<u8> = C.iter().flat_map(|value| value.to_ne_bytes()).collect();
        // SAFETY: all shapes and strides of these cases are of 8 elements.
        let view = unsafe { TensorView::from_raw(bytes.as_ptr(), dtype, shape, strides) };
        let bound = BoundConstant { id: ConstantId(4), layout: None, view };
        let constants = DeviceConstants::new(vec![DeviceConstant { bound, address: self.c }]);
        let environment = Environment { threads: 1, options: Options::default() };
        launch::load_on("cuda", code, &constants, &environment, &self.domain.handles())
    }

    /// Plans and prepares for as many rows, with scratch memory of its own. How much that is.
    pub(super) fn prepare(&mut self, executable: &mut dyn DeviceExecutable, rows: usize) -> Result<u64, Error> {
        let shape = [rows as i64, COLUMNS as i64];
        let tensor = |address, dtype| DeviceTensor { address, dtype, shape: &shape };
        let unknown = [tensor(0, DType::F32), tensor(0, DType::F16)];
        let bytes = executable.plan(&unknown, &[tensor(0, DType::F32)])?.scratch;
        let scratch = self.domain.allocate(bytes)?;
        let inputs = [tensor(self.x, DType::F32), tensor(self.h, DType::F16)];
        executable.prepare(&inputs, &[tensor(self.y, DType::F32)], scratch)?;
        Ok(bytes)
    }

    pub(super) fn result(&mut self, rows: usize) -> Result<Vec<f32>, Error> {
        let mut bytes = vec![0u8; rows * COLUMNS * 4];
        // SAFETY: the memory is larger, and the bytes are not read before the stream is synchronised.
        unsafe { self.domain.download(bytes.as_mut_ptr(), self.y, bytes.len())? };
        self.domain.synchronize()?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect())
    }
}

pub(super) fn expected(rows: usize, first: u16) -> Vec<f32> {
    let element = |at: usize| ((f32::from(first + at as u16) + 0.5) * C[at % COLUMNS] + 1.0) * rows as f32;
    (0..rows * COLUMNS).map(element).collect()
}
