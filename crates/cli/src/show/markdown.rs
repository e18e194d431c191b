//! What a brain says, line by line, as people read it: headings, lists, code and bold without their marks.
//!
//! Without colours the marks stay, because nothing else would show what they mean. Pure.

use super::{Line, Tone};

/// What came before decides what a line is.
#[derive(Debug)]
pub struct Markdown {
    /// Marks become colours.
    colour: bool,
    /// The fence that ends the code, such as "```".
    fence: Option<String>,
}

impl Markdown {
    pub fn new(colour: bool) -> Markdown {
        Markdown { colour, fence: None }
    }

    /// The next line, set in by `indent`.
    pub fn line(&mut self, text: &str, indent: &str) -> Line {
        let start = Line::new().plain(indent);
        let trimmed = text.trim_start();
        if let Some(fence) = &self.fence {
            if trimmed.starts_with(fence.as_str()) && trimmed.trim_end().chars().all(|c| c == '`' || c == '~') {
                self.fence = None;
                return self.mark(start, text);
            }
            return start.faint("│ ").add(Tone::Name, text);
        }
        let fence: String = trimmed.chars().take_while(|c| *c == '`' || *c == '~').collect();
        if fence.len() >= 3 && (fence.bytes().all(|byte| byte == b'`') || fence.bytes().all(|byte| byte == b'~')) {
            self.fence = Some(fence);
            return self.mark(start, text);
        }
        if !self.colour {
            return start.plain(text);
        }
        let depth = " ".repeat(text.len() - trimmed.len());
        if let Some(title) = heading(trimmed) {
            return start.strong(title);
        }
        if let Some(item) = ["- ", "* ", "+ "].iter().find_map(|mark| trimmed.strip_prefix(mark)) {
            return inline(item, start.plain(depth).plain("• "));
        }
        if let Some(quoted) = trimmed.strip_prefix("> ") {
            return inline(quoted, start.plain(depth).faint("│ "));
        }
        if trimmed.len() >= 3 && ["---", "***", "___"].contains(&trimmed.trim_end()) {
            return start.faint("───");
        }
        inline(trimmed, start.plain(depth))
    }

    /// A fence itself: with colours the code between them is enough to see.
    fn mark(&self, start: Line, text: &str) -> Line {
        let language = text.trim_start().trim_start_matches(['`', '~']).trim();
        match (self.colour, language.is_empty()) {
            (false, _) => start.plain(text),
            (true, true) => start.faint("│"),
            (true, false) => start.faint(format!("│ {language}")),
        }
    }
}

/// The text of `## title`.
fn heading(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches('#');
    let marks = text.len() - rest.len();
    rest.strip_prefix(' ').filter(|_| (1..=6).contains(&marks)).map(|title| title.trim_end_matches('#').trim())
}

/// Bold and code inside a line. What has no end is left as it is.
fn inline(text: &str, mut line: Line) -> Line {
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '_']) {
        let (before, from) = rest.split_at(at);
        let is_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        let found = [("**", Tone::Strong), ("__", Tone::Strong), ("`", Tone::Name)].into_iter().find_map(|(mark, tone)| {
            let inner = from.strip_prefix(mark)?;
            let end = inner.find(mark).filter(|end| *end > 0)?;
            // `snake__case__name` is a name.
            (mark != "__" || !is_word).then(|| (tone, &inner[..end], &inner[end + mark.len()..]))
        });
        match found {
            Some((tone, inner, after)) => {
                line = line.plain(before).add(tone, inner);
                rest = after;
            }
            None => {
                let end = at + from.chars().next().map_or(1, char::len_utf8);
                line = line.plain(&rest[..end]);
                rest = &rest[end..];
            }
        }
    }
    line.plain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, colour: bool) -> String {
        let mut markdown = Markdown::new(colour);
        text.lines().map(|line| markdown.line(line, "  ").render(colour) + "\n").collect()
    }

    #[test]
    fn marks_become_colours_and_stay_without_them() {
        let text = "# Title #\n- a **bold** `code`\n  * deeper\n> quoted\n```rust\nlet a = **b;\n```\n1. one\nplain *it* a_b_c 2 * 3";
        let plain = told(text, false);
        assert_eq!(plain.replace("│ ", ""), text.lines().map(|line| format!("  {line}\n")).collect::<String>());
        let coloured = told(text, true);
        assert_eq!(
            coloured,
            "  \x1b[1mTitle\x1b[0m\n  • a \x1b[1mbold\x1b[0m \x1b[36mcode\x1b[0m\n    • deeper\n  \x1b[2m│ \x1b[0mquoted\n  \x1b[2m│ rust\x1b[0m\n  \
             \x1b[2m│ \x1b[0m\x1b[36mlet a = **b;\x1b[0m\n  \x1b[2m│\x1b[0m\n  1. one\n  plain *it* a_b_c 2 * 3\n"
        );
    }

    #[test]
    fn what_has_no_end_is_left_and_what_is_foreign_is_clean() {
        assert_eq!(told("a ** b ` c __x", true), "  a ** b ` c __x\n");
        assert_eq!(told("snake__case__name", true), "  snake__case__name\n");
        assert_eq!(told("**ü** é`ß`", true), "  \x1b[1mü\x1b[0m é\x1b[36mß\x1b[0m\n");
        assert!(!told("# \x1b[2J", true).contains("\x1b[2J"));
        assert_eq!(told("#no heading\n####### seven", true), "  #no heading\n  ####### seven\n");
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let mut markdown = Markdown::new(true);
        for line in ["````", "```", "````"] {
            markdown.line(line, "");
        }
        assert!(markdown.fence.is_none());
        markdown.line("~~~", "");
        markdown.line("```", "");
        assert!(markdown.fence.is_some(), "another fence is code");
    }
}
