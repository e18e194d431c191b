//! A script's text, taken apart. One word starts each line, as in a brain's script (`docs/scripts.md`).

use super::{Branch, Conversation, Fail, ModelScript, ScriptMove, Turn, When};
use dialect::{StopReason, TokenUsage, UsageSource};
use serde_json::{Map, Value};

/// A script that does not parse, and where. Columns count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct ModelScriptError {
    pub line: usize,
    pub column: usize,
    pub what: String,
}

const WORDS: &str = "on, then, else, otherwise, repeat, say, think, call, usage, delay, error, stop, cut";

/// What is wrong, and the part of the line that is.
struct Wrong<'a> {
    at: &'a str,
    what: String,
}

fn wrong<T>(at: &str, what: impl Into<String>) -> Result<T, Wrong<'_>> {
    Err(Wrong { at, what: what.into() })
}

type Lines<'a> = std::iter::Enumerate<std::str::Lines<'a>>;

/// Where the next move goes.
#[derive(Default)]
struct Build {
    conversations: Vec<Conversation>,
    otherwise: Option<Vec<ScriptMove>>,
    in_otherwise: bool,
}

pub(super) fn parse(text: &str) -> Result<ModelScript, ModelScriptError> {
    let mut lines = text.lines().enumerate();
    let mut build = Build::default();
    while let Some((index, raw)) = lines.next() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        build.line(line, index + 1, &mut lines).map_err(|Wrong { at, what }| {
            // The part is borrowed from the line, so the distance of the two is its place; a part of nothing stands at the line's end.
            let byte = (at.as_ptr() as usize).checked_sub(raw.as_ptr() as usize).filter(|byte| *byte <= raw.len()).unwrap_or(raw.len());
            ModelScriptError { line: index + 1, column: raw.get(..byte).unwrap_or(raw).chars().count() + 1, what }
        })?;
    }
    if build.conversations.is_empty() && build.otherwise.is_none() {
        return Err(ModelScriptError { line: 1, column: 1, what: "there is no answer in it: `say hello` would be one".to_owned() });
    }
    Ok(ModelScript { conversations: build.conversations, otherwise: build.otherwise, failed: Default::default() })
}

impl Build {
    fn line<'a>(&mut self, line: &'a str, number: usize, lines: &mut Lines<'a>) -> Result<(), Wrong<'a>> {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, &line[line.len()..]));
        let rest = rest.trim();
        match word {
            "on" => self.on(line, rest, number),
            "then" => {
                bare(rest)?;
                match self.conversations.last_mut().filter(|_| !self.in_otherwise) {
                    Some(talk) if !talk.turns.is_empty() => talk.turns.push(Turn::default()),
                    _ => return wrong(line, "`then` has nothing before it"),
                }
                Ok(())
            }
            "else" => {
                bare(rest)?;
                match self.turn() {
                    Some(turn) if turn.branches.iter().any(|branch| branch.when != When::Always) => {
                        turn.branches.push(Branch { when: When::Always, line: number, moves: Vec::new() });
                        Ok(())
                    }
                    _ => wrong(line, "`else` has no `on result` before it"),
                }
            }
            "otherwise" => {
                bare(rest)?;
                if self.otherwise.is_some() {
                    return wrong(line, "`otherwise` is given twice");
                }
                self.otherwise = Some(Vec::new());
                self.in_otherwise = true;
                Ok(())
            }
            "repeat" => {
                bare(rest)?;
                match self.conversations.last_mut().filter(|_| !self.in_otherwise) {
                    Some(talk) if !talk.turns.is_empty() => talk.repeat = true,
                    _ => return wrong(line, "`repeat` has nothing before it"),
                }
                Ok(())
            }
            _ => {
                let made = a_move(word, rest, line, number, lines)?;
                self.moves(line, number)?.push(made);
                Ok(())
            }
        }
    }

    fn on<'a>(&mut self, line: &'a str, rest: &'a str, number: usize) -> Result<(), Wrong<'a>> {
        if rest.is_empty() {
            return wrong(rest, "`on` wants a part of the user's message, or `result`");
        }
        let Some(result) = rest.strip_prefix("result").filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) else {
            self.conversations.push(Conversation { on: Some(text_of(rest)?), turns: vec![Turn::default()], repeat: false });
            self.in_otherwise = false;
            return Ok(());
        };
        let result = result.trim_start();
        let when = match result.split_once(char::is_whitespace).unwrap_or((result, "")) {
            ("ok", "") => When::Ok,
            ("error", "") => When::Error,
            ("contains", part) if !part.trim().is_empty() => When::Contains(text_of(part.trim())?),
            _ => return wrong(result, "`on result` wants `ok`, `error` or `contains TEXT`"),
        };
        let first = self.conversations.last().is_some_and(|talk| talk.turns.len() == 1);
        match self.turn() {
            Some(turn) if !first && turn.branches.iter().all(|branch| branch.when != When::Always) => {
                turn.branches.push(Branch { when, line: number, moves: Vec::new() });
                Ok(())
            }
            _ => wrong(line, "`on result` stands right after `then`"),
        }
    }

    fn turn(&mut self) -> Option<&mut Turn> {
        self.conversations.last_mut().filter(|_| !self.in_otherwise)?.turns.last_mut()
    }

    /// The moves that the next one joins.
    fn moves<'a>(&mut self, line: &'a str, number: usize) -> Result<&mut Vec<ScriptMove>, Wrong<'a>> {
        if self.in_otherwise {
            return Ok(self.otherwise.get_or_insert_default());
        }
        if self.conversations.is_empty() {
            self.conversations.push(Conversation { on: None, turns: vec![Turn::default()], repeat: false });
        }
        let Some(turn) = self.turn() else { return wrong(line, "nothing to answer") };
        if turn.branches.is_empty() {
            turn.branches.push(Branch { when: When::Always, line: number, moves: Vec::new() });
        }
        match turn.branches.last_mut() {
            Some(branch) => Ok(&mut branch.moves),
            None => wrong(line, "nothing to answer"),
        }
    }
}

