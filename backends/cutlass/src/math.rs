//! The option `math`: with what precision f32 is multiplied.

use byoc_plugin_api::Options;

/// The name of the option.
pub(crate) const NAME: &str = "math";

/// Whether f32 may be rounded to TF32.
pub(crate) fn tf32(options: &Options) -> bool {
    options.text(NAME) == "tf32"
}
