//! A brain that follows a text file: for tests, demos, and people who try out their own policy.
//!
//! One move a line: `say`, `call TOOL key=value…`, `own TOOL key=value…`, `report ok|failed TEXT`, `done TEXT`, and `result`, which ends as the
//! last call did; `hook ARTIFACT` begins what it does when it is asked for that artifact at the end. `#` starts a comment. A value is
//! a word, a "quoted string" with JSON escapes, JSON itself, or a heredoc (`content=<<END` … `END`). A refused call does not stop it. Several
//! calls of its own may be open; `report` is about the oldest that has none yet. What stands behind a `done` is the next turn: it begins when
//! a person says something more to the task.

use crate::{Brain, BrainFault, BrainInput, CallResult, FurtherTurns, HookTurn, Move, OwnCallId, ToolCall};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::{future::Future, pin::Pin};

/// A brain's script that does not parse, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BrainScriptError {
    pub line: usize,
    pub what: String,
}

/// What the answer to a question that a kernel asks a brain is called, before its number.
pub const ANSWER: &str = "answer.";

#[derive(Clone, Debug, PartialEq)]
pub struct BrainScript {
    moves: Vec<Move>,
    at: usize,
    /// Which of the moves end as the last call did.
    results: BTreeSet<usize>,
    /// What the last call came to.
    last: Option<CallResult>,
    /// What it does for each artifact that it is asked for at the end.
    hooks: BTreeMap<String, Vec<Move>>,
    /// The artifact that it is asked for, and how far it is with it.
    hook: Option<(String, usize)>,
}

