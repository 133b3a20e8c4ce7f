//! Contexts, memory, streams, modules and graphs through cudarc.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use byoc_nvidia::{device, locate};
use byoc_nvidia_standins::{Child, FOLDER, both, shield, temporary, tried};
use byoc_plugin_api::Error;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{
    self, CUfunction_attribute_enum as Attribute, CUgraphInstantiate_flags as GraphFlags,
    CUstreamCaptureMode as CaptureMode, cudaError_enum as Code,
};
use cudarc::driver::{CudaContext, CudaStream};

use crate::child;

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("driver::what_is_taken_is_given_back", what_is_taken_is_given_back),
    ("driver::memory_runs_out", memory_runs_out),
    ("driver::a_device_that_failed_stays_so", a_device_that_failed_stays_so),
    ("driver::failures_that_end_the_process", failures_that_end_the_process),
    ("driver::graphs_happen_when_they_are_launched", graphs_happen_when_they_are_launched),
    ("driver::what_a_capture_does_not_allow_ends_it", what_a_capture_does_not_allow_ends_it),
    ("driver::what_is_not_given_back_is_told", what_is_not_given_back_is_told),
    ("driver::launches_keep_the_limits", launches_keep_the_limits),
];

/// Names the file of a module.
const IMAGE: &str = "STANDIN_IMAGE";

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    locate::driver(&child::search_path())?;
    if action == "failures" {
        return failures();
    }
    let done = match action {
        "round" => round(),
        "allocate" => allocate(),
        "fault" => fault(),
        "capture" => capture(),
        "refuse" => refuse(),
        "keep" => keep(),
        "launch" => launch(),
        _ => return Err(Error::new(format!("no action {action}"))),
    };
    done.map_err(|cause| Error::new(device::explain(cause)))
}

/// The first device's primary context and a stream of its own, without events.
pub(crate) fn stream() -> Result<Arc<CudaStream>, DriverError> {
    let context = CudaContext::new(0)?;
    // SAFETY: all work of these processes is on one stream, in order.
    unsafe { context.disable_event_tracking() };
    context.new_stream()
}

/// What fails, in words.
fn said<T>(result: Result<T, DriverError>) -> String {
    result.err().map_or("done".into(), device::explain)
}

fn round() -> Result<Vec<String>, DriverError> {
    let (stream, other) = (stream()?, CudaContext::new(0)?);
    let same = stream.context().cu_ctx() == other.cu_ctx();
    let sent = stream.clone_htod(&[1.0f32, -2.5, 3.0])?;
    // SAFETY: the stand-in gives memory that holds NaN; nothing is assumed of it here.
    let mut copied = unsafe { stream.alloc::<f32>(3) }?;
    let fresh = stream.clone_dtoh(&copied)?;
    stream.memcpy_dtod(&sent, &mut copied)?;
    let got = stream.clone_dtoh(&copied)?;
    stream.memset_zeros(&mut copied)?;
    let zeros = stream.clone_dtoh(&copied)?;
    stream.synchronize()?;
    Ok(vec![format!("{same} {fresh:?} {got:?} {zeros:?}")])
}

fn what_is_taken_is_given_back() {
    let (output, log) = tried("round", &[]);
    assert_eq!(output, "true [NaN, NaN, NaN] [1.0, -2.5, 3.0] [0.0, 0.0, 0.0]");
    let expected = "retain 0: 1\ncreate stream\nretain 0: 2\nallocate 12\nupload 12\nallocate 12\ndownload 12\n\
                    copy 12\ndownload 12\nfill 12\ndownload 12\nsynchronize stream";
    let (used, given_back) = log.split_at(expected.len());
    assert_eq!(used, expected);
    let mut given_back: Vec<_> = given_back.trim().lines().collect();
    assert_eq!(given_back.pop(), Some("release 0: 0, 0 bytes live"), "{log}");
    for line in ["free 12", "free 12", "destroy stream"] {
        let at = given_back.iter().position(|given| *given == line).unwrap_or_else(|| panic!("no {line} in {log}"));
        given_back.remove(at);
    }
    assert!(given_back.iter().all(|line| line.starts_with("release 0: 1, ")), "{log}");
}

fn allocate() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    let first = stream.alloc_zeros::<u8>(600)?;
    let second = said(stream.alloc_zeros::<u8>(600));
    drop(first);
    Ok(vec![second, said(stream.alloc_zeros::<u8>(1000))])
}

