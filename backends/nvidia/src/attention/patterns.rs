//! Patterns of attention: the operator, and the two products and the softmax that exporters write instead.

use byoc_plugin_api::Pattern;

/// The source of Q, K and V.
#[derive(Clone, Copy)]
enum Origin {
    /// Parts of the same rows, by a Split.
    Parts,
    /// Separate rows.
    Rows,
    /// Separate heads.
    Heads,
}

/// The longest first. A Transpose whose result other nodes read, too, is left to a shorter pattern.
pub fn patterns() -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (inside, from) in
        [("with heads of parts of rows", Origin::Parts), ("with heads of rows", Origin::Rows), ("", Origin::Heads)]
    {
        for (behind, before, after) in
            [(" to joined rows", "(Reshape (Transpose ", ") _)"), (" to rows", "(Transpose ", ")"), ("", "", "")]
        {
            let name = |what: &str| [what, inside].join(" ").trim_end().to_owned() + behind;
            let whole = |attention: String| format!("{before}{attention}{after}");
            patterns.push(Pattern::new(name("attention in pieces"), whole(in_pieces(from))));
            patterns.push(Pattern::new(name("attention"), whole(operator(from))));
        }
    }
    patterns
}

impl Origin {
    /// The value of Q, K and V. All outputs of the Split have to be read within the pattern, so it is one node.
    fn values(self) -> [&'static str; 3] {
        match self {
            Origin::Parts => ["(Split (Reshape? ?rows _) ...)"; 3],
            Origin::Rows | Origin::Heads => ["?q", "?k", "?v"],
        }
    }

    /// Whether heads are split from rows.
    fn folded(self) -> bool {
        !matches!(self, Origin::Heads)
    }
}

fn operator(from: Origin) -> String {
    let heads = |name: &str| format!("(Transpose? (Reshape? {name} _))");
    let [q, k, v] = from.values().map(|name| if from.folded() { heads(name) } else { name.into() });
    format!("(Attention {q} {k} {v} ?mask? ...)")
}

/// `softmax(scale Q K' + mask) V` with factors and conversions wherever they are.
fn in_pieces(from: Origin) -> String {
    let scaled = |x: &str, name: &str| format!("(Mul|Div? {x} ?{name}:const)");
    let rows = |name: &str| format!("(Reshape? {name} _)");
    let [q, k, v] = from.values();
    let heads = |name: &str| match from.folded() {
        true => format!("(Transpose? {})", scaled(&rows(name), "a")),
        false => name.to_owned(),
    };
    let v = if from.folded() { format!("(Transpose? {})", rows(v)) } else { v.into() };
    let (q, k) = (heads(q), heads(k));
    let (q, k) = (scaled(&q, "b"), scaled(&format!("(Transpose {})", scaled(&k, "c")), "d"));
    let scores = format!("(Cast? {})", scaled(&format!("(Cast? (MatMul {q} {k}))"), "e"));
    let masked = format!(
        "(or (Add {scores} ?mask) (Where ?mask {scores} ?fill:const) (Where ?mask ?fill:const {scores}) {scores})"
    );
    format!("(MatMul (Cast? (Softmax (Cast? {masked}))) {v})")
}
