//! Versions of tools, and ranges of them as npm writes them: `1.x`, `^1.2`, `~1.2.3`, `>=1.0.0 <2`, `1.0 - 1.4`, `1 || 2`.
//!
//! A version with a pre-release (`2.0.0-rc.1`) is in a range only if a part of the range names a pre-release of the same three numbers.

use crate::findings::shown;
use std::cmp::Ordering;
use std::fmt;

/// Three numbers and perhaps a pre-release. What a `+` adds is of no weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolVersion {
    numbers: [u64; 3],
    pre: Vec<PrePart>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrePart {
    // Numbers come before words.
    Number(u64),
    Word(String),
}

impl ToolVersion {
    pub fn parse(text: &str) -> Option<ToolVersion> {
        match Partial::parse(text)? {
            Partial { numbers: [Some(major), Some(minor), Some(patch)], pre } => Some(ToolVersion { numbers: [major, minor, patch], pre }),
            _ => None,
        }
    }
}

impl PartialOrd for ToolVersion {
    fn partial_cmp(&self, other: &ToolVersion) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ToolVersion {
    fn cmp(&self, other: &ToolVersion) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            // A release comes after its pre-releases.
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

/// Which versions of a tool a step takes.
#[derive(Clone, PartialEq, Eq)]
pub struct VersionRange {
    text: String,
    /// One of them must hold, and of it all.
    alternatives: Vec<Vec<Bound>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    sign: Sign,
    version: ToolVersion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Less,
    AtMost,
    Equal,
    AtLeast,
    More,
}

/// More are of no use to anybody.
const ALTERNATIVES_MAX: usize = 16;
const BOUNDS_MAX: usize = 16;

impl VersionRange {
    pub fn parse(text: &str) -> Result<VersionRange, String> {
        let flaw = || format!("`{}` is not a range of versions such as `^1.2`, `>=1.0.0 <2` or `1.x`", shown(text));
        let alternatives: Vec<Vec<Bound>> = text.split("||").map(|part| alternative(part).ok_or_else(flaw)).collect::<Result<_, _>>()?;
        if alternatives.len() > ALTERNATIVES_MAX || alternatives.iter().any(|bounds| bounds.len() > BOUNDS_MAX) {
            return Err(flaw());
        }
        Ok(VersionRange { text: text.to_owned(), alternatives })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Is this version in it? What is no version is in no range.
    pub fn has(&self, version: &str) -> bool {
        let Some(version) = ToolVersion::parse(version) else { return false };
        self.alternatives.iter().any(|bounds| {
            let is_named = |bound: &Bound| !bound.version.pre.is_empty() && bound.version.numbers == version.numbers;
            bounds.iter().all(|bound| bound.holds(&version)) && (version.pre.is_empty() || bounds.iter().any(is_named))
        })
    }
}

impl fmt::Debug for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VersionRange").field(&self.text).finish()
    }
}

impl Bound {
    fn holds(&self, version: &ToolVersion) -> bool {
        match self.sign {
            Sign::Less => version < &self.version,
            Sign::AtMost => version <= &self.version,
            Sign::Equal => version == &self.version,
            Sign::AtLeast => version >= &self.version,
            Sign::More => version > &self.version,
        }
    }
}

/// A version of which the end may be left open: `1`, `1.2`, `1.x`, `*`.
struct Partial {
    numbers: [Option<u64>; 3],
    pre: Vec<PrePart>,
}

impl Partial {
    fn parse(text: &str) -> Option<Partial> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        if build.is_some_and(|build| !build.split('.').all(is_word)) {
            return None;
        }
        let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
        let mut numbers = [None; 3];
        let mut is_open = false;
        for (place, part) in core.split('.').enumerate() {
            let slot = numbers.get_mut(place)?;
            match part {
                "x" | "X" | "*" => is_open = true,
                // What follows an open place is open too.
                _ if is_open => return None,
                part => *slot = Some(number(part)?),
            }
        }
        let pre = match pre {
            None => Vec::new(),
            // Only a whole version has pre-releases.
            Some(_) if numbers[2].is_none() => return None,
            Some(pre) => pre.split('.').map(pre_part).collect::<Option<_>>()?,
        };
        Some(Partial { numbers, pre })
    }

