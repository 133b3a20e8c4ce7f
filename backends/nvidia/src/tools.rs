//! The tools that backends of generated kernels need on this machine, found or missing: for `byoc plugin info`.

use byoc_plugin_api::{Error, Options, Tool};

use crate::build::{self, COMPILER};
use crate::compile::{HeaderSet, Needs, Toolchain};
use crate::locate::{self, CudaSearchPath, VARIABLE};

/// The package of Python's that has NVRTC.
const NVRTC: &str = "nvidia-cuda-nvrtc==13.0.*";

/// The compiler with the headers that sources of a backend need, and the driver.
pub fn tools(options: &Options, needs: Needs) -> Vec<Tool> {
    let search_path = build::search_path(options);
    let (toolchain, name) = match options.text(COMPILER) {
        "nvcc" => (Toolchain::find_nvcc(&search_path), "nvcc"),
        _ => (Toolchain::find(&search_path), "NVRTC"),
    };
    let mut tools = vec![tool(name, "compiling", toolchain.as_ref().map(Toolchain::title))];
    tools.extend(headers(toolchain.ok().as_ref(), &search_path, needs));
    one_line(&mut tools, name == "NVRTC");
    let driver = locate::driver(&search_path);
    tools.push(tool("driver", "running", driver.as_ref().map(|driver| driver.to_string())));
    tools
}

/// The sets of headers, with the package of each that is missing for a hint.
fn headers(toolchain: Option<&Toolchain>, search_path: &CudaSearchPath, needs: Needs) -> impl Iterator<Item = Tool> {
    let tool = |set: HeaderSet| Tool {
        name: format!("headers of {}", set.name),
        hint: set.found.is_none().then(|| set.package.to_owned()),
        found: set.found,
        needed_for: "compiling".into(),
    };
    Toolchain::headers_of(toolchain, search_path, needs).into_iter().map(tool)
}

/// Gives all that is missing for compiling the same hint: the line that installs all of it.
fn one_line(tools: &mut [Tool], is_nvrtc: bool) {
    let missing = |tool: &&Tool| tool.found.is_none();
    let packages: Vec<_> = tools.iter().skip(1).filter(missing).filter_map(|tool| tool.hint.clone()).collect();
    let first = &tools[0];
    let compiler = (first.found.is_none() && is_nvrtc).then(|| NVRTC.to_owned());
    if packages.is_empty() {
        return;
    }
    let all = compiler.into_iter().chain(packages).collect::<Vec<_>>().join(" ");
    let hint = format!("Try `pip install --no-deps {all}`, or name their folders in {VARIABLE}");
    let others = tools.iter_mut().enumerate().filter(|(at, tool)| tool.found.is_none() && (*at > 0 || is_nvrtc));
    others.for_each(|(_, tool)| tool.hint = Some(hint.clone()));
}

fn tool(name: &str, needed_for: &str, found: Result<String, &Error>) -> Tool {
    let (name, needed_for) = (name.to_owned(), needed_for.to_owned());
    match found {
        Ok(found) => Tool { name, found: Some(found), hint: None, needed_for },
        Err(error) => {
            let hint = error.hint.clone().unwrap_or_else(|| error.message.clone());
            Tool { name, found: None, hint: Some(hint), needed_for }
        }
    }
}
