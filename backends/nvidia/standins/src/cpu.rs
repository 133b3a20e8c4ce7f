//! Kernels of generated CUDA C++, compiled for the host and run there, in the process of a test.
//!
//! ```no_run
//! use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
//!
//! let text = "extern \"C\" __global__ void k0(const float* in0, float* out0, long long n) {
//!                 long long i = blockIdx.x * 256ll + threadIdx.x;
//!                 if (i < n) out0[i] = 2.0f * in0[i];
//!             }";
//! let kernels = Kernels::compile(text); // It begins with the prelude, if it needs that.
//! let (input, output) = (Buffer::of(&[1.0f32, 2.0, 3.0]), Buffer::new::<f32>(3));
//! let parameters = [Param::Buffer(&input), Param::Buffer(&output), Param::Size(3)];
//! kernels.launch("k0", [1, 1, 1], [256, 1, 1], 0, &parameters);
//! assert_eq!(output.read::<f32>(), [2.0, 4.0, 6.0]);
//! ```
//!
//! A text takes about 0.2 s to compile, whatever the number of its kernels. What this shows and what it does not is said at
//! the head of `cpu/byoc_on_cpu.h`; beside that, a write of up to 4 KiB before or after a buffer is reported, and what is read
//! there is NaN.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::LazyLock;

use libloading::{Library, Symbol};
use tempfile::TempDir;

use crate::libraries::{build, temporary};

/// Guard bytes before and after a buffer.
const AROUND: usize = 4096;
/// What a kernel writes elsewhere must not be there. As floats of any kind, these bytes are NaN.
const UNWRITTEN: u8 = 0xFF;
const ALIGNMENT: usize = 256;

/// Memory of a kernel, which begins at a multiple of 256 bytes.
pub struct Buffer {
    cells: Vec<Cell<u8>>,
    start: usize,
    bytes: usize,
}

/// A number of a buffer.
pub trait Number: Copy {
    /// Its bytes.
    fn bytes(self) -> Vec<u8>;
    /// The number of bytes, as many as it has.
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            fn bytes(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }

            fn of(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("as many as it has"))
            }
        }
    )*};
}
numbers!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64);

impl Buffer {
    /// Memory with those numbers.
    pub fn of<T: Number>(values: &[T]) -> Buffer {
        let buffer = Buffer::new::<T>(values.len());
        let bytes = values.iter().flat_map(|value| value.bytes());
        buffer.cells[buffer.start..].iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
        buffer
    }

    /// Memory for as many numbers: NaN, or -1.
    pub fn new<T: Number>(count: usize) -> Buffer {
        let bytes = count * size_of::<T>();
        let cells = vec![Cell::new(UNWRITTEN); 2 * AROUND + ALIGNMENT + bytes];
        let start = AROUND + cells[AROUND..].as_ptr().align_offset(ALIGNMENT);
        Buffer { cells, start, bytes }
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.cells[self.start..].as_ptr().addr() as u64
    }

    /// What it holds now.
    pub fn read<T: Number>(&self) -> Vec<T> {
        let bytes: Vec<u8> = self.cells[self.start..self.start + self.bytes].iter().map(Cell::get).collect();
        bytes.chunks_exact(size_of::<T>()).map(T::of).collect()
    }

    /// How far from its first byte something was written that is not within it, in bytes.
    fn written_outside(&self) -> Option<isize> {
        let outside = |at: &usize| !(self.start..self.start + self.bytes).contains(at);
        let at = (0..self.cells.len()).filter(outside).find(|&at| self.cells[at].get() != UNWRITTEN);
        at.map(|at| at.cast_signed() - self.start.cast_signed())
    }
}

