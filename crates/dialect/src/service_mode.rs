//! How a request is served, where that costs more or less than the list price, and how often the provider searches for it.
//!
//! A request says which mode it wants, an answer which it got; where the answer does not say, the request counts.

use crate::format::WireFormat;
use crate::members::{Members, number, tree};
use crate::provider_tools::WEB_SEARCH;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a request is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceMode {
    pub pace: Pace,
    /// In the United States alone.
    pub us: bool,
}

/// How fast a request is served.
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
const SEARCHES_DEFAULT: u64 = 10;

impl ServiceMode {
    /// From the words that providers have for it; what we do not know is the standard.
    pub(crate) fn of(format: &dyn WireFormat, words: &[&str]) -> ServiceMode {
        let mut mode = ServiceMode::default();
        for word in words {
            let word = word.to_ascii_lowercase();
            let word = word.strip_prefix("service_tier_").or(word.strip_prefix("on_demand_")).unwrap_or(&word);
            match word {
                "priority" if !format.priority_is_prepaid() => mode.pace = Pace::Priority,
                "fast" => mode.pace = Pace::Fast,
                "flex" => mode.pace = Pace::Flex,
                "us" => mode.us = true,
                _ => {}
            }
        }
        mode
    }

    /// What a request wants.
    pub(crate) fn wanted(format: &dyn WireFormat, members: &Members<'_>) -> Result<ServiceMode, String> {
        let mut words = Vec::new();
        for names in [&["service_tier", "serviceTier"][..], &["speed"], &["inference_geo"]] {
            words.extend(members.one(names)?.and_then(|(value, _)| serde_json::from_str::<String>(value).ok()));
        }
        Ok(ServiceMode::of(format, &words.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

/// The most searches that a request lets the provider make, where it lets it make any.
pub(crate) fn searches_max(format: &dyn WireFormat, members: &Members<'_>) -> Result<u64, String> {
    if format.searches_once() {
        return Ok(1);
    }
    let most = match members.one(&["max_tool_calls"])? {
        Some((value, _)) => number("max_tool_calls", value)?.unwrap_or(SEARCHES_DEFAULT),
        None => SEARCHES_DEFAULT,
    };
    // Read before, so every tool is an object and has one type.
    let tools = members.one(&["tools"])?.map(|(tools, _)| tree(tools)).transpose()?.unwrap_or_default();
    let of = |tool: &Value| match tool["type"].as_str() {
        Some(kind) if kind.starts_with(WEB_SEARCH) => tool["max_uses"].as_u64().unwrap_or(most),
        _ => 0,
    };
    let counted = tools.as_array().into_iter().flatten().map(of).fold(0, u64::saturating_add);
    // Gemini's has no type; others may stand within a tool, or in the conversation.
    Ok(if counted == 0 { most } else { counted })
}
