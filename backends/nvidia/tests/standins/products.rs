//! The results of planned calls of cublasLt, against a plain loop over the matrices.

use std::ffi::c_void;

use byoc_nvidia::locate;
use byoc_nvidia::matmul::{Activation, Batch, Call, Offsets, Problem, View, plan};
use byoc_nvidia_standins::tried;
use byoc_plugin_api::testing::{Rng, decode, encode, rounded};
use byoc_plugin_api::{DType, Error};
use cudarc::cublaslt::{result as lt, sys};
use cudarc::driver::result::{self as driver, DriverError};
use cudarc::driver::sys::{CUgraphInstantiate_flags as GraphFlags, CUstream, CUstreamCaptureMode as CaptureMode};

use crate::child;
use crate::driver::stream;

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] =
    &[("products::random_problems", random_problems), ("products::a_type_without_an_algorithm", no_algorithm)];

/// Problems for each element type.
const PROBLEMS: u64 = 300;

/// How a matrix of one element type is computed with.
struct Kind {
    data: sys::cudaDataType,
    scale: sys::cudaDataType,
    compute: sys::cublasComputeType_t,
    dtype: DType,
    /// The largest relative error of a result that was rounded to the type once.
    tolerance: f64,
}

const F32: Kind = Kind {
    data: sys::cudaDataType::CUDA_R_32F,
    scale: sys::cudaDataType::CUDA_R_32F,
    compute: sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
    dtype: DType::F32,
    tolerance: 6e-8,
};
const F16: Kind = Kind { data: sys::cudaDataType::CUDA_R_16F, dtype: DType::F16, tolerance: 4.9e-4, ..F32 };
const BF16: Kind = Kind { data: sys::cudaDataType::CUDA_R_16BF, dtype: DType::BF16, tolerance: 4e-3, ..F32 };
const F64: Kind = Kind {
    data: sys::cudaDataType::CUDA_R_64F,
    scale: sys::cudaDataType::CUDA_R_64F,
    compute: sys::cublasComputeType_t::CUBLAS_COMPUTE_64F,
    dtype: DType::F64,
    tolerance: 1e-13,
};

fn random_problems() {
    let (output, log) = tried("products", &[]);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines, ["f32: 300 right", "f16: 300 right", "bf16: 300 right", "f64: 300 right"]);
    for what in
        ["matmul NN ", "matmul NT ", "matmul TN ", "matmul TT ", "batch 6 ", "epilogue 36", "launch graph: 3 pieces"]
    {
        assert!(log.contains(what), "no {what} in all problems");
    }
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "something leaks");
}

fn no_algorithm() {
    let (output, _) = tried("products", &[("STANDIN_REFUSE", "14")]);
    assert_eq!(output, "bf16: CUBLAS_STATUS_NOT_SUPPORTED ()");
}

/// Computes all problems of all types.
pub(crate) fn act() -> Result<Vec<String>, Error> {
    let search_path = child::search_path();
    locate::cublaslt(&search_path, &locate::driver(&search_path)?)?;
    let stream = stream().map_err(|cause| Error::new(cause.to_string()))?;
    let handle = lt::create_handle().map_err(|cause| Error::new(cause.to_string()))?;
    let mut lines = Vec::new();
    for kind in [F32, F16, BF16, F64] {
        let mut random = Rng::with_seed(7);
        for number in 0..PROBLEMS {
            let case = Case::new(&mut random, &kind);
            let got = case
                .computed(handle, stream.cu_stream())
                .map_err(|cause| Error::new(format!("{}: {cause}", kind.dtype)))?;
            case.compare(&got)
                .map_err(|what| Error::new(format!("{} {number}: {what}: {:?}", kind.dtype, case.problem)))?;
        }
        lines.push(format!("{}: {PROBLEMS} right", kind.dtype));
    }
    // SAFETY: the handle is not used any more.
    unsafe { lt::destroy_handle(handle) }.map_err(|cause| Error::new(cause.to_string()))?;
    Ok(lines)
}

/// A matrix in either order, packed or part of a wider one; and how many elements it spans. A distance along a
/// dimension of one element may be anything.
fn view(random: &mut Rng, rows: i64, columns: i64) -> (View, i64) {
    let gap = random.i64(0..2) * random.i64(0..4);
    let (mut view, span) = match random.i64(0..2) {
        0 => (View { row: columns + gap, column: 1 }, rows * (columns + gap)),
        _ => (View { row: 1, column: rows + gap }, columns * (rows + gap)),
    };
    if rows == 1 && random.i64(0..2) == 0 {
        view.row = random.i64(0..9);
    }
    if columns == 1 && random.i64(0..2) == 0 {
        view.column = random.i64(0..9);
    }
    (view, span)
}

/// A problem with its operands, in elements as f64 that the type can hold.
struct Case<'a> {
    kind: &'a Kind,
    problem: Problem,
    x: Vec<f64>,
    w: Vec<f64>,
    bias: Vec<f64>,
    /// How many elements Y spans.
    y: usize,
    /// Whether the calls are captured, and happen as a graph.
    captured: bool,
}

