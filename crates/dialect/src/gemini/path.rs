//! The path of a Gemini request, which names the model and the kind of answer: `/v1beta/models/MODEL:VERB`.

use crate::members::Span;

pub(super) const NO_MODEL: &str = "its path names no model";

/// Where in the path the model's name stands, and the verb behind it.
pub(super) fn model_and_verb(path: &str) -> Option<(Span, &str)> {
    let path = path.split('?').next().unwrap_or(path);
    let from = path.rfind("/models/")? + "/models/".len();
    let colon = from + path.get(from..)?.rfind(':')?;
    let verb = path.get(colon + 1..)?;
    let before = path[..from].strip_prefix('/')?.trim_end_matches('/');
    let fits = colon > from && !path[from..colon].contains('/') && leads_to_models(before);
    fits.then_some((from..colon, verb))
}

/// Google's models stand below its version, or below a project and Google as their publisher; elsewhere the same name is something else.
fn leads_to_models(before: &str) -> bool {
    let segments: Vec<&str> = before.split('/').collect();
    let rest = match segments.split_first() {
        Some((version, rest)) if matches!(*version, "v1" | "v1alpha" | "v1beta" | "v1beta1") => rest,
        _ => &segments,
    };
    match rest {
        ["models"] | ["publishers", "google", "models"] => true,
        ["projects", project, "locations", place, "publishers", "google", "models"] => is_plain(project) && is_plain(place),
        _ => false,
    }
}

/// Whether a segment stands for itself, so that nothing leads out of the provider's own path.
fn is_plain(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain_byte)
}

fn is_plain_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte)
}

/// A model's name out of a path: what a provider reads there, however it is written.
pub(super) fn decode_model(segment: &str) -> Result<String, String> {
    let mut name = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let hex = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        name.push(hex.ok_or("the model in its path cannot be read")?);
        rest = &after[2..];
    }
    let name = String::from_utf8(name).map_err(|_| "the model in its path is not UTF-8".to_owned())?;
    // A provider that reads such a path another way would be asked for something else.
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | '?' | '#' | '%');
    if name.contains(is_odd) || name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(format!("`{segment}` is no name of a model"));
    }
    Ok(name)
}

/// A model's name as a segment of a path.
pub(super) fn encode_model(model: &str) -> String {
    model.bytes().map(|byte| if is_plain_byte(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
