//! The nodes of a model as one list: every node with a name of its own and its operator's version, calls of the model's
//! own functions replaced by the function's nodes. A call stays a node where a backend brings an operator of that name. Bodies of
//! control flow are flattened likewise, each by itself.

mod batch_scan;
mod scope;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use byoc_plugin_api::closest;

use self::scope::Call;
use super::functions;
use super::names::Names;
use super::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto};
use super::supported_ops;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::CustomOperators;
use crate::ops::{self, control, training};

/// Limits of the call depth of functions, and of nodes and calls after inlining: a file of a few kilobytes could expand to
/// more than any memory holds.
const MAX_DEPTH: usize = 64;
const MAX_STEPS: usize = 250_000;

/// The newest operator set of ONNX that this build knows.
pub const NEWEST_OPSET: i64 = ops::NEWEST;

/// A node that is not replaced by the body of a function.
#[derive(Debug)]
pub(super) struct FlatNode {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) domain: String,
    pub(super) version: i64,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) attributes: Vec<AttributeProto>,
    /// The graphs that it runs, in the order of its operator's list.
    pub(super) bodies: Vec<FlatBody>,
}

/// A body of control flow.
#[derive(Debug)]
pub(super) struct FlatBody {
    /// The attribute that has it.
    pub(super) attribute: &'static str,
    /// All but its nodes.
    pub(super) graph: GraphProto,
    /// Its nodes, in the file's order.
    pub(super) nodes: Vec<FlatNode>,
}

/// The operator sets that a model or a function imports: version by domain.
#[derive(Debug, Default)]
pub(super) struct Opsets(HashMap<String, i64>);

/// A flattened model.
pub(super) struct Flat {
    /// The nodes, in the file's order.
    pub(super) nodes: Vec<FlatNode>,
    /// The names of the nodes.
    pub(super) node_names: Names,
    /// The names of all values, those of the functions' insides included.
    pub(super) value_names: Names,
    /// The names of nodes that call a function.
    pub(super) calls: BTreeSet<String>,
}

/// Domain, name and overload.
type FunctionKey = (String, String, String);

struct Flattener<'a> {
    entry: &'a str,
    custom: &'a CustomOperators,
    functions: HashMap<FunctionKey, FunctionProto>,
    node_names: Names,
    value_names: Names,
    nodes: Vec<FlatNode>,
    calls: BTreeSet<String>,
    steps: usize,
    /// How many bodies of control flow the current node is in.
    depth: usize,
}

impl Opsets {
    /// Reads the imports. Both spellings of ONNX's own domain are one.
    pub(super) fn new(imports: &[OperatorSetIdProto]) -> Result<Opsets> {
        let mut versions = HashMap::new();
        for import in imports {
            let domain = domain(import.domain.as_deref());
            let version = import.version.unwrap_or(1);
            if domain.is_empty() && !(1..=NEWEST_OPSET).contains(&version) {
                let cause =
                    format!("operator set {version} of ONNX is not known; this build knows 1 to {NEWEST_OPSET}");
                return Err(Diagnostic::new(Code::UnknownOperator, cause)
                    .hint(format!("Export the model with operator set {NEWEST_OPSET} or lower, or update byoc")));
            }
            versions.insert(domain.to_owned(), version);
        }
        Ok(Opsets(versions))
    }

    /// What a model imports. Before IR version 3 there were no imports, and one operator set.
    pub(super) fn of_model(imports: &[OperatorSetIdProto], ir_version: i64) -> Result<Opsets> {
        let mut opsets = Opsets::new(imports)?;
        if ir_version < 3 {
            opsets.0.entry(String::new()).or_insert(1);
        }
        Ok(opsets)
    }
}

/// A domain as nodes have it: ONNX's own is the empty one.
fn domain(name: Option<&str>) -> &str {
    match name {
        None | Some("ai.onnx") => "",
        Some(name) => name,
    }
}

/// Flattens the `nodes` of an entry. `value_names` are the names that are taken, and takes the names made here.
pub(super) fn flatten(
    entry: &str,
    mut nodes: Vec<NodeProto>,
    functions: Vec<FunctionProto>,
    opsets: &Opsets,
    custom: &CustomOperators,
    value_names: Names,
) -> Result<Flat> {
    let derived = functions::derive(&mut nodes)?;
    let mut flattener = Flattener {
        entry,
        custom,
        functions: HashMap::new(),
        node_names: Names::default(),
        value_names,
        nodes: vec![],
        calls: BTreeSet::new(),
        steps: 0,
        depth: 0,
    };
    for function in functions {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let domain = domain(function.domain.as_deref()).to_owned();
        let key = (domain, text(&function.name), text(&function.overload));
        flattener.functions.insert(key, function);
    }
    for (overload, function) in derived {
        flattener.functions.insert((training::DOMAIN.into(), functions::GRADIENT_NAME.into(), overload), function);
    }
    flattener.expand_all("", nodes, opsets, &mut Vec::new())?;
    let Flattener { nodes, node_names, value_names, calls, .. } = flattener;
    Ok(Flat { nodes, node_names, value_names, calls })
}