fn a_move<'a>(word: &'a str, rest: &'a str, line: &'a str, number: usize, lines: &mut Lines<'a>) -> Result<ScriptMove, Wrong<'a>> {
    Ok(match word {
        "say" => ScriptMove::Say(prose(rest, lines)?),
        "think" => ScriptMove::Think(prose(rest, lines)?),
        "call" => {
            let (tool, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, &rest[rest.len()..]));
            if tool.is_empty() {
                return wrong(rest, "`call` names no tool");
            }
            let arguments = arguments.trim_start();
            let input = if arguments.starts_with('{') { object(arguments)? } else { pairs(arguments, lines)? };
            ScriptMove::Call { tool: tool.to_owned(), input, line: number }
        }
        "usage" => {
            let pairs = pairs(rest, lines)?;
            let mut usage = TokenUsage { source: UsageSource::Reported, ..TokenUsage::default() };
            for (key, value) in &pairs {
                let Some(count) = value.as_u64() else { return wrong(rest, format!("`{key}` is not a count of tokens")) };
                match key.as_str() {
                    "in" => usage.input = count,
                    "out" => usage.output = count,
                    "cache_read" => usage.cache_read = count,
                    "cache_write" => usage.cache_write = count,
                    "reasoning" => usage.reasoning = count,
                    _ => return wrong(rest, format!("`{key}` is not one of in, out, cache_read, cache_write, reasoning")),
                }
            }
            ScriptMove::Usage(usage)
        }
        "delay" => ScriptMove::Delay(duration(rest)?),
        "error" => ScriptMove::Error(failure(rest, number)?),
        "stop" => match rest {
            "length" => ScriptMove::Stop(StopReason::Length),
            "refusal" => ScriptMove::Stop(StopReason::Withheld("the script says so".to_owned())),
            _ => return wrong(rest, "`stop` wants `length` or `refusal`"),
        },
        "cut" => {
            bare(rest)?;
            ScriptMove::Cut
        }
        other => return wrong(line, format!("`{other}` is not one of {WORDS}")),
    })
}

fn bare(rest: &str) -> Result<(), Wrong<'_>> {
    if rest.is_empty() { Ok(()) } else { wrong(rest, format!("`{rest}` does not belong here")) }
}

