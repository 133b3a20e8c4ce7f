//! Control flow around a part of a graph. What it gives is what its nodes would give by themselves: both branches of an `If` have
//! them, and each iteration of a `Loop` computes the same.

use std::collections::BTreeSet;

use byoc_core::onnx::proto::tensor_proto::DataType;
use byoc_core::onnx::proto::{NodeProto, ValueInfoProto};
use byoc_core::onnx::write::{Model, node};
use byoc_plugin_api::DType;
use byoc_tests::tensor::Tensor;

/// Seeds of graphs with control flow.
pub(crate) const SEEDS: std::ops::Range<u64> = 2_000_000..2_000_300;

/// The input of the model that says which branch runs, or how often the body does.
pub(crate) const CHOICE: &str = "choice";

/// What is around the nodes.
#[derive(Clone, Copy, Debug)]
enum Around {
    If,
    Loop,
}

/// Control flow around the nodes of a graph, or around the second half of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrap {
    around: Around,
    half: bool,
    /// Whether constants that only the body reads are in it.
    owns: bool,
}

impl Wrap {
    /// The one of a seed.
    pub(crate) fn of(seed: u64) -> Wrap {
        let around = if seed.is_multiple_of(2) { Around::If } else { Around::Loop };
        Wrap { around, half: (seed / 2).is_multiple_of(2), owns: (seed / 4).is_multiple_of(2) }
    }

    /// The choice in a run.
    pub(crate) fn choice(self, run: usize) -> (String, Tensor) {
        let tensor = match self.around {
            Around::If => Tensor::new(DType::Bool, vec![], vec![(run % 2) as u8]),
            Around::Loop => Tensor::new(DType::I64, vec![], (1 + run as i64 % 3).to_le_bytes().to_vec()),
        };
        (CHOICE.to_owned(), tensor)
    }

    /// Puts the nodes into the model, whose graph has everything else.
    pub(crate) fn put(self, mut model: Model, mut outside: Vec<NodeProto>) -> Model {
        let inside = outside.split_off(if self.half { outside.len() / 2 } else { 0 });
        let made: BTreeSet<String> = inside.iter().flat_map(|node| node.output.clone()).collect();
        let given: Vec<String> = model.graph.output.iter().filter_map(|port| port.name.clone()).collect();
        let given: Vec<String> = given.into_iter().filter(|name| made.contains(name)).collect();
        let kind = if matches!(self.around, Around::If) { DataType::Bool } else { DataType::Int64 };
        model = model.input(CHOICE, kind, &[]);
        if given.is_empty() {
            model.graph.node = [outside, inside].concat();
            return model;
        }
        let body = self.body(&mut model, &outside, inside, &made, &given);
        model.graph.node = outside;
        match self.around {
            Around::If => {
                model.graph.node.push(node("control", ("", "If"), vec![CHOICE.into()], given));
                model.body("then_branch", body.clone()).body("else_branch", body)
            }
            Around::Loop => {
                let all: Vec<String> = given.iter().map(|name| format!("{name}_all")).collect();
                let inputs = vec![CHOICE.into(), String::new()];
                model.graph.node.push(node("control", ("", "Loop"), inputs, all.clone()));
                let mut model = model.body("body", body).ints("first", &[], &[0]);
                for (all, name) in all.into_iter().zip(given) {
                    let pick = node(&format!("pick_{name}"), ("", "Gather"), vec![all, "first".into()], vec![name]);
                    model.graph.node.push(pick);
                }
                model
            }
        }
    }

    /// The nodes as a graph that gives these values. Names in it are its own.
    fn body(
        self,
        model: &mut Model,
        outside: &[NodeProto],
        mut inside: Vec<NodeProto>,
        made: &BTreeSet<String>,
        given: &[String],
    ) -> Model {
        let own =
            |name: &str| if made.contains(name) && !name.is_empty() { format!("{name}_in") } else { name.to_owned() };
        for node in &mut inside {
            node.input.iter_mut().chain(&mut node.output).for_each(|name| *name = own(name));
        }
        let mut body = Model::default();
        if let Around::Loop = self.around {
            body = body.input("step", DataType::Int64, &[]).input("on", DataType::Bool, &[]);
            body = body.node("Identity", &["on"], &["still"]).output("still", DataType::Bool, &[]);
        }
        if self.owns {
            let elsewhere: BTreeSet<&String> = outside.iter().flat_map(|node| &node.input).chain(given).collect();
            let (stay, go) = std::mem::take(&mut model.graph.initializer).into_iter().partition(|constant| {
                constant.name.as_ref().is_none_or(|name| elsewhere.contains(name) || is_output(model, name))
            });
            (model.graph.initializer, body.graph.initializer) = (stay, go);
        }
        body.graph.node.extend(inside);
        let port = |name: &String| ValueInfoProto { name: Some(own(name)), ..ValueInfoProto::default() };
        body.graph.output.extend(given.iter().map(port));
        body
    }
}

fn is_output(model: &Model, name: &str) -> bool {
    model.graph.output.iter().any(|port| port.name.as_deref() == Some(name))
}
