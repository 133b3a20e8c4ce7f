//! Cases of the run side: what comes out is what the reference kernels compute, and nothing else in memory changes.

use std::time::{Duration, Instant};

use byoc_plugin_api::{Backend, Claim, DType};

use crate::artifact;
use crate::bench::{Bench, Prepared, Source};
use crate::claims::{generate, generated};
use crate::data;
use crate::judge::judge;
use crate::memory::{Layout, Placed};
use crate::onnx::Fill;
use crate::region::{self, Generated, Loaded, Taken};
use crate::report::{Step, Verdict, fail};
use crate::tensor::Tensor;
use crate::usage;

/// Outputs hold this before the first and before the second run: a byte that is not written differs.
const POISON: [u8; 2] = [0xAA, 0xFF];
/// How long runs are repeated to find the shortest.
const MEASURED: Duration = Duration::from_millis(3);

/// What a case computes with.
struct Question {
    inputs: Vec<Tensor>,
    expected: Vec<Tensor>,
    /// Whether what comes out is to be compared: a backend that chooses ranges answers for the values within them alone.
    compared: bool,
}

/// Ordinary inputs. Where a backend chooses ranges, a region that reads inner values of the model is for [`artifact`] to
/// compare: what was observed of them comes from the nodes before it.
pub(crate) fn run(bench: &Bench, source: &Source, prepared: &Prepared) -> Step<Option<Duration>> {
    all(bench, source, prepared, Watch::Yes)
}

/// Whether a run is timed and its memory is watched, which takes some runs more.
#[derive(Clone, Copy, PartialEq)]
enum Watch {
    Yes,
    No,
}

fn all(bench: &Bench, source: &Source, prepared: &Prepared, watch: Watch) -> Step<Option<Duration>> {
    if prepared.needs_session() {
        artifact::artifact(bench, source, prepared)?;
        let nothing = "it runs, and there are no reference kernels to compare with: what it computes is of texts, or of sizes that the run tells";
        return if prepared.is_only_its_own() { Err(Verdict::Unsupported(nothing.into())) } else { Ok(None) };
    }
    let mut shortest = Duration::ZERO;
    let mut compared = false;
    for taken in &prepared.taken {
        let question = ask(bench, source, taken, ordinary)?;
        compared |= question.compared;
        let generated = generated(bench, taken)?;
        shortest += answer(bench, source, taken, &generated, (Layout::Plain, watch), &question)?;
    }
    if compared { Ok(Some(shortest)) } else { Err(Verdict::Skip) }
}

/// Everything that tells whether the backend computes the right thing, in one case.
pub(crate) fn swept(bench: &Bench, source: &Source, prepared: &Prepared) -> Step<Option<Duration>> {
    crate::claims::check(bench, source, prepared)?;
    crate::claims::codegen(bench, source, prepared)?;
    if prepared.is_custom() && !prepared.is_only_its_own() && !prepared.needs_session() {
        // A function has no kernel of its own to compare with, but the whole model has those of its body.
        artifact::artifact(bench, source, prepared)?;
    }
    all(bench, source, prepared, Watch::No)
}

/// NaN, infinities, negative zero and numbers at the ends of the range, in inputs that no more than their element is
/// aligned to. No range has them, so of a backend that chooses ranges nothing is asked but a run that is like any other.
pub(crate) fn special(bench: &Bench, source: &Source, prepared: &Prepared) -> Step {
    let is_float = |taken: &Taken| taken.region.inputs.iter().any(|&at| taken.region.values[at].dtype.is_float());
    if !prepared.taken.iter().any(is_float) {
        return Err(Verdict::Skip);
    }
    for taken in &prepared.taken {
        let question = ask(bench, source, taken, |dtype, shape, fill, name| match (fill, dtype.is_float()) {
            (Fill::Any | Fill::Positive, true) => data::special(dtype, shape, name),
            _ => data::random(dtype, shape, fill, name),
        })?;
        let question = Question { compared: !bench.is_calibrated(), ..question };
        let generated = generated(bench, taken)?;
        answer(bench, source, taken, &generated, (Layout::Plain, Watch::No), &question)?;
    }
    Ok(())
}

/// Constants in other layouts: transposed and misaligned while code is generated, transposed and a part of something
/// larger at load.
pub(crate) fn layouts(bench: &Bench, source: &Source, prepared: &Prepared) -> Step {
    if prepared.taken.iter().all(|taken| taken.constants.is_empty()) {
        return Err(Verdict::Skip);
    }
    for taken in &prepared.taken {
        let question = ask(bench, source, taken, ordinary)?;
        for (before, after) in [(Layout::Transposed, Layout::Transposed), (Layout::Odd, Layout::Element)] {
            let told = |verdict| match verdict {
                Verdict::Fail(reason) => Verdict::Fail(format!("with constants laid out as {before:?}: {reason}")),
                other => other,
            };
            let generated = generate(bench, taken, before).map_err(told)?;
            answer(bench, source, taken, &generated, (after, Watch::No), &question).map_err(told)?;
        }
    }
    Ok(())
}

