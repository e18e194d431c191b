//! What a change must satisfy before its tests run. The quickest comes first.

use crate::run::{cargo, root, run};
use anyhow::{Result, ensure};
use std::path::Path;

pub fn lint(arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "`cargo xtask lint` takes no arguments");
    run(cargo().args(["fmt", "--all", "--check"]))?;
    crate::tidy::tidy(&[])?;
    unsafe_stays_home()?;
    crate::facts::have_one_maker()?;
    if std::env::var_os("RUSTC_WORKSPACE_WRAPPER").is_some_and(|wrapper| Path::new(&wrapper).ends_with(".ci/rustc")) {
        // It lints and documents what it compiles, and the tests run what it compiled.
        run(cargo().args(["build", "--workspace", "--all-targets"]))?;
    } else {
        run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
        run(cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    }
    // The bench's rivals are no part of the workspace, so nothing else compiles them.
    let rivals = root().join("xtask/rivals/Cargo.toml");
    run(cargo().args(["check", "--quiet", "--locked", "--manifest-path"]).arg(rivals).arg("--target-dir").arg(root().join("target")))?;
    crate::deny::deny()?;
    // Of the whole workspace, so that what is built for it is what the tests build too.
    run(cargo().args(["test", "--workspace", "--quiet", "--lib", "args::documents"]))
}

/// `unsafe` lives in the sandbox and in testkit's fault-injecting VFS; every other crate forbids it.
fn unsafe_stays_home() -> Result<()> {
    let crates = std::fs::read_dir(root().join("crates"))?;
    for entry in crates {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if ["sandbox", "testkit"].contains(&name.as_str()) {
            continue;
        }
        let entry = [path.join("src/lib.rs"), path.join("src/main.rs")].into_iter().find(|file| file.exists());
        let text = entry.map(std::fs::read_to_string).transpose()?.unwrap_or_default();
        ensure!(text.contains("#![forbid(unsafe_code)]"), "crates/{name} does not forbid unsafe code");
    }
    Ok(())
}
