//! A brain that follows a text file: for tests, demos, and people who try out their own policy.
//!
//! One move a line: `say`, `call TOOL key=value…`, `own TOOL key=value…`, `report ok|failed TEXT`, `done TEXT`; `#` starts a comment. A value is
//! a word, a "quoted string" with JSON escapes, JSON itself, or a heredoc (`content=<<END` … `END`). A refused call does not stop it. Several
//! calls of its own may be open; `report` is about the oldest that has none yet.

use crate::{Brain, BrainFault, BrainInput, Move, OwnCallId, ToolCall};
use serde_json::{Map, Value};
use std::{collections::VecDeque, future::Future, pin::Pin};

/// A brain's script that does not parse, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BrainScriptError {
    pub line: usize,
    pub what: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BrainScript {
    moves: Vec<Move>,
    at: usize,
}

impl BrainScript {
    pub fn parse(text: &str) -> Result<BrainScript, BrainScriptError> {
        let mut lines = text.lines().enumerate();
        let mut moves = Vec::new();
        let (mut own_calls, mut unreported) = (0, VecDeque::new());
        while let Some((index, line)) = lines.next() {
            let fail = |what: String| BrainScriptError { line: index + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            moves.push(match verb {
                "say" => Move::Say(rest.to_owned()),
                "done" => Move::Done(rest.to_owned()),
                "report" => {
                    let (ok, text) = match rest.split_once(' ').unwrap_or((rest, "")) {
                        ("ok", text) => (true, text),
                        ("failed", text) => (false, text),
                        _ => return Err(fail("`report` wants `ok` or `failed` first".into())),
                    };
                    let id = unreported.pop_front().ok_or_else(|| fail("`report` has no `own` before it".into()))?;
                    Move::Report { id, ok, text: text.to_owned() }
                }
                "call" | "own" => {
                    let (tool, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                    if tool.is_empty() {
                        return Err(fail(format!("`{verb}` names no tool")));
                    }
                    let mut heredoc = |end: &str| {
                        let mut body = String::new();
                        for (_, line) in lines.by_ref() {
                            if line.trim() == end {
                                return Some(body);
                            }
                            body.push_str(line);
                            body.push('\n');
                        }
                        None
                    };
                    let input = arguments_of(arguments, &mut heredoc).map_err(fail)?;
                    let call = ToolCall { tool: tool.to_owned(), input };
                    if verb == "call" {
                        Move::Call(vec![call])
                    } else {
                        own_calls += 1;
                        unreported.push_back(OwnCallId(own_calls));
                        Move::Own { id: OwnCallId(own_calls), call }
                    }
                }
                other => return Err(fail(format!("`{other}` is not one of say, call, own, report, done"))),
            });
        }
        Ok(BrainScript { moves, at: 0 })
    }

    /// Steps over the moves that were made before: all up to and with the `settled`-th call, and what was said on the way to the next.
    fn resume(&mut self, settled: u64) {
        let mut left = settled;
        while left > 0 && self.at < self.moves.len() {
            if matches!(self.moves[self.at], Move::Call(_) | Move::Own { .. }) {
                left -= 1;
            }
            self.at += 1;
        }
        // The report on a call with its own hands belongs to that call.
        if settled > 0 && matches!(self.moves.get(self.at), Some(Move::Report { .. })) {
            self.at += 1;
        }
        while matches!(self.moves.get(self.at), Some(Move::Say(_))) {
            self.at += 1;
        }
    }
}

impl Brain for BrainScript {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>> {
        if let BrainInput::Start { settled, resumed, .. } = input {
            self.at = 0;
            if resumed {
                self.resume(settled);
            }
        }
        let next = self.moves.get(self.at).cloned().unwrap_or_else(|| Move::Done(String::new()));
        self.at += 1;
        Box::pin(std::future::ready(Ok(next)))
    }
}

/// Reads `key=value` pairs. `heredoc` gives the lines up to an end mark, or `None` when the mark never comes.
fn arguments_of(text: &str, heredoc: &mut dyn FnMut(&str) -> Option<String>) -> Result<Value, String> {
    let mut input = Map::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').ok_or_else(|| format!("`{rest}` is not key=value"))?;
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!("`{key}` is not a key"));
        }
        let (value, after) = value_of(after, heredoc)?;
        if input.insert(key.to_owned(), value).is_some() {
            return Err(format!("`{key}` is given twice"));
        }
        rest = after.trim_start();
    }
    Ok(Value::Object(input))
}

