//! Termination of workers: at once when the host is gone, without the plugin's exit handlers, and together with the programs
//! that the plugin started. A worker leads a process group, which those programs are part of unless they leave it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, waitid};

/// Ends this process and its group when the process at the other end of `wire` is gone, in any state.
/// That is detected in two ways: the other end is closed, and, where the kernel supports it, the parent has ended. A
/// process that the parent forked may still hold the other end then.
pub fn end_with_parent(wire: impl AsFd) -> io::Result<()> {
    let wire = wire.as_fd().try_clone_to_owned()?;
    let parent = parent();
    thread::Builder::new().spawn(move || {
        // Hang-ups are always reported.
        let mut watched = vec![PollFd::new(&wire, PollFlags::empty())];
        watched.extend(parent.iter().map(|parent| PollFd::new(parent, PollFlags::IN)));
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        end_process()
    })?;
    Ok(())
}

/// A descriptor that can be read from once the parent has ended.
#[cfg(target_os = "linux")]
fn parent() -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, getppid, pidfd_open};
    pidfd_open(getppid()?, PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn parent() -> Option<OwnedFd> {
    None
}

/// Ends this process and its group. No exit handler or destructor of a plugin is run: one that waits would keep the process
/// for ever.
pub fn end_process() -> ! {
    let own = getpid();
    let _ = kill_process_group(own, Signal::KILL);
    let _ = kill_process(own, Signal::KILL);
    std::process::abort()
}

/// A process group that a child leads: the child, and the programs that it starts unless they leave it.
#[derive(Clone, Copy, Debug)]
pub struct Group(Pid);

impl Group {
    /// The group of a child that was started as the leader of one.
    pub fn led_by(child: &Child) -> Group {
        Group(Pid::from_child(child))
    }

    /// Ends all of it. To be called before the child is waited for: from then on its number may be another's.
    pub fn end(self) {
        let _ = kill_process_group(self.0, Signal::KILL);
        // It may have left the group.
        let _ = kill_process(self.0, Signal::KILL);
    }

    /// Calls `then` when the child has ended. It is left to be waited for.
    pub fn when_leader_ends(self, then: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().spawn(move || {
            let ended = || waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            while ended().is_err_and(|error| error == Errno::INTR) {}
            then();
        })
    }
}
