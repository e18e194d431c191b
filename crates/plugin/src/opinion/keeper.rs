//! The task that keeps a child: one call at a time, and a new child for one that was lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use policy::Opinion;
use sandbox::Workspace;
use tokio::sync::{mpsc, oneshot};

use super::running::Running;
use super::{Restarts, State, Status, lost, opinions};

/// What comes through the queue.
pub(super) enum Message {
    Judge {
        /// The whole frame.
        order: Vec<u8>,
        reply: oneshot::Sender<Vec<Opinion>>,
    },
    Stop(oneshot::Sender<()>),
}

pub(super) struct Keeper {
    pub(super) workspace: Workspace,
    /// The workspace's directory, removed at the end.
    pub(super) work: PathBuf,
    pub(super) argv: Vec<String>,
    /// The frame that loads the rules.
    pub(super) load: Vec<u8>,
    pub(super) rules: Vec<String>,
    pub(super) messages: mpsc::Receiver<Message>,
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

impl Keeper {
    pub(super) async fn run(mut self, mut running: Running) {
        let stopped = loop {
            let over = self.serve(&mut running).await;
            self.show(|status| status.pid = None);
            running.end().await;
            match over {
                Over::Stopped(stopped) => break stopped,
                Over::Lost(why) => match self.replace(why).await {
                    Ok(next) => running = next,
                    Err(stopped) => break stopped,
                },
            }
        };
        self.show(|status| status.state = State::Stopped);
        // Whoever still waits hears that it was stopped, as the queue is gone.
        drop(self.messages);
        close(self.workspace, self.work).await;
        if let Stopped(Some(done)) = stopped {
            // Who asked for the end may have gone itself.
            let _ = done.send(());
        }
    }

    /// Hands calls to the child until it is lost or not wanted any more.
    async fn serve(&mut self, running: &mut Running) -> Over {
        loop {
            let message = tokio::select! {
                biased;
                why = running.disturbed() => return Over::Lost(why),
                message = self.messages.recv() => message,
            };
            let (order, reply) = match message {
                Some(Message::Judge { order, reply }) => (order, reply),
                Some(Message::Stop(done)) => return Over::Stopped(Stopped(Some(done))),
                None => return Over::Stopped(Stopped(None)),
            };
            if reply.is_closed() {
                continue;
            }
            let heard = running.judge(&order).await;
            let heard = heard.and_then(|answers| opinions(&self.rules, answers).ok_or_else(|| "it miscounted its rules".to_owned()));
            // The caller may have given up; the child's state matters all the same.
            let (said, fault) = match heard {
                Ok(said) => (said, None),
                Err(why) => (lost(why.as_str()), Some(why)),
            };
            let _ = reply.send(said);
            if let Some(why) = fault {
                return Over::Lost(why);
            }
            if let Err(why) = running.ready().await {
                return Over::Lost(why);
            }
        }
    }

    /// Starts another child, and denies what is asked meanwhile. After too many it only denies.
    async fn replace(&mut self, mut why: String) -> Result<Running, Stopped> {
        loop {
            let Some(before) = self.restarts.take(Instant::now()) else {
                self.show(|status| status.state = State::Down { why: why.clone() });
                let told = format!("it failed too often and stays down: {why}");
                return deny_until(&mut self.messages, &told, std::future::pending()).await;
            };
            self.show(|status| {
                status.state = State::Restarting { why: why.clone() };
                status.restarts += 1;
            });
            let start = async {
                tokio::time::sleep(pause(before)).await;
                Running::start(&self.workspace, &self.argv, &self.load).await
            };
            match deny_until(&mut self.messages, &format!("it is being restarted: {why}"), start).await? {
                Ok(next) if next.rules() == self.rules => {
                    self.show(|status| {
                        status.state = State::Up;
                        status.pid = Some(next.pid());
                    });
                    return Ok(next);
                }
                Ok(_) => why = "it loaded other rules than before".to_owned(),
                Err(error) => why = error.to_string(),
            }
        }
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
async fn deny_until<T>(messages: &mut mpsc::Receiver<Message>, why: &str, future: impl Future<Output = T>) -> Result<T, Stopped> {
    tokio::pin!(future);
    loop {
        let message = tokio::select! {
            value = &mut future => return Ok(value),
            message = messages.recv() => message,
        };
        match message {
            // Who asked may have gone.
            Some(Message::Judge { reply, .. }) => drop(reply.send(lost(why))),
            Some(Message::Stop(done)) => return Err(Stopped(Some(done))),
            None => return Err(Stopped(None)),
        }
    }
}

/// Ends the room and removes what it left on disk.
pub(super) async fn close(workspace: Workspace, work: PathBuf) {
    // A holder that could not be watched is killed all the same.
    let _ = workspace.close().await;
    let _ = tokio::task::spawn_blocking(move || sandbox::sweep(&[work], |_| false)).await;
}
