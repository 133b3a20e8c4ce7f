//! The option `math`: the precision of f32 products.

use byoc_plugin_api::Options;

/// The name of the option.
pub(crate) const NAME: &str = "math";

/// Whether f32 may be rounded to TF32.
pub(crate) fn tf32(options: &Options) -> bool {
    options.text(NAME) == "tf32"
}
