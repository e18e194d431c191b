//! A brain by its whole name, as khlone writes it: `claude@anthropic/claude/code/opus/v4.5` is a client, who makes its model, and which.
//!
//! Pure. The model is named as that client wants it on its command line.

use super::{BrainSpec, UnknownBrain, Vendor};

/// Reads `CLIENT@SUPPLIER/PART/…`.
pub(super) fn parse(name: &str) -> Result<BrainSpec, UnknownBrain> {
    let unknown = |why: String| UnknownBrain { name: name.to_owned(), why: Some(why) };
    let (client, model) = name.split_once('@').unwrap_or((name, ""));
    let vendor = Vendor::of(client).ok_or_else(|| unknown(format!("`{client}` is no client")))?;
    let parts: Vec<&str> = model.split('/').collect();
    let is_word = |part: &&str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let (Some(supplier), true) = (parts.first(), parts.iter().all(is_word)) else {
        return Err(unknown(format!("`{model}` names no model: write SUPPLIER/MODEL/VERSION, such as anthropic/claude/opus/v4.5")));
    };
    let own = vendor.supplier();
    if own.is_some_and(|own| own != *supplier) {
        return Err(unknown(format!("{client} has models of {} and none of {supplier}", own.unwrap_or_default())));
    }
    // Which interface a model is used through is the client's business.
    let words: Vec<&str> = parts[1..].iter().copied().filter(|part| *part != "code").collect();
    Ok(BrainSpec::Vendor { vendor, model: model_of(vendor, supplier, &words) })
}

/// The model as the client calls it; `None` where the client is to take its own.
fn model_of(vendor: Vendor, supplier: &str, words: &[&str]) -> Option<String> {
    let version = words.last().copied().and_then(version);
    let names = &words[..words.len() - usize::from(version.is_some())];
    // What is said of it beside its number, such as `-with-thought`, is no part of its name.
    let number = version.map(|version| version.split('-').next().unwrap_or(version));
    match (vendor, names, number) {
        (_, [], None) => None,
        // `opus` alone is the newest of them, and `claude` whatever the client takes.
        (Vendor::Claude, ["claude"], None) => None,
        (Vendor::Claude, [.., tier], None) => Some((*tier).to_owned()),
        (Vendor::Claude, [.., tier], Some(number)) => Some(format!("claude-{tier}-{}", number.replace('.', "-"))),
        (Vendor::Codex, ["codex"], None) => None,
        (Vendor::Codex, ["codex", kind @ ..], Some(number)) => Some(joined("gpt", number, &[&["codex"], kind].concat())),
        (Vendor::Codex | Vendor::Gemini, [family, kind @ ..], Some(number)) => Some(joined(family, number, kind)),
        (Vendor::Gemini, ["gemini"], None) => None,
        (Vendor::OpenCode, names, number) => {
            let number = number.map(|number| number.replace('.', "-"));
            Some(format!("{supplier}/{}", names.iter().copied().chain(number.as_deref()).collect::<Vec<_>>().join("-")))
        }
        (_, names, number) => Some(names.iter().copied().chain(number).collect::<Vec<_>>().join("-")),
    }
}

fn joined(family: &str, number: &str, kind: &[&str]) -> String {
    [&[family, number], kind].concat().join("-")
}

/// What stands behind the `v` of a version.
fn version(word: &str) -> Option<&str> {
    word.strip_prefix('v').filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}
