//! `skep kernel`: the kernel itself.

mod unit;

use crate::command_error::CommandError;
use crate::console::{Console, DoubtReport, ExitResult, OK};
use crate::show::{Line, Page, kernel, measure};
use crate::start;
use clap::Subcommand;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use wire::ErrorCode;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::table::KernelStatus;

/// Start, stop and look at the kernel
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep kernel status\n  skep kernel restart\n  skep kernel install\n\nEvery other command starts the kernel when it needs one."
)]
pub struct KernelArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the kernel, if it does not run
    #[command(after_help = "Examples:\n  skep kernel start\n  skep kernel start --grpc :50051 --startup agents.json\n\n\
`--grpc` serves the process tree to HiveKernel's agents, SDK and dashboard; see\n`docs/hive.md`. `grpc: {listen: ADDR}` in $SKEP_HOME/config.yml says the same.")]
    Start(TreeArgs),
    /// Stop the kernel; unfinished tasks resume at its next start
    #[command(after_help = "Examples:\n  skep kernel stop")]
    Stop,
    /// Stop the kernel and start it again; unfinished tasks go on
    #[command(after_help = "Examples:\n  skep kernel restart\n  skep kernel restart --grpc :50051")]
    Restart(TreeArgs),
    /// Have systemd keep the kernel running
    #[command(
        after_help = "Examples:\n  skep kernel install\n  systemctl --user status skep\n\nIt writes ~/.config/systemd/user/skep.service and enables it."
    )]
    Install,
    /// Take back what `install` did; the journal and all work stay
    #[command(after_help = "Examples:\n  skep kernel uninstall")]
    Uninstall,
    /// Show whether it runs, and its state
    #[command(after_help = "Examples:\n  skep kernel status\n  skep kernel status --json")]
    Status,
    /// Run the kernel in the foreground
    #[command(after_help = "Examples:\n  SKEP_HOME=/tmp/try skep kernel run")]
    Run(KernelRunArgs),
}

/// How the kernel serves the process tree.
#[derive(Clone, Debug, Default, clap::Args)]
struct TreeArgs {
    /// Serve the process tree over gRPC: 127.0.0.1:PORT, :PORT or unix:///PATH
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,
    /// Agents to begin with: our YAML, or HiveKernel's JSON
    #[arg(long, value_name = "FILE")]
    startup: Option<PathBuf>,
}

impl TreeArgs {
    /// The kernel runs in another folder, so the file is named from the root.
    fn options(&self) -> Result<start::TreeOptions, CommandError> {
        if let Some(address) = &self.grpc {
            server::check_grpc(address).map_err(|error| CommandError {
                code: ErrorCode::BadInput,
                what: error.message,
                why: error.data.reason,
                fix: error.data.hint,
            })?;
        }
        let startup = match &self.startup {
            None => None,
            Some(path) => Some(path.canonicalize().map_err(|error| {
                CommandError::new(ErrorCode::NotFound, format!("cannot read the startup file `{}`", path.display()))
                    .why(error)
                    .fix("name an existing file with `--startup FILE`")
            })?),
        };
        Ok(start::TreeOptions { grpc: self.grpc.clone(), startup })
    }

    fn is_given(&self) -> bool {
        self.grpc.is_some() || self.startup.is_some()
    }
}

#[derive(Debug, clap::Args)]
pub struct KernelRunArgs {
    #[command(flatten)]
    tree: TreeArgs,
    /// Leave the terminal's session
    #[arg(long, hide = true)]
    detached: bool,
    /// Stop when stdin ends
    #[arg(long, hide = true)]
    until_eof: bool,
    /// A folder to remove after that
    #[arg(long, hide = true, value_name = "DIR", requires = "until_eof")]
    removes: Option<PathBuf>,
}

