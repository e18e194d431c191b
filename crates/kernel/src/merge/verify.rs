//! `skep verify`: a commit and its trailers, held against the journal.
//!
//! Believes nothing that the commit says: the record that it names must be there with that hash, the chain up to it must hold, and the
//! commit must change what the merge recorded. What cannot be checked is said.

mod runs;

use crate::{Kernel, blob_names};
use journal::{Filter, Finding, Flaw, Record, Report};
use ledger::event_of;
use std::collections::BTreeMap;
use std::path::Path;
use workspace::{CommitTrailers, MergePlan, MergeStep, State, git_name, hash, object_name};
use world::event::MergeStarted;
use world::{CheckOutcome, CommitChange, CommitCheck, CommitFacts, CommitReport, CommitVerdict, Event, Fault, FaultKind};

/// The journal as a check needs it.
struct Evidence<'a> {
    read: &'a dyn Fn(&Filter) -> Result<Vec<Record>, Fault>,
    /// A content; `None` where it is not kept any more, or cannot be read here.
    blob: &'a workspace::diff::Kept<'a>,
    verified: &'a Report,
    /// Why contents are not looked at, where they are not.
    blind: Option<&'static str>,
}

impl Kernel {
    /// Holds a commit against the journal, which is verified as a whole first.
    pub fn verify_commit(&self, facts: &CommitFacts) -> Result<CommitReport, Fault> {
        let verified = self.tasks.counted.verify_journal(&self.ledger).map_err(unreadable)?;
        let (read, blob) = (|filter: &Filter| self.ledger.read(filter), |name: &str| self.ledger.blob_if_kept(name));
        Evidence { read: &read, blob: &blob, verified: &verified, blind: None }.check(facts)
    }
}

/// The same by the files of a home, without a kernel.
pub fn verify_commit_offline(home: &Path, facts: &CommitFacts) -> Result<CommitReport, Fault> {
    let verified = journal::verify_with(home, blob_names).map_err(unreadable)?;
    let read = |filter: &Filter| journal::read_offline(home, filter).map_err(unreadable);
    let blind = Some("without a kernel the recorded contents are not decrypted");
    Evidence { read: &read, blob: &|_| Ok(None), verified: &verified, blind }.check(facts)
}

fn unreadable(error: journal::JournalError) -> Fault {
    Fault::new(FaultKind::Io, "the journal cannot be read", error)
}

/// The checks that were made so far.
struct Checks(CommitReport);

impl Checks {
    fn note(&mut self, name: &str, outcome: CheckOutcome, why: impl Into<String>) {
        self.0.checks.push(CommitCheck { name: name.to_owned(), outcome, why: why.into() });
    }

    fn settle(&mut self, name: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(why) => self.note(name, CheckOutcome::Holds, why),
            Err(why) => self.note(name, CheckOutcome::Fails, why),
        }
    }

    /// The report as far as it came.
    fn end(mut self) -> CommitReport {
        let outcome = |name: &str| self.0.checks.iter().find(|check| check.name == name).map(|check| check.outcome);
        let fails = self.0.checks.iter().any(|check| check.outcome == CheckOutcome::Fails && check.name != "commit");
        self.0.verdict = match outcome("commit") {
            _ if fails => CommitVerdict::Failed,
            Some(CheckOutcome::Holds) => CommitVerdict::Verified,
            // Another commit of the same contents; contents that nobody looked at are no proof.
            Some(CheckOutcome::Fails) if outcome("contents") == Some(CheckOutcome::Holds) => CommitVerdict::Rewritten,
            _ => CommitVerdict::Failed,
        };
        self.0
    }
}

