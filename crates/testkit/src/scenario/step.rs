//! What people do in a scenario, and the kernel they do it to.

use super::{journal, session::SessionStep};
use crate::bed::Bed;
use brain::script::BrainScript;
use brain::{Brain, BrainInput, Move, ToolCall};
use kernel::{CallOptions, Clock, Fault, FaultKind, Kernel, Reply, Stop, TokenRequest, Tuning, Verification};
use policy::Peer;
use sandbox::Launcher;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use world::event::BanGiven;
use world::{AtCap, Budget, CallPattern, Code, Pid, Refusal, ReviewId, ReviewState, Scope, Side, TaskId, TaskState, Terms};

#[derive(Debug, Clone)]
pub(super) enum ScenarioStep {
    Answer {
        how: Answered,
        terms: Box<Terms>,
        why: Option<String>,
    },
    Silent,
    Deny(ReviewId),
    Edit(String, String),
    /// Everything is committed, so HEAD moves.
    Commit,
    /// A merge with whose version of a path goes in.
    Merge(String, Side),
    /// The merge is taken back, with this phrase where it is denied.
    Undo(Option<String>),
    /// A file of the project, as it is now.
    Show(String),
    /// The masked files that git's store gives away.
    Stored,
    Trust,
    Token(String, TokenRequest),
    Call {
        who: Actor,
        token: Option<String>,
        call: String,
    },
    Ban {
        scope: Scope,
        tool: String,
        paths: Vec<String>,
    },
    Revoke(String),
    Cancel,
    /// The task goes on, told something more or not.
    Retry,
    Say(String),
    /// What is kept of it is destroyed.
    Drop,
    /// Its changes are merged after a look at them, with what else is wanted.
    MergeKept(kernel::MergeWish),
    /// Its merge is sent back with a comment, perhaps over the project as it is now.
    Changes {
        comment: Option<String>,
        newer_base: bool,
    },
    /// The last commit of a branch: its first line and its paths.
    Committed(String),
    Diff,
    Session(SessionStep),
    Pause,
    Resume,
    /// Everything may use so many tokens, and what comes then.
    Budget(u64, AtCap),
    /// So many tokens more.
    GrantBudget(u64),
    Replay,
    Acknowledge(u64),
    Verify,
    Wait(Duration),
    Restart,
    TamperRecord(u64),
    TamperCut(u64),
}

impl ScenarioStep {
    /// Does it come before the task?
    pub fn comes_first(&self) -> bool {
        matches!(self, ScenarioStep::Budget(..))
    }

    /// Does it need a new kernel?
    pub fn restarts(&self) -> bool {
        matches!(self, ScenarioStep::Restart | ScenarioStep::TamperRecord(_) | ScenarioStep::TamperCut(_))
    }
}

/// How far an answer reaches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answered {
    Once,
    Session,
    Always,
    No,
    Never,
}

/// Who presents a token.
#[derive(Debug, Clone, Copy)]
pub(super) enum Actor {
    Operator,
    Thief,
    Stranger,
    Reborn,
}

impl Actor {
    fn peer(self) -> Peer {
        let own = Peer { sandbox: "host".into(), pid: 4242, started_ms: 1 };
        match self {
            Actor::Operator => own,
            Actor::Thief => Peer { pid: 4243, ..own },
            Actor::Stranger => Peer { sandbox: "another".into(), ..own },
            Actor::Reborn => Peer { started_ms: 2, ..own },
        }
    }
}

/// A story on its way.
pub(super) struct Story<'a> {
    bed: &'a Bed,
    /// `None` only between two kernels.
    kernel: Option<Arc<Kernel>>,
    launchers: std::vec::IntoIter<Launcher>,
    clock: Clock,
    task: Option<TaskId>,
    tokens: HashMap<String, String>,
    /// What was told beside the journal.
    aside: String,
    /// The last record before the story.
    from: u64,
}

