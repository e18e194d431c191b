//! Questions to a person.

use super::call::fields;
use super::describe::describe;
use super::grant::{self, what};
use super::measure::ago;
use super::{Line, Node, Page, Tone, table, tree};
use wire::method::merge::APPLY_TOOL;
use wire::method::review::{AnswerReach, ReviewStatus, ReviewView};
use wire::method::task::TaskView;
use wire::{Answer, CallPattern, UsedRoom};

fn stand(review: &ReviewView) -> Line {
    let by = review.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    match (review.state, review.answer) {
        (ReviewStatus::Open, _) => Line::new().wait("open"),
        (ReviewStatus::Void, _) => Line::new().faint("void"),
        (ReviewStatus::Answered, Some(Answer::Deny)) => Line::new().bad(format!("denied{by}")),
        (ReviewStatus::Answered, Some(Answer::Changes)) => Line::new().wait(format!("changes requested{by}")),
        (ReviewStatus::Answered, _) => Line::new().good(format!("allowed{by}")),
    }
}

pub fn mark(review: &ReviewView) -> Line {
    match (review.state, review.answer) {
        (ReviewStatus::Open, _) => Line::new().wait("◍ "),
        (ReviewStatus::Void, _) => Line::new().faint("○ "),
        (ReviewStatus::Answered, Some(Answer::Deny)) => Line::new().bad("⊘ "),
        (ReviewStatus::Answered, Some(Answer::Changes)) => Line::new().wait("↺ "),
        (ReviewStatus::Answered, _) => Line::new().good("✓ "),
    }
}

pub fn list(reviews: &[ReviewView], now_ms: i64) -> Page {
    let rows = reviews.iter().map(|review| {
        let task = review.task.map(|task| task.to_string()).unwrap_or_else(|| "—".into());
        vec![
            mark(review).name(review.review.to_string()),
            stand(review),
            Line::new().faint(ago(review.asked_ms, now_ms)),
            Line::new().name(task),
            Line::new().plain(describe(&review.tool, &review.input)),
        ]
    });
    let mut page = table(rows.collect());
    if reviews.is_empty() {
        page.push(Line::new().good("✓ ").plain("no open reviews"));
    } else if let Some(open) = reviews.iter().find(|review| review.state == ReviewStatus::Open) {
        page.blank();
        page.because("next", &format!("skep review show {0}, then skep review allow {0} or deny {0}", open.review));
    }
    page
}

/// `skep review show`.
pub fn detail(review: &ReviewView, now_ms: i64) -> Page {
    let mut page = question(review, now_ms);
    if review.state == ReviewStatus::Open {
        let seen = review.seen.as_ref().map(|seen| format!(" --seen {seen}")).unwrap_or_default();
        let next = match review.cut && review.seen.is_none() {
            true => format!("skep review show {0} --full shows all that a yes covers; skep review deny {0} --reason \"…\"", review.review),
            false if review.tool == APPLY_TOOL => {
                let id = review.review;
                format!("skep review allow {id}{seen}, skep review changes {id} --reason \"…\", or skep review deny {id}")
            }
            false => format!("skep review allow {0}{seen}, or skep review deny {0} --reason \"…\"", review.review),
        };
        page.because("next", &next);
    }
    page
}

/// What is missing in what is shown.
fn missing(review: &ReviewView) -> Option<String> {
    match (review.cut, review.lost, review.seen.is_some()) {
        (true, true, _) if review.tool == APPLY_TOOL => {
            let of = review.task.map_or("its task".to_owned(), |task| task.to_string());
            Some(format!("files that are not shown here, told by size and hash: skep diff {of} --file PATH prints one"))
        }
        (true, true, _) => Some("its exact input was not kept: a yes covers what nobody can show".into()),
        (true, false, false) => Some("long texts are cut, secrets taken out; a yes covers all of it".into()),
        _ => None,
    }
}

/// Where the call would run, as far as that makes a difference: files are changed in the task's layer, wherever that is done.
fn sandbox(review: &ReviewView) -> Option<String> {
    let UsedRoom { template, network } = review.room.as_ref().filter(|_| !review.tool.starts_with("fs."))?;
    Some(match network.as_str() {
        "none" => format!("{template}, without network"),
        _ => format!("{template}, with network: rules decide about each host"),
    })
}