/// The region as it comes when other forms of its constants are stored as well: its results are right, and it packs none of them. A
/// backend may insist, which costs bytes wherever somebody else has the constant, another variant of the model for one.
pub(crate) fn shared(bench: &Bench, source: &Source, prepared: &Prepared) -> Step {
    if prepared.taken.iter().all(|taken| taken.constants.is_empty()) {
        return Err(Verdict::Skip);
    }
    let mut kept = None;
    for taken in &prepared.taken {
        let question = ask(bench, source, taken, ordinary)?;
        let taken = taken.shared();
        let generated = generate(bench, &taken, Layout::Plain)?;
        answer(bench, source, &taken, &generated, (Layout::Transposed, Watch::No), &question)?;
        let packed = generated.claims.iter().find(|claimed| matches!(claimed.claim, Claim::Packed(_)));
        kept = kept.or(packed.map(|claimed| claimed.id));
    }
    match kept {
        Some(id) => {
            Err(Verdict::Unsupported(format!("it packs constant {id} although another form of it is stored as well")))
        }
        None => Ok(()),
    }
}

/// Two executables at once, one of them run from another thread.
pub(crate) fn together(bench: &Bench, source: &Source, prepared: &Prepared) -> Step {
    for taken in &prepared.taken {
        let question = ask(bench, source, taken, ordinary)?;
        let generated = generated(bench, taken)?;
        let bound = region::bind(taken, &generated, Layout::Plain);
        let load = || bench.load(&generated.code, &bound)?.or_else(|error| fail(loading(&error)));
        let (mut here, mut there) = (load()?, load()?);
        let inputs: Vec<_> = question.inputs.iter().map(|tensor| Placed::of(tensor, Layout::Plain)).collect();
        let once = |loaded: &mut Loaded<'_>| once(loaded, &inputs, &question, POISON[0]);
        let (here, there) = std::thread::scope(|scope| {
            let there = scope.spawn(|| once(&mut there));
            (once(&mut here), there.join())
        });
        let Ok(there) = there else { return fail("the run in another thread panicked") };
        for outputs in [here?, there?] {
            compare(bench, source, taken, &outputs, &question)?;
        }
    }
    Ok(())
}

pub(crate) fn no_reference(error: impl std::fmt::Display) -> Verdict {
    Verdict::Unsupported(format!("there are no reference kernels to compare with: {error}"))
}

fn loading(error: &byoc_plugin_api::Error) -> String {
    format!("load fails: {error}")
}

fn ordinary(dtype: DType, shape: &[i64], fill: Fill, name: &str) -> Tensor {
    data::random(dtype, shape, fill, name)
}

/// Inputs for a region, and what the reference makes of them. Of an operator that the backend brings there is no
/// reference: then it is what the backend itself makes of them, so that its answers must be the same in every case.
fn ask(
    bench: &Bench,
    source: &Source,
    taken: &Taken,
    make: impl Fn(DType, &[i64], Fill, &str) -> Tensor,
) -> Step<Question> {
    if taken.needs_session() {
        return Err(Verdict::Skip);
    }
    let region = &taken.region;
    let types = taken.types(&region.inputs).map_err(Verdict::Unsupported)?;
    let inputs: Vec<_> = region
        .inputs
        .iter()
        .zip(&types)
        .map(|(&value, (dtype, shape))| {
            let name = &region.values[value].name;
            make(*dtype, shape, source.fill(name), name)
        })
        .collect();
    let placed: Vec<_> = inputs.iter().map(|tensor| Placed::of(tensor, Layout::Plain)).collect();
    let mut outputs = outputs(taken, POISON[0])?;
    if taken.is_custom() {
        let generated = generated(bench, taken)?;
        let bound = region::bind(taken, &generated, Layout::Plain);
        let mut loaded = bench.load(&generated.code, &bound)?.or_else(|error| fail(loading(&error)))?;
        region::run(&mut loaded, &placed, &mut outputs).or_else(|error| fail(format!("run fails: {error}")))?;
        let expected = outputs.iter().map(Placed::tensor).collect();
        return Ok(Question { inputs, expected, compared: true });
    }
    let reference = &bench.reference;
    reference.registered.backend.check(region, &reference.options).map_err(no_reference)?;
    let generated = region::generate(reference, region, &taken.place(Layout::Plain)).map_err(no_reference)?;
    let bound = region::bind(taken, &generated, Layout::Plain);
    let mut loaded = region::load(reference, &reference.options, &generated.code, &bound).map_err(no_reference)?;
    region::run(&mut loaded, &placed, &mut outputs).map_err(no_reference)?;
    let expected = outputs.iter().map(Placed::tensor).collect();
    Ok(Question { inputs, expected, compared: !(bench.is_calibrated() && taken.reads_inner) })
}

