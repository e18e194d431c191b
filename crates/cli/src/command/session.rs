//! `skep session`: tasks that are done by plans.

pub mod follow;
mod replay;
pub mod terms;

use crate::command::status::here;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::measure::now_ms;
use crate::show::plan::ROWS_SHOWN;
use crate::show::session;
use clap::Subcommand;
use follow::{FollowOptions, follow, tell_end};
use jiff::tz::TimeZone;
use wire::TaskId;
use wire::method::session::{SessionListParams, SessionShowParams};
use wire::method::task::TaskIdParams;
use wire::table::{SessionAbort, SessionList, SessionResume, SessionShow};

/// Look at sessions of `skep run`, and end or resume them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep session list\n  skep session show task-4\n  skep session watch task-4\n  skep session abort task-4\n  \
skep session resume task-4\n  skep session replay task-4\n\n\
A session is a task: `skep diff`, `skep merge`, `skep log` and `skep review`\nwork on it as on any other."
)]
pub struct SessionArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List sessions: those under way first, then the newest
    #[command(after_help = "Examples:\n  skep session list\n  skep session list --all\n  skep session list --json")]
    List {
        /// Of every repository
        #[arg(long, conflicts_with_all = ["zone", "site"])]
        all: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Show a session, its plan and how far each step is
    #[command(after_help = "Examples:\n  skep session show task-4\n  skep session show task-4 --all      every step\n  \
skep session show task-4 --until 120   as it was after record 120\n  skep session show task-4 --json")]
    Show {
        /// Its id, such as task-4
        session: TaskId,
        /// Every step, however many there are
        #[arg(long)]
        all: bool,
        /// As it was after this record
        #[arg(long, value_name = "RECORD")]
        until: Option<u64>,
    },
    /// Follow one session until it ends
    #[command(
        after_help = "Examples:\n  skep session watch task-4\n  skep session watch task-4 --after 0 | cat   its story from the beginning\n  \
skep session watch task-4 --after 120 --json   its records from there on\n\n\
On a terminal it draws the plan and takes the answer to a question where it is\nasked. Ctrl-c returns; the session goes on."
    )]
    Watch {
        /// Its id, such as task-4
        session: TaskId,
        /// Tell what comes behind this record, not what comes from now on
        #[arg(long, value_name = "RECORD")]
        after: Option<u64>,
    },
    /// End a session; what it changed is kept
    #[command(after_help = "Examples:\n  skep session abort task-4\n\nIt comes back when no step of it runs any more.")]
    Abort {
        /// Its id, such as task-4
        session: TaskId,
    },
    /// Have a session go on where it stopped
    #[command(after_help = "Examples:\n  skep session resume task-4\n  skep session resume task-4 --detach\n\n\
Steps that ended are not made again. A step that was cut off while it changed\nsomething asks you first.")]
    Resume {
        /// Its id, such as task-4
        session: TaskId,
        /// Return at once
        #[arg(long)]
        detach: bool,
    },
    Replay(replay::SessionReplayArgs),
}

impl SessionArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            Action::List { all, place } => {
                let path = match place.is_given() {
                    true => Some(place.folder(console, AbsentTree::Refuse).await?),
                    false => here(all)?,
                };
                let result = console.kernel().await?.call::<SessionList>(&SessionListParams { path }).await?;
                console.show(&result, |result| session::list(&result.sessions, now_ms()));
                OK
            }
            Action::Show { session, all, until } => {
                let params = SessionShowParams { task: session, brief: false, until_seq: until };
                let view = console.kernel().await?.call::<SessionShow>(&params).await?;
                let rows = (!all).then_some(ROWS_SHOWN);
                console.show(&view, |view| session::detail(view, rows, now_ms(), &TimeZone::system(), console.out.columns()));
                OK
            }
            Action::Watch { session, after } => {
                let end = follow(session, FollowOptions::of_watch(after), console).await?;
                Ok(end.exit_code())
            }
            Action::Abort { session } => {
                let mut kernel = console.kernel().await?;
                let view = console.wait("ending", kernel.call::<SessionAbort>(&TaskIdParams { task: session })).await?;
                console.show_wrapped(&view, session::aborted);
                OK
            }
            Action::Resume { session, detach } => {
                let mut kernel = console.kernel().await?;
                let params = SessionShowParams { task: session, brief: true, until_seq: None };
                let before = kernel.call::<SessionShow>(&params).await?.seq;
                let result = console.wait("taking it up", kernel.call::<SessionResume>(&TaskIdParams { task: session })).await?;
                if detach {
                    console.show_wrapped(&result, session::resumed);
                    return OK;
                }
                let end = follow(session, FollowOptions::of_run(before), console).await?;
                tell_end(&end, console)
            }
            Action::Replay(replay) => replay.run(console).await,
        }
    }
}
