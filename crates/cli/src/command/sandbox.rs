//! `skep sandbox`: rooms, by hand.

pub mod run;
pub mod shell_terminal;

use crate::command::doctor::DoctorArgs;
use crate::command::status::here;
use crate::console::{Console, ExitResult, OK};
use crate::show::sandbox as show;
use crate::show::{Line, Page};
use wire::TaskId;
use wire::method::Nothing;
use wire::method::sandbox::SandboxTemplatesParams;
use wire::method::task::TaskIdParams;
use wire::table::{SandboxList, SandboxPause, SandboxResume, SandboxTemplates};

/// Run commands in sandboxes, and manage the open ones
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep sandbox run -- cargo test\n  skep sandbox shell --template code-executor\n  \
skep sandbox templates\n  skep sandbox ps\n  skep sandbox doctor")]
pub struct SandboxArgs {
    #[command(subcommand)]
    action: SandboxAction,
}

#[derive(Debug, clap::Subcommand)]
pub enum SandboxAction {
    Run(run::SandboxRunArgs),
    Shell(run::ShellArgs),
    /// List the templates: named limits of sandboxes
    #[command(after_help = "Examples:\n  skep sandbox templates\n  skep sandbox templates --json\n\n\
They are changed in config.yml in $SKEP_HOME, under `sandbox: templates:`; a project's skep.yml may only narrow them.")]
    Templates,
    /// List open sandboxes, what runs in them and what it uses
    #[command(after_help = "Examples:\n  skep sandbox ps\n  skep sandbox ps --json")]
    Ps,
    /// Pause everything in a task's sandbox, until `resume`
    #[command(
        after_help = "Examples:\n  skep sandbox pause task-3\n\nTime does not count against any limit meanwhile, and a restart does not end it."
    )]
    Pause {
        /// Task id, as `skep sandbox ps` prints it
        task: TaskId,
    },
    /// Let a paused sandbox continue
    #[command(after_help = "Examples:\n  skep sandbox resume task-3")]
    Resume {
        /// Task id, as `skep sandbox ps` prints it
        task: TaskId,
    },
    /// Say what this host supports, and how to get the rest
    #[command(after_help = "Examples:\n  skep sandbox doctor\n  skep sandbox doctor --json")]
    Doctor,
}

impl SandboxArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            SandboxAction::Run(run) => run.run(console).await,
            SandboxAction::Shell(shell) => shell.run(console).await,
            SandboxAction::Doctor => DoctorArgs {}.run(console).await,
            SandboxAction::Templates => {
                let mut kernel = console.kernel().await?;
                let result = kernel.call::<SandboxTemplates>(&SandboxTemplatesParams { path: here(false)? }).await?;
                console.show_wrapped(&result, show::templates);
                OK
            }
            SandboxAction::Ps => {
                let mut kernel = console.kernel().await?;
                let result = kernel.call::<SandboxList>(&Nothing {}).await?;
                console.show_wrapped(&result, show::rooms);
                OK
            }
            SandboxAction::Pause { task } => {
                console.kernel().await?.call::<SandboxPause>(&TaskIdParams { task }).await?;
                let line =
                    Line::new().wait("◍ ").plain(format!("the sandbox of {task} is paused; `skep sandbox resume {task}` continues it"));
                console.show_wrapped(&serde_json::json!({"task": task, "paused": true}), |_| Page(vec![line]));
                OK
            }
            SandboxAction::Resume { task } => {
                console.kernel().await?.call::<SandboxResume>(&TaskIdParams { task }).await?;
                let line = Line::new().good("● ").plain(format!("the sandbox of {task} continues"));
                console.show_wrapped(&serde_json::json!({"task": task, "paused": false}), |_| Page(vec![line]));
                OK
            }
        }
    }
}
