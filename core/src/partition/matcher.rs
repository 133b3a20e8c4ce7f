//! Finds where a pattern matches: a set of nodes under one root. What leaves it are the root's outputs, and those of nodes inside for
//! which the pattern says so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use byoc_plugin_api::Expr;

use super::quantized;
use crate::ir::{Graph, ValueId};

/// Operators whose two operands may be matched in either order.
const COMMUTATIVE: [&str; 6] = ["Add", "Mul", "And", "Equal", "Min", "Max"];

/// A graph with what matching asks of it again and again.
pub(super) struct Matcher<'g> {
    graph: &'g Graph,
    producers: Vec<Option<usize>>,
    consumers: Vec<Vec<usize>>,
    outputs: HashSet<ValueId>,
    /// The nodes of each operator, by domain and name, the last one first.
    by_operator: HashMap<(&'g str, &'g str), Vec<usize>>,
}

/// Nodes and names bound so far.
#[derive(Clone, Default)]
struct Binding {
    nodes: BTreeSet<usize>,
    /// Those inside whose results may be read outside.
    shared: BTreeSet<usize>,
    names: BTreeMap<String, Option<ValueId>>,
}

impl<'g> Matcher<'g> {
    pub(super) fn new(graph: &'g Graph) -> Self {
        let outputs = graph.outputs.iter().copied().collect();
        let mut by_operator: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, node) in graph.nodes.iter().enumerate().rev() {
            by_operator.entry((node.domain.as_str(), node.op.as_str())).or_default().push(index);
        }
        Matcher { graph, producers: graph.producers(), consumers: graph.consumers(), outputs, by_operator }
    }

    /// The nodes that `pattern` may have as its outermost one, the last one first.
    pub(super) fn roots(&self, pattern: &Expr) -> BTreeSet<Reverse<usize>> {
        match pattern {
            Expr::Or(alternatives) => alternatives.iter().flat_map(|pattern| self.roots(pattern)).collect(),
            Expr::Any { .. } | Expr::Dequantized { .. } => BTreeSet::new(),
            Expr::Node { ops, .. } => {
                let named = ops.iter().map(|(domain, op)| (domain.as_str(), op.as_str()));
                named.filter_map(|name| self.by_operator.get(&name)).flatten().copied().map(Reverse).collect()
            }
        }
    }

    /// The nodes of the first way in which `pattern` matches with `root` as its outermost node and every node `free`. Where more
    /// leaves them than what the root gives, they have to be `convex`.
    pub(super) fn find(
        &self,
        pattern: &Expr,
        root: usize,
        free: &dyn Fn(usize) -> bool,
        convex: &mut dyn FnMut(&BTreeSet<usize>) -> bool,
    ) -> Option<BTreeSet<usize>> {
        let ways = self.at_node(pattern, root, &Binding::default(), free).into_iter();
        let mut fitting = ways.filter(|Binding { nodes, shared, .. }| {
            let mut seen = nodes.iter().filter(|&&node| node != root && self.is_seen(node, nodes)).peekable();
            let is_open = seen.peek().is_some();
            seen.all(|node| shared.contains(node)) && (!is_open || convex(nodes))
        });
        fitting.next().map(|binding| binding.nodes)
    }

    /// Whether something beside these nodes reads what the node gives, or it is an output of the graph.
    fn is_seen(&self, node: usize, nodes: &BTreeSet<usize>) -> bool {
        self.graph.nodes[node].outputs.iter().flatten().any(|value| {
            self.outputs.contains(value) || self.consumers[value.0].iter().any(|reader| !nodes.contains(reader))
        })
    }

    fn at_node(&self, pattern: &Expr, node: usize, binding: &Binding, free: &dyn Fn(usize) -> bool) -> Vec<Binding> {
        match pattern {
            Expr::Or(alternatives) => {
                alternatives.iter().flat_map(|pattern| self.at_node(pattern, node, binding, free)).collect()
            }
            Expr::Any { .. } | Expr::Dequantized { .. } => Vec::new(),
            Expr::Node { ops, operands, rest, shared, .. } => {
                let found = &self.graph.nodes[node];
                let named = |(domain, op): &(String, String)| *domain == found.domain && *op == found.op;
                if !free(node) || !ops.iter().any(named) {
                    return Vec::new();
                }
                let mut binding = binding.clone();
                binding.nodes.insert(node);
                if *shared {
                    binding.shared.insert(node);
                }
                let mut ways = self.operands(operands, *rest, &found.inputs, &binding, free);
                if found.domain.is_empty()
                    && COMMUTATIVE.contains(&found.op.as_str())
                    && found.inputs.len() == 2
                    && operands.len() == 2
                {
                    let swapped = [found.inputs[1], found.inputs[0]];
                    ways.extend(self.operands(operands, *rest, &swapped, &binding, free));
                }
                ways
            }
        }
    }

    /// The tensor of 8 bits that the node dequantises by constant scales and zero points.
    fn dequantized(&self, node: usize, constant: bool) -> Option<ValueId> {
        let node = &self.graph.nodes[node];
        quantized::dequantized(self.graph, node)?;
        node.input(0).filter(|&x| !constant || self.graph.value(x).constant.is_some())
    }

    fn operands(
        &self,
        operands: &[Expr],
        rest: bool,
        inputs: &[Option<ValueId>],
        binding: &Binding,
        free: &dyn Fn(usize) -> bool,
    ) -> Vec<Binding> {
        if !rest && inputs.iter().skip(operands.len()).any(Option::is_some) {
            return Vec::new();
        }
        operands.iter().enumerate().fold(vec![binding.clone()], |ways, (position, operand)| {
            let input = inputs.get(position).copied().flatten();
            ways.iter().flat_map(|binding| self.at_value(operand, input, binding, free)).collect()
        })
    }

    fn at_value(
        &self,
        pattern: &Expr,
        value: Option<ValueId>,
        binding: &Binding,
        free: &dyn Fn(usize) -> bool,
    ) -> Vec<Binding> {
        match pattern {
            Expr::Any { name, constant, absent } => {
                let fits = match value {
                    None => *absent,
                    Some(value) => !constant || self.graph.value(value).constant.is_some(),
                };
                if fits { bound(name.as_ref(), value, binding) } else { Vec::new() }
            }
            Expr::Dequantized { name, absent, .. } if value.is_none() => {
                if *absent {
                    bound(name.as_ref(), None, binding)
                } else {
                    Vec::new()
                }
            }
            Expr::Dequantized { name, constant, .. } => {
                let producer = value.and_then(|value| self.producers[value.0]).filter(|&node| free(node));
                let Some((node, tensor)) = producer.and_then(|node| Some((node, self.dequantized(node, *constant)?)))
                else {
                    return Vec::new();
                };
                let mut ways = bound(name.as_ref(), Some(tensor), binding);
                for binding in &mut ways {
                    binding.nodes.insert(node);
                }
                ways
            }
            Expr::Or(alternatives) => {
                alternatives.iter().flat_map(|pattern| self.at_value(pattern, value, binding, free)).collect()
            }
            Expr::Node { optional, operands, .. } => {
                let producer = value.and_then(|value| self.producers[value.0]);
                let mut ways =
                    producer.map_or_else(Vec::new, |producer| self.at_node(pattern, producer, binding, free));
                if *optional && ways.is_empty() {
                    ways = self.at_value(&operands[0], value, binding, free);
                }
                ways
            }
        }
    }
}

