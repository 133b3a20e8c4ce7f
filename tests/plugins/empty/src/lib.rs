//! A plugin that forgot to register its backend.

byoc_plugin_api::export_plugin!();
