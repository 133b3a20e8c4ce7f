//! From a region to steps and buffers. A buffer is free again when the last step that reads its value is done.

use byoc_plugin_api::{ConstantId, Error, Region};
use serde::{Deserialize, Serialize};

use crate::call::Bugs;

/// Where a step reads an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Source {
    /// The input of that position.
    Input(usize),
    /// The constant of that position in the program.
    Constant(usize),
    /// What an earlier step gave.
    Step(usize),
    /// Zeros in the shape of a constant.
    Zeros(usize),
}

/// A node, and the buffer of its result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) op: String,
    pub(super) operands: Vec<Source>,
    pub(super) buffer: usize,
    /// Positions of outputs that are written when the step is done.
    pub(super) outputs: Vec<usize>,
    /// The result is that of this operand.
    #[serde(default)]
    pub(super) copies: Option<usize>,
    /// The result is written into the buffer from which the left operand is read at the same time.
    #[serde(default)]
    pub(super) in_place: bool,
}

/// The code of a region.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) bug: String,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) constants: Vec<ConstantId>,
    pub(super) steps: Vec<Step>,
    pub(super) buffers: usize,
    /// The order in which steps run.
    pub(super) order: Vec<usize>,
}

impl Program {
    /// Whether every index is that of something; an error otherwise.
    pub(super) fn validate(&self, bugs: Bugs) -> Result<(), Error> {
        let is_source = |step: usize, source: &Source| match *source {
            Source::Input(at) => at < self.inputs,
            Source::Constant(at) | Source::Zeros(at) => at < self.constants.len(),
            Source::Step(at) => at < step,
        };
        let is_step = |(at, step): (usize, &Step)| {
            let arity = match step.op.as_str() {
                "MatMul" | "Add" | "Sub" | "Mul" => 2,
                "Relu" | "Sigmoid" | "Neg" => 1,
                _ => return false,
            };
            step.operands.len() == arity
                && step.operands.iter().all(|source| is_source(at, source))
                && step.buffer < self.buffers
                && step.outputs.iter().all(|&output| output < self.outputs)
                && step.copies.is_none_or(|operand| operand < arity)
        };
        let is_good = self.steps.iter().enumerate().all(is_step)
            && !self.steps.is_empty()
            && self.buffers <= self.steps.len()
            && self.order.len() == self.steps.len()
            && self.order.iter().all(|&step| step < self.steps.len())
            && bugs.iter().any(|(name, _)| *name == self.bug);
        if is_good { Ok(()) } else { Err(Error::new("damaged code: the steps do not fit together")) }
    }

    fn has(&self, bug: &str) -> bool {
        self.bug == bug
    }

    /// Steps that read what a step gives, in order; twice where it is both operands.
    fn readers(&self, step: usize) -> Vec<usize> {
        let reads = |reader: &Step| reader.operands.iter().filter(|&&source| source == Source::Step(step)).count();
        self.steps.iter().enumerate().flat_map(|(at, reader)| std::iter::repeat_n(at, reads(reader))).collect()
    }
}

/// The program of a region, with the bug in it.
pub(super) fn plan(region: &Region, bug: &str) -> Result<Program, Error> {
    let mut program = Program {
        bug: bug.into(),
        inputs: region.inputs.len(),
        outputs: region.outputs.len(),
        constants: region.constants.iter().map(|constant| constant.id).collect(),
        steps: Vec::new(),
        buffers: 0,
        order: (0..region.nodes.len()).collect(),
    };
    for node in &region.nodes {
        let operands = node.inputs.iter().flatten().map(|&value| source(region, value)).collect::<Result<_, _>>()?;
        let result = node.output(0);
        let outputs = (0..region.outputs.len()).filter(|&at| Some(region.outputs[at]) == result).collect();
        let op = node.op.clone();
        program.steps.push(Step { op, operands, buffer: 0, outputs, copies: None, in_place: false });
    }
    operands(&mut program);
    rewrites(&mut program);
    outputs(&mut program);
    buffers(&mut program);
    order(&mut program);
    Ok(program)
}

