//! `skep exec`: has a process of the tree do a task, and prints what came of it.

use crate::command::spawn::{by_name, pair};
use crate::command::whom;
use crate::console::{Console, ExitResult};
use crate::interrupt::Interrupt;
use crate::show::Line;
use crate::units::duration_ms;
use wire::code::{EXIT_FAILED, EXIT_INTERRUPTED};
use wire::method::program::ProcExecuteParams;
use wire::table::ProcExecute;

/// Have a process of the tree do a task, and print its output
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep exec price 'what does a kettle cost?'\n  skep exec 7 report --param month=11 --timeout 2m > report.txt\n\n\
The output goes to stdout as it is. The exit code is 1 where that of the task\nis not 0. `skep signal PROCESS INT` ends it and keeps what it has."
)]
pub struct ExecArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
    /// What it is to do
    task: String,
    /// Something it is to know
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// End it after this long
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
}

impl ExecArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let params = ProcExecuteParams { pid, description: self.task, params: by_name(self.params)?, timeout_ms: self.timeout };
        let mut interrupt = Interrupt::open()?;
        let done = tokio::select! {
            done = console.wait("working", kernel.call::<ProcExecute>(&params)) => done,
            () = interrupt.pressed() => {
                console.note(Line::new().wait("◍ ").plain(format!("the task goes on; `skep signal {} INT` ends it", self.process)));
                return Ok(EXIT_INTERRUPTED);
            }
        };
        let done = done
            .map_err(|error| whom::explain(error, format!("`{}` did not do it", self.process), "`skep info` says what the process runs"))?;
        if console.json {
            console.out.json(&done);
        } else {
            print(console, &done.result.output);
        }
        if done.result.partial {
            console.note(Line::new().wait("◍ ").plain("it was interrupted: this is what there was"));
        }
        if done.result.exit_code != 0 {
            console.note(Line::new().bad("✗ ").plain(format!("the task ended with {}", done.result.exit_code)));
            return Ok(EXIT_FAILED);
        }
        Ok(0)
    }
}

/// A program that reads the output gets it as it is. A terminal would obey what an agent wrote into it, so there it passes the printer.
fn print(console: &Console, output: &str) {
    if console.out.tty {
        return console.out.uncut(&output.lines().map(|line| Line::new().plain(line)).collect());
    }
    let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
    console.print_text(&format!("{output}{end}"));
}
