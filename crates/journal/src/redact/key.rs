//! Which key names hold a secret.

/// Parts of a key name that make its value a secret.
pub(super) const WORDS: [&str; 18] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "private_key",
    "private-key",
    "privatekey",
    "authorization",
    "bearer",
    "credential",
];

/// What follows `token` in a name that counts or describes tokens.
const COUNTS: [&str; 16] = [
    "count", "limit", "budget", "usage", "type", "index", "len", "estimate", "price", "cost", "rate", "window", "per", "used", "total",
    "max",
];

/// Whether the value of this key is a secret. A count of tokens is not, a number under `token` is.
pub(super) fn is_secret(key: &str, value: &str) -> bool {
    let name = key.to_ascii_lowercase();
    if matches!(value, "true" | "false" | "null" | "none" | "None" | "undefined" | super::REDACTED) {
        return false;
    }
    // The shell's own variables for the working directory.
    if (key == "PWD" || key == "OLDPWD") && value.starts_with('/') {
        return false;
    }
    WORDS.iter().any(|word| name.match_indices(word).any(|(at, _)| counts_as_secret(word, &name, at, value)))
}

/// Whether everything under this key is a secret, however deep. Not so for `token`, which is also a noun of ours.
pub(super) fn hides_all(key: &str) -> bool {
    let name = key.to_ascii_lowercase();
    WORDS.iter().any(|word| *word != "token" && name.contains(word) && !name.contains("secretar"))
}

fn counts_as_secret(word: &str, name: &str, at: usize, value: &str) -> bool {
    let before = name[..at].trim_end_matches(['_', '-', '.']);
    let after = &name[at + word.len()..];
    match word {
        "secret" => !after.starts_with("ar"),
        "token" => {
            if after.starts_with("iz") || after.starts_with("is") {
                return false;
            }
            let rest = after.strip_prefix('s').unwrap_or(after).trim_start_matches(['_', '-', '.']);
            let counted = COUNTS.iter().any(|count| rest.starts_with(count)) || matches!(before, "max" | "num" | "n" | "min");
            let plural = after.starts_with('s');
            // `tokens` mostly counts; only something of the shape of a key makes it a secret.
            !counted && (!plural || looks_random(value))
        }
        _ => true,
    }
}

/// Long, without white space, with letters and digits: more likely a key than a word.
pub(super) fn looks_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    value.len() >= 12 && !has(u8::is_ascii_whitespace) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}
