//! Attention as a step, whose kernel `byoc_nvidia` generates.

use byoc_nvidia::attention;
pub(crate) use byoc_nvidia::attention::{MatchedAttention, read};
use byoc_nvidia::build::{GeneratedKernel, PRELUDE};
use byoc_nvidia::compile::Needs;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::Error;

use crate::buffers::{Buffers, Use};
use crate::source::Kernel;

/// The uses of constants: operands are read in place.
pub(crate) fn uses(matched: &MatchedAttention) -> Vec<(usize, Use)> {
    let operands = [Some(matched.q), Some(matched.k), Some(matched.v), matched.mask].into_iter().flatten();
    let numbers = matched.numbers.iter().map(|&value| (value, Use::Embedded));
    operands.map(|value| (value, Use::Host)).chain(numbers).collect()
}

/// Its name: type and sizes.
pub(crate) fn name(matched: &MatchedAttention) -> String {
    format!("attention_{}_{}_{}", matched.spec.dtype, matched.spec.heads, matched.spec.size)
}

/// The kernel, which is the same for every architecture.
pub(crate) fn kernel(matched: &MatchedAttention, symbol: &str, memory: &mut Buffers<'_>) -> Result<Kernel, Error> {
    let values = [Some(matched.q), Some(matched.k), Some(matched.v), matched.mask].into_iter().flatten();
    let mut places: Vec<BufferRef> = values.map(|value| memory.contiguous(value)).collect::<Result<_, _>>()?;
    places.push(memory.place(matched.output)?);
    let GeneratedKernel { text, launch } = attention::generate(&matched.spec, symbol, &places)?;
    let (needs, recipe) = (Needs::default(), serde_json::Value::Null);
    Ok(Kernel { parts: vec![PRELUDE], text, launch, launch_info: None, needs, memory: 0, recipe })
}

#[cfg(test)]
mod tests {
    use byoc_nvidia::program::Argument;
    use byoc_plugin_api::testing::RegionBuilder;
    use byoc_plugin_api::{Constants, DType, Options};

    use super::*;
    use crate::{source, step};

    #[test]
    fn attention_is_one_step() {
        let mut net = RegionBuilder::of("cutlass", DType::F16);
        let operands = ["q", "k", "v"].map(|_| net.input([1, 8, 64, 32]));
        let y = net.node("Attention", &operands, [1, 8, 64, 32], "");
        let region = net.with(&[y]).region;
        let step = step::read(&region, &Options::default(), &|_| None).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert_eq!(
            (step.name().as_str(), step.uses()),
            ("attention_f16_8_32", vec![(0, Use::Host), (1, Use::Host), (2, Use::Host)])
        );
        let data = Constants::new(Vec::new());
        let arch = "sm_80".parse().expect("it is one");
        let kernels = step.kernels(arch, &mut Buffers::new(&region, &data)).expect("it has a kernel");
        let [kernel] = &kernels[..] else { panic!("{} kernels", kernels.len()) };
        let places = [BufferRef::Input(0), BufferRef::Input(1), BufferRef::Input(2), BufferRef::Output(0)];
        assert_eq!(kernel.launch.arguments, places.map(Argument::Pointer));
        // It has the prelude, and no headers of CUTLASS.
        let source = source::source("attention", &kernels);
        assert!(source.text.starts_with(PRELUDE) && !source.needs.cutlass);
    }
}
