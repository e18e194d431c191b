//! One child in its room, seen from the kernel.

use std::time::Duration;

use sandbox::{Job, JobSpec, Limits, Stdio, Template, Workspace};
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::fault::PluginError;
use crate::frame::{self, ChildReply, RuleAnswer, VERSION};
use crate::limits::{END, EVALUATION, GRACE, SETTLE, START};

/// A child whose rules are loaded. Dropping it kills it.
pub(super) struct RunningChild {
    job: Job,
    orders: pipe::Sender,
    replies: pipe::Receiver,
    rules: Vec<String>,
    /// For one answer.
    patience: Duration,
}

impl RunningChild {
    /// Starts a child and has it load the rules.
    pub(super) async fn start(workspace: &Workspace, argv: &[String], load: &[u8], bounds: &Template) -> Result<RunningChild, PluginError> {
        let broken = |error: std::io::Error| PluginError::Child { why: format!("its pipes could not be made: {error}") };
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| broken(error.into()));
        let (order_read, order_write) = pipe()?;
        let (reply_read, reply_write) = pipe()?;
        let orders = pipe::Sender::from_owned_fd(order_write).map_err(broken)?;
        let replies = pipe::Receiver::from_owned_fd(reply_read).map_err(broken)?;
        let mut spec = JobSpec::exec(argv.iter().cloned());
        spec.limits = limits(bounds);
        let job = workspace.spawn(spec, Stdio::Fd(order_read), Stdio::Fd(reply_write), Stdio::Null).await.map_err(PluginError::Room)?;
        let mut running = RunningChild { job, orders, replies, rules: Vec::new(), patience: bounds.answer.unwrap_or(EVALUATION) + GRACE };
        match timeout(START, running.load(load)).await {
            Ok(Ok(rules)) => Ok(RunningChild { rules, ..running }),
            Ok(Err(error)) => Err(running.explain(error).await),
            Err(_) => Err(PluginError::Child { why: format!("it took more than {} s to load", START.as_secs()) }),
        }
    }

    async fn load(&mut self, load: &[u8]) -> Result<Vec<String>, PluginError> {
        let child = |why: String| PluginError::Child { why };
        match self.read_reply().await {
            Ok(ChildReply::Hello { version: VERSION }) => {}
            Ok(ChildReply::Hello { version }) => return Err(child(format!("it speaks version {version}, not {VERSION}"))),
            Ok(_) => return Err(child("it did not greet".to_owned())),
            Err(why) => return Err(child(why)),
        }
        frame::send(&mut self.orders, load).await.map_err(|error| child(error.to_string()))?;
        let heard = self.read_reply().await.map_err(|why| child(if why == ENDED { ENDED_READING.to_owned() } else { why }))?;
        let rules = match heard {
            ChildReply::Loaded { rules } => rules,
            ChildReply::Flawed(flaw) => return Err(PluginError::Flawed(flaw)),
            _ => return Err(child("it did not say what it loaded".to_owned())),
        };
        self.ready().await.map_err(child)?;
        Ok(rules)
    }

    /// Why a child did not start, if its room knows better than its pipes.
    async fn explain(self, error: PluginError) -> PluginError {
        if matches!(error, PluginError::Flawed(_)) {
            return error;
        }
        self.job.kill();
        match timeout(END, self.job.wait()).await {
            Ok(Err(room)) => PluginError::Room(room),
            _ => error,
        }
    }

    pub(super) fn rules(&self) -> &[String] {
        &self.rules
    }

    pub(super) fn pid(&self) -> i32 {
        self.job.pid()
    }

    /// Comes back only when the child, which should wait for a call, speaks or ends.
    pub(super) async fn disturbed(&self) -> String {
        loop {
            // Ready may be an old state of affairs; only reading tells.
            if let Err(error) = self.replies.readable().await {
                return format!("it cannot be heard: {error}");
            }
            match self.replies.try_read(&mut [0]) {
                Ok(0) => return ENDED.to_owned(),
                Ok(_) => return "it spoke out of turn".to_owned(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return format!("it cannot be heard: {error}"),
            }
        }
    }

    /// One call's answers. After an error the child must be ended: what it says from then on belongs to nothing.
    pub(super) async fn judge(&mut self, order: &[u8]) -> Result<Vec<RuleAnswer>, String> {
        let late = self.patience;
        let asked = async {
            frame::send(&mut self.orders, order).await.map_err(|_| ENDED.to_owned())?;
            self.read_reply().await
        };
        match within(late, asked).await? {
            ChildReply::Judged(answers) => Ok(answers),
            _ => Err("it spoke out of turn".to_owned()),
        }
    }

    /// Waits until the next stage is set.
    pub(super) async fn ready(&mut self) -> Result<(), String> {
        match within(SETTLE, self.read_reply()).await? {
            ChildReply::Ready => Ok(()),
            _ => Err("it spoke out of turn".to_owned()),
        }
    }

    async fn read_reply(&mut self) -> Result<ChildReply, String> {
        frame::receive(&mut self.replies).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => ENDED.to_owned(),
            _ => format!("it spoke nonsense: {error}"),
        })
    }

    /// Kills the child and waits until it is gone.
    pub(super) async fn end(self) {
        self.job.kill();
        let _ = timeout(END, self.job.wait()).await;
    }
}

const ENDED: &str = "it ended";
/// A parser has no better way to say that its stack or its memory is at an end.
const ENDED_READING: &str = "it ended while it read the rule files; one of them may nest too deeply or need too much memory";

async fn within<T>(limit: Duration, future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(limit, future).await.unwrap_or_else(|_| Err(format!("it took more than {} ms and was killed", limit.as_millis())))
}

/// Bounds of the child; time is watched for each call, not for its life. It locks itself, so the profile is its own affair.
fn limits(bounds: &Template) -> Limits {
    Limits {
        memory_bytes: bounds.memory_bytes,
        data_bytes: bounds.memory_bytes,
        cpu_milli: bounds.cpu_milli,
        pids: bounds.pids,
        open_files: 64,
        file_bytes: Some(0),
        tmp_bytes: 1 << 20,
        shm_bytes: 1 << 20,
        ..Limits::default()
    }
}
