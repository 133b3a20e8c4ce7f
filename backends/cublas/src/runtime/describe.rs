//! Descriptors of a planned call, the choice of its algorithm, and the calls themselves.

use std::ffi::c_void;

use byoc_nvidia::matmul::{Call, MatmulPlan, Offsets};
use byoc_plugin_api::DType;
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys;
use cudarc::cublaslt::sys::cublasComputeType_t as Compute;
use cudarc::cublaslt::sys::cublasLtMatmulDescAttributes_t as Attribute;
use cudarc::cublaslt::sys::cublasLtMatmulPreferenceAttributes_t as Wish;
use cudarc::cublaslt::sys::cudaDataType as Data;
use cudarc::driver::sys::CUstream;

use super::bind::{Addresses, Operand, Operands};
use super::lt::{self, Description, Handle, Layout, Preference, Result};
use crate::codegen::{Math, Program};

/// The alignment that cublasLt assumes by default, and so the largest one worth passing.
const ALIGNMENT: u64 = 256;

/// The allowed reductions of split K, as bits of `cublasLtReductionScheme_t`: none, or in the type of the sums (2,
/// COMPUTE_TYPE). INPLACE and OUTPUT_TYPE would round partial sums to the type of the result.
const REDUCTIONS: u32 = 2;

/// One call, made once for each of its offsets.
pub(super) struct Described {
    dtype: DType,
    offsets: Vec<Offsets>,
    description: Description,
    a: Layout,
    b: Layout,
    /// The layout of C as well.
    d: Layout,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
    /// Alpha and beta.
    alpha: Number,
    beta: Number,
    /// The addresses of A, B, C and D for each offset, once they are known.
    pointers: Vec<[u64; 4]>,
    scratch: u64,
}

impl Described {
    /// Creates the descriptors of a plan and has cublasLt choose an algorithm with a workspace of at most so many bytes.
    pub(super) fn new(
        handle: &Handle,
        program: &Program,
        operands: &Operands,
        plan: MatmulPlan,
        most: u64,
    ) -> Result<Described> {
        let MatmulPlan { call, offsets } = plan;
        let product = &program.product;
        let dtype = product.dtype;
        let (data, scale, compute) = types(dtype, program.math);
        let description = Description::new(compute, scale)?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(call.transa))?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(call.transb))?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, call.epilogue)?;
        if let Some(bias) = &operands.bias {
            // The heuristic may depend on the address of the bias: an unknown one will have at least this alignment.
            let known = Some(bias.known_address()).filter(|&address| address != 0);
            description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, known.unwrap_or(ALIGNMENT))?;
        }
        let layout = |sizes, leading, stride| Layout::new(data, sizes, leading)?.repeated(call.batch, stride);
        let a = layout(call.a(), call.lda, call.stride_a)?;
        let b = layout(call.b(), call.ldb, call.stride_b)?;
        let d = layout((call.m, call.n), call.ldc, call.stride_c)?;
        let preference = preference(dtype, &call, &offsets, operands, most)?;
        // SAFETY: all of these were made above and live.
        let found =
            unsafe { result::get_matmul_algo_heuristic(handle.0, description.0, a.0, b.0, d.0, d.0, preference.0) };
        let found = lt::called("cublasLtMatmulAlgoGetHeuristic", found)?;
        let beta = product.c.as_ref().map_or(0.0, |c| c.beta);
        let (alpha, beta) = (number(product.alpha, dtype), number(beta, dtype));
        let (algorithm, workspace) = (found.algo, found.workspaceSize);
        let (pointers, scratch) = (Vec::new(), 0);
        Ok(Described { dtype, offsets, description, a, b, d, algorithm, workspace, alpha, beta, pointers, scratch })
    }

    /// Bytes of workspace that the algorithm needs.
    pub(super) fn workspace(&self) -> u64 {
        self.workspace as u64
    }

    /// Binds the addresses.
    pub(super) fn bind(&mut self, at: &Addresses, scratch: u64) -> Result<()> {
        if let Some(bias) = at.bias {
            self.description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        }
        let bytes = |elements: i64| elements.unsigned_abs() * self.dtype.unpacked_bytes() as u64;
        let pointers = |offset: &Offsets| {
            let [a, b, c] = [offset.a, offset.b, offset.c].map(bytes);
            [at.w + a, at.x + b, at.c + c, at.y + c]
        };
        self.pointers = self.offsets.iter().map(pointers).collect();
        self.scratch = scratch;
        Ok(())
    }

    /// Queues the calls.
    pub(super) fn run(&self, handle: &Handle, stream: CUstream) -> Result<()> {
        self.pointers.iter().try_for_each(|&[a, b, c, d]| {
            // SAFETY: the handle stays, and description, layouts and algorithm are this call's own. Whoever
            // prepared the region answers for the addresses, which hold what the layouts span, and for the scratch
            // memory, which has as many bytes.
            let queued = unsafe {
                result::matmul(
                    handle.0,
                    self.description.0,
                    (&raw const self.alpha).cast(),
                    (&raw const self.beta).cast(),
                    a as *const c_void,
                    self.a.0,
                    b as *const c_void,
                    self.b.0,
                    c as *const c_void,
                    self.d.0,
                    d as *mut c_void,
                    self.d.0,
                    &raw const self.algorithm,
                    self.scratch as *mut c_void,
                    self.workspace,
                    stream.cast(),
                )
            };
            lt::called("cublasLtMatmul", queued)
        })
    }
}

