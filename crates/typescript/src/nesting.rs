//! How deep brackets are nested, before a parser recurses into them.
//!
//! It reads strings, templates, comments and regular expressions well enough to skip them. A text that it reads wrongly is at worst
//! parsed on a stack that ends, and that ends the child, not the kernel.

/// The first byte that is nested deeper than `max`.
pub(super) fn too_deep(text: &str, max: usize) -> Option<usize> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, open: Vec::new(), value: false };
    while scan.at < scan.bytes.len() {
        scan.step();
        if scan.open.len() > max {
            return Some(scan.at - 1);
        }
    }
    None
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    /// Open brackets; a backtick is a `${` of a template.
    open: Vec<u8>,
    /// Does a value stand before this byte? Then a slash divides.
    value: bool,
}

/// Words before which a value has not ended.
const BEFORE_VALUE: [&[u8]; 13] =
    [b"return", b"typeof", b"case", b"in", b"of", b"instanceof", b"void", b"delete", b"throw", b"new", b"do", b"else", b"yield"];

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn step(&mut self) {
        match self.peek(0) {
            quote @ (b'"' | b'\'') => self.string(quote),
            b'`' => self.template(),
            b'/' if self.peek(1) == b'/' => self.skip_to(b"\n"),
            b'/' if self.peek(1) == b'*' => {
                self.at += 2;
                self.skip_to(b"*/");
            }
            b'/' if !self.value => self.regex(),
            bracket @ (b'(' | b'[' | b'{') => {
                self.open.push(bracket);
                (self.at, self.value) = (self.at + 1, false);
            }
            b'}' if self.open.last() == Some(&b'`') => {
                self.open.pop();
                self.template();
            }
            close @ (b')' | b']' | b'}') => {
                self.open.pop();
                (self.at, self.value) = (self.at + 1, close != b'}');
            }
            byte if byte == b'_' || byte == b'$' || byte.is_ascii_alphanumeric() || !byte.is_ascii() => self.word(),
            byte => {
                self.value = byte.is_ascii_whitespace() && self.value;
                self.at += 1;
            }
        }
    }

    fn skip_to(&mut self, end: &[u8]) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let found = rest.windows(end.len()).position(|window| window == end);
        self.at = found.map_or(self.bytes.len(), |found| self.at + found + end.len());
    }

    fn word(&mut self) {
        let start = self.at;
        while matches!(self.peek(0), b'_' | b'$' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | 0x80..) {
            self.at += 1;
        }
        self.value = !BEFORE_VALUE.contains(&&self.bytes[start..self.at]);
    }

    /// From its first quote to its last, or to the end of the line.
    fn string(&mut self, quote: u8) {
        self.at += 1;
        while !matches!(self.peek(0), 0 | b'\n') {
            let byte = self.peek(0);
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == quote {
                break;
            }
        }
        self.value = true;
    }

    /// From a backtick, or from the end of an expression in it, to the next expression or to the end.
    fn template(&mut self) {
        self.at += 1;
        self.value = true;
        while self.at < self.bytes.len() {
            match (self.peek(0), self.peek(1)) {
                (b'`', _) => {
                    self.at += 1;
                    return;
                }
                (b'$', b'{') => {
                    self.at += 2;
                    self.value = false;
                    self.open.push(b'`');
                    return;
                }
                (b'\\', _) => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    /// A regular expression ends with its line at the latest.
    fn regex(&mut self) {
        self.at += 1;
        let mut class = false;
        while !matches!(self.peek(0), 0 | b'\n') {
            let byte = self.peek(0);
            self.at += if byte == b'\\' { 2 } else { 1 };
            match byte {
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => break,
                _ => {}
            }
        }
        self.value = true;
    }
}

#[cfg(test)]
mod tests {
    use super::too_deep;

    #[test]
    fn only_brackets_of_code_count() {
        let check = |text: &str, wanted| assert_eq!(too_deep(text, 2), wanted, "{text}");
        check("((1))", None);
        check("(((1)))", Some(2));
        check("({[", Some(2));
        check("() [] {} () [] {}", None);
        check("'(((' + \"(((\" + `(((` // (((\n/* ((( */", None);
        check(r"'\'(((' + `\`(((`", None);
        check("a = /(((/; b = c / d; e = [/[/]((((/]", None);
        check("a / (((b)))", Some(6));
        check("`${`${`${1}`}`}`", Some(8));
        check("`${1}${2}${3}`", None);
        check("return /(((/.test(a)", None);
        check("ä / ((('", Some(7));
        check("'unended\n(((", Some(11));
    }
}