impl<'a> Case<'a> {
    fn new(random: &mut Rng, kind: &'a Kind) -> Self {
        let (m, n, k) = (1 + random.i64(0..6), 1 + random.i64(0..6), 1 + random.i64(0..6));
        let ((x, mut xs), (w, mut ws)) = (view(random, m, k), view(random, k, n));
        let y = View { row: n + random.i64(0..2) * random.i64(0..3), column: 1 };
        let mut ys = m * y.row;
        let mut batch = Vec::new();
        for _ in 0..random.i64(0..4) {
            let count = 1 + random.i64(0..3);
            let mut step = |span: &mut i64, may_repeat: bool| {
                let step =
                    if may_repeat && random.i64(0..3) == 0 { 0 } else { *span + random.i64(0..2) * random.i64(0..3) };
                *span += step * (count - 1);
                step
            };
            batch.insert(0, Batch { count, x: step(&mut xs, true), w: step(&mut ws, true), y: step(&mut ys, false) });
        }
        let activation = [Activation::None, Activation::Relu, Activation::GeluTanh][random.i64(0..3) as usize];
        let mut values = |count: i64| -> Vec<f64> {
            let value = |_| rounded(kind.dtype, 4.0 * random.f64() - 2.0);
            (0..count).map(value).collect()
        };
        let (x_values, w_values, bias) = (values(xs), values(ws), values(n));
        let bias_is_used = random.i64(0..2) == 1;
        let problem = Problem { m, n, k, batch, x, w, y, bias: bias_is_used, activation };
        Case { kind, problem, x: x_values, w: w_values, bias, y: ys as usize, captured: random.i64(0..4) == 0 }
    }

    /// What the planned calls leave in Y, which held NaN.
    fn computed(&self, handle: sys::cublasLtHandle_t, stream: CUstream) -> Result<Vec<u8>, String> {
        let plan = plan(&self.problem).map_err(|refusal| refusal.to_string())?;
        let text = |cause: DriverError| byoc_nvidia::device::explain(cause);
        let mut got = vec![0; self.y * self.kind.dtype.unpacked_bytes()];
        // SAFETY: every buffer spans what its views reach, `multiply` is given live ones, and each is freed once, after
        // the last use in the stream's order.
        unsafe {
            let upload = |values: &[f64]| {
                let bytes = encode(self.kind.dtype, values);
                let at = driver::malloc_sync(bytes.len())?;
                driver::memcpy_htod_async(at, &bytes, stream)?;
                Ok(at)
            };
            let [x, w, bias] =
                [upload(&self.x).map_err(text)?, upload(&self.w).map_err(text)?, upload(&self.bias).map_err(text)?];
            let y = driver::malloc_sync(got.len()).map_err(text)?;
            let workspace = driver::malloc_sync(WORKSPACE).map_err(text)?;
            let bias_at = self.problem.bias.then_some(bias);
            if self.captured {
                driver::stream::begin_capture(stream, CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
                    .map_err(text)?;
            }
            for offsets in &plan.offsets {
                let done = multiply(handle, stream, self.kind, &plan.call, *offsets, [w, x, y, workspace], bias_at);
                done.map_err(|cause| format!("{:?}", cause.0))?;
            }
            if self.captured {
                launch_captured(stream).map_err(text)?;
            }
            driver::memcpy_dtoh_async(&mut got, y, stream).map_err(text)?;
            driver::stream::synchronize(stream).map_err(text)?;
            for buffer in [x, w, bias, y, workspace] {
                driver::free_sync(buffer).map_err(text)?;
            }
        }
        Ok(got)
    }

    /// Compares with a loop over all elements. Elements of Y between the rows must not have been touched.
    fn compare(&self, got: &[u8]) -> Result<(), String> {
        let mut expected = vec![None; self.y];
        let mut starts = vec![(0, 0, 0)];
        for batch in &self.problem.batch {
            let steps = |(x, w, y)| (0..batch.count).map(move |i| (x + i * batch.x, w + i * batch.w, y + i * batch.y));
            starts = starts.into_iter().flat_map(steps).collect();
        }
        for (x, w, y) in starts {
            for row in 0..self.problem.m {
                for column in 0..self.problem.n {
                    let at = y + row * self.problem.y.row + column;
                    expected[at as usize] = Some(self.element(x, w, row, column));
                }
            }
        }
        for (at, (expected, got)) in expected.iter().zip(got.chunks(self.kind.dtype.unpacked_bytes())).enumerate() {
            let value = decode(self.kind.dtype, got)[0];
            let right = match expected {
                // Below the least normal number of f16, errors are absolute.
                Some(expected) => (value - expected).abs() <= self.kind.tolerance * expected.abs().max(6.2e-5),
                None => got.iter().all(|byte| *byte == 0xFF),
            };
            if !right {
                return Err(format!("element {at} is {value}, not {expected:?}"));
            }
        }
        Ok(())
    }

    fn element(&self, x: i64, w: i64, row: i64, column: i64) -> f64 {
        let problem = &self.problem;
        let terms = (0..problem.k).map(|i| {
            let left = self.x[(x + row * problem.x.row + i * problem.x.column) as usize];
            left * self.w[(w + i * problem.w.row + column * problem.w.column) as usize]
        });
        let sum = terms.sum::<f64>() + if problem.bias { self.bias[column as usize] } else { 0.0 };
        match problem.activation {
            Activation::None => sum,
            Activation::Relu => sum.max(0.0),
            Activation::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (sum + 0.044715 * sum.powi(3));
                0.5 * sum * (1.0 + inner.tanh())
            }
        }
    }
}

