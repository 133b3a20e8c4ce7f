//! The calls that a region makes, what it may not be given, and what is said of a machine without the libraries.

use byoc_nvidia_standins::{Child, FOLDER, both, copy, shield, temporary, tried};
use byoc_plugin_api::testing::{Lies, Limit, RegionBuilder, Rng, Tensor, compare};
use byoc_plugin_api::{
    BoundConstant, BoundConstants, DType, DeviceConstant, DeviceConstants, DeviceTensor, DomainHandles, Environment,
    Error, TensorView,
};

use crate::device::Device;
use crate::{backend, exact, options, texts};

/// All cases, by name.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("runtime::one_call_a_product", one_call_a_product),
    ("runtime::regions_share_a_handle", regions_share_a_handle),
    ("runtime::calls_for_a_batch_that_broadcasts_twice", calls_for_a_batch_that_broadcasts_twice),
    ("runtime::a_constant_that_is_not_a_matrix_is_repacked", a_constant_is_repacked),
    ("runtime::scratch_memory", scratch_memory),
    ("runtime::no_algorithm", no_algorithm),
    ("runtime::sizes_that_do_not_fit", sizes_that_do_not_fit),
    ("runtime::damaged_code", damaged_code),
    ("runtime::constants_that_do_not_fit", constants_that_do_not_fit),
    ("runtime::no_library", no_library),
    ("runtime::not_in_host_memory", not_in_host_memory),
];

/// Does what a case's process was started for.
pub(crate) fn act(action: &str) -> Result<Vec<String>, Error> {
    match action {
        "compile" => texts::compile(),
        "one" | "algorithm" => run(&relu()),
        "share" => share(),
        "twice" => run(&broadcast()),
        "spread" => run(&spread()),
        "workspace" => workspace(),
        "sizes" => sizes(),
        "damage" => damage(),
        "constants" => constants(),
        "open" => Device::open(&[]).map(|_| vec![]),
        _ => Err(Error::new(format!("no action {action}"))),
    }
}

/// Rows of 3 by a constant of 3 x 5, with a bias and ReLU.
fn relu() -> RegionBuilder {
    let mut net = RegionBuilder::of("cublas", DType::F16);
    let x = net.input("[rows,3]");
    let w = net.weight([3, 5]);
    let bias = net.weight([5]);
    let shape = "[rows,5]";
    let y = net.node("MatMul", &[x, w], shape, &[]);
    let sum = net.node("Add", &[y, bias], shape, &[]);
    let relu = net.node("Relu", &[sum], shape, &[]);
    net.with(&[relu])
}

/// A batch in which each operand lacks a dimension of the other.
fn broadcast() -> RegionBuilder {
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let operands = [[2, 1, 2, 3], [1, 3, 3, 5]].map(|shape| net.input(shape));
    let y = net.node("MatMul", &operands, "[2,3,2,5]", &[]);
    net.with(&[y])
}

/// A weight of which every second element is in between.
fn spread() -> RegionBuilder {
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let x = net.input("[4,3]");
    let w = net.constant(Tensor::random([3, 5], -2.0..2.0, &mut Rng::with_seed(1)).lying(Lies::Spread));
    let y = net.node("MatMul", &[x, w], "[4,5]", &[]);
    net.with(&[y])
}

/// Runs a region with four rows on tensors of ones; returns whether the result is right.
fn run(net: &RegionBuilder) -> Result<Vec<String>, Error> {
    let symbols = [("rows", 4)];
    let ones = |tensor: Tensor| Tensor::new((tensor.dtype(), tensor.sizes()), &vec![1.0; tensor.len()]);
    let inputs: Vec<_> = net.inputs(1, &symbols).into_iter().map(ones).collect();
    let mut device = Device::open(&[])?;
    let code = net.code(backend(), &options(&[]))?;
    let mut ready = device.load(net, &code)?;
    let tensors = device.tensors(net, &inputs, &symbols)?;
    let scratch = tensors.prepare(&mut device, &mut ready)?;
    ready.executable.run()?;
    let got = device.result(tensors)?;
    let right = compare(&got, &exact(net, &inputs, &symbols), Limit::relative(2e-3)).is_ok();
    if scratch > 0 {
        device.release(scratch);
    }
    device.unload(ready);
    Ok(vec![format!("{} elements, right: {right}", got.len())])
}

