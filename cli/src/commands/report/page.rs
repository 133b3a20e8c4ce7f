//! The page: what it shows, and how that becomes a file of HTML.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde::Serialize;

use super::layout::Place;
use super::treemap::Tile;
use crate::commands::explain::Region;
use crate::threads;

const HTML: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What a page shows. The script reads it as JSON.
#[derive(Default, Serialize)]
pub(super) struct Page {
    /// The name of the file.
    pub(super) title: String,
    /// What it is, and what was measured of it: a line each.
    pub(super) facts: Vec<String>,
    /// Inputs and outputs, a line each.
    pub(super) ports: Vec<String>,
    /// The machine and the program.
    pub(super) made: String,
    pub(super) backends: Vec<Backend>,
    pub(super) reasons: serde_json::Value,
    pub(super) regions: Vec<Region>,
    pub(super) nodes: Vec<Node>,
    /// Frames around nodes, each a region.
    pub(super) groups: Vec<Group>,
    /// Pairs of nodes: who writes, and who reads.
    pub(super) edges: Vec<(usize, usize)>,
    /// The bytes of an artifact.
    pub(super) tiles: Vec<Tile>,
    pub(super) constants: Vec<Constant>,
    pub(super) times: Vec<Time>,
}

/// How much a backend has.
#[derive(Serialize)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) regions: usize,
}

/// A box of the graph.
#[derive(Serialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) op: String,
    pub(super) backend: String,
    pub(super) region: String,
    /// Backend and reason.
    pub(super) refused: Vec<(String, String)>,
    /// Inputs, outputs and what else there is to say, as (what, text).
    pub(super) details: Vec<(String, String)>,
    pub(super) at: Place,
}

/// A frame around the nodes of a region, from its upper left corner to its lower right one.
#[derive(Serialize)]
pub(super) struct Group {
    pub(super) label: String,
    pub(super) backend: String,
    pub(super) from: Place,
    pub(super) to: Place,
}

/// A row of the ledger.
#[derive(Serialize)]
pub(super) struct Constant {
    pub(super) names: Vec<String>,
    pub(super) ty: String,
    pub(super) bytes: u64,
    pub(super) readers: Vec<String>,
    pub(super) owner: String,
    pub(super) fate: String,
}

/// A time of a profile.
#[derive(Serialize)]
pub(super) struct Time {
    pub(super) name: String,
    pub(super) backend: String,
    pub(super) region: String,
    pub(super) nodes: Vec<String>,
    pub(super) seconds: f64,
}

impl Page {
    /// Of that file.
    pub(super) fn of(path: &Path) -> Page {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let cores = crate::report::count(threads::cores(), "core");
        let processor = threads::processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let made = format!("byoc {}, {}, {processor}, {cores}", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
        Page { title: name.to_string_lossy().into_owned(), made, ..Page::default() }
    }

    /// The file. Names of a model stand in it as data: none can end the script, or be taken for HTML.
    pub(super) fn html(&self) -> Result<String> {
        let data = serde_json::to_string(self)
            .map_err(|error| Diagnostic::new(Code::Io, format!("cannot write the page: {error}")))?;
        let data = data.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let title: String = self
            .title
            .chars()
            .map(|char| match char {
                '<' => "&lt;".to_owned(),
                '>' => "&gt;".to_owned(),
                '&' => "&amp;".to_owned(),
                char => char.to_string(),
            })
            .collect();
        // What comes from the file goes in last, and only where the frame has a place for it: a name may look like one.
        let frame = HTML.replace("/* style */", STYLE).replace("/* script */", SCRIPT);
        let (head, rest) = frame.split_once("%title%").unwrap_or((&frame, ""));
        let (middle, end) = rest.split_once("%data%").unwrap_or((rest, ""));
        Ok(format!("{head}{title}{middle}{data}{end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_the_data() {
        let page = Page {
            title: "</title><script>%data%".into(),
            facts: vec!["</script><b>%data%".into()],
            ..Page::default()
        };
        let html = page.html().expect("text");
        assert_eq!(html.matches("</script>").count(), 2, "{html}");
        assert_eq!(html.matches("</title>").count(), 1);
        assert!(html.contains("&lt;script&gt;%data% - byoc</title>"), "{html}");
        assert!(html.contains("\\u003c/script>\\u003cb>%data%"));
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        // The name of the format of drawings looks like an address.
        let script = SCRIPT.replace("\"http://www.w3.org/2000/svg\"", "");
        for part in [HTML, STYLE, &script] {
            for word in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
                assert!(!part.contains(word), "{word}");
            }
        }
    }
}
