//! Makes a case that differs smaller while it goes on differing.

use byoc_plugin_api::DType;

use super::graph::{Case, Dim, Leaf};
use super::judge::{Judge, Manner, Verdict};
use super::values;

/// Attempts for one case: a difference is read by people, and need not be the smallest.
const MOST_ATTEMPTS: usize = 400;

/// The search.
struct Search<'a> {
    judge: &'a Judge,
    manner: Manner,
    /// What the case is to go on being.
    kind: std::mem::Discriminant<Verdict>,
    best: Case,
    verdict: Verdict,
    left: usize,
}

/// A smaller case with a verdict of the same kind.
pub(crate) fn minimise(judge: &Judge, case: &Case, manner: Manner, verdict: Verdict) -> (Case, Verdict) {
    let kind = std::mem::discriminant(&verdict);
    let mut search = Search { judge, manner, kind, best: case.clone(), verdict, left: MOST_ATTEMPTS };
    loop {
        let before = search.size();
        search.one_output();
        search.one_run();
        search.cut_nodes();
        search.bypass_nodes();
        search.fewer_attributes();
        search.smaller_sizes();
        search.simpler_values();
        if search.size() >= before || search.left == 0 {
            return (search.best, search.verdict);
        }
    }
}

impl Search<'_> {
    /// What is to become smaller.
    fn size(&self) -> usize {
        let best = &self.best;
        let elements: usize = best.leaves.iter().flat_map(|leaf| &leaf.values).map(|value| value.bytes.len()).sum();
        let attributes: usize = best.nodes.iter().map(|node| node.attributes.len() + node.inputs.len()).sum();
        elements + 100 * attributes + 10_000 * best.nodes.len() + 1000 * best.outputs.len()
    }

    /// Takes the case if it is still of that kind.
    fn accept(&mut self, case: Case) -> bool {
        if self.left == 0 || case.nodes.is_empty() {
            return false;
        }
        self.left -= 1;
        let case = case.pruned();
        let verdict = self.judge.verdict(&case, self.manner);
        let same = std::mem::discriminant(&verdict) == self.kind;
        if same {
            (self.best, self.verdict) = (case, verdict);
        }
        same
    }

    /// Ends the graph at the first value that differs.
    fn one_output(&mut self) {
        for output in self.best.nodes.iter().flat_map(|node| node.outputs.clone()).collect::<Vec<_>>() {
            if self.best.outputs == [output.clone()] {
                return;
            }
            if self.accept(Case { outputs: vec![output], ..self.best.clone() }) {
                return;
            }
        }
    }

    fn one_run(&mut self) {
        for run in 0..self.best.runs {
            if self.best.runs == 1 {
                return;
            }
            let mut case = Case { runs: 1, ..self.best.clone() };
            for leaf in case.leaves.iter_mut().filter(|leaf| !leaf.constant) {
                leaf.values = vec![leaf.values[run].clone()];
                leaf.dims = leaf.values[0].shape.iter().map(|&size| Dim::Fixed(size as usize)).collect();
            }
            if self.accept(case) {
                return;
            }
        }
    }

    /// Makes what a node gives an input of the graph, with the values that onnxruntime computes for it.
    fn cut_nodes(&mut self) {
        if self.best.runs > 1 {
            return;
        }
        for node in self.best.nodes.clone().into_iter().rev().skip(1) {
            let there = self.best.nodes.iter().any(|known| known.outputs == node.outputs);
            let Some(values) = there.then(|| self.values_of(&node.outputs)).flatten() else { continue };
            let mut case = self.best.clone();
            case.nodes.retain(|known| known.outputs != node.outputs);
            for (name, value) in node.outputs.into_iter().zip(values) {
                let dims = value.shape.iter().map(|&size| Dim::Fixed(size as usize)).collect();
                let structural = value.dtype == DType::String;
                case.leaves.push(Leaf { name, dims, constant: false, structural, values: vec![value] });
            }
            // A value that was an output is none any more.
            let made: Vec<_> = case.nodes.iter().flat_map(|node| node.outputs.clone()).collect();
            case.outputs.retain(|output| made.contains(output));
            if !case.outputs.is_empty() {
                self.accept(case);
            }
        }
    }

    fn values_of(&self, names: &[String]) -> Option<Vec<byoc_tests::tensor::Tensor>> {
        let case = Case { outputs: names.to_vec(), ..self.best.clone() }.pruned();
        self.judge.oracle.ask(&case).ok()?.pop()
    }

    /// Lets the readers of a node read its first input.
    fn bypass_nodes(&mut self) {
        for node in self.best.nodes.clone() {
            let Some(source) = node.inputs.first().filter(|name| !name.is_empty()) else { continue };
            let mut case = self.best.clone();
            case.nodes.retain(|known| known.outputs != node.outputs);
            for name in case.nodes.iter_mut().flat_map(|node| &mut node.inputs) {
                if *name == node.outputs[0] {
                    *name = source.clone();
                }
            }
            let made = |name: &String| case.nodes.iter().any(|node| node.outputs.contains(name));
            if case.outputs.iter().all(made) {
                self.accept(case);
            }
        }
    }

    fn fewer_attributes(&mut self) {
        for node in 0..self.best.nodes.len() {
            for attribute in (0..self.best.nodes[node].attributes.len()).rev() {
                let mut case = self.best.clone();
                case.nodes[node].attributes.remove(attribute);
                self.accept(case);
            }
            while self.best.nodes.get(node).is_some_and(|node| node.inputs.len() > 1) {
                let mut case = self.best.clone();
                case.nodes[node].inputs.pop();
                if !self.accept(case) {
                    break;
                }
            }
        }
    }

    /// Makes every dimension of one size smaller, in all leaves alike.
    fn smaller_sizes(&mut self) {
        if self.best.runs > 1 {
            return;
        }
        let sizes = |case: &Case| {
            let mut sizes: Vec<i64> = case.leaves.iter().flat_map(|leaf| leaf.values[0].shape.clone()).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        for size in sizes(&self.best).into_iter().rev().filter(|&size| size > 1) {
            for smaller in [1, size / 2, size - 1] {
                let case = with_size(&self.best, size, smaller);
                if self.accept(case) {
                    break;
                }
            }
        }
    }

    fn simpler_values(&mut self) {
        for leaf in 0..self.best.leaves.len() {
            let simpler: [fn(f64) -> f64; 4] = [|_| 0.0, |_| 1.0, f64::round, |value| (value * 4.0).round() / 4.0];
            let index = |case: &Case| (leaf < case.leaves.len()).then_some(leaf);
            for simplify in simpler {
                let Some(place) = index(&self.best).filter(|&place| !self.best.leaves[place].structural) else { break };
                let mut case = self.best.clone();
                for value in &mut case.leaves[place].values {
                    *value = values::mapped(value, |_, number| simplify(number));
                }
                if self.accept(case) {
                    break;
                }
            }
        }
    }
}

/// The case with `smaller` in place of `size` in the shapes of all leaves.
fn with_size(case: &Case, size: i64, smaller: i64) -> Case {
    let mut case = case.clone();
    for leaf in case.leaves.iter_mut().filter(|leaf| !leaf.structural) {
        let old = leaf.values[0].clone();
        let shape: Vec<i64> = old.shape.iter().map(|&one| if one == size { smaller } else { one }).collect();
        let count = shape.iter().product::<i64>() as usize * old.dtype.unpacked_bytes();
        leaf.values = vec![byoc_tests::tensor::Tensor::new(old.dtype, shape, old.bytes[..count].to_vec())];
        leaf.dims = leaf.values[0].shape.iter().map(|&one| Dim::Fixed(one as usize)).collect();
    }
    case
}
