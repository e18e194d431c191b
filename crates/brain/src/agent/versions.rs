//! Which versions of the vendors' clients were tried with what is built here.
//!
//! Formats move with versions: one outside the range may work, and whoever uses it is told the range.

use std::fmt;
use world::Vendor;

/// From the first version that was tried to the last; a bound of two numbers stands for all that begin with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedVersions {
    pub first: &'static str,
    pub last: &'static str,
}

/// The versions of a vendor's client that were tried.
pub fn tried(vendor: Vendor) -> TriedVersions {
    let (first, last) = match vendor {
        Vendor::Claude => ("2.1.197", "2.1.325"),
        Vendor::Codex => ("0.166", "0.166"),
        Vendor::OpenCode => ("1.18", "1.18"),
        Vendor::Gemini => ("0.61", "0.61"),
    };
    TriedVersions { first, last }
}

/// The version in what a client prints for `--version`, such as `codex-cli 0.166.0`.
pub fn version_in(printed: &str) -> Option<&str> {
    let words = printed.split(|letter: char| letter.is_whitespace() || letter == '(' || letter == ')');
    words.map(|word| word.strip_prefix('v').unwrap_or(word)).find(|word| numbers(word).is_some_and(|numbers| numbers.len() >= 2))
}

impl TriedVersions {
    /// Lies this version within the range? One that is no version does not.
    pub fn covers(&self, version: &str) -> bool {
        let (Some(version), Some(first), Some(last)) = (numbers(version), numbers(self.first), numbers(self.last)) else { return false };
        let upto = |bound: &[u64]| version.iter().copied().chain(std::iter::repeat(0)).take(bound.len()).collect::<Vec<_>>();
        upto(&first) >= first && upto(&last) <= last
    }
}

impl fmt::Display for TriedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => f.write_str(self.first),
            false => write!(f, "{} to {}", self.first, self.last),
        }
    }
}

/// The numbers of a version, without what stands behind a hyphen.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let plain = version.split(['-', '+']).next().unwrap_or_default();
    plain.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_in_what_a_client_prints() {
        let rows = [
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("2.1.197 (Claude Code)", Some("2.1.197")),
            ("v1.18.33", Some("1.18.33")),
            ("0.62.0-preview.1", Some("0.62.0-preview.1")),
            ("no version 7", None),
            ("", None),
        ];
        for (printed, version) in rows {
            assert_eq!(version_in(printed), version, "{printed}");
        }
    }

    #[test]
    fn a_range_covers_what_was_tried() {
        let rows = [
            (Vendor::Claude, "2.1.197", true),
            (Vendor::Claude, "2.1.325", true),
            (Vendor::Claude, "2.1.196", false),
            (Vendor::Claude, "2.1.326", false),
            (Vendor::Claude, "2.2.0", false),
            (Vendor::Codex, "0.166.0", true),
            (Vendor::Codex, "0.166.9", true),
            (Vendor::Codex, "0.167.0", false),
            (Vendor::OpenCode, "1.18.33", true),
            (Vendor::OpenCode, "1.2.0", false),
            (Vendor::Gemini, "0.61.0-nightly.1", true),
            (Vendor::Gemini, "0.6.1", false),
            (Vendor::Gemini, "latest", false),
        ];
        for (vendor, version, covered) in rows {
            assert_eq!(tried(vendor).covers(version), covered, "{vendor:?} {version}");
        }
        assert_eq!((tried(Vendor::Claude).to_string(), tried(Vendor::Codex).to_string()), ("2.1.197 to 2.1.325".into(), "0.166".into()));
    }
}
