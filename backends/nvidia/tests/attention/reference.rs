//! Attention as loops in f64, and its tensors as a kernel finds them in memory.

use byoc_nvidia::attention::{Effect, Layout, Mask, Spec};
use byoc_plugin_api::testing::{Rng, encode, rounded};
use byoc_plugin_api::{DType, Dim};

/// Elements of some type in memory, and what they are.
pub(crate) struct Tensor {
    /// Their type.
    pub(crate) dtype: DType,
    /// The elements, in order.
    pub(crate) values: Vec<f64>,
}

impl Tensor {
    /// Rounds to what the type can hold.
    fn new(dtype: DType, values: impl IntoIterator<Item = f64>) -> Tensor {
        Tensor { dtype, values: values.into_iter().map(|value| rounded(dtype, value)).collect() }
    }

    fn random(dtype: DType, count: usize, rng: &mut Rng) -> Tensor {
        Tensor::new(dtype, (0..count).map(|_| 4.0 * rng.f64() - 2.0))
    }

    /// The bytes of the elements.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        encode(self.dtype, &self.values)
    }
}

/// A problem: what is computed, with sizes for the symbols, and the tensors.
pub(crate) struct Problem<'a> {
    spec: &'a Spec,
    sizes: &'a dyn Fn(&Dim) -> usize,
    /// The elements of Q and of all that shares its rows.
    pub(crate) q: Tensor,
    /// Those of K.
    pub(crate) k: Tensor,
    /// Those of V.
    pub(crate) v: Tensor,
    /// Those of the mask, if there is one.
    pub(crate) mask: Option<Tensor>,
}

/// Which rows of which heads.
struct Heads<'a> {
    layout: &'a Layout,
    heads: usize,
    rows: usize,
    size: usize,
}

impl Heads<'_> {
    fn at(&self, [batch, head, row]: [usize; 3]) -> usize {
        match self.layout {
            Layout::HeadsFirst => ((batch * self.heads + head) * self.rows + row) * self.size,
            Layout::RowsFirst { width, start } => (batch * self.rows + row) * width + start + head * self.size,
        }
    }

    fn elements(&self, batch: usize) -> usize {
        match self.layout {
            Layout::HeadsFirst => batch * self.heads * self.rows * self.size,
            Layout::RowsFirst { width, .. } => batch * self.rows * width,
        }
    }
}

impl<'a> Problem<'a> {
    /// A problem of random numbers between -2 and 2.
    pub(crate) fn random(spec: &'a Spec, sizes: &'a dyn Fn(&Dim) -> usize, rng: &mut Rng) -> Problem<'a> {
        let empty = || Tensor::new(spec.dtype, []);
        let mut problem = Problem { spec, sizes, q: empty(), k: empty(), v: empty(), mask: None };
        let [q, k, v, _] = problem.heads().map(|heads| heads.elements(sizes(&spec.batch)));
        problem.q = Tensor::random(spec.dtype, q, rng);
        problem.k = Tensor::random(spec.dtype, k, rng);
        problem.v = Tensor::random(spec.dtype, v, rng);
        problem.mask = spec.mask.as_ref().map(|mask| {
            let count = mask.shape.iter().map(sizes).product();
            match mask.effect {
                Effect::Added(dtype) => {
                    let hidden = if dtype == DType::F16 { -65504.0 } else { f64::from(f32::MIN) };
                    let values = (0..count).map(|_| if rng.u8(..5) == 0 { hidden } else { 2.0 * rng.f64() - 1.0 });
                    Tensor::new(dtype, values.collect::<Vec<_>>())
                }
                Effect::Fills { .. } => {
                    // Some rows are hidden completely.
                    let row = sizes(&mask.shape[3]);
                    let value = |at: usize| f64::from(u8::from(at / row % 7 != 3 && rng.bool()));
                    Tensor { dtype: DType::Bool, values: (0..count).map(value).collect() }
                }
            }
        });
        problem
    }

    /// Q, K, V and the result.
    fn heads(&self) -> [Heads<'_>; 4] {
        let Spec { kv_heads, size, value_size, .. } = *self.spec;
        let (queries, keys) = ((self.sizes)(&self.spec.queries), (self.sizes)(&self.spec.keys));
        let heads = |layout, heads, rows, size| Heads { layout, heads, rows, size };
        [
            heads(&self.spec.q, self.spec.heads, queries, size),
            heads(&self.spec.k, kv_heads, keys, size),
            heads(&self.spec.v, kv_heads, keys, value_size),
            heads(&self.spec.y, self.spec.heads, queries, value_size),
        ]
    }

    /// How many elements the result has.
    pub(crate) fn count(&self) -> usize {
        self.heads()[3].elements((self.sizes)(&self.spec.batch))
    }

    /// The result.
    pub(crate) fn solve(&self) -> Vec<f64> {
        let [q, k, v, y] = self.heads();
        let group = q.heads / k.heads;
        let mut result = vec![f64::NAN; self.count()];
        let rows = |rows: usize, heads: usize| (0..rows).flat_map(move |row| (0..heads).map(move |head| (head, row)));
        for batch in 0..(self.sizes)(&self.spec.batch) {
            for (head, row) in rows(q.rows, q.heads) {
                let query = &self.q.values[q.at([batch, head, row])..][..q.size];
                let score = |key: usize| {
                    let found = &self.k.values[k.at([batch, head / group, key])..][..k.size];
                    let product: f64 = query.iter().zip(found).map(|(a, b)| a * b).sum();
                    self.masked(product * f64::from(self.spec.scale), [batch, head, row, key])
                };
                let scores: Vec<f64> = (0..k.rows).map(score).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                let to = &mut result[y.at([batch, head, row])..][..y.size];
                for (column, to) in to.iter_mut().enumerate() {
                    let value = |key: usize| self.v.values[v.at([batch, head / group, key]) + column];
                    *to = weights.iter().enumerate().map(|(key, weight)| weight / total * value(key)).sum();
                }
            }
        }
        result
    }

    fn masked(&self, score: f64, at: [usize; 4]) -> f64 {
        let softcap = f64::from(self.spec.softcap);
        let score = if softcap > 0.0 { (score / softcap).tanh() * softcap } else { score };
        let [_, _, row, key] = at;
        let Some((Mask { effect, shape, .. }, tensor)) = self.spec.mask.as_ref().zip(self.mask.as_ref()) else {
            return if self.spec.causal && key > row { f64::NEG_INFINITY } else { score };
        };
        let known = (self.sizes)(&shape[3]);
        if self.spec.causal && key > row || known != 1 && key >= known {
            return f64::NEG_INFINITY;
        }
        let place = shape.iter().zip(at).fold(0, |place, (size, at)| {
            let size = (self.sizes)(size);
            place * size + if size == 1 { 0 } else { at }
        });
        match *effect {
            // In f32 a score vanishes beside the lowest number, as it does in a model that runs in f32.
            Effect::Added(_) => f64::from((score + tensor.values[place]) as f32),
            Effect::Fills { hides, fill } if (tensor.values[place] != 0.0) == hides => f64::from(fill),
            Effect::Fills { .. } => score,
        }
    }
}
