//! Reads the upper half of a scenario.

use super::Scenario;
use super::step::{Answered, Step, Who};
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
            "limit" => scenario.limit = Some(rest.parse().map_err(|_| fail("wants a number"))?),
            "brain" => {
                scenario.brain.push_str(rest);
                scenario.brain.push('\n');
            }
            "commit" => scenario.steps.push(Step::Commit),
            "mine" => scenario.steps.push(Step::Merge(rest.to_owned(), Side::Mine)),
            "theirs" => scenario.steps.push(Step::Merge(rest.to_owned(), Side::Theirs)),
            "undo" => scenario.steps.push(Step::Undo((!rest.is_empty()).then(|| rest.to_owned()))),
            "stored" => scenario.steps.push(Step::Stored),
            "show" => scenario.steps.push(Step::Show(rest.to_owned())),
            "edit" => scenario.steps.push(pair().map(|(path, text)| Step::Edit(path, text))?),
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
        Block::Tool => scenario.tools.last_mut().into_iter().for_each(|tool| tool.push_str(&line)),
    }
}

/// `\\n` in a scenario's text is a line break, and every file ends with one.
fn unescape(text: &str) -> String {
    format!("{}\n", text.replace("\\n", "\n"))
}

fn step(word: &str, rest: &str) -> Result<Step, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| "wants a number".to_owned());
    Ok(match (word, rest.split_once(' ').unwrap_or((rest, ""))) {
        ("restart", _) => Step::Restart,
        ("trust", _) => Step::Trust,
        ("cancel", _) => Step::Cancel,
        ("pause", _) => Step::Pause,
        ("resume", _) => Step::Resume,
        ("replay", _) => Step::Replay,
        ("acknowledge", (upto, _)) => Step::Acknowledge(number(upto)?),
        ("budget", ("set", tokens)) => Step::Budget(number(tokens)?, AtCap::Refuse),
        ("budget", ("ask", tokens)) => Step::Budget(number(tokens)?, AtCap::Ask),
        ("budget", ("grant", tokens)) => Step::GrantBudget(number(tokens)?),
        ("verify", _) => Step::Verify,
        ("ban", (whom, what)) => ban(whom, what).ok_or("wants brain, operator or all, and TOOL [GLOB…]")?,
        ("deny", (id, _)) => Step::Deny(id.parse().map_err(|_| "wants r-1")?),
        ("revoke", (id, _)) => Step::Revoke(id.to_owned()),
        ("wait", (time, _)) => Step::Wait(time_of(time)?),
        ("tamper", ("record", nth)) => Step::TamperRecord(number(nth)?),
        ("tamper", ("cut", last)) => Step::TamperCut(number(last)?),
        ("token", (name, wish)) => Step::Token(name.to_owned(), token(wish)?),
        ("human", _) => human(rest)?,
        ("operator", _) => call(Who::Operator, rest),
        ("thief", _) => call(Who::Thief, rest),
        ("stranger", _) => call(Who::Stranger, rest),
        ("reborn", _) => call(Who::Reborn, rest),
        _ => return Err("not a word of scenarios".to_owned()),
    })
}

fn ban(whom: &str, what: &str) -> Option<Step> {
    let scope = match whom {
        "brain" => Scope::Process { pid: Pid(3) },
        "operator" => Scope::Process { pid: Pid::OPERATOR },
        "all" => Scope::All,
        _ => return None,
    };
    let mut words = what.split_whitespace().map(str::to_owned);
    Some(Step::Ban { scope, tool: words.next()?, paths: words.collect() })
}

fn call(who: Who, text: &str) -> Step {
    match text.strip_prefix("with ").and_then(|text| text.split_once(' ')) {
        Some((token, call)) => Step::Call { who, token: Some(token.to_owned()), call: call.trim().to_owned() },
        None => Step::Call { who, token: None, call: text.to_owned() },
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

fn human(text: &str) -> Result<Step, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let why = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
    let yes = |how, rest: &str| -> Result<Step, String> {
        let terms = if rest.starts_with('{') { serde_json::from_str(rest).map_err(|error| error.to_string())? } else { Terms::default() };
        let why = if rest.starts_with('{') { None } else { why(rest) };
        Ok(Step::Answer { how, terms: Box::new(terms), why })
    };
    match (word, rest.split_once(' ').unwrap_or((rest, ""))) {
        ("allow", ("session", rest)) => yes(Answered::Session, rest),
        ("allow", ("always", rest)) => yes(Answered::Always, rest),
        ("allow", _) => yes(Answered::Once, rest),
        ("deny", _) => Ok(Step::Answer { how: Answered::No, terms: Box::default(), why: why(rest) }),
        ("ban", _) => Ok(Step::Answer { how: Answered::Never, terms: Box::default(), why: why(rest) }),
        ("silent", ("", _)) => Ok(Step::Silent),
        _ => Err("wants allow, deny, ban or silent".to_owned()),
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
