//! The documents of `docs/`, in the binary: who has skep has its manual.

use crate::show::{Line, Page, Tone, table};

pub struct Topic {
    pub name: &'static str,
    pub about: &'static str,
    pub text: &'static str,
}

macro_rules! topic {
    ($name:literal, $file:literal, $about:literal) => {
        Topic { name: $name, about: $about, text: include_str!(concat!("../../../../../docs/", $file)) }
    };
}

impl Topic {
    pub const ALL: &'static [Topic] = &[
        topic!("brains", "brains.md", "who works: vendors' clients, the built-in brain, names, logins"),
        topic!("workers", "workers.md", "who does a task, when and where: queues, work trees"),
        topic!("prompt", "prompt.md", "`skep` alone: the prompt and its commands; origins of settings"),
        topic!("roles", "roles.md", "who workers are, their skills, what a task is asked at its end"),
        topic!("plans", "plans.md", "sessions that work by plans: format, planners, critics, memory"),
        topic!("discipline", "discipline.md", "tests first: modes, phases, what the kernel sees, exemptions"),
        topic!("tests", "tests.md", "a project's tests: runners, what a run proves, weak tests"),
        topic!("tree", "tree.md", "agents of your own: processes, messages, artifacts, cron"),
        topic!("hive", "hive.md", "HiveKernel's gRPC contract: who calls, what differs"),
        topic!("python", "python.md", "agents in Python"),
        topic!("looking", "looking.md", "top, watch and log: what workers do, now and afterwards"),
        topic!("models", "models.md", "providers, keys, tiers, prices, budgets, cassettes"),
        topic!("policy", "policy.md", "rules: what may happen, what needs your answer, what never does"),
        topic!("sandbox", "sandbox.md", "what commands see: toolchains, caches, folders, variables"),
        topic!("tools", "tools.md", "tools of your own: manifests and runners"),
        topic!("scripts", "scripts.md", "brains and models that follow a text, for tests and demos"),
        topic!("journal", "journal.md", "the record: its lines, its chain, how to check it"),
        topic!("methods", "methods.md", "the methods of the kernel's socket"),
        topic!("glossary", "GLOSSARY.md", "words that mean something special here"),
        topic!("house", "house.md", "the crates, their sizes, and what a call walks through"),
        topic!("shortcomings", "shortcomings.md", "where other systems fall short, and what answers it here"),
        topic!("acceptance", "acceptance.md", "promises about brains and workers, and their tests"),
    ];

    /// The document as a person reads it on a terminal: without the marks of Markdown that only a renderer needs.
    pub fn page(&self) -> Page {
        let mut in_code = false;
        let mut page = Page::new();
        let mut paragraph = String::new();
        for line in self.text.lines().chain([""]) {
            let is_prose = !in_code && line.starts_with(|c: char| c.is_alphanumeric() || "`*[($".contains(c)) && !line.starts_with("```");
            // A paragraph is one line here; the screen breaks it where it is wide.
            if is_prose {
                paragraph.push_str(if paragraph.is_empty() { "" } else { " " });
                paragraph.push_str(line);
                continue;
            }
            if !paragraph.is_empty() {
                page.push(inline(&std::mem::take(&mut paragraph)));
            }
            if line.starts_with("```") {
                in_code = !in_code;
                continue;
            }
            page.push(match line.trim_start_matches('#') {
                _ if in_code => Line::new().plain("    ").add(Tone::Name, line),
                title if title.len() < line.len() => Line::new().strong(title.trim()),
                _ => inline(line),
            });
        }
        page
    }
}

/// `code` in its colour and **what matters** in bold; links keep their words.
fn inline(line: &str) -> Line {
    let mut shown = Line::new();
    for (number, part) in line.split('`').enumerate() {
        if number % 2 == 1 {
            shown = shown.name(part);
            continue;
        }
        for (number, part) in part.split("**").enumerate() {
            shown = if number % 2 == 1 { shown.strong(part) } else { shown.plain(part) };
        }
    }
    shown
}

/// `skep help topics`.
pub fn list() -> Page {
    table(Topic::ALL.iter().map(|topic| vec![Line::new().plain("  ").name(topic.name), Line::new().plain(topic.about)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_is_a_topic() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut found: Vec<String> =
            std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        found.retain(|name| name.ends_with(".md"));
        assert_eq!(found.len(), Topic::ALL.len(), "{found:?}");
        assert!(Topic::ALL.iter().all(|topic| topic.text.starts_with("# ")));
    }

    #[test]
    fn marks_of_markdown_are_not_shown() {
        let topic = Topic { name: "x", about: "", text: "# Title\n\nUse `skep act`,\n**now**.\n\n```\n# a comment\n```\n" };
        assert_eq!(topic.page().render(false, None), "Title\n\nUse skep act, now.\n\n    # a comment\n\n");
    }
}
