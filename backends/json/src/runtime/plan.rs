//! Memory planning: views and cuts share the memory of what they are of, parts of a concatenation are computed in place, an
//! elementwise kernel overwrites an input at its last use, and the rest is packed into one arena.

use std::collections::HashMap;

use byoc_dim::{Lifetime, plan_arena};

use super::buffer::ALIGNMENT;
use super::memory::{Slot, Storage};
use crate::program::{Op, Program};

/// The memory plan of a program for given sizes.
pub(super) struct Plan {
    /// The place of each value that is in use.
    pub(super) places: Vec<Slot>,
    /// Bytes of the arena.
    pub(super) arena_bytes: usize,
    /// Values to copy to an output at the end, because they live elsewhere.
    pub(super) copies: Vec<(usize, usize)>,
}

/// What the plan must know of a step beside its values.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    /// Inputs that the kernel can overwrite with its output 0, the best first.
    pub(super) in_place: Vec<usize>,
    /// Whether output 0 is the inputs one after another in memory.
    pub(super) joins: bool,
    /// Where each output is in input 0, in bytes, if every one of them is a run of its elements: then nothing is to be moved.
    pub(super) cuts: Vec<usize>,
}

/// Values that share memory form a tree: each is at an offset in its parent.
struct Groups<'p> {
    program: &'p Program,
    sizes: &'p [usize],
    parent: Vec<Option<(usize, usize)>>,
    /// For roots: homes outside the arena, and the steps of first write and last read of any member.
    storage: Vec<Option<Storage>>,
    outputs: Vec<bool>,
    first: Vec<usize>,
    last: Vec<usize>,
}

/// A part of a concatenation, before that is planned.
struct Part {
    /// The group that it is in, and where.
    root: usize,
    start: usize,
    bytes: usize,
}

/// How many of the first parts, one at least, lie in the same group one after the other.
fn run_len(parts: &[Part]) -> usize {
    let follows = |pair: &&[Part]| pair[0].root == pair[1].root && pair[0].start + pair[0].bytes == pair[1].start;
    1 + parts.windows(2).take_while(follows).count()
}

/// Plans the memory of a program whose values have `sizes` bytes.
pub(super) fn plan(program: &Program, sizes: &[usize], sharing: &[Sharing]) -> Plan {
    let mut groups = Groups::new(program, sizes);
    groups.join_views();
    groups.join_cuts(sharing);
    groups.join_parts(sharing);
    groups.find_lifetimes();
    groups.join_in_place(sharing);
    groups.place()
}

impl<'p> Groups<'p> {
    fn new(program: &'p Program, sizes: &'p [usize]) -> Self {
        let count = program.values.len();
        let mut groups = Groups {
            program,
            sizes,
            parent: vec![None; count],
            storage: vec![None; count],
            outputs: vec![false; count],
            first: vec![usize::MAX; count],
            last: vec![0; count],
        };
        for (index, &value) in program.inputs.iter().enumerate() {
            groups.storage[value] = Some(Storage::Input(index));
        }
        for (index, constant) in program.constants.iter().enumerate() {
            groups.storage[constant.value] = Some(Storage::Constant(index));
        }
        program.outputs.iter().for_each(|&value| groups.outputs[value] = true);
        groups
    }

    /// The root of a value's group and the value's offset in it.
    fn root(&self, value: usize) -> (usize, usize) {
        let (mut at, mut offset) = (value, 0);
        while let Some((parent, inner)) = self.parent[at] {
            at = parent;
            offset += inner;
        }
        (at, offset)
    }

    /// Attaches a value, and those that it is attached to, to their root: chains of them may be long.
    fn shorten(&mut self, value: usize) {
        let (root, _) = self.root(value);
        let (mut chain, mut at) = (Vec::new(), value);
        while let Some((parent, inner)) = self.parent[at].filter(|(parent, _)| *parent != root) {
            chain.push((at, inner));
            at = parent;
        }
        let mut offset = self.parent[at].map_or(0, |(_, inner)| inner);
        for (at, inner) in chain.into_iter().rev() {
            offset += inner;
            self.parent[at] = Some((root, offset));
        }
    }

    /// Puts the group of the root `child` at `offset` in the group of the root `parent`.
    fn attach(&mut self, child: usize, parent: usize, offset: usize) {
        self.parent[child] = Some((parent, offset));
        self.outputs[parent] |= self.outputs[child];
        self.first[parent] = self.first[parent].min(self.first[child]);
        self.last[parent] = self.last[parent].max(self.last[child]);
    }

    fn join_views(&mut self) {
        for step in &self.program.steps {
            if let (Op::View, Some(input), Some(output)) = (&step.op, step.input(0), step.output(0)) {
                let (root, offset) = self.root(input);
                self.attach(output, root, offset);
            }
        }
    }

