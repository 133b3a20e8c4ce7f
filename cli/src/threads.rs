//! The cores of this machine, and threads that are more than them.

use byoc_core::diagnostic::{Code, Diagnostic};

use crate::report::count;

/// The cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the processor is called; `None` where the system does not tell.
pub(crate) fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    name_in(&text)
}

fn name_in(text: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    };
    text.lines().find_map(value)
}

/// The threads of each of so many sessions: as asked for, or an equal share of the cores. One session chooses by itself, which 0
/// stands for.
pub(crate) fn of_each(asked: usize, sessions: usize) -> usize {
    share(asked, sessions, cores())
}

fn share(asked: usize, sessions: usize, cores: usize) -> usize {
    match asked {
        0 if sessions > 1 => (cores / sessions).max(1),
        asked => asked,
    }
}

/// The warning that there are more threads than cores.
pub(crate) fn too_many(threads: usize, sessions: usize) -> Option<Diagnostic> {
    more_than(threads, sessions, cores())
}

fn more_than(threads: usize, sessions: usize, cores: usize) -> Option<Diagnostic> {
    let all = threads.max(1).saturating_mul(sessions);
    if all <= cores {
        return None;
    }
    let threads = if sessions > 1 {
        format!("{} with {} each", count(sessions, "stream"), count(threads.max(1), "thread"))
    } else {
        count(threads, "thread")
    };
    let message = format!("{threads} on {}: they wait for one another", count(cores, "core"));
    let most = (cores / sessions).max(1);
    let hint = if sessions > cores {
        format!("Give --streams {cores} or less")
    } else {
        format!("Give --threads {most} or less")
    };
    Some(Diagnostic::new(Code::Usage, message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_the_cores() {
        let shares =
            [(0, 1), (0, 2), (0, 3), (0, 16), (5, 2), (5, 1)].map(|(asked, sessions)| share(asked, sessions, 8));
        assert_eq!(shares, [0, 4, 2, 1, 5, 5]);
    }

    #[test]
    fn more_threads_than_cores_are_told() {
        let told = |threads, sessions| more_than(threads, sessions, 8).map(|warning| warning.to_string());
        assert_eq!([told(0, 1), told(8, 1), told(4, 2), told(1, 8)], [None, None, None, None]);
        let one = "[B901] 9 threads on 8 cores: they wait for one another. Give --threads 8 or less";
        assert_eq!(told(9, 1).as_deref(), Some(one));
        let two =
            "[B901] 2 streams with 5 threads each on 8 cores: they wait for one another. Give --threads 4 or less";
        assert_eq!(told(5, 2).as_deref(), Some(two));
        let many =
            "[B901] 9 streams with 1 thread each on 8 cores: they wait for one another. Give --streams 8 or less";
        assert_eq!(told(1, 9).as_deref(), Some(many));
        assert!(told(usize::MAX, 2).is_some());
    }

    #[test]
    fn the_processor_has_a_name() {
        assert_eq!(name_in("processor\t: 0\nmodel name\t: A CPU @ 2.0\n"), Some("A CPU @ 2.0".into()));
        assert_eq!(name_in("processor\t: 0\n"), None);
    }
}
