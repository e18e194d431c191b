//! Ways to be served that cost more or less than the list price, and searches that the provider makes by itself.
//!
//! A request says which it wants, an answer which it got; where the answer is silent, what was wanted counts.

use super::{Dialect, body::Members, runs::WEB_SEARCH};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a request is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    pub pace: Pace,
    /// In the United States alone.
    pub us: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    #[default]
    Standard,
    /// When there is time, for less.
    Flex,
    /// Before others, for more.
    Priority,
    /// Faster, for much more.
    Fast,
}

/// Searches that a request may make where it sets no limit itself.
const SEARCHES: u64 = 10;

impl Mode {
    /// From the words that providers have for it; what we do not know is the standard.
    pub(super) fn of(dialect: Dialect, words: &[&str]) -> Mode {
        let mut mode = Mode::default();
        for word in words {
            let word = word.to_ascii_lowercase();
            let word = word.strip_prefix("service_tier_").or(word.strip_prefix("on_demand_")).unwrap_or(&word);
            match word {
                // Anthropic's priority was paid for beforehand.
                "priority" if dialect != Dialect::Anthropic => mode.pace = Pace::Priority,
                "fast" => mode.pace = Pace::Fast,
                "flex" => mode.pace = Pace::Flex,
                "us" => mode.us = true,
                _ => {}
            }
        }
        mode
    }

    /// What a request wants.
    pub(super) fn wanted(dialect: Dialect, members: &Members<'_>) -> Result<Mode, String> {
        let mut words = Vec::new();
        for names in [&["service_tier", "serviceTier"][..], &["speed"], &["inference_geo"]] {
            words.extend(members.one(names)?.and_then(|(value, _)| serde_json::from_str::<String>(value).ok()));
        }
        Ok(Mode::of(dialect, &words.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

/// The most searches that a request lets the provider make, where it lets it make any.
pub(super) fn searches(dialect: Dialect, members: &Members<'_>) -> Result<u64, String> {
    if dialect == Dialect::Chat {
        return Ok(1);
    }
    let most = match members.one(&["max_tool_calls"])? {
        Some((value, _)) => super::number("max_tool_calls", value)?.unwrap_or(SEARCHES),
        None => SEARCHES,
    };
    // Read before, so every tool is an object and has one type.
    let tools = members.one(&["tools"])?.map(|(tools, _)| super::body::tree(tools)).transpose()?.unwrap_or_default();
    let of = |tool: &Value| match tool["type"].as_str() {
        Some(kind) if kind.starts_with(WEB_SEARCH) => tool["max_uses"].as_u64().unwrap_or(most),
        _ => 0,
    };
    let counted = tools.as_array().into_iter().flatten().map(of).fold(0, u64::saturating_add);
    // Gemini's has no type; others may stand within a tool, or in the conversation.
    Ok(if counted == 0 { most } else { counted })
}
