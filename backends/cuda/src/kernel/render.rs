//! Renders a kernel as C++: names statements, and removes dead ones.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use byoc_plugin_api::Dim;

use super::access::{MOST, name};
use super::shape::{Shape, Team};
use super::{Item, Line, Loop, Writer};

/// Statements by number, and the names that they got.
#[derive(Default)]
struct Names {
    names: HashMap<usize, String>,
    counts: BTreeMap<char, usize>,
}

impl Names {
    fn give(&mut self, number: usize, letter: char) -> String {
        let count = self.counts.entry(letter).or_default();
        let name = format!("{letter}{count}");
        *count += 1;
        self.names.insert(number, name.clone());
        name
    }

    /// The text with names in place of numbers; those in `kept` are elements of arrays.
    fn fill(&self, text: &str, kept: &HashSet<usize>, index: &str) -> String {
        let mut result = String::new();
        for (position, part) in text.split('$').enumerate() {
            match part.parse::<usize>().ok().filter(|_| position % 2 == 1) {
                Some(number) => {
                    result.push_str(self.names.get(&number).map_or("?", String::as_str));
                    if kept.contains(&number) {
                        result.push_str(index);
                    }
                }
                None => result.push_str(part),
            }
        }
        result
    }
}

/// Whether a text has a word.
pub(super) fn mentions(text: &str, word: &str) -> bool {
    text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').any(|part| part == word)
}

impl Line {
    fn text(&self) -> &str {
        match self {
            Line::Let(.., text) | Line::Do(text) => text,
        }
    }
}

/// The statements that a text mentions.
fn mentioned(text: &str) -> impl Iterator<Item = usize> {
    text.split('$').skip(1).step_by(2).filter_map(|part| part.parse().ok())
}

