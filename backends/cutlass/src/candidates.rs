//! Tuning candidates of a region: the same steps by kernels with other tiles, generated from the recipes in its code.

use byoc_nvidia::build::{self, Build};
use byoc_nvidia::compile::Arch;
use byoc_nvidia::launch;
use byoc_nvidia::program::{Cubins, Program, Variant};
use byoc_plugin_api::{Candidate, Error, Options};
use serde_json::Value;

use crate::codegen;
use crate::product::Recipe;
use crate::source::{self, Kernel};

/// The number of other tiles for each architecture.
const OTHERS: usize = 5;

/// The code itself, and candidates that differ in the variant that this machine's devices run, or, on a machine without
/// devices, in any variant.
pub(crate) fn candidates(code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
    let (program, cubins) = Program::read(code)?;
    let mut all = Vec::new();
    let run = launch::variants(&program, &build::search_path(options));
    for (at, variant) in program.variants.iter().enumerate().filter(|(at, _)| run.contains(at)) {
        let Some(recipes) = recipes(&program, &variant.arch)? else { return Ok(Vec::new()) };
        let arch: Arch = variant.arch.parse()?;
        for number in 0..OTHERS {
            let other: Vec<_> = recipes.iter().map(|recipe| recipe.others(arch).into_iter().nth(number)).collect();
            // A step without another tile keeps its own.
            if other.iter().all(Option::is_none) {
                break;
            }
            let other: Vec<_> =
                other.into_iter().zip(&recipes).map(|(other, own)| other.unwrap_or(own.clone())).collect();
            all.push((at, arch, other));
        }
    }
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let build = Build::new(options)?;
    let chosen = Candidate { name: own_name(&program)?, code: code.to_vec() };
    let others = all.iter().map(|(at, arch, recipes)| other(&program, &cubins, *at, *arch, recipes, &build));
    std::iter::once(Ok(chosen)).chain(others).collect()
}

/// The recipes of the kernels of an architecture, if all kernels have one.
fn recipes(program: &Program, arch: &str) -> Result<Option<Vec<Recipe>>, Error> {
    let list = program.recipe.as_ref().and_then(|recipe| recipe.get(arch)).and_then(Value::as_array);
    let Some(list) = list.filter(|list| !list.is_empty() && list.iter().all(|recipe| !recipe.is_null())) else {
        return Ok(None);
    };
    let damaged = |cause: String| Error::new(format!("damaged code: {cause}"));
    let read = |recipe: &Value| -> Result<Recipe, Error> {
        let recipe: Recipe = serde_json::from_value(recipe.clone()).map_err(|cause| damaged(cause.to_string()))?;
        recipe.check(arch.parse()?).map_err(|cause| damaged(cause.into()))?;
        Ok(recipe)
    };
    Ok(Some(list.iter().map(read).collect::<Result<_, _>>()?))
}

fn own_name(program: &Program) -> Result<String, Error> {
    let mut names = Vec::new();
    for variant in &program.variants {
        names.push(name(&variant.arch, &recipes(program, &variant.arch)?.unwrap_or_default()));
    }
    Ok(names.join(", "))
}

fn name(arch: &str, recipes: &[Recipe]) -> String {
    format!("{arch} {}", recipes.iter().map(Recipe::name).collect::<Vec<_>>().join(" + "))
}

/// The program with other kernels for the architecture of the variant `at`.
fn other(
    program: &Program,
    cubins: &Cubins<'_>,
    at: usize,
    arch: Arch,
    recipes: &[Recipe],
    build: &Build,
) -> Result<Candidate, Error> {
    let kernel = |(number, recipe): (usize, &Recipe)| recipe.kernel(&format!("k{number}"), arch);
    let kernels: Vec<Kernel> = recipes.iter().enumerate().map(kernel).collect::<Result<_, _>>()?;
    let cubin = build.cubin(&source::source(&program.title, &kernels), arch)?;
    let mut program = program.clone();
    let mut bytes = (0..cubins.len()).map(|number| cubins.get(number)).collect::<Result<Vec<_>, Error>>()?;
    let Variant { scratch, launches, .. } = program.variants[at].clone();
    // Generated code has one cubin for each variant.
    let Some(place) = bytes.get_mut(at) else { return Err(Error::new("a variant without a cubin")) };
    let mut variant = codegen::variant(&kernels, arch, &cubin, at, scratch)?;
    for (launch, own) in variant.launches.iter_mut().zip(launches) {
        launch.nodes = own.nodes;
    }
    program.variants[at] = variant;
    *place = cubin.bytes;
    if let Some(recipe) = program.recipe.as_mut().and_then(|recipe| recipe.get_mut(arch.to_string())) {
        *recipe = kernels.iter().map(|kernel| kernel.recipe.clone()).collect();
    }
    let mut code = Vec::new();
    program.write(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut code)?;
    Ok(Candidate { name: name(&arch.to_string(), recipes), code })
}
