//! `skep sandbox`: rooms, by hand.

pub mod line;
pub mod run;

use crate::command::doctor::Doctor;
use crate::command::status::here;
use crate::console::{Console, OK, Outcome};
use crate::show::Line;
use crate::show::sandbox as show;
use wire::TaskId;
use wire::method::Nothing;
use wire::method::sandbox::SandboxTemplatesParams;
use wire::method::task::TaskIdParams;
use wire::table::{SandboxList, SandboxPause, SandboxResume, SandboxTemplates};

/// Run commands in closed rooms, and look after the rooms there are
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep sandbox run -- cargo test\n  skep sandbox shell --template code-executor\n  \
skep sandbox templates\n  skep sandbox ps\n  skep sandbox doctor")]
pub struct Sandbox {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    Run(run::Run),
    Shell(run::Shell),
    /// List the templates: named bounds of rooms
    #[command(after_help = "Examples:\n  skep sandbox templates\n  skep sandbox templates --json\n\n\
They are changed in config.yml in $SKEP_HOME, under `sandbox: templates:`; a project's skep.yml may only narrow them.")]
    Templates,
    /// List open rooms, what runs in them and what it uses
    #[command(after_help = "Examples:\n  skep sandbox ps\n  skep sandbox ps --json")]
    Ps,
    /// Stop everything in a task's room, until `resume`
    #[command(
        after_help = "Examples:\n  skep sandbox pause task-3\n\nTime does not count against any limit meanwhile, and a restart does not end it."
    )]
    Pause {
        /// Whose: `task-3` of `skep sandbox ps`
        task: TaskId,
    },
    /// Go on with a paused room
    #[command(after_help = "Examples:\n  skep sandbox resume task-3")]
    Resume {
        /// Whose: `task-3` of `skep sandbox ps`
        task: TaskId,
    },
    /// Say what this host supports, and what mends the rest
    #[command(after_help = "Examples:\n  skep sandbox doctor\n  skep sandbox doctor --json")]
    Doctor,
}

impl Sandbox {
    pub async fn run(self, console: &Console) -> Outcome {
        match self.what {
            What::Run(run) => run.run(console).await,
            What::Shell(shell) => shell.run(console).await,
            What::Doctor => Doctor {}.run(console).await,
            What::Templates => {
                let mut kernel = console.kernel().await?;
                let result = kernel.call::<SandboxTemplates>(&SandboxTemplatesParams { path: here(None, false)? }).await?;
                console.show_whole(&result, show::templates);
                OK
            }
            What::Ps => {
                let mut kernel = console.kernel().await?;
                let result = kernel.call::<SandboxList>(&Nothing {}).await?;
                console.show(&result, show::rooms);
                OK
            }
            What::Pause { task } => {
                console.kernel().await?.call::<SandboxPause>(&TaskIdParams { task }).await?;
                console.note(Line::new().wait("◍ ").plain(format!("the room of {task} stands still; `skep sandbox resume {task}`")));
                OK
            }
            What::Resume { task } => {
                console.kernel().await?.call::<SandboxResume>(&TaskIdParams { task }).await?;
                console.note(Line::new().good("● ").plain(format!("the room of {task} goes on")));
                OK
            }
        }
    }
}
