//! onnxruntime, as one process that answers for the whole run.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use byoc_core::ops::cast::{from_onnx, to_onnx};
use byoc_tests::tensor::Tensor;
use byoc_tests::trial::Needed;
use byoc_tests::{data, places};

use super::graph::Case;

/// Longer than any answer's texts and tensors are.
const MOST_BYTES: u64 = 1 << 30;

/// The outputs of each run, or why there are none.
pub(crate) type Answer = Result<Vec<Vec<Tensor>>, String>;

/// The process.
pub(crate) struct Oracle {
    python: std::path::PathBuf,
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts it, where onnxruntime is to be had.
    pub(crate) fn start() -> Needed<Oracle> {
        let python = data::python()?;
        let process = Mutex::new(Process::start(&python));
        Ok(Oracle { python, process })
    }

    /// Runs a case. A process that dies is an answer, and is followed by another process.
    pub(crate) fn ask(&self, case: &Case) -> Answer {
        let mut process = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        process.ask(case).unwrap_or_else(|error| {
            let status = process.child.wait();
            *process = Process::start(&self.python);
            Err(format!("onnxruntime ended: {error}, {status:?}"))
        })
    }
}

impl Process {
    fn start(python: &Path) -> Process {
        let script = places::checkout().join("tests/python/oracle.py");
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove("PYTHONPATH");
        let mut child = command.spawn().expect("the environment has an interpreter");
        let requests = BufWriter::new(child.stdin.take().expect("piped"));
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Process { child, requests, answers }
    }

    fn ask(&mut self, case: &Case) -> io::Result<Answer> {
        self.send(&case.to_onnx())?;
        self.number(case.runs)?;
        for run in 0..case.runs {
            let inputs = case.inputs(run);
            self.number(inputs.len())?;
            for (name, tensor) in inputs {
                self.send(name.as_bytes())?;
                self.number(to_onnx(tensor.dtype) as usize)?;
                self.number(tensor.shape.len())?;
                tensor.shape.iter().try_for_each(|&size| self.number(size as usize))?;
                self.send(&tensor.bytes)?;
            }
        }
        self.requests.flush()?;
        if self.read_number()? != 0 {
            return Ok(Err(String::from_utf8_lossy(&self.read_bytes()?).into_owned()));
        }
        let outputs = |process: &mut Process| case.outputs.iter().map(|_| process.read_tensor()).collect();
        (0..case.runs).map(|_| outputs(self)).collect::<io::Result<_>>().map(Ok)
    }

    fn number(&mut self, value: usize) -> io::Result<()> {
        self.requests.write_all(&(value as u64).to_le_bytes())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len())?;
        self.requests.write_all(bytes)
    }

    fn read_number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.answers.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn read_bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.read_number()?;
        assert!(length < MOST_BYTES, "an answer of {length} bytes");
        let mut bytes = vec![0; length as usize];
        self.answers.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_tensor(&mut self) -> io::Result<Tensor> {
        let dtype = from_onnx(self.read_number()? as i64).expect("a type that byoc has");
        let rank = self.read_number()?;
        let shape = (0..rank).map(|_| Ok(self.read_number()? as i64)).collect::<io::Result<_>>()?;
        Ok(Tensor::new(dtype, shape, self.read_bytes()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is ours, and has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
