//! Finds the headers that kernels include: CUDA's own, those of CCCL, and CUTLASS.
//!
//! They are looked for where the libraries are: in the user's folders, beside the library of compiled code that the loader
//! found, in `CUDA_HOME`, and among the packages of the active Python. The layouts are those of NVIDIA's toolkit and of
//! its packages for CUDA 13 (one folder for all) and for CUDA 12 (one each).

use std::path::{Path, PathBuf};

use byoc_plugin_api::Error;

use crate::locate::{CudaSearchPath, SearchEntry, VARIABLE, one_line};

/// What a source includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// CUDA's types of 16 bits and fewer: `cuda_fp16.h`, `cuda_bf16.h`, `cuda_fp8.h`.
    pub half: bool,
    /// CCCL's standard library: `cuda/std`.
    pub cccl: bool,
    /// CUTLASS and CuTe, which include all the others.
    pub cutlass: bool,
}

/// The compiler that headers are for: its file, beside which they may be, and its major version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiler<'a> {
    pub(super) path: &'a Path,
    pub(super) major: u32,
}

/// A set of headers that is installed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Cutlass,
    Cuda,
    Crt,
    Cccl,
}

impl Part {
    /// The header that marks the set as installed.
    fn header(self) -> &'static str {
        match self {
            Part::Cutlass => "cutlass/cutlass.h",
            Part::Cuda => "cuda_fp16.h",
            Part::Crt => "crt/mma.h",
            Part::Cccl => "cuda/std/cstddef",
        }
    }

    /// What it is called.
    fn title(self) -> &'static str {
        match self {
            Part::Cutlass => "CUTLASS",
            Part::Cuda => "CUDA",
            Part::Crt => "CUDA's compiler",
            Part::Cccl => "CCCL",
        }
    }

    /// Its version, if its headers define it.
    fn version(self, folder: &Path) -> Option<String> {
        let text = std::fs::read_to_string(folder.join(self.version_header())).ok()?;
        let number = |name: &str| -> Option<u32> {
            let line = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        match self {
            Part::Cutlass => {
                let [major, minor, patch] = ["MAJOR", "MINOR", "PATCH"].map(|part| number(&format!("CUTLASS_{part} ")));
                Some(format!("{}.{}.{}", major?, minor?, patch?))
            }
            // 1000 x major + 10 x minor
            Part::Cuda => number("CUDA_VERSION ").map(|version| format!("{}.{}", version / 1000, version % 1000 / 10)),
            Part::Crt | Part::Cccl => None,
        }
    }

    /// The header that defines its version.
    fn version_header(self) -> &'static str {
        match self {
            Part::Cutlass => "cutlass/version.h",
            Part::Cuda => "cuda.h",
            Part::Crt => "crt/mma.h",
            Part::Cccl => "cuda/std/__cccl/version.h",
        }
    }

    /// The Python package for NVRTC of that major version. These versions compile CUTLASS 4.2; newer headers of CCCL
    /// than of 13.0 do not.
    fn package(self, major: u32) -> &'static str {
        match (self, major) {
            (Part::Cutlass, _) => "nvidia-cutlass==4.2.0.0",
            (Part::Cuda, 12) => "nvidia-cuda-runtime-cu12==12.9.79",
            (Part::Crt, 12) => "nvidia-cuda-nvcc-cu12==12.9.86",
            (Part::Cccl, 12) => "nvidia-cuda-cccl-cu12==12.9.27",
            (Part::Cuda, _) => "nvidia-cuda-runtime==13.0.96",
            (Part::Crt, _) => "nvidia-cuda-crt==13.0.88",
            (Part::Cccl, _) => "nvidia-cuda-cccl==13.0.85",
        }
    }

    /// The folders of that place that may hold it.
    fn folders(self, place: &SearchEntry, compiler: &Path) -> Vec<PathBuf> {
        let include = match (self, place) {
            (_, SearchEntry::Folder(folder)) => beside(folder),
            (_, SearchEntry::Loader) => compiler.parent().map(beside).unwrap_or_default(),
            (Part::Cutlass, SearchEntry::Wheels(nvidia)) => {
                let packages = nvidia.parent().unwrap_or(nvidia);
                return vec![packages.join("cutlass_library/source/include")];
            }
            (_, SearchEntry::Wheels(nvidia)) => {
                ["cu13", self.component()].map(|name| nvidia.join(name).join("include")).into()
            }
        };
        match self {
            // Since CUDA 13 a folder of its own.
            Part::Cccl => include.into_iter().flat_map(|folder| [folder.join("cccl"), folder]).collect(),
            _ => include,
        }
    }

    /// Where it is.
    fn find(self, search_path: &CudaSearchPath, compiler: &Path) -> Option<PathBuf> {
        let mut folders = search_path.all().iter().flat_map(|place| self.folders(place, compiler));
        folders.find(|folder| folder.join(self.header()).is_file())
    }

    /// Its folder within `nvidia/` of the packages for CUDA 12.
    fn component(self) -> &'static str {
        match self {
            Part::Cutlass => "cutlass",
            Part::Cuda => "cuda_runtime",
            Part::Crt => "cuda_nvcc",
            Part::Cccl => "cuda_cccl",
        }
    }
}

