//! What to ask for: the operator, and the products and the softmax that exporters write in its place.

use byoc_plugin_api::Pattern;

/// The longest first: what a Transpose makes may be wanted by others, too, and is read as it is then.
pub fn patterns() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (inside, folded) in [("with heads of rows", true), ("", false)] {
        for (behind, before, after) in
            [(" to joined rows", "(Reshape (Transpose ", ") _)"), (" to rows", "(Transpose ", ")"), ("", "", "")]
        {
            let name = |what: &str| [what, inside].join(" ").trim_end().to_owned() + behind;
            let whole = |attention: String| format!("{before}{attention}{after}");
            patterns.push(Pattern::new(name("attention in pieces"), whole(in_pieces(folded))));
            patterns.push(Pattern::new(name("attention"), whole(operator(folded))));
        }
    }
    patterns
}

fn operator(folded: bool) -> String {
    let heads = |name: &str| format!("(Transpose? (Reshape? {name} _))");
    let [q, k, v] = ["?q", "?k", "?v"].map(|name| if folded { heads(name) } else { name.into() });
    format!("(Attention {q} {k} {v} ?mask? ...)")
}

/// `softmax(scale Q K' + mask) V` with factors and conversions wherever they are.
fn in_pieces(folded: bool) -> String {
    let scaled = |x: &str, name: &str| format!("(Mul|Div? {x} ?{name}:const)");
    let rows = |name: &str| format!("(Reshape? {name} _)");
    let heads = |name: &str| match folded {
        true => format!("(Transpose? {})", scaled(&rows(name), "a")),
        false => name.to_owned(),
    };
    let v = if folded { format!("(Transpose? {})", rows("?v")) } else { "?v".into() };
    let (q, k) = (heads("?q"), heads("?k"));
    let (q, k) = (scaled(&q, "b"), scaled(&format!("(Transpose {})", scaled(&k, "c")), "d"));
    let scores = format!("(Cast? {})", scaled(&format!("(Cast? (MatMul {q} {k}))"), "e"));
    let masked = format!(
        "(or (Add {scores} ?mask) (Where ?mask {scores} ?fill:const) (Where ?mask ?fill:const {scores}) {scores})"
    );
    format!("(MatMul (Cast? (Softmax (Cast? {masked}))) {v})")
}