/// What a kernel is given.
#[derive(Clone, Copy)]
pub enum Param<'a> {
    /// The address of a buffer, which is watched.
    Buffer(&'a Buffer),
    /// An address, such as one within a buffer.
    Pointer(u64),
    /// A `long long`.
    Size(i64),
    /// A parameter of any type, by its bytes.
    Bytes(&'a [u8]),
}

/// The kernels of a text, ready to run.
pub struct Kernels {
    library: Library,
    // Outlives the library.
    _folder: TempDir,
}

/// What `byoc_cpu_kernel` is in `cpu/launch.h`.
#[repr(C)]
struct Table {
    call: *const c_void,
    parameters: u32,
    sizes: *const u32,
}

type Launch = unsafe extern "C" fn(*const Table, *const u32, *const u32, u64, *const *const c_void) -> *const c_char;

impl Kernels {
    /// Compiles a text.
    ///
    /// # Panics
    ///
    /// When it has errors.
    #[track_caller]
    pub fn compile(text: &str) -> Kernels {
        Kernels::try_compile(text).unwrap_or_else(|log| panic!("{log}\n{text}"))
    }

    /// Compiles a text.
    ///
    /// # Errors
    ///
    /// When it has errors: the compiler's log.
    pub fn try_compile(text: &str) -> Result<Kernels, String> {
        let mut object = NVRTC.compile(text)?;
        // The field e_machine, which said that it is for a device.
        object[18..20].copy_from_slice(&62u16.to_le_bytes());
        let folder = temporary();
        let path = folder.path().join("kernels.so");
        std::fs::write(&path, object).expect("the folder is ours");
        // SAFETY: it has no initialisers but those of the C library.
        let library = unsafe { Library::new(&path) }.map_err(|cause| cause.to_string())?;
        Ok(Kernels { library, _folder: folder })
    }

    /// Runs a kernel to its end.
    ///
    /// # Panics
    ///
    /// As [`Kernels::try_launch`] fails.
    #[track_caller]
    pub fn launch(&self, name: &str, grid: [u32; 3], block: [u32; 3], shared: u32, parameters: &[Param<'_>]) {
        let done = self.try_launch(name, grid, block, shared, parameters);
        done.unwrap_or_else(|cause| panic!("{cause}"));
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    ///
    /// When there is none of that name, its parameters differ, or it makes an invalid access.
    pub fn try_launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        parameters: &[Param<'_>],
    ) -> Result<(), String> {
        let symbol = format!("byoc_cpu_kernel_{name}");
        // SAFETY: the compiler gives symbols of that name this type (`BYOC_KERNEL`).
        let table: Symbol<'_, *const Table> =
            unsafe { self.library.get(symbol.as_bytes()) }.map_err(|_| format!("there is no kernel {name}"))?;
        // SAFETY: it is a table for as long as the library is open.
        let sizes: &[u32] = unsafe { std::slice::from_raw_parts((**table).sizes, (**table).parameters as usize) };
        let given: Vec<Vec<u8>> = parameters.iter().map(Param::bytes).collect();
        let lengths: Vec<_> = given.iter().map(|bytes| bytes.len() as u32).collect();
        if lengths != sizes {
            return Err(format!("{name} takes parameters of {sizes:?} bytes and is given {lengths:?}"));
        }
        let room: Vec<Buffer> = given.iter().map(|bytes| Buffer::of(bytes)).collect();
        let addresses: Vec<_> = room.iter().map(|room| room.cells[room.start..].as_ptr().cast::<c_void>()).collect();
        // SAFETY: every object of this compiler has it (cpu/launch.h).
        let launch: Symbol<'_, Launch> =
            unsafe { self.library.get(b"byoc_cpu_launch") }.map_err(|cause| cause.to_string())?;
        // SAFETY: the parameters are as many and as long as the kernel says. That it stays within its memory is what the test
        // is about.
        let said = unsafe { launch(*table, grid.as_ptr(), block.as_ptr(), shared.into(), addresses.as_ptr()) };
        if !said.is_null() {
            // SAFETY: it is a text, until the next launch.
            return Err(format!("{name}: {}", unsafe { CStr::from_ptr(said) }.to_string_lossy()));
        }
        let outside = parameters.iter().enumerate().find_map(|(number, parameter)| match parameter {
            Param::Buffer(buffer) => buffer.written_outside().map(|at| (number, at, buffer.bytes)),
            _ => None,
        });
        outside.map_or(Ok(()), |(number, at, bytes)| {
            Err(format!("{name} writes to byte {at} of parameter {number}, which has {bytes}"))
        })
    }
}

impl Param<'_> {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Param::Buffer(buffer) => buffer.address().bytes(),
            Param::Pointer(address) => address.bytes(),
            Param::Size(size) => size.bytes(),
            Param::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

/// The stand-in for NVRTC, open.
struct Nvrtc(Library);

static NVRTC: LazyLock<Nvrtc> = LazyLock::new(|| {
    let folder = temporary();
    Nvrtc::open(&build(folder.path(), "libnvrtc", "libnvrtc.so.13", &[]))
});

type Program = *mut c_void;
type Create =
    unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const c_void, *const c_void) -> c_int;

impl Nvrtc {
    fn open(path: &Path) -> Nvrtc {
        // SAFETY: it has no initialisers.
        Nvrtc(unsafe { Library::new(path) }.expect("it was built just now"))
    }

    /// The cubin of a text, or the log.
    fn compile(&self, text: &str) -> Result<Vec<u8>, String> {
        let source = CString::new(text).map_err(|cause| cause.to_string())?;
        let mut program: Program = std::ptr::null_mut();
        let nothing = std::ptr::null::<c_void>();
        // SAFETY: the functions have these signatures (nvrtc.h); the program lives until it is destroyed, and as many bytes are
        // written as it says.
        unsafe {
            let create: Symbol<'_, Create> = self.get("nvrtcCreateProgram");
            create(&raw mut program, source.as_ptr(), c"kernels.cu".as_ptr(), 0, nothing, nothing);
            let compile: Symbol<'_, unsafe extern "C" fn(Program, c_int, *const c_void) -> c_int> =
                self.get("nvrtcCompileProgram");
            let status = compile(program, 0, nothing);
            let (size, write) = match status {
                0 => ("nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
                _ => ("nvrtcGetProgramLogSize", "nvrtcGetProgramLog"),
            };
            let size: Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> c_int> = self.get(size);
            let write: Symbol<'_, unsafe extern "C" fn(Program, *mut u8) -> c_int> = self.get(write);
            let mut length = 0;
            size(program, &raw mut length);
            let mut bytes = vec![0; length];
            write(program, bytes.as_mut_ptr());
            let destroy: Symbol<'_, unsafe extern "C" fn(*mut Program) -> c_int> = self.get("nvrtcDestroyProgram");
            destroy(&raw mut program);
            if status == 0 { Ok(bytes) } else { Err(String::from_utf8_lossy(&bytes).trim_end_matches('\0').into()) }
        }
    }

    /// # Safety
    /// The function has that type.
    unsafe fn get<T>(&self, name: &str) -> Symbol<'_, T> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.0.get(name.as_bytes()) }.expect("the stand-in has it")
    }
}
