//! What runs attempts: rooms, and children of our own that lock themselves.

use super::attempt::Attempt;
use super::scene::Scene;
use super::{child, rooms};
use sandbox::{Exit, Outcome};

/// A way to run a program that is kept in. Several may run at once.
pub trait Runtime: Sync {
    /// The profiles of system calls that it has, by their names in attempts.
    fn profiles(&self) -> &'static [&'static str];

    /// Runs an attempt's command line, kept in by this profile, in the scene's project and tells what came of it.
    fn run(&self, scene: &Scene, attempt: &Attempt, argv: &[String], profile: &str) -> Ran;
}

/// One line of the list.
pub struct Kind {
    pub name: &'static str,
    /// Whether an ordinary user has such rooms.
    pub of_users: bool,
    /// Whether it takes so long to start that one process makes all attempts of a folder, several at once.
    pub dear: bool,
    /// Comes as the tested user and before the process has a second thread.
    pub start: fn() -> Box<dyn Runtime>,
}

pub const RUNTIMES: &[Kind] = &[
    Kind { name: "native", of_users: true, dear: false, start: rooms::native },
    Kind { name: "podman", of_users: false, dear: true, start: rooms::podman },
    Kind { name: CHILD, of_users: true, dear: false, start: child::start },
];
/// The one without a room, for attempts that say what comes of them under `strict`.
pub const CHILD: &str = "child";

/// How a program ended, in a room or outside.
#[derive(Debug)]
pub struct Ran {
    /// The exit code, or the number of the signal.
    pub exit: Result<i32, i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub cut: bool,
    pub timed_out: bool,
    pub out_of_memory: bool,
    pub overfull: bool,
}

impl Ran {
    pub fn of(outcome: Outcome) -> Ran {
        Ran {
            exit: match outcome.exit {
                Exit::Code(code) => Ok(code),
                Exit::Signal(signal) => Err(signal),
            },
            stdout: outcome.stdout,
            stderr: outcome.stderr,
            cut: outcome.truncated,
            timed_out: outcome.timed_out,
            out_of_memory: outcome.out_of_memory,
            overfull: outcome.overfull.is_some(),
        }
    }

    /// One line, as attempts state it.
    pub fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.stdout);
        let said = if self.cut { "much".to_owned() } else { text.trim_end().replace('\n', " / ") };
        let end = match self.exit {
            _ if self.timed_out => "timed out".to_owned(),
            _ if self.out_of_memory => "out of memory".to_owned(),
            _ if self.overfull => "overfull".to_owned(),
            Ok(0) => return said,
            Ok(code) => format!("exit {code}"),
            Err(signal) => format!("signal {signal}"),
        };
        if said.is_empty() { end } else { format!("{said}, {end}") }
    }
}