fn outputs(taken: &Taken, poison: u8) -> Step<Vec<Placed>> {
    let types = taken.types(&taken.region.outputs).map_err(Verdict::Unsupported)?;
    Ok(types.iter().map(|(dtype, shape)| Placed::output(*dtype, shape, poison)).collect())
}

/// Loads and runs twice, and looks at everything that may have changed. The shortest time of a run, where that is watched.
fn answer(
    bench: &Bench,
    source: &Source,
    taken: &Taken,
    generated: &Generated,
    (layout, watch): (Layout, Watch),
    question: &Question,
) -> Step<Duration> {
    let bound = region::bind(taken, generated, layout);
    let before: Vec<Vec<u8>> = bound.iter().map(|bound| bound.placed.all().to_vec()).collect();
    let mut loaded = bench.load(&generated.code, &bound)?.or_else(|error| fail(loading(&error)))?;
    let inputs: Vec<_> = question.inputs.iter().map(|tensor| Placed::of(tensor, Layout::Element)).collect();
    let first = once(&mut loaded, &inputs, question, POISON[0])?;
    let second = once(&mut loaded, &inputs, question, POISON[1])?;
    let differing = first.iter().zip(&second).position(|(first, second)| first.bytes() != second.bytes());
    if let Some(index) = differing {
        let name = &taken.region.values[taken.region.outputs[index]].name;
        let (first, second) = (first[index].bytes(), second[index].bytes());
        let unwritten = |at: usize| first[at] == POISON[0] && second[at] == POISON[1];
        let at = (0..first.len()).find(|&at| first[at] != second[at]).unwrap_or(0);
        let what = if unwritten(at) { "is not written" } else { "is another one in the second run" };
        return fail(format!("byte {at} of output '{name}' {what}"));
    }
    compare(bench, source, taken, &first, question)?;
    let mut shortest = Duration::ZERO;
    if watch == Watch::Yes {
        shortest = measure(&mut loaded, &inputs, taken)?;
        // What a device has is not memory of this process.
        if matches!(loaded, Loaded::Host(_)) {
            let mut outputs = outputs(taken, POISON[0])?;
            let run = || region::run(&mut loaded, &inputs, &mut outputs).map(drop);
            let told = usage::watch(run).or_else(|error| fail(format!("run fails: {error}")))?;
            told.into_iter().for_each(|note| bench.notes.add(note));
        }
    }
    drop(loaded);
    if bound.iter().zip(&before).any(|(bound, before)| bound.placed.all() != before) {
        return fail("a constant was written to");
    }
    Ok(shortest)
}

/// One run into fresh outputs. Inputs must be as before, and nothing beside the outputs may be written.
fn once(loaded: &mut Loaded<'_>, inputs: &[Placed], question: &Question, poison: u8) -> Step<Vec<Placed>> {
    let mut outputs: Vec<_> =
        question.expected.iter().map(|tensor| Placed::output(tensor.dtype, &tensor.shape, poison)).collect();
    region::run(loaded, inputs, &mut outputs).or_else(|error| fail(format!("run fails: {error}")))?;
    if let Some(index) = outputs.iter().position(|output| !output.is_guarded()) {
        return fail(format!("the run writes outside output {index}"));
    }
    let changed = |(input, tensor): (&Placed, &Tensor)| input.bytes() != tensor.bytes || !input.is_guarded();
    if let Some(index) = inputs.iter().zip(&question.inputs).position(changed) {
        return fail(format!("the run writes to input {index}"));
    }
    Ok(outputs)
}

fn compare(bench: &Bench, source: &Source, taken: &Taken, found: &[Placed], question: &Question) -> Step {
    let outputs = taken.region.outputs.iter().zip(found).zip(&question.expected).filter(|_| question.compared);
    for ((&value, found), expected) in outputs {
        let name = &taken.region.values[value].name;
        judge(bench, source, bench.allowance(taken), &found.tensor(), expected)
            .or_else(|reason| fail(format!("output '{name}': {reason}")))?;
    }
    Ok(())
}

fn measure(loaded: &mut Loaded<'_>, inputs: &[Placed], taken: &Taken) -> Step<Duration> {
    let mut outputs = outputs(taken, POISON[0])?;
    let start = Instant::now();
    let mut shortest = Duration::MAX;
    while start.elapsed() < MEASURED {
        let run = region::run(loaded, inputs, &mut outputs);
        shortest = shortest.min(run.or_else(|error| fail(format!("run fails: {error}")))?);
    }
    Ok(shortest)
}
