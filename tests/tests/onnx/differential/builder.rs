//! A graph while it is drawn. Every value has its type and its sizes in each run, so that what is drawn next fits.

use byoc_core::ops::cast::to_onnx;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::Tensor;

use super::graph::{Case, Dim, Leaf, Node};
use super::operators::{self, Family};
use super::random::Random;
use super::values::{self, Mood};

/// Runs of a graph that has symbols.
pub(crate) const RUNS: usize = 4;

/// A size in each run.
pub(crate) type Size = [usize; RUNS];

/// More elements than a value should have.
const MOST_ELEMENTS: usize = 3000;

/// A value of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<Size>,
    /// Both sides compute it without rounding, so that it may be compared, counted and cut.
    pub(crate) exact: bool,
    /// No element is large, infinite or NaN.
    pub(crate) tame: bool,
}

impl Value {
    pub(crate) fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Whether some run has no element.
    pub(crate) fn empty(&self) -> bool {
        self.dims.iter().any(|size| size.contains(&0))
    }
}

/// The size that is a number.
pub(crate) fn fixed(size: usize) -> Size {
    [size; RUNS]
}

/// Whether the size is the same in all runs.
pub(crate) fn is_fixed(size: &Size) -> bool {
    size.iter().all(|one| *one == size[0])
}

/// A size computed run by run.
pub(crate) fn each(a: &Size, b: &Size, compute: impl Fn(usize, usize) -> usize) -> Size {
    std::array::from_fn(|run| compute(a[run], b[run]))
}

/// The shape of two broadcast against each other, if that is certain to fit.
pub(crate) fn broadcast(a: &[Size], b: &[Size]) -> Option<Vec<Size>> {
    let rank = a.len().max(b.len());
    let at = |dims: &[Size], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(fixed(1), |place| dims[place]);
    let meet = |axis: usize| match (at(a, axis), at(b, axis)) {
        (x, y) if x == y => Some(x),
        (x, y) if x == fixed(1) => Some(y),
        (x, y) if y == fixed(1) => Some(x),
        _ => None,
    };
    (0..rank).map(meet).collect()
}

/// A graph while it is drawn.
pub(crate) struct Builder {
    pub(crate) random: Random,
    pub(crate) opset: i64,
    /// The operators that are drawn beside the usual ones.
    pub(crate) later: &'static [&'static [Family]],
    pub(crate) values: Vec<Value>,
    symbols: Vec<(&'static str, Size)>,
    leaves: Vec<Leaf>,
    nodes: Vec<Node>,
    read: Vec<String>,
}

impl Builder {
    pub(crate) fn new(mut random: Random) -> Builder {
        let opset = random.of(&[13, 14, 17, 18, 20, 21, 22, 23, 23, 24]);
        let symbols = if random.chance(35) { vec![("a", [2, 1, 5, 3]), ("b", [3, 4, 1, 2])] } else { vec![] };
        let symbols: Vec<_> = if random.chance(10) && !symbols.is_empty() {
            vec![("a", [2, 1, 5, 3]), ("n", [1, 0, 2, 4])]
        } else {
            symbols
        };
        Builder { random, opset, later: &[], values: vec![], symbols, leaves: vec![], nodes: vec![], read: vec![] }
    }

    /// Draws every operator from here on, of newer operator sets as well.
    pub(crate) fn draws_every_operator(&mut self) {
        self.later = &[operators::LATER, operators::LAYERS, operators::EVERY];
        self.opset = self.random.of(&[13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 26]);
    }

    /// How many nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// A value with the type and sizes given, which no node makes.
    pub(crate) fn leaf(&mut self, dtype: DType, dims: &[Size], mood: Mood) -> Value {
        let constant = dims.iter().all(is_fixed) && self.random.chance(40);
        self.leaf_of(dtype, dims, mood, constant)
    }

    fn leaf_of(&mut self, dtype: DType, dims: &[Size], mood: Mood, constant: bool) -> Value {
        let runs = if constant || self.symbols.is_empty() { 1 } else { RUNS };
        let shape = |run: usize| dims.iter().map(|size| size[run]).collect::<Vec<_>>();
        let tensors = (0..runs).map(|run| values::tensor(&mut self.random, dtype, &shape(run), mood)).collect();
        let structural = matches!(mood, Mood::Index(_) | Mood::Place(_) | Mood::Exponent) || dtype == DType::String;
        self.push_leaf(dims, constant, structural, tensors);
        let value = self.values.last_mut().expect("just made");
        value.tame = matches!(mood, Mood::Tame | Mood::Ties | Mood::Exponent | Mood::Positive);
        value.clone()
    }

