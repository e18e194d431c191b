//! Which domain a task is of, by its words, and which tools that domain has.

use workflow::ToolDescription;

/// What a task is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    Files,
    Shell,
    Tests,
    Web,
    Git,
    /// None of these, or several alike: all tools.
    General,
}

/// A domain's words in tasks, and the nouns of its tools. Reading and searching belong to every domain.
const DOMAINS: [(Domain, &[&str], &[&str]); 5] = [
    (
        Domain::Files,
        &["file", "files", "folder", "folders", "directory", "document", "documents", "rename", "copy", "text", "readme", "lines"],
        &["fs"],
    ),
    (Domain::Shell, &["run", "command", "script", "shell", "build", "compile", "install", "execute", "make"], &["fs", "shell"]),
    (Domain::Tests, &["test", "tests", "coverage", "failing", "regression", "assert", "ci"], &["fs", "shell", "test"]),
    (Domain::Web, &["http", "https", "url", "download", "fetch", "website", "web", "api", "endpoint", "page"], &["fs", "http"]),
    (Domain::Git, &["git", "commit", "commits", "branch", "merge", "rebase", "diff", "history", "blame"], &["fs", "git"]),
];
/// Nouns of tools that every domain has.
const EVERYWHERE: [&str; 1] = ["search"];

impl Domain {
    pub fn as_str(self) -> &'static str {
        match self {
            Domain::Files => "files",
            Domain::Shell => "shell",
            Domain::Tests => "tests",
            Domain::Web => "web",
            Domain::Git => "git",
            Domain::General => "general",
        }
    }

    /// Whether the domain has this tool.
    pub fn has(self, tool: &ToolDescription) -> bool {
        let noun = tool.name.split('.').next().unwrap_or_default();
        let nouns = DOMAINS.iter().find(|(domain, ..)| *domain == self).map(|(_, _, nouns)| *nouns);
        nouns.is_none_or(|nouns| nouns.contains(&noun) || EVERYWHERE.contains(&noun))
    }
}

/// The domain with most of the task's words; none where two have as many.
pub fn route(task: &str) -> Domain {
    let task = task.to_lowercase();
    let words: Vec<&str> = task.split(|c: char| !c.is_alphanumeric()).collect();
    let count = |of: &[&str]| words.iter().filter(|word| of.contains(word)).count();
    let mut counts: Vec<(usize, Domain)> = DOMAINS.iter().map(|(domain, words, _)| (count(words), *domain)).collect();
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    match counts.as_slice() {
        [(first, domain), (second, _), ..] if first > second => *domain,
        _ => Domain::General,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(task: &str, domain: Domain, tools: &str) {
        assert_eq!(route(task), domain, "{task}");
        let all = ["fs.read", "fs.write", "search.grep", "shell.run", "test.run", "http.request", "git.log"];
        let all = all.map(|name| ToolDescription { name: name.into(), ..ToolDescription::default() });
        let offered: Vec<&str> = all.iter().filter(|tool| domain.has(tool)).map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered.join(" "), tools, "{task}");
    }

    #[test]
    fn a_task_is_routed_by_its_words() {
        check("Rename the files in this folder", Domain::Files, "fs.read fs.write search.grep");
        check("run the build script", Domain::Shell, "fs.read fs.write search.grep shell.run");
        check("mend the failing tests", Domain::Tests, "fs.read fs.write search.grep shell.run test.run");
        check("download the page at this url", Domain::Web, "fs.read fs.write search.grep http.request");
        check("who made this commit? see git blame", Domain::Git, "fs.read fs.write search.grep git.log");
        let every = "fs.read fs.write search.grep shell.run test.run http.request git.log";
        check("make it better, and test", Domain::General, every);
        check("", Domain::General, every);
        check("latest profile", Domain::General, every);
    }
}