/// A quoted string, or the words as they are.
fn text_of(text: &str) -> Result<String, Wrong<'_>> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    serde_json::from_str(text).map_err(|error| Wrong { at: text, what: format!("bad text: {error}") })
}

/// The rest of the line, or a heredoc.
fn prose<'a>(rest: &'a str, lines: &mut Lines<'a>) -> Result<String, Wrong<'a>> {
    match rest.strip_prefix("<<").filter(|mark| !mark.is_empty() && !mark.contains(char::is_whitespace)) {
        Some(mark) => heredoc(rest, mark, lines),
        None => Ok(rest.to_owned()),
    }
}

fn heredoc<'a>(at: &'a str, mark: &str, lines: &mut Lines<'a>) -> Result<String, Wrong<'a>> {
    let mut body = String::new();
    for (_, line) in lines.by_ref() {
        if line.trim() == mark {
            return Ok(body);
        }
        body.push_str(line);
        body.push('\n');
    }
    wrong(at, format!("`<<{mark}` is never closed"))
}

fn object(text: &str) -> Result<Map<String, Value>, Wrong<'_>> {
    serde_json::from_str(text).map_err(|error| {
        // The error's own column leads to the very character.
        let at = text.get(error.column().saturating_sub(1)..).unwrap_or(text);
        Wrong { at, what: format!("bad value: {error}") }
    })
}

fn pairs<'a>(text: &'a str, lines: &mut Lines<'a>) -> Result<Map<String, Value>, Wrong<'a>> {
    let mut pairs = Map::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let Some((key, after)) = rest.split_once('=') else { return wrong(rest, format!("`{rest}` is not key=value")) };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return wrong(rest, format!("`{key}` is not a key"));
        }
        let (value, after) = value_of(after, lines)?;
        if pairs.insert(key.to_owned(), value).is_some() {
            return wrong(rest, format!("`{key}` is given twice"));
        }
        rest = after.trim_start();
    }
    Ok(pairs)
}

fn value_of<'a>(text: &'a str, lines: &mut Lines<'a>) -> Result<(Value, &'a str), Wrong<'a>> {
    if let Some(mark) = text.strip_prefix("<<") {
        let (mark, after) = mark.split_once(char::is_whitespace).unwrap_or((mark, ""));
        return Ok((Value::String(heredoc(text, mark, lines)?), after));
    }
    if text.starts_with(['"', '[', '{']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return match values.next() {
            Some(Ok(value)) => Ok((value, &text[values.byte_offset()..])),
            Some(Err(error)) => wrong(text, format!("bad value: {error}")),
            None => wrong(text, "a value is missing"),
        };
    }
    let (word, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let value = match serde_json::from_str(word) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(word.to_owned()),
    };
    Ok((value, after))
}

/// The longest that a script may wait: longer than any client does.
const DELAY_MS_MAX: u64 = 3_600_000;

fn duration(text: &str) -> Result<u64, Wrong<'_>> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return wrong(text, "`delay` wants a time such as 50ms, 2s or 1m"),
    };
    match text[..digits].parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).filter(|ms| *ms <= DELAY_MS_MAX) {
        Some(ms) => Ok(ms),
        None => wrong(text, "`delay` is an hour at most"),
    }
}

fn failure(rest: &str, line: usize) -> Result<Fail, Wrong<'_>> {
    let (status, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, &rest[rest.len()..]));
    let Some(code) = status.parse::<u16>().ok().filter(|status| (400..600).contains(status)) else {
        return wrong(status, "`error` wants a status from 400 to 599");
    };
    let rest = rest.trim_start();
    let (times, message) = match rest.strip_prefix("times=") {
        Some(counted) => {
            let (count, message) = counted.split_once(char::is_whitespace).unwrap_or((counted, ""));
            let Ok(count) = count.parse::<u32>() else { return wrong(rest, format!("`{count}` is not a count")) };
            (Some(count), message.trim_start())
        }
        None => (None, rest),
    };
    Ok(Fail { status: code, times, message: if message.is_empty() { "the script says so".to_owned() } else { message.to_owned() }, line })
}