impl KernelRunArgs {
    /// Becomes the kernel. Called before any thread exists.
    pub fn run(&self, home: &Path) -> ExitCode {
        if self.detached {
            // A leader of a process group cannot leave, and then there is no terminal to leave either.
            let _ = rustix::process::setsid();
        }
        let options = server::RunOptions { grpc: self.tree.grpc.clone(), startup: self.tree.startup.clone() };
        if !self.until_eof {
            return server::run(home, &options);
        }
        let code = server::run_until_eof(home, &options, std::io::stdin().as_fd());
        // Whoever started us removes it too; only where they are gone is it left to us.
        if let Some(folder) = self.removes.as_ref().filter(|_| has_ended(&std::io::stdin())) {
            drop(std::fs::remove_dir_all(folder));
        }
        code
    }
}

/// Has everybody closed the other end?
fn has_ended(input: &std::io::Stdin) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(input, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&now)), Ok(1..)) && polled[0].revents().contains(PollFlags::HUP)
}

impl KernelArgs {
    pub fn as_run(&self) -> Option<&KernelRunArgs> {
        match &self.action {
            Action::Run(run) => Some(run),
            _ => None,
        }
    }

    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            Action::Start(tree) => start(console, &tree).await,
            Action::Stop => stop(console).await,
            Action::Restart(tree) => restart(console, &tree).await,
            Action::Install => unit::install(console).await,
            Action::Uninstall => unit::uninstall(console),
            Action::Status => status(console).await,
            // `main` has taken this one away: the kernel starts before the runtime that we run in.
            Action::Run(_) => Ok(EXIT_FAILED),
        }
    }
}

async fn start(console: &Console, tree: &TreeArgs) -> ExitResult {
    let asked = Instant::now();
    let ran = start::is_answered(&console.home).await?;
    if ran && tree.is_given() {
        return Err(CommandError::new(ErrorCode::WrongState, "the kernel runs already")
            .why("where it serves the process tree is said when it starts")
            .fix("the same with `skep kernel restart`"));
    }
    let options = tree.options()?;
    if !ran {
        console.wait("starting the kernel", start::until_answered(&console.home, &options)).await?;
    }
    let status = console.kernel().await?.call::<KernelStatus>(&Nothing {}).await?;
    let took = measure::duration_us(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
    console.show_wrapped(&status, |status| {
        let what = if ran { "the kernel runs already" } else { "the kernel runs" };
        let line = Line::new().good("✓ ").plain(what).faint(format!("  os pid {}", status.os_pid));
        let mut page = Page(vec![if ran { line } else { line.faint(format!("  {took}")) }]);
        page.0.extend(status.grpc.iter().map(|address| Line::new().faint("  grpc  ").plain(address)));
        page
    });
    OK
}

async fn stop(console: &Console) -> ExitResult {
    let Some(mut kernel) = start::running(&console.home).await? else {
        console.show(&Nothing {}, |_| Page(vec![Line::new().faint("○ ").plain("no kernel runs")]));
        return OK;
    };
    console.report_notices(&mut kernel, DoubtReport::Reported).await?;
    let asked = Instant::now();
    console.wait("stopping the kernel", start::stop(&mut kernel)).await?;
    let took = measure::duration_us(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
    console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").plain("the kernel has stopped").faint(format!("  {took}"))]));
    OK
}

async fn restart(console: &Console, tree: &TreeArgs) -> ExitResult {
    if let Some(mut kernel) = start::running(&console.home).await? {
        // One that runs is worth more than one that cannot start.
        server::check_settings(&console.home).map_err(|error| CommandError {
            code: error.data.code,
            what: "the kernel runs on as it is: another could not start with these settings".to_owned(),
            why: error.data.reason,
            fix: error.data.hint,
        })?;
        console.wait("stopping the kernel", start::stop(&mut kernel)).await?;
    }
    start(console, tree).await
}

async fn status(console: &Console) -> ExitResult {
    let Some(mut client) = start::running(&console.home).await? else {
        if console.json {
            console.out.json(&serde_json::json!({"running": false}));
        } else {
            let mut page = Page(vec![Line::new().faint("○ ").plain("no kernel runs").faint(format!("  {}", console.home.display()))]);
            page.because("next", "skep kernel start, or any other command");
            console.out.page(&page);
        }
        return Ok(ErrorCode::Unavailable.exit());
    };
    let status = client.call::<KernelStatus>(&Nothing {}).await?;
    console.show_wrapped(&status, |status| kernel::status(status, measure::now_ms()));
    OK
}
