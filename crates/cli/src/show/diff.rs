//! Changes: what a merge would do, and what it did.

use super::measure::plural;
use super::visible::with_end;
use super::{Line, Page, Tone, table, table_wrapped, visible};
use crate::remedy;
use std::collections::HashSet;
use wire::method::call::CallRunResult;
use wire::method::merge::{MergeListResult, MergeUndoResult};
use wire::method::task::{FileDiffView, TaskDiffResult, TaskMergeResult};
use wire::{MergeState, NOT_CHOSEN, PathChange, TaskId};

/// A unified diff in colour.
pub fn unified(diff: &str) -> Page {
    let tone = |part| match part {
        Part::Header => Tone::Strong,
        Part::Place => Tone::Name,
        Part::Added => Tone::Good,
        Part::Removed => Tone::Bad,
        Part::Same => Tone::Plain,
    };
    // Carriage returns are shown where only some lines have them: else a change of nothing but them would look like none.
    let text = |(part, line): &(Part, &str)| !matches!(part, Part::Header | Part::Place) && !line.starts_with('\\');
    let plain = parts(diff).filter(text).all(|(_, line)| line.ends_with('\r'));
    let exact = differs_in_blanks(diff);
    let shown = |part, line: &str| {
        let line = if plain { line.strip_suffix('\r').unwrap_or(line) } else { line };
        match part {
            Part::Added | Part::Removed if exact => with_end(line).replace('\t', "\\t"),
            // Blanks at the end of a new line, or of a file's name, change something too.
            Part::Added | Part::Removed | Part::Header => with_end(line).into_owned(),
            Part::Place | Part::Same => line.to_owned(),
        }
    };
    parts(diff).map(|(part, line)| Line::new().plain("  ").add(tone(part), shown(part, line))).collect()
}

/// Is there a line that differs from one it replaces only in blanks? Then they would look the same.
fn differs_in_blanks(diff: &str) -> bool {
    let look = |line: &str| visible(line.get(1..).unwrap_or_default()).trim_end().to_owned();
    let of = |wanted: Part| parts(diff).filter(move |(part, _)| *part == wanted).map(|(_, line)| line);
    let removed: HashSet<String> = of(Part::Removed).map(look).collect();
    of(Part::Added).any(|line| removed.contains(&look(line)))
}

/// The way from one text of a file to another, as a unified diff; empty when they are the same.
pub fn between(path: &str, old: &str, new: &str) -> String {
    server::unified((path, path), old.as_bytes(), new.as_bytes(), 3).text
}

