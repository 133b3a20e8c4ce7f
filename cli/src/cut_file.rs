//! Reports a file that another program truncates while it is mapped: one line as for any other error, in place of the end
//! by a signal.

use byoc_core::diagnostic::Code;

use crate::report::in_handler;

/// From here on, such a file is reported.
pub(crate) fn watch() {
    in_handler::prepare();
    byoc_core::on_cut_files(report);
}

/// Runs in a signal handler.
fn report(file: &[u8]) -> i32 {
    const HINT: &str =
        "Put the whole file back and try again; where files are replaced, rename the new one into its place";
    in_handler::error(Code::DamagedArtifact, [b"'", file, b"' was cut short while it was in use", b""], HINT)
}
