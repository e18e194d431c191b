//! The pager: where a result is longer than the screen, the person reads it at their own pace.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

/// Shows the text and waits until the person is done. `false` where there is no pager: then nothing was shown.
pub fn show(text: &str) -> bool {
    let Some(mut command) = command() else { return false };
    let Ok(mut pager) = command.stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // Whoever quits the pager early has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    // It had the terminal, so whatever it ended with, it is over.
    let _ = pager.wait();
    true
}

/// `$SKEP_PAGER`, else `$PAGER`, else less; an empty name or `cat` is none.
fn command() -> Option<Command> {
    let named = ["SKEP_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    let mut command = match named {
        Some(name) if name.is_empty() || name == "cat" => return None,
        // It may have arguments, so a shell reads it, as it does for git.
        Some(name) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(name);
            shell
        }
        None => Command::new("less"),
    };
    // Colours are passed on, what fits ends at once, and the text stays on the screen.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", OsString::from("FRX"));
    }
    Some(command)
}
