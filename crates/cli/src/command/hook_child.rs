//! `skep hook-child`: what a vendor's client starts in its room to ask the kernel about a tool. Not for people.
//!
//! **Invariant.** Without a whole answer of the kernel's it says no.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::ExitCode;

/// The exit code by which clients know a no.
const REFUSES: u8 = 2;

/// Ask the kernel about a tool, for a client in a sandbox
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct HookChildArgs {
    /// The door's port on the sandbox's own loopback
    port: u16,
}

impl HookChildArgs {
    /// Needs no home and no runtime.
    pub fn run(&self) -> ExitCode {
        match self.ask() {
            Ok(answer) => {
                // A client that has gone needs no answer.
                let _ = io::stdout().write_all(&answer);
                ExitCode::SUCCESS
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "the kernel does not answer, so this tool is not used: {error}");
                ExitCode::from(REFUSES)
            }
        }
    }

    /// What the client said goes out as one line, and one line comes back.
    fn ask(&self) -> io::Result<Vec<u8>> {
        let mut said = Vec::new();
        io::stdin().read_to_end(&mut said)?;
        said.retain(|byte| *byte != b'\n');
        said.push(b'\n');
        let mut door = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        door.write_all(&said)?;
        let mut answer = Vec::new();
        door.read_to_end(&mut answer)?;
        match answer.pop() {
            Some(b'\n') => Ok(answer),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is not whole")),
        }
    }
}
