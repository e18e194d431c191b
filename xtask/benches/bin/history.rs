//! Writes a long past into a home whose kernel has stopped: tasks with their calls, requests to models, questions and refusals.
//!
//! `bench-history HOME RECORDS` goes on until the journal has so many. Every record is one that the world accepts, of the shape that a kernel
//! writes. The home must have a project with a worker (`skep init`).

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use journal::{Class, Draft, Journal, Options};
use serde_json::{Value, json};
use world::{Event, Pid, Weight, World, ZoneId};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Records of one batch.
const BATCH: usize = 1_000;
/// Steps of one task: a request to a model, and what it asked for.
const STEPS: u64 = 20;
/// Between two records of the past.
const STEP_MS: i64 = 250;

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bench-history HOME RECORDS";
    let home = PathBuf::from(arguments.next().ok_or(usage)?);
    let records: u64 = arguments.next().ok_or(usage)?.parse()?;
    let begun = Instant::now();
    let mut past = Past::open(&home)?;
    past.record("kernel.started", None, json!({"pid": 1, "version": "0.1.0", "boot": "00000000-0000-4000-8000-000000000000"}))?;
    while past.journal.head().count + (past.batch.len() as u64) < records - STEPS * 20 {
        past.task()?;
    }
    past.record("kernel.stopped", None, json!({"pid": 1, "reason": "kernel.stop"}))?;
    past.flush()?;
    let (calls, count) = (past.calls, past.journal.head().count);
    past.journal.close();
    println!("{}", json!({"records": count, "calls": calls, "seconds": begun.elapsed().as_secs_f64()}));
    Ok(())
}

struct Past {
    journal: Journal,
    world: World,
    zone: ZoneId,
    worker: Pid,
    at_ms: i64,
    /// Numbers everything, so that two calls differ and two runs do not.
    number: u64,
    calls: u64,
    batch: Vec<Draft>,
}

impl Past {
    fn open(home: &std::path::Path) -> Fallible<Past> {
        let (journal, _) = Journal::open(home, Options::default())?;
        let mut world = World::default();
        let mut failed = None;
        journal.replay(
            0,
            |line| serde_json::from_str::<Event>(line.text).map(|event| (event, line.at_ms)),
            |read| {
                match read {
                    Ok((event, at_ms)) => world.apply(&event, at_ms),
                    Err(error) => failed = Some(error),
                }
                std::ops::ControlFlow::Continue(())
            },
        )?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let worker = world.processes.values().find(|process| process.zone.is_some() && process.state.alive());
        let worker = worker.ok_or("the home has no project with a worker: run `skep init` in one")?;
        let (zone, worker) = (worker.zone.unwrap_or(ZoneId::NONE), worker.pid);
        let at_ms = world.now_ms + 1;
        Ok(Past { journal, world, zone, worker, at_ms, number: 0, calls: 0, batch: Vec::with_capacity(BATCH) })
    }

