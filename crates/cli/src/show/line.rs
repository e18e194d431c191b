//! Lines of toned text, and pages of lines.

use super::measure::width;
use super::visible;
use super::visible::with_ends;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Bad,
    /// Waits for a person.
    Wait,
    Faint,
    Strong,
    /// A name a person can type: a task, a process, a command.
    Name,
}

impl Tone {
    fn sgr(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Wait => "33",
            Tone::Faint => "2",
            Tone::Strong => "1",
            Tone::Name => "36",
        }
    }
}

/// One line. What is added is cleaned, whoever wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

macro_rules! tones {
    ($($name:ident = $tone:ident;)*) => {$(
        #[must_use]
        pub fn $name(self, text: impl AsRef<str>) -> Line {
            self.add(Tone::$tone, text)
        }
    )*};
}

impl Line {
    pub fn new() -> Line {
        Line::default()
    }

    #[must_use]
    pub fn add(mut self, tone: Tone, text: impl AsRef<str>) -> Line {
        let text = visible(text.as_ref());
        if !text.is_empty() {
            self.0.push((tone, text.into_owned()));
        }
        self
    }

    tones! {
        plain = Plain;
        good = Good;
        bad = Bad;
        wait = Wait;
        faint = Faint;
        strong = Strong;
        name = Name;
    }

    /// The name of a file, with the blanks at its ends in sight.
    #[must_use]
    pub fn path(self, name: impl AsRef<str>) -> Line {
        self.plain(with_ends(name.as_ref()))
    }