    /// Leaves what is cut out of a value where it is, unless a part leaves the region: it is written there at once.
    fn join_cuts(&mut self, sharing: &[Sharing]) {
        for (step, sharing) in self.program.steps.iter().zip(sharing) {
            let Some(input) = step.input(0) else { continue };
            if step.outputs.iter().flatten().any(|&output| self.outputs[self.root(output).0]) {
                continue;
            }
            for (&output, &start) in step.outputs.iter().zip(&sharing.cuts) {
                let (root, offset) = self.root(input);
                if let Some(output) = output {
                    // Nothing else writes the output: so it is the root of a group, perhaps with views of it.
                    self.attach(output, root, offset + start);
                }
            }
        }
    }

    /// Computes the parts of a concatenation where they belong. Parts that are another group one after the other, such as what was
    /// concatenated before, go there together; a part that lives elsewhere already is copied later.
    fn join_parts(&mut self, sharing: &[Sharing]) {
        for (step, _) in self.program.steps.iter().zip(sharing).filter(|(_, sharing)| sharing.joins) {
            let Some(whole) = step.output(0) else { continue };
            let (target, mut offset) = self.root(whole);
            step.inputs.iter().flatten().for_each(|&part| self.shorten(part));
            let parts: Vec<Part> = step.inputs.iter().flatten().map(|&part| self.part(part)).collect();
            let mut uses: HashMap<usize, usize> = HashMap::new();
            parts.iter().for_each(|part| *uses.entry(part.root).or_default() += 1);
            let mut rest = parts.as_slice();
            while let Some(&Part { root, .. }) = rest.first() {
                let run = run_len(rest);
                let bytes = rest[..run].iter().map(|part| part.bytes).sum::<usize>();
                let free = self.storage[root].is_none() && !self.outputs[root] && self.sizes[root] == bytes;
                // What is part of two inputs can be in one place only, and would be read while it is written.
                let once = uses[&root] == run;
                if free && once && rest[0].start == 0 && root != target && self.storage[target].is_none() {
                    self.attach(root, target, offset);
                }
                offset += bytes;
                rest = &rest[run..];
            }
        }
    }

    fn part(&self, value: usize) -> Part {
        let (root, start) = self.root(value);
        Part { root, start, bytes: self.sizes[value] }
    }

    fn find_lifetimes(&mut self) {
        for (index, step) in self.program.steps.iter().enumerate() {
            for &value in step.outputs.iter().flatten().chain(step.inputs.iter().flatten()) {
                let (root, _) = self.root(value);
                self.first[root] = self.first[root].min(index);
                self.last[root] = self.last[root].max(index);
            }
        }
        for &value in &self.program.outputs {
            let (root, _) = self.root(value);
            self.last[root] = usize::MAX;
        }
    }

    fn join_in_place(&mut self, sharing: &[Sharing]) {
        for (index, (step, sharing)) in self.program.steps.iter().zip(sharing).enumerate() {
            let Some(output) = step.output(0) else { continue };
            let candidate = sharing.in_place.iter().copied().find(|&position| {
                let Some(input) = step.input(position) else { return false };
                let (root, _) = self.root(input);
                let alone = step.inputs.iter().flatten().filter(|&&other| self.root(other).0 == root).count() == 1;
                self.storage[root].is_none()
                    && !self.outputs[root]
                    && alone
                    && self.last[root] == index
                    && self.sizes[root] == self.sizes[output]
                    && root != self.root(output).0
            });
            if let Some(input) = candidate.and_then(|position| step.input(position)) {
                let (child, _) = self.root(input);
                let (target, offset) = self.root(output);
                self.attach(child, target, offset);
            }
        }
    }

    /// Gives outputs their own memory where a group holds one and nothing more, and packs the rest into the arena.
    fn place(mut self) -> Plan {
        let mut copies = Vec::new();
        for (index, &value) in self.program.outputs.iter().enumerate() {
            let (root, _) = self.root(value);
            if self.storage[root].is_none() && self.sizes[root] == self.sizes[value] {
                self.storage[root] = Some(Storage::Output(index));
            } else {
                copies.push((value, index));
            }
        }
        let count = self.program.values.len();
        (0..count).for_each(|value| self.shorten(value));
        let in_arena: Vec<usize> = (0..count)
            .filter(|&v| self.parent[v].is_none() && self.storage[v].is_none() && self.first[v] != usize::MAX)
            .collect();
        let lifetime = |&v: &usize| Lifetime { size: self.sizes[v], first: self.first[v], last: self.last[v] };
        let arena = plan_arena(&in_arena.iter().map(lifetime).collect::<Vec<_>>(), ALIGNMENT);
        let mut base = vec![0; count];
        in_arena.iter().zip(&arena.offsets).for_each(|(&value, &offset)| base[value] = offset);
        let place = |value: usize| {
            let (root, offset) = self.root(value);
            Slot {
                storage: self.storage[root].unwrap_or(Storage::Arena),
                offset: base[root] + offset,
                bytes: self.sizes[value],
            }
        };
        Plan { places: (0..count).map(place).collect(), arena_bytes: arena.size, copies }
    }
}
