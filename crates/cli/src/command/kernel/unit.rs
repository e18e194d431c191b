//! `skep kernel install` and `uninstall`: a unit of systemd's user manager that keeps the kernel running.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, utf8};
use crate::show::{Line, Page};
use crate::start;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use wire::ErrorCode;

const UNIT: &str = "skep.service";

pub async fn install(console: &Console) -> ExitResult {
    let program =
        std::env::current_exe().map_err(|error| CommandError::new(ErrorCode::Internal, "cannot find the program `skep`").why(error))?;
    let (program, home) = (utf8(program)?, utf8(console.home.clone())?);
    systemctl(&["show-environment"]).map_err(|why| without_systemd(why, &program))?;
    let path = unit_path()?;
    write(&path, &unit(&program, &home)?)?;
    // Two kernels cannot have one home: the one that runs makes way, and its unfinished tasks go on under systemd's.
    if let Some(mut kernel) = start::running(&console.home).await? {
        console.wait("stopping the kernel", start::stop(&mut kernel)).await?;
    }
    systemctl(&["daemon-reload"]).and_then(|()| systemctl(&["enable", "--now", UNIT])).map_err(|why| {
        CommandError::new(ErrorCode::Unavailable, format!("systemd did not start `{UNIT}`"))
            .why(why)
            .fix(format!("look at `systemctl --user status {UNIT}`"))
    })?;
    console.show_wrapped(&serde_json::json!({"installed": path}), |_| {
        let mut page = Page(vec![Line::new().good("✓ ").plain("systemd keeps the kernel running").faint(format!("  {}", path.display()))]);
        page.because("next", "loginctl enable-linger, if it shall run while you are logged out; skep kernel uninstall takes it back");
        page
    });
    OK
}

pub fn uninstall(console: &Console) -> ExitResult {
    let path = unit_path()?;
    if !path.exists() {
        console.show(&serde_json::json!({"removed": null}), |_| Page(vec![Line::new().faint("○ ").plain("nothing is installed")]));
        return OK;
    }
    // A manager that is away runs no kernel either; the file is what would start one again.
    let stopped = systemctl(&["disable", "--now", UNIT]);
    std::fs::remove_file(&path)
        .map_err(|error| CommandError::new(ErrorCode::Unavailable, format!("cannot remove `{}`", path.display())).why(error))?;
    let reloaded = stopped.and_then(|()| systemctl(&["daemon-reload"]));
    console.show_wrapped(&serde_json::json!({"removed": path}), |_| {
        let mut page =
            Page(vec![Line::new().good("✓ ").plain("systemd no longer starts the kernel").faint(format!("  {}", path.display()))]);
        if let Err(why) = &reloaded {
            page.because("why", &format!("systemd was not told, because it does not answer: {why}"));
        }
        page.because("next", "any command starts a kernel when it needs one");
        page
    });
    OK
}

/// Where the user manager looks for units of this user.
fn unit_path() -> Result<PathBuf, CommandError> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    let config = config.ok_or_else(|| {
        CommandError::new(ErrorCode::BadInput, "there is no place for the unit").why("neither $XDG_CONFIG_HOME nor $HOME is set")
    })?;
    Ok(config.join("systemd/user").join(UNIT))
}

/// The unit's text. `Delegate` gives rooms their cgroups; what runs in them ends with the kernel, so systemd ends only the kernel itself.
fn unit(program: &str, home: &str) -> Result<String, CommandError> {
    // Only a command line has variables.
    let (program, home) = (quoted(program)?.replace('$', "$$"), quoted(&format!("SKEP_HOME={home}"))?);
    Ok(format!(
        "# Written by `skep kernel install`; `skep kernel uninstall` removes it.\n\
         [Unit]\nDescription=Skep, the kernel that runs AI agents\n\n\
         [Service]\nExecStart={program} kernel run\nEnvironment={home}\nDelegate=yes\nKillMode=mixed\nTimeoutStopSec=60\nRestart=on-failure\nRestartSec=2\n\n\
         [Install]\nWantedBy=default.target\n"
    ))
}

/// A word as units quote it: `%` starts a specifier there, and no line may end inside.
fn quoted(text: &str) -> Result<String, CommandError> {
    if text.chars().any(char::is_control) {
        return Err(CommandError::new(ErrorCode::BadInput, "a unit cannot name this path")
            .why(format!("{text:?} holds a control character"))
            .fix("move it to a path without one"));
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    Ok(format!("\"{escaped}\""))
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    let fail = |error: std::io::Error| CommandError::new(ErrorCode::Unavailable, format!("cannot write `{}`", path.display())).why(error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(fail)?;
    std::fs::write(path, text).map_err(fail)
}

fn systemctl(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("systemctl").arg("--user").args(arguments).output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => "there is no `systemctl`".to_owned(),
        _ => error.to_string(),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().rfind(|line| !line.trim().is_empty()).map_or_else(|| output.status.to_string(), str::to_owned))
}

fn without_systemd(why: String, program: &str) -> CommandError {
    CommandError::new(ErrorCode::Unsupported, "systemd's user manager does not answer here, so nothing was installed").why(why).fix(format!(
        "every command starts the kernel when it needs one; to have it after a boot, let your system run `{program} kernel start` at login, such as from ~/.profile, or with cron: `@reboot {program} kernel start`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_units_want_them() {
        let text = unit("/opt/a $b/skep", "/home/ann/100% \"$HOME\"").unwrap();
        assert!(text.contains("ExecStart=\"/opt/a $$b/skep\" kernel run\n"), "{text}");
        assert!(text.contains("Environment=\"SKEP_HOME=/home/ann/100%% \\\"$HOME\\\"\"\n"), "{text}");
        assert!(unit("/opt/a\nExecStart=/bin/evil", "/h").is_err());
    }
}