    #[must_use]
    pub fn join(mut self, other: Line) -> Line {
        self.0.extend(other.0);
        self
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of its text.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(_, text)| text.len()).sum()
    }

    /// Its pieces, clean as they are.
    pub fn parts(&self) -> impl Iterator<Item = (Tone, &str)> {
        self.0.iter().map(|(tone, text)| (*tone, text.as_str()))
    }

    /// Spaces up to `columns`.
    #[must_use]
    pub fn pad(self, columns: usize) -> Line {
        let missing = columns.saturating_sub(self.width());
        self.plain(" ".repeat(missing))
    }

    /// At most `columns` wide, with `…` where something is left out.
    #[must_use]
    pub fn cut(self, columns: usize) -> Line {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns.saturating_sub(1);
        let mut cut = Line::new();
        for (tone, text) in self.0 {
            let mut kept = String::new();
            for c in text.chars() {
                let wide = width(c.encode_utf8(&mut [0; 4]));
                if wide > left {
                    cut.0.push((tone, kept));
                    return cut.faint("…");
                }
                left -= wide;
                kept.push(c);
            }
            cut.0.push((tone, kept));
        }
        cut
    }

    /// The whole line in pieces of `columns`, broken between words where there are any; what goes on is set in a little deeper than
    /// the line began.
    pub fn wrap(self, columns: usize) -> Vec<Line> {
        if self.width() <= columns {
            return vec![self];
        }
        let cells = self.cells();
        let begins = cells.iter().take_while(|(_, c)| *c == ' ').count();
        if let Some(branch) = cells.get(begins).map(|(_, c)| *c).filter(|c| matches!(c, '├' | '└')) {
            return self.wrap_branch(columns, &cells, begins, branch);
        }
        // Under the reason, not under its arrow; under what happened, not under its time.
        let more = match cells.get(begins) {
            Some((_, '↳')) => "↳ why  ".chars().count(),
            Some((_, c)) if c.is_ascii_digit() => time_width(&cells),
            _ => 2,
        };
        let deeper = if begins + more + 2 < columns { begins + more } else { 0 };
        self.wrap_under(columns, deeper)
    }

    /// The same, and what goes on is set in by `deeper`.
    pub fn wrap_under(self, columns: usize, deeper: usize) -> Vec<Line> {
        let mut cells = self.cells();
        let mut lines = Vec::new();
        let mut indent = 0;
        loop {
            let mut used = indent;
            let fits = cells.iter().position(|(_, c)| {
                used += width(c.encode_utf8(&mut [0; 4]));
                used > columns
            });
            let Some(fits) = fits else { break };
            // A word that fills half a line is broken rather than the line left empty.
            let word = cells[..=fits].iter().rposition(|(_, c)| *c == ' ').filter(|at| *at > fits / 2);
            let rest = cells.split_off(word.unwrap_or(fits.max(1)));
            lines.push(Line::of(indent, &std::mem::replace(&mut cells, rest)));
            let blanks = if word.is_some() { cells.iter().take_while(|(_, c)| *c == ' ').count() } else { 0 };
            cells.drain(..blanks);
            indent = deeper;
        }
        lines.push(Line::of(indent, &cells));
        lines
    }

    /// A branch of a tree: its value goes on below itself, and the stem beside it.
    fn wrap_branch(self, columns: usize, cells: &[(Tone, char)], begins: usize, branch: char) -> Vec<Line> {
        let blank = |at: usize| cells.get(at).is_some_and(|(_, c)| *c == ' ');
        let gap = (begins + 3..cells.len()).find(|at| blank(*at) && blank(*at + 1));
        let value = gap.and_then(|gap| (gap..cells.len()).find(|at| !blank(*at)));
        let deeper = value.filter(|value| value * 2 < columns).unwrap_or(begins + 3);
        let stem = if branch == '├' { "│" } else { " " };
        let mut lines = self.wrap_under(columns, deeper);
        for line in lines.iter_mut().skip(1) {
            let rest = std::mem::take(line).cells().split_off(begins + 1);
            *line = Line::new().plain(" ".repeat(begins)).faint(stem).join(Line::of(0, &rest));
        }
        lines
    }

    fn cells(&self) -> Vec<(Tone, char)> {
        self.0.iter().flat_map(|(tone, text)| text.chars().map(|c| (*tone, c))).collect()
    }

    fn of(indent: usize, cells: &[(Tone, char)]) -> Line {
        let mut line = if indent == 0 { Line::new() } else { Line::new().plain(" ".repeat(indent)) };
        for part in cells.chunk_by(|one, other| one.0 == other.0) {
            line.0.push((part[0].0, part.iter().map(|(_, c)| *c).collect()));
        }
        line
    }

    pub fn render(&self, colour: bool) -> String {
        let mut text = String::new();
        for (tone, part) in &self.0 {
            match (colour, tone.sgr()) {
                (false, _) | (true, "") => text.push_str(part),
                (true, sgr) => text.push_str(&format!("\x1b[{sgr}m{part}\x1b[0m")),
            }
        }
        // Trailing blanks only disturb whoever copies the text.
        text.truncate(text.trim_end_matches(' ').len());
        text
    }
}

/// Columns up to what stands behind a time and its mark: `12:57:03    ✓ Writing …`; 2 where there is no time.
fn time_width(cells: &[(Tone, char)]) -> usize {
    let is_time = cells.iter().zip("00:00:00  ".chars()).all(|((_, c), like)| if like == '0' { c.is_ascii_digit() } else { *c == like });
    let blanks = cells.iter().skip(8).take_while(|(_, c)| *c == ' ').count();
    if is_time { 8 + blanks + 2 } else { 2 }
}

/// What a command says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(pub Vec<Line>);

impl Page {
    pub fn new() -> Page {
        Page::default()
    }

    pub fn push(&mut self, line: Line) {
        self.0.push(line);
    }

    pub fn blank(&mut self) {
        self.push(Line::new());
    }

    pub fn append(&mut self, page: Page) {
        self.0.extend(page.0);
    }

    /// Foreign text with its own line breaks.
    pub fn block(&mut self, indent: &str, tone: Tone, text: &str) {
        for line in text.lines() {
            self.push(Line::new().plain(indent).add(tone, line));
        }
    }

    /// `  ↳ why  …`, the second and third line of every no.
    pub fn because(&mut self, word: &str, text: &str) {
        self.because_under("", word, text);
    }