fn one_call_a_product() {
    let (output, log) = tried("one", &[]);
    assert_eq!(output, "20 elements, right: true");
    // What the domain does, then the region: constants are on the device before it, and no host takes part in its run.
    let opened = "retain 0: 1\ncreate stream\nallocate 30\nupload 30\nsynchronize stream\nallocate 10\nupload 10\n\
                  synchronize stream\n";
    let loaded = "retain 0: 2\ncreate cublasLt\nretain 0: 3\n";
    let tensors = "allocate 24\nupload 24\nsynchronize stream\nallocate 40\n";
    // Partial sums stay in the type of the sums.
    let planned = "choose an algorithm, reductions 2\nallocate 256\n";
    let ran = "matmul NN m 5 n 4 k 3 batch 1 type 2 epilogue 6\n";
    let read = "download 40\nsynchronize stream\nfree 40\nfree 24\nfree 256\n";
    let unloaded = "no descriptions live\nrelease 0: 2, 40 bytes live\nfree 30\nfree 10\n";
    // The handle stays for the next region, and so its context is never released for the last time.
    let closed = "synchronize stream\ndestroy stream\nrelease 0: 1, 0 bytes live";
    assert_eq!(log, [opened, loaded, tensors, planned, ran, read, unloaded, closed].concat());
}

/// Two regions of one session, and one of the next.
fn share() -> Result<Vec<String>, Error> {
    let net = relu();
    let code = net.code(backend(), &options(&[]))?;
    for regions in [2, 1] {
        let mut device = Device::open(&[])?;
        let ready = (0..regions).map(|_| device.load(&net, &code)).collect::<Result<Vec<_>, _>>()?;
        ready.into_iter().for_each(|ready| device.unload(ready));
    }
    Ok(vec![])
}

fn regions_share_a_handle() {
    let (output, log) = tried("share", &[]);
    assert_eq!(output, "");
    let contexts = log.lines().filter(|line| line.contains("retain") || line.contains("release"));
    let counts: Vec<_> = contexts.filter_map(|line| line.split([' ', ',']).nth(2)).collect();
    // Domain, region, handle, region; the next session finds the handle's.
    assert_eq!(counts, ["1", "2", "3", "4", "3", "2", "1", "2", "3", "2", "1"]);
    assert_eq!((log.matches("create cublasLt").count(), log.matches("destroy cublasLt").count()), (1, 0));
}

fn calls_for_a_batch_that_broadcasts_twice() {
    let (output, log) = tried("twice", &[]);
    assert_eq!(output, "60 elements, right: true");
    let call = "matmul NN m 5 n 2 k 3 batch 3 type 0 epilogue 1\n";
    assert!(log.contains(&call.repeat(2)) && log.matches("matmul").count() == 2, "{log}");
    assert_eq!(log.matches("choose an algorithm").count(), 1);
}

fn a_constant_is_repacked() {
    let (output, log) = tried("spread", &[]);
    assert_eq!(output, "20 elements, right: true");
    // Core uploads the constant that it is a part of; what follows is the region's own.
    assert!(
        log.contains("retain 0: 2\nallocate 60\nupload 60\nsynchronize stream\ncreate cublasLt\nretain 0: 3\n"),
        "{log}"
    );
    assert!(log.contains("no descriptions live\nfree 60\nrelease 0: 2"), "{log}");
    assert!(log.ends_with("release 0: 1, 0 bytes live"), "{log}");
    // Where there is not as much memory.
    let (output, _) = tried("spread", &[("STANDIN_MEMORY", "150")]);
    let message = "cuda:0 cannot repack constant 10, in 60 bytes: CUDA_ERROR_OUT_OF_MEMORY: out of memory";
    assert_eq!(output, format!("{message}||Use a smaller batch, or another device"));
}

