//! Reads the upper half of a scenario.

use super::Scenario;
use super::session::SessionStep;
use super::step::{Actor, Answered, ScenarioStep};
use kernel::TokenRequest;
use std::time::Duration;
use world::{AtCap, Pid, Scope, Side, Terms};

/// Whose indented lines come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    Policy,
    Extension,
    Config,
    Tool,
    Model,
    Client,
    Plan,
}

pub(super) fn scenario(text: &str) -> Result<Scenario, String> {
    let mut scenario = Scenario::default();
    let (mut block, mut numbered) = (Block::None, 0);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.starts_with("  ") && block != Block::None {
            indented(&mut scenario, block, line);
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let fail = |what: &str| format!("line {}: {what}: `{line}`", index + 1);
        let pair = || rest.split_once(' ').map(|(path, text)| (path.to_owned(), unescape(text))).ok_or_else(|| fail("wants PATH TEXT"));
        block = Block::None;
        match word {
            "policy" => {
                scenario.policy = true;
                block = Block::Policy;
            }
            "extension" => block = Block::Extension,
            "config" => block = Block::Config,
            "model" => block = Block::Model,
            "client" => block = Block::Client,
            "plan" => block = Block::Plan,
            "session" => scenario.session = Some(super::session::terms(rest).map_err(|what| fail(&what))?),
            "record" => scenario.record = true,
            "whole" => scenario.whole = true,
            "tool" => {
                scenario.tools.push(String::new());
                block = Block::Tool;
            }
            "file" => scenario.files.push(pair()?),
            "rule" => {
                numbered += 1;
                scenario.policy = true;
                scenario.rules.push(rule(rest, numbered).ok_or_else(|| fail("wants ACTION TOOL [GLOB…]"))?);
            }
            "safe" => scenario.safe = rest.split(' ').map(str::to_owned).collect(),
            "test" => scenario.test = Some(rest.split(' ').map(str::to_owned).collect()),
            "mode" => scenario.ask = rest == "ask",
            "tag" => scenario.tags = rest.split(' ').map(str::to_owned).collect(),
            "tools" => scenario.shape.tools = Some(rest.split(' ').map(str::to_owned).collect()),
            "discipline" => {
                scenario.shape.discipline = Some(world::Discipline::parse(rest).ok_or_else(|| fail("wants strict, explore or debug"))?)
            }
            "skill" => {
                let mut words = rest.split(' ').map(str::to_owned);
                scenario.shape.skill = words.next();
                scenario.shape.params = words.filter_map(|pair| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned()))).collect();
            }
            "limit" => scenario.limit = Some(rest.parse().map_err(|_| fail("wants a number"))?),
            "brain" => {
                let next = scenario.steps.iter_mut().rev().find_map(|step| match step {
                    ScenarioStep::Session(SessionStep::Next { script, .. }) => Some(script),
                    _ => None,
                });
                let script = next.unwrap_or(&mut scenario.brain);
                script.push_str(rest);
                script.push('\n');
            }
            "next" => {
                let mode = world::Discipline::parse(rest).ok_or_else(|| fail("wants strict, explore or debug"))?;
                let next = SessionStep::Next { number: scenario.steps.len(), mode, script: String::new() };
                scenario.steps.push(ScenarioStep::Session(next));
            }
            "coverage" => {
                let (report, command) = rest.split_once(' ').unwrap_or((rest, ""));
                let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                scenario.coverage = Some((report.to_owned(), command));
            }
            "commit" => scenario.steps.push(ScenarioStep::Commit),
            "mine" => scenario.steps.push(ScenarioStep::Merge(rest.to_owned(), Side::Mine)),
            "theirs" => scenario.steps.push(ScenarioStep::Merge(rest.to_owned(), Side::Theirs)),
            "say" => scenario.steps.push(ScenarioStep::Say(rest.to_owned())),
            "undo" => scenario.steps.push(ScenarioStep::Undo((!rest.is_empty()).then(|| rest.to_owned()))),
            "stored" => scenario.steps.push(ScenarioStep::Stored),
            "show" => scenario.steps.push(ScenarioStep::Show(rest.to_owned())),
            "edit" => scenario.steps.push(pair().map(|(path, text)| ScenarioStep::Edit(path, text))?),
            _ => scenario.steps.push(step(word, rest).map_err(|what| fail(&what))?),
        }
    }
    Ok(scenario)
}

