//! Which key names hold a secret.

use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Parts of a key name that make its value a secret.
pub(super) const WORDS: [&str; 34] = [
    // Before the words that they begin with.
    "secret key",
    "api key",
    "access key",
    "private key",
    "storepass",
    "keypass",
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
    "encryption_key",
    "signing_key",
    "_pass",
    "-pass",
    "dbpass",
    "auth",
    "sessionid",
    "session_id",
    "sessid",
    "key",
];

/// Whose keys are secrets, where a name is nothing but somebody's key: `openai_key`, `AccountKey`.
const KEYED: [&str; 60] = [
    "anthropic",
    "openai",
    "claude",
    "gemini",
    "google",
    "googleai",
    "azure",
    "aws",
    "stripe",
    "github",
    "gitlab",
    "slack",
    "mistral",
    "groq",
    "cohere",
    "deepseek",
    "huggingface",
    "hf",
    "openrouter",
    "together",
    "xai",
    "grok",
    "perplexity",
    "fireworks",
    "replicate",
    "twilio",
    "sendgrid",
    "mailgun",
    "datadog",
    "newrelic",
    "sentry",
    "account",
    "storage",
    "master",
    "service",
    "subscription",
    "session",
    "deploy",
    "webhook",
    "shared",
    "license",
    "admin",
    "auth",
    "llm",
    "vertex",
    "bedrock",
    "ollama",
    "voyage",
    "cerebras",
    "nvidia",
    "elevenlabs",
    "deepl",
    "pinecone",
    "tavily",
    "serper",
    "cloudflare",
    "heroku",
    "moonshot",
    "dashscope",
    "zhipu",
];

/// Words that say something about a secret instead of being one.
const WORDS_ABOUT: [&str; 62] = [
    "count",
    "string",
    "str",
    "number",
    "int",
    "integer",
    "bool",
    "boolean",
    "required",
    "optional",
    "yes",
    "no",
    "invalid",
    "expired",
    "missing",
    "incorrect",
    "wrong",
    "empty",
    "unknown",
    "present",
    "absent",
    "hidden",
    "prompt",
    "include",
    "omit",
    "same-origin",
    "kind",
    "type",
    "the",
    "a",
    "an",
    "is",
    "and",
    "or",
    "for",
    "ok",
    "text",
    "object",
    "array",
    "any",
    "value",
    "name",
    "id",
    "changed",
    "rotated",
    "revoked",
    "valid",
    "set",
    "unset",
    "denied",
    "failed",
    "passed",
    "enabled",
    "disabled",
    "on",
    "off",
    "to",
    "in",
    "of",
    "not",
    "this",
    "field",
];

/// What follows a secret's name where the value is not the secret: where it lies, or who has it.
const ENDS_ELSEWHERE: [&str; 14] =
    ["file", "path", "stdin", "env", "prompt", "policy", "manager", "store", "field", "provider", "url", "endpoint", "length", "helper"];

/// What follows `token` in a name that counts or describes tokens.
const COUNTS: [&str; 16] = [
    "count", "limit", "budget", "usage", "type", "index", "len", "estimate", "price", "cost", "rate", "window", "per", "used", "total",
    "max",
];

/// Whether the value of this key is a secret. A count of tokens is not, a number under `token` is.
pub(super) fn is_secret(key: &str, value: &str) -> bool {
    if !has_word(key) {
        return false;
    }
    let name = key.to_ascii_lowercase();
    if matches!(value, "true" | "false" | "null" | "none" | "None" | "undefined" | super::REDACTED) || stands_for_one(value) {
        return false;
    }
    if ENDS_ELSEWHERE.iter().any(|end| name.ends_with(end)) {
        return false;
    }
    // The shell's own variables for the working directory.
    if (key == "PWD" || key == "OLDPWD") && value.starts_with('/') {
        return false;
    }
    WORDS.iter().any(|word| name.match_indices(word).any(|(at, _)| counts_as_secret(word, &name, at, value)))
}

/// Whether any of the words stands in a name. Most names have none, and every field of every record is asked: so all words at once.
fn has_word(name: &str) -> bool {
    static ANY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(WORDS).ok());
    // Without an automaton each word is looked for by itself.
    ANY.as_ref().is_none_or(|any| any.is_match(name))
}

/// A header of cookies.
pub(super) fn is_cookie(key: &str, value: &str) -> bool {
    let is_name = ["cookie", "set-cookie"].iter().any(|name| key.eq_ignore_ascii_case(name));
    is_name && value.split_once('=').is_some_and(|(name, value)| !name.contains(' ') && value.len() >= 4) && value != super::REDACTED
}