/// The binding with a value under a name; none where the name is bound to another one.
fn bound(name: Option<&String>, value: Option<ValueId>, binding: &Binding) -> Vec<Binding> {
    if name.and_then(|name| binding.names.get(name)).is_some_and(|bound| *bound != value) {
        return Vec::new();
    }
    let mut binding = binding.clone();
    if let Some(name) = name {
        binding.names.insert(name.clone(), value);
    }
    vec![binding]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::groups::Groups;
    use crate::partition::testing::{constant, graph};
    use byoc_plugin_api::Pattern;

    /// `x -> Conv(w) -> Add(b) -> Relu -> y`, and `Add` read a second time where `leak` is set.
    fn chain(leak: bool) -> Graph {
        let mut nodes = vec![("Conv", vec!["x", "w"], vec!["c"]), ("Add", vec!["b", "c"], vec!["a"])];
        nodes.push(("Relu", vec!["a"], vec!["y"]));
        if leak {
            nodes.push(("Exp", vec!["a"], vec!["z"]));
        }
        let mut graph = graph(&["x"], &nodes, if leak { &["y", "z"] } else { &["y"] });
        constant(&mut graph, "w");
        constant(&mut graph, "b");
        graph
    }

    fn find(graph: &Graph, text: &str, root: usize) -> Option<Vec<usize>> {
        let expr = Pattern::new("p", text).parse().expect("valid");
        let groups = &mut Groups::new(graph);
        let convex = &mut |nodes: &BTreeSet<usize>| groups.is_convex(nodes);
        Matcher::new(graph).find(&expr, root, &|_| true, convex).map(|nodes| nodes.into_iter().collect())
    }

    #[test]
    fn patterns_match_as_documented() {
        let plain = chain(false);
        let cases: [(&str, usize, Option<&[usize]>); 9] = [
            ("(Relu (Add (Conv ?x ?w:const) ?b:const))", 2, Some(&[0, 1, 2])),
            ("(Add ?b:const (Conv ?x ?w))", 1, Some(&[0, 1])),
            ("(Relu|Clip (Add _ _))", 2, Some(&[1, 2])),
            ("(Relu (Mul? (Add _ _) _))", 2, Some(&[1, 2])),
            ("(or (Gemm ?x ?w ?b) (Conv ?x ?w))", 0, Some(&[0])),
            ("(Conv ?x ?w:const ?b:const?)", 0, Some(&[0])),
            ("(Conv ?x ?w ?b)", 0, None),
            ("(Conv ?x)", 0, None),
            ("(Conv ?x:const ...)", 0, None),
        ];
        for (text, root, expected) in cases {
            assert_eq!(find(&plain, text, root).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_value_read_outside_keeps_its_node_from_the_inside() {
        assert_eq!(find(&chain(true), "(Relu (Add (Conv ?x ?w) ?b))", 2), None);
        assert_eq!(find(&chain(true), "(Add (Conv ?x ?w) ?b)", 1), Some(vec![0, 1]));
    }

    #[test]
    fn what_may_be_read_outside_is() {
        assert_eq!(find(&chain(true), "(Relu (Add+ (Conv ?x ?w) ?b))", 2), Some(vec![0, 1, 2]));
        assert_eq!(find(&chain(true), "(Relu (Add (Conv+ ?x ?w) ?b))", 2), None);
        assert_eq!(find(&chain(false), "(Relu (Add+ (Conv+ ?x ?w) ?b))", 2), Some(vec![0, 1, 2]));
        // What is read outside comes back by another way: the nodes would wait for one that waits for them.
        let around = [("Neg", vec!["x"], vec!["a"]), ("Exp", vec!["a"], vec!["e"]), ("Add", vec!["a", "e"], vec!["y"])];
        assert_eq!(find(&graph(&["x"], &around, &["y"]), "(Add (Neg+ ?x) ?y)", 2), None);
        let beside = [("Neg", vec!["x"], vec!["a"]), ("Exp", vec!["a"], vec!["z"]), ("Add", vec!["a", "x"], vec!["y"])];
        assert_eq!(find(&graph(&["x"], &beside, &["y", "z"]), "(Add (Neg+ ?x) ?y)", 2), Some(vec![0, 2]));
    }

    #[test]
    fn one_name_is_one_value() {
        let graph =
            graph(&["x", "y"], &[("Mul", vec!["x", "x"], vec!["a"]), ("Mul", vec!["x", "y"], vec!["b"])], &["a", "b"]);
        assert_eq!(find(&graph, "(Mul ?x ?x)", 0), Some(vec![0]));
        assert_eq!(find(&graph, "(Mul ?x ?x)", 1), None);
    }
}