fn memory_runs_out() {
    let (output, log) = tried("allocate", &[("STANDIN_MEMORY", "1000")]);
    assert_eq!(output, "CUDA_ERROR_OUT_OF_MEMORY: out of memory\ndone");
    assert!(log.contains("allocate 600: out of memory\nfree 600\nallocate 1000\n"), "{log}");
}

fn fault() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    let mut bytes = stream.alloc_zeros::<u8>(8)?;
    let queued = said(stream.memcpy_htod(&[7u8; 8], &mut bytes));
    Ok(vec![queued, said(stream.synchronize()), said(stream.alloc_zeros::<u8>(8))])
}

/// The call that queues the work succeeds, as on a device; a later wait returns the failure.
fn a_device_that_failed_stays_so() {
    let (output, log) = tried("fault", &[("STANDIN_FAULT", "2")]);
    let failure = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered";
    assert_eq!(output, format!("done\n{failure}\n{failure}"));
    assert!(log.contains("fill 8\nfault in upload 8\n"), "{log}");
}

/// What is said of failures from which a process does, and does not, recover.
fn failures() -> Result<Vec<String>, Error> {
    let device = device::one(&locate::driver(&child::search_path())?, 0)?;
    let codes = [
        Code::CUDA_ERROR_CONTAINED,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS,
        Code::CUDA_ERROR_TENSOR_MEMORY_LEAK,
        Code::CUDA_ERROR_EXTERNAL_DEVICE,
        Code::CUDA_ERROR_OUT_OF_MEMORY,
        Code::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    ];
    Ok(codes.into_iter().map(|code| child::told(device.failed("copy", DriverError(code)))).collect())
}

