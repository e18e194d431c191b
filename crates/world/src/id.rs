//! Names of things. Pids are numbers that are never reused; every other id is `kind-n` from a counter in the world.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// A process of the kernel's own tree, not of the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u64);

impl Pid {
    /// The kernel itself, the root of the tree.
    pub const KERNEL: Pid = Pid(1);
    /// The person at the terminal.
    pub const OPERATOR: Pid = Pid(2);
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Pid {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        let digits = text.strip_prefix('p').unwrap_or(text);
        digits.parse().map(Pid).map_err(|_| BadId { form: "a pid, such as 3", text: text.to_owned() })
    }
}

impl ZoneId {
    /// No zone: what the operator does outside every project.
    pub const NONE: ZoneId = ZoneId(0);

    pub fn none() -> ZoneId {
        ZoneId::NONE
    }

    pub fn is_none(&self) -> bool {
        *self == ZoneId::NONE
    }
}

/// Text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {form}")]
pub struct BadId {
    pub form: &'static str,
    pub text: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "-{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix(concat!($prefix, "-"))
                    .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0'))
                    .and_then(|digits| digits.parse().ok())
                    .map($name)
                    .ok_or_else(|| BadId { form: concat!("of the form ", $prefix, "-3"), text: text.to_owned() })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

ids! {
    TaskId = "task";
    CallId = "call";
    ReviewId = "r";
    GrantId = "g";
    BanId = "b";
    TokenId = "t";
    MergeId = "m";
    /// A git worktree the kernel works in.
    ZoneId = "zone";
    /// A message between processes.
    MessageId = "msg";
    /// A version of something that a process stored.
    ArtifactId = "art";
    EscalationId = "esc";
    CronId = "cron";
    /// What a session taught.
    LessonId = "l";
    /// A stream of bytes between a parent and its child.
    StreamId = "stream";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_as_written_and_nothing_else_is() {
        assert_eq!("task-12".parse::<TaskId>(), Ok(TaskId(12)));
        assert_eq!(TaskId(12).to_string(), "task-12");
        for bad in ["task-", "task-0", "task-012", "task-+1", "r-1", "12", "task-99999999999999999999"] {
            assert!(bad.parse::<TaskId>().is_err(), "{bad}");
        }
        assert_eq!("p7".parse::<Pid>(), Ok(Pid(7)));
    }
}
