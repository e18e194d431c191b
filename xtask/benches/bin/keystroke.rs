//! A key's way to a program and back: on a terminal of its own, and in `skep talk`. Prints one JSON line; `cargo xtask bench` reads it.
//!
//! Both run at the same time and get their keys in turn. The program shows every key that it gets.
#![forbid(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const ROUNDS: usize = 500;
/// Only what hangs is silent for so long.
const SILENT_MAX: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [skep, home, zone, client] = &arguments[..] else { return Err("name skep, its home, a repository and the client".into()) };
    let mut plain = Terminal::open(Command::new("setsid").args(["--ctty", client]).current_dir(zone))?;
    let talk = ["--ctty", skep, "talk", "--brain", "claude", "--ask"];
    let mut talk = Terminal::open(Command::new("setsid").args(talk).current_dir(zone).env("SKEP_HOME", home).env("TERM", "xterm"))?;
    for terminal in [&mut plain, &mut talk] {
        terminal.wait_for(b"ready")?;
    }
    let (mut plains, mut talks) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    for round in 0..ROUNDS {
        // Neither `q`, which leaves, nor a letter of `ready`.
        let key = b"bcfghijk"[round % 8];
        plains.push(plain.press(key)?);
        talks.push(talk.press(key)?);
    }
    for terminal in [&mut plain, &mut talk] {
        terminal.master.write_all(b"q")?;
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1e6
    };
    println!("{}", serde_json::json!({"plain_us": median(plains), "talk_us": median(talks)}));
    Ok(())
}

/// A terminal with a program.
struct Terminal {
    master: File,
    child: Child,
}

impl Terminal {
    fn open(command: &mut Command) -> Result<Terminal, Box<dyn Error>> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
        let name = ptsname(&master, Vec::new())?;
        let slave = File::options().read(true).write(true).open(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))?;
        let child = command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave).spawn()?;
        Ok(Terminal { master: File::from(master), child })
    }

    /// Reads until the program has shown this.
    fn wait_for(&mut self, wanted: &[u8]) -> Result<(), Box<dyn Error>> {
        let mut shown = Vec::new();
        loop {
            let mut buffer = [0; 4096];
            if poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&SILENT_MAX))? == 0 {
                return Err(format!("nothing comes any more after: {}", String::from_utf8_lossy(&shown)).into());
            }
            let got = self.master.read(&mut buffer)?;
            shown.extend_from_slice(&buffer[..got]);
            if shown.windows(wanted.len()).any(|part| part == wanted) {
                return Ok(());
            }
        }
    }

    fn press(&mut self, key: u8) -> Result<Duration, Box<dyn Error>> {
        let start = Instant::now();
        self.master.write_all(&[key])?;
        self.wait_for(&[key])?;
        Ok(start.elapsed())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have left by itself; either way it is over.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
