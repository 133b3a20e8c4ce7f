//! Waiting for the other side without sleep, for a moment: most answers are quick, and to be put to sleep and woken takes
//! longer than they do.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long a side that waits for the other stays awake.
const AWAKE: Duration = Duration::from_micros(100);

/// Waits while nothing has come, up to [`AWAKE`], and lets others run.
pub(super) fn busy_wait(from: &BufReader<UnixStream>) {
    let start = Instant::now();
    let mut wire = [PollFd::new(from.get_ref(), PollFlags::IN)];
    let mut nothing = || from.buffer().is_empty() && poll(&mut wire, Some(&Timespec::default())) == Ok(0);
    while nothing() && start.elapsed() < AWAKE {
        std::thread::yield_now();
    }
}
