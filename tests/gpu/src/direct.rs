//! One product of matrices by direct calls of cublasLt: the baseline for byoc's times.

use std::ffi::c_void;

use byoc_plugin_api::{DType, Domain};
use cudarc::cublaslt::result;
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulPreferenceAttributes_t as Wish, cudaDataType as Data,
};

use crate::gpu::Gpu;
use crate::report::{Result, failure};

/// Bytes of scratch memory that an algorithm may use: the default of the backend.
const WORKSPACE: u64 = 32 << 20;

/// A bias and GELU, of `cublasLtEpilogue_t`.
const GELU_BIAS: u32 = 36;

/// What to multiply: `y = x w`, or `y = gelu(x w + bias)`, of row-major matrices.
pub(crate) struct Problem<'a> {
    /// M, N and K: `x` is M by K, `w` is K by N.
    pub(crate) sizes: [usize; 3],
    pub(crate) dtype: DType,
    /// Whether f32 is multiplied in TF32.
    pub(crate) tf32: bool,
    pub(crate) x: &'a [u8],
    pub(crate) w: &'a [u8],
    pub(crate) bias: Option<&'a [u8]>,
}

/// A product that is ready to be computed.
pub(crate) struct Direct {
    handle: sys::cublasLtHandle_t,
    description: sys::cublasLtMatmulDesc_t,
    /// Of `w`, `x` and `y`.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace_bytes: usize,
    x: u64,
    w: u64,
    y: u64,
    bias: u64,
    workspace: u64,
    bytes: usize,
    /// The call, recorded as byoc's work is, so that both take the host the same time.
    recording: Option<u64>,
}

/// The types of elements and of sums.
fn types(dtype: DType, tf32: bool) -> Result<(Data, Compute)> {
    Ok(match (dtype, tf32) {
        (DType::F16, _) => (Data::CUDA_R_16F, Compute::CUBLAS_COMPUTE_32F),
        (DType::BF16, _) => (Data::CUDA_R_16BF, Compute::CUBLAS_COMPUTE_32F),
        (DType::F32, true) => (Data::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F_FAST_TF32),
        (DType::F32, false) => (Data::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F),
        _ => return failure(format!("no direct call for {dtype}")),
    })
}

impl Direct {
    /// Sends the matrices and has cublasLt choose an algorithm.
    pub(crate) fn new(gpu: &mut Gpu, problem: &Problem<'_>) -> Result<Direct> {
        let (data, compute) = types(problem.dtype, problem.tf32)?;
        let [x, w, bias] = [problem.x, problem.w, problem.bias.unwrap_or(&[0; 4])].map(|bytes| send(gpu, bytes));
        let [m, n, k] = problem.sizes.map(|size| size as u64);
        let (x, w, bias, bytes) = (x?, w?, bias?, (m * n) as usize * problem.dtype.unpacked_bytes());
        let (y, workspace) = (gpu.domain.allocate(bytes as u64)?, gpu.domain.allocate(WORKSPACE)?);
        let _entered = gpu.enter()?;
        let (handle, description) = (result::create_handle()?, result::create_matmul_desc(compute, Data::CUDA_R_32F)?);
        // Row-major matrices are the transposed ones, column-major.
        let layout = |columns: u64, rows: u64| result::create_matrix_layout(data, columns, rows, columns as i64);
        let layouts @ [of_w, of_x, of_y] = [layout(n, k)?, layout(k, m)?, layout(n, m)?];
        let preference = result::create_matmul_pref()?;
        // SAFETY: all were made above, and every value has the type that cublasLt.h gives its attribute.
        let found = unsafe {
            let most = WORKSPACE;
            if problem.bias.is_some() {
                let (epilogue, bias) = (GELU_BIAS, bias);
                let set = |attribute, value: *const c_void, size| {
                    result::set_matmul_desc_attribute(description, attribute, value, size)
                };
                set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), size_of::<u32>())?;
                set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const bias).cast(), size_of::<u64>())?;
            }
            let wish = Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            result::set_matmul_pref_attribute(preference, wish, (&raw const most).cast(), size_of::<u64>())?;
            let found = result::get_matmul_algo_heuristic(handle, description, of_w, of_x, of_y, of_y, preference);
            result::destroy_matmul_pref(preference)?;
            found?
        };
        let (algorithm, workspace_bytes) = (found.algo, found.workspaceSize);
        let recording = None;
        let mut direct = Direct {
            handle,
            description,
            layouts,
            algorithm,
            workspace_bytes,
            x,
            w,
            y,
            bias,
            workspace,
            bytes,
            recording,
        };
        // What is loaded by the first call cannot be while it is recorded.
        direct.queue(gpu)?;
        gpu.domain.synchronize()?;
        gpu.domain.begin_recording()?;
        let queued = direct.queue(gpu);
        direct.recording = Some(gpu.domain.end_recording()?);
        queued?;
        Ok(direct)
    }

    /// Multiplies once, and waits.
    pub(crate) fn run(&self, gpu: &mut Gpu) -> Result<()> {
        match self.recording {
            Some(recording) => gpu.domain.replay(recording)?,
            None => self.queue(gpu)?,
        }
        Ok(gpu.domain.synchronize()?)
    }

    /// Queues the call.
    fn queue(&self, gpu: &mut Gpu) -> Result<()> {
        let _entered = gpu.enter()?;
        let ((one, zero), [of_w, of_x, of_y]) = ((1f32, 0f32), self.layouts);
        // SAFETY: handle, description, layout and algorithm are its own, addresses are of memory that they span. Row-major
        // `x w` is column-major `w' x'`: W comes first.
        unsafe {
            result::matmul(
                self.handle,
                self.description,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                self.w as *const c_void,
                of_w,
                self.x as *const c_void,
                of_x,
                self.y as *const c_void,
                of_y,
                self.y as *mut c_void,
                of_y,
                &raw const self.algorithm,
                self.workspace as *mut c_void,
                self.workspace_bytes,
                gpu.stream().cast(),
            )
        }?;
        Ok(())
    }

    /// The bytes of the result.
    pub(crate) fn result(&self, gpu: &mut Gpu) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both ranges are of so many bytes, and the copy is waited for.
        unsafe { gpu.domain.download(bytes.as_mut_ptr(), self.y, self.bytes) }?;
        gpu.domain.synchronize()?;
        Ok(bytes)
    }

    /// Gives everything back.
    pub(crate) fn end(self, gpu: &mut Gpu) -> Result<()> {
        if let Some(recording) = self.recording {
            gpu.domain.forget(recording);
        }
        let _entered = gpu.enter()?;
        // SAFETY: made in `new`, destroyed once; the work was waited for.
        unsafe {
            for layout in self.layouts {
                result::destroy_matrix_layout(layout)?;
            }
            result::destroy_matmul_desc(self.description)?;
            result::destroy_handle(self.handle)?;
            for address in [self.x, self.w, self.y, self.bias, self.workspace] {
                gpu.domain.release(address);
            }
        }
        Ok(())
    }
}

/// Memory that holds these bytes.
fn send(gpu: &mut Gpu, bytes: &[u8]) -> Result<u64> {
    let address = gpu.domain.allocate(bytes.len() as u64)?;
    // SAFETY: both ranges are of so many bytes, and the copy is waited for.
    unsafe { gpu.domain.upload(address, bytes.as_ptr(), bytes.len()) }?;
    gpu.domain.synchronize()?;
    Ok(address)
}