/// Ends the capture of a stream, and launches what it captured.
///
/// # Safety
///
/// The stream must be one that captures, and the memory that the captured work uses be live.
unsafe fn launch_captured(stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: graph and executable are used between their making and their end, in this order.
    unsafe {
        let graph = driver::stream::end_capture(stream)?;
        let executable = driver::graph::instantiate(graph, GraphFlags(0))?;
        driver::graph::launch(executable, stream)?;
        driver::stream::synchronize(stream)?;
        driver::graph::exec_destroy(executable)?;
        driver::graph::destroy(graph)
    }
}

/// Bytes of workspace.
const WORKSPACE: usize = 1024;

/// Makes one call. The buffers are A, B, D and the workspace.
///
/// # Safety
///
/// All buffers must be live device memory that spans what the call reaches from the offsets.
unsafe fn multiply(
    handle: sys::cublasLtHandle_t,
    stream: CUstream,
    kind: &Kind,
    call: &Call,
    offsets: Offsets,
    [a, b, d, workspace]: [u64; 4],
    bias: Option<u64>,
) -> Result<(), lt::CublasError> {
    use sys::cublasLtMatmulDescAttributes_t as Described;
    let layout = |sizes, leading, stride| layout(kind, sizes, leading, call.batch, stride);
    let described = lt::create_matmul_desc(kind.compute, kind.scale)?;
    let preference = lt::create_matmul_pref()?;
    let a_layout = layout(call.a(), call.lda, call.stride_a)?;
    let b_layout = layout(call.b(), call.ldb, call.stride_b)?;
    let d_layout = layout((call.m, call.n), call.ldc, call.stride_c)?;
    let workspace_bytes = WORKSPACE as u64;
    let (transa, transb) = (i32::from(call.transa), i32::from(call.transb));
    let at =
        |base: u64, offset: i64| (base + offset.unsigned_abs() * kind.dtype.unpacked_bytes() as u64) as *mut c_void;
    // Aligned for both scale types.
    let scale =
        |value: f64| if kind.dtype.unpacked_bytes() == 8 { value.to_bits() } else { (value as f32).to_bits().into() };
    // SAFETY: all descriptors were made above and are destroyed below, attributes have the sizes of their types, and the
    // caller answers for the buffers. Alpha and beta begin, in little-endian order, with a number of the scale type.
    unsafe {
        let set =
            |attribute, value: *const c_void, bytes| lt::set_matmul_desc_attribute(described, attribute, value, bytes);
        set(Described::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const transa).cast(), 4)?;
        set(Described::CUBLASLT_MATMUL_DESC_TRANSB, (&raw const transb).cast(), 4)?;
        set(Described::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const call.epilogue).cast(), 4)?;
        if let Some(bias) = bias {
            set(Described::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const bias).cast(), 8)?;
        }
        let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        lt::set_matmul_pref_attribute(preference, most, (&raw const workspace_bytes).cast(), 8)?;
        let found =
            lt::get_matmul_algo_heuristic(handle, described, a_layout, b_layout, d_layout, d_layout, preference)?;
        let (one, zero) = (scale(1.0), scale(0.0));
        let (to, stream) = (at(d, offsets.c), stream.cast());
        lt::matmul(
            handle,
            described,
            (&raw const one).cast(),
            (&raw const zero).cast(),
            at(a, offsets.a),
            a_layout,
            at(b, offsets.b),
            b_layout,
            to,
            d_layout,
            to,
            d_layout,
            &raw const found.algo,
            workspace as *mut c_void,
            WORKSPACE,
            stream,
        )?;
        lt::destroy_matmul_pref(preference)?;
        lt::destroy_matmul_desc(described)?;
        [a_layout, b_layout, d_layout].into_iter().try_for_each(|layout| lt::destroy_matrix_layout(layout))
    }
}

/// Describes the matrices of one operand.
fn layout(
    kind: &Kind,
    (rows, columns): (u64, u64),
    leading: i64,
    count: i32,
    stride: i64,
) -> Result<sys::cublasLtMatrixLayout_t, lt::CublasError> {
    use sys::cublasLtMatrixLayoutAttribute_t as Laid;
    let layout = lt::create_matrix_layout(kind.data, rows, columns, leading)?;
    let (count, stride) = (&raw const count, &raw const stride);
    // SAFETY: the layout was made just now, and the attributes have these sizes.
    unsafe {
        lt::set_matrix_layout_attribute(layout, Laid::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count.cast(), 4)?;
        lt::set_matrix_layout_attribute(layout, Laid::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride.cast(), 8)?;
    }
    Ok(layout)
}
