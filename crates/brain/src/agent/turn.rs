//! What a program is told at the beginning of a turn: its task, what a person said since, what changed meanwhile, and how far it had come.

use super::kept::{KeptTurn, UnreadableCheckpoint};
use crate::FurtherTurns;

/// What the kernel knows of the time between two turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnNotes {
    /// Paths that somebody else changed since its last turn was over.
    pub changed: Vec<String>,
    /// There are more of them than are named.
    pub and_more: bool,
    /// For a turn that was interrupted: the tools that it used, in their order.
    pub calls: Vec<String>,
    /// The last that it said.
    pub last_output: String,
    /// The files are not as they were when it was interrupted.
    pub is_altered: bool,
    /// What the worker's last task kept of its conversation cannot be read, so that a new one begins.
    pub lost: Option<UnreadableCheckpoint>,
    /// Where the work stands, and what may be written now.
    pub workflow: Option<String>,
}

/// What a task begins with.
pub(super) struct StartOf {
    pub prompt: String,
    pub resumed: bool,
    pub memory: Vec<Vec<u8>>,
    pub further: FurtherTurns,
}

impl StartOf {
    /// What the program is told: the task, what a person said since, or that it was interrupted.
    pub fn prompt_after(&self, before: Option<&KeptTurn>, notes: &TurnNotes) -> String {
        let known = before.filter(|kept| kept.series.is_some());
        let unheard = match known {
            Some(kept) => self.further.prompts.get(kept.heard..).unwrap_or_default(),
            None => &self.further.prompts[..],
        };
        let mut parts: Vec<String> = changed(notes).into_iter().collect();
        match known {
            Some(kept) if !kept.open => {}
            Some(kept) => parts.push(resume(kept.series.as_deref(), &self.prompt, notes)),
            None if self.resumed => parts.push(resume(None, &self.prompt, notes)),
            None => parts.push(self.prompt.clone()),
        }
        parts.extend(unheard.iter().cloned());
        parts.extend(notes.workflow.as_ref().map(|workflow| format!("[WORKFLOW] {workflow}")));
        if parts.is_empty() { GO_ON.to_owned() } else { parts.join("\n\n") }
    }
}

/// Before each turn that may change nothing. What it means, the brief says.
pub const ASK: &str = "[ASK]";
const RESUME: &str = "[RESUME] Previous session was interrupted.";
const ALERT: &str =
    "\u{26a0}\u{fe0f} ALERT: Workspace state has changed since the interruption.\nPlease verify the current state before you continue.";
const GO_ON: &str = "Look at the present state of the files, then continue from where you left off. A call that waited for a person's answer \
                     has it now: make it again.";
/// Characters of its last output that it is shown.
const OUTPUT_CHARS: usize = 500;
/// Tools that are named; the number says how many there were.
const CALLS_NAMED: usize = 200;

/// Paths as data: names are others' text, and a quoted one gives no orders.
fn changed(notes: &TurnNotes) -> Option<String> {
    if notes.changed.is_empty() {
        return None;
    }
    let more = if notes.and_more { ", and others" } else { "" };
    let paths = serde_json::to_string(&notes.changed).unwrap_or_default();
    Some(format!(
        "[CHANGED] Since your last turn somebody else changed these paths of the project{more}; what you changed yourself is as you left it: {paths}"
    ))
}

fn resume(series: Option<&str>, prompt: &str, notes: &TurnNotes) -> String {
    let mut parts = vec![RESUME.to_owned()];
    let session = series.map(|series| format!("Session ID: {series}\n")).unwrap_or_default();
    parts.push(format!("{session}Original task: {prompt}"));
    let named: Vec<String> = notes.calls.iter().take(CALLS_NAMED).map(|call| format!("- {call}")).collect();
    parts.push(format!("Tool calls completed ({}):\n{}", notes.calls.len(), named.join("\n")).trim_end().to_owned());
    if !notes.last_output.is_empty() {
        let shown: String = notes.last_output.chars().take(OUTPUT_CHARS).collect();
        let cut = if shown.len() < notes.last_output.len() { "..." } else { "" };
        parts.push(format!("Your last output:\n{shown}{cut}"));
    }
    if notes.is_altered {
        parts.push(ALERT.to_owned());
    }
    parts.push(GO_ON.to_owned());
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(resumed: bool) -> StartOf {
        StartOf { prompt: "mend it".into(), resumed, memory: Vec::new(), further: FurtherTurns::default() }
    }

    #[test]
    fn an_interrupted_turn_is_told_what_it_had_done() {
        let kept = KeptTurn { series: Some("s-1".into()), open: true, ..KeptTurn::default() };
        let notes = TurnNotes { calls: vec!["fs.read".into(), "fs.write".into()], last_output: "x".repeat(501), ..TurnNotes::default() };
        let told = start(true).prompt_after(Some(&kept), &notes);
        assert!(
            told.starts_with(
                "[RESUME] Previous session was interrupted.\n\nSession ID: s-1\nOriginal task: mend it\n\nTool calls completed (2):\n- fs.read\n- fs.write\n\n"
            ),
            "{told}"
        );
        assert!(told.contains(&format!("Your last output:\n{}...", "x".repeat(500))) && !told.contains("ALERT"), "{told}");
        let altered = TurnNotes { is_altered: true, ..notes };
        assert!(start(true).prompt_after(Some(&kept), &altered).contains("ALERT: Workspace state has changed since the interruption."));
    }

    #[test]
    fn a_new_turn_is_told_what_others_changed() {
        let notes = TurnNotes { changed: vec!["a\nb".into()], ..TurnNotes::default() };
        let told = start(false).prompt_after(None, &notes);
        assert!(told.starts_with("[CHANGED] ") && told.ends_with("as you left it: [\"a\\nb\"]\n\nmend it"), "{told}");
        assert_eq!(start(false).prompt_after(None, &TurnNotes::default()), "mend it");
    }
}
