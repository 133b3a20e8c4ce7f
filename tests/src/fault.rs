//! The faults of the hostile plugin: the one list, which the plugin and its test share. The environment variable
//! [`VARIABLE`] chooses one.

/// Says which fault the plugin has; without it the plugin behaves.
pub const VARIABLE: &str = "BYOC_TESTS_FAULT";

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What the plugin does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault { $($(#[doc = $doc])+ $name,)* }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    /// Panics in `describe`.
    PanicInDescribe,
    /// Panics in `patterns`.
    PanicInPatterns,
    /// Panics in `check`.
    PanicInCheck,
    /// Panics in `codegen`, with half of the code written.
    PanicInCodegen,
    /// Panics in `constant_updater`, with a packed constant half written.
    PanicInConstantUpdater,
    /// Panics in `load`.
    PanicInLoad,
    /// Panics in `run`.
    PanicInRun,
    /// Panics when the executable is dropped.
    PanicInDrop,
    /// Its name is not made of letters, digits and `-`.
    BadName,
    /// A pattern without its last parenthesis.
    BadPattern,
    /// Fails in `codegen` for what `check` took.
    RefusesLate,
    /// Fails in `codegen` with a node and a hint.
    FailsWithHint,
    /// Fails in `codegen` with a message of two lines and an escape sequence.
    FailsInColour,
    /// Claims nothing.
    ClaimsNothing,
    /// Claims a constant twice.
    ClaimsTwice,
    /// Claims a constant that it was not given.
    ClaimsUnknown,
    /// Claims a packed constant without the name of a layout.
    PacksWithoutLayout,
    /// Writes fewer packed bytes than it says.
    PacksTooLittle,
    /// Writes more packed bytes than it says, and takes no notice of the refusal.
    PacksTooMuch,
    /// Asks for an alignment that no file has.
    PacksMisaligned,
    /// Writes the constant's bytes into the code and claims `Host`.
    EmbedsHost,
    /// Writes three quarters of the constant's bytes into the code and claims `Host`.
    EmbedsPart,
    /// Ends the process when the library is opened, as if all were well.
    ExitsInConstructor,
    /// Ends the process by a null pointer in `describe`.
    SegfaultInDescribe,
    /// Ends the process by a null pointer in `check`.
    SegfaultInCheck,
    /// Ends the process by a null pointer in `codegen`, with half of the code written.
    SegfaultInCodegen,
    /// Aborts in `constant_updater`.
    AbortInConstantUpdater,
    /// Never returns from `codegen`.
    HangsInCodegen,
    /// Works in `codegen` for longer than it has to answer, once in a process, and tells of its progress.
    WorksLong,
    /// Asks for more memory in `codegen` than any machine has.
    TakesAllMemory,
    /// Writes code without end, and takes no notice of a refusal.
    WritesEndlessCode,
    /// Writes packed bytes without end, of a constant that it says is as large.
    PacksEndlessly,
    /// Prints to the standard output in `codegen`.
    PrintsInCodegen,
    /// Fails in `load` with a hint.
    FailsInLoad,
    /// Fails in `run`.
    FailsInRun,
}

impl Fault {
    /// The value of [`VARIABLE`] that stands for the fault.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// The fault that the environment chooses.
    pub fn chosen() -> Option<Fault> {
        let name = std::env::var(VARIABLE).ok()?;
        Fault::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}
