//! Brains, as people see them.

use super::measure::{count, dollars, duration_ms};
use super::{Line, Page, table};
use crate::command::brain::BrainTrial;
use crate::remedy;
use wire::{BrainReport, PreflightCode, UsageTotals};

/// The vendors' own clients.
pub const CLIENTS: [&str; 4] = ["claude", "codex", "opencode", "gemini"];

/// One line each, then what keeps those from working that are installed.
pub fn list(brains: &[BrainReport]) -> Page {
    let mut rows = vec![["", "brain", "mode", "auth", "version", "state"].map(|head| Line::new().faint(head)).to_vec()];
    for brain in brains {
        let stands_for = brain.alias_of.as_ref().map(|spec| format!(" → {spec}")).unwrap_or_default();
        let name = Line::new().name(&brain.name).faint(stands_for).faint(if brain.is_default { " (default)" } else { "" });
        let state = match (brain.is_ready(), &brain.problem) {
            (true, None) => Line::new().good(brain.state()),
            (true, Some(_)) => Line::new().wait(brain.state()),
            (false, _) => Line::new().plain(brain.state()),
        };
        let version = brain.version.as_deref().unwrap_or("–");
        rows.push(vec![
            mark(brain),
            name,
            Line::new().plain(brain.mode.as_str()),
            Line::new().plain(brain.auth.as_str()),
            Line::new().plain(version),
            state,
        ]);
    }
    let mut page = table(rows);
    let wrong = brains.iter().filter(|brain| brain.problem.is_some() && brain.program.is_some());
    for brain in wrong {
        page.blank();
        page.append(check(brain));
    }
    let is_missing = |brain: &BrainReport| brain.problem.as_ref().is_some_and(|problem| problem.code == PreflightCode::NotInstalled);
    if brains.iter().any(is_missing) {
        page.because("next", "skep brain check NAME says how to get one");
    }
    page
}

fn mark(brain: &BrainReport) -> Line {
    match (brain.is_ready(), &brain.program) {
        (true, _) => Line::new().good("✓"),
        (false, Some(_)) => Line::new().wait("!"),
        (false, None) => Line::new().faint("○"),
    }
}

/// One brain: where it is, and what to do about it.
pub fn check(brain: &BrainReport) -> Page {
    let mut page = Page::new();
    let version = brain.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let program = brain.program.as_ref().map(|program| format!("  {program}")).unwrap_or_default();
    let line = mark(brain).plain(" ").name(&brain.name).plain(version).faint(program);
    page.push(match brain.providers.first() {
        Some(_) => line.faint(format!("  {} by {}", brain.auth.as_str(), brain.providers.join(", "))),
        None => line,
    });
    if let Some(problem) = &brain.problem {
        page.push(Line::new().plain(format!("  {}: {}", problem.code.as_str(), problem.why)));
        if let Some(fix) = remedy::fix(problem.fix.as_deref(), problem.remedy.as_ref()) {
            page.because("fix", &fix);
        }
    }
    page
}

/// Two pages, one below the other.
pub fn below(mut above: Page, page: Page) -> Page {
    above.append(page);
    above
}

pub fn tried(trial: &BrainTrial) -> Line {
    let line = Line::new().good("✓ ").name(&trial.brain).plain(format!(" answered in {}", duration_ms(trial.ms)));
    trial.usage.as_ref().map_or_else(|| line.clone(), |usage| cost(line.clone(), usage))
}

/// What a trial used, behind what is told of it.
pub fn cost(line: Line, usage: &UsageTotals) -> Line {
    let tokens = count(usage.input + usage.output + usage.cache_read + usage.cache_write);
    let cost = if usage.unpriced > 0 { "at a price that is not known".to_owned() } else { format!("for {}", dollars(usage.micros)) };
    line.plain(format!(": {tokens} tokens {cost}")).faint(if usage.estimated > 0 { " (an estimate)" } else { "" })
}