impl Flattener<'_> {
    /// Flattens the nodes of a graph; `prefix` goes before their names.
    fn expand_all(
        &mut self,
        prefix: &str,
        nodes: Vec<NodeProto>,
        opsets: &Opsets,
        callers: &mut Vec<FunctionKey>,
    ) -> Result<()> {
        // Names that the model gives come first, so that a made-up one does not push one of them aside.
        let mut named: Vec<_> = nodes.into_iter().map(|node| (node.name.clone().unwrap_or_default(), node)).collect();
        for (name, _) in named.iter_mut().filter(|(name, _)| !name.is_empty()) {
            *name = self.node_names.unique(&format!("{prefix}{name}"));
        }
        for (index, (name, node)) in named.into_iter().enumerate() {
            let name = if name.is_empty() { self.made_up_name(prefix, &node, index) } else { name };
            self.expand(name, node, opsets, callers)?;
        }
        Ok(())
    }

    /// Takes the bodies of a node of control flow out of its attributes.
    fn bodies(
        &mut self,
        name: &str,
        (domain, op): (&str, &str),
        attributes: &mut Vec<AttributeProto>,
        opsets: &Opsets,
        callers: &mut Vec<FunctionKey>,
    ) -> Result<Vec<FlatBody>> {
        let Some(def) = control::find(domain, op) else { return Ok(Vec::new()) };
        if self.depth >= MAX_DEPTH {
            return Err(Diagnostic::new(Code::BadGraph, format!("node '{name}': its graphs are nested too deeply")));
        }
        let mut bodies = Vec::with_capacity(def.bodies.len());
        for &attribute in def.bodies {
            let missing =
                || Diagnostic::new(Code::BadNode, format!("node '{name}': attribute '{attribute}' is missing"));
            let index = attributes.iter().position(|given| given.name.as_deref() == Some(attribute));
            let mut graph = attributes.remove(index.ok_or_else(missing)?).g.ok_or_else(missing)?;
            let nodes = std::mem::take(&mut graph.node);
            let around = std::mem::take(&mut self.nodes);
            self.depth += 1;
            // Of two bodies, the one that holds the node is told by its name.
            let prefix = if def.bodies.len() > 1 { format!("{name}/{attribute}/") } else { format!("{name}/") };
            self.expand_all(&prefix, nodes, opsets, callers)?;
            self.depth -= 1;
            bodies.push(FlatBody { attribute, graph, nodes: std::mem::replace(&mut self.nodes, around) });
        }
        Ok(bodies)
    }

    fn made_up_name(&mut self, prefix: &str, node: &NodeProto, index: usize) -> String {
        self.node_names.unique(&format!("{prefix}{}_{index}", node.op_type.as_deref().unwrap_or_default()))
    }

    fn expand(
        &mut self,
        name: String,
        mut node: NodeProto,
        opsets: &Opsets,
        callers: &mut Vec<FunctionKey>,
    ) -> Result<()> {
        self.steps += usize::from(!callers.is_empty());
        if self.steps > MAX_STEPS {
            let cause = format!("the model's functions expand to more than {MAX_STEPS} nodes");
            return Err(Diagnostic::new(Code::BadGraph, cause));
        }
        let domain = domain(node.domain.as_deref()).to_owned();
        let key = (domain, node.op_type.take().unwrap_or_default(), node.overload.take().unwrap_or_default());
        if let Some(function) = self.functions.get(&key) {
            check_call(&name, &key, function, &node, callers)?;
            if !self.stays_whole(&name, &key, opsets) {
                let function = function.clone();
                return self.expand_call(&name, key, function, node, callers);
            }
            node.attribute = with_defaults(function.attribute_proto.clone(), node.attribute).into_values().collect();
            self.calls.insert(name.clone());
        } else if let (Some(def), Some(&version)) = (functions::find(&key.0, &key.1), opsets.0.get(&key.0)) {
            if !self.stays_whole(&name, &key, opsets) {
                let within = |error: Diagnostic| error.within(format!("node '{name}' ({})", key.1));
                let function = def.function(version, &mut node).map_err(within)?;
                return self.expand_call(&name, key, function, node, callers);
            }
            self.calls.insert(name.clone());
        }
        let (domain, op, _) = key;
        let Some(&version) = opsets.0.get(&domain) else {
            let set = if domain.is_empty() { "ai.onnx" } else { &domain };
            let cause =
                format!("node '{name}': operator {op} is of operator set '{set}', which the model does not import");
            return Err(Diagnostic::new(Code::BadGraph, cause));
        };
        let (inputs, outputs, mut attributes) = (node.input, node.output, node.attribute);
        let bodies = self.bodies(&name, (&domain, &op), &mut attributes, opsets, callers)?;
        let node = FlatNode { name, op, domain, version, inputs, outputs, attributes, bodies };
        self.nodes.push(batch_scan::unbatched(node, &mut self.value_names, &mut self.node_names)?);
        Ok(())
    }

    /// Whether a call of a function stays a node. Those of core's own operators do not, nor do overloads, which backends do not
    /// tell apart.
    fn stays_whole(&self, name: &str, (domain, op, overload): &FunctionKey, opsets: &Opsets) -> bool {
        overload.is_empty()
            && !supported_ops::is_canonical(domain, op)
            && self.custom.keeps_call((self.entry, name), (domain, op), opsets.0.get(domain).copied())
    }

    /// Puts the body of `function` in place of the node `call`.
    fn expand_call(
        &mut self,
        name: &str,
        key: FunctionKey,
        function: FunctionProto,
        call: NodeProto,
        callers: &mut Vec<FunctionKey>,
    ) -> Result<()> {
        let opsets =
            Opsets::new(&function.opset_import).map_err(|error| error.within(format!("function {}", key.1)))?;
        let attributes = with_defaults(function.attribute_proto, call.attribute);
        let mut scope = Call::new(name, &attributes);
        let absent = std::iter::repeat(String::new());
        scope.values.extend(function.input.iter().cloned().zip(call.input.into_iter().chain(absent)));
        let mut passed_through = Vec::new();
        for (formal, actual) in function.output.iter().zip(call.output).filter(|(_, actual)| !actual.is_empty()) {
            match scope.values.get(formal) {
                Some(source) => passed_through.push((source.clone(), actual)),
                None => _ = scope.values.insert(formal.clone(), actual),
            }
        }
        callers.push(key);
        for (index, mut node) in function.node.into_iter().enumerate() {
            let inner = match node.name.take().filter(|inner| !inner.is_empty()) {
                Some(inner) => self.node_names.unique(&format!("{name}/{inner}")),
                None => self.made_up_name(&format!("{name}/"), &node, index),
            };
            scope.bind(&mut node, &mut self.value_names);
            self.expand(inner, node, &opsets, callers)?;
        }
        callers.pop();
        self.pass_through(name, passed_through);
        Ok(())
    }

    /// Outputs of a function that are inputs of it need a node that gives them their second name.
    fn pass_through(&mut self, name: &str, pairs: Vec<(String, String)>) {
        for (source, target) in pairs {
            self.nodes.push(FlatNode {
                name: self.node_names.unique(&format!("{name}/Identity")),
                op: "Identity".into(),
                domain: String::new(),
                version: 1,
                inputs: vec![source],
                outputs: vec![target],
                attributes: vec![],
                bodies: vec![],
            });
        }
    }
}

