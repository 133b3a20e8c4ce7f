//! Trees as the kernels walk them, made of the lists of either form. Code may be damaged, so that nothing is trusted.

use std::collections::HashMap;

use super::scores::Lists;

/// What a branch does with its feature, by the numbers of `TreeEnsemble`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Equal,
    NotEqual,
    /// Whether the feature is in the set of that number.
    Member(usize),
}

/// Where a branch leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Branch(usize),
    Leaf(usize),
}

#[derive(Clone, Debug)]
struct Branch {
    feature: usize,
    mode: Mode,
    value: f64,
    /// Whether a NaN goes where `yes` leads.
    missing: bool,
    yes: Next,
    no: Next,
}

/// The trees of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    branches: Vec<Branch>,
    /// For each leaf its targets and weights.
    leaves: Vec<Vec<(usize, f64)>>,
    /// Where each tree begins.
    roots: Vec<Next>,
    sets: Vec<Vec<f64>>,
}

/// Why lists make no trees.
type Made<T> = Result<T, String>;

fn place(number: i64, count: usize, what: &str) -> Made<usize> {
    let found = usize::try_from(number).ok().filter(|&place| place < count);
    found.ok_or_else(|| format!("there is no {what} {number} among {count}"))
}

fn same(lengths: &[usize]) -> Made<()> {
    match lengths.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => Err("its lists have different lengths".into()),
    }
}

impl Mode {
    /// `set` is the number of the next set.
    fn of(number: i64, set: &mut usize) -> Made<Mode> {
        Ok(match number {
            0 => Mode::LessEqual,
            1 => Mode::Less,
            2 => Mode::GreaterEqual,
            3 => Mode::Greater,
            4 => Mode::Equal,
            5 => Mode::NotEqual,
            6 => {
                *set += 1;
                Mode::Member(*set - 1)
            }
            other => return Err(format!("there is no mode {other}")),
        })
    }
}

impl Forest {
    /// From the lists of `TreeEnsemble`, in which nodes and leaves are known by their places.
    pub(super) fn by_place(lists: &Lists<'_, '_, '_>, targets: usize) -> Made<Forest> {
        let ints = |name| lists.ints(name);
        let (features, modes, splits) = (ints("nodes_featureids"), ints("nodes_modes"), lists.floats("nodes_splits"));
        let [yes, no] = [("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs")]
            .map(|(ids, leaves)| (ints(ids), ints(leaves)));
        let (leaf_targets, weights) = (ints("leaf_targetids"), lists.floats("leaf_weights"));
        let count = features.len();
        same(&[count, modes.len(), splits.len(), yes.0.len(), yes.1.len(), no.0.len(), no.1.len()])?;
        same(&[leaf_targets.len(), weights.len()])?;
        let next = |of: &(Vec<i64>, Vec<i64>), at: usize| {
            Ok::<_, String>(if of.1[at] != 0 {
                Next::Leaf(place(of.0[at], leaf_targets.len(), "leaf")?)
            } else {
                Next::Branch(place(of.0[at], count, "node")?)
            })
        };
        let missing = ints("nodes_missing_value_tracks_true");
        let mut forest = Forest { sets: sets(&lists.floats("membership_values")), ..Forest::default() };
        let mut set = 0;
        for at in 0..count {
            forest.branches.push(Branch {
                feature: place(features[at], usize::MAX, "feature")?,
                mode: Mode::of(modes[at], &mut set)?,
                value: splits[at],
                missing: missing.get(at).is_some_and(|&missing| missing != 0),
                yes: next(&yes, at)?,
                no: next(&no, at)?,
            });
        }
        if set > forest.sets.len() {
            return Err(format!("{set} nodes ask for sets, and there are {}", forest.sets.len()));
        }
        let leaf = |(&target, &weight)| Ok::<_, String>(vec![(place(target, targets, "target")?, weight)]);
        forest.leaves = leaf_targets.iter().zip(&weights).map(leaf).collect::<Made<_>>()?;
        let root = |&root: &i64| Ok::<_, String>(Next::Branch(place(root, count, "node")?));
        forest.roots = ints("tree_roots").iter().map(root).collect::<Made<_>>()?;
        Ok(forest)
    }

