//! Reasons of refusals as people read them: without the names of their kinds, and for several nodes without what is of one only.

/// How core marks that a region would begin with an operator with which its backend begins none.
pub(super) const REGION_START: &str = "region_start: ";

/// What backends say where a size is left open that they need.
pub(super) const OPEN_SIZES: &str = "every size must be fixed by --shape or --dim";

/// Names of kinds that are no words, and the words.
const KINDS: [(&str, &str); 4] =
    [(REGION_START, ""), ("region_inputs: ", ""), ("constant_needed: ", "constant needed: "), (": other: ", ": ")];

/// What nodes with such a reason have in common, where that is more than a reason without numbers and names.
pub(super) fn kind(reason: &str) -> Option<String> {
    match beginning(reason) {
        Some(allowed) => Some(format!("{REGION_START}{allowed}")),
        None => open_sizes(reason),
    }
}

/// The reason of one node.
pub(in super::super) fn of_one(reason: &str) -> String {
    match beginning(reason) {
        Some(allowed) => match reason.split_once("; ") {
            None => format!("cannot begin a region, as {allowed} can"),
            Some((_, more)) => format!("cannot begin a region, as {allowed} can; {more}"),
        },
        None => KINDS.iter().fold(reason.to_owned(), |text, (kind, words)| text.replace(kind, words)),
    }
}

/// The same of several nodes with a reason of that [`kind`].
pub(super) fn of_several(reason: &str) -> String {
    let common = beginning(reason).map(|allowed| format!("cannot begin a region, as {allowed} can"));
    common.or_else(|| open_sizes(reason)).unwrap_or_else(|| of_one(reason))
}

/// With which operators a region may begin.
fn beginning(reason: &str) -> Option<&str> {
    let (_, allowed) = reason.strip_prefix(REGION_START)?.split_once(", not with ")?;
    // What a merge with the neighbours would break may follow.
    Some(allowed.split_once("; ").map_or(allowed, |(allowed, _)| allowed))
}

/// How the sizes can be fixed that a reason names in brackets.
fn open_sizes(reason: &str) -> Option<String> {
    let before = reason.split_once(OPEN_SIZES)?.0;
    let sizes = before.rsplit_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(sizes, _)| sizes);
    let is_name = |size: &&str| size.chars().next().is_some_and(char::is_alphabetic) && !size.contains([' ', '*', '+']);
    let mut names: Vec<&str> = sizes.split(',').filter(is_name).collect();
    names.sort_unstable();
    names.dedup();
    let flags: String = names.iter().map(|name| format!(" {name}=1")).collect();
    Some(format!("{OPEN_SIZES}{flags}"))
}
