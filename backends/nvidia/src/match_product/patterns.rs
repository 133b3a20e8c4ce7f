//! The patterns of fused GEMMs.

use byoc_plugin_api::Pattern;

use super::{Erf, Supported};

/// Patterns of `product`, itself a pattern, with the sums and activations that may follow, the longest first.
pub fn patterns(product: &str, supported: &Supported) -> Vec<Pattern> {
    let sum = format!("(Add {product} ?t)");
    let sums = format!("(Add {sum} ?u)");
    let any = format!("(Add? (Add? {product} ?t) ?u)");
    let mut patterns = Vec::new();
    if supported.wide_bias {
        let wide = format!("(Add (Cast {product}) ?t)");
        let activated = activated(&wide, supported).into_iter().map(|(name, text)| (format!("{name} in f32"), text));
        let all = activated.chain([("sum in f32".to_owned(), wide.clone())]);
        patterns.extend(all.map(|(name, text)| Pattern::new(name, format!("(Cast {text})"))));
    }
    patterns.extend(activated(&any, supported).into_iter().map(|(name, text)| Pattern::new(name, text)));
    patterns.extend([Pattern::new("two sums", sums), Pattern::new("sum", sum), Pattern::new("product", product)]);
    patterns
}

/// The activations of `x`.
fn activated(x: &str, supported: &Supported) -> Vec<(&'static str, String)> {
    let mut texts = vec![("gelu", format!("(Gelu {x})")), ("gelu in pieces", in_pieces(x, &with_tanh(x)))];
    if supported.erf != Erf::Refused {
        texts.push(("gelu with erf in pieces", in_pieces(x, &format!("(Erf (Mul|Div {x} ?scale:const))"))));
    }
    if supported.silu {
        texts.push(("silu", format!("(Mul {x} (Sigmoid {x}))")));
    }
    texts.push(("relu", format!("(Relu {x})")));
    texts
}

/// `0.5 x (1 + curve)`, in the orders in which exporters multiply.
fn in_pieces(x: &str, curve: &str) -> String {
    let gate = format!("(Add {curve} ?one:const)");
    format!(
        "(or (Mul (Mul {x} {gate}) ?half:const) (Mul (Mul {x} ?half:const) {gate}) (Mul {x} (Mul {gate} ?half:const)))"
    )
}

/// `tanh(scale (x + factor x^3))`.
fn with_tanh(x: &str) -> String {
    let cube = format!("(or (Pow {x} ?three:const) (Mul (Mul {x} {x}) {x}))");
    format!("(Tanh (Mul (Add {x} (Mul {cube} ?factor:const)) ?scale:const))")
}
