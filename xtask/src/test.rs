//! The tests, with what they need.

use crate::run::{cargo, has, root, run};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// Programs the tests run, and the Debian package of each.
const NEEDS: &[(&str, &str)] = &[
    ("git", "git"),
    ("python3", "python3"),
    ("cc", "gcc"),
    ("make", "make"),
    ("setpriv", "util-linux"),
    ("unshare", "util-linux"),
    ("ip", "iproute2"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("go", "golang-go"),
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
    // Whoever names tests means those of the workspace.
    if !arguments.is_empty() {
        return run(command.args(arguments));
    }
    // Most tests of the workspace wait for something. Those of the Python package, which need nothing of what is built here, use what that leaves.
    std::thread::scope(|scope| {
        let package = scope.spawn(check_package);
        let tested = run(&mut command);
        let checked = package.join().unwrap_or_else(|_| bail!("the check of the Python package panicked"));
        tested.and(checked)
    })?;
    // The contract suite once more, on the kernel that the tests above have built.
    run(Command::new("sdk/python/check").arg("contract").env("SKEP_BIN", root().join("target/debug/skep")))
}

/// Everything about the Python package that needs no kernel. What it prints comes in one piece.
fn check_package() -> Result<()> {
    let checked = Command::new("sdk/python/check").output().context("cannot start `sdk/python/check`")?;
    println!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    ensure!(checked.status.success(), "`sdk/python/check` failed: {}", checked.status);
    Ok(())
}

/// What the tests need, all of it.
pub fn install_needs() -> Result<()> {
    install(NEEDS)?;
    // Debian has the module of Python that makes environments in a package of its own, which brings no program.
    let mut venv = Command::new("python3");
    if venv.args(["-c", "import venv, ensurepip"]).output()?.status.success() {
        return Ok(());
    }
    install_packages(&["python3-venv"], "python3 -m venv")
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
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    install_packages(&packages, &programs.join(", "))?;
    match missing.iter().find(|(program, _)| !has(program)) {
        Some((program, package)) => bail!("`{package}` is installed and `{program}` is still not there"),
        None => Ok(()),
    }
}

fn install_packages(packages: &[&str], what: &str) -> Result<()> {
    let root_user = std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !has("apt-get") || !root_user {
        bail!("the tests need {what}\n  install them: sudo apt-get install {}", packages.join(" "));
    }
    eprintln!("installing {}", packages.join(" "));
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}
