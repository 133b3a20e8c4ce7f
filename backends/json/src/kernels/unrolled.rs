//! Loops that are written out before the compiler sees them.

/// Most times that a block is written out: steps, rows and pixels.
pub(crate) const MOST: usize = 16;
/// The same where the loop says so: blocks of output channels, columns.
pub(crate) const FEW: usize = 4;

/// The block once for each constant index below the constant length, [`MOST`] at most, or with `of FEW` in front of the block [`FEW`].
/// The compiler unrolls a loop only after it has given up on registers for arrays that several loops index; written out, the sums of a
/// tile stay in registers. To check, disassemble a program and look for stores to the stack between the multiply-adds, or time it: a
/// constant assertion in here was enough to put them back on the stack (1x1 convolutions at 94 and not 109 GFLOP/s), so that those who
/// call it see to the bounds.
///
/// The conditions are constants of their own, so that what does not hold is not even translated for LLVM, and there are few where loops
/// are nested: LLVM gets a third of the instructions, and the machine code of the tiles is the same.
macro_rules! unrolled {
    ($index:ident in 0..$len:ident of FEW $body:block) => {
        unrolled!(@ $index $len $body [0 1 2 3])
    };
    ($index:ident in 0..$len:ident $body:block) => {
        unrolled!(@ $index $len $body [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15])
    };
    // For each of these numbers: where the length is no parameter, the compiler takes what lies behind it for an error.
    ($index:ident in [$($at:literal)*] $body:block) => {
        $({
            let $index: usize = $at;
            $body
        })*
    };
    (@ $index:ident $len:ident $body:block [$($at:literal)*]) => {
        $(if const { $at < $len } {
            let $index: usize = $at;
            $body
        })*
    };
}

pub(crate) use unrolled;
