//! What workers wrote, as lines that a person reads: prompts, words of brains, calls with their output, and what vendors' clients wrote.
//!
//! Made from records and the blobs that they name; nothing is kept for it. `ledger` collects those blobs: 30 days after a task's end, and
//! all but the newest hundred of a repository and branch. **Invariant.** A line has no control character and no secret that is known now,
//! whatever was known when it was written.

use journal::Filter;
use ledger::{Ledger, event_of};
use serde_json::Value;
use world::{Event, Fault, Pid, Stop, TaskId, World, ZoneId};

/// Text of one page: as much as is shown of anything.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Records that are looked at for one page of a search, so that one that finds nothing answers in time.
const SEARCH_RECORDS_MAX: usize = 5_000;
/// Bytes of one line; what is longer is cut, and says so.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Records that have something to say here.
const KINDS: [&str; 13] = [
    "task.queued",
    "task.continued",
    "task.finished",
    "task.failed",
    "task.stopped",
    "task.cancelled",
    "brain.said",
    "brain.talked",
    "brain.transcribed",
    "call.admitted",
    "call.refused",
    "call.finished",
    "call.lost",
];

/// Which lines somebody wants. All that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct TranscriptQuery {
    pub task: Option<TaskId>,
    pub pid: Option<Pid>,
    /// Of every task of a zone.
    pub zone: Option<ZoneId>,
    /// Lines behind this record.
    pub after_seq: Option<u64>,
    /// Lines that have this text, in letters of either size.
    pub search: Option<String>,
}

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptLine {
    pub seq: u64,
    pub at_ms: i64,
    pub task: TaskId,
    pub pid: Pid,
    /// Who or what speaks: `prompt`, `brain`, `client`, `call`, `output`, `refused`, `talk` or `end`.
    pub speaker: &'static str,
    pub text: String,
}

/// Some lines, and where to go on.
#[derive(Debug, Default)]
pub struct TranscriptPage {
    pub lines: Vec<TranscriptLine>,
    /// `None` at the end.
    pub next_seq: Option<u64>,
}

/// What is kept of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptSize {
    pub task: TaskId,
    /// What its client wrote, and how many talks there were.
    pub lines: u64,
    pub bytes: u64,
    pub talks: u64,
    /// False where what the client wrote is kept no longer; the rest is in the journal.
    pub is_whole: bool,
}

/// All transcripts that a ledger holds.
pub struct Transcripts<'a> {
    ledger: &'a Ledger,
}