/// Fails where a call does not fit its function, or is one of its callers.
fn check_call(
    name: &str,
    key: &FunctionKey,
    function: &FunctionProto,
    call: &NodeProto,
    callers: &[FunctionKey],
) -> Result<()> {
    if callers.contains(key) || callers.len() >= MAX_DEPTH {
        let cause = format!("node '{name}': function {} calls itself, or is nested too deeply", key.1);
        return Err(Diagnostic::new(Code::BadGraph, cause));
    }
    if call.input.len() > function.input.len() || call.output.len() > function.output.len() {
        let cause = format!("node '{name}': more inputs or outputs than function {} has", key.1);
        return Err(Diagnostic::new(Code::BadNode, cause));
    }
    known_attributes(name, &key.1, function, call)
}

/// The attributes of a call by name, with the function's defaults where it sets none.
fn with_defaults(defaults: Vec<AttributeProto>, given: Vec<AttributeProto>) -> BTreeMap<String, AttributeProto> {
    let all = defaults.into_iter().chain(given);
    all.map(|attribute| (attribute.name.clone().unwrap_or_default(), attribute)).collect()
}

/// Fails where a call sets an attribute that the function does not have.
fn known_attributes(name: &str, op: &str, function: &FunctionProto, call: &NodeProto) -> Result<()> {
    let with_default = function.attribute_proto.iter().filter_map(|attribute| attribute.name.as_deref());
    let known = function.attribute.iter().map(String::as_str).chain(with_default);
    let mut seen = BTreeSet::new();
    for given in call.attribute.iter().filter_map(|attribute| attribute.name.as_deref()) {
        if !seen.insert(given) {
            return Err(Diagnostic::new(Code::BadNode, format!("node '{name}': attribute '{given}' is set twice")));
        }
        if !known.clone().any(|known| known == given) {
            let cause = format!("node '{name}': attribute '{given}' is not known for function {op}");
            let near = closest(given, known).map(|near| format!("Did you mean '{near}'?"));
            let remedy = near.unwrap_or_else(|| "Take it out, or declare it in the function".into());
            return Err(Diagnostic::new(Code::BadNode, cause).hint(remedy));
        }
    }
    Ok(())
}
