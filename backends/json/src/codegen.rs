//! Compiles a region to a program, in passes over a graph of steps.

use std::io::Write;

use byoc_plugin_api::{Constants, DType, Error, Generated, Job, Options, Region};

use crate::kernels::Math;
use crate::program::{Program, text};

mod attention_node;
mod fold_norm;
mod fuse_attention;
mod fuse_epilogue;
mod fuse_gate;
mod fuse_norm;
mod graph;
mod integer;
mod into_views;
mod join_masks;
mod layout;
mod lift;
mod lower;
mod narrow_filters;
mod pack_matrix;
mod precision;
mod recurrent;
mod round_filters;
mod scale_filters;
mod settle;
mod simplify;
mod strided;
mod views;
mod widen;
mod window;

use graph::Graph;

/// Writes the code of a region.
pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let program = lower(job.region, job.constants, job.options)?;
    code.write_all(&text::encode(&program)?)?;
    Ok(Generated::default())
}

/// What weights of products are rounded to.
fn type_of_weights(options: &Options) -> Option<DType> {
    match options.text("weights") {
        "int8" => Some(DType::I8),
        name => DType::from_name(name),
    }
}

fn lower(region: &Region, constants: &Constants<'_>, options: &Options) -> Result<Program, Error> {
    region.validate()?;
    let math = Math::from_name(options.text("math"));
    let packed = [("weights", options.text("weights") != "model"), ("math", math != Math::F32)];
    if let Some((name, _)) = packed.into_iter().find(|(_, given)| *given && !options.bool("pack")) {
        return Err(
            Error::new(format!("the options {name} and pack=false exclude each other")).hint("Leave one of them out")
        );
    }
    let mut graph = Graph::new(region, constants);
    // Fast kernels are chosen and laid out for sizes that are known before the run.
    if options.text("kernels") != "reference" && !region.tells_sizes() {
        let fusion = options.bool("fusion");
        widen::run(&mut graph);
        simplify::run(&mut graph);
        lift::run(&mut graph);
        if fusion {
            integer::groups::run(&mut graph);
        }
        into_views::run(&mut graph);
        if fusion {
            fuse_gate::run(&mut graph);
            fuse_norm::run(&mut graph);
            join_masks::run(&mut graph);
            fuse_attention::run(&mut graph);
            attention_node::run(&mut graph);
        }
        fold_norm::run(&mut graph, fold_norm::Wanted { fusion, winograd: options.bool("winograd") });
        recurrent::run(&mut graph);
        lower::run(&mut graph);
        integer::nodes::run(&mut graph);
        lift::filters(&mut graph);
        if fusion {
            views::run(&mut graph);
            integer::finish::run(&mut graph);
            fuse_epilogue::run(&mut graph);
            // Filters of 8 bits are constants.
            if type_of_weights(options) != Some(DType::I8) {
                scale_filters::run(&mut graph);
            }
        }
        integer::channels_last::run(&mut graph);
        layout::run(&mut graph);
        if options.bool("pack") {
            // What core computes once is exact: the region of constants that it folds has no input.
            let exact = region.inputs.is_empty();
            let weights = type_of_weights(options).filter(|_| !exact);
            pack_matrix::run(&mut graph, weights);
            if weights == Some(DType::I8) {
                round_filters::run(&mut graph);
            }
            narrow_filters::run(&mut graph, weights.filter(|&dtype| dtype != DType::I8));
            precision::run(&mut graph, if exact { Math::F32 } else { math });
        }
    }
    settle::program(graph, options.bool("pack"))
}