    /// A tensor that decides a shape or a place: a constant, or what only the run tells.
    pub(crate) fn structural(&mut self, tensor: Tensor) -> String {
        let dims: Vec<_> = tensor.shape.iter().map(|&size| fixed(size as usize)).collect();
        // Drawn aside, so that the graph is the same either way.
        let constant = !self.random.clone().chance(8);
        let runs = if constant || self.symbols.is_empty() { 1 } else { RUNS };
        self.push_leaf(&dims, constant, true, vec![tensor; runs]);
        // Nothing else is to read it: it stands for no data.
        self.values.pop().expect("just made").name
    }

    /// As [`Builder::structural`], of what has to be a constant.
    pub(crate) fn structural_constant(&mut self, tensor: Tensor) -> String {
        let dims: Vec<_> = tensor.shape.iter().map(|&size| fixed(size as usize)).collect();
        self.push_leaf(&dims, true, true, vec![tensor]);
        self.values.pop().expect("just made").name
    }

    fn push_leaf(&mut self, dims: &[Size], constant: bool, structural: bool, values: Vec<Tensor>) {
        let name = format!("{}{}", if constant { "c" } else { "x" }, self.leaves.len());
        let dtype = values[0].dtype;
        let sizes = dims.iter().map(|size| match self.symbols.iter().find(|(_, known)| known == size) {
            Some((symbol, _)) => Dim::Symbol(symbol),
            None => Dim::Fixed(size[0]),
        });
        self.leaves.push(Leaf { name: name.clone(), dims: sizes.collect(), constant, structural, values });
        self.values.push(Value { name, dtype, dims: dims.to_vec(), exact: true, tame: false });
    }

    /// A mood for data.
    pub(crate) fn mood(&mut self) -> Mood {
        match self.random.below(100) {
            0..70 => Mood::Tame,
            70..85 => Mood::Ties,
            _ => Mood::Odd,
        }
    }

    /// Whether a leaf can have the size.
    pub(crate) fn declarable(&self, size: &Size) -> bool {
        is_fixed(size) || self.symbols.iter().any(|(_, known)| known == size)
    }

    /// A random size.
    pub(crate) fn size(&mut self) -> Size {
        if !self.symbols.is_empty() && self.random.chance(35) {
            return self.random.of(&self.symbols.clone()).1;
        }
        if self.random.chance(2) { fixed(0) } else { fixed(self.random.of(&[1, 1, 2, 2, 3, 3, 4, 5, 7, 8])) }
    }

    /// A random shape of a rank in a range.
    pub(crate) fn shape(&mut self, least: usize, most: usize) -> Vec<Size> {
        let rank = self.random.between(least as i64, most as i64) as usize;
        (0..rank).map(|_| self.size()).collect()
    }

    /// One of the types; f32 more often than the others.
    pub(crate) fn dtype(&mut self, types: &[DType]) -> DType {
        // numpy, and so the oracle, has no bf16: it comes from a Cast alone.
        let types: Vec<_> = types.iter().copied().filter(|dtype| *dtype != DType::BF16).collect();
        if types.contains(&DType::F32) && self.random.chance(55) { DType::F32 } else { self.random.of(&types) }
    }

    /// A value of one of the types that fits: one that is there, or a new leaf of a rank in the range.
    pub(crate) fn pick(&mut self, types: &[DType], ranks: (usize, usize), fits: impl Fn(&Value) -> bool) -> Value {
        let there = self
            .values
            .iter()
            .filter(|value| types.contains(&value.dtype) && (ranks.0..=ranks.1).contains(&value.rank()) && fits(value));
        let there: Vec<_> = there.cloned().collect();
        // Later values make deeper graphs.
        if !there.is_empty() && self.random.chance(85) {
            let place = self.random.below(there.len()).max(self.random.below(there.len()));
            return there[place].clone();
        }
        for _ in 0..20 {
            let (dtype, dims, mood) = (self.dtype(types), self.shape(ranks.0, ranks.1), self.mood());
            let probe = Value { name: String::new(), dtype, dims: dims.clone(), exact: true, tame: mood != Mood::Odd };
            if fits(&probe) {
                return self.leaf(dtype, &dims, mood);
            }
        }
        let (dtype, dims) = (self.dtype(types), vec![fixed(2); ranks.0]);
        self.leaf(dtype, &dims, Mood::Tame)
    }

    /// Another operand for `x`, of type `dtype`, that broadcasts with it.
    pub(crate) fn partner(&mut self, x: &Value, dtype: DType, fits: impl Fn(&Value) -> bool) -> Value {
        let there = self.values.iter().filter(|value| {
            value.dtype == dtype
                && fits(value)
                && broadcast(&x.dims, &value.dims).is_some_and(|dims| elements(&dims) <= MOST_ELEMENTS)
        });
        let there: Vec<_> = there.cloned().collect();
        if !there.is_empty() && self.random.chance(60) {
            return self.random.of(&there);
        }
        let mood = self.mood();
        self.fresh_partner(x, dtype, mood)
    }

