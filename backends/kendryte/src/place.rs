//! Gives every tensor of a net its address: main memory and KPU RAM, each shared by tensors that are never alive
//! together.

use byoc_dim::{Lifetime, plan_arena};
use byoc_plugin_api::Refusal;

use crate::kmodel::check::GENERAL_MEMORY;
use crate::kmodel::layout::{Layout, ROWS};
use crate::net::{Form, Net, Tensor};

/// What the accelerator's transfers to main memory and the sums of bytes work in (kmodel v3, section 3).
const WORD: u64 = 8;

/// Addresses of a net's tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// By tensor: a byte offset in main memory, or a row of KPU RAM.
    pub(crate) addresses: Vec<u32>,
    /// Bytes of main memory.
    pub(crate) main_memory: u32,
    /// Rows of KPU RAM.
    pub(crate) rows: u32,
}

/// Places every tensor. Refuses what does not fit.
pub(crate) fn place(net: &Net) -> Result<Placement, Refusal> {
    let lifetimes = lifetimes(net);
    let mut addresses = vec![0; net.tensors.len()];
    let mut arena = |kpu: bool, limit: u32, what: &str| {
        let members: Vec<_> = (0..net.tensors.len()).filter(|&id| (net.tensors[id].form == Form::Kpu) == kpu).collect();
        let members_lifetimes: Vec<_> = members.iter().map(|&id| lifetimes[id]).collect();
        let plan = plan_arena(&members_lifetimes, if kpu { 1 } else { WORD as usize });
        if plan.size > limit as usize {
            return Err(Refusal::limit(what, plan.size as f64, f64::from(limit)));
        }
        for (&id, &offset) in members.iter().zip(&plan.offsets) {
            addresses[id] = offset as u32;
        }
        Ok(plan.size as u32)
    };
    let rows = arena(true, ROWS, "rows of KPU RAM for maps that are needed at the same time")?;
    let main_memory =
        arena(false, GENERAL_MEMORY, "bytes of main memory for tensors that are needed at the same time")?;
    Ok(Placement { addresses, main_memory, rows })
}

/// When each tensor is there, in steps.
fn lifetimes(net: &Net) -> Vec<Lifetime> {
    let mut lifetimes: Vec<_> =
        net.tensors.iter().map(|tensor| Lifetime { size: size(tensor) as usize, first: 0, last: 0 }).collect();
    for (index, step) in net.steps.iter().enumerate() {
        for &tensor in &step.outputs {
            (lifetimes[tensor].first, lifetimes[tensor].last) = (index, index);
        }
        for &tensor in &step.inputs {
            lifetimes[tensor].last = index;
        }
    }
    for &tensor in &net.outputs {
        lifetimes[tensor].last = net.steps.len();
    }
    lifetimes
}

/// Rows of KPU RAM, or bytes of main memory.
fn size(tensor: &Tensor) -> u64 {
    match tensor.form {
        Form::Kpu => Layout::new(tensor.shape.width).rows(tensor.shape.channels, tensor.shape.height),
        Form::Bytes | Form::Floats => tensor.bytes().next_multiple_of(WORD),
    }
}