fn indented(scenario: &mut Scenario, block: Block, line: &str) {
    let line = format!("{line}\n");
    match block {
        Block::None => {}
        Block::Policy => scenario.rules.push(line),
        Block::Extension => scenario.extension.push_str(&line),
        Block::Config => scenario.config.push_str(&line),
        Block::Model => scenario.model.push_str(line.strip_prefix("  ").unwrap_or(&line)),
        Block::Plan => scenario.plan.push_str(line.strip_prefix("  ").unwrap_or(&line)),
        Block::Client => scenario.client.push_str(line.strip_prefix("  ").unwrap_or(&line)),
        Block::Tool => scenario.tools.last_mut().into_iter().for_each(|tool| tool.push_str(&line)),
    }
}

/// `\\n` in a scenario's text is a line break, and every file ends with one.
fn unescape(text: &str) -> String {
    format!("{}\n", text.replace("\\n", "\n"))
}

fn step(word: &str, rest: &str) -> Result<ScenarioStep, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| "wants a number".to_owned());
    Ok(match (word, rest.split_once(' ').unwrap_or((rest, ""))) {
        ("restart", _) => ScenarioStep::Restart,
        ("trust", _) => ScenarioStep::Trust,
        ("cancel", _) => ScenarioStep::Cancel,
        ("pause", _) => ScenarioStep::Pause,
        ("retry", _) => ScenarioStep::Retry,
        ("again", _) => ScenarioStep::Session(SessionStep::Again),
        ("forget", (lesson, _)) => {
            ScenarioStep::Session(SessionStep::Forget(lesson.parse().map_err(|_| format!("`{lesson}` is no lesson"))?))
        }
        ("switch", (mode, _)) => {
            let mode = world::Discipline::parse(mode).ok_or("wants strict, explore or debug")?;
            ScenarioStep::Session(SessionStep::Switch(mode))
        }
        ("drop", _) => ScenarioStep::Drop,
        ("merge", ("only", paths)) => {
            let only = paths.split(' ').map(str::to_owned).collect();
            ScenarioStep::MergeKept(kernel::MergeWish { only, ..kernel::MergeWish::default() })
        }
        ("merge", ("commit", message)) => ScenarioStep::MergeKept(committing(None, message)),
        ("merge", ("branch", rest)) => {
            let (branch, message) = rest.split_once(' ').ok_or("wants branch NAME MESSAGE")?;
            ScenarioStep::MergeKept(committing(Some(branch), message))
        }
        ("merge", _) => ScenarioStep::MergeKept(kernel::MergeWish::default()),
        ("committed", (branch, _)) => ScenarioStep::Committed(branch.to_owned()),
        ("diff", _) => ScenarioStep::Diff,
        ("resume", _) => ScenarioStep::Resume,
        ("replay", _) => ScenarioStep::Replay,
        ("acknowledge", (upto, _)) => ScenarioStep::Acknowledge(number(upto)?),
        ("budget", ("set", tokens)) => ScenarioStep::Budget(number(tokens)?, AtCap::Refuse),
        ("budget", ("ask", tokens)) => ScenarioStep::Budget(number(tokens)?, AtCap::Ask),
        ("budget", ("grant", tokens)) => ScenarioStep::GrantBudget(number(tokens)?),
        ("verify", _) => ScenarioStep::Verify,
        ("ban", (whom, what)) => ban(whom, what).ok_or("wants brain, operator or all, and TOOL [GLOB…]")?,
        ("deny", (id, _)) => ScenarioStep::Deny(id.parse().map_err(|_| "wants r-1")?),
        ("revoke", (id, _)) => ScenarioStep::Revoke(id.to_owned()),
        ("wait", (time, _)) => ScenarioStep::Wait(time_of(time)?),
        ("tamper", ("record", nth)) => ScenarioStep::TamperRecord(number(nth)?),
        ("tamper", ("cut", last)) => ScenarioStep::TamperCut(number(last)?),
        ("token", (name, wish)) => ScenarioStep::Token(name.to_owned(), token(wish)?),
        ("human", _) => human(rest)?,
        ("operator", _) => call(Actor::Operator, rest),
        ("thief", _) => call(Actor::Thief, rest),
        ("stranger", _) => call(Actor::Stranger, rest),
        ("reborn", _) => call(Actor::Reborn, rest),
        _ => return Err("not a word of scenarios".to_owned()),
    })
}

