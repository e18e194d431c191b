//! The memory of a job where no cgroup holds it, and the end of a job that takes too much.
//!
//! It is looked at as often as the disk: roughly, by what each process has resident, and exactly when that says that the limit may
//! be near. Between two looks a job can take what a machine gives in [`LOOK_EVERY`].
//!
//! What nobody has mapped counts as well, as long as a descriptor keeps it; only segments of System V that no process has
//! attached are not seen.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::process::{self, Member};

const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Looking takes at most one part in so many of a job's time.
const LOOK_SHARE: u32 = 10;

/// Comes back when the tree beneath this pid 1 holds more. Never, if it does not.
pub(crate) async fn over(max: u64, job: i32) {
    let mut pause = LOOK_EVERY;
    loop {
        tokio::time::sleep(pause).await;
        let began = Instant::now();
        let looked = tokio::task::spawn_blocking(move || is_over(max, job)).await;
        if looked.unwrap_or_default() {
            return;
        }
        pause = LOOK_EVERY.max(began.elapsed() * LOOK_SHARE);
    }
}

fn is_over(max: u64, job: i32) -> bool {
    let tree: Vec<Member> = process::tree(job).into_iter().skip(1).collect();
    let unmapped = unmapped(&tree);
    let resident: u64 = tree.iter().map(|process| process.resident_bytes).sum();
    resident.saturating_add(unmapped) > max && tree.iter().map(share).sum::<u64>().max(unmapped) > max
}

/// A process's part of what it shares with others, without the pages of files, which the host can take back.
fn share(process: &Member) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)) else { return process.resident_bytes };
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
    };
    field("Pss_Anon") + field("Pss_Shmem") + field("SwapPss")
}

/// Files in memory without a name, which only descriptors keep.
fn unmapped(tree: &[Member]) -> u64 {
    let (mut seen, mut held) = (HashSet::new(), 0);
    for process in tree {
        process::each_file(process.pid, |path| {
            let target = fs::read_link(path).unwrap_or_default();
            if target.as_os_str().as_encoded_bytes().starts_with(b"/memfd:")
                && let Ok(file) = fs::metadata(path)
                && seen.insert(file.ino())
            {
                held += file.blocks() * 512;
            }
        });
    }
    held
}
