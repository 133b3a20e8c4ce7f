//! `#[test]` for test binaries with cases that are made at run time. Those have no libtest (`harness = false`), and rustc
//! drops the functions that its own attribute stands on; this one has `byoc_tests::trial::run` call them. A binary has it in
//! place of rustc's in all of its modules by `#[macro_use] extern crate byoc_tests_macros;`.

use proc_macro::{TokenStream, TokenTree};

/// Registers a function without arguments, which fails by panic, as a test of the name `module::function`.
#[proc_macro_attribute]
pub fn test(_: TokenStream, function: TokenStream) -> TokenStream {
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = function.clone().into_iter().skip_while(|token| !is_fn(token)).nth(1).expect("#[test] is for functions");
    let case = format!(
        "::byoc_tests::trial::submit! {{
            ::byoc_tests::trial::Function {{ path: concat!(module_path!(), \"::{name}\"), run: {name} }}
        }}"
    );
    [function, case.parse().expect("it is Rust")].into_iter().collect()
}