fn workspace() -> Result<Vec<String>, Error> {
    let net = relu();
    let code = net.code(backend(), &options(&[]))?;
    let mut lines = Vec::new();
    for asked in ["32", "0", "-1", "9223372036854775807"] {
        let mut device = Device::open(&[("workspace", asked)])?;
        let mut ready = match device.load(&net, &code) {
            Ok(ready) => ready,
            Err(error) => {
                lines.push(error.message);
                continue;
            }
        };
        let shapes = [[4i64, 3], [4, 5]];
        let [x, y] = shapes.each_ref().map(|shape| DeviceTensor { address: 0, dtype: DType::F16, shape });
        lines.push(format!("{:?}", ready.executable.plan(&[x], &[y])?));
        device.unload(ready);
    }
    Ok(lines)
}

fn scratch_memory() {
    let (output, _) = tried("workspace", &[]);
    let expected = "DevicePlan { scratch: 256, records: true, recordings_last: true }\nDevicePlan { scratch: 0, records: true, recordings_last: true }\n\
                    option 'workspace' is -1, which is not a number of MiB\n\
                    option 'workspace' is 9223372036854775807, which is not a number of MiB";
    assert_eq!(output, expected);
}

fn no_algorithm() {
    let said = |refusal| tried("algorithm", &[("STANDIN_REFUSE", "2"), ("STANDIN_REFUSAL", refusal)]).0;
    let message = "cublasLt has no algorithm for M 4 N 5 K 3 of f16 bias relu (CUBLAS_STATUS_NOT_SUPPORTED)";
    let hint = "Allow it more memory with cublas.workspace, or leave cublas out of --backend";
    // Not supported, and no failure with an empty answer.
    for refusal in ["15", "0"] {
        assert_eq!(said(refusal), format!("{message}|MatMul_0|{hint}"));
    }
    // Whatever else goes wrong has nothing to do with memory.
    let failed = "cublasLtMatmulAlgoGetHeuristic says CUBLAS_STATUS_INTERNAL_ERROR to M 4 N 5 K 3 of f16 bias relu";
    assert_eq!(said("14"), format!("{failed}|MatMul_0|"));
}

/// What `plan` says to tensors of other types and shapes.
fn sizes() -> Result<Vec<String>, Error> {
    let mut device = Device::open(&[])?;
    let mut net = RegionBuilder::of("cublas", DType::F32);
    let operands = ["[batch,rows,heads]", "[batch,heads,5]"].map(|shape| net.input(shape));
    let bias = net.input("[5]");
    let y = net.node("MatMul", &operands, "[batch,rows,5]", &[]);
    let sum = net.node("Add", &[y, bias], "[batch,rows,5]", &[]);
    let net = net.with(&[sum]);
    let code = net.code(backend(), &options(&[]))?;
    let mut ready = device.load(&net, &code)?;
    let mut lines = Vec::new();
    let mut said = |x: &[i64], w: &[i64], bias: &[i64], y: &[i64], dtype: DType| {
        let tensor = |shape| DeviceTensor { address: 0, dtype: DType::F32, shape };
        let inputs = [tensor(x), DeviceTensor { dtype, ..tensor(w) }, tensor(bias)];
        let planned = ready.executable.plan(&inputs, &[tensor(y)]);
        let ran = planned.and_then(|plan| ready.executable.prepare(&inputs, &[tensor(y)], 0).map(|()| plan));
        lines.push(ran.map_or_else(|error| error.message, |plan| format!("scratch {}", plan.scratch)));
    };
    said(&[2, 4, 3], &[2, 3, 5], &[5], &[2, 4, 5], DType::F32);
    said(&[2, 4, 3], &[2, 3, 5], &[5], &[2, 4, 5], DType::F16);
    said(&[2, 4, 3], &[3, 5], &[5], &[2, 4, 5], DType::F32);
    said(&[2, 4, 3], &[2, 3, 6], &[5], &[2, 4, 6], DType::F32);
    said(&[2, 4, 3], &[2, 4, 5], &[5], &[2, 4, 5], DType::F32);
    said(&[2, 4, 3], &[3, 3, 5], &[5], &[2, 4, 5], DType::F32);
    said(&[2, 4, 3], &[2, 3, 5], &[5], &[2, 4, 4], DType::F32);
    said(&[2, 4, 3], &[2, 3, 5], &[4], &[2, 4, 5], DType::F32);
    said(&[2, 4, 0], &[2, 0, 5], &[5], &[2, 4, 5], DType::F32);
    // Nothing to compute, and so nothing is called.
    said(&[0, 4, 3], &[0, 3, 5], &[5], &[0, 4, 5], DType::F32);
    said(&[2, 0, 0], &[2, 0, 5], &[5], &[2, 0, 5], DType::F32);
    ready.executable.run()?;
    // What was not planned or not prepared does not run.
    let empty = DeviceTensor { address: 0, dtype: DType::F32, shape: &[] };
    let unplanned = ready.executable.plan(&[empty; 3], &[empty]).err().map(|error| error.message);
    lines.extend(unplanned);
    lines.extend(ready.executable.prepare(&[empty; 3], &[empty], 0).err().map(|error| error.message));
    lines.extend(ready.executable.run().err().map(|error| error.message));
    device.unload(ready);
    Ok(lines)
}

