//! A kernel on the device, without core: compiled, loaded and run on buffers of its own.

use byoc_nvidia::compile::{Cache, Needs, Request, Toolchain};
use byoc_nvidia::launch;
use byoc_nvidia::locate::CudaSearchPath;
use byoc_nvidia::program::{Program, Tensor};
use byoc_plugin_api::{DeviceConstants, DeviceExecutable, DeviceTensor, Domain, Environment, Options};

use crate::fixture::Fixture;
use crate::gpu::POISON;
use crate::report::{Result, ensure, failure};

/// The machine code of a source for that architecture, from the cache or compiled now.
pub(crate) fn compiled(name: &str, text: &str, arch: &str) -> Result<Vec<u8>> {
    let toolchain = Toolchain::find(&CudaSearchPath::of_process(None))?;
    let (needs, options) = (Needs::default(), &[]);
    let request = Request { name, source: text, arch: arch.parse()?, options, needs, memory: 0 };
    Ok(toolchain.compile(&request, &Cache::of_process())?.bytes)
}

/// A program on the device, without core: it owns its buffers.
pub(crate) struct Kernel<'a> {
    fixture: &'a Fixture,
    executable: Box<dyn DeviceExecutable>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl<'a> Kernel<'a> {
    /// Loads a program that has no constants.
    pub(crate) fn load(fixture: &'a Fixture, program: &Program, cubin: &[u8]) -> Result<Kernel<'a>> {
        let mut code = Vec::new();
        program.write(&[cubin], &mut code)?;
        let environment = Environment { threads: 1, options: Options::default() };
        let constants = DeviceConstants::new(Vec::new());
        let handles = fixture.gpu().domain.handles();
        let executable = launch::load_on("cuda", &code, &constants, &environment, &handles)?;
        Ok(Kernel { fixture, executable, inputs: program.inputs.clone(), outputs: program.outputs.clone() })
    }

    /// Runs once on inputs of these bytes and shapes: the bytes of the only output, which was NaN before.
    pub(crate) fn run(&mut self, inputs: &[(&[u8], &[i64])], shape: &[i64]) -> Result<Vec<u8>> {
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
        let inputs: Vec<_> =
            shaped.map(|((known, (_, shape)), &address)| DeviceTensor { address, dtype: known.dtype, shape }).collect();
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
