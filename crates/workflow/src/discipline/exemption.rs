//! A request for leave to change something without tests.

use serde_json::Value;
use world::{Code, ExemptionCategory, Refusal};

/// Paths that one exemption may name.
const PATHS_MAX: usize = 100;
const REASON_CHARS_MAX: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExemptionRequest {
    pub category: ExemptionCategory,
    pub paths: Vec<String>,
    pub reason: String,
}

/// Reads a request. Its paths are those of files below the project, each as it is written there.
pub fn exemption_request(input: &Value) -> Result<ExemptionRequest, Refusal> {
    let no = |reason: String| Err(Refusal::new(Code::BadInput, reason).hint("give category, paths and reason"));
    let word = input["category"].as_str().unwrap_or_default();
    let Some(category) = ExemptionCategory::parse(word) else {
        let known: Vec<&str> = ExemptionCategory::ALL.iter().map(|category| category.as_str()).collect();
        return no(format!("`category` is one of {}", known.join(", ")));
    };
    let listed = input.get("paths").or_else(|| input.get("affected_paths")).and_then(Value::as_array);
    let paths: Option<Vec<String>> = listed.map(|paths| paths.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect());
    let Some(paths) = paths.filter(|paths| !paths.is_empty() && paths.len() <= PATHS_MAX && Some(paths.len()) == listed.map(Vec::len))
    else {
        return no(format!("`paths` is a list of 1 to {PATHS_MAX} paths"));
    };
    let is_plain = |path: &&String| !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if let Some(path) = paths.iter().find(|path| !is_plain(path)) {
        return no(format!("`{path}` is no plain path below the project"));
    }
    let reason = input["reason"].as_str().unwrap_or_default().trim();
    if reason.is_empty() {
        return no("`reason` is empty".to_owned());
    }
    Ok(ExemptionRequest { category, paths, reason: reason.chars().take(REASON_CHARS_MAX).collect() })
}
