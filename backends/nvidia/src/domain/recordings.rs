//! Recordings of a stream's work: captured as CUDA graphs and instantiated.

use std::collections::BTreeMap;

use cudarc::driver::result::{DriverError, graph, stream};
use cudarc::driver::sys::{
    CUgraph, CUgraphExec, CUgraphInstantiate_flags as GraphFlags, CUstream, CUstreamCaptureMode as CaptureMode,
    cudaError_enum as Code,
};

/// The recordings of one stream, by number.
#[derive(Default)]
pub(super) struct Recordings {
    graphs: BTreeMap<u64, CUgraphExec>,
    made: u64,
    open: bool,
}

impl Recordings {
    /// Begins a capture, in thread-local mode: only this thread may not make calls that a capture does not allow.
    ///
    /// # Safety
    /// The stream is one of the current context, and the same in every call.
    pub(super) unsafe fn begin(&mut self, stream: CUstream) -> Result<(), DriverError> {
        // SAFETY: the caller vouches for the stream.
        unsafe { stream::begin_capture(stream, CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) }?;
        self.open = true;
        Ok(())
    }

    /// Ends the capture and keeps its graph. After a failure nothing of it is left.
    ///
    /// # Safety
    /// As for [`Recordings::begin`].
    pub(super) unsafe fn end(&mut self, stream: CUstream) -> Result<u64, DriverError> {
        // SAFETY: the caller vouches for the stream; the graph is used here only, and ended.
        let recorded = unsafe {
            let graph = self.capture(stream)?;
            let ready = graph::instantiate(graph, GraphFlags(0));
            let _ = graph::destroy(graph);
            ready?
        };
        // SAFETY: as above.
        if let Err(cause) = unsafe { graph::upload(recorded, stream) } {
            // SAFETY: nothing else knows it.
            let _ = unsafe { graph::exec_destroy(recorded) };
            return Err(cause);
        }
        self.made += 1;
        self.graphs.insert(self.made, recorded);
        Ok(self.made)
    }

    /// Ends the capture. If a call in between was not allowed, there is no graph, and the capture has ended all the same.
    ///
    /// # Safety
    /// As for [`Recordings::begin`].
    unsafe fn capture(&mut self, stream: CUstream) -> Result<CUgraph, DriverError> {
        // SAFETY: the caller vouches for the stream.
        let graph = unsafe { stream::end_capture(stream) };
        let wrong_thread = DriverError(Code::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        self.open &= graph.as_ref().err() == Some(&wrong_thread);
        match graph {
            Ok(graph) if graph.is_null() => Err(DriverError(Code::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)),
            other => other,
        }
    }

    /// Launches a graph. `None` for an unknown number.
    ///
    /// # Safety
    /// As for [`Recordings::begin`].
    pub(super) unsafe fn replay(&self, number: u64, stream: CUstream) -> Option<Result<(), DriverError>> {
        // SAFETY: the caller vouches for the stream; the graph lives until it is forgotten.
        self.graphs.get(&number).map(|graph| unsafe { graph::launch(*graph, stream) })
    }

    /// Destroys a graph after its work.
    ///
    /// # Safety
    /// As for [`Recordings::begin`].
    pub(super) unsafe fn forget(&mut self, number: u64, stream: CUstream) {
        if let Some(graph) = self.graphs.remove(&number) {
            // SAFETY: the caller vouches for the stream; the graph is known no more.
            unsafe {
                let _ = stream::synchronize(stream);
                let _ = graph::exec_destroy(graph);
            }
        }
    }

    /// Ends a capture in progress, waits, and destroys all graphs.
    ///
    /// # Safety
    /// As for [`Recordings::begin`].
    pub(super) unsafe fn destroy(&mut self, stream: CUstream) {
        // SAFETY: the caller vouches for the stream; the graphs are known no more.
        unsafe {
            if self.open
                && let Ok(graph) = self.capture(stream)
            {
                let _ = graph::destroy(graph);
            }
            let _ = stream::synchronize(stream);
            for graph in std::mem::take(&mut self.graphs).into_values() {
                let _ = graph::exec_destroy(graph);
            }
        }
    }
}
