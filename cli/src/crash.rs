//! Reports a backend that ends the process while it runs a region: one line as for any other error, with the names of backend
//! and region.

use std::io::{IoSlice, IsTerminal};
use std::sync::OnceLock;

use byoc_core::Ending;
use byoc_core::diagnostic::Code;

/// What is written before the line: a terminal may show a progress bar.
static BEFORE: OnceLock<&str> = OnceLock::new();

/// From here on, such an end is reported.
pub(crate) fn watch() {
    // A sanitizer has handlers of its own, which say more.
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    if preloaded.to_string_lossy().contains("san") {
        return;
    }
    let _ = BEFORE.set(if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" });
    byoc_core::on_crashes(report);
}

/// Runs in a signal handler: one system call, no memory, no lock.
fn report(ending: Ending, name: &str) -> i32 {
    let code = Code::BackendCrashed;
    let mut digits = [0; 10];
    let (what, number, end): (&[u8], &[u8], &[u8]) = match ending {
        Ending::Signal(signal) => (b" crashed (signal ", decimal(signal, &mut digits), b")"),
        Ending::Exit => (b" ended the process", b"", b""),
    };
    let line = [
        BEFORE.get().unwrap_or(&"").as_bytes(),
        b"error: [",
        code.id().as_bytes(),
        b"] ",
        name.as_bytes(),
        what,
        number,
        end,
        b" while it ran\n  hint: Report this to the backend's maker; leave it out of --backend to compile without it\n",
    ];
    // Bypasses the lock of `std`'s stderr.
    let _ = rustix::io::writev(std::io::stderr(), &line.map(IoSlice::new));
    code.exit().into()
}

/// The number in decimal, written without memory of its own.
fn decimal(number: i32, digits: &mut [u8; 10]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut at = digits.len();
    while at > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 7, 11, 64, i32::MAX] {
            assert_eq!(decimal(number, &mut [0; 10]), number.to_string().as_bytes());
        }
    }
}
