//! A transcript as a file: readable, without secrets, for its owner alone.

use crate::command_error::CommandError;
use crate::show::visible;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use wire::method::transcript::{TranscriptLineView, TranscriptReadParams};
use wire::table::TranscriptRead;
use wire::{ErrorCode, KernelClient};

/// Writes every line of the wanted transcripts, page by page, and says how many. A file that is there already is left alone.
pub async fn export(kernel: &mut KernelClient, mut wanted: TranscriptReadParams, path: &Path) -> Result<u64, CommandError> {
    let failed = |error: io::Error| {
        let fix = match error.kind() {
            io::ErrorKind::AlreadyExists => "name a file that is not there yet",
            _ => "name a file in a folder that you may write to",
        };
        CommandError::new(ErrorCode::BadInput, format!("cannot write `{}`", path.display())).why(error).fix(fix)
    };
    // What cannot be told is told before a file is made.
    let mut page = kernel.call::<TranscriptRead>(&wanted).await?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let mut file = BufWriter::new(file);
    let mut count = 0;
    let zone = TimeZone::system();
    loop {
        for line in &page.lines {
            writeln!(file, "{}", text(line, &zone)).map_err(failed)?;
            count += 1;
        }
        let Some(next) = page.next_seq else { break };
        wanted.after_seq = Some(next);
        page = kernel.call::<TranscriptRead>(&wanted).await?;
    }
    file.flush().map_err(failed)?;
    Ok(count)
}

/// `[2026-11-17 09:15:23] task-3 brain: I look at it`
fn text(line: &TranscriptLineView, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(line.at_ms).map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    let at = at.unwrap_or_else(|_| line.at_ms.to_string());
    format!("[{at}] {} {}: {}", line.task, line.speaker, visible(&line.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Pid, TaskId};

    #[test]
    fn a_line_says_when_who_and_what_and_obeys_nobody() {
        let line = TranscriptLineView {
            seq: 7,
            at_ms: 1_000,
            task: TaskId(3),
            pid: Pid(3),
            worker: "worker.1".into(),
            speaker: "brain".into(),
            text: "I look\x1b[2J at it".into(),
        };
        assert_eq!(text(&line, &TimeZone::UTC), "[1970-01-01 00:00:01] task-3 brain: I look\\x1b[2J at it");
    }
}