fn committing(branch: Option<&str>, message: &str) -> kernel::MergeWish {
    let (branch, name, email) = (branch.map(str::to_owned), "a person".to_owned(), "a@b.c".to_owned());
    let commit = Some(world::CommitWish { branch, message: message.to_owned(), name, email, zone: "+0000".to_owned() });
    kernel::MergeWish { commit, ..kernel::MergeWish::default() }
}

fn ban(whom: &str, what: &str) -> Option<ScenarioStep> {
    let scope = match whom {
        "brain" => Scope::Process { pid: Pid(3) },
        "operator" => Scope::Process { pid: Pid::OPERATOR },
        "all" => Scope::All,
        _ => return None,
    };
    let mut words = what.split_whitespace().map(str::to_owned);
    Some(ScenarioStep::Ban { scope, tool: words.next()?, paths: words.collect() })
}

fn call(who: Actor, text: &str) -> ScenarioStep {
    match text.strip_prefix("with ").and_then(|text| text.split_once(' ')) {
        Some((token, call)) => ScenarioStep::Call { who, token: Some(token.to_owned()), call: call.trim().to_owned() },
        None => ScenarioStep::Call { who, token: None, call: text.to_owned() },
    }
}

fn token(text: &str) -> Result<TokenRequest, String> {
    let mut words = text.split_whitespace();
    let tool = words.next().ok_or("wants NAME TOOL")?.to_owned();
    let mut wish = TokenRequest { tool, paths: Vec::new(), max_ops: 9, ttl_ms: None };
    for word in words {
        match word.split_once('=') {
            Some(("ops", ops)) => wish.max_ops = ops.parse().map_err(|_| "wants ops=N")?,
            Some(("ttl", ttl)) => wish.ttl_ms = u64::try_from(time_of(ttl)?.as_millis()).ok(),
            _ => wish.paths.push(word.to_owned()),
        }
    }
    Ok(wish)
}

fn time_of(text: &str) -> Result<Duration, String> {
    policy::parse_duration(text).map_err(|error| error.to_string())
}

fn human(text: &str) -> Result<ScenarioStep, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let why = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
    let yes = |how, rest: &str| -> Result<ScenarioStep, String> {
        let terms = if rest.starts_with('{') { serde_json::from_str(rest).map_err(|error| error.to_string())? } else { Terms::default() };
        let why = if rest.starts_with('{') { None } else { why(rest) };
        Ok(ScenarioStep::Answer { how, terms: Box::new(terms), why })
    };
    match (word, rest.split_once(' ').unwrap_or((rest, ""))) {
        ("allow", ("session", rest)) => yes(Answered::Session, rest),
        ("allow", ("always", rest)) => yes(Answered::Always, rest),
        ("allow", _) => yes(Answered::Once, rest),
        ("deny", _) => Ok(ScenarioStep::Answer { how: Answered::No, terms: Box::default(), why: why(rest) }),
        ("ban", _) => Ok(ScenarioStep::Answer { how: Answered::Never, terms: Box::default(), why: why(rest) }),
        ("changes", _) => Ok(ScenarioStep::Changes { comment: why(rest), newer_base: false }),
        ("rebase", _) => Ok(ScenarioStep::Changes { comment: why(rest), newer_base: true }),
        ("silent", ("", _)) => Ok(ScenarioStep::Silent),
        _ => Err("wants allow, deny, ban, changes, rebase or silent".to_owned()),
    }
}

fn rule(text: &str, number: usize) -> Option<String> {
    let mut words = text.split_whitespace();
    let action = match words.next()? {
        "review" => "require_review",
        other => other,
    };
    let tool = words.next()?;
    let globs: Vec<String> = words.map(|glob| format!("\"{glob}\"")).collect();
    let paths = if globs.is_empty() { String::new() } else { format!(", path_glob: [{}]", globs.join(", ")) };
    Some(format!(
        "  - {{ name: rule-{number}, match: {{ syscall: \"{tool}\"{paths} }}, action: {action}, reason: rule {number} says so }}\n"
    ))
}
