//! Limits of a plugin's output for one region, so that a runaway does not fill the disk.

use byoc_plugin_api::{Constants, Error};

/// Bytes that a plugin may write besides what its constants allow.
const FREE: u64 = 1 << 30;

/// Bytes that it may write for each byte of a constant: each element in the widest type, and some forms of it.
const PER_BYTE: u64 = 8;

/// The remaining budget for one output: the code of a region, or its packed constants.
pub struct OutputBudget {
    what: &'static str,
    most: u64,
    taken: u64,
}

impl OutputBudget {
    /// `most` bytes of `what`; where that is 0, 1 GiB and eight times the bytes of the region's constants.
    pub fn new(what: &'static str, most: u64, constants: &Constants<'_>) -> OutputBudget {
        let bytes = constants.iter().fold(0u64, |bytes, (_, view)| bytes.saturating_add(view.byte_len() as u64));
        let most = if most > 0 { most } else { bytes.saturating_mul(PER_BYTE).saturating_add(FREE) };
        OutputBudget { what, most, taken: 0 }
    }

    /// For what that method of a backend writes; `None` where the answer is as short as answers have to be.
    pub(super) fn of_method(method: &str, most: u64, constants: &Constants<'_>) -> Option<OutputBudget> {
        let what = match method {
            "codegen" => "code",
            "constant_updater" => "packed constants",
            _ => return None,
        };
        Some(OutputBudget::new(what, most, constants))
    }

    /// Counts bytes before they are kept.
    ///
    /// # Errors
    ///
    /// When they are too many.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.taken <= self.most {
            return Ok(());
        }
        let error = Error::new(format!("it writes more than {} MiB of {}", self.most >> 20, self.what));
        Err(error.hint("Report this to the backend's maker, or allow more with --plugin-output"))
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::{ConstantId, TensorView};

    use super::*;

    #[test]
    fn it_grows_with_the_constants() {
        let weights = [0f32; 32];
        let view = TensorView::from_slice(&weights, &[32], &[1]).expect("a view");
        let most = |most, views| OutputBudget::new("code", most, &Constants::new(views)).most;
        assert_eq!(most(0, vec![]), 1 << 30);
        assert_eq!(most(0, vec![(ConstantId(0), view)]), (1 << 30) + 1024);
        assert_eq!(most(7, vec![]), 7);
    }

    #[test]
    fn what_is_too_much_is_an_error() {
        let mut budget = OutputBudget::new("packed constants", 3 << 20, &Constants::new(vec![]));
        let block = vec![0; 2 << 20];
        assert_eq!(budget.take(&block), Ok(()));
        let error = budget.take(&block).expect_err("4 of 3 MiB");
        assert_eq!(error.message, "it writes more than 3 MiB of packed constants");
        assert!(budget.take(&[]).is_err(), "what was refused counts");
    }
}