impl Evidence<'_> {
    fn check(&self, facts: &CommitFacts) -> Result<CommitReport, Fault> {
        let (commit, verdict) = (facts.commit.clone(), CommitVerdict::Failed);
        let mut checks = Checks(CommitReport { commit, verdict, task: None, made: None, checks: Vec::new() });
        if object_name("commit", facts.object.as_bytes(), facts.commit.len()) != facts.commit {
            checks.note("object", CheckOutcome::Fails, "the commit's text is not the one that its id names");
            return Ok(checks.end());
        }
        let (head, message) = facts.object.split_once("\n\n").unwrap_or((&facts.object, ""));
        let trailers = match CommitTrailers::parse(message) {
            Ok(trailers) => trailers,
            Err(why) => {
                checks.note("trailers", CheckOutcome::Fails, why);
                return Ok(checks.end());
            }
        };
        checks.note(
            "trailers",
            CheckOutcome::Holds,
            format!("{}, record {}, tests {}", trailers.session, trailers.journal.seq, runs::in_words(&trailers.tests)),
        );
        let started = match self.anchor(&trailers)? {
            Ok(started) => started,
            Err(why) => {
                checks.note("record", CheckOutcome::Fails, why);
                return Ok(checks.end());
            }
        };
        checks.note("record", CheckOutcome::Holds, format!("record {} began this merge and has this hash", trailers.journal.seq));
        checks.settle("chain", self.chain(trailers.journal.seq));
        let task = started.task.map(|task| task.to_string()).unwrap_or_default();
        checks.0.task = started.task;
        checks.settle(
            "session",
            match task == trailers.session {
                true => Ok(format!("{task} was merged by it")),
                false => Err(format!("the record is of {task}, and the commit says {}", trailers.session)),
            },
        );
        let made = self.made(&task, &started)?;
        checks.0.made = made.as_ref().map(|made| made.commit.clone());
        checks.settle(
            "commit",
            match &made {
                Some(made) if made.commit == facts.commit => Ok("it is the one that the kernel made".into()),
                Some(made) => Err(format!("the kernel made {}: this one was rebased, amended or picked", short(&made.commit))),
                None => Err("the journal has no commit of this merge".into()),
            },
        );
        let parents = head.lines().filter(|line| line.starts_with("parent ")).count();
        self.contents(facts, &started, made.as_ref(), parents, &mut checks)?;
        self.tests(&trailers, &task, &started, &mut checks)?;
        let unknown = "who wrote it, what the commits before it are, and what holders of this home's keys may have done";
        checks.note("rest", CheckOutcome::Unchecked, unknown);
        Ok(checks.end())
    }

    fn record(&self, seq: u64) -> Result<Option<Record>, Fault> {
        let before_seq = seq.checked_add(1);
        Ok((self.read)(&Filter { after_seq: seq.checked_sub(1), before_seq, limit: Some(1), ..Filter::default() })?.pop())
    }

    /// The record that the trailers name.
    fn anchor(&self, trailers: &CommitTrailers) -> Result<Result<MergeStarted, String>, Fault> {
        let seq = trailers.journal.seq;
        let Some(record) = self.record(seq)? else {
            let count = self.verified.records;
            return Ok(Err(format!("this journal has {count} records, and no record {seq}: it is another home's, or was cut")));
        };
        if hash::sha256(record.line.as_bytes()) != trailers.journal.hash {
            return Ok(Err(format!("record {seq} of this journal has another hash: the trailer is of another home, or was forged")));
        }
        Ok(match event_of(&record)? {
            Event::MergeStarted(started) => Ok(started),
            other => Err(format!("record {seq} is {}, and not the start of a merge", other.kind())),
        })
    }

    /// Whether the chain holds up to a record. What is wrong after it, or with other contents, is not about this commit.
    fn chain(&self, seq: u64) -> Result<String, String> {
        let is_about = |finding: &&Finding| {
            let elsewhere = [Flaw::BlobMissing, Flaw::BlobChanged, Flaw::BadSnapshot, Flaw::Evidence];
            !elsewhere.contains(&finding.what) && finding.seq.is_none_or(|at| at <= seq)
        };
        match self.verified.findings.iter().find(is_about) {
            Some(finding) => Err(format!("{}: {}", finding.what, finding.why)),
            None => Ok(format!("{} records, whole up to this one and sealed", self.verified.records)),
        }
    }

    fn events_of(&self, task: &str, kinds: &[&str]) -> Result<Vec<(u64, Event)>, Fault> {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        let records = (self.read)(&Filter { task: Some(task.to_owned()), kinds, ..Filter::default() })?;
        records.iter().map(|record| Ok((record.seq, event_of(record)?))).collect()
    }

    /// The commit that was made of a merge.
    fn made(&self, task: &str, started: &MergeStarted) -> Result<Option<world::event::MergeCommitted>, Fault> {
        let events = self.events_of(task, &["merge.committed"])?;
        Ok(events.into_iter().rev().find_map(|(_, event)| match event {
            Event::MergeCommitted(made) if made.merge == started.merge => Some(made),
            _ => None,
        }))
    }

    /// Whether the commit changes exactly the paths of the merge, and to what it recorded.
    fn contents(
        &self,
        facts: &CommitFacts,
        started: &MergeStarted,
        made: Option<&world::event::MergeCommitted>,
        parents: usize,
        checks: &mut Checks,
    ) -> Result<(), Fault> {
        let Some(made) = made else { return Ok(()) };
        if parents > 1 {
            checks.note("paths", CheckOutcome::Fails, "it joins several parents, and commits of merges have one");
            return Ok(());
        }
        let changes: BTreeMap<&str, &CommitChange> = facts.changes.iter().map(|change| (change.path.as_str(), change)).collect();
        let more = changes.keys().find(|path| !made.paths.iter().any(|own| own == *path));
        checks.settle(
            "paths",
            match more {
                Some(path) => Err(format!("it changes `{path}`, which the merge did not")),
                None => Ok(format!("{} changed, and all by the merge", plural(changes.len(), "path"))),
            },
        );
        let plan = match (&started.snapshot, self.blind) {
            (_, Some(blind)) => Err(blind),
            (None, None) => Err("the record names no contents"),
            (Some(snapshot), None) => (self.blob)(snapshot)?.ok_or("what the merge put in is not kept any more"),
        };
        let plan = match plan {
            Ok(bytes) => MergePlan::parse(&bytes)?,
            Err(why) => {
                checks.note("contents", CheckOutcome::Unchecked, why);
                return Ok(());
            }
        };
        let steps = plan.steps.iter().filter(|step| made.paths.contains(&step.path.path) && step.after != State::Folder);
        for step in steps {
            let is_as_recorded = self.is_as_recorded(step, changes.get(step.path.path.as_str()).copied())?;
            match is_as_recorded {
                Some(true) => {}
                Some(false) => {
                    checks.note("contents", CheckOutcome::Fails, format!("`{}` is not as the merge recorded it", step.path.path));
                    return Ok(());
                }
                None => {
                    let why = format!("what `{}` held is not kept any more", step.path.path);
                    checks.note("contents", CheckOutcome::Unchecked, why);
                    return Ok(());
                }
            }
        }
        checks.note("contents", CheckOutcome::Holds, "every path has what the merge recorded");
        Ok(())
    }

    /// Whether a path of the commit holds what a step put in; `None` where that is not kept.
    fn is_as_recorded(&self, step: &MergeStep, change: Option<&CommitChange>) -> Result<Option<bool>, Fault> {
        let Some(change) = change else { return Ok(Some(step.before == step.after)) };
        let is_removed = change.mode == "000000";
        let (bytes, modes) = match &step.after {
            State::Absent => return Ok(Some(is_removed)),
            State::Folder => return Ok(Some(true)),
            State::Link { target } => (target.clone().into_bytes(), vec!["120000"]),
            State::File { blob, mode, .. } => {
                let Some(bytes) = (self.blob)(blob)? else { return Ok(None) };
                let modes = match mode {
                    // The merge left it as it was.
                    None if change.mode_before.starts_with("100") => vec![change.mode_before.as_str()],
                    None => vec!["100644", "100755"],
                    Some(mode) if mode & 0o100 != 0 => vec!["100755"],
                    Some(_) => vec!["100644"],
                };
                (bytes, modes)
            }
        };
        let is_named = |bytes: &[u8]| git_name(bytes, change.name.len()) == change.name;
        Ok(Some(modes.contains(&change.mode.as_str()) && (is_named(&bytes) || is_named(&with_unix_ends(&bytes)))))
    }
}

/// As git takes a text in where it converts line ends.
fn with_unix_ends(bytes: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            made.push(*byte);
        }
    }
    made
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
