//! Collects what `constant_updater` claims, as core does.

use crate::constants::{Claim, ClaimSink, Packed};
use crate::error::Error;
use crate::region::ConstantId;

/// Claims with the bytes of packed constants, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed(pub Vec<(ConstantId, Claim, Vec<u8>)>);

impl ClaimSink for Claimed {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        if self.0.iter().any(|(known, ..)| *known == id) {
            return Err(Error::new(format!("constant {id} is claimed twice")));
        }
        self.0.push((id, claim.clone(), Vec::new()));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.0.last_mut() {
            Some((_, Claim::Packed(_), packed)) => packed.extend_from_slice(bytes),
            _ => return Err(Error::new("bytes that do not follow the claim of a packed constant")),
        }
        Ok(())
    }
}

impl Claimed {
    /// Each claim as a word: `host`, `packed`, `embedded` or `unused`.
    pub fn words(&self) -> Vec<&'static str> {
        let word = |claim: &Claim| match claim {
            Claim::Host => "host",
            Claim::Packed(_) => "packed",
            Claim::Embedded => "embedded",
            Claim::Unused => "unused",
        };
        self.0.iter().map(|(_, claim, _)| word(claim)).collect()
    }

    /// The packed constants: how they are to be read, and their bytes.
    pub fn packed(&self) -> Vec<(&Packed, &[u8])> {
        let entries = self.0.iter().filter_map(|(_, claim, bytes)| match claim {
            Claim::Packed(packed) => Some((packed, bytes.as_slice())),
            _ => None,
        });
        entries.collect()
    }
}
