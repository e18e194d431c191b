//! A kernel to measure, projects for it, and a clock.

use super::number;
use crate::run::{output, root};
use anyhow::Result;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A kernel of our own in a temporary home, gone when this is dropped.
pub(super) struct BenchHome {
    pub(super) path: PathBuf,
    skep: PathBuf,
}

impl BenchHome {
    pub(super) fn new() -> Result<BenchHome> {
        let path = std::env::temp_dir().join(format!("skep-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(BenchHome { path, skep: skep() })
    }

    pub(super) fn skep(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.skep);
        command.args(arguments).env("SKEP_HOME", self.path.join("home")).current_dir(&self.path).stdin(Stdio::null());
        command
    }

    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&output(&mut self.skep(arguments))?)?)
    }

    pub(super) fn stop(&self) {
        // Where none runs there is nothing to stop.
        drop(self.skep(&["kernel", "stop"]).output());
    }

    /// Bytes in memory, as the kernel says.
    pub(super) fn resident(&self) -> Result<f64> {
        number(&self.json(&["kernel", "status", "--json"])?, "rss_bytes")
    }

    pub(super) fn init(&self, zone: &Path) -> Result<()> {
        output(self.skep(&["init", "--json"]).current_dir(zone)).map(drop)
    }
}

impl Drop for BenchHome {
    fn drop(&mut self) {
        // Best effort at the end of a measurement; a kernel that is left stops nothing.
        self.stop();
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// The release build's `skep`.
pub(super) fn skep() -> PathBuf {
    root().join("target/release/skep")
}

/// A folder with so many small files, a hundred to each of its own.
pub(super) fn project(zone: &Path, files: usize) -> Result<()> {
    for n in 0..files {
        let folder = zone.join(format!("{}/{}", n / 10_000, n / 100));
        if n % 100 == 0 {
            std::fs::create_dir_all(&folder)?;
        }
        std::fs::write(folder.join(format!("{n}.txt")), n.to_string())?;
    }
    Ok(())
}

pub(super) fn git(zone: &Path, arguments: &[&str]) -> Result<()> {
    output(Command::new("git").arg("-C").arg(zone).args(["-c", "user.name=b", "-c", "user.email=b@b"]).args(arguments)).map(drop)
}

pub(super) fn time<T>(work: impl FnOnce() -> Result<T>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

pub(super) fn median(times: usize, mut measure: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut all = (0..times).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    all.sort_unstable();
    Ok(all[times / 2])
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
