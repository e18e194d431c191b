//! What processes say of their work: log lines and metrics.
//!
//! A line is progress: it may be half a second late, and who writes too many has them counted.

use crate::calls::{CallEffect, TreeCall};
use crate::send::notice;
use crate::{LogLine, Tree};
use gate::TreeRequest;
use serde_json::json;
use std::collections::BTreeMap;
use world::event::{BudgetWarned, ProcLogged, ProcReported};
use world::{Account, Code, Event, Pid, Refusal, Stop, World, limits};

/// The metric that counts as spent.
const TOKENS: &str = "tokens_consumed";

impl Tree {
    pub async fn log(&self, by: Pid, line: LogLine) -> Result<(), Stop> {
        self.may(by, "log.write")?;
        let LogLine { level, message, fields } = line;
        let (level, message) = (cut(level, limits::LOG_FIELD_MAX), cut(message, limits::LOG_LINE_MAX));
        let fields = fields.into_iter().take(limits::LOG_FIELDS_MAX);
        let fields = fields.map(|(name, value)| (cut(name, limits::LOG_FIELD_MAX), cut(value, limits::LOG_FIELD_MAX))).collect();
        Ok(self.ledger.progress(by, None, ProcLogged { pid: by, task: None, level, message, fields })?)
    }

    /// Takes note of a figure. `tokens_consumed` is a claim: it adds to what the process spent, where it has not asked a model through the gateway.
    pub async fn metric(&self, by: Pid, name: &str, value: f64) -> Result<(), Stop> {
        if !value.is_finite() {
            return Err(Refusal::new(Code::BadInput, format!("`{name}` is no number")).into());
        }
        if name != TOKENS {
            let fields = BTreeMap::from([("event_type".to_owned(), "metric".to_owned()), ("value".to_owned(), value.to_string())]);
            return self.log(by, LogLine { level: "info".into(), message: name.to_owned(), fields }).await;
        }
        if value < 0.0 {
            return Err(Refusal::new(Code::BadInput, "tokens that were used are not given back").into());
        }
        if let Some(refusal) = self.ledger.flood_refusal(by) {
            return Err(refusal.into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is not negative, and a cast stops at the largest number"
        )]
        let tokens = value as u64;
        let input = json!({ "name": name, "value": tokens });
        let call = TreeCall { by, tool: "metric.report", input, about: Some(TreeRequest::Own), read_only: false };
        let claimed = self
            .commit_call(call, |world, _, _| {
                let run = world.processes.get(&by).and_then(|process| process.run.as_deref());
                let run = run.ok_or_else(|| Refusal::new(Code::WrongState, format!("process {by} has no program whose tokens count")))?;
                let report = run.report.as_ref();
                let claim = ProcReported {
                    pid: by,
                    task: None,
                    state: report.and_then(|report| report.state),
                    context_permille: report.and_then(|report| report.context_permille),
                    tokens: Some(run.claimed.saturating_add(tokens)),
                };
                Ok(CallEffect { events: vec![claim.into()], output: json!({ "counts": !run.uses_gateway }), value: !run.uses_gateway })
            })
            .await?;
        if claimed {
            self.end_used_up(by);
            self.warn_of_caps(by).await
        } else {
            Ok(())
        }
    }

    /// Whoever comes to the end of a budget by what it claims is told, and so is each one above whose budget it is.
    async fn warn_of_caps(&self, by: Pid) -> Result<(), Stop> {
        if self.ledger.look(|world| nearly(world, by).is_empty()) {
            return Ok(());
        }
        let pending = self.ledger.commit(|world, now_ms| {
            let (mut events, mut arrivals) = (Vec::new(), Vec::new());
            for (pid, what, used, cap) in nearly(world, by) {
                let kind = if used >= cap { "budget_exceeded" } else { "budget_warning" };
                let body = json!({ "pid": pid, "what": what, "used": used, "cap": cap }).to_string().into_bytes();
                events.push(Event::from(BudgetWarned { pid, task: None, what: what.clone(), used, cap }));
                // One record of a kind in a commit has the next number: others are told by the follower of the journal.
                if arrivals.is_empty()
                    && let Some((sent, arrival)) = notice(world, by, kind, body, now_ms)
                {
                    events.push(sent.into());
                    arrivals.push(arrival);
                    self.told_of_cap.lock().insert((pid, what), by);
                }
            }
            (events, arrivals)
        })?;
        let arrivals = pending.durable().await?;
        self.announce(&arrivals);
        Ok(())
    }
}

/// Caps from a process up of which most is spent and nobody was told.
fn nearly(world: &World, by: Pid) -> Vec<(Pid, String, u64, u64)> {
    let of = |pid: Pid, account: &Account| account.nearly().into_iter().map(|(what, used, cap)| (pid, what, used, cap)).collect::<Vec<_>>();
    let accounts = world.lineage(by).into_iter().filter_map(|pid| {
        let account = world.books.accounts.get(&pid).filter(|_| world.processes.contains_key(&pid))?;
        Some((pid, account))
    });
    accounts.flat_map(|(pid, account)| of(pid, account)).collect()
}

fn cut(mut text: String, max: usize) -> String {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
