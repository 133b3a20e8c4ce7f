//! Runs the program in a terminal of a given width, as its users see it.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::program::byoc;

/// What the program writes to a terminal with that many columns, to both of its outputs, and its exit code.
pub fn in_terminal(folder: &Path, columns: u16, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = byoc(arguments);
    command.current_dir(folder);
    shown(command, columns)
}

/// The same of any command.
pub fn shown(mut command: Command, columns: u16) -> (String, Option<i32>) {
    let (controller, user) = open(columns).expect("a pseudo-terminal");
    let output = || Stdio::from(user.try_clone().expect("a descriptor"));
    command.stdin(Stdio::null()).stdout(output()).stderr(output());
    let mut child = command.spawn().expect("the program runs");
    // The reader sees the end once nobody has the other side open.
    drop((command, user));
    let written = read(controller);
    let code = child.wait().expect("the program ends").code();
    (String::from_utf8(written).expect("text").replace("\r\n", "\n"), code)
}

fn open(columns: u16) -> Result<(File, File), Error> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let name = ptsname(&controller, Vec::new())?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let user = OpenOptions::new().read(true).write(true).open(path)?;
    tcsetwinsize(&user, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((File::from(controller), user))
}

/// All that is written; a terminal that nobody has open any more ends with an error.
fn read(mut controller: File) -> Vec<u8> {
    let mut written = Vec::new();
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = controller.read(&mut part) {
        written.extend_from_slice(&part[..count]);
    }
    written
}
