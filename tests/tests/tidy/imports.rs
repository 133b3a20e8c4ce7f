//! Which files of a crate import which, and the rings among them: files of which each needs every other. What a file uses of
//! its own children is not an import: they are its parts.

use std::collections::{BTreeMap, BTreeSet};

use byoc_tests::sources::Source;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;

/// A file as its path of modules; the crate's root has none.
type Module = Vec<String>;

/// The rings of the crate whose sources these are, below `root`, such as `core/src/`.
pub(crate) fn rings(sources: &[Source], root: &str) -> Vec<Vec<String>> {
    let own = sources.iter().filter(|source| !source.is_test());
    let files: BTreeMap<Module, &Source> = own.filter_map(|source| Some((module(source, root)?, source))).collect();
    let mut imports: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, source) in &files {
        let used = paths(&source.text).into_iter().filter_map(|path| file_of(&files, module, &path));
        imports.insert(module, used.filter(|used| !used.starts_with(module)).collect());
    }
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        files.keys().map(|module| (module, reachable(&imports, module))).collect();
    let mut rings: BTreeSet<Vec<String>> = BTreeSet::new();
    for module in files.keys() {
        let ring = reach[module].iter().filter(|other| reach[*other].contains(module));
        rings.insert(ring.map(|other| files[*other].path.clone()).collect());
    }
    rings.into_iter().filter(|ring| ring.len() > 1).collect()
}

fn module(source: &Source, root: &str) -> Option<Module> {
    let within = source.path.strip_prefix(root)?.strip_suffix(".rs")?;
    Some(if matches!(within, "lib" | "main") { Vec::new() } else { within.split('/').map(str::to_owned).collect() })
}

/// The modules that are imported by `module`, by way of others as well; itself, where it is in a ring.
fn reachable<'a>(imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>, module: &Module) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&Module> = imports[module].iter().copied().collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(&imports[next]);
        }
    }
    seen
}

/// The file that a path in `module` leads to: the longest part of it that is a file.
fn file_of<'a>(files: &'a BTreeMap<Module, &Source>, module: &Module, path: &[String]) -> Option<&'a Module> {
    let mut full = match path.first()?.as_str() {
        "crate" => Vec::new(),
        _ => module.clone(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => drop(full.pop()),
            part => full.push(part.to_owned()),
        }
    }
    while !full.is_empty() && !files.contains_key(&full) {
        full.pop();
    }
    // A path that starts with no keyword is one of another crate, unless it leads into a child.
    if !matches!(path[0].as_str(), "crate" | "self" | "super") && full.len() <= module.len() {
        return None;
    }
    files.get_key_value(&full).map(|(module, _)| module)
}

/// Every path in the program itself.
fn paths(text: &str) -> Vec<Vec<String>> {
    let file = syn::parse_file(text).expect("Rust");
    let mut found = Vec::new();
    for item in file.items {
        let module = if let syn::Item::Mod(module) = &item { Some(module) } else { None };
        let hidden = |attribute: &syn::Attribute| attribute.to_token_stream().to_string().contains("cfg (test)");
        if module.is_some_and(|module| module.attrs.iter().any(hidden)) {
            continue;
        }
        let mut own = Vec::new();
        collect(item.to_token_stream(), &[], &mut own);
        // To a module within the file, `super` is the file.
        own.retain(|path| module.is_none() || path[0] != "super");
        found.extend(own);
    }
    found
}

/// Adds each path of the tokens, with `prefix` before it.
fn collect(tokens: TokenStream, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let mut path = prefix.to_vec();
    // Whether the next identifier goes on with the path.
    let mut open = true;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
        match token {
            TokenTree::Ident(name) if open => {
                path.push(name.to_string());
                open = false;
            }
            colon if is_colon(&colon) && tokens.next_if(is_colon).is_some() => open = true,
            TokenTree::Group(group) => {
                let of_path = open && group.delimiter() == Delimiter::Brace;
                collect(group.stream(), if of_path { &path } else { &[] }, found);
                found.push(std::mem::replace(&mut path, prefix.to_vec()));
                open = true;
            }
            other => {
                found.push(std::mem::replace(&mut path, prefix.to_vec()));
                open = true;
                if let TokenTree::Ident(name) = other {
                    path.push(name.to_string());
                    open = false;
                }
            }
        }
    }
    found.push(path);
    // A word by itself, such as that of `pub(crate)`, leads nowhere.
    found.retain(|path| path.len() > 1);
}
