//! The mutations of one artifact: each place of its code and of its graph by itself, then some at once.

use byoc_json_backend::reference::kernels;
use serde_json::Value;

use crate::mutations::{self, Mutation};
use crate::repack::{CODE, GRAPH, LEDGER, Repacked};

/// What ends code of `kendryte` behind its kmodel, after a text in JSON and its length.
const MARK: &[u8] = b"byocK210";

/// Words of 32 bits that are too large, wrap, or are not sizes.
const WORDS: [u32; 9] = [0, 1, u32::MAX, 0x7fff_ffff, 0x8000_0000, (1 << 20) + 1, 0x4000_0001, 0xffff_fc18, 0x1_0001];

/// An artifact, and what can be changed in it.
pub struct Mutator {
    artifact: Repacked,
    targets: Vec<Target>,
}

/// A section with what can be changed in it.
struct Target {
    section: String,
    content: Content,
    mutations: usize,
}

enum Content {
    /// The graph section, or the ledger.
    Graph(Value, Vec<Mutation>),
    /// A document, and the bytes behind it.
    Document(Value, Vec<Mutation>, Vec<u8>),
    /// The bytes in front of a document, which its length and a mark follow.
    Trailer(Vec<u8>, Value, Vec<Mutation>),
    /// Words of 32 bits, and the bytes behind them.
    Words(Vec<u8>, Vec<u8>),
}

/// Numbers that depend on the seed only (SplitMix64).
pub fn random(seed: u64) -> u64 {
    let z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Mutator {
    /// Takes an artifact apart; without `graph` neither graph nor ledger are changed.
    pub fn new(file: &[u8], graph: bool) -> Mutator {
        let artifact = Repacked::read(file);
        let calls: Vec<&str> = kernels().map(|kernel| kernel.op).collect();
        let words: [&[&str]; 6] = [
            &calls,
            &["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"],
            &["blocked", "winograd", "first", "depthwise", "plain"],
            &["add", "sub", "mul", "div", "max", "min", "pow"],
            &["host", "packed", "embedded", "unused"],
            &["view", "expand", "to_blocked", "from_blocked"],
        ];
        let mut targets = Vec::new();
        for section in &artifact.sections {
            let contents = match section.name.as_str() {
                name @ (GRAPH | LEDGER) if graph => vec![Content::graph(artifact.json(name), &words)],
                name if name.starts_with(CODE) => contents(&section.bytes, &words),
                _ => Vec::new(),
            };
            let target =
                |content: Content| Target { section: section.name.clone(), mutations: content.mutations(), content };
            targets.extend(contents.into_iter().map(target));
        }
        Mutator { artifact, targets }
    }

    fn single(&self) -> usize {
        self.targets.iter().map(|target| target.mutations).sum()
    }

    /// How many there are: every single mutation, and half as many times several at once.
    pub fn cases(&self) -> usize {
        self.single() + self.single() / 2
    }

    /// What is changed in a case, and the file.
    pub fn mutate(&self, case: usize) -> (String, Vec<u8>) {
        let mut target = &self.targets[0];
        let mut mutations = vec![case];
        for other in &self.targets {
            target = other;
            if mutations[0] < other.mutations {
                break;
            }
            mutations[0] -= other.mutations;
        }
        if case >= self.single() {
            let mut seed = case as u64;
            let mut below = |end: usize| {
                seed = random(seed);
                (seed % end as u64) as usize
            };
            let mutable: Vec<_> = self.targets.iter().filter(|target| target.mutations > 0).collect();
            target = mutable[below(mutable.len())];
            // Mutations that fit together stand side by side: strides and dilations of one step.
            let first = below(target.mutations);
            mutations = vec![first];
            mutations.extend((0..1 + below(3)).map(|_| (first + below(200)) % target.mutations));
        }
        let mut artifact = self.artifact.clone();
        let text = target.content.mutate(&mut artifact, &target.section, &mutations);
        (format!("{}: {text}", target.section), artifact.write())
    }

    /// The documents of code.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        self.targets.iter().filter_map(|target| match &target.content {
            Content::Document(document, ..) => Some(document),
            _ => None,
        })
    }
}

/// What can be changed in code, by the form it has.
fn contents(code: &[u8], words: mutations::Words<'_>) -> Vec<Content> {
    let line = code.iter().position(|&byte| byte == b'\n').unwrap_or(code.len());
    for end in [code.len(), line] {
        if let Ok(document) = serde_json::from_slice::<Value>(&code[..end]) {
            let mutations = mutations::mutations(&document, words);
            return vec![Content::Document(document, mutations, code[end..].to_vec())];
        }
    }
    let Some((rest, length)) = code.strip_suffix(MARK).and_then(|rest| rest.split_last_chunk::<4>()) else {
        return vec![Content::Words(code.to_vec(), Vec::new())];
    };
    let at = rest.len() - u32::from_le_bytes(*length) as usize;
    let document = serde_json::from_slice(&rest[at..]).expect("a trailer");
    let mutations = mutations::mutations(&document, words);
    let kmodel = code[..at].to_vec();
    vec![Content::Words(kmodel.clone(), code[at..].to_vec()), Content::Trailer(kmodel, document, mutations)]
}

impl Content {
    fn graph(document: Value, words: mutations::Words<'_>) -> Content {
        let mutations = mutations::mutations(&document, words);
        Content::Graph(document, mutations)
    }

    fn mutations(&self) -> usize {
        match self {
            Content::Graph(_, mutations) | Content::Document(_, mutations, _) | Content::Trailer(_, _, mutations) => {
                mutations.len()
            }
            Content::Words(bytes, _) => bytes.len() / 4 * (WORDS.len() + 3),
        }
    }

    fn mutate(&self, artifact: &mut Repacked, section: &str, chosen: &[usize]) -> String {
        let mut text = String::new();
        let mut changed = |document: &Value, mutations: &[Mutation]| {
            let mut document = document.clone();
            for mutation in chosen.iter().map(|&mutation| &mutations[mutation]) {
                mutations::apply(&mut document, mutation);
                text += &format!("{} {:.80?} ", mutation.place, mutation.change);
            }
            document
        };
        let code = match self {
            Content::Graph(document, mutations) => {
                artifact.set_json(section, &changed(document, mutations));
                return text;
            }
            Content::Document(document, mutations, behind) => {
                [changed(document, mutations).to_string().as_bytes(), behind].concat()
            }
            Content::Trailer(before, document, mutations) => {
                let document = changed(document, mutations).to_string();
                let length = (document.len() as u32).to_le_bytes();
                [before, document.as_bytes(), &length, MARK].concat()
            }
            Content::Words(bytes, behind) => {
                let mut bytes = bytes.clone();
                for &mutation in chosen {
                    let (at, kind) = (mutation / (WORDS.len() + 3) * 4, mutation % (WORDS.len() + 3));
                    let is = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                    let near = [is.wrapping_add(1), is.wrapping_sub(1), is.wrapping_mul(2)];
                    let word = WORDS.get(kind).copied().unwrap_or_else(|| near[kind - WORDS.len()]);
                    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                    text += &format!("byte {at} is {word:#x} ");
                }
                [bytes, behind.clone()].concat()
            }
        };
        artifact.section_mut(section).bytes = code;
        text
    }
}
