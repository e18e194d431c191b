//! The task that keeps a child: one call at a time, and a new child for one that was lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use policy::Opinion;
use sandbox::{Template, Workspace};
use tokio::sync::{mpsc, oneshot};

use super::running::RunningChild;
use super::{EngineState, Restarts, Status, lost, opinions};

/// A call that waits for its opinions.
pub(super) struct RuleQuestion {
    /// The whole frame.
    pub(super) order: Vec<u8>,
    pub(super) reply: oneshot::Sender<Vec<Opinion>>,
}

/// What a keeper hears from its handles.
pub(super) struct Wishes {
    pub(super) questions: mpsc::Receiver<RuleQuestion>,
    /// Apart from the questions, because an end does not wait behind them.
    pub(super) stops: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Wishes {
    /// The next question, or that there shall be none. All handles gone is an end too.
    async fn next(&mut self) -> Result<RuleQuestion, Stopped> {
        tokio::select! {
            biased;
            stop = self.stops.recv() => Err(Stopped(stop)),
            question = self.questions.recv() => question.ok_or(Stopped(None)),
        }
    }
}

pub(super) struct ChildKeeper {
    pub(super) workspace: Workspace,
    /// The workspace's directory, removed at the end.
    pub(super) work: PathBuf,
    pub(super) argv: Vec<String>,
    /// The frame that loads the rules.
    pub(super) load: Vec<u8>,
    pub(super) bounds: Template,
    pub(super) rules: Vec<String>,
    pub(super) wishes: Wishes,
    pub(super) status: Arc<Mutex<Status>>,
    pub(super) restarts: Restarts,
}

/// Nobody wants opinions any more; somebody may wait to hear that all is gone.
struct Stopped(Option<oneshot::Sender<()>>);

/// Why a child serves no longer.
enum Over {
    Stopped(Stopped),
    Lost(String),
}

impl ChildKeeper {
    pub(super) async fn run(mut self, mut running: RunningChild) {
        let stopped = loop {
            let over = self.serve(&mut running).await;
            if let Over::Lost(why) = &over {
                self.gone(why);
            }
            running.end().await;
            match over {
                Over::Stopped(stopped) => break stopped,
                Over::Lost(why) => match self.replace(why).await {
                    Ok(next) => running = next,
                    Err(stopped) => break stopped,
                },
            }
        };
        self.show(|status| {
            status.state = EngineState::Stopped;
            status.pid = None;
        });
        // Whoever still waits hears that it was stopped, as the queue is gone.
        drop(self.wishes);
        close(self.workspace, self.work).await;
        if let Stopped(Some(done)) = stopped {
            // Who asked for the end may have gone itself.
            let _ = done.send(());
        }
    }

    /// Hands calls to the child until it is lost or not wanted any more.
    async fn serve(&mut self, running: &mut RunningChild) -> Over {
        loop {
            let question = tokio::select! {
                biased;
                why = running.disturbed() => return Over::Lost(why),
                question = self.wishes.next() => question,
            };
            let RuleQuestion { order, reply } = match question {
                Ok(question) => question,
                Err(stopped) => return Over::Stopped(stopped),
            };
            if reply.is_closed() {
                continue;
            }
            let heard = running.judge(&order).await;
            let heard = heard.and_then(|answers| opinions(&self.rules, answers).ok_or_else(|| "it said too much or too little".to_owned()));
            match heard {
                // Who asked may have given up.
                Ok(said) => drop(reply.send(said)),
                Err(why) => {
                    // Shown before it is told: who hears of the loss finds no child that is up.
                    self.gone(&why);
                    drop(reply.send(lost(why.as_str())));
                    return Over::Lost(why);
                }
            }
            if let Err(why) = running.ready().await {
                return Over::Lost(why);
            }
        }
    }

    /// Starts another child, and denies what is asked meanwhile. After too many it only denies.
    async fn replace(&mut self, mut why: String) -> Result<RunningChild, Stopped> {
        loop {
            let Some(before) = self.restarts.take(Instant::now()) else {
                self.show(|status| status.state = EngineState::Down { why: why.clone() });
                let told = format!("it failed too often and stays down: {why}");
                return deny_until(&mut self.wishes, &told, std::future::pending()).await;
            };
            self.gone(&why);
            self.show(|status| status.restarts += 1);
            let start = async {
                tokio::time::sleep(pause(before)).await;
                RunningChild::start(&self.workspace, &self.argv, &self.load, &self.bounds).await
            };
            match deny_until(&mut self.wishes, &format!("it is being restarted: {why}"), start).await? {
                Ok(next) if next.rules() == self.rules => {
                    self.show(|status| {
                        status.state = EngineState::Up;
                        status.pid = Some(next.pid());
                    });
                    return Ok(next);
                }
                Ok(_) => why = "it loaded other rules than before".to_owned(),
                Err(error) => why = error.to_string(),
            }
        }
    }

    fn gone(&self, why: &str) {
        self.show(|status| {
            status.state = EngineState::Restarting { why: why.to_owned() };
            status.pid = None;
        });
    }

    fn show(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock());
    }
}

/// Nothing before the first restart in a window, then longer and longer.
fn pause(before: usize) -> Duration {
    if before == 0 { Duration::ZERO } else { Duration::from_millis(50 << before.min(6)) }
}

/// Waits for `future`, and denies whatever is asked meanwhile.
async fn deny_until<T>(wishes: &mut Wishes, why: &str, future: impl Future<Output = T>) -> Result<T, Stopped> {
    tokio::pin!(future);
    loop {
        tokio::select! {
            value = &mut future => return Ok(value),
            // Who asked may have gone.
            question = wishes.next() => drop(question?.reply.send(lost(why))),
        }
    }
}

/// Ends the room and removes what it left on disk.
pub(super) async fn close(workspace: Workspace, work: PathBuf) {
    // A holder that could not be watched is killed all the same.
    let _ = workspace.close().await;
    let _ = tokio::task::spawn_blocking(move || sandbox::sweep(&[work], |_| false)).await;
}