    /// The first version that it stands for.
    fn first(&self) -> ToolVersion {
        ToolVersion { numbers: self.numbers.map(|number| number.unwrap_or(0)), pre: self.pre.clone() }
    }

    /// The first version after all that it stands for; `None` where nothing comes after them.
    fn after(&self) -> Option<ToolVersion> {
        match self.numbers {
            [None, ..] => None,
            [Some(major), None, _] => Some(before_release([major.saturating_add(1), 0, 0])),
            [Some(major), Some(minor), _] => Some(before_release([major, minor.saturating_add(1), 0])),
        }
    }
}

/// The lowest version of these numbers, so that pre-releases of the next ones are outside too.
fn before_release(numbers: [u64; 3]) -> ToolVersion {
    ToolVersion { numbers, pre: vec![PrePart::Number(0)] }
}

/// No leading zeros, as semver has it.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && (text == "0" || !text.starts_with('0')) { text.parse().ok() } else { None }
}

fn pre_part(text: &str) -> Option<PrePart> {
    match number(text) {
        Some(number) => Some(PrePart::Number(number)),
        None if is_word(text) && !text.bytes().all(|byte| byte.is_ascii_digit()) => Some(PrePart::Word(text.to_owned())),
        None => None,
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The bounds of what stands between two `||`.
fn alternative(text: &str) -> Option<Vec<Bound>> {
    let text = text.trim_matches(' ');
    if let Some((low, high)) = text.split_once(" - ") {
        let (low, high) = (Partial::parse(low.trim_matches(' '))?, Partial::parse(high.trim_matches(' '))?);
        let mut bounds = vec![Bound { sign: Sign::AtLeast, version: low.first() }];
        bounds.extend(at_most(&high));
        return Some(bounds);
    }
    let mut bounds = Vec::new();
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let mut count = 0;
    while let Some(word) = words.next() {
        count += 1;
        let sign_end = word.find(|letter| !matches!(letter, '<' | '>' | '=' | '^' | '~')).unwrap_or(word.len());
        let (sign, version) = word.split_at(sign_end);
        // `>= 1.0` is written with a blank too.
        let version = if version.is_empty() { words.next()? } else { version };
        bounds.extend(comparator(sign, &Partial::parse(version)?)?);
    }
    (count > 0).then_some(bounds)
}

fn at_most(partial: &Partial) -> Option<Bound> {
    match (partial.numbers, partial.after()) {
        ([_, _, Some(_)], _) => Some(Bound { sign: Sign::AtMost, version: partial.first() }),
        (_, Some(after)) => Some(Bound { sign: Sign::Less, version: after }),
        (_, None) => None,
    }
}

fn comparator(sign: &str, partial: &Partial) -> Option<Vec<Bound>> {
    let first = || Bound { sign: Sign::AtLeast, version: partial.first() };
    let below = |version: Option<ToolVersion>| version.map(|version| Bound { sign: Sign::Less, version });
    let is_whole = partial.numbers[2].is_some();
    Some(match sign {
        "" | "=" if is_whole => vec![Bound { sign: Sign::Equal, version: partial.first() }],
        "" | "=" | "~" => std::iter::once(first()).chain(below(partial.after())).collect(),
        "^" => {
            let after = match partial.numbers {
                [None, ..] => None,
                [Some(0), Some(0), Some(patch)] => Some(before_release([0, 0, patch.saturating_add(1)])),
                [Some(0), Some(minor), _] => Some(before_release([0, minor.saturating_add(1), 0])),
                [Some(major), ..] => Some(before_release([major.saturating_add(1), 0, 0])),
            };
            std::iter::once(first()).chain(below(after)).collect()
        }
        ">=" => vec![first()],
        "<" => vec![Bound { sign: Sign::Less, version: if is_whole { partial.first() } else { before_release(partial.first().numbers) } }],
        "<=" => at_most(partial).into_iter().collect(),
        ">" if is_whole => vec![Bound { sign: Sign::More, version: partial.first() }],
        // After all that it stands for; `>*` has nothing.
        ">" => match partial.after() {
            Some(after) => vec![Bound { sign: Sign::AtLeast, version: ToolVersion { pre: Vec::new(), ..after } }],
            None => vec![Bound { sign: Sign::Less, version: before_release([0, 0, 0]) }],
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, inside: &[&str], outside: &[&str]) {
        let parsed = VersionRange::parse(range).unwrap();
        assert_eq!(parsed.as_str(), range);
        for version in inside {
            assert!(parsed.has(version), "{version} is in {range}");
        }
        for version in outside {
            assert!(!parsed.has(version), "{version} is not in {range}");
        }
    }

    #[test]
    fn ranges_mean_what_they_mean_to_npm() {
        check("1.2.3", &["1.2.3", "1.2.3+build.7"], &["1.2.4", "1.2.3-rc.1", "0.1.2"]);
        check("=1.2.3", &["1.2.3"], &["1.2.2"]);
        check("1", &["1.0.0", "1.99.0"], &["2.0.0", "0.9.9", "2.0.0-rc.1"]);
        check("1.x", &["1.0.0", "1.99.0"], &["2.0.0"]);
        check("1.2.*", &["1.2.0", "1.2.9"], &["1.3.0"]);
        check("*", &["0.0.0", "99.0.0"], &["1.0.0-rc.1", "new"]);
        check("^1.2", &["1.2.0", "1.9.9"], &["1.1.9", "2.0.0", "2.0.0-alpha"]);
        check("^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0", "0.2.2"]);
        check("^0.0.3", &["0.0.3"], &["0.0.4"]);
        check("^0", &["0.0.1", "0.9.0"], &["1.0.0"]);
        check("~1.2.3", &["1.2.3", "1.2.9"], &["1.3.0", "1.2.2"]);
        check("~1", &["1.9.0"], &["2.0.0"]);
        check(">=1.0.0 <2", &["1.0.0", "1.9.9"], &["2.0.0", "0.9.9", "2.0.0-rc.1"]);
        check(">= 1.0 < 1.5.1", &["1.5.0"], &["1.5.1"]);
        check(">1", &["2.0.0"], &["1.9.9", "1.0.0"]);
        check(">1.2.3", &["1.2.4"], &["1.2.3"]);
        check("<=1.2", &["1.2.9", "0.0.1"], &["1.3.0"]);
        check("1.0 - 1.4", &["1.0.0", "1.4.9"], &["1.5.0", "0.9.0"]);
        check("1.0.0 - 1.4.2", &["1.4.2"], &["1.4.3"]);
        check("1 || 3.x", &["1.5.0", "3.0.0"], &["2.0.0"]);
        check(">=99", &["99.0.0"], &["1.0.0"]);
        check(">*", &[], &["1.0.0", "0.0.0"]);
        check("v1.0.0", &["1.0.0"], &["1.0.1"]);
    }

    #[test]
    fn a_pre_release_is_only_in_a_range_that_names_one_of_its_numbers() {
        check(">=1.0.0-rc.1", &["1.0.0-rc.1", "1.0.0-rc.2", "1.0.0-rc.10", "1.0.0", "2.0.0"], &["1.0.0-beta", "1.0.0-1", "1.1.0-rc.1"]);
        check("^1.0.0", &["1.0.0"], &["1.0.1-rc.1"]);
        let ordered = ["1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.1", "1.0.0", "1.0.1-0"];
        let versions: Vec<ToolVersion> = ordered.iter().map(|text| ToolVersion::parse(text).unwrap()).collect();
        assert!(versions.windows(2).all(|pair| pair[0] < pair[1]), "{versions:?}");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            " ",
            "newest",
            "1.2.3.4",
            "01.2.3",
            "1.x.3",
            "1.-1",
            ">",
            ">>1",
            "1 ||",
            "|| 1",
            "1.0.0-",
            "1.0-rc",
            "1.0.0+",
            "^",
            "~>1",
            "1.0 - ",
            "a - b",
            "9999999999999999",
            "1.2.3 \u{202e}",
        ] {
            let told = VersionRange::parse(text).unwrap_err();
            assert!(told.contains("is not a range of versions") && !told.contains('\u{202e}'), "{text}: {told}");
        }
        assert!(VersionRange::parse(&vec!["1"; 17].join("||")).is_err());
        assert!(VersionRange::parse(&vec!["1"; 16].join("||")).is_ok());
        assert!(!VersionRange::parse("*").unwrap().has("not a version"));
    }
}
