//! Compiles a region to a kmodel: lowers it, assigns addresses and scales, writes it, and checks every invariant.

mod budget;
mod conv;
mod image;
mod layers;
mod scales;
mod stored;
mod weights;

use std::io::Write;

use byoc_plugin_api::{Constants, Error, Generated, Job, Options, Refusal, Region};

use self::image::Image;
use self::scales::Scales;
use crate::kmodel::{Kmodel, Output};
use crate::lower::{Settings, lower};
use crate::net::{Form, Net, Step, Work};
use crate::place::{Placement, place};
use crate::quantize::Quantization;
use crate::trailer::{Input, Named, Trailer};

/// Most pixels of a map that a layer can say of what it sends to main memory (kmodel v3, layer argument 11).
const MOST_PIXELS: u64 = 1 << 16;

/// What code generation looks at for one region.
struct Network<'a> {
    region: &'a Region,
    constants: &'a Constants<'a>,
    net: Net,
    placement: Placement,
    scales: Scales,
    image: Image,
}

/// Writes the kmodel of a region, and the trailer behind it.
pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let Job { region, constants, options, .. } = *job;
    require_whole_model(region, options)?;
    let net = lower(region, Settings::of(options)).map_err(refused)?;
    require_one_input(&net)?;
    let placement = place(&net).map_err(refused)?;
    let image = Image::of(region, &net, options)?;
    let scales = Scales::of(region, &net, options.text("calibrate-method"), &image)?;
    let network = Network { region, constants, net, placement, scales, image };
    let kmodel = network.kmodel()?;
    if let Some(problem) = kmodel.check().first() {
        return Err(Error::new(format!("the kmodel would break a rule: {problem}")));
    }
    let mut file = kmodel.emit()?;
    let mut notes = network.scales.notes(region);
    notes.extend(network.border_notes()?);
    notes.extend(network.map_notes());
    notes.extend(network.check_budget(file.len(), options)?);
    network.trailer()?.append(&mut file)?;
    code.write_all(&file)?;
    Ok(Generated { notes, ..Generated::default() })
}

fn refused(refusal: Refusal) -> Error {
    Error::new(refusal.to_string())
}

fn require_whole_model(region: &Region, options: &Options) -> Result<(), Error> {
    if !options.bool("require-whole-model") || region.covers_entry {
        return Ok(());
    }
    Err(Error::new("the region is not the whole model, and require-whole-model is set")
        .hint("byoc explain shows which nodes were refused and why"))
}

/// The first layer of a kmodel takes the input, and only a convolution does (kmodel v3, first layer rule).
fn require_one_input(net: &Net) -> Result<(), Error> {
    match *net.inputs.as_slice() {
        [input] if net.tensors[input].form == Form::Kpu => Ok(()),
        _ => Err(Error::new("the region does not start with a convolution of its one input")),
    }
}

impl Network<'_> {
    fn kmodel(&self) -> Result<Kmodel, Error> {
        let mut layers = Vec::new();
        for step in &self.net.steps {
            self.layers(step, &mut layers)?;
        }
        let outputs = self.net.outputs.iter().map(|&output| Output {
            address: self.placement.addresses[output],
            size: self.net.tensors[output].bytes() as u32,
        });
        // The lowest row that is in use: maps are placed from row 0 on.
        let max_start_address = 0;
        Ok(Kmodel { max_start_address, main_memory: self.placement.main_memory, outputs: outputs.collect(), layers })
    }

    fn trailer(&self) -> Result<Trailer, Error> {
        let [input] = *self.region.inputs.as_slice() else { return Err(Error::new("the region has several inputs")) };
        let quantization = self.scales.of_value(input)?;
        let named = |value: usize| {
            let value = &self.region.values[value];
            Named { name: value.name.clone(), dtype: value.dtype, shape: value.fixed_shape().unwrap_or_default() }
        };
        let Quantization { scale, zero_point } = quantization;
        let channels = self.image.scales();
        let scale = channels.is_empty().then_some(scale);
        Ok(Trailer {
            input: Input { value: named(input), scale, zero_point, given: self.scales.is_given(input), channels },
            outputs: self.region.outputs.iter().map(|&output| named(output)).collect(),
            scales: self.scales.rows(self.region),
        })
    }

    /// What the user should know about maps whose pixels do not fit into the 16 bits that a layer has for them.
    fn map_notes(&self) -> Vec<String> {
        let large = |step: &&Step| {
            let copy = step.outputs.get(1).map(|&copy| self.net.tensors[copy].shape);
            matches!(step.work, Work::Conv(_))
                && copy.is_some_and(|map| u64::from(map.width) * u64::from(map.height) > MOST_PIXELS)
        };
        let note = |step: &Step| {
            let map = &self.net.tensors[step.outputs[0]];
            format!(
                "'{}' goes to main memory in maps of {}x{}: more than {MOST_PIXELS} pixels do not fit into a number of its layer, and \
                 what a board does then is not known",
                self.region.values[map.value].name, map.shape.height, map.shape.width
            )
        };
        self.net.steps.iter().filter(large).map(note).collect()
    }
}
