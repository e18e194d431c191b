//! Changes: what a merge would do, and what it did.

use super::measure::many;
use super::{Line, Page, Tone, table};
use wire::method::task::{DiffResult, FileDiff, MergeResult};

/// A unified diff in colour.
pub fn unified(diff: &str) -> Page {
    diff.lines()
        .map(|line| {
            let tone = match line.as_bytes().first() {
                _ if line.starts_with("+++") || line.starts_with("---") => Tone::Strong,
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                Some(b'@') => Tone::Name,
                _ => Tone::Plain,
            };
            Line::new().plain("  ").add(tone, line)
        })
        .collect()
}

/// Added and removed lines of a unified diff.
fn tally(diff: &str) -> (u64, u64) {
    let body = diff.lines().filter(|line| !line.starts_with("+++") && !line.starts_with("---"));
    body.fold((0, 0), |(added, removed), line| match line.as_bytes().first() {
        Some(b'+') => (added + 1, removed),
        Some(b'-') => (added, removed + 1),
        _ => (added, removed),
    })
}

fn kind(file: &FileDiff) -> Line {
    match (&file.refused, file.kind.as_str()) {
        (Some(_), kind) => Line::new().bad(kind),
        (None, "created") => Line::new().good("created"),
        (None, "deleted") => Line::new().bad("deleted"),
        (None, kind) => Line::new().wait(kind),
    }
}

/// The files, without their text.
pub fn summary(diff: &DiffResult) -> Page {
    let rows = diff.files.iter().map(|file| {
        let (added, removed) = tally(&file.diff);
        let size = Line::new().good(format!("+{added}")).bad(format!(" −{removed}"));
        let note = file.refused.as_ref().map(|why| Line::new().bad("stays out: ").plain(why)).unwrap_or_default();
        vec![Line::new().plain("  ").join(kind(file)), Line::new().plain(&file.path), size, note]
    });
    let mut page = table(rows.collect());
    if diff.files.is_empty() {
        page.push(Line::new().faint("  no changes"));
    }
    page
}

/// `skep diff`.
pub fn full(diff: &DiffResult) -> Page {
    let mut page = Page::new();
    for file in &diff.files {
        page.push(kind(file).plain(" ").strong(&file.path));
        if let Some(why) = &file.refused {
            page.because("why", &format!("stays out of a merge: {why}"));
        }
        page.append(unified(&file.diff));
        page.blank();
    }
    let files = many(diff.files.len() as u64, "file");
    let state = if diff.digest.is_some() { "" } else { ", nothing proposed for merge" };
    page.push(Line::new().name(diff.task.to_string()).plain(format!("  {files} changed{state}")));
    page
}

/// `skep merge`.
pub fn merged(result: &MergeResult) -> Page {
    let mut page = Page::new();
    let applied = many(result.applied.len() as u64, "file");
    page.push(Line::new().good("✓ ").plain(format!("merged {applied}")));
    for path in &result.applied {
        page.push(Line::new().good("  + ").plain(path));
    }
    for path in &result.refused {
        page.push(Line::new().bad("  ✗ ").plain(&path.path).faint("  ").plain(path.refused.as_deref().unwrap_or("refused")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{MergePath, MergeState, TaskId};

    fn diff() -> DiffResult {
        let file = |path: &str, kind: &str, refused: Option<&str>, diff: &str| FileDiff {
            path: path.into(),
            kind: kind.into(),
            refused: refused.map(Into::into),
            diff: diff.into(),
        };
        DiffResult {
            task: TaskId(1),
            digest: Some("d".into()),
            state: Some(MergeState::Proposed),
            files: vec![
                file("a.sh", "created", None, "--- /dev/null\n+++ a.sh\n@@ -0,0 +1 @@\n+echo\x1b[31m\n"),
                file(".git/hooks/x", "modified", Some("git directories are closed"), "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n"),
            ],
        }
    }

    #[test]
    fn a_summary_and_the_whole() {
        let expected = "  created   a.sh          +1 −0\n  modified  .git/hooks/x  +1 −1  stays out: git directories are closed\n";
        assert_eq!(summary(&diff()).render(false, None), expected);
        let text = full(&diff()).render(true, None);
        assert!(text.contains("\x1b[32m+echo\\x1b[31m\x1b[0m"), "{text:?}");
        assert!(full(&diff()).render(false, None).ends_with("task-1  2 files changed\n"));
    }

    #[test]
    fn a_merge_names_what_stayed_out() {
        let refused = vec![MergePath { path: "b".into(), kind: "created".into(), refused: Some("outside".into()) }];
        let text = merged(&MergeResult { applied: vec!["a".into()], refused }).render(false, None);
        assert_eq!(text, "✓ merged 1 file\n  + a\n  ✗ b  outside\n");
    }
}
