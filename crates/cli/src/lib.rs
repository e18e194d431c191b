//! The command `skep`.
//!
//! Each command is a file in `command/` that asks the kernel over `wire` and hands the answer to the one printer in `show`.
//! Knows nothing of what happens inside a kernel; `skep kernel run` is the only one that becomes it.
//!
//! A library, so that it compiles beside the kernel: a program waits until everything that it links is compiled.
#![forbid(unsafe_code)]

mod args;
mod bounded_input;
mod command;
mod command_error;
mod console;
mod escape_filter;
mod full_disk;
mod home;
mod interrupt;
mod place;
mod record;
mod remedy;
mod show;
mod start;
mod terminal;
mod terminal_modes;
mod units;

use args::{Cli, Command, UsageError};
use command_error::CommandError;
use console::Console;
use show::Screen;
use std::process::ExitCode;
use wire::ErrorCode;

/// Runs the command that this process was started with.
pub fn run() -> ExitCode {
    // Pid 1 of a container has no terminal, no home and one thing to do.
    if let Some(code) = server::guest() {
        return ExitCode::from(code);
    }
    let (out, err) = (Screen::stdout(), Screen::stderr());
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(UsageError { error, json }) => return failed(err, json, &error),
    };
    if let Command::ExtensionChild(child) = &cli.command {
        return child.run();
    }
    if let Command::HookChild(child) = &cli.command {
        return child.run();
    }
    let home = match home::path() {
        Ok(home) => home,
        Err(error) => return failed(err, cli.json, &error),
    };
    // The kernel forks its launcher while it has one thread, so it starts before any runtime.
    if let Command::Kernel(kernel) = &cli.command
        && let Some(run) = kernel.as_run()
    {
        return run.run(&home);
    }
    let out = if cli.no_pager { out.without_pager() } else { out };
    let console = Console { home, json: cli.json, out: out.with_colour(cli.color), err: err.with_colour(cli.color) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command::run(cli.command, &console)),
        Err(error) => Err(CommandError::new(ErrorCode::Internal, "cannot start").why(error)),
    };
    match outcome {
        Ok(exit) => ExitCode::from(exit),
        Err(error) => {
            console.report(&error);
            ExitCode::from(error.code.exit())
        }
    }
}

/// Reports an error that came before there was a console.
fn failed(err: Screen, json: bool, error: &CommandError) -> ExitCode {
    if json {
        err.json(&error.json())
    } else {
        err.wrapped(&error.page())
    }
    ExitCode::from(error.code.exit())
}