    /// Records one event, if the world takes it.
    fn record(&mut self, kind: &str, task: Option<&str>, mut payload: Value) -> Fallible<()> {
        if let (Some(task), Some(fields)) = (task, payload.as_object_mut()) {
            fields.insert("task".into(), task.into());
        }
        let event = Event::parse(kind, &payload.to_string())?;
        self.world.check(&event)?;
        self.at_ms += STEP_MS;
        self.world.apply(&event, self.at_ms);
        self.batch.push(Draft {
            kind: event.kind(),
            session: self.world.session(event.pid()),
            pid: Some(event.pid().0),
            task: event.task().map(|task| task.to_string()),
            payload: event.payload()?,
            at_ms: self.at_ms,
            class: match event.weight() {
                Weight::Progress | Weight::Fact => Class::Fact,
                Weight::Security => Class::Security,
            },
        });
        if self.batch.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Fallible<()> {
        if !self.batch.is_empty() {
            self.journal.append(std::mem::take(&mut self.batch)).wait()?;
        }
        Ok(())
    }

    /// What looks like a hash.
    fn hash(&mut self) -> String {
        self.number += 1;
        (1..=4u64).map(|part| format!("{:016x}", self.number.wrapping_mul(part).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    fn task(&mut self) -> Fallible<()> {
        let id = self.world.next_task();
        let (pid, zone, number) = (self.worker, self.zone, id.0);
        let task = id.to_string();
        let of = Some(task.as_str());
        let prompt = format!("implement part {number} of the parser, with tests, and tell what you found");
        self.record(
            "task.queued",
            of,
            json!({"pid": pid, "zone": zone, "mode": "act", "prompt": prompt, "brain": "native", "priority": 0, "calls_max": null, "original": null}),
        )?;
        self.record("task.started", of, json!({"pid": pid, "episode": 1}))?;
        let head = "9b5de28212d3a7d6b2ec94177ed8510d1c0e4c9a";
        self.record("workspace.opened", of, json!({"pid": pid, "head": head, "since_us": self.at_ms * 1000}))?;
        for step in 0..STEPS {
            self.think(of)?;
            self.record("brain.said", of, json!({"pid": pid, "text": format!("Step {step}: I read the tokenizer and write its test.")}))?;
            let file = format!("src/part_{}/file_{}.rs", number % 40, (number * 7 + step * 3) % 500);
            self.call(of, "fs.read", json!({"path": file}), &[&file], true, "read-project", None)?;
            match step % 5 {
                0 => self.call(
                    of,
                    "search.grep",
                    json!({"pattern": "fn parse_[a-z]+", "path": "src"}),
                    &["src"],
                    true,
                    "read-project",
                    None,
                )?,
                1 | 3 => {
                    let text = "    assert_eq!(parse(\"1 + 2\"), Ok(Expr::Add(1, 2)));\n".repeat(4);
                    self.call(of, "fs.write", json!({"path": file, "content": text}), &[&file], false, "write-overlay", None)?;
                }
                2 => self.call(of, "shell.run", json!({"command": ["cargo", "test", "-q"]}), &[], false, "run-in-sandbox", None)?,
                _ if number.is_multiple_of(2) => self.question(of, number)?,
                _ => self.refusal(of)?,
            }
        }
        self.record("task.finished", of, json!({"pid": pid, "summary": format!("part {number} is there, with its tests")}))?;
        self.record("workspace.closed", of, json!({"pid": pid}))
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one record")]
    fn call(
        &mut self,
        of: Option<&str>,
        tool: &str,
        input: Value,
        paths: &[&str],
        reads: bool,
        rule: &str,
        grant: Option<&str>,
    ) -> Fallible<()> {
        let call = self.admit(of, tool, &input, paths, reads, rule, grant)?;
        let output = match tool {
            "shell.run" => {
                json!({"exit": 0, "stdout": "running 12 tests\n............\ntest result: ok. 12 passed\n", "stderr": "", "ms": 812})
            }
            "search.grep" => {
                json!({"matches": [{"path": "src/lib.rs", "line": 17, "text": "fn parse_line(text: &str) -> Option<Line> {"}], "truncated": false})
            }
            _ => {
                let content =
                    "//! One part of the parser.\n\nuse crate::token::Token;\n\npub fn parse(tokens: &[Token]) -> Result<Expr, Error> {\n"
                        .repeat(3);
                json!({"bytes": content.len(), "content": content, "encoding": "utf-8", "offset": 0, "path": paths.first(), "size": content.len(), "truncated": false})
            }
        };
        let pid = self.worker;
        self.record(
            "call.finished",
            of,
            json!({"pid": pid, "call": call, "ok": true, "output": output, "blob": null, "blob_bytes": 0, "ms": 3}),
        )
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one record")]
    fn admit(
        &mut self,
        of: Option<&str>,
        tool: &str,
        input: &Value,
        paths: &[&str],
        reads: bool,
        rule: &str,
        grant: Option<&str>,
    ) -> Fallible<String> {
        let call = self.world.next_call().to_string();
        let (digest, bind) = (self.hash(), self.hash());
        let rooms = if tool == "shell.run" { json!([{"template": "default", "network": "none"}]) } else { json!([]) };
        self.calls += 1;
        self.record(
            "call.admitted",
            of,
            json!({"pid": self.worker, "call": call, "tool": tool, "input": input, "digest": digest, "bind": bind, "hands": "kernel", "read_only": reads,
                "rules": [rule], "grant": grant, "token": null, "paths": paths, "size": null, "of": null, "up": null, "rooms": rooms}),
        )?;
        Ok(call)
    }

    /// A request to a model.
    fn think(&mut self, of: Option<&str>) -> Fallible<()> {
        let (pid, provider, model) = (self.worker, "anthropic", "claude-sonnet-4-5");
        let body = self.hash();
        let input = json!({"asked_for": "tactical", "body": body, "bytes": 18_204, "dialect": "anthropic", "model": model, "output_max": 8192,
            "provider": provider, "stream": true, "tier": "tactical"});
        let call = self.admit(of, "model.request", &input, &[], true, "ask-models", None)?;
        let reserved = json!({"pid": pid, "call": call, "provider": provider, "model": model, "tier": "tactical", "tokens": 26_396, "micros": 177_492, "lease": null});
        self.record("model.reserved", of, reserved)?;
        let figures = json!({"requests": 1, "input": 812, "output": 310, "cache_read": 14_000, "cache_write": 0, "reasoning": 0, "micros": 11_286, "estimated": 0});
        self.record(
            "model.used",
            of,
            json!({"pid": pid, "call": call, "provider": provider, "model": model, "tier": "tactical", "figures": figures, "charged_tokens": 15_122,
                "charged_micros": 11_286, "status": 200, "first_byte_ms": 640, "asked": null, "answered": null, "notes": [], "ended": "complete",
                "parts": {"input": 2436, "output": 4650, "cache": 4200}}),
        )?;
        let output = json!({"bytes": 9_412, "complete": true, "status": 200});
        self.record(
            "call.finished",
            of,
            json!({"pid": pid, "call": call, "ok": true, "output": output, "blob": null, "blob_bytes": 0, "ms": 4_120}),
        )
    }

    /// A person is asked about a dependency, and says yes to most.
    fn question(&mut self, of: Option<&str>, number: u64) -> Fallible<()> {
        let (pid, zone) = (self.worker, self.zone);
        let (review, bind) = (self.world.next_review().to_string(), self.hash());
        let input = json!({"command": ["npm", "install", format!("left-pad-{}", number % 97)]});
        let (what, reason) =
            (json!({"is": "exact", "tool": "shell.run", "bind": bind}), "a new dependency is foreign code that runs as yours");
        self.calls += 1;
        self.record(
            "review.asked",
            of,
            json!({"pid": pid, "review": review, "tool": "shell.run", "input": input, "bind": bind, "like": what, "reasons": [reason],
                "rules": ["install-dependencies"], "paths": [], "size": null, "zone": zone, "whole": null, "room": {"template": "default", "network": "none"}}),
        )?;
        let answer = if number % 97 < 90 { "allow" } else { "deny" };
        self.record(
            "review.answered",
            of,
            json!({"pid": pid, "review": review, "answer": answer, "by": "operator", "reason": null, "alternative": null}),
        )?;
        if answer == "deny" {
            return Ok(());
        }
        let grant = self.world.next_grant().to_string();
        self.record(
            "grant.given",
            of,
            json!({"pid": pid, "grant": grant, "scope": {"of": "process", "pid": pid}, "what": what, "terms": {"uses_left": 1}, "review": review, "by": "operator"}),
        )?;
        self.call(of, "shell.run", input, &[], false, "install-dependencies", Some(&grant))
    }

    /// The policy denies a call.
    fn refusal(&mut self, of: Option<&str>) -> Fallible<()> {
        let (call, digest) = (self.world.next_call().to_string(), self.hash());
        self.calls += 1;
        self.record(
            "call.refused",
            of,
            json!({"pid": self.worker, "call": call, "tool": "fs.read", "input": {"path": ".env"}, "digest": digest, "code": "denied",
                "reason": "`fs.read` on `.env` is denied by `secrets`: secrets stay with you", "hint": "work from a template such as .env.example, or ask the operator to do this step",
                "rules": ["secrets"], "paths": [".env"], "size": null, "of": null}),
        )
    }
}