/// Where headers are, given a folder of libraries or programs, or one of headers.
fn beside(folder: &Path) -> Vec<PathBuf> {
    let is_of_libraries = ["lib", "lib64", "bin"].iter().any(|name| folder.ends_with(name));
    match folder.parent().filter(|_| is_of_libraries) {
        Some(home) => vec![home.join("include")],
        None => vec![folder.join("include"), folder.to_owned()],
    }
}

/// The sets that are needed.
fn parts(needs: Needs) -> impl Iterator<Item = Part> {
    let parts = [
        (Part::Cutlass, needs.cutlass),
        (Part::Cuda, needs.half || needs.cutlass),
        (Part::Crt, needs.cutlass),
        (Part::Cccl, needs.cccl || needs.cutlass),
    ];
    parts.into_iter().filter_map(|(part, needed)| needed.then_some(part))
}

/// A set of headers, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSet {
    /// What it is called.
    pub name: &'static str,
    /// Its version, if known, and its folder.
    pub found: Option<String>,
    /// The package of Python's that has it.
    pub package: &'static str,
}

/// The major version of CUDA whose packages hints name if there is no compiler.
const NEWEST: u32 = 13;

/// The sets that are needed, for a compiler or without one.
pub(super) fn sets(needs: Needs, search_path: &CudaSearchPath, compiler: Option<Compiler<'_>>) -> Vec<HeaderSet> {
    let Compiler { path, major } = compiler.unwrap_or(Compiler { path: Path::new(""), major: NEWEST });
    let set = |part: Part| {
        let told = |folder: PathBuf| match part.version(&folder) {
            Some(version) => format!("{version} ({})", folder.display()),
            None => folder.display().to_string(),
        };
        HeaderSet { name: part.title(), found: part.find(search_path, path).map(told), package: part.package(major) }
    };
    parts(needs).map(set).collect()
}

/// The headers of a request, found: a folder and a digest of its version for each set.
#[derive(Debug)]
pub(super) struct Headers(Vec<(PathBuf, blake3::Hash)>);

impl Headers {
    /// Finds the needed sets.
    pub(super) fn find(needs: Needs, search_path: &CudaSearchPath, compiler: Compiler<'_>) -> Result<Headers, Error> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for part in parts(needs) {
            match part.find(search_path, compiler.path) {
                Some(folder) => {
                    let version = std::fs::read(folder.join(part.version_header())).unwrap_or_default();
                    found.push((folder, blake3::hash(&version)));
                }
                None => missing.push(part),
            }
        }
        if missing.is_empty() { Ok(Headers(found)) } else { Err(lacking(&missing, search_path, compiler)) }
    }

    /// The folders, each once, in the order in which they are searched.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        let folders = self.0.iter().map(|(folder, _)| folder.as_path());
        folders
            .enumerate()
            .filter(|(at, folder)| !self.0[..*at].iter().any(|(other, _)| other == folder))
            .map(|(_, folder)| folder)
    }

    /// A digest of the headers' versions. Headers that were edited by hand keep it.
    pub(super) fn digests(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|(_, digest)| digest.as_bytes().as_slice())
    }
}

