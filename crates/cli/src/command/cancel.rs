//! `skep cancel`: ends a task, a call or a process where it stands.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, task};
use wire::method::Nothing;
use wire::method::call::CallCancelParams;
use wire::method::process::ProcCancelParams;
use wire::method::task::TaskIdParams;
use wire::table::{CallCancel, ProcCancel, ProcList, TaskCancel};
use wire::{CallId, ErrorCode, KernelClient, Pid, ProcessState, TaskId};

/// Stop a task, a call or a process, with everything it runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep cancel task-3      queued or running\n  skep cancel call-12     one call that runs\n  \
skep cancel claude.1    a process of `skep ps`, by name or pid\n\n\
It comes back when no process and no request of it is left. What a task\nchanged is kept: `skep diff`, `skep merge`, `skep retry` and `skep say` go on\nwith it.")]
pub struct CancelArgs {
    /// A task id (`skep status`), a call id (`skep log`), or the name or pid of a process (`skep ps`)
    #[arg(value_name = "WHAT")]
    what: String,
}

impl CancelArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        if let Ok(task) = self.what.parse::<TaskId>() {
            let view = console.wait("ending", kernel.call::<TaskCancel>(&TaskIdParams { task })).await?;
            console.show_wrapped(&view, task::stopped);
            return OK;
        }
        if let Ok(call) = self.what.parse::<CallId>() {
            console.wait("ending", kernel.call::<CallCancel>(&CallCancelParams { call })).await?;
        } else {
            let pid = process(&mut kernel, &self.what).await?;
            console.wait("ending", kernel.call::<ProcCancel>(&ProcCancelParams { pid })).await?;
        }
        console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").name(&self.what).plain(" cancelled")]));
        OK
    }
}

/// The process that runs under this name or number.
async fn process(kernel: &mut KernelClient, what: &str) -> Result<Pid, CommandError> {
    let all = kernel.call::<ProcList>(&Nothing {}).await?.processes;
    let alive = all.iter().filter(|process| !matches!(process.state, ProcessState::Zombie | ProcessState::Dead));
    let found =
        alive.filter(|process| process.name == what || process.pid.to_string() == what).map(|process| process.pid).collect::<Vec<_>>();
    match found[..] {
        [pid] => Ok(pid),
        [] => Err(CommandError::new(ErrorCode::NotFound, format!("nothing is called `{what}`"))
            .fix("name a task (task-3), a call (call-12), or a process of `skep ps`")),
        _ => {
            Err(CommandError::new(ErrorCode::BadInput, format!("several processes are called `{what}`"))
                .fix("name one by its pid: `skep ps`"))
        }
    }
}
