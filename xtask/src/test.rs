//! The tests, with what they need.

use crate::run::{cargo, has, run};
use anyhow::{Result, bail};
use std::process::Command;

/// Programs the tests run, and the Debian package of each.
const NEEDS: &[(&str, &str)] = &[
    ("git", "git"),
    ("python3", "python3"),
    ("cc", "gcc"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("tmux", "tmux"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("podman", "podman"),
    ("runc", "runc"),
    ("curl", "curl"),
    ("pip3", "python3-pip"),
    ("dbus-daemon", "dbus-daemon"),
    ("secret-tool", "libsecret-tools"),
    ("gnome-keyring-daemon", "gnome-keyring"),
];

pub fn test(arguments: &[String]) -> Result<()> {
    install_needs()?;
    let mut command = cargo();
    if has_nextest() {
        command.args(["nextest", "run", "--workspace"]);
    } else {
        command.args(["test", "--workspace"]);
    }
    run(command.args(arguments))
}

/// What the tests need, all of it.
pub fn install_needs() -> Result<()> {
    install(NEEDS)
}

pub fn has_nextest() -> bool {
    cargo().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success())
}

/// Installs missing programs with apt where that is possible, else says what to do.
pub fn install(needs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&(&str, &str)> = needs.iter().filter(|(program, _)| !has(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let by_hand = format!("sudo apt-get install {}", packages.join(" "));
    let root_user = std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !has("apt-get") || !root_user {
        let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
        bail!("the tests need {}\n  install them: {by_hand}", programs.join(", "));
    }
    eprintln!("installing {}", packages.join(" "));
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))?;
    match missing.iter().find(|(program, _)| !has(program)) {
        Some((program, package)) => bail!("`{package}` is installed and `{program}` is still not there\n  try: {by_hand}"),
        None => Ok(()),
    }
}