fn value_of<'a>(text: &'a str, heredoc: &mut dyn FnMut(&str) -> Option<String>) -> Result<(Value, &'a str), String> {
    if let Some(mark) = text.strip_prefix("<<") {
        let (mark, after) = mark.split_once(char::is_whitespace).unwrap_or((mark, ""));
        let body = heredoc(mark).ok_or_else(|| format!("`<<{mark}` is never closed"))?;
        return Ok((Value::String(body), after));
    }
    if text.starts_with(['"', '[', '{']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return match values.next() {
            Some(Ok(value)) => Ok((value, &text[values.byte_offset()..])),
            Some(Err(error)) => Err(format!("bad value: {error}")),
            None => Err("a value is missing".into()),
        };
    }
    let (word, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let value = match serde_json::from_str(word) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(word.to_owned()),
    };
    Ok((value, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn moves(text: &str) -> Vec<Move> {
        BrainScript::parse(text).unwrap().moves
    }

    fn call(tool: &str, input: Value) -> Move {
        Move::Call(vec![ToolCall { tool: tool.into(), input }])
    }

    #[test]
    fn every_kind_of_value_is_read() {
        let text = "# a script\nsay hello there\ncall fs.write path=a.txt content=<<END mode=420\none\n two\nEND\ncall shell.run command=[\"ls\", \"-l\"] note=\"a b\"\ndone all good\n";
        let expected = vec![
            Move::Say("hello there".into()),
            call("fs.write", json!({"path": "a.txt", "content": "one\n two\n", "mode": 420})),
            call("shell.run", json!({"command": ["ls", "-l"], "note": "a b"})),
            Move::Done("all good".into()),
        ];
        assert_eq!(moves(text), expected);
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line) in [
            ("sing a song", 1),
            ("say a\ncall", 2),
            ("call a.b x", 1),
            ("call a.b x=<<END\n", 1),
            ("call a x=1 x=2", 1),
            ("own a\nreport ok\nreport ok", 3),
        ] {
            assert_eq!(BrainScript::parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn each_report_is_about_the_oldest_call_without_one() {
        let report = |id| Move::Report { id: OwnCallId(id), ok: true, text: String::new() };
        let own = |id, tool: &str| Move::Own { id: OwnCallId(id), call: ToolCall { tool: tool.into(), input: json!({}) } };
        let expected = vec![own(1, "a"), own(2, "b"), report(1), own(3, "c"), report(2), report(3)];
        assert_eq!(moves("own a\nown b\nreport ok\nown c\nreport ok\nreport ok\n"), expected);
    }

    #[tokio::test]
    async fn a_resumed_script_steps_over_what_is_settled_and_said() {
        let mut script = BrainScript::parse("say a\ncall x\nsay b\nown y\nreport ok\ncall z\n").unwrap();
        let start = |settled, resumed| BrainInput::Start { prompt: String::new(), settled, resumed, memory: Vec::new() };
        assert_eq!(script.next(start(0, false)).await.unwrap(), Move::Say("a".into()));
        assert_eq!(script.next(start(0, true)).await.unwrap(), call("x", json!({})));
        assert_eq!(
            script.next(start(1, true)).await.unwrap(),
            Move::Own { id: OwnCallId(1), call: ToolCall { tool: "y".into(), input: json!({}) } }
        );
        assert_eq!(script.next(start(2, true)).await.unwrap(), call("z", json!({})));
        assert_eq!(script.next(start(9, true)).await.unwrap(), Move::Done(String::new()));
    }
}
