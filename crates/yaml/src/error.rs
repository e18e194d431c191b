//! What is wrong with a file, and where.

use std::fmt;

/// A place in a file. Lines and columns count from one; zero is nowhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Location {
    line: u32,
    column: u32,
}

impl Location {
    pub const UNKNOWN: Location = Location { line: 0, column: 0 };

    pub(crate) fn new(line: usize, column: usize) -> Location {
        let bounded = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Location { line: bounded(line), column: bounded(column) }
    }

    pub fn line(self) -> u64 {
        self.line.into()
    }

    pub fn column(self) -> u64 {
        self.column.into()
    }

    /// Both in one number, as which it goes through serde; see `spanned.rs`.
    pub(crate) fn packed(self) -> u64 {
        (u64::from(self.line) << 32) | u64::from(self.column)
    }

    pub(crate) fn unpacked(packed: u64) -> Location {
        Location { line: (packed >> 32) as u32, column: packed as u32 }
    }
}

/// A file that cannot be read, or does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    pub at: Location,
    pub fault: YamlFault,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlFault {
    /// A key that the type does not have.
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    /// A word that is none of those that may stand there.
    UnknownWord {
        word: String,
        known: &'static [&'static str],
    },
    MissingKey(&'static str),
    DuplicateKey(String),
    SecondDocument,
    /// Nothing, or `null`, where a word belongs.
    NoValue,
    NotAList,
    NotAMap,
    /// In the words of the YAML parser, of serde or of the type.
    Other(String),
}

impl YamlError {
    pub(crate) fn new(at: Location, fault: YamlFault) -> YamlError {
        YamlError { at, fault }
    }

    pub(crate) fn other(at: Location, what: impl Into<String>) -> YamlError {
        YamlError::new(at, YamlFault::Other(what.into()))
    }

    /// The same with a place, if it has none. Who reads the innermost part is the first to say where.
    pub(crate) fn or_at(mut self, at: Location) -> YamlError {
        if self.at == Location::UNKNOWN {
            self.at = at;
        }
        self
    }
}

impl std::error::Error for YamlError {}

impl fmt::Display for YamlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.at.line, self.at.column, self.fault)
    }
}

impl fmt::Display for YamlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            YamlFault::UnknownKey { key, known } => write!(f, "unknown field `{key}`, expected one of {}", known.join(", ")),
            YamlFault::UnknownWord { word, known } => write!(f, "unknown variant `{word}`, expected one of {}", known.join(", ")),
            YamlFault::MissingKey(key) => write!(f, "the key `{key}` is missing"),
            YamlFault::DuplicateKey(key) => write!(f, "the key `{key}` stands here twice"),
            YamlFault::SecondDocument => f.write_str("the file goes on after its end"),
            YamlFault::NoValue => f.write_str("there is no value here"),
            YamlFault::NotAList => f.write_str("this is to be a list"),
            YamlFault::NotAMap => f.write_str("these are to be keys with their values"),
            YamlFault::Other(what) => f.write_str(what),
        }
    }
}

impl serde::de::Error for YamlError {
    fn custom<T: fmt::Display>(what: T) -> YamlError {
        YamlError::other(Location::UNKNOWN, what.to_string())
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> YamlError {
        YamlError::new(Location::UNKNOWN, YamlFault::UnknownKey { key: key.to_owned(), known })
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> YamlError {
        YamlError::new(Location::UNKNOWN, YamlFault::UnknownWord { word: word.to_owned(), known })
    }

    fn missing_field(key: &'static str) -> YamlError {
        YamlError::new(Location::UNKNOWN, YamlFault::MissingKey(key))
    }
}
