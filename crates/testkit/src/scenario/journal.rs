//! A journal told in short lines: what a person would want to read of it, without times and hashes.

use crate::bed::Bed;
use kernel::{Fault, FaultKind, Kernel};
use serde_json::Value;
use world::event::{MergeTested, ReviewAsked};
use world::{Event, MergePath, Scope};

/// Every record after `from`, but those that come when they come: a project is looked through while its task works.
pub(super) fn told(kernel: &Kernel, bed: &Bed, from: u64) -> Result<String, Fault> {
    let records = kernel.ledger.read(&journal::Filter { after_seq: Some(from), ..journal::Filter::default() })?;
    let mut text = String::new();
    let mut number = 0;
    for record in records {
        let event: Event =
            serde_json::from_str(&record.line).map_err(|error| Fault::new(FaultKind::Bug, "a record cannot be read", error))?;
        if matches!(event, Event::WorkspaceBased(_) | Event::BrainServed(_) | Event::BrainTranscribed(_)) {
            continue;
        }
        number += 1;
        let detail = visible(&without_trees(&detail(&event)).replace(&*bed.folder().to_string_lossy(), "BED"));
        let line = format!("{number:<2} {:<17} p{} {detail}", event.kind(), event.pid());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// Files have other names in each run: the commit that they began with holds its time.
fn without_trees(text: &str) -> String {
    let mut shown = String::new();
    for (number, part) in text.split('@').enumerate() {
        let hex = part.bytes().take_while(u8::is_ascii_hexdigit).count();
        shown.push_str(if number > 0 { "@" } else { "" });
        shown.push_str(if number > 0 && hex == 12 { &part[12..] } else { part });
    }
    shown
}

/// A record is one line, and reads in one direction.
fn visible(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars() {
        if letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

fn continued(e: &world::event::TaskContinued) -> String {
    let what = if e.propose { "to propose its work" } else { e.prompt.as_deref().unwrap_or("once more") };
    let calls = e.calls.map_or_else(String::new, |calls| format!(" with {calls} calls"));
    format!("by {}: {what}{calls}", e.by)
}

fn admitted(e: &world::event::CallAdmitted) -> String {
    let grant = e.grant.map_or_else(String::new, |grant| format!("   with {grant}"));
    let own = if e.hands == world::Hands::Caller { "   own hands" } else { "" };
    let token = e.token.map_or_else(String::new, |token| format!("   with {token}"));
    let part = e.of.map_or_else(String::new, |of| format!("   part of {of}"));
    let what = e.input["brain"].as_str().map_or_else(|| target(&e.input), str::to_owned);
    let step = e.step.as_ref().map_or_else(String::new, |step| format!("   step {}", step.step));
    format!("{} {what}   by {}{grant}{token}{own}{part}{step}", e.tool, e.rules.join(", "))
}

/// What roles, skills and hooks have to say.
fn crew_detail(event: &Event) -> String {
    match event {
        Event::TaskNarrowed(e) => {
            e.lists.iter().map(|list| format!("{}: {}", list.of, list.tools.join(" "))).collect::<Vec<_>>().join("; ")
        }
        Event::SkillUsed(e) => format!("{} of {}", e.skill, e.role.as_deref().unwrap_or("the worker")),
        Event::HookStarted(e) => e.artifact.clone(),
        Event::ArtifactKept(e) => format!("{}: {}", e.artifact, e.text),
        Event::HookFailed(e) => format!("{}: {}", e.artifact, e.reason),
        Event::BrainServed(e) => format!("{}: {}", if e.reused { "goes on" } else { "booted" }, e.why),
        other => other.kind().to_owned(),
    }
}

/// The way of changes into the project.
fn merge_detail(event: &Event) -> String {
    match event {
        Event::MergeProposed(e) => format!("{} {}", e.merge, paths(&e.paths)),
        Event::MergeStarted(e) if e.grants.len() > 1 => {
            format!("{} by {} with {}", e.merge, e.by, e.grants.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Event::MergeStarted(e) => format!("{} by {}", e.merge, e.by),
        Event::MergeFinished(e) => format!("{} {}", e.merge, paths(&e.paths)),
        Event::MergeResolved(e) => {
            let sides = e.sides.iter().map(|(path, side)| format!("{side:?} {path}").to_lowercase());
            let only = e.only.iter().map(|path| format!("only {path}"));
            let commit = e.commit.iter().map(|wish| match &wish.branch {
                Some(branch) => format!("commit on {branch}"),
                None => "commit".to_owned(),
            });
            format!("{} {} by {}", e.merge, sides.chain(only).chain(commit).collect::<Vec<_>>().join(", "), e.by)
        }
        Event::MergeTested(e) => tested(e),
        // A commit's number holds its time.
        Event::MergeCommitting(e) => format!("{} on {}", e.merge, e.reference),
        Event::MergeCommitted(e) => format!("{} on {}: {}", e.merge, e.reference, e.paths.join(", ")),
        Event::MergeUncommitted(e) => format!("{}: {}", e.merge, e.reason),
        Event::MergeUndoBegun(e) if !e.overrode.is_empty() => format!("{} by {} over {}", e.merge, e.by, e.overrode.join("; ")),
        Event::MergeUndoBegun(e) => format!("{} by {}", e.merge, e.by),
        Event::MergeUndone(e) => format!("{} {}", e.merge, paths(&e.paths)),
        Event::MergeRejected(e) => format!("{} by {}: {}", e.merge, e.by, e.reason),
        Event::CommitsImported(e) => format!("{} commits as {}", e.count, e.reference),
        Event::CommitsRefused(e) => e.reason.clone(),
        _ => String::new(),
    }
}

/// What is reserved, given and lost of budgets.
fn money_detail(event: &Event) -> String {
    match event {
        Event::BudgetGranted(e) => format!("{} tokens, {} micros", e.tokens.values().sum::<u64>(), e.micros),
        Event::BudgetWarned(e) => format!("{} of {} {}", e.used, e.cap, e.what),
        Event::BudgetAsked(e) => format!("{} {} of {}", e.need, e.what, e.of),
        Event::ModelReserved(e) => format!("{}/{} {}", e.provider, e.model, e.tier),
        Event::BudgetLeased(e) => format!("{} tokens, {} micros of {}", e.tokens, e.micros, e.tier),
        Event::BudgetReturned(e) => format!("{} tokens, {} micros", e.tokens, e.micros),
        Event::BudgetReconciled(e) => format!("{} tokens, {} micros", e.tokens.values().sum::<u64>(), e.micros.unwrap_or(0)),
        Event::BudgetLost(e) => format!("{} tokens, {} micros", e.tokens, e.micros),
        other => other.kind().to_owned(),
    }
}

fn detail(event: &Event) -> String {
    match event {
        Event::TaskQueued(e) => e.mode.as_str().to_owned(),
        Event::TaskStarted(e) => format!("episode {}", e.episode),
        Event::TaskParked(e) => e.review.to_string(),
        Event::TaskFinished(e) => e.summary.clone(),
        Event::TaskFailed(e) => e.reason.clone(),
        Event::TaskCancelled(e) => format!("by {}", e.by),
        Event::TaskStopped(e) => format!("{}: {}", e.cause.as_str(), e.reason),
        Event::TaskContinued(e) => continued(e),
        Event::WorkKept(e) => format!("{} files, {} bytes, {} left", e.files, e.bytes, e.left),
        Event::WorkDropped(e) => format!("by {}: {}", e.by, e.reason),
        Event::CallAdmitted(e) => admitted(e),
        Event::CallRefused(e) => {
            let part = e.of.map_or_else(String::new, |of| format!("   part of {of}"));
            format!("{} {}   {}: {}{part}", e.tool, target(&e.input), e.code.as_str(), e.reason)
        }
        Event::CallFinished(e) => format!("{}{}", if e.ok { "ok" } else { "failed" }, answer(&e.output)),
        Event::BudgetSet(_) => "budget".to_owned(),
        Event::BudgetGranted(_) | Event::BudgetWarned(_) | Event::BudgetAsked(_) | Event::ModelReserved(_) => money_detail(event),
        Event::BudgetLeased(_) | Event::BudgetReturned(_) | Event::BudgetReconciled(_) | Event::BudgetLost(_) => money_detail(event),
        Event::ModelUsed(e) => {
            let held = if e.held_tokens > 0 { format!(" and {} held", e.held_tokens) } else { String::new() };
            format!("{}/{} {}{held}", e.provider, e.model, e.charged_tokens)
        }
        Event::ModelHeld(e) => format!("{}/{} {} tokens, {} micros", e.provider, e.model, e.tokens, e.micros),
        Event::ModelReleased(e) => format!("{} tokens, {} micros: {}", e.tokens, e.micros, e.why),
        Event::CallLost(e) => e.tool.clone(),
        Event::ReviewAsked(e) => asked(e),
        Event::ReviewAnswered(e) => {
            let why = e.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            format!("{} {:?} by {}{why}", e.review, e.answer, e.by).to_lowercase()
        }
        Event::GrantGiven(e) => format!("{} {} {}", e.grant, e.what.tool(), reach(&e.scope, e.terms.uses_left)),
        Event::GrantRevoked(e) => format!("{} by {}", e.grant, e.by),
        Event::BanGiven(e) => format!("{} {} {}: {}", e.ban, e.what.tool(), reach(&e.scope, None), e.reason),
        Event::BanLifted(e) => format!("{} by {}", e.ban, e.by),
        Event::TokenIssued(e) => format!("{} {} uses", e.token, e.ops),
        Event::TokenRevoked(e) => format!("{} by {}", e.token, e.by),
        Event::CallRetried(e) => format!("{} try {}: {}", e.call, e.attempt + 1, e.why),
        Event::CallObserved(e) => format!("{} by {}", e.call, e.grant),
        Event::NetClosed(e) => format!("{} {}:{}   {}", e.method.as_deref().unwrap_or("tunnel"), e.host, e.port, e.end),
        Event::TaskTagged(e) => e.tags.join(", "),
        Event::TaskScheduled(_) | Event::TaskPrioritized(_) | Event::TaskPaused(_) | Event::QueuePaused(_) | Event::QueueResumed(_) => {
            queue_detail(event)
        }
        Event::WorkerEnrolled(_) | Event::WorkerPinned(_) => worker_detail(event),
        Event::SiteRegistered(e) => e.site.clone(),
        Event::ZoneClosed(e) => format!("by {}", e.by),
        Event::TaskNarrowed(_)
        | Event::SkillUsed(_)
        | Event::HookStarted(_)
        | Event::ArtifactKept(_)
        | Event::HookFailed(_)
        | Event::BrainServed(_) => crew_detail(event),
        Event::MergeProposed(_)
        | Event::MergeStarted(_)
        | Event::MergeFinished(_)
        | Event::MergeResolved(_)
        | Event::MergeTested(_)
        | Event::MergeCommitting(_)
        | Event::MergeCommitted(_)
        | Event::MergeUncommitted(_)
        | Event::MergeUndoBegun(_)
        | Event::MergeUndone(_)
        | Event::MergeRejected(_)
        | Event::CommitsImported(_)
        | Event::CommitsRefused(_) => merge_detail(event),
        Event::TaskTried(e) => e.command.join(" "),
        Event::BrainSaid(e) => e.text.clone(),
        Event::BrainRemembered(e) => if e.anew { "anew" } else { "more" }.to_owned(),
        Event::BrainTranscribed(_) => String::new(),
        Event::BrainTalked(e) => e.end.clone(),
        Event::CassetteStarted(e) => e.file.clone(),
        Event::ReplayStarted(e) => format!("of {}", e.of),
        Event::ReplayFinished(e) => format!("of {} {}", e.of, e.difference.as_deref().unwrap_or("equal")),
        Event::RecordsDropped(e) => format!("{} × {}", e.count, e.kind),
        Event::ProcPaused(e) => e.reason.clone(),
        Event::ProcResumed(e) => format!("by {}", e.by),
        Event::KernelStopped(e) => e.reason.clone(),
        Event::ProcSpawned(e) => e.name.clone(),
        Event::ProcExited(e) => e.reason.clone(),
        Event::JournalDoubted(e) => e.what.clone(),
        Event::JournalAcknowledged(e) => format!("up to {} by {}", e.upto, e.by),
        Event::BlobForgotten(e) => format!("{} by {}: {}", e.blobs.len(), e.by, e.reason),
        Event::ConfigLoaded(e) => e.sections.join(", "),
        Event::ConfigRejected(e) => e.why.clone(),
        Event::KernelStarted(_)
        | Event::JournalResealed(_)
        | Event::ZoneOpened(_)
        | Event::PolicyUpdated(_)
        | Event::HomePolicyUpdated(_)
        | Event::WorkspaceOpened(_)
        | Event::WorkspacePaused(_)
        | Event::WorkspaceResumed(_)
        | Event::WorkspaceBased(_)
        | Event::WorkspaceClosed(_) => String::new(),
        other => of_parts(other),
    }
}

/// What sessions, test-first and the process tree have to say.
fn of_parts(event: &Event) -> String {
    let told = super::discipline_line::detail(event).or_else(|| super::session::detail(event));
    told.unwrap_or_else(|| super::tree_line::detail(event))
}

fn asked(e: &ReviewAsked) -> String {
    // One reason is its rule's; several must all be told.
    let reasons = if e.reasons.len() > 1 || e.rules.is_empty() { format!("   {}", e.reasons.join("; ")) } else { String::new() };
    format!("{} {} {}   by {}{reasons}", e.review, e.tool, target(&e.input), e.rules.join(", "))
}

fn worker_detail(event: &Event) -> String {
    match event {
        Event::WorkerEnrolled(e) => e.brain.clone(),
        Event::WorkerPinned(e) => e.pins.join(", "),
        _ => String::new(),
    }
}

fn queue_detail(event: &Event) -> String {
    match event {
        Event::TaskScheduled(e) => format!("after {:?}, at most {:?} ms", e.after, e.timeout_ms),
        Event::TaskPrioritized(e) => format!("{} by {}", e.priority, e.by),
        Event::TaskPaused(e) => format!("for {} by {}", e.until, e.by),
        Event::QueuePaused(e) => format!("by {}", e.by),
        Event::QueueResumed(e) => format!("by {}", e.by),
        _ => String::new(),
    }
}

fn tested(e: &MergeTested) -> String {
    let number = |count: Option<u64>| count.map_or_else(|| "?".into(), |count| count.to_string());
    let (passed, failed) = (number(e.passed), number(e.failed));
    format!("{} {} exit {:?} passed {passed} failed {failed} ok {}", e.merge, e.command.join(" "), e.exit, e.ok)
}

/// Whom it holds for and how often.
fn reach(scope: &Scope, uses: Option<u32>) -> String {
    let whom = match scope {
        Scope::Process { pid } => format!("for p{pid}"),
        Scope::Session { session } => format!("for {session}"),
        Scope::Zone { zone } => format!("for {zone}"),
        Scope::User { .. } => "for the user".into(),
        Scope::All => "for all".into(),
    };
    uses.map_or_else(|| whom.clone(), |uses| format!("{whom}, {uses} use"))
}

/// What a call is about: its path or command, else nothing.
fn target(input: &Value) -> String {
    let words = |value: &Value| value.as_array().map(|items| items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "));
    if let (Some(host), Some(port)) = (input["host"].as_str(), input["port"].as_u64()) {
        return format!("{}{host}:{port}", input["method"].as_str().map(|method| format!("{method} ")).unwrap_or_default());
    }
    if let (Some(from), Some(to)) = (input["from"].as_str(), input["to"].as_str()) {
        return format!("{from} to {to}");
    }
    let path = ["path", "pattern", "url"].iter().find_map(|key| input[*key].as_str()).map(str::to_owned);
    path.or_else(|| words(&input["command"])).or_else(|| words(&input["changes"])).unwrap_or_default()
}

/// The part of an outcome that says most.
fn answer(output: &Value) -> String {
    let first_line = |text: &str| text.lines().next().unwrap_or("").to_owned();
    let said =
        ["reason", "content", "stdout", "error", "claimed"].iter().find_map(|key| output[*key].as_str().filter(|text| !text.is_empty()));
    if let Some(found) = output["matches"].as_array().or(output["paths"].as_array()) {
        let paths: Vec<&str> = found.iter().filter_map(|found| found.as_str().or(found["path"].as_str())).collect();
        return format!(": {}", paths.join(" "));
    }
    if let Some(exists) = output["exists"].as_bool() {
        return if exists { ": it is there".into() } else { ": it is not there".into() };
    }
    match (output["exit_code"].as_i64(), said) {
        (Some(code), Some(said)) => format!(" exit {code}: {}", first_line(said)),
        (Some(code), None) => format!(" exit {code}"),
        (None, Some(said)) => format!(": {}", first_line(said)),
        (None, None) => String::new(),
    }
}

fn paths(paths: &[MergePath]) -> String {
    let each = paths.iter().map(|path| match &path.refused {
        Some(why) => format!("({} {}: {why})", path.kind, path.path),
        None => match &path.from {
            Some(from) => format!("{} {from} to {}", path.kind, path.path),
            None => format!("{} {}", path.kind, path.path),
        },
    });
    each.collect::<Vec<_>>().join(", ")
}