fn sizes_that_do_not_fit() {
    let (output, log) = tried("sizes", &[]);
    let expected = [
        "scratch 256",
        "input 1 is f16, not f32",
        "input 1 is [3, 5], not [batch,heads,5]",
        "input 1 is [2, 3, 6], not [batch,heads,5]",
        "X has 3 columns and W has 4 rows",
        "batches of 2 and 3 do not broadcast",
        "M 4 N 5 K 3 of f32 batch 2 bias makes 40 elements, not [2, 4, 4]",
        "M 4 N 5 K 3 of f32 batch 2 bias with a bias of the wrong length",
        "M 4 N 5 K 0 of f32 batch 2 bias sums over no elements",
        "scratch 0",
        "scratch 0",
        "input 0 is [], not [batch,rows,heads]",
        "the product cannot be prepared before it is planned",
        "the product cannot run before it is prepared",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    assert_eq!((log.matches("matmul").count(), log.matches("choose an algorithm").count()), (0, 1));
}

/// Loads code with one byte changed, and cut code, and plans what loads.
fn damage() -> Result<Vec<String>, Error> {
    let mut device = Device::open(&[])?;
    let net = relu();
    let whole = net.code(backend(), &options(&[]))?;
    let (mut refused, mut loaded) = (0, 0);
    let mut one = |code: &[u8]| -> Result<(), Error> {
        let Ok(mut ready) = device.load(&net, code) else {
            refused += 1;
            return Ok(());
        };
        loaded += 1;
        let shapes = [[4i64, 3], [4, 5]];
        let [x, y] = shapes.each_ref().map(|shape| DeviceTensor { address: 0, dtype: DType::F16, shape });
        // An error or none: it does not crash.
        let _ = ready.executable.plan(&[x], &[y]);
        let _ = ready.executable.plan(&[], &[]);
        device.unload(ready);
        Ok(())
    };
    for at in 0..whole.len() {
        one(&whole[..at])?;
        for byte in *b"09[t" {
            let mut changed = whole.clone();
            changed[at] = byte;
            one(&changed)?;
        }
    }
    // Shapes of too few dimensions for how they are read.
    let text = String::from_utf8_lossy(&whole).into_owned();
    for read in ["matrix", "transposed", "row", "column", "filter", "pixels"] {
        let changed = text.replace("\"matrix\"", &format!("\"{read}\""));
        one(changed.as_bytes())?;
        let mut value: serde_json::Value = serde_json::from_str(&changed)?;
        for factor in ["x", "w"] {
            value["product"][factor]["shape"] = serde_json::json!([]);
            one(value.to_string().as_bytes())?;
        }
    }
    Ok(vec![format!("{}", refused > whole.len() && loaded > 0)])
}

fn damaged_code() {
    let (output, log) = tried("damage", &[]);
    assert_eq!(output, "true");
    // One that was left over would be alive for good.
    assert!(log.rfind("no descriptions live") > log.rfind("choose an algorithm"));
}

/// What `load` says to constants that are not those of the code.
fn constants() -> Result<Vec<String>, Error> {
    let mut device = Device::open(&[])?;
    let net = relu();
    let code = net.code(backend(), &options(&[]))?;
    let ids: Vec<_> = net.region.constants.iter().map(|constant| constant.id).collect();
    let address = device.holding(&[0; 256])?;
    let handles = device.domain.handles();
    let folder = std::env::var(FOLDER).unwrap_or_default();
    let environment = Environment { threads: 1, options: options(&[("library-path", &folder)]) };
    let (halves, floats) = ([half::f16::ONE; 15], [1f32; 15]);
    let at = |address: u64, views: Vec<(TensorView<'_>, Option<&'static str>)>, handles: &DomainHandles| {
        let entries = views.into_iter().zip(&ids).map(|((view, layout), id)| {
            let bound = BoundConstant { id: *id, layout, view };
            DeviceConstant { bound, address }
        });
        let constants = DeviceConstants::new(entries.collect());
        let loaded = backend().runtime().device().expect("a device").load(&code, &constants, &environment, handles);
        loaded.map_or_else(|error| error.message, |_| "loaded".into())
    };
    let said = |views, handles: &DomainHandles| at(address, views, handles);
    let w = TensorView::from_slice(&halves, &[3, 5], &[5, 1])?;
    let bias = TensorView::from_slice(&halves[..5], &[5], &[1])?;
    let other_type = TensorView::from_slice(&floats, &[3, 5], &[5, 1])?;
    let other_shape = TensorView::from_slice(&halves, &[5, 3], &[3, 1])?;
    let mut elsewhere = handles;
    elsewhere.device.device_type = 1;
    let lines = vec![
        said(vec![(w, None), (bias, None)], &handles),
        said(vec![(w, None)], &handles),
        said(vec![(w, Some("panels/1")), (bias, None)], &handles),
        said(vec![(other_type, None), (bias, None)], &handles),
        said(vec![(other_shape, None), (bias, None)], &handles),
        said(vec![(w, None), (bias, None)], &elsewhere),
        // Between two elements nothing can be read: both are repacked.
        at(address + 1, vec![(w, None), (bias, None)], &handles),
    ];
    device.release(address);
    Ok(lines)
}

fn constants_that_do_not_fit() {
    let (output, log) = tried("constants", &[]);
    let expected = [
        "loaded",
        "constant 13 is not bound",
        "constant 10 is packed as 'panels/1', expected the original",
        "constant 10 is f32, not f16",
        "constant 10 is [5, 3], not [3,5]",
        "the domain is a device of DLPack's type 1, but CUDA's are of type 2",
        "loaded",
    ];
    assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    let repacked = "allocate 30\nupload 30\nsynchronize stream\nallocate 10\nupload 10\nsynchronize stream\n";
    assert!(log.matches(repacked).count() == 1 && log.ends_with("release 0: 1, 0 bytes live"), "{log}");
}

fn no_library() {
    let scratch = temporary();
    let shield = shield(scratch.path());
    let said = |folder: &std::path::Path| {
        let child = Child::new("open").with(FOLDER, folder).with("LD_LIBRARY_PATH", &shield);
        child.output(scratch.path())
    };
    let hint = "Install NVIDIA's driver 525 or newer, or name the folder of libcuda.so.1 in BYOC_CUDA_PATH";
    let folder = scratch.path().join("folder");
    assert_eq!(said(&folder), format!("there is no libcuda.so.1 in DIR/folder, the loader's path||{hint}"));
    copy(&both().join("libcuda.so.1"), &folder.join("libcuda.so.1"));
    let files = "libcublasLt.so.13 or libcublasLt.so.12";
    let hint = "Try `pip install nvidia-cublas==13.0.*`, or name its folder in BYOC_CUDA_PATH";
    assert_eq!(said(&folder), format!("there is no {files} in DIR/folder, the loader's path||{hint}"));
}

fn not_in_host_memory() {
    let environment = Environment { threads: 1, options: options(&[]) };
    let code = relu().code(backend(), &options(&[])).expect("code");
    let error = backend()
        .runtime()
        .host()
        .and_then(|host| host.load(&code, &BoundConstants::new(vec![]), &environment).map(drop))
        .expect_err("an error");
    assert_eq!(error.message, "this backend runs in a memory domain, not in host memory");
}