/// The stand-in has texts for two of these only.
fn failures_that_end_the_process() {
    let scratch = temporary();
    let child = Child::new("failures").with(FOLDER, both()).with("LD_LIBRARY_PATH", shield(scratch.path()));
    let output = child.output(both());
    let ended = |text: &str| {
        let hint = "CUDA accepts no more work from this process: start it again";
        format!("earlier work on cuda:0 failed: {text} ({hint})")
    };
    let expected = [
        ended("CUDA_ERROR_CONTAINED"),
        ended("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
        ended("CUDA_ERROR_TENSOR_MEMORY_LEAK"),
        ended("CUDA_ERROR_EXTERNAL_DEVICE"),
        "cuda:0 cannot copy: CUDA_ERROR_OUT_OF_MEMORY: out of memory (Use a smaller batch, or another device)".into(),
        "cuda:0 cannot copy: CUDA_ERROR_CONTEXT_IS_DESTROYED ()".into(),
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
}

fn capture() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    let (source, mut target) = (stream.clone_htod(&[5u8; 4])?, stream.alloc_zeros::<u8>(4)?);
    stream.begin_capture(CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memcpy_dtod(&source, &mut target)?;
    let graph = stream.end_capture(GraphFlags(0))?;
    let before = stream.clone_dtoh(&target)?;
    if let Some(graph) = &graph {
        graph.upload()?;
        graph.launch()?;
        stream.memset_zeros(&mut target)?;
        graph.launch()?;
    }
    let after = stream.clone_dtoh(&target)?;
    Ok(vec![format!("{before:?} {after:?}")])
}

fn graphs_happen_when_they_are_launched() {
    let (output, log) = tried("capture", &[]);
    assert_eq!(output, "[0, 0, 0, 0] [5, 5, 5, 5]");
    let captured = "begin capture\nend capture: 1 pieces of work\ndownload 4\nlaunch graph: 1 pieces of work\ncopy 4\n\
                    fill 4\nlaunch graph: 1 pieces of work\ncopy 4\ndownload 4\n";
    assert!(log.contains(captured), "{log}");
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn refuse() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    let mut target = stream.alloc_zeros::<u8>(4)?;
    stream.begin_capture(CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memset_zeros(&mut target)?;
    let refused = [said(stream.synchronize()), said(stream.alloc_zeros::<u8>(4))];
    Ok([refused.to_vec(), vec![said(stream.end_capture(GraphFlags(0)))]].concat())
}

fn what_a_capture_does_not_allow_ends_it() {
    let (output, log) = tried("refuse", &[]);
    let refused = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: operation not permitted when stream is capturing";
    let lost = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: operation failed due to a previous error during capture";
    assert_eq!(output, format!("{refused}\n{refused}\n{lost}"));
    let captured =
        "begin capture\nrefused synchronize during capture\nrefused allocate during capture\nend capture: lost\n";
    assert!(log.contains(captured), "{log}");
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}

fn keep() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    std::mem::forget(stream.context().new_event(None)?);
    // SAFETY: nothing is done with the memory, which is never given back.
    unsafe { result::malloc_host(8, 0) }?;
    // SAFETY: as above.
    unsafe { result::malloc_sync(8) }?;
    // The event holds the context too.
    // SAFETY: the context was retained for the stream and the event, which are not used any more.
    unsafe { result::primary_ctx::release(stream.context().cu_device()) }?;
    std::mem::forget(stream);
    Ok(Vec::new())
}

/// Else the end of a log would say nothing.
fn what_is_not_given_back_is_told() {
    let (_, log) = tried("keep", &[]);
    let left = "release 0: 0, 8 bytes live\nleft over on 0: 1 host memory\nleft over on 0: 1 streams\n\
                left over on 0: 1 events";
    assert!(log.ends_with(left), "{log}");
}

/// A cubin as far as the stand-in looks: an object file of the host's, which says that it is for a device.
fn image(folder: &Path) -> String {
    let (source, object) = (folder.join("module.c"), folder.join("module.o"));
    std::fs::write(&source, "void k_add(void) {}\nint k_launch_info[3] = {128, 0, 7};\n").expect("the folder is ours");
    let status = std::process::Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object).status();
    assert!(status.expect("Rust links with it").success());
    let mut bytes = std::fs::read(&object).expect("the compiler wrote it");
    // The field e_machine, and what stands there for CUDA.
    bytes[18..20].copy_from_slice(&190u16.to_le_bytes());
    std::fs::write(&object, bytes).expect("the folder is ours");
    object.to_string_lossy().into_owned()
}

fn launch() -> Result<Vec<String>, DriverError> {
    let stream = stream()?;
    let image = std::fs::read(std::env::var_os(IMAGE).expect("the case sets it")).expect("the case wrote it");
    let name = |text: &str| CString::new(text).expect("a name has no zero");
    // SAFETY: the image is a whole object file, what is asked of the module is its own, and the kernels, which the
    // stand-in does not run, take no arguments.
    unsafe {
        let module = result::module::load_data(image.as_ptr().cast())?;
        let kernel = result::module::get_function(module, name("k_add"))?;
        let absent = said(result::module::get_function(module, name("k_sub")));
        let (at, bytes) = result::module::get_global(module, name("k_launch_info"))?;
        let mut info = [0i32; 3];
        result::memcpy_dtoh_async(&mut info, at, stream.cu_stream())?;
        let launch = |(x, y, z), block, shared| {
            let config = sys::CUlaunchConfig {
                gridDimX: x,
                gridDimY: y,
                gridDimZ: z,
                blockDimX: block,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: shared,
                hStream: stream.cu_stream(),
                attrs: std::ptr::null_mut(),
                numAttrs: 0,
            };
            let nothing = std::ptr::null_mut();
            said(sys::cuLaunchKernelEx(&raw const config, kernel, nothing, nothing).result())
        };
        let mut lines = vec![absent, format!("{bytes} {info:?}")];
        lines.push([launch((4, 2, 1), 1024, 0), launch((1, 1, 1), 1025, 0), launch((1, 70_000, 1), 32, 0)].join(", "));
        let most = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let before = launch((1, 1, 1), 32, 100_000);
        let too_much = said(result::function::set_function_attribute(kernel, most, 300_000));
        result::function::set_function_attribute(kernel, most, 100_000)?;
        lines.push([before, too_much, launch((1, 1, 1), 32, 100_000)].join(", "));
        result::module::unload(module)?;
        Ok(lines)
    }
}

fn launches_keep_the_limits() {
    let scratch = temporary();
    let (output, log) = tried("launch", &[(IMAGE, &image(scratch.path()))]);
    let (absent, refused) =
        ("CUDA_ERROR_NOT_FOUND: named symbol not found", "CUDA_ERROR_INVALID_VALUE: invalid argument");
    let expected = format!("{absent}\n12 [128, 0, 7]\ndone, {refused}, {refused}\n{refused}, {refused}, done");
    assert_eq!(output, expected);
    assert!(log.contains("launch k_add grid 4 2 1 block 1024 1 1 shared 0\nrefused launch\nrefused launch\n"), "{log}");
    assert!(log.contains("launch k_add grid 1 1 1 block 32 1 1 shared 100000\nfree 12\nunload module\n"), "{log}");
    assert!(log.ends_with("release 0: 0, 0 bytes live"), "{log}");
}
