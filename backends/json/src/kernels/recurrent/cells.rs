//! The functions of the gates of one sequence at one step.

use super::Cell;
use crate::kernels::activation::activate;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::math;
use crate::kernels::simd::V16;

/// What is computed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    /// The state times the reset gate of a GRU, which its hidden gate is a product with.
    Reset,
    /// The next state.
    All,
}

/// One sequence at one step. All slices are whole vectors: gates of `hidden.len()` values each.
pub(super) struct Gates<'a> {
    pub(super) part: Part,
    pub(super) cell: Cell,
    /// What all gates get from the input, with the bias.
    pub(super) from_input: &'a [f32],
    /// What they get from the state.
    pub(super) from_state: &'a [f32],
    /// The bias of the state's part of a GRU's hidden gate, where the reset gate is multiplied with both.
    pub(super) bias: &'a [f32],
    pub(super) hidden: &'a mut [f32],
    /// The cell of an LSTM.
    pub(super) memory: &'a mut [f32],
    pub(super) reset: &'a mut [f32],
}

impl Gates<'_> {
    pub(super) fn run(self, isa: Isa) {
        let size = self.hidden.len();
        assert!(size.is_multiple_of(BLOCK) && [self.bias.len(), self.memory.len(), self.reset.len()] == [size; 3]);
        assert!([self.from_input.len(), self.from_state.len()] == [size * self.cell.gates(); 2]);
        dispatch(isa, self);
    }

    /// The sum of a gate at element `j`.
    ///
    /// # Safety
    /// The CPU has the features of `V`; gate and element exist.
    #[inline(always)]
    unsafe fn sum<V: V16>(&self, gate: usize, j: usize) -> V {
        let at = gate * self.hidden.len() + j;
        // SAFETY: the caller vouches for it.
        unsafe { V::load(self.from_input.as_ptr().add(at)).add(V::load(self.from_state.as_ptr().add(at))) }
    }

    /// The next state and cell of an LSTM at element `j`.
    ///
    /// # Safety
    /// As [`Gates::sum`].
    #[inline(always)]
    unsafe fn lstm<V: V16>(&mut self, j: usize) {
        // SAFETY: the caller vouches for it; the cell is as long as the state.
        unsafe {
            let memory = self.memory.as_mut_ptr().add(j);
            let opened = math::sigmoid::<V>(self.sum(0, j));
            let kept = math::sigmoid::<V>(self.sum(2, j));
            let cell = kept.fma(V::load(memory), opened.mul(math::tanh(self.sum(3, j))));
            cell.store(memory);
            let shown = math::sigmoid::<V>(self.sum(1, j));
            shown.mul(math::tanh(cell)).store(self.hidden.as_mut_ptr().add(j));
        }
    }

    /// The next state of a GRU at element `j`.
    ///
    /// # Safety
    /// As [`Gates::sum`].
    #[inline(always)]
    unsafe fn gru<V: V16>(&mut self, linear_before_reset: bool, j: usize) {
        // SAFETY: the caller vouches for it; the bias is as long as the state.
        unsafe {
            let hidden = self.hidden.as_mut_ptr().add(j);
            let candidate = if linear_before_reset {
                let at = 2 * self.hidden.len() + j;
                let of_state = V::load(self.from_state.as_ptr().add(at)).add(V::load(self.bias.as_ptr().add(j)));
                let reset = math::sigmoid::<V>(self.sum(1, j));
                reset.fma(of_state, V::load(self.from_input.as_ptr().add(at)))
            } else {
                self.sum(2, j)
            };
            let candidate = math::tanh(candidate);
            // (1 - update) candidate + update hidden
            let update = math::sigmoid::<V>(self.sum(0, j));
            update.fma(V::load(hidden).sub(candidate), candidate).store(hidden);
        }
    }
}

impl Kernel for Gates<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(mut self) {
        let mut j = 0;
        while j < self.hidden.len() {
            // SAFETY: `dispatch` checked the features, and the caller the lengths.
            unsafe {
                match (self.part, self.cell) {
                    (Part::Reset, _) => {
                        let hidden = V::load(self.hidden.as_ptr().add(j));
                        let reset = math::sigmoid::<V>(self.sum(1, j));
                        reset.mul(hidden).store(self.reset.as_mut_ptr().add(j));
                    }
                    (Part::All, Cell::Lstm) => self.lstm::<V>(j),
                    (Part::All, Cell::Gru { linear_before_reset }) => self.gru::<V>(linear_before_reset, j),
                    (Part::All, Cell::Rnn { act }) => {
                        activate::<V>(act, self.sum(0, j)).store(self.hidden.as_mut_ptr().add(j));
                    }
                }
            }
            j += BLOCK;
        }
    }
}