    /// The same below a line that is itself set in.
    pub fn because_under(&mut self, indent: &str, word: &str, text: &str) {
        let mut lines = text.lines();
        self.push(Line::new().faint(format!("{indent}  ↳ {word:<4} ")).plain(lines.next().unwrap_or_default()));
        for line in lines {
            self.push(Line::new().plain(format!("{indent}         ")).plain(line));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The page as bytes for a stream `columns` wide.
    pub fn render(&self, colour: bool, columns: Option<usize>) -> String {
        let mut text = String::new();
        for line in &self.0 {
            match columns {
                Some(columns) => text.push_str(&line.clone().cut(columns).render(colour)),
                None => text.push_str(&line.render(colour)),
            }
            text.push('\n');
        }
        text
    }
}

impl FromIterator<Line> for Page {
    fn from_iter<I: IntoIterator<Item = Line>>(lines: I) -> Page {
        Page(lines.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_plain_or_coloured_and_always_clean() {
        let line = Line::new().good("✓ ").name("task-1").plain(" \x1b]52;c;x\x07");
        assert_eq!(line.render(false), "✓ task-1 \\x1b]52;c;x\\x07");
        assert_eq!(line.render(true), "\x1b[32m✓ \x1b[0m\x1b[36mtask-1\x1b[0m \\x1b]52;c;x\\x07");
    }

    #[test]
    fn a_long_line_breaks_between_words_and_goes_on_below_where_it_began() {
        let wrapped = |line: Line, columns| line.wrap(columns).iter().map(|line| line.render(false)).collect::<Vec<_>>();
        let line = Line::new().plain("  ").faint("  ↳ why  ").plain("it lies outside the project");
        assert_eq!(wrapped(line, 24), ["    ↳ why  it lies", "           outside the", "           project"]);
        assert_eq!(wrapped(Line::new().plain("a bb ccc"), 8), ["a bb ccc"]);
        assert_eq!(wrapped(Line::new().plain("abcdefghij"), 6), ["abcdef", "  ghij"], "a word alone is broken");
    }

    #[test]
    fn what_goes_on_stands_below_where_it_began() {
        let wrapped = |text: &str| Line::new().plain(text).wrap(26).iter().map(|line| line.render(false)).collect::<Vec<_>>();
        assert_eq!(wrapped("├─ why   one two three four five"), ["├─ why   one two three", "│        four five"]);
        assert_eq!(wrapped("└─ why   one two three four five"), ["└─ why   one two three", "         four five"]);
        assert_eq!(wrapped("12:57:03    ✓ Writing a file"), ["12:57:03    ✓ Writing a", "              file"]);
        assert_eq!(wrapped("12 files in this folder and more"), ["12 files in this folder", "  and more"]);
    }

    #[test]
    fn cutting_counts_columns() {
        let line = Line::new().strong("漢字").plain("abc");
        assert_eq!(line.width(), 7);
        assert_eq!(line.clone().cut(7).render(false), "漢字abc");
        assert_eq!(line.clone().cut(4).render(false), "漢…");
        assert_eq!(line.cut(6).render(false), "漢字a…");
    }

    #[test]
    fn wrapping_loses_nothing() {
        let line = Line::new().plain("  ab").strong("cdefgh").plain("漢字");
        let wrapped = line.clone().wrap(8);
        assert_eq!(wrapped.iter().map(|line| line.render(false)).collect::<Vec<_>>(), ["  abcdef", "    gh漢", "    字"]);
        assert!(wrapped.iter().all(|line| line.width() <= 8));
        assert_eq!(line.clone().wrap(14), vec![line.clone()]);
        assert_eq!(line.wrap(1).len(), 12, "a terminal of one column is no reason to hang");
    }

    #[test]
    fn a_block_keeps_its_lines_and_loses_its_teeth() {
        let mut page = Page::new();
        page.block("  ", Tone::Plain, "a\r\n\tb\x1b[31m");
        page.because("why", "one\ntwo");
        assert_eq!(page.render(false, None), "  a\n      b\\x1b[31m\n  ↳ why  one\n         two\n");
    }
}