impl Transcripts<'_> {
    pub fn of(ledger: &Ledger) -> Transcripts<'_> {
        Transcripts { ledger }
    }

    /// Lines of transcripts, oldest first, a page at a time.
    pub fn read(&self, query: &TranscriptQuery) -> Result<TranscriptPage, Stop> {
        if let Some(task) = query.task {
            self.ledger.task(task)?;
        }
        let wanted = query.search.as_ref().map(|text| text.to_lowercase());
        let is_of_zone = |world: &World, task: TaskId| world.tasks.get(&task).is_some_and(|task| Some(task.zone) == query.zone);
        let (mut page, mut bytes, mut looked) = (TranscriptPage::default(), 0, 0);
        let mut filter = Filter {
            task: query.task.map(|task| task.to_string()),
            pid: query.pid.map(|pid| pid.0),
            kinds: KINDS.map(str::to_owned).to_vec(),
            after_seq: query.after_seq,
            limit: Some(200),
            ..Filter::default()
        };
        loop {
            let records = self.ledger.read(&filter)?;
            for record in &records {
                filter.after_seq = Some(record.seq);
                looked += 1;
                let event = event_of(record)?;
                let Some(task) = event.task() else { continue };
                if query.zone.is_some() && !self.ledger.look(|world| is_of_zone(world, task)) {
                    continue;
                }
                for (speaker, text) in self.said_by(&event)? {
                    let text = self.clean_line(&text);
                    if wanted.as_ref().is_some_and(|wanted| !text.to_lowercase().contains(wanted)) {
                        continue;
                    }
                    bytes += text.len();
                    page.lines.push(TranscriptLine { seq: record.seq, at_ms: record.at_ms, task, pid: event.pid(), speaker, text });
                }
                if bytes >= PAGE_BYTES_MAX || (wanted.is_some() && looked >= SEARCH_RECORDS_MAX) {
                    page.next_seq = Some(record.seq);
                    return Ok(page);
                }
            }
            if records.is_empty() {
                return Ok(page);
            }
        }
    }

    /// How much the clients of these tasks wrote.
    pub fn sizes(&self, tasks: &[TaskId]) -> Result<Vec<TranscriptSize>, Fault> {
        let size = |task: &TaskId| {
            let mut size = TranscriptSize { task: *task, lines: 0, bytes: 0, talks: 0, is_whole: true };
            for event in self.ledger.events(*task, &["brain.transcribed", "brain.talked"])? {
                let blob = match event {
                    Event::BrainTranscribed(part) => {
                        (size.lines, size.bytes) = (size.lines + part.lines, size.bytes + part.bytes);
                        Some(part.blob)
                    }
                    Event::BrainTalked(talk) => {
                        (size.talks, size.bytes) = (size.talks + 1, size.bytes + talk.bytes);
                        talk.blob
                    }
                    _ => None,
                };
                if let Some(blob) = blob {
                    size.is_whole &= self.ledger.has_blob(&blob)?;
                }
            }
            Ok(size)
        };
        tasks.iter().map(size).collect()
    }

    /// What a record says, and who.
    fn said_by(&self, event: &Event) -> Result<Vec<(&'static str, String)>, Fault> {
        let all = |speaker: &'static str, text: &str| text.lines().map(|line| (speaker, line.to_owned())).collect();
        Ok(match event {
            Event::TaskQueued(e) => all("prompt", &format!("{}: {}", e.mode.as_str(), e.prompt)),
            Event::TaskContinued(e) => all("prompt", e.prompt.as_deref().unwrap_or("goes on")),
            Event::TaskFinished(e) => all("end", &format!("done: {}", e.summary)),
            Event::TaskFailed(e) => all("end", &format!("failed: {}", e.reason)),
            Event::TaskStopped(e) => all("end", &format!("stopped: {}", e.reason)),
            Event::TaskCancelled(e) => all("end", &format!("cancelled by {}", e.by)),
            Event::BrainSaid(e) => all("brain", &e.text),
            Event::BrainTalked(e) => all("talk", &format!("a talk {}", e.end)),
            Event::BrainTranscribed(e) => match self.ledger.blob_if_kept(&e.blob)? {
                Some(bytes) => all("client", &String::from_utf8_lossy(&bytes)),
                None => vec![("client", format!("{} lines are kept no longer", e.lines))],
            },
            Event::CallAdmitted(e) => vec![("call", format!("{} {} {}", e.call, e.tool, e.input))],
            Event::CallRefused(e) => vec![("refused", format!("{} {}: {}", e.tool, e.input, e.reason))],
            Event::CallFinished(e) => {
                let mut lines = vec![("output", format!("{} {} in {} ms", e.call, if e.ok { "ok" } else { "failed" }, e.ms))];
                texts(&e.output, &mut |text| lines.extend(text.lines().map(|line| ("output", line.to_owned()))));
                lines
            }
            Event::CallLost(e) => vec![("output", format!("{} was lost: {}", e.call, e.why))],
            _ => Vec::new(),
        })
    }

    fn clean_line(&self, text: &str) -> String {
        clean(&self.ledger.redactor.text(text))
    }
}

/// A line as it may be shown: without codes for a terminal, and not longer than anybody reads.
fn clean(text: &str) -> String {
    let mut value = Value::String(text.to_owned());
    tool::visible(&mut value);
    let Value::String(mut line) = value else { return String::new() };
    if line.len() > LINE_BYTES_MAX {
        let end = (0..=LINE_BYTES_MAX).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line.truncate(end);
        line.push_str(" … (cut)");
    }
    line
}

/// Every text in a value, in its order.
fn texts(value: &Value, tell: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => tell(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, tell)),
        Value::Object(fields) => fields.values().for_each(|field| texts(field, tell)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_obeys_no_terminal_and_has_an_end() {
        assert_eq!(clean("plain é 漢"), "plain é 漢");
        let hostile = clean("a\u{1b}[2Jb\u{1b}]52;c;c2VjcmV0\u{7}c\u{202e}d");
        assert!(!hostile.chars().any(tool::is_unseen), "{hostile:?}");
        assert!(hostile.starts_with('a') && hostile.ends_with('d'), "{hostile:?}");
        let long = clean(&"é".repeat(LINE_BYTES_MAX));
        assert!(long.len() < LINE_BYTES_MAX + 20 && long.ends_with("é … (cut)"));
    }

    #[test]
    fn every_text_of_an_output_is_told_in_its_order() {
        let mut found = Vec::new();
        texts(&json!({"a": "one", "b": ["two", {"c": "three"}], "d": 4}), &mut |text| found.push(text.to_owned()));
        assert_eq!(found, ["one", "two", "three"]);
    }
}
