//! Target architectures by NVIDIA's names: `sm_80`, `sm_90a`.

use std::fmt;
use std::str::FromStr;

use byoc_plugin_api::Error;

use crate::locate::one_line;

/// One architecture. Code for it runs on GPUs of its major compute capability that are not older, which is for
/// [`Arch::is_own`] ones the very same only. `sm_80` does not run on a GPU of `sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    number: u32,
    suffix: Suffix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Suffix {
    Common,
    Family,
    Own,
}

/// The oldest one with instructions of its own (`sm_90a`), and the oldest with some of a family (`sm_100f`).
const OLDEST_OWN: u32 = 90;
const OLDEST_FAMILY: u32 = 100;

impl Arch {
    /// Ten times the major compute capability and the minor one.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Whether a device of that compute capability runs its code. Code for an architecture runs on those of the same
    /// major number that are as new or newer; with instructions of its own, on that very one.
    pub fn runs_on(self, (major, minor): (u32, u32)) -> bool {
        let (own_major, own_minor) = (self.number / 10, self.number % 10);
        own_major == major && if self.is_own() { own_minor == minor } else { own_minor <= minor }
    }

    /// Whether it has the instructions of that one architecture, such as `wgmma` of `sm_90a`. Without the `a` NVRTC
    /// compiles CUTLASS's kernels for Hopper too, without an error, and the result has none of these instructions.
    pub fn is_own(self) -> bool {
        self.suffix == Suffix::Own
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.suffix {
            Suffix::Common => "",
            Suffix::Family => "f",
            Suffix::Own => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}

impl FromStr for Arch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Arch, Error> {
        let unknown =
            || one_line(format!("'{text}' is not an architecture of a GPU")).hint("Write it as in sm_80 or sm_90a");
        let rest = text.strip_prefix("sm_").ok_or_else(unknown)?;
        let (digits, suffix) = match (rest.strip_suffix('a'), rest.strip_suffix('f')) {
            (Some(digits), _) => (digits, Suffix::Own),
            (_, Some(digits)) => (digits, Suffix::Family),
            _ => (rest, Suffix::Common),
        };
        let plain = (2..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = Some(digits)
            .filter(|_| plain && !digits.starts_with('0'))
            .ok_or_else(unknown)?
            .parse()
            .map_err(|_| unknown())?;
        let oldest = match suffix {
            Suffix::Common => 0,
            Suffix::Family => OLDEST_FAMILY,
            Suffix::Own => OLDEST_OWN,
        };
        if number < oldest {
            let error = Error::new(format!("there is no {text}"));
            return Err(error.hint(format!("Write sm_{number}: the letter is for sm_{oldest} and newer ones")));
        }
        Ok(Arch { number, suffix })
    }
}

/// The architectures that a text names, between commas: each once, the oldest first.
///
/// # Errors
///
/// When it names none, or something else.
pub fn arches(text: &str) -> Result<Vec<Arch>, Error> {
    let mut found: Vec<Arch> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        match arches(text) {
            Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            Err(error) => format!("{} ({})", error.message, error.hint.unwrap_or_default()),
        }
    }

    #[test]
    fn in_order_and_each_once() {
        assert_eq!(written("sm_90a, sm_80,sm_120f,sm_90,sm_80,sm_100"), "sm_80,sm_90,sm_90a,sm_100,sm_120f");
        let own: Vec<_> =
            arches("sm_90,sm_90a,sm_100f").expect("they exist").iter().map(|arch| arch.is_own()).collect();
        assert_eq!(own, [false, true, false]);
        assert_eq!("sm_103a".parse::<Arch>().expect("it exists").number(), 103);
    }

    #[test]
    fn what_runs_where() {
        let runs = |arch: &str, capability| arch.parse::<Arch>().expect("it exists").runs_on(capability);
        for (arch, capability) in [("sm_80", (8, 0)), ("sm_80", (8, 9)), ("sm_90a", (9, 0)), ("sm_100f", (10, 3))] {
            assert!(runs(arch, capability), "{arch} {capability:?}");
        }
        for (arch, capability) in
            [("sm_80", (9, 0)), ("sm_86", (8, 0)), ("sm_90a", (9, 1)), ("sm_100a", (10, 3)), ("sm_100f", (12, 0))]
        {
            assert!(!runs(arch, capability), "{arch} {capability:?}");
        }
    }

    #[test]
    fn what_is_none() {
        for text in
            ["", "sm_", "90a", "sm_9", "sm_0900", "sm_090", "compute_90", "sm_90b", "sm_90aa", "sm_+90", "sm_\n80"]
        {
            let said = format!(
                "'{}' is not an architecture of a GPU (Write it as in sm_80 or sm_90a)",
                text.replace('\n', " ")
            );
            assert_eq!(written(text), said);
        }
        assert!(written("sm_80,").starts_with("'' is not an architecture"));
        assert_eq!(written("sm_80a"), "there is no sm_80a (Write sm_80: the letter is for sm_90 and newer ones)");
        assert_eq!(written("sm_90f"), "there is no sm_90f (Write sm_90: the letter is for sm_100 and newer ones)");
    }
}
