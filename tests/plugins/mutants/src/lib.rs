//! Backends into which a bug can be planted, to see whether the conformance kit finds it: one backend for each family of
//! operators, with plain loops for kernels. Their option `bug` says which bug; the default `none` is the right code, which
//! every case of the kit must find right. Each bug is one that makers of backends have made, and is planted by one `if`
//! where the right code is, so that `has("NAME")` finds it.

mod axes;
mod backend;
mod call;
mod check;
mod elementwise;
mod merged;
mod movement;
mod panels;
mod products;
mod program;
mod tensor;
#[cfg(test)]
mod tests;
mod windows;

use backend::Mutant;

static WINDOWS: Mutant = windows::BACKEND;
static PRODUCTS: Mutant = products::BACKEND;
static ELEMENTWISE: Mutant = elementwise::BACKEND;
static AXES: Mutant = axes::BACKEND;
static MOVEMENT: Mutant = movement::BACKEND;

byoc_plugin_api::register_backend!(WINDOWS);
byoc_plugin_api::register_backend!(PRODUCTS);
byoc_plugin_api::register_backend!(ELEMENTWISE);
byoc_plugin_api::register_backend!(AXES);
byoc_plugin_api::register_backend!(MOVEMENT);
byoc_plugin_api::register_backend!(merged::Merged);
byoc_plugin_api::export_plugin!(
    "mutant-windows",
    "mutant-products",
    "mutant-elementwise",
    "mutant-axes",
    "mutant-movement",
    "mutant-merged"
);