fn source(region: &Region, value: usize) -> Result<Source, Error> {
    let place = |list: &[usize]| list.iter().position(|&known| known == value);
    if let Some(at) = region.constants.iter().position(|constant| constant.value == value) {
        return Ok(Source::Constant(at));
    }
    if let Some(at) = place(&region.inputs) {
        return Ok(Source::Input(at));
    }
    let step = region.nodes.iter().position(|node| node.output(0) == Some(value));
    step.map(Source::Step).ok_or_else(|| Error::new(format!("value {value} comes from nowhere")))
}

/// What is wrong with where operands are read.
fn operands(program: &mut Program) {
    let (mut constants, mut inputs) = (Vec::new(), Vec::new());
    let last_read = |input| program.steps.iter().rposition(|step| step.operands.contains(&Source::Input(input)));
    let last_reads: Vec<Option<usize>> = (0..program.inputs).map(last_read).collect();
    let (mut first_weights, mut first_bias) = (None, None);
    for at in 0..program.steps.len() {
        let is_product = program.steps[at].op == "MatMul";
        let (in_add, before) = (program.steps[at].op == "Add", program.steps[at].operands.clone());
        for (number, source) in before.into_iter().enumerate() {
            let mut planted = source;
            if let Source::Constant(constant) = source {
                if program.has("constant-second-use") && constants.contains(&constant) {
                    planted = Source::Zeros(constant);
                }
                if program.has("constant-of-first") && is_product && number == 1 {
                    planted = *first_weights.get_or_insert(source);
                }
                if program.has("bias-of-first") && in_add {
                    planted = *first_bias.get_or_insert(source);
                }
                constants.push(constant);
            }
            if let Source::Input(input) = source {
                if program.has("input-twice") && inputs.contains(&input) && program.inputs > 1 {
                    planted = Source::Input((input + 1) % program.inputs);
                }
                if !inputs.contains(&input) {
                    inputs.push(input);
                }
                if program.has("inputs-by-last-read") {
                    planted = Source::Input(by_last_read(&last_reads, input));
                }
            }
            program.steps[at].operands[number] = planted;
        }
        if program.steps[at].op == "Sub" {
            let left = program.steps[at].operands[0];
            let swaps = program.has("sub-swapped-inner") && matches!(left, Source::Step(_))
                || program.has("sub-swapped-constant") && matches!(left, Source::Constant(_));
            if swaps {
                program.steps[at].operands.reverse();
            }
        }
    }
}

/// How many inputs are read for the last time before one is.
fn by_last_read(last_reads: &[Option<usize>], input: usize) -> usize {
    let own = (last_reads[input], input);
    last_reads.iter().enumerate().filter(|&(other, &last)| (last, other) < own).count()
}

/// What is wrong with steps that are left out, or that change places.
fn rewrites(program: &mut Program) {
    let mut sigmoids = 0;
    let last = program.steps.len() - 1;
    for at in 0..program.steps.len() {
        let step = program.steps[at].clone();
        let before = match step.operands[0] {
            Source::Step(before) => Some((before, program.steps[before].op.clone())),
            _ => None,
        };
        let before_op = before.as_ref().map_or("", |(_, op)| op.as_str());
        sigmoids += usize::from(step.op == "Sigmoid");
        let is_activation = matches!(step.op.as_str(), "Relu" | "Sigmoid");
        let leaves_out = program.has("last-activation") && at == last && at >= 2 && is_activation
            || program.has("square") && step.op == "Mul" && step.operands[0] == step.operands[1]
            || program.has("double") && step.op == "Add" && step.operands[0] == step.operands[1]
            || program.has("neg-of-sub") && step.op == "Neg" && before_op == "Sub"
            || program.has("fourth-node") && at >= 3 && step.operands.len() == 1
            || program.has("sigmoid-twice") && step.op == "Sigmoid" && sigmoids == 2;
        if leaves_out {
            program.steps[at].copies = Some(0);
        }
        if program.has("residual-dropped") && step.op == "Add" {
            program.steps[at].copies = match step.operands[..] {
                [Source::Step(_), Source::Input(_)] => Some(0),
                [Source::Input(_), Source::Step(_)] => Some(1),
                _ => None,
            };
        }
        if program.has("add-behind-mul") && step.op == "Add" {
            let shared = |source: &Source| match *source {
                Source::Step(mul) => program.steps[mul].op == "Mul" && program.readers(mul).len() > 1,
                _ => false,
            };
            program.steps[at].copies = step.operands.iter().position(shared);
        }
        if let (true, "Relu", "Neg", Some((neg, _))) =
            (program.has("relu-of-neg"), step.op.as_str(), before_op, before.as_ref())
        {
            (program.steps[at].op, program.steps[*neg].op) = ("Neg".into(), "Relu".into());
        }
    }
}

