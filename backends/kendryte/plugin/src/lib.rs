//! The Kendryte K210 backend as a dynamic library. The backend itself is a crate of its own, because the command line
//! embeds it: a crate that exports a plugin cannot be linked into a program that may hold another.

use byoc_kendryte_backend as _;

byoc_plugin_api::export_plugin!("kendryte");
