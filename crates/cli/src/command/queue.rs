//! `skep queue`: what workers have to do, and in which order.

use crate::command::act::worker;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::measure::plural;
use crate::show::{Line, Page, queue};
use clap::Subcommand;
use wire::method::Nothing;
use wire::method::queue::{QueueChangeParams, QueueListParams, QueueListResult, QueueRemoveParams};
use wire::method::task::{TaskStatus, TaskView};
use wire::table::{QueueList, QueuePause, QueueRemove, QueueResume};
use wire::{ErrorCode, KernelClient, TaskId};

/// Show and change what workers have to do
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep queue                    every worker's tasks\n  skep queue --who worker.2\n  \
skep queue rm 3               removes the third task of the list\n  skep queue rm task-7\n  skep queue pause              the worker starts no further task\n  \
skep queue resume\n  skep queue clear\n\n\
A task that is being worked on goes on; `skep cancel TASK` ends it.")]
pub struct QueueArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    of: QueueOf,
}

/// Whose queue.
#[derive(Debug, Default, clap::Args)]
struct QueueOf {
    /// This worker's queue: [role][.n][@brain] [default: all are shown, the first is changed]
    #[arg(long, value_name = "WHO", global = true)]
    who: Option<String>,
    /// The work tree: @branch, repo@branch, org/repo@branch, or a folder [default: where you are]
    #[arg(long, value_name = "ZONE", global = true)]
    zone: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Take a task out of the queue
    #[command(after_help = "Examples:\n  skep queue rm 2\n  skep queue rm task-7\n  skep queue rm 1 --who worker.2")]
    Rm {
        /// Its number in `skep queue`, or its id
        #[arg(value_name = "N")]
        which: String,
    },
    /// Take everything out of a queue
    #[command(after_help = "Examples:\n  skep queue clear\n  skep queue clear --who worker.2 --yes")]
    Clear {
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Have a worker start no further task
    #[command(after_help = "Examples:\n  skep queue pause\n  skep queue pause --who researcher.1")]
    Pause,
    /// Have a worker start queued tasks again
    #[command(after_help = "Examples:\n  skep queue resume")]
    Resume,
}

impl QueueArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let place = PlaceArgs { zone: self.of.zone, site: None };
        let (path, who) = (place.folder(console, AbsentTree::Refuse).await?, self.of.who.map(worker).transpose()?);
        let mut kernel = console.kernel().await?;
        let change = QueueChangeParams { path: path.clone(), who: who.clone() };
        let result = match self.action {
            None => kernel.call::<QueueList>(&QueueListParams { path, who }).await?,
            Some(Action::Pause) => kernel.call::<QueuePause>(&change).await?,
            Some(Action::Resume) => kernel.call::<QueueResume>(&change).await?,
            Some(Action::Rm { which }) => {
                let task = match which.parse::<TaskId>() {
                    Ok(task) => task,
                    Err(_) => numbered(&tasks_queued(&mut kernel, change).await?, &which)?,
                };
                return remove(console, &mut kernel, vec![task]).await;
            }
            Some(Action::Clear { yes }) => {
                let tasks = tasks_queued(&mut kernel, change).await?;
                let queued: Vec<TaskId> = tasks.iter().filter(|task| task.state == TaskStatus::Queued).map(|task| task.task).collect();
                let question = format!("take {} out of the queue?", plural(queued.len() as u64, "task"));
                if !queued.is_empty() && !yes && !console.confirm(&question, "--yes")? {
                    console.note(Line::new().faint("nothing changed"));
                    return OK;
                }
                return remove(console, &mut kernel, queued).await;
            }
        };
        console.show(&result, queue::list);
        OK
    }
}

/// What one worker has to do.
async fn tasks_queued(kernel: &mut KernelClient, of: QueueChangeParams) -> Result<Vec<TaskView>, CommandError> {
    let who = of.who.or_else(|| Some("hero".to_owned()));
    let QueueListResult { queues, .. } = kernel.call::<QueueList>(&QueueListParams { path: of.path, who }).await?;
    Ok(queues.into_iter().flat_map(|queue| queue.tasks).collect())
}

fn numbered(tasks: &[TaskView], which: &str) -> Result<TaskId, CommandError> {
    let found = which.parse::<usize>().ok().and_then(|number| tasks.get(number.checked_sub(1)?));
    found.map(|task| task.task).ok_or_else(|| {
        CommandError::new(ErrorCode::NotFound, format!("there is no `{which}` in the queue"))
            .why(format!("it has {}", plural(tasks.len() as u64, "task")))
            .fix("`skep queue` numbers them")
    })
}

async fn remove(console: &Console, kernel: &mut KernelClient, tasks: Vec<TaskId>) -> ExitResult {
    kernel.call::<QueueRemove>(&QueueRemoveParams { tasks: tasks.clone() }).await?;
    console.show(&Nothing {}, |_| {
        let removed = tasks.iter().map(|task| Line::new().good("✓ ").name(task.to_string()).plain(" is out of the queue"));
        let page: Page = removed.collect();
        if page.is_empty() { Page(vec![Line::new().faint("the queue is empty")]) } else { page }
    });
    OK
}