impl<'a> Story<'a> {
    pub async fn open(bed: &'a Bed, launchers: Vec<Launcher>) -> Result<Story<'a>, Stop> {
        let mut launchers = launchers.into_iter();
        let clock = Clock::default();
        let kernel = Some(boot(bed, &clock, launchers.next()).await?);
        Ok(Story { bed, kernel, launchers, clock, task: None, tokens: HashMap::new(), aside: String::new(), from: 0 })
    }

    pub(super) fn has_task(&self) -> bool {
        self.task.is_some()
    }

    pub(super) fn set_task(&mut self, task: TaskId) {
        self.task = Some(task);
    }

    pub(super) fn kernel(&self) -> Result<&Arc<Kernel>, Stop> {
        self.kernel.as_ref().ok_or_else(|| wrong("no kernel runs"))
    }

    /// Puts the project's own files in force, and gives what a look at them warned of.
    pub async fn trust(&mut self) -> Result<String, Stop> {
        let project = self.bed.project();
        let proposal = self.kernel()?.gate.init(&project).await?;
        if !proposal.ready() || !proposal.diff.is_empty() {
            crate::trust(self.kernel()?, &project, &proposal.hash).await?;
        }
        let warnings = self.kernel()?.check_policy(&project, None).await?.warnings;
        // Every project of a scenario is committed: what its store gives away is told where a story asks (`stored`). And many have a rule
        // about the one call that they are about, and none about reading.
        let told = warnings.iter().filter(|warning| !is_of_store(warning) && !warning.what.starts_with(kernel::NO_READS));
        Ok(told.map(|warning| format!("warned: {warning}\n")).collect())
    }

    /// What comes from here on is the story.
    pub fn begin(&mut self) -> Result<(), Stop> {
        self.from = self.kernel()?.ledger.journal().head().seq;
        Ok(())
    }

    pub async fn told(&self) -> Result<String, Stop> {
        self.question().await?;
        Ok(journal::told(self.kernel()?, self.bed, self.from)? + &self.aside)
    }

    /// Waits until every open workspace has its base: what a person does after that is told apart from what was there before.
    async fn based(&self) -> Result<(), Stop> {
        let open = |task: &world::Task| task.workspace.as_ref().is_some_and(|workspace| workspace.base.is_none());
        while self.kernel()?.ledger.look(|world| world.tasks.values().any(open)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Files are stamped by a clock that ticks every 10 ms at most: the next tick is surely another.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    /// Does one step. `false` when the story ends here.
    pub async fn take(&mut self, step: &ScenarioStep) -> Result<bool, Stop> {
        let question = self.question().await?;
        match step {
            ScenarioStep::Silent => return Ok(false),
            ScenarioStep::Answer { how, terms, why } => {
                let review = question.ok_or_else(|| wrong("nobody asks, and the scenario has an answer"))?;
                let reply = self.reply(review, *how, terms)?;
                self.kernel()?.answer(review, reply, "human", why.clone()).await?;
            }
            ScenarioStep::Deny(review) => drop(self.kernel()?.answer(*review, Reply::no(), "human", None).await?),
            ScenarioStep::Edit(path, text) => {
                self.based().await?;
                self.bed.write(path, text).map_err(|why| wrong(&why))?;
            }
            ScenarioStep::Commit => {
                self.based().await?;
                self.bed.commit().map_err(|why| wrong(&why))?;
            }
            ScenarioStep::Merge(path, side) => {
                let task = self.its_task()?;
                let merged = self.kernel()?.merge(task, None, [(path.clone(), *side)].into(), "human").await;
                self.note("merge", merged.map(drop))?;
            }
            ScenarioStep::Undo(phrase) => {
                let task = self.its_task()?;
                let undone = self.kernel()?.undo(task, "human", phrase.as_deref()).await;
                self.note(
                    "undo",
                    undone.and_then(|undone| match undone {
                        kernel::UndoOutcome::Paths { .. } => Ok(()),
                        kernel::UndoOutcome::Denied { reasons, phrase } => {
                            Err(Refusal::new(Code::Denied, format!("{}; `{phrase}` passes over that", reasons.join("; "))).into())
                        }
                    }),
                )?;
            }
            ScenarioStep::Show(path) => {
                let text = std::fs::read_to_string(self.bed.project().join(path)).unwrap_or_else(|error| error.kind().to_string());
                self.aside.push_str(&format!("{path}: {}\n", text.trim_end().replace('\n', "\\n")));
            }
            ScenarioStep::Stored => {
                let warnings = self.kernel()?.check_policy(&self.project().await?, None).await?.warnings;
                warnings
                    .iter()
                    .filter(|warning| is_of_store(warning) || warning.what.starts_with(kernel::NO_READS))
                    .for_each(|warning| self.aside.push_str(&format!("{}\n", warning.what)));
            }
            ScenarioStep::Trust => drop(self.trust().await?),
            ScenarioStep::Token(name, wish) => {
                let zone = self.kernel()?.gate.policies.zone(&self.project().await?)?.id;
                let (text, _) = self.kernel()?.issue_token(Pid::OPERATOR, zone, wish.clone(), Actor::Operator.peer()).await?;
                self.tokens.insert(name.clone(), text);
            }
            ScenarioStep::Call { who, token, call } => self.call(*who, token.as_deref(), call).await?,
            ScenarioStep::Ban { scope, tool, paths } => {
                let (scope, tool, paths) = (scope.clone(), tool.clone(), paths.clone());
                let what = CallPattern::Like { tool, paths, command: None, whole: false, host: None, port: None, method: None };
                let (pid, reason, by) = (Pid::OPERATOR, "no more of it".to_owned(), "human".to_owned());
                let ban = self.kernel()?.ledger.look(world::World::next_ban);
                let given = BanGiven { pid, task: None, ban, scope, what, reason, alternative: None, review: None, by };
                self.kernel()?.ledger.record(given).await?;
            }
            ScenarioStep::Revoke(id) => self.revoke(id).await?,
            ScenarioStep::Cancel => {
                let task = self.its_task()?;
                match self.kernel()?.cancel(task, "human").await {
                    Ok(()) | Err(Stop::Refused(_)) => {}
                    Err(fault) => return Err(fault),
                }
            }
            ScenarioStep::Retry
            | ScenarioStep::Say(_)
            | ScenarioStep::Drop
            | ScenarioStep::MergeKept(_)
            | ScenarioStep::Changes { .. }
            | ScenarioStep::Committed(_)
            | ScenarioStep::Session(_)
            | ScenarioStep::Diff => self.do_with_work(step, question).await?,
            ScenarioStep::Pause => self.kernel()?.workspaces.pause(self.its_task()?, "human").await?,
            ScenarioStep::Resume => self.kernel()?.workspaces.resume(self.its_task()?, "human").await?,
            ScenarioStep::Budget(tokens, at_cap) => {
                let budget = Budget { at_cap: *at_cap, ..budget_of(*tokens) };
                self.kernel()?.ledger.set_budget(Pid::KERNEL, Some(budget), "human").await?;
            }
            ScenarioStep::GrantBudget(tokens) => self.kernel()?.ledger.grant_budget(Pid::KERNEL, budget_of(*tokens), "human").await?,
            ScenarioStep::Replay => drop(self.kernel()?.replay(self.its_task()?, false).await?),
            ScenarioStep::Acknowledge(upto) => self.kernel()?.ledger.acknowledge(*upto, "human").await?,
            ScenarioStep::Verify => self.verify()?,
            ScenarioStep::Wait(time) => self.clock.skip(*time),
            ScenarioStep::Restart => self.reboot(|_| Ok(())).await?,
            ScenarioStep::TamperRecord(nth) => {
                let seq = self.from + nth;
                self.reboot(|journal| change(journal, seq)).await?;
            }
            ScenarioStep::TamperCut(last) => self.reboot(|journal| cut(journal, *last)).await?,
        }
        Ok(true)
    }

    /// Steps about what a task made.
    async fn do_with_work(&mut self, step: &ScenarioStep, question: Option<ReviewId>) -> Result<(), Stop> {
        match step {
            ScenarioStep::Retry => {
                let retried = self.kernel()?.retry(self.its_task()?, None, "human").await;
                self.note("retry", retried.map(drop))?;
            }
            ScenarioStep::Say(text) => {
                let said = self.kernel()?.say(self.its_task()?, text.clone(), "human").await;
                self.note("say", said.map(drop))?;
            }
            ScenarioStep::Drop => {
                let dropped = self.kernel()?.drop_work(self.its_task()?, "human").await;
                self.note("drop", dropped)?;
            }
            ScenarioStep::MergeKept(wish) => {
                let (kernel, task) = (self.kernel()?, self.its_task()?);
                let digest = kernel.diff(task).await?.digest;
                let merged = kernel.merge_as(task, Some(&digest), wish.clone(), "human").await;
                self.note("merge", merged.map(drop))?;
            }
            ScenarioStep::Changes { comment, newer_base } => {
                let review = question.ok_or_else(|| wrong("nobody asks, and the scenario has an answer"))?;
                let sent = self.kernel()?.request_changes(review, comment.clone(), *newer_base, "human").await;
                self.note("changes", sent.map(drop))?;
            }
            ScenarioStep::Committed(branch) => {
                let told = self.bed.committed(branch).map_err(|why| wrong(&why))?;
                self.aside.push_str(&format!("{branch}: {told}\n"));
            }
            ScenarioStep::Diff => {
                let files = self.kernel()?.diff(self.its_task()?).await?.files;
                let told = files.iter().map(|file| {
                    let refused = file.refused.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                    format!("   {} {}{refused}\n", file.kind, file.path)
                });
                self.aside += &std::iter::once("diff\n".to_owned()).chain(told).collect::<String>();
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn its_task(&self) -> Result<TaskId, Stop> {
        self.task.ok_or_else(|| wrong("there is no task"))
    }

    /// Proves the whole journal, and tells what is wrong with it.
    fn verify(&mut self) -> Result<(), Stop> {
        let report = self.kernel()?.ledger.journal().verify().map_err(|error| wrong(&error.to_string()))?;
        if report.is_intact() {
            self.aside.push_str("verified: intact\n");
        }
        for finding in &report.findings {
            let at = finding.seq.map_or_else(String::new, |seq| format!(" at {}", seq.saturating_sub(self.from)));
            let line = format!("verified: {}{at}\n", finding.what);
            if !self.aside.ends_with(&line) {
                self.aside.push_str(&line);
            }
        }
        Ok(())
    }

    /// A refusal is part of the story.
    pub(super) fn note(&mut self, what: &str, done: Result<(), Stop>) -> Result<(), Stop> {
        match done {
            Err(Stop::Refused(no)) => self.aside.push_str(&format!("{what} refused: {}\n", no.reason)),
            other => other?,
        }
        Ok(())
    }

    /// Waits until nothing moves and gives the question that is open.
    pub(super) async fn question(&self) -> Result<Option<ReviewId>, Stop> {
        if let Some(task) = self.task
            && let TaskState::Parked { review } = self.kernel()?.tasks.settled(task).await?.state
        {
            return Ok(Some(review));
        }
        let open = |world: &world::World| world.reviews.values().find(|review| review.state == ReviewState::Open).map(|review| review.id);
        Ok(self.kernel()?.ledger.look(open))
    }

    /// What the kernel is told for an answer.
    fn reply(&self, review: ReviewId, how: Answered, terms: &Terms) -> Result<Reply, Stop> {
        let pid = self.kernel()?.ledger.review(review)?.pid;
        let mut terms = terms.clone();
        // Without a boot of its own, the time counts from the answer on.
        if let Some(until) = terms.until.as_mut().filter(|until| until.boot.is_empty()) {
            *until = self.kernel()?.gate.until(until.boottime_ms);
        }
        Ok(match how {
            Answered::Once => Reply::Once { terms },
            Answered::No => Reply::no(),
            Answered::Session => {
                let session = self.kernel()?.ledger.look(|world| world.session(pid));
                Reply::Wide { scope: Scope::Session { session }, what: None, terms }
            }
            Answered::Always => Reply::Wide { scope: Scope::All, what: None, terms },
            Answered::Never => Reply::Never { scope: Scope::All, what: None, alternative: None },
        })
    }

    pub(super) async fn project(&self) -> Result<std::path::PathBuf, Stop> {
        kernel::locate(&self.bed.project()).await
    }

    async fn call(&mut self, who: Actor, token: Option<&str>, call: &str) -> Result<(), Stop> {
        let mut script = BrainScript::parse(&format!("call {call}")).map_err(|error| wrong(&error.to_string()))?;
        let start = BrainInput::Start {
            prompt: String::new(),
            settled: 0,
            resumed: false,
            memory: Vec::new(),
            further: brain::FurtherTurns::default(),
        };
        let Ok(Move::Call(mut calls)) = script.next(start).await else { return Err(wrong("wants TOOL key=value…")) };
        let Some(ToolCall { tool, input }) = calls.pop() else { return Err(wrong("wants TOOL key=value…")) };
        let token = match token {
            None => None,
            Some(name) => Some((self.tokens.get(name).cloned().ok_or_else(|| wrong("there is no such token"))?, who.peer())),
        };
        let kernel = self.kernel()?;
        let task = self.task.filter(|task| kernel.ledger.task(*task).is_ok_and(|task| !task.state.ended()));
        kernel.call(&self.project().await?, task, &tool, input, CallOptions { token, ..CallOptions::default() }).await?;
        Ok(())
    }

    async fn revoke(&self, id: &str) -> Result<(), Stop> {
        if let Ok(grant) = id.parse() {
            return self.kernel()?.ledger.revoke_grant(grant, "human").await;
        }
        if let Ok(ban) = id.parse() {
            return self.kernel()?.ledger.lift_ban(ban, "human").await;
        }
        let token = id.parse().map_err(|_| wrong("wants g-1, b-1 or t-1"))?;
        self.kernel()?.ledger.revoke_token(token, "human").await
    }

    /// Stops the kernel, does something to its journal, and starts another one.
    async fn reboot(&mut self, between: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<()>) -> Result<(), Stop> {
        let old = self.kernel.take().ok_or_else(|| wrong("no kernel runs"))?;
        old.stop("scenario").await?;
        drop(old);
        // The old kernel's last task may still hold the home for a moment.
        for _ in 0..500 {
            if kernel::Home::open(&self.bed.home()).is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let journal = rusqlite::Connection::open(self.bed.home().join("journal.db")).map_err(|error| wrong(&error.to_string()))?;
        between(&journal).map_err(|error| wrong(&error.to_string()))?;
        drop(journal);
        self.kernel = Some(boot(self.bed, &self.clock, self.launchers.next()).await?);
        Ok(())
    }
}

async fn boot(bed: &Bed, clock: &Clock, launcher: Option<Launcher>) -> Result<Arc<Kernel>, Stop> {
    let launcher = launcher.ok_or_else(|| wrong("no launcher is left"))?;
    let kernel = bed.boot_tuned(launcher, Tuning { clock: clock.clone(), ..Tuning::default() }).await?;
    // What the verification beside the work finds has its place in the story.
    while kernel.verifier.state() == Verification::Running {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(kernel)
}

/// A record is dated back by ten years: still a record, and another one.
fn change(journal: &rusqlite::Connection, seq: u64) -> rusqlite::Result<()> {
    let changed = "update record set line = replace(line, '\"timestamp\":\"202', '\"timestamp\":\"201') where seq = ?1";
    journal.execute(changed, [seq.to_string()]).map(drop)
}

fn cut(journal: &rusqlite::Connection, last: u64) -> rusqlite::Result<()> {
    journal.execute("delete from record where seq > (select max(seq) from record) - cast(?1 as integer)", [last.to_string()]).map(drop)
}

/// Tokens of every tier.
fn budget_of(tokens: u64) -> Budget {
    Budget { tokens: [(world::budget::ALL_TIERS.to_owned(), tokens)].into(), ..Budget::default() }
}

fn wrong(why: &str) -> Stop {
    Fault::new(FaultKind::Bug, "the scenario cannot go on", why).into()
}

fn is_of_store(warning: &policy::Warning) -> bool {
    warning.what.starts_with("git's store gives away")
}