/// What is wrong with outputs.
fn outputs(program: &mut Program) {
    let is_read: Vec<bool> = (0..program.steps.len()).map(|at| !program.readers(at).is_empty()).collect();
    if program.has("inner-output") {
        let inner = program.steps.iter_mut().zip(&is_read).filter(|(_, is_read)| **is_read);
        inner.for_each(|(step, _)| step.outputs.clear());
    }
    if program.has("final-outputs-first") {
        let places = (0..program.outputs).map(|output| {
            let step = program.steps.iter().position(|step| step.outputs.contains(&output));
            (step.is_some_and(|step| is_read[step]), output)
        });
        let mut places: Vec<(bool, usize)> = places.collect();
        places.sort_unstable();
        for step in &mut program.steps {
            for output in &mut step.outputs {
                *output = places.iter().position(|(_, place)| place == output).unwrap_or(*output);
            }
        }
    }
}

/// Gives each step a buffer that nobody needs any more, or a new one.
fn buffers(program: &mut Program) {
    let mut free: Vec<usize> = Vec::new();
    for at in 0..program.steps.len() {
        let own = in_place(program, at);
        let buffer = own.or_else(|| free.pop()).unwrap_or_else(|| {
            program.buffers += 1;
            program.buffers - 1
        });
        program.steps[at].buffer = buffer;
        program.steps[at].in_place = own.is_some();
        free.retain(|&known| known != buffer);
        for earlier in 0..=at {
            let readers = program.readers(earlier);
            let mut last = readers.last().copied().unwrap_or(earlier);
            if program.has("freed-after-first-read") {
                last = readers.first().copied().unwrap_or(earlier);
            }
            if program.has("freed-at-second-output") && !program.steps[earlier].outputs.is_empty() {
                last = earlier;
            }
            let place = program.steps[earlier].buffer;
            if last == at && !free.contains(&place) && !is_taken(program, at, earlier, place) {
                free.push(place);
            }
        }
    }
}

/// Whether a later step than `earlier`, which is still read, has the buffer.
fn is_taken(program: &Program, at: usize, earlier: usize, buffer: usize) -> bool {
    let alive =
        |step: usize| program.steps[step].buffer == buffer && program.readers(step).iter().any(|&reader| reader > at);
    (earlier + 1..=at).any(alive)
}

/// The buffer of the left operand, for a step that is wrong to write there.
fn in_place(program: &Program, at: usize) -> Option<usize> {
    let step = &program.steps[at];
    let &Source::Step(left) = step.operands.first()? else { return None };
    let is_shared = program.readers(left).iter().any(|&reader| reader > at);
    let wrong = program.has("in-place-shared") && step.operands.len() == 2 && step.op != "MatMul" && is_shared
        || program.has("relu-into-producer") && step.op == "Relu" && is_shared
        || program.has("in-place-matmul") && step.op == "MatMul"
        || program.has("in-place-broadcast") && step.operands.len() == 2 && step.op != "MatMul" && !is_shared;
    wrong.then_some(program.steps[left].buffer)
}

/// What is wrong with the order: the step that joins two branches of one value runs before the second branch.
fn order(program: &mut Program) {
    if !program.has("diamond-order") {
        return;
    }
    for join in 0..program.steps.len() {
        let [Source::Step(left), Source::Step(right)] = program.steps[join].operands[..] else { continue };
        let common = |source: &Source| program.steps[right].operands.contains(source);
        if left != right && program.steps[left].operands.iter().any(common) {
            let second = left.max(right);
            program.order.retain(|&step| step != join);
            let place = program.order.iter().position(|&step| step == second).unwrap_or(0);
            program.order.insert(place, join);
        }
    }
}