/// Does the diff lead to no file but `path`? Lines of a file cannot pose as names.
pub fn is_about(diff: &str, path: &str) -> bool {
    let headers = parts(diff).filter(|(part, _)| *part == Part::Header);
    headers.filter_map(|(_, line)| line.strip_prefix("+++ ")).all(|name| name.trim_end() == path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    /// `@@ -1,2 +1,3 @@`
    Place,
    Added,
    Removed,
    Same,
}

/// What each line is. The counts of a place say how far it reaches, so that no line of a file can pose as a header.
fn parts(diff: &str) -> impl Iterator<Item = (Part, &str)> {
    let mut left = (0u64, 0u64);
    diff.split_terminator('\n').map(move |line| {
        let part = match line.as_bytes().first() {
            _ if left == (0, 0) => match place(line) {
                Some(counts) => {
                    left = counts;
                    Part::Place
                }
                None => Part::Header,
            },
            Some(b'+') => Part::Added,
            Some(b'-') => Part::Removed,
            _ => Part::Same,
        };
        // "\ No newline at end of file" is no line of either side.
        match part {
            Part::Removed => left.0 = left.0.saturating_sub(1),
            Part::Added => left.1 = left.1.saturating_sub(1),
            Part::Same if !line.starts_with('\\') => left = (left.0.saturating_sub(1), left.1.saturating_sub(1)),
            _ => {}
        }
        (part, line)
    })
}

/// Lines of the old and of the new side behind a place.
fn place(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut lines = |mark| {
        let range = words.next()?.strip_prefix(mark)?;
        range.split_once(',').map_or(Some(1), |(_, lines)| lines.parse().ok())
    };
    Some((lines('-')?, lines('+')?))
}

fn kind(file: &FileDiffView) -> Line {
    match (&file.refused, file.kind) {
        (Some(_), PathChange::Conflict) => Line::new().bad("conflict"),
        (Some(_), kind) => Line::new().wait(kind.as_str()),
        (None, PathChange::Created) => Line::new().good("created"),
        (None, PathChange::Deleted) => Line::new().bad("deleted"),
        (None, kind) => Line::new().wait(kind.as_str()),
    }
}

/// The files, without their text. The counts come first: an edge cuts, or wraps, the end.
pub fn summary(diff: &TaskDiffResult, columns: Option<usize>) -> Page {
    let rows = diff.files.iter().map(|file| {
        let unshown = file.unshown.then(|| without_hashes(file.diff.lines().last().unwrap_or("not shown")));
        let size = match &unshown {
            Some(why) => Line::new().wait(if why.starts_with("binary") { "binary" } else { "unshown" }),
            // Of most that stays out nobody has compared the lines.
            None if file.refused.is_some() && file.added + file.removed == 0 => Line::new(),
            None => Line::new().good(format!("+{}", file.added)).bad(format!(" −{}", file.removed)),
        };
        let note = match (&file.refused, &file.note) {
            (Some(why), _) if file.kind == PathChange::Conflict => Line::new().bad("  conflict: ").plain(why),
            (Some(why), _) => Line::new().wait("  stays out: ").plain(why),
            (None, Some(note)) => Line::new().wait(format!("  {note}")),
            (None, None) => Line::new(),
        };
        let sizes = unshown.as_deref().map_or(Line::new(), |why| Line::new().faint(format!("  {}", why.trim_start_matches("binary: "))));
        let mode = mode(file).map_or(Line::new(), |mode| Line::new().wait(format!("  {mode}")));
        vec![Line::new().plain("  ").join(kind(file)), size, name(file).join(mode).join(sizes).join(note)]
    });
    let mut page = table_wrapped(rows.collect(), columns);
    if diff.files.is_empty() {
        page.push(Line::new().faint("  no changes"));
    }
    choices(diff, &mut page);
    page
}

/// What becomes of a file's mode. It stands before the lines of the file, which begin with its name.
fn mode(file: &FileDiffView) -> Option<&str> {
    file.diff.lines().next().filter(|line| line.starts_with("mode "))
}

/// `binary: nothing becomes 8 bytes`; the whole diff has the hashes.
fn without_hashes(text: &str) -> String {
    text.split(" (sha256 ")
        .enumerate()
        .map(|(part, text)| if part == 0 { text } else { text.split_once(')').map_or("", |(_, rest)| rest) })
        .collect()
}

/// `old → new` for a rename.
fn name(file: &FileDiffView) -> Line {
    match &file.from {
        Some(from) => Line::new().path(from).faint(" → ").path(&file.path),
        None => Line::new().path(&file.path),
    }
}

/// How conflicts are decided.
fn choices(diff: &TaskDiffResult, page: &mut Page) {
    if diff.files.iter().any(|file| file.kind == PathChange::Conflict) {
        page.because("next", "a conflict stays out unless you choose: --mine PATH keeps yours, --theirs PATH takes the task's");
        if let Some(review) = diff.review {
            page.because("or", &format!("skep review changes {review} --rebase sends {} back with the newer base", diff.task));
        }
    }
}

/// `skep diff`.
pub fn full(diff: &TaskDiffResult) -> Page {
    let mut page = files(diff);
    choices(diff, &mut page);
    page.push(total(diff));
    page
}

/// `skep diff --stat`.
pub fn stat(diff: &TaskDiffResult, columns: Option<usize>) -> Page {
    let mut page = summary(diff, columns);
    page.push(total(diff));
    page
}

/// What a patch does not say: the files that stay out of a merge, and why.
pub fn left_out(diff: &TaskDiffResult, columns: Option<usize>) -> Page {
    let mut rest = diff.clone();
    rest.files.retain(|file| file.refused.is_some());
    if rest.files.is_empty() { Page::new() } else { summary(&rest, columns) }
}

fn total(diff: &TaskDiffResult) -> Line {
    let out = diff.files.iter().filter(|file| file.refused.is_some()).count();
    let files = plural((diff.files.len() - out) as u64, "file");
    let out = match out {
        0 => String::new(),
        1 => ", 1 stays out".to_owned(),
        _ => format!(", {out} stay out"),
    };
    let state = if diff.digest.is_some() { "" } else { ", nothing proposed for merge" };
    Line::new().name(diff.task.to_string()).plain(format!("  {files} changed{out}{state}"))
}

/// A path that is as it was again, in a diff that is followed.
pub fn gone(path: &str) -> Page {
    Page(vec![Line::new().faint("unchanged again ").path(path)])
}

/// Each file with its text.
pub fn files(diff: &TaskDiffResult) -> Page {
    let mut page = Page::new();
    for file in &diff.files {
        page.push(kind(file).plain(" ").join(name(file)));
        match &file.refused {
            Some(why) if file.kind == PathChange::Conflict => page.because("why", &format!("conflict: {why}")),
            Some(why) => page.because("why", &format!("stays out of a merge: {why}")),
            None => {}
        }
        if let Some(note) = &file.note {
            page.because("note", note);
        }
        page.append(unified(&file.diff));
        page.blank();
    }
    page
}

/// `skep merge list`.
pub fn merges(list: &MergeListResult) -> Page {
    let rows = list.merges.iter().map(|merge| {
        let state = match merge.state {
            MergeState::Proposed => Line::new().wait("waits for you"),
            MergeState::Applying => Line::new().name("merging"),
            MergeState::Applied => Line::new().good("merged"),
            MergeState::Rejected if merge.replaced => Line::new().faint("replaced"),
            MergeState::Rejected => Line::new().faint("rejected"),
            MergeState::Undoing => Line::new().name("being taken back"),
            MergeState::Undone => Line::new().faint("taken back"),
        };
        let left = match (merge.left, merge.state) {
            (0, _) => String::new(),
            (1, MergeState::Undone) => ", 1 left as it is".to_owned(),
            (left, MergeState::Undone) => format!(", {left} left as they are"),
            (1, _) => ", 1 stays out".to_owned(),
            (left, _) => format!(", {left} stay out"),
        };
        let files = Line::new().plain(plural(merge.files, "file")).faint(left);
        vec![Line::new().name(merge.task.to_string()), state, files, Line::new().plain(&merge.summary)]
    });
    let mut page = table(rows.collect());
    if list.merges.is_empty() {
        page.push(Line::new().faint("nothing was ever proposed for merge"));
    }
    page
}

/// `skep merge undo`.
pub fn undone(task: TaskId, result: &MergeUndoResult) -> Page {
    let mut page = Page::new();
    page.push(match (result.restored.len(), result.refused.is_empty()) {
        (0, false) => Line::new().bad("✗ ").plain("took nothing back"),
        (restored, _) => Line::new().good("✓ ").plain(format!("took back {}", plural(restored as u64, "file"))),
    });
    for path in &result.restored {
        page.push(Line::new().good("  ↩ ").path(path));
    }
    for path in &result.refused {
        page.push(Line::new().wait("  ○ ").path(&path.path).faint("  ").plain(path.refused.as_deref().unwrap_or("left as it is")));
    }
    if let Some(first) = result.refused.first() {
        page.because("fix", &format!("move your edits aside, then `skep merge undo {task}` goes on with what is left"));
        page.because("note", &format!("`skep diff {task} --file {} --before` prints what it held before the merge", first.path));
    }
    if let Some(commit) = &result.commit {
        let commit: String = commit.chars().take(10).collect();
        page.because("note", &format!("the commit {commit} stays; git revert {commit} takes it back"));
    }
    page
}

/// What denies a `skep merge undo`.
pub fn not_undone(result: &MergeUndoResult) -> Page {
    let mut page = Page::new();
    page.push(Line::new().bad("✗ ").plain("it is denied to take this back"));
    for reason in &result.denied {
        page.because("why", reason);
    }
    page
}

/// `skep merge import`.
pub fn imported(result: &CallRunResult) -> Page {
    let mut page = Page::new();
    match (&result.refusal, result.ok) {
        (Some(refusal), _) => {
            page.push(Line::new().bad("✗ ").plain("the patch was not taken"));
            page.because("why", &refusal.reason);
            if let Some(fix) = remedy::fix(refusal.hint.as_deref(), refusal.remedy.as_deref()) {
                page.because("fix", &fix);
            }
        }
        (None, true) => page.push(Line::new().good("✓ ").plain("the patch fits")),
        (None, false) => {
            page.push(Line::new().bad("✗ ").plain("the patch does not fit"));
            page.because("why", result.output["reason"].as_str().unwrap_or("it failed"));
        }
    }
    if let Some(task) = result.task {
        page.because("next", &format!("skep diff {task}, then skep merge {task}"));
    }
    page
}

/// `skep merge`.
pub fn merged(task: TaskId, result: &TaskMergeResult) -> Page {
    let mut page = Page::new();
    let applied = plural(result.applied.len() as u64, "file");
    match (&result.commit, result.applied.is_empty() && result.uncommitted.is_some()) {
        (_, true) => page.push(Line::new().bad("✗ ").plain("nothing is merged")),
        (Some(made), _) => {
            let on = made.reference.strip_prefix("refs/heads/").unwrap_or(&made.reference);
            let commit: String = made.commit.chars().take(10).collect();
            let line = Line::new().good("✓ ").plain("committed ").name(commit).plain(" on ").name(on).plain(format!(": {applied}"));
            page.push(line.faint("  (hooks were not run)"));
        }
        (None, _) => page.push(Line::new().good("✓ ").plain(format!("merged {applied}"))),
    }
    for path in &result.applied {
        page.push(Line::new().good("  + ").path(path));
    }
    for path in &result.refused {
        let why = path.refused.as_deref().unwrap_or("refused");
        page.push(match why == NOT_CHOSEN {
            true => Line::new().faint("  ○ ").path(&path.path).faint("  not chosen"),
            false => Line::new().wait("  ○ ").path(&path.path).faint("  stays out: ").plain(why),
        });
    }
    if let Some(why) = &result.uncommitted {
        page.push(Line::new().bad("✗ ").plain("no commit was made"));
        page.because("why", why);
    }
    if result.kept > 0 {
        // What no merge takes is only looked at.
        let never = !result.refused.is_empty() && result.refused.iter().all(|path| path.kind == PathChange::Refused);
        let then = if never { String::new() } else { format!(", then skep merge {task}") };
        page.because("kept", &format!("{}: skep diff {task}{then}", plural(result.kept, "file")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::method::task::CommitView;
    use wire::{MergePath, MergeState, TaskId};

    #[test]
    fn line_ends_are_shown_where_they_differ() {
        let lines = |diff: &str| unified(diff).0.iter().map(|line| line.render(false)).collect::<Vec<_>>();
        assert_eq!(lines("@@ -1 +1 @@\n-a\r\n+b\r\n")[1..], ["  -a", "  +b"]);
        assert_eq!(lines("@@ -1 +1 @@\n-a\n+a\r\n")[1..], ["  -a", "  +a\\x0d"]);
        assert_eq!(lines("@@ -1 +1 @@\n-a\r\n+b\r\r\n")[1..], ["  -a", "  +b\\x0d"]);
        assert_eq!(lines("@@ -1 +1 @@\n-\ta\n+    a\n")[1..], ["  -\\ta", "  +    a"]);
        assert_eq!(lines("@@ -1 +1 @@\n-a\n+a  \n")[1..], ["  -a", "  +a··"]);
        assert_eq!(
            lines("--- a/x \n+++ b/x \n@@ -0,0 +1,2 @@\n+new \t\n+\tplain\n")[..],
            ["  --- a/x·", "  +++ b/x·", "  @@ -0,0 +1,2 @@", "  +new·\\t", "  +    plain"]
        );
        assert_eq!(lines("@@ -1 +1 @@\n-\ta\n+\tb\n")[1..], ["  -    a", "  +    b"]);
        assert_eq!(lines("@@ -1 +1 @@\n-rm\n+rm\u{3164}\n")[1..], ["  -rm", "  +rm\\u{3164}"]);
    }

    fn diff() -> TaskDiffResult {
        let file = |path: &str, kind: PathChange, refused: Option<&str>, diff: &str| FileDiffView {
            path: path.into(),
            kind,
            from: None,
            note: None,
            refused: refused.map(Into::into),
            diff: diff.into(),
            added: diff.matches("\n+").count() as u64 - 1,
            removed: diff.matches("\n-").count() as u64,
            unshown: false,
        };
        TaskDiffResult {
            task: TaskId(1),
            digest: Some("d".into()),
            state: Some(MergeState::Proposed),
            kept: false,
            review: None,
            files: vec![
                file("a.sh", PathChange::Created, None, "--- /dev/null\n+++ a.sh\n@@ -0,0 +1 @@\n+echo\x1b[31m\n"),
                file(".git/hooks/x", PathChange::Modified, Some("git directories are closed"), "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n"),
            ],
        }
    }

    #[test]
    fn a_summary_and_the_whole() {
        let expected = "  created   +1 −0  a.sh\n  modified  +1 −1  .git/hooks/x  stays out: git directories are closed\n";
        assert_eq!(summary(&diff(), None).render(false, None), expected);
        let text = full(&diff()).render(true, None);
        assert!(text.contains("\x1b[32m+echo\\x1b[31m\x1b[0m"), "{text:?}");
        assert!(full(&diff()).render(false, None).ends_with("task-1  1 file changed, 1 stays out\n"));
    }

    /// One file that is binary or has a long name costs the others nothing.
    #[test]
    fn no_count_is_cut_at_80_columns() {
        let mut diff = diff();
        diff.files[1].path = format!("{}/x.rs", "long-folder/".repeat(8));
        let hash = "0".repeat(64);
        diff.files.push(FileDiffView {
            path: "data.bin".into(),
            refused: None,
            unshown: true,
            diff: format!("binary: 7 bytes (sha256 {hash}) becomes 8 bytes (sha256 {hash})\n"),
            ..diff.files[0].clone()
        });
        let shown = stat(&diff, Some(80)).render(false, Some(80));
        assert!(shown.contains("  created   +1 −0   a.sh\n") && shown.contains("  modified  +1 −1   long-folder/"), "{shown}");
        assert!(shown.contains("  created   binary  data.bin  7 bytes becomes 8 bytes\n"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80) && !shown.contains('…'), "{shown}");
        let joined: String = shown.split_whitespace().collect();
        assert!(joined.contains(&diff.files[1].path), "the whole name: {shown}");
    }

    #[test]
    fn no_line_of_a_file_poses_as_a_header() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n same\n--- a/fake\n++++ b/fake\n+@@ -9 +9 @@\n\\ No newline at end of file\n--- a/y\n+++ b/y\n@@ -1 +0,0 @@\n-z\n";
        let found: Vec<_> = parts(diff).map(|(part, _)| part).collect();
        use Part::*;
        assert_eq!(found, [Header, Header, Place, Same, Removed, Added, Added, Header, Header, Header, Place, Removed]);
    }

    #[test]
    fn a_merge_names_what_stayed_out() {
        let refused = vec![MergePath { path: "b".into(), kind: PathChange::Created, from: None, refused: Some("outside".into()) }];
        let mut result = TaskMergeResult { applied: vec!["a".into()], refused, ..TaskMergeResult::default() };
        assert_eq!(merged(TaskId(3), &result).render(false, None), "✓ merged 1 file\n  + a\n  ○ b  stays out: outside\n");
        result.refused[0].refused = Some(NOT_CHOSEN.into());
        result.kept = 1;
        result.commit = Some(CommitView { commit: "0123456789abcdef".into(), reference: "refs/heads/main".into() });
        let expected = "✓ committed 0123456789 on main: 1 file  (hooks were not run)\n  + a\n  ○ b  not chosen\n  \
                        ↳ kept 1 file: skep diff task-3, then skep merge task-3\n";
        assert_eq!(merged(TaskId(3), &result).render(false, None), expected);
    }

    #[test]
    fn a_diff_is_about_the_files_it_names() {
        let one = between("p.yaml", "a\nb\n", "a\n--- x\n+++ x\n");
        assert!(one.starts_with("--- p.yaml\n+++ p.yaml\n@@ -1,2 +1,3 @@\n") && is_about(&one, "p.yaml"), "{one}");
        assert!(!is_about(&format!("{one}{}", between("skep.yml", "", "x\n")), "p.yaml"));
        assert!(is_about("--- in force/p.yaml\n+++ p.yaml\n@@ -0,0 +1 @@\n+x\n", "p.yaml"));
        assert_eq!(between("p.yaml", "a\n", "a\n"), "");
    }
}