/// Whether everything under this key is a secret, however deep. Not so for `token`, which is also a noun of ours.
pub(super) fn hides_all(key: &str) -> bool {
    if !has_word(key) {
        return false;
    }
    let name = key.to_ascii_lowercase();
    let weak = |word: &str| matches!(word, "token" | "auth" | "key" | "_pass" | "-pass" | "sessionid" | "session_id" | "sessid");
    WORDS.iter().any(|word| !weak(word) && name.contains(word) && !name.contains("secretar"))
}

/// Whether a sentence goes on about a secret here: `token: expired`.
pub(super) fn is_about(value: &str) -> bool {
    let plain = value.trim_end_matches(['.', ',', '!', '?', ')']).to_ascii_lowercase();
    WORDS_ABOUT.contains(&plain.as_str())
}

/// A place where a secret goes: `${NAME}`, `$NAME`, `%NAME%`, `{{ name }}`, `<password>`, or stars.
pub(super) fn stands_for_one(value: &str) -> bool {
    let within = |open: &str, close: &str| value.len() > open.len() + close.len() && value.starts_with(open) && value.ends_with(close);
    let is_variable = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    within("${", "}")
        || within("{{", "}}")
        || within("<", ">")
        || value.starts_with("$(")
        || value.strip_prefix("$env:").or_else(|| value.strip_prefix('$')).is_some_and(is_variable)
        || value.strip_prefix('%').and_then(|rest| rest.strip_suffix('%')).is_some_and(is_variable)
        || value.len() > 2 && value.chars().all(|c| matches!(c, '*' | '•' | '…'))
}

/// Whether a value without quotes is an expression that gives the secret: `os.environ[…`, `self.token`, `get_token(…`.
pub(super) fn is_code(value: &str) -> bool {
    const ROOTS: [&str; 22] = [
        "process", "os", "self", "this", "config", "env", "settings", "props", "state", "req", "request", "args", "opts", "options",
        "params", "ctx", "std", "secrets", "vars", "local", "getpass", "crypto",
    ];
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let path = value.trim_end_matches(['(', '[', '?', '!']);
    let mut parts = path.split(['.', ':']).filter(|part| !part.is_empty());
    let is_path = parts.clone().all(is_name) && !path.is_empty();
    is_path && (value.ends_with('(') || parts.next().is_some_and(|root| ROOTS.contains(&root)) && path.contains(['.', ':']))
}

fn counts_as_secret(word: &str, name: &str, at: usize, value: &str) -> bool {
    let before = name[..at].trim_end_matches(['_', '-', '.']);
    let after = &name[at + word.len()..];
    match word {
        "api key" | "secret key" | "access key" | "private key" => {
            let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
            !value.contains(char::is_whitespace) && (value.len() >= 8 && has_digit || value.len() >= 20)
        }
        "secret" => !after.starts_with("ar"),
        "auth" => after.is_empty() && (before.is_empty() || at > before.len()) && is_login(value),
        "key" => {
            after.is_empty()
                && KEYED
                    .iter()
                    .any(|whose| before.strip_suffix(whose).is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-', '.'])))
        }
        "_pass" | "-pass" => after.is_empty() && value.bytes().any(|byte| !byte.is_ascii_digit()),
        "sessionid" | "session_id" | "sessid" => after.is_empty() && looks_random(value) && value.len() >= 16,
        "token" if is_token_id(value) => false,
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

/// Whether an option's value is a secret: by the same names, and by short ones that mean something else where they are no options.
pub(super) fn is_secret_option(name: &str, value: &str) -> bool {
    let is_short = matches!(name, "pass" | "pw") && value.bytes().any(|byte| !byte.is_ascii_digit()) && !stands_for_one(value);
    is_short || is_secret(name, value)
}

/// What stands after `auth=`: more often the name of a method than a secret.
fn is_login(value: &str) -> bool {
    let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
    let is_dense = !value.contains(char::is_whitespace) && !value.contains('/');
    !is_method(value) && is_dense && (value.len() >= 6 && (has_digit || value.contains(':')) || value.len() >= 24)
}

/// The name of a way to log in or to hash.
pub(super) fn is_method(value: &str) -> bool {
    const METHODS: [&str; 13] =
        ["oauth1", "oauth2", "oauth2.0", "md5", "sha1", "sha256", "sha512", "2fa", "v1", "v2", "scram-sha-256", "http-01", "base64"];
    METHODS.contains(&value.to_ascii_lowercase().as_str())
}

/// Not long, but of letters and digits: no word.
pub(super) fn is_mixed(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    value.len() >= 6 && !has(u8::is_ascii_whitespace) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// Long, without white space, with letters and digits: more likely a key than a word.
pub(super) fn looks_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    value.len() >= 12 && !has(u8::is_ascii_whitespace) && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// An id of ours, as rules name the token that let a call pass: `token:t-1`.
fn is_token_id(value: &str) -> bool {
    value.strip_prefix("t-").is_some_and(|number| (1..=10).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit()))
}