/// Everything the answer should rest on.
pub fn question(review: &ReviewView, now_ms: i64) -> Page {
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).cell(value);
    let head = mark(review).name(review.review.to_string()).plain("  ").strong(describe(&review.tool, &review.input));
    let who = Line::new().strong(&review.process).faint(format!(" (pid {})", review.pid));
    let mut root = Node::new(head).under(fact("asked by", who));
    if let Some(task) = review.task {
        root = root.under(fact("task", Line::new().name(task.to_string())));
    }
    root = root.under(fact("asked", Line::new().plain(ago(review.asked_ms, now_ms)))).under(fact("state", stand(review)));
    for reason in &review.reasons {
        root = root.under(fact("because", Line::new().plain(reason)));
    }
    for rule in &review.rules {
        root = root.under(fact("rule", Line::new().plain(rule)));
    }
    root = root.under(fact("tool", Line::new().plain(&review.tool)));
    if let Some(sandbox) = sandbox(review) {
        root = root.under(fact("sandbox", Line::new().plain(sandbox)));
    }
    if let Some(like @ CallPattern::Like { .. }) = review.like.as_ref().filter(|_| review.state == ReviewStatus::Open) {
        root = root.under(fact("like it", Line::new().plain(what(like)).faint("  (what a wider answer is about)")));
    }
    for before in &review.history {
        root = root.under(fact("before", Line::new().plain(before)));
    }
    if let Some(missing) = missing(review).filter(|_| review.state == ReviewStatus::Open) {
        root = root.under(fact("cut", Line::new().wait(missing)));
    }
    let mut page = tree(&root);
    page.push(Line::new().faint("input"));
    page.append(fields(&review.input));
    if let Some(diff) = review.diff.as_ref().filter(|diff| !diff.is_empty()) {
        page.push(Line::new().add(Tone::Faint, "what a yes would change"));
        page.append(super::diff::unified(diff));
    }
    page
}

/// The same for the inbox: what was asked for and what would change come first, what is seldom needed only with `is_detailed`.
pub fn question_first(review: &ReviewView, about: Option<&TaskView>, is_detailed: bool, now_ms: i64) -> Page {
    let mut page = Page::new();
    let head = mark(review).name(review.review.to_string()).plain("  ").strong(describe(&review.tool, &review.input));
    page.push(head.faint(format!("  {}", ago(review.asked_ms, now_ms))));
    let fact = |name: &str, value: &str| {
        let mut lines = value.trim_end().lines();
        let name = Line::new().plain("  ").faint(format!("{name:<8} "));
        let below = " ".repeat(name.width());
        let first = name.plain(lines.next().unwrap_or_default());
        std::iter::once(first).chain(lines.map(|line| Line::new().plain(&below).plain(line))).collect::<Page>()
    };
    if let Some(task) = about {
        page.append(fact(&task.task.to_string(), &format!("\"{}\"", task.prompt)));
        if let Some(summary) = task.summary.as_deref().filter(|summary| !summary.is_empty()) {
            page.append(fact("summary", summary));
        }
    }
    let rules = if review.rules.is_empty() { String::new() } else { format!(" (rule {})", review.rules.join(", ")) };
    match review.reasons.as_slice() {
        [] => {}
        [reason] => page.append(fact("why", &format!("{reason}{rules}"))),
        reasons => reasons.iter().for_each(|reason| page.append(fact("why", reason))),
    }
    if let Some(sandbox) = sandbox(review) {
        page.append(fact("sandbox", &sandbox));
    }
    if let Some(missing) = missing(review) {
        page.append(fact("cut", &missing));
    }
    if review.lost && review.state == ReviewStatus::Open {
        let elsewhere = match review.task.filter(|_| review.tool == APPLY_TOOL) {
            Some(task) => format!("skep merge {task}"),
            None => format!("skep review show {} --full says how", review.review),
        };
        page.append(fact("allow", &format!("not with a key, because not all of it can be shown here: {elsewhere}")));
    }
    let diff = review.diff.as_ref().filter(|diff| !diff.is_empty());
    if review.tool != APPLY_TOOL || diff.is_none() {
        page.append(fields(&review.input));
    }
    if let Some(diff) = diff {
        page.append(super::diff::unified(diff));
    }
    if let Some(like @ CallPattern::Like { .. }) = &review.like {
        page.append(fact("like it", &what(like)));
    }
    if is_detailed {
        page.append(fact("asked by", &format!("{} (pid {})", review.process, review.pid)));
        page.append(fact("tool", &review.tool));
        review.rules.iter().for_each(|rule| page.append(fact("rule", rule)));
        review.history.iter().for_each(|before| page.append(fact("before", before)));
        if review.tool == APPLY_TOOL {
            page.append(fields(&review.input));
        }
    }
    page
}

