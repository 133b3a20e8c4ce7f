//! Tells backends what was done to the pixels of a data set.

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Selected;
use byoc_plugin_api::{OptionKind, Options};

use super::Files;

/// Options of text by these names say the same for every backend that declares them: what is taken from each pixel, and what it is
/// divided by after that, as numbers with commas between.
const MEAN: &str = "input-mean";
const STD: &str = "input-std";

impl Files {
    /// Sets the options `input-mean` and `input-std` of backends that have them and where the user has not, if samples are images.
    pub fn tell(&self, backends: &mut [Selected]) -> Result<()> {
        if !self.place.has_images() {
            return Ok(());
        }
        let text = |list: &[f32], default: &str| match list {
            [] => default.to_owned(),
            list => list.iter().map(f32::to_string).collect::<Vec<_>>().join(","),
        };
        let (mean, std) = (text(&self.normalisation.mean, "0"), text(&self.normalisation.std, "1"));
        for selected in backends {
            for (name, value) in [(MEAN, &mean), (STD, &std)] {
                let specs = selected.registered.description.options.iter();
                let spec = specs.clone().find(|spec| spec.name == name && spec.kind == OptionKind::Text);
                let Some(spec) = spec.filter(|spec| selected.options.text(name) == spec.default) else { continue };
                let told = Options::resolve(std::slice::from_ref(spec), [(name, value.as_str())]);
                let told = told.map_err(|error| Diagnostic::new(Code::Usage, error.to_string()))?;
                selected.options = selected.options.clone().and(&told);
            }
        }
        Ok(())
    }
}