impl BrainScript {
    pub fn parse(text: &str) -> Result<BrainScript, BrainScriptError> {
        let mut lines = text.lines().enumerate();
        let mut moves = Vec::new();
        let (mut own_calls, mut unreported) = (0, VecDeque::new());
        let (mut results, mut hooks, mut hook) = (BTreeSet::new(), BTreeMap::<String, Vec<Move>>::new(), None::<String>);
        while let Some((index, line)) = lines.next() {
            let fail = |what: String| BrainScriptError { line: index + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let rest = rest.trim();
            if verb == "hook" {
                if rest.is_empty() || hooks.insert(rest.to_owned(), Vec::new()).is_some() {
                    return Err(fail("`hook` wants the name of an artifact, each once".into()));
                }
                hook = Some(rest.to_owned());
                continue;
            }
            if verb == "result" {
                if hook.is_some() {
                    return Err(fail("`result` ends the work, and this is a hook".into()));
                }
                results.insert(moves.len());
            }
            let next = match verb {
                "result" => Move::Done(String::new()),
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
                other => return Err(fail(format!("`{other}` is not one of say, call, own, report, done, result, hook"))),
            };
            match hook.as_ref().and_then(|hook| hooks.get_mut(hook)) {
                Some(moves) => moves.push(next),
                None => moves.push(next),
            }
        }
        Ok(BrainScript { moves, at: 0, results, last: None, hooks, hook: None })
    }

    /// Finds the move to begin with: of the turn that a person asked for last, the first that was not made yet.
    fn begin(&mut self, settled: u64, resumed: bool, further: &FurtherTurns) {
        self.at = 0;
        let turns = further.prompts.len();
        if turns == 0 {
            if resumed {
                self.resume(settled);
            }
            return;
        }
        let ends = self.moves.iter().enumerate().filter(|(_, made)| matches!(made, Move::Done(_)));
        let start = ends.map(|(at, _)| at + 1).nth(turns - 1).unwrap_or(self.moves.len());
        match further.settled_before {
            // An earlier turn may have ended before all its calls were made.
            Some(before) => {
                self.at = start;
                if settled > before {
                    self.resume(settled - before);
                }
            }
            None => {
                self.resume(settled);
                self.at = self.at.max(start);
            }
        }
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

impl BrainScript {
    /// Where it has no moves for an artifact that is the answer to a question, its turns are its answers, one after the other.
    fn begin_hook(&mut self, artifact: String) {
        let number = artifact.strip_prefix(ANSWER).and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number.filter(|_| !self.hooks.contains_key(&artifact)) else {
            self.hook = Some((artifact, 0));
            return;
        };
        let ends = self.moves.iter().enumerate().filter(|(_, next)| matches!(next, Move::Done(_))).map(|(at, _)| at + 1);
        let begins = std::iter::once(0).chain(ends).nth(number.saturating_sub(1));
        (self.hook, self.at) = (None, begins.unwrap_or(self.moves.len()));
    }
}

impl Brain for BrainScript {
    fn next(&mut self, input: BrainInput) -> Pin<Box<dyn Future<Output = Result<Move, BrainFault>> + Send + '_>> {
        match input {
            BrainInput::Start { settled, resumed, further, .. } => self.begin(settled, resumed, &further),
            BrainInput::Results(mut results) => self.last = results.pop().or(self.last.take()),
            BrainInput::Hook(HookTurn { artifact, .. }) => self.begin_hook(artifact),
            BrainInput::OwnCallAllowed(_) | BrainInput::OwnCallRefused { .. } | BrainInput::Continue => {}
        }
        let next = match &mut self.hook {
            Some((artifact, at)) => {
                *at += 1;
                Ok(self.hooks.get(artifact).and_then(|moves| moves.get(*at - 1)).cloned().unwrap_or_else(|| Move::Done(String::new())))
            }
            None if self.results.contains(&self.at) => end_of(self.last.as_ref()),
            None => Ok(self.moves.get(self.at).cloned().unwrap_or_else(|| Move::Done(String::new()))),
        };
        self.at += usize::from(self.hook.is_none());
        Box::pin(std::future::ready(next))
    }
}

/// Ends as a call did: with what it printed, or with what was wrong.
fn end_of(last: Option<&CallResult>) -> Result<Move, BrainFault> {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().trim_end().to_owned();
    match last {
        // Its outcome was on record before the brain began again.
        None => Ok(Move::Done(String::new())),
        Some(CallResult::Output { ok: true, value }) => Ok(Move::Done(text(value, "stdout"))),
        Some(CallResult::Output { ok: false, value }) => {
            let how = value["exit_code"].as_i64().map_or_else(|| text(value, "error"), |code| format!("exit code {code}"));
            let said = [text(value, "stderr"), text(value, "stdout")].into_iter().find(|said| !said.is_empty());
            let tail = said.map(|said| format!(": {}", said.lines().last().unwrap_or_default())).unwrap_or_default();
            Err(BrainFault::new(format!("its command failed, {how}{tail}")))
        }
        Some(CallResult::Refused(refusal)) => {
            Err(BrainFault { hint: refusal.advice(), ..BrainFault::new(format!("its command was refused: {}", refusal.reason)) })
        }
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
        let start = |settled, resumed| BrainInput::Start {
            prompt: String::new(),
            settled,
            resumed,
            memory: Vec::new(),
            further: FurtherTurns::default(),
        };
        assert_eq!(script.next(start(0, false)).await.unwrap(), Move::Say("a".into()));
        assert_eq!(script.next(start(0, true)).await.unwrap(), call("x", json!({})));
        assert_eq!(
            script.next(start(1, true)).await.unwrap(),
            Move::Own { id: OwnCallId(1), call: ToolCall { tool: "y".into(), input: json!({}) } }
        );
        assert_eq!(script.next(start(2, true)).await.unwrap(), call("z", json!({})));
        assert_eq!(script.next(start(9, true)).await.unwrap(), Move::Done(String::new()));
    }

    #[tokio::test]
    async fn what_stands_behind_a_done_is_the_next_turn() {
        let mut script = BrainScript::parse("call a\ncall b\ndone one\nsay more\ncall c\ncall d\ndone two\n").unwrap();
        let turn = |settled, turns: usize, settled_before| BrainInput::Start {
            prompt: String::new(),
            settled,
            resumed: true,
            memory: Vec::new(),
            further: FurtherTurns { prompts: vec!["more".into(); turns], settled_before },
        };
        assert_eq!(script.next(turn(2, 1, Some(2))).await.unwrap(), Move::Say("more".into()));
        assert_eq!(script.next(BrainInput::Continue).await.unwrap(), call("c", json!({})));
        assert_eq!(script.next(turn(3, 1, Some(2))).await.unwrap(), call("d", json!({})));
        // The first turn ended after one of its calls.
        assert_eq!(script.next(turn(1, 1, Some(1))).await.unwrap(), Move::Say("more".into()));
        assert_eq!(script.next(turn(2, 1, Some(1))).await.unwrap(), call("d", json!({})));
        // Said while the first turn went on.
        assert_eq!(script.next(turn(2, 1, None)).await.unwrap(), Move::Say("more".into()));
        assert_eq!(script.next(turn(3, 1, None)).await.unwrap(), call("d", json!({})));
        assert_eq!(script.next(turn(4, 2, Some(4))).await.unwrap(), Move::Done(String::new()), "there is no third turn");
    }

    #[tokio::test]
    async fn a_result_ends_as_the_last_call_did() {
        let script = || BrainScript::parse("call shell.run command=[\"make\"]\nresult\n").unwrap();
        let end = async |result: Option<CallResult>| {
            let mut script = script();
            let input = match result {
                Some(result) => {
                    script.next(BrainInput::Continue).await.unwrap();
                    BrainInput::Results(vec![result])
                }
                None => {
                    BrainInput::Start { prompt: String::new(), settled: 1, resumed: true, memory: vec![], further: FurtherTurns::default() }
                }
            };
            script.next(input).await.map_err(|fault| fault.what)
        };
        let output = |ok, value| Some(CallResult::Output { ok, value });
        assert_eq!(end(output(true, json!({"stdout": "built\n", "exit_code": 0}))).await, Ok(Move::Done("built".into())));
        let failed = end(output(false, json!({"stdout": "", "stderr": "a\nno rule\n", "exit_code": 2}))).await;
        assert_eq!(failed, Err("its command failed, exit code 2: no rule".into()));
        let late = end(output(false, json!({"error": "it ran longer than 5 ms and was ended"}))).await;
        assert_eq!(late, Err("its command failed, it ran longer than 5 ms and was ended".into()));
        let refused = end(Some(CallResult::Refused(world::Refusal::new(world::Code::Denied, "no")))).await;
        assert_eq!(refused, Err("its command was refused: no".into()));
        assert_eq!(end(None).await, Ok(Move::Done(String::new())), "its outcome is on record");
    }

    #[tokio::test]
    async fn a_hook_has_moves_of_its_own() {
        let mut script = BrainScript::parse("done over\nhook summary\ncall a\ndone short\nhook other\ndone long\n").unwrap();
        let hook = |artifact: &str| BrainInput::Hook(HookTurn { artifact: artifact.into(), ..HookTurn::default() });
        assert_eq!(script.next(BrainInput::Continue).await.unwrap(), Move::Done("over".into()));
        assert_eq!(script.next(hook("summary")).await.unwrap(), call("a", json!({})));
        assert_eq!(script.next(BrainInput::Results(Vec::new())).await.unwrap(), Move::Done("short".into()));
        assert_eq!(script.next(hook("other")).await.unwrap(), Move::Done("long".into()));
        assert_eq!(script.next(hook("none")).await.unwrap(), Move::Done(String::new()));
        let mut answers = BrainScript::parse("say I think.\ndone one\ndone two\nhook answer.3\ndone three\n").unwrap();
        assert_eq!(answers.next(hook("answer.2")).await.unwrap(), Move::Done("two".into()));
        assert_eq!(answers.next(hook("answer.1")).await.unwrap(), Move::Say("I think.".into()));
        assert_eq!(answers.next(BrainInput::Continue).await.unwrap(), Move::Done("one".into()));
        assert_eq!(answers.next(hook("answer.3")).await.unwrap(), Move::Done("three".into()));
        assert_eq!(answers.next(hook("answer.4")).await.unwrap(), Move::Done(String::new()));
        for (text, line) in [("hook", 1), ("hook a\nhook a", 2), ("hook a\nresult", 2)] {
            assert_eq!(BrainScript::parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