/// The preference: the workspace, no reduction in the type of the result, and the least alignment of each operand.
fn preference(dtype: DType, call: &Call, offsets: &[Offsets], operands: &Operands, most: u64) -> Result<Preference> {
    let preference = Preference::new()?;
    preference.set(Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most)?;
    preference.set(Wish::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, REDUCTIONS)?;
    let least = |operand: Option<&Operand>, offset: fn(&Offsets) -> i64, stride: i64| {
        let stride = if call.batch > 1 { stride } else { 0 };
        let steps = offsets.iter().map(offset).chain([stride]);
        let bytes = steps.map(|elements| elements.unsigned_abs() * dtype.unpacked_bytes() as u64);
        alignment(bytes.fold(operand.map_or(0, Operand::known_address), |all, offset| all | offset))
    };
    let a = least(Some(&operands.w), |offset| offset.a, call.stride_a);
    let b = least(Some(&operands.x), |offset| offset.b, call.stride_b);
    let c = least(operands.c.as_ref(), |offset| offset.c, call.stride_c);
    // An epilogue reads the bias as it writes D.
    let d = least(None, |offset| offset.c, call.stride_c);
    let bias = alignment(operands.bias.as_ref().map_or(0, Operand::known_address));
    preference.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a)?;
    preference.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b)?;
    preference.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c)?;
    preference.set(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d.min(bias))?;
    Ok(preference)
}

/// The greatest power of two, up to [`ALIGNMENT`], that divides addresses and distances with these bits.
fn alignment(bits: u64) -> u32 {
    1 << (bits | ALIGNMENT).trailing_zeros()
}

/// The types of elements, of alpha and beta (the scale type), and of the sums (the compute type).
fn types(dtype: DType, math: Math) -> (Data, Data, Compute) {
    let single = Data::CUDA_R_32F;
    match (dtype, math) {
        (DType::F64, _) => (Data::CUDA_R_64F, Data::CUDA_R_64F, Compute::CUBLAS_COMPUTE_64F),
        (DType::F16, _) => (Data::CUDA_R_16F, single, Compute::CUBLAS_COMPUTE_32F),
        (DType::BF16, _) => (Data::CUDA_R_16BF, single, Compute::CUBLAS_COMPUTE_32F),
        (_, Math::Tf32) => (single, single, Compute::CUBLAS_COMPUTE_32F_FAST_TF32),
        (_, Math::F32) => (single, single, Compute::CUBLAS_COMPUTE_32F),
    }
}

/// Alpha or beta, to be passed as f32 or as f64.
#[repr(C)]
union Number {
    single: f32,
    double: f64,
}

/// Alpha or beta in the scale type of a product.
fn number(value: f32, dtype: DType) -> Number {
    match dtype {
        DType::F64 => Number { double: value.into() },
        _ => Number { single: value },
    }
}
