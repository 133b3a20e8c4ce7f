//! A backend with files of its own: each multiplies a tensor by numbers. A file is one line of JSON; in the code of a
//! region another line follows, which is for nobody else. A file may also say how the backend is to misbehave.

mod file;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, CodeFile, DType, Description, Environment, Error, Executable, FileFormat,
    Generated, HostRuntime, Job, OptionSpec, Options, Pattern, Refusal, RefusalCode, Region, RegionPolicy, Runtime,
    Table, TensorView, TensorViewMut, Value,
};

use crate::file::{File, VERSION};

struct Scale;

impl Backend for Scale {
    fn describe(&self) -> Description {
        let format = FileFormat { extension: "scale".into(), summary: "A tensor and its factors".into() };
        let version = OptionSpec::int("version", 1, "The version of the files to write");
        let starts_with = vec!["Mul".into()];
        Description {
            name: "file-format".into(),
            version: "1.0.0".into(),
            code_version: 1,
            summary: "Multiplies by constants".into(),
            regions: RegionPolicy { max_inputs: Some(1), starts_with, ..RegionPolicy::default() },
            options: vec![version],
            files: vec![format],
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(vec![Pattern::new("scale", "(Mul ?x ?by:const)")])
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        let shape = |value: usize| candidate.values[value].fixed_shape();
        let factors = candidate.constants.first().and_then(|constant| shape(constant.value));
        if candidate.values.iter().any(|value| value.dtype != DType::F32) {
            return Err(Refusal::new(RefusalCode::Type, "only f32 is taken"));
        }
        match (candidate.inputs.first().and_then(|&x| shape(x)), factors) {
            (Some(x), Some(by)) if x.ends_with(&by) || by.iter().product::<usize>() == 1 => Ok(()),
            _ => {
                Err(Refusal::new(RefusalCode::Shape, "there must be one factor, or one for each of the last elements"))
            }
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let Job { region, constants, options, .. } = *job;
        let (x, y) = (&region.values[region.inputs[0]], &region.values[region.outputs[0]]);
        let shape = y.fixed_shape().ok_or_else(|| Error::new("the shape is open"))?;
        let by = constants.get(region.constants[0].id).ok_or_else(|| Error::new("the factors are missing"))?;
        let by = by.to_vec::<f32>()?;
        job.log(format!("{} factors", by.len()));
        job.progress(0, 1, "the file");
        let notes = match by.iter().all(|&by| by == 1.0) {
            true => vec!["the factor is 1, so nothing is computed".into()],
            false => Vec::new(),
        };
        let by = by.into_iter().map(f32::to_bits).collect();
        let version = options.int("version");
        let file = File { version, x: x.name.clone(), y: y.name.clone(), shape, by, ..File::default() };
        serde_json::to_writer(&mut *code, &file)?;
        writeln!(code, "\nfor {}", region.symbol)?;
        Ok(Generated { notes, ..Generated::default() })
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.unused(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }

    fn open(&self, file: &[u8]) -> Result<CodeFile, Error> {
        let (file, bytes) = File::read(file)?;
        if let Some(answer) = file.answer {
            return Ok(answer);
        }
        let value = |name: &str| Value {
            name: name.into(),
            dtype: DType::F32,
            shape: file.shape.iter().map(|&size| size.into()).collect(),
        };
        let factors: Vec<_> = file.factors().map(|by| by.to_string()).collect();
        let cells = ["Mul".into(), factors.join(" ")];
        let columns = ["step".into(), ">factor".into()];
        let table = Table { title: "steps".into(), columns: columns.into(), rows: vec![cells.into()] };
        Ok(CodeFile {
            format: format!("scale v{VERSION}"),
            file_bytes: bytes as u64,
            inputs: vec![value(&file.x)],
            outputs: vec![value(&file.y)],
            tables: vec![table],
        })
    }
}

impl HostRuntime for Scale {
    fn load<'a>(
        &self,
        code: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let (file, _) = File::read(code)?;
        match file.fault.as_deref() {
            Some("load") => Err(Error::new("the device is busy").hint("Wait")),
            _ => Ok(Box::new(Loaded(file))),
        }
    }
}

struct Loaded(File);

impl Executable for Loaded {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        if self.0.fault.as_deref() == Some("run") {
            return Err(Error::new("the device is gone"));
        }
        let (Some(x), Some(y)) = (inputs[0].as_slice::<f32>(), outputs[0].as_mut_slice::<f32>()) else {
            return Err(Error::new("expected tensors of f32"));
        };
        for ((y, x), by) in y.iter_mut().zip(x).zip(self.0.factors().cycle()) {
            *y = x * by;
        }
        Ok(())
    }
}

byoc_plugin_api::register_backend!(Scale);
byoc_plugin_api::export_plugin!("file-format");