/// What `allow` and `deny` say: the answer, and how far it reaches.
pub fn answered(review: &ReviewView, reach: Option<AnswerReach>) -> Page {
    let line = mark(review).name(review.review.to_string()).plain(" ").join(stand(review));
    let mut page = Page(vec![line.faint("  ").plain(describe(&review.tool, &review.input))]);
    match (review.answer, review.task) {
        (Some(Answer::Changes), Some(task)) => page.because("next", &format!("skep watch {task}")),
        _ => page.because("for", grant::reach(reach)),
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use wire::{Pid, ReviewId, TaskId};

    fn review() -> ReviewView {
        ReviewView {
            review: ReviewId(3),
            pid: Pid(3),
            process: "worker.1".into(),
            task: Some(TaskId(1)),
            tool: "shell.run".into(),
            input: json!({"command": ["npm", "install", "left-pad"]}),
            reasons: vec!["installs a dependency".into()],
            rules: vec!["installs".into()],
            like: Some(CallPattern::Like {
                tool: "shell.run".into(),
                paths: Vec::new(),
                command: Some(vec!["npm".into(), "install".into()]),
                whole: false,
                host: None,
                port: None,
                method: None,
            }),
            room: Some(UsedRoom { template: "default".into(), network: "none".into() }),
            history: vec!["r-1 allowed by ann".into()],
            asked_ms: 0,
            state: ReviewStatus::Open,
            answer: None,
            by: None,
            diff: None,
            cut: false,
            lost: false,
            seen: None,
        }
    }

    #[test]
    fn a_question_is_listed_and_shown() {
        let expected = "\
◍ r-3  open  5s ago  task-1  Running npm install left-pad

  ↳ next skep review show r-3, then skep review allow r-3 or deny r-3
";
        assert_eq!(list(&[review()], 5_000).render(false, None), expected);
        assert_eq!(list(&[], 0).render(false, None), "✓ no open reviews\n");
        let expected = "\
◍ r-3  Running npm install left-pad
├─ asked by  worker.1 (pid 3)
├─ task      task-1
├─ asked     5s ago
├─ state     open
├─ because   installs a dependency
├─ rule      installs
├─ tool      shell.run
├─ sandbox   default, without network
├─ like it   shell.run of npm install …  (what a wider answer is about)
└─ before    r-1 allowed by ann
input
  command  npm install left-pad
  ↳ next skep review allow r-3, or skep review deny r-3 --reason \"…\"
";
        assert_eq!(detail(&review(), 5_000).render(false, None), expected);
    }

    #[test]
    fn a_cut_question_says_how_its_whole_is_seen() {
        let mut review = review();
        review.cut = true;
        let text = detail(&review, 5_000).render(false, None);
        assert!(text.contains("cut       long texts are cut") && text.contains("next skep review show r-3 --full"), "{text}");
        review.seen = Some("0a1b2c3d".into());
        let text = detail(&review, 5_000).render(false, None);
        assert!(!text.contains("are cut") && text.contains("next skep review allow r-3 --seen 0a1b2c3d, or"), "{text}");
        review.lost = true;
        assert!(detail(&review, 5_000).render(false, None).contains("not kept"));
    }

    #[test]
    fn an_answer_names_who_gave_it() {
        let mut review = review();
        (review.state, review.answer, review.by) = (ReviewStatus::Answered, Some(Answer::Deny), Some("ann".into()));
        let text = answered(&review, None).render(false, None);
        assert_eq!(text, "⊘ r-3 denied by ann  Running npm install left-pad\n  ↳ for  this call only\n");
        let text = answered(&review, Some(AnswerReach::Zone)).render(false, None);
        assert!(text.ends_with("  ↳ for  calls like it, in this repository\n"), "{text}");
    }
}