impl Writer<'_> {
    /// The kernel.
    pub(super) fn render(&mut self, symbol: &str, threads: u32) -> String {
        // Loops over columns name their size.
        if let Shape::Rows { columns, .. } = self.shape {
            self.size(columns);
        }
        let mut body = std::mem::take(&mut self.body);
        drop_unread(&mut body);
        let mut names = Names::default();
        let mut text = String::new();
        for item in &body {
            match item {
                Item::Line(line) => self.line(line, "  ", &mut names, &mut text),
                Item::Loop(current) => self.columns(current, &mut names, &mut text),
            }
        }
        let head = self.head(&text, threads);
        let pack = self.pack();
        let mut arrays: Vec<(usize, String)> = Vec::new();
        for item in &body {
            let Item::Loop(current) = item else { continue };
            for line in &current.each {
                let Line::Let(number, ty, ..) = line else { continue };
                if let Some(name) = names.names.get(number).filter(|_| self.promoted.contains(number)) {
                    arrays.push((*number, format!("  {ty} {name}[{}];\n", self.steps() * pack)));
                }
            }
        }
        arrays.sort();
        let arrays: String = arrays.into_iter().map(|(_, line)| line).collect();
        self.with_entry(symbol, threads, &format!("{head}{arrays}{text}"))
    }

    /// The kernel's body as a function, and the entry that calls it. Memory that kernels in front write is only promised to be
    /// constant, by `__restrict__`, to what comes after the wait for them. If sizes of the run allow it indices have 32 bits;
    /// with 64 a division takes several times as many instructions.
    fn with_entry(&self, symbol: &str, threads: u32, body: &str) -> String {
        let fit: Vec<_> = (0..self.sizes.len()).map(|index| format!("n{index} <= {MOST}")).collect();
        let names = self.places.iter().map(|parameter| name(parameter.place));
        let call = |ix: &str| {
            let sizes = (0..self.sizes.len()).map(|index| format!("{ix}(n{index})"));
            format!("{symbol}_parts::body<{ix}>({});\n", names.clone().chain(sizes).collect::<Vec<_>>().join(", "))
        };
        let calls = match (self.long, fit.as_slice()) {
            (true, _) => format!("  {}", call("i64")),
            (false, []) => format!("  {}", call("int")),
            (false, fit) => format!("  if ({})\n    {}  else\n    {}", fit.join(" && "), call("int"), call("i64")),
        };
        format!(
            "namespace {symbol}_parts {{\ntemplate <class ix>\n__device__ __forceinline__ void body({}) {{\n{body}}}\n}}\n\n\
             extern \"C\" __global__ void __launch_bounds__({threads}) {symbol}({}) {{\n  wait_for_earlier_kernels();\n{calls}}}\n",
            self.parameters("ix", " *__restrict__ "),
            self.parameters("i64", " *"),
        )
    }

    /// The parameters: the type of sizes, and what is between the type of a pointer and its name.
    fn parameters(&self, size: &str, pointer: &str) -> String {
        let mut parameters = Vec::new();
        for parameter in &self.places {
            let constant = if parameter.written { "" } else { "const " };
            parameters.push(format!("{constant}{}{pointer}{}", parameter.ty, name(parameter.place)));
        }
        parameters.extend((0..self.sizes.len()).map(|index| format!("const {size} n{index}")));
        parameters.join(", ")
    }

    /// The counters.
    fn head(&mut self, text: &str, threads: u32) -> String {
        match self.shape.clone() {
            Shape::Probe(_) => String::new(),
            Shape::Map { total, pack } => {
                self.count(std::slice::from_ref(&total));
                let total = self.size(&total);
                let times = if pack == 1 { String::new() } else { format!(" * {pack}") };
                let at = "ix(blockIdx.x) * 256 + ix(threadIdx.x)";
                let at = if pack == 1 { at.into() } else { format!("({at}){times}") };
                format!("  const ix i = {at};\n  if (i >= {total}) return;\n")
            }
            Shape::Tiles { outer, rows, columns, side } => {
                self.count(&[outer, Dim::Fixed(rows), Dim::Fixed(columns)]);
                Self::tile_head(text, rows, columns, side)
            }
            Shape::Rows { rows, team, .. } => {
                self.count(std::slice::from_ref(&rows));
                let rows = self.size(&rows);
                let row = |of: String| {
                    if mentions(text, "row") { format!("  const ix row = {of};\n") } else { String::new() }
                };
                match team {
                    Team::Lanes(1) => format!(
                        "  const ix row = ix(blockIdx.x) * {threads} + ix(threadIdx.x);\n  if (row >= {rows}) return;\n"
                    ),
                    Team::Lanes(lanes) => {
                        let groups = threads / lanes;
                        let own = format!("ix(blockIdx.x) * {groups} + ix(threadIdx.x) / {lanes}");
                        // Lanes beyond the last row go along with it: all of a warp have to be there to exchange.
                        let whole = format!("smaller({own}, ix({rows} - 1))");
                        let row = row(if groups == 1 { "blockIdx.x".into() } else { whole });
                        format!("  const int lane = threadIdx.x % {lanes};\n{row}")
                    }
                    Team::Block(_) => format!("  const int lane = threadIdx.x;\n{}", row("blockIdx.x".into())),
                }
            }
        }
    }

    /// How many packs of a row a thread has.
    fn steps(&self) -> usize {
        match self.shape {
            Shape::Rows { columns, team, pack, .. } => {
                columns.fixed().unwrap_or(0).div_ceil(team.lanes() as usize * pack)
            }
            _ => 1,
        }
    }

    fn line(&self, line: &Line, indent: &str, names: &mut Names, text: &mut String) {
        let pack = self.pack();
        let index = if pack == 1 { "[k]".to_owned() } else { format!("[k * {pack} + v]") };
        let line = match line {
            Line::Do(line) => names.fill(line, &self.promoted, &index),
            Line::Let(number, ty, letter, value) => {
                let value = names.fill(value, &self.promoted, &index);
                let name = names.give(*number, *letter);
                match ty.strip_prefix("mutable ") {
                    _ if self.promoted.contains(number) => format!("{name}{index} = {value};"),
                    Some(ty) => format!("{ty} {name} = {value};"),
                    None if value.is_empty() => format!("{ty} {name};"),
                    None => format!("const {ty} {name} = {value};"),
                }
            }
        };
        let _ = writeln!(text, "{indent}{line}");
    }

    /// A loop over the columns, or the elements of a thread.
    fn columns(&self, current: &Loop, names: &mut Names, text: &mut String) {
        if let &Shape::Tiles { rows, columns, side, .. } = self.shape {
            let (open, close) = Self::tile_loop(current.along_rows, rows, columns, side);
            text.push_str(&open);
            self.packs(current, "    ", names, text);
            text.push_str(close);
            return;
        }
        let Shape::Rows { columns, team, pack, keeps, .. } = self.shape else {
            return self.packs(current, "  ", names, text);
        };
        let lanes = team.lanes() as usize;
        let lane = match (lanes, *pack) {
            (1, _) => "0".to_owned(),
            (_, 1) => "lane".to_owned(),
            (_, pack) => format!("lane * {pack}"),
        };
        let size = self.named(columns);
        if !keeps {
            let _ = writeln!(text, "  for (ix c = {lane}; c < {size}; c += {}) {{", lanes * pack);
            self.packs(current, "    ", names, text);
            text.push_str("  }\n");
            return;
        }
        let steps = self.steps();
        let at = match (lanes, *pack) {
            (1, pack) => format!("k * {pack}"),
            (lanes, 1) => format!("k * {lanes} + lane"),
            (lanes, pack) => format!("(k * {lanes} + lane) * {pack}"),
        };
        let _ = writeln!(text, "#pragma unroll\n  for (int k = 0; k < {steps}; ++k) {{");
        let whole = steps * lanes * pack == columns.fixed().unwrap_or(0);
        let reads = |line: &Line| mentions(line.text(), "c");
        if !whole || current.before.iter().chain(&current.each).chain(&current.after).any(reads) {
            let _ = writeln!(text, "    const ix c = {at};");
        }
        if whole {
            self.packs(current, "    ", names, text);
        } else {
            let _ = writeln!(text, "    if (c < {size}) {{");
            self.packs(current, "      ", names, text);
            text.push_str("    }\n");
        }
        text.push_str("  }\n");
    }

    /// The elements of a pack.
    fn packs(&self, current: &Loop, indent: &str, names: &mut Names, text: &mut String) {
        current.before.iter().for_each(|line| self.line(line, indent, names, text));
        let pack = self.pack();
        if pack == 1 {
            current.each.iter().for_each(|line| self.line(line, indent, names, text));
        } else {
            let _ = writeln!(text, "#pragma unroll\n{indent}for (int v = 0; v < {pack}; ++v) {{");
            let inner = format!("{indent}  ");
            current.each.iter().for_each(|line| self.line(line, &inner, names, text));
            let _ = writeln!(text, "{indent}}}");
        }
        current.after.iter().for_each(|line| self.line(line, indent, names, text));
    }
}

/// Removes dead statements.
fn drop_unread(body: &mut Vec<Item>) {
    let mut read = HashSet::new();
    let mut wanted = |line: &Line| match line {
        Line::Do(text) => {
            read.extend(mentioned(text));
            true
        }
        Line::Let(number, _, _, text) => {
            let wanted = read.contains(number);
            if wanted {
                read.extend(mentioned(text));
            }
            wanted
        }
    };
    let mut sift = |lines: &mut Vec<Line>| {
        let mut kept: Vec<Line> = std::mem::take(lines).into_iter().rev().filter(|line| wanted(line)).collect();
        kept.reverse();
        *lines = kept;
    };
    for item in body.iter_mut().rev() {
        if let Item::Loop(current) = item {
            [&mut current.after, &mut current.each, &mut current.before].into_iter().for_each(&mut sift);
        } else if let Item::Line(line) = item {
            let mut one = vec![line.clone()];
            sift(&mut one);
            if one.is_empty() {
                *item = Item::Loop(Loop::default());
            }
        }
    }
    body.retain(|item| !matches!(item, Item::Loop(empty) if empty.each.is_empty() && empty.before.is_empty()));
}
