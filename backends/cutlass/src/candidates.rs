//! Tuning candidates of a region: the same product by kernels with other tiles, generated from the recipes in its code.

use byoc_nvidia::build::{self, Build};
use byoc_nvidia::compile::Arch;
use byoc_nvidia::launch;
use byoc_nvidia::program::{Cubins, Program, Variant};
use byoc_plugin_api::{Candidate, Error, Options};
use serde_json::Value;

use crate::codegen;
use crate::product::Recipe;
use crate::source;

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
        all.extend(others(&recipes, arch).into_iter().map(|other| (at, arch, other)));
    }
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let build = Build::new(options)?;
    let chosen = Candidate { name: own_name(&program)?, code: code.to_vec() };
    let others = all.iter().map(|(at, arch, recipe)| other(&program, &cubins, *at, *arch, recipe, &build));
    std::iter::once(Ok(chosen)).chain(others).collect()
}

/// The product by one other tile for all rows: what is measured is measured for some rows, and what is fastest there is taken
/// for all. The next best for each range of rows come in turn.
fn others(recipes: &[Recipe], arch: Arch) -> Vec<Recipe> {
    let tiles: Vec<Vec<_>> = recipes.iter().map(|recipe| recipe.tiles(arch)).collect();
    let longest = tiles.iter().map(Vec::len).max().unwrap_or(0);
    let mut others: Vec<Recipe> = Vec::new();
    for (place, (recipe, tiles)) in (0..longest).flat_map(|place| recipes.iter().zip(&tiles).map(move |of| (place, of)))
    {
        let Some(&tile) = tiles.get(place) else { continue };
        if others.len() < OTHERS && recipes.iter().chain(&others).all(|known| known.tile != tile) {
            others.push(Recipe { tile, rows: None, ..recipe.clone() });
        }
    }
    others
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

/// The program with another kernel for the architecture of the variant `at`.
fn other(
    program: &Program,
    cubins: &Cubins<'_>,
    at: usize,
    arch: Arch,
    recipe: &Recipe,
    build: &Build,
) -> Result<Candidate, Error> {
    let kernels = [recipe.kernel("k0", arch)?];
    let cubin = build.cubin(&source::source(&program.title, &kernels), arch)?;
    let mut program = program.clone();
    let mut bytes = (0..cubins.len()).map(|number| cubins.get(number)).collect::<Result<Vec<_>, Error>>()?;
    let Variant { scratch, launches, .. } = program.variants[at].clone();
    // Generated code has one cubin for each variant.
    let Some(place) = bytes.get_mut(at) else { return Err(Error::new("a variant without a cubin")) };
    let mut variant = codegen::variant(&kernels, arch, &cubin, at, scratch)?;
    let nodes = launches.into_iter().next().map(|launch| launch.nodes).unwrap_or_default();
    variant.launches.iter_mut().for_each(|launch| launch.nodes.clone_from(&nodes));
    program.variants[at] = variant;
    *place = cubin.bytes;
    if let Some(recipe) = program.recipe.as_mut().and_then(|recipe| recipe.get_mut(arch.to_string())) {
        *recipe = kernels.iter().map(|kernel| kernel.recipe.clone()).collect();
    }
    let mut code = Vec::new();
    program.write(&bytes.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut code)?;
    Ok(Candidate { name: name(&arch.to_string(), std::slice::from_ref(recipe)), code })
}
