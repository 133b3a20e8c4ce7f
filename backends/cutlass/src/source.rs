//! Joins kernels to one source, in which shared headers occur once.

use byoc_nvidia::build::Source;
use byoc_nvidia::compile::{CubinInfo, Needs};
use byoc_nvidia::program::Launch;
use byoc_plugin_api::Error;

/// A kernel as CUDA C++, and its launch.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The headers before it, in this order, once in a source.
    pub(crate) parts: Vec<&'static str>,
    /// One `extern "C" __global__` function with its helpers.
    pub(crate) text: String,
    /// Its launch. With `launch_info`, the bytes of shared memory are those of the cubin.
    pub(crate) launch: Launch,
    /// The tile that the kernel exports as `<symbol>_launch_info`, after threads of a block and bytes of shared memory; `None`
    /// if it exports nothing.
    pub(crate) launch_info: Option<Vec<u32>>,
    /// The headers that it includes.
    pub(crate) needs: Needs,
    /// Bytes of memory for its compilation.
    pub(crate) memory: u64,
    /// From this it can be generated again with other tiles; null if there are none.
    pub(crate) recipe: serde_json::Value,
}

/// The source of several kernels.
pub(crate) fn source(name: &str, kernels: &[Kernel]) -> Source {
    let mut parts: Vec<&str> = Vec::new();
    for part in kernels.iter().flat_map(|kernel| &kernel.parts) {
        if !parts.contains(part) {
            parts.push(part);
        }
    }
    let texts = kernels.iter().map(|kernel| kernel.text.as_str());
    Source {
        name: name.to_owned(),
        text: parts.into_iter().chain(texts).collect::<Vec<_>>().join("\n"),
        needs: kernels.iter().fold(Needs::default(), |all, kernel| Needs {
            half: all.half | kernel.needs.half,
            cccl: all.cccl | kernel.needs.cccl,
            cutlass: all.cutlass | kernel.needs.cutlass,
        }),
        memory: kernels.iter().map(|kernel| kernel.memory).max().unwrap_or(0),
    }
}

impl Kernel {
    /// Its launch, completed by the launch info of the cubin.
    ///
    /// # Errors
    ///
    /// When the cubin disagrees with what was computed here.
    pub(crate) fn settle(&self, info: &CubinInfo<'_>) -> Result<Launch, Error> {
        let Some(expected) = &self.launch_info else { return Ok(self.launch.clone()) };
        let Launch { kernel, block, .. } = &self.launch;
        let words = info.words(&format!("{kernel}_launch_info")).unwrap_or_default();
        let words: Vec<u32> = words.into_iter().filter_map(|word| u32::try_from(word).ok()).collect();
        match words.split_first_chunk() {
            Some(([threads, shared], tile)) if *threads == block[0] && tile == *expected => {
                Ok(Launch { shared: *shared, ..self.launch.clone() })
            }
            _ => {
                let message = format!("'{kernel}' exports {words:?}, not {} threads and {:?}", block[0], expected);
                Err(Error::new(message))
            }
        }
    }
}
