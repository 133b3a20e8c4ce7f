//! Reports a backend that ends the process while it runs a region: one line as for any other error, with the names of backend
//! and region.

use byoc_core::Ending;
use byoc_core::diagnostic::Code;
use byoc_core::plugin::CRASH_HINT;

use crate::report::in_handler;

/// From here on, such an end is reported.
pub(crate) fn watch() {
    in_handler::prepare();
    byoc_core::on_crashes(report);
}

/// Runs in a signal handler.
fn report(ending: Ending, name: &str) -> i32 {
    let mut digits = [0; 10];
    let (what, number, end): (&[u8], &[u8], &[u8]) = match ending {
        Ending::Signal(signal) => (b" crashed (signal ", decimal(signal, &mut digits), b") while it ran"),
        Ending::Exit => (b" ended the process", b"", b" while it ran"),
    };
    in_handler::error(Code::BackendCrashed, [name.as_bytes(), what, number, end], CRASH_HINT)
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