    /// As [`Builder::partner`], but always a new leaf.
    pub(crate) fn fresh_partner(&mut self, x: &Value, dtype: DType, mood: Mood) -> Value {
        let skipped = if self.random.chance(30) { self.random.below(x.rank() + 1) } else { 0 };
        let mut dims = x.dims[skipped..].to_vec();
        for size in &mut dims {
            if !self.declarable(size) || self.random.chance(20) {
                *size = fixed(1);
            }
        }
        self.leaf(dtype, &dims, mood)
    }

    /// Adds a node with one output and returns that.
    pub(crate) fn node(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: Vec<(&'static str, Attribute)>,
        dtype: DType,
        dims: Vec<Size>,
    ) -> Value {
        self.nodes_outputs(op, inputs, attributes, vec![(dtype, dims)]).remove(0)
    }

    /// Adds a node with several outputs.
    pub(crate) fn nodes_outputs(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: Vec<(&'static str, Attribute)>,
        types: Vec<(DType, Vec<Size>)>,
    ) -> Vec<Value> {
        let mut inputs: Vec<String> = inputs.iter().map(|&name| name.to_owned()).collect();
        while inputs.last().is_some_and(String::is_empty) {
            inputs.pop();
        }
        self.read.extend(inputs.iter().cloned());
        let index = self.nodes.len();
        let name = |place: usize| if place == 0 { format!("v{index}") } else { format!("v{index}_{place}") };
        let made = types.into_iter().enumerate().map(|(place, (dtype, dims))| Value {
            name: name(place),
            dtype,
            dims,
            exact: false,
            tame: false,
        });
        let made: Vec<_> = made.collect();
        let outputs = made.iter().map(|value| value.name.clone()).collect();
        self.nodes.push(Node { op, inputs, outputs, attributes, rounds: None });
        // What is larger than it should be is an output, and nothing reads it.
        self.values.extend(made.iter().filter(|value| elements(&value.dims) <= MOST_ELEMENTS).cloned());
        made
    }

    /// Lets nobody read values: their sizes are known to a run alone, or their last digits differ.
    pub(crate) fn unread(&mut self, values: &[Value]) {
        self.values.retain(|known| values.iter().all(|value| value.name != known.name));
    }

    /// Says that both sides compute a value without rounding, because its operands are such.
    pub(crate) fn keeps(&mut self, value: &Value, operands: &[&Value]) {
        let exact = operands.iter().all(|operand| operand.exact);
        let tame = operands.iter().all(|operand| operand.tame);
        if let Some(known) = self.values.iter_mut().find(|known| known.name == value.name) {
            (known.exact, known.tame) = (exact, tame);
        }
    }

    /// Says that a value is exact, whatever its size.
    pub(crate) fn exact(&mut self, value: &Value, exact: bool) {
        if let Some(known) = self.values.iter_mut().find(|known| known.name == value.name) {
            known.exact = exact;
        }
    }

    /// An axis, counted from either end.
    pub(crate) fn signed_axis(&mut self, axis: usize, rank: usize) -> i64 {
        if self.random.chance(40) { axis as i64 - rank as i64 } else { axis as i64 }
    }

    /// The graph. What nobody reads is an output, and so are a few of the other values.
    pub(crate) fn finish(mut self) -> Case {
        let mut outputs = Vec::new();
        for name in self.nodes.iter().flat_map(|node| node.outputs.clone()).collect::<Vec<_>>() {
            if self.read.contains(&name) && !self.random.chance(10) {
                continue;
            }
            let brain = self.values.iter().find(|value| value.name == name && value.dtype == DType::BF16).cloned();
            outputs.push(match brain {
                // It leaves as f32, for the same reason.
                Some(value) => {
                    let to = vec![("to", Attribute::Int(to_onnx(DType::F32)))];
                    self.node("Cast", &[&value.name], to, DType::F32, value.dims).name
                }
                None => name,
            });
        }
        for node in &mut self.nodes {
            let made = self.values.iter().find(|value| value.name == node.outputs[0] && !value.exact);
            let float = |dtype: &DType| matches!(dtype, DType::F16 | DType::F32 | DType::F64);
            node.rounds = made.map(|value| value.dtype).filter(float);
        }
        let runs = if self.symbols.is_empty() { 1 } else { RUNS };
        let case = Case { opset: self.opset, leaves: self.leaves, nodes: self.nodes, outputs, runs, wrap: None };
        case.pruned()
    }
}

/// The most elements of any run.
pub(crate) fn elements(dims: &[Size]) -> usize {
    (0..RUNS).map(|run| dims.iter().map(|size| size[run]).product()).max().unwrap_or(0)
}