/// All that is missing, in one error.
fn lacking(missing: &[Part], search_path: &CudaSearchPath, compiler: Compiler<'_>) -> Error {
    let mut looked: Vec<String> = Vec::new();
    for place in search_path.all() {
        for folder in missing.iter().flat_map(|part| part.folders(place, compiler.path)) {
            let text = folder.display().to_string();
            if !looked.contains(&text) {
                looked.push(text);
            }
        }
    }
    let headers: Vec<_> = missing.iter().map(|part| part.header()).collect();
    let packages: Vec<_> = missing.iter().map(|part| part.package(compiler.major)).collect();
    let error = one_line(format!("there is no {} in {}", headers.join(" and no "), looked.join(", ")));
    let folders = if missing.len() == 1 { "its folder" } else { "their folders" };
    error.hint(format!("Try `pip install --no-deps {}`, or name {folders} in {VARIABLE}", packages.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    const ALL: Needs = Needs { half: true, cccl: true, cutlass: true };

    fn put(folder: &Path, parts: &[Part]) {
        for part in parts {
            for header in [part.header(), part.version_header()] {
                let file = folder.join(header);
                std::fs::create_dir_all(file.parent().expect("it has one")).expect("the folder is ours");
                std::fs::write(file, format!("#define {part:?}\n")).expect("the folder is ours");
            }
        }
    }

    fn found(needs: Needs, place: SearchEntry, root: &Path, major: u32) -> String {
        let library = root.join("lib64/libnvrtc.so");
        let told = match Headers::find(needs, &CudaSearchPath::only(vec![place]), Compiler { path: &library, major }) {
            Ok(headers) => headers.folders().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" "),
            Err(error) => format!("{} ({})", error.message, error.hint.unwrap_or_default()),
        };
        told.replace(&*root.to_string_lossy(), "DIR")
    }

    #[test]
    fn in_every_layout() {
        let scratch = tempfile::tempdir().expect("a temporary folder can be made");
        let root = scratch.path();
        // The toolkit, of version 13, beside the library that the loader found and in a folder of libraries.
        put(&root.join("include"), &[Part::Cuda, Part::Crt]);
        put(&root.join("include/cccl"), &[Part::Cccl]);
        let toolkit = Needs { half: true, cccl: true, cutlass: false };
        assert_eq!(found(toolkit, SearchEntry::Loader, root, 13), "DIR/include DIR/include/cccl");
        assert_eq!(found(toolkit, SearchEntry::Folder(root.join("lib")), root, 13), "DIR/include DIR/include/cccl");
        assert_eq!(found(toolkit, SearchEntry::Folder(root.to_owned()), root, 13), "DIR/include DIR/include/cccl");
        assert_eq!(found(toolkit, SearchEntry::Folder(root.join("include")), root, 13), "DIR/include DIR/include/cccl");
        // Packages of Python.
        let nvidia = root.join("packages/nvidia");
        put(&nvidia.join("cu13/include"), &[Part::Cuda, Part::Crt]);
        put(&nvidia.join("cu13/include/cccl"), &[Part::Cccl]);
        put(&root.join("packages/cutlass_library/source/include"), &[Part::Cutlass]);
        let cutlass = "DIR/packages/cutlass_library/source/include";
        let cu13 = "DIR/packages/nvidia/cu13/include";
        assert_eq!(found(ALL, SearchEntry::Wheels(nvidia), root, 13), format!("{cutlass} {cu13} {cu13}/cccl"));
        let nvidia = root.join("older/nvidia");
        for (name, part) in [("cuda_runtime", Part::Cuda), ("cuda_nvcc", Part::Crt), ("cuda_cccl", Part::Cccl)] {
            put(&nvidia.join(name).join("include"), &[part]);
        }
        put(&root.join("older/cutlass_library/source/include"), &[Part::Cutlass]);
        let folders = ["cuda_runtime", "cuda_nvcc", "cuda_cccl"].map(|name| format!("DIR/older/nvidia/{name}/include"));
        let expected = format!("DIR/older/cutlass_library/source/include {}", folders.join(" "));
        assert_eq!(found(ALL, SearchEntry::Wheels(nvidia), root, 12), expected);
    }

    #[test]
    fn only_what_is_needed_is_looked_for() {
        let nowhere = Path::new("/nowhere");
        assert_eq!(found(Needs::default(), SearchEntry::Loader, nowhere, 13), "");
        let said = "there is no cuda_fp16.h in DIR/include";
        let hint = "Try `pip install --no-deps nvidia-cuda-runtime==13.0.96`, or name its folder in BYOC_CUDA_PATH";
        let half = Needs { half: true, ..Needs::default() };
        assert_eq!(found(half, SearchEntry::Loader, nowhere, 13), format!("{said} ({hint})"));
        let scratch = tempfile::tempdir().expect("a temporary folder can be made");
        put(&scratch.path().join("include"), &[Part::Cuda, Part::Crt]);
        let said = "there is no cutlass/cutlass.h and no cuda/std/cstddef in DIR/include, DIR/include/cccl";
        let packages = "nvidia-cutlass==4.2.0.0 nvidia-cuda-cccl==13.0.85";
        let hint = format!("Try `pip install --no-deps {packages}`, or name their folders in BYOC_CUDA_PATH");
        assert_eq!(found(ALL, SearchEntry::Loader, scratch.path(), 13), format!("{said} ({hint})"));
        let said = found(ALL, SearchEntry::Wheels("/nowhere/nvidia".into()), nowhere, 12);
        let packages = "nvidia-cutlass==4.2.0.0 nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86 \
                        nvidia-cuda-cccl-cu12==12.9.27";
        assert!(said.contains(packages), "{said}");
    }

    #[test]
    fn versions_are_told_apart() {
        let scratch = tempfile::tempdir().expect("a temporary folder can be made");
        put(&scratch.path().join("include"), &[Part::Cuda]);
        let search_path = CudaSearchPath::only(vec![SearchEntry::Folder(scratch.path().to_owned())]);
        let digest = || {
            let half = Needs { half: true, ..Needs::default() };
            let compiler = Compiler { path: Path::new("/lib/libnvrtc.so"), major: 13 };
            let headers = Headers::find(half, &search_path, compiler).expect("they are there");
            headers.digests().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let before = digest();
        assert_eq!(before, digest());
        std::fs::write(scratch.path().join("include/cuda.h"), "#define CUDA_VERSION 13010\n")
            .expect("the file is ours");
        assert_ne!(before, digest());
    }
}
