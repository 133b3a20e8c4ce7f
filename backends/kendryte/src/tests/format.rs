//! Files that are written are read back the same, and what is wrong with others is said.

use byoc_plugin_api::testing::Rng;

use super::build;
use super::layers::every_layer;
use crate::kmodel::arguments::{Arguments, Kernel};
use crate::kmodel::check::{Problem, Severity};
use crate::kmodel::{Kmodel, Operation, placement};
use crate::simulator::Simulator;

fn small() -> Kmodel {
    build::single(build::conv(build::arguments(3, 5, 8, 6), &mut Rng::with_seed(7), false))
}

#[test]
fn what_is_written_reads_back() {
    for kmodel in [small(), every_layer()] {
        let file = kmodel.emit().expect("a kmodel");
        let parsed = Kmodel::parse(&file).expect("a kmodel");
        assert_eq!(parsed, kmodel);
        assert_eq!(parsed.emit().expect("a kmodel"), file);
        assert_eq!(placement::check(&file).expect("a kmodel"), []);
        assert_eq!(kmodel.check(), []);
    }
}

/// The last body may lack its padding (kmodel v3, section 2).
#[test]
fn padding_at_the_end_may_be_missing() {
    let mut kmodel = every_layer();
    kmodel.layers.truncate(1);
    kmodel.layers.push(every_layer().layers.into_iter().find(|layer| layer.operation.kind() == 5).expect("a pool"));
    let file = kmodel.emit().expect("a kmodel");
    assert_eq!(Kmodel::parse(&file[..file.len() - 4]).expect("a kmodel"), kmodel);
    let error = Kmodel::parse(&file[..file.len() - 5]).expect_err("a byte too few");
    assert!(error.message.contains("layer 1 (GLOBAL_AVERAGE_POOL2D)"), "{error}");
}

fn error(file: &[u8]) -> String {
    let error = Kmodel::parse(file).expect_err("no kmodel v3");
    format!("{error}{}", error.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())
}

#[test]
fn other_versions_are_named_with_their_reader() {
    let later = |version: u32| [b"LDMK".as_slice(), &version.to_le_bytes()].concat();
    let cases = [
        (
            vec![1, 0, 0, 0, 0, 0, 0, 0],
            "the file is a kmodel of version 1, only version 3 is supported; the SDK reads it with kpu_model_load_from_buffer",
        ),
        (
            later(4),
            "the file is a kmodel of version 4, only version 3 is supported; nncase 0.2 reads it, and so does MaixPy built with V4 support",
        ),
        (
            later(5),
            "the file is a kmodel of version 5, only version 3 is supported; the nncase 1.x that wrote it reads it",
        ),
        (later(6), "the file is a kmodel of version 6, only version 3 is supported; nncase 2.x reads it, for the K230"),
        (
            b"\x7fELF".to_vec(),
            "the file is not a kmodel: it starts with 0x464c457f, a kmodel of version 3 with 0x00000003",
        ),
        (b"ab".to_vec(), "the file is not a kmodel: it has 2 bytes"),
    ];
    for (file, message) in cases {
        assert_eq!(error(&file), message);
    }
}

#[test]
fn damage_is_named_with_offset_layer_and_cause() {
    let file = small().emit().expect("a kmodel");
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        error(&file)
    };
    let conv = "damaged kmodel: layer 0 (K210_CONV) at offset";
    // The header, one output and one layer header take 44 bytes; the layer arguments are at 72.
    assert_eq!(changed(8, &[1]), "damaged kmodel: header at offset 8: arch is 1, only 0 (K210) is known");
    assert_eq!(
        changed(4, &[0]),
        "the kmodel has 16-bit weights, only 8-bit weights are supported; compile the model again with 8-bit weights"
    );
    assert_eq!(
        changed(15, &[255]),
        "damaged kmodel: header at offset 36: 'layer headers' takes 34225520648 bytes and 876 are left"
    );
    assert_eq!(
        changed(72 + 8 * 4, &[0xf2]),
        format!("{conv} 72: kernel_type is 2, only 0 (1x1) and 1 (3x3) are known")
    );
    assert_eq!(
        changed(72 + 8 * 7, &[9]),
        format!("{conv} 72: layer argument 7 is 0xc0010009, the others make it 0xc0010006")
    );
    assert_eq!(error(&file[..60]), format!("{conv} 44: the body takes 868 bytes and 16 are left"));
}

#[test]
fn numbers_without_room_are_refused() {
    let mut kmodel = small();
    let Operation::Conv(conv) = &mut kmodel.layers[0].operation else { panic!("a convolution") };
    conv.arguments.arg_x = 1 << 23;
    let error = kmodel.emit().expect_err("24 bits");
    assert_eq!(error.message, "layer 0 (K210_CONV): arg_x is 8388608, layer argument 9 has 24 bits for it");
}

fn problems(change: impl FnOnce(&mut Kmodel)) -> Vec<String> {
    let mut kmodel = small();
    change(&mut kmodel);
    kmodel.check().iter().map(Problem::to_string).collect()
}

fn with(change: impl FnOnce(&mut Arguments)) -> Vec<String> {
    problems(|kmodel| {
        let Operation::Conv(conv) = &mut kmodel.layers[0].operation else { panic!("a convolution") };
        change(&mut conv.arguments);
    })
}

#[test]
fn the_checker_names_what_does_not_hold() {
    let layer = "layer 0 (K210_CONV):";
    assert_eq!(
        with(|a| a.destination = 0),
        [format!("{layer} reads rows 0 to 6 of KPU RAM and writes rows 0 to 12 of KPU RAM, which overlap")]
    );
    assert_eq!(
        with(|a| a.destination = 32_760),
        [format!("{layer} writes rows 32760 to 32772 of KPU RAM, which ends at 2097152")]
    );
    assert_eq!(with(|a| a.loads = 2), [format!("{layer} 2 weight loads of 5 channels, 5 channels need 1")]);
    assert_eq!(with(|a| a.load_bytes = 7), [format!("{layer} weight loads of 7 bytes, 5 channels have 135")]);
    assert_eq!(with(|a| a.arg_add = 1 << 38), [format!("{layer} sums of output channel 0 can exceed 36 bits")]);
    assert_eq!(with(|a| a.kernel = Kernel::One)[1..], [format!("{layer} 135 bytes of weights, its arguments need 15")]);
    assert_eq!(
        problems(|kmodel| kmodel.main_memory = 232)[1..],
        [format!("{layer} writes 0 to 240 of main memory, which ends at 232")]
    );
    assert_eq!(
        problems(|kmodel| kmodel.main_memory = 7 << 20),
        ["header: 7340032 bytes of main memory, a K210 has 6291456 for everything"]
    );
    assert_eq!(problems(|kmodel| kmodel.layers.clear())[0], "header: there is no layer");
}

#[test]
fn what_cannot_run_is_refused() {
    let mut kmodel = small();
    kmodel.layers.push(crate::kmodel::Layer { flags: 0, operation: Operation::Other(7, vec![0; 8]) });
    assert!(kmodel.check().iter().any(|problem| problem.severity == Severity::Broken));
    let error = Simulator::new(kmodel, 1).map(|_| ()).expect_err("MAX_POOL2D");
    assert_eq!(error.message, "the kmodel cannot run: layer 1 (MAX_POOL2D): no public reader executes this type");
}