    /// From the lists of the other two operators, whose nodes have the numbers of their tree and of themselves, and whose weights
    /// are in lists that begin with `what`. A tree begins with its first node.
    pub(super) fn by_number(lists: &Lists<'_, '_, '_>, what: &str, targets: usize) -> Made<Forest> {
        const LEAF: i64 = 7;
        let ints = |name: &str| lists.ints(name);
        let (trees, ids, features) = (ints("nodes_treeids"), ints("nodes_nodeids"), ints("nodes_featureids"));
        let (modes, values) = (ints("nodes_modes"), lists.floats("nodes_values"));
        let (yes, no) = (ints("nodes_truenodeids"), ints("nodes_falsenodeids"));
        same(&[trees.len(), ids.len(), features.len(), modes.len(), values.len(), yes.len(), no.len()])?;
        let (mut forest, mut places, mut begun) = (Forest::default(), HashMap::new(), HashMap::new());
        let mut branches = 0;
        for (at, key) in trees.iter().zip(&ids).enumerate() {
            let own = if modes[at] == LEAF {
                forest.leaves.push(Vec::new());
                Next::Leaf(forest.leaves.len() - 1)
            } else {
                branches += 1;
                Next::Branch(branches - 1)
            };
            if places.insert(key, own).is_some() {
                return Err(format!("tree {} has two nodes {}", key.0, key.1));
            }
            if begun.insert(key.0, ()).is_none() {
                forest.roots.push(own);
            }
        }
        let missing = ints("nodes_missing_value_tracks_true");
        let find = |tree: &i64, id: &i64| {
            places.get(&(tree, id)).copied().ok_or_else(|| format!("tree {tree} has no node {id}"))
        };
        for at in (0..ids.len()).filter(|&at| modes[at] != LEAF) {
            let mode = Mode::of(modes[at], &mut 0)?;
            if let Mode::Member(_) = mode {
                return Err("there is no mode 6".into());
            }
            forest.branches.push(Branch {
                feature: place(features[at], usize::MAX, "feature")?,
                mode,
                value: values[at],
                missing: missing.get(at).is_some_and(|&missing| missing != 0),
                yes: find(&trees[at], &yes[at])?,
                no: find(&trees[at], &no[at])?,
            });
        }
        let [of_tree, of_node, of_target] = ["treeids", "nodeids", "ids"].map(|list| ints(&format!("{what}_{list}")));
        let weights = lists.floats(&format!("{what}_weights"));
        same(&[of_tree.len(), of_node.len(), of_target.len(), weights.len()])?;
        for (at, &weight) in weights.iter().enumerate() {
            let target = place(of_target[at], targets, "target")?;
            if let Next::Leaf(leaf) = find(&of_tree[at], &of_node[at])? {
                forest.leaves[leaf].push((target, weight));
            }
        }
        Ok(forest)
    }

    /// How many trees there are.
    pub(super) fn trees(&self) -> usize {
        self.roots.len()
    }

    /// Fails where a branch looks at a feature that is not there.
    pub(super) fn check_width(&self, columns: usize) -> Made<()> {
        match self.branches.iter().find(|branch| branch.feature >= columns) {
            Some(branch) => Err(format!("its trees look at feature {}, and there are {columns}", branch.feature)),
            None => Ok(()),
        }
    }

    /// Gives `take` the targets and weights of each tree's leaf for a row, which has as many features as [`Self::check_width`] was
    /// told.
    pub(super) fn walk(&self, row: &[f64], mut take: impl FnMut(usize, f64)) -> Made<()> {
        for &root in &self.roots {
            let (mut at, mut steps) = (root, 0);
            let leaf = loop {
                match at {
                    Next::Leaf(leaf) => break leaf,
                    Next::Branch(branch) => at = self.branches[branch].next(row, &self.sets),
                }
                steps += 1;
                if steps > self.branches.len() {
                    return Err("its trees lead in a circle".into());
                }
            };
            self.leaves[leaf].iter().for_each(|&(target, weight)| take(target, weight));
        }
        Ok(())
    }
}

impl Branch {
    fn next(&self, row: &[f64], sets: &[Vec<f64>]) -> Next {
        let x = row[self.feature];
        let yes = match self.mode {
            Mode::LessEqual => x <= self.value,
            Mode::Less => x < self.value,
            Mode::GreaterEqual => x >= self.value,
            Mode::Greater => x > self.value,
            Mode::Equal => x == self.value,
            Mode::NotEqual => x != self.value,
            Mode::Member(set) => sets[set].contains(&x),
        };
        if yes || self.missing && x.is_nan() { self.yes } else { self.no }
    }
}

/// The sets that NaNs end; the last one need not have an end.
fn sets(values: &[f64]) -> Vec<Vec<f64>> {
    let mut sets: Vec<Vec<f64>> = values.split(|value| value.is_nan()).map(<[f64]>::to_vec).collect();
    if sets.last().is_some_and(Vec::is_empty) {
        sets.pop();
    }
    sets
}
