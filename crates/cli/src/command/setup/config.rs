//! Adds providers, tiers and brains to the text of `config.yml` and leaves the rest as it is.
//!
//! Pure. **Invariant.** The text that comes out means what the text that went in meant, and the additions, and nothing else: both are read
//! and compared. A file for which that does not hold is left to its owner.

use super::find::FoundProvider;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Where `config.yml` says that a key is.
pub enum KeyName {
    Env(String),
    File(PathBuf),
    Keyring(Vec<String>),
    /// The subscription of a vendor's own client, in place of a key.
    Login(&'static str),
}

impl KeyName {
    fn field(&self) -> (&'static str, Value) {
        match self {
            KeyName::Env(name) => ("key", json!({"env": name})),
            KeyName::File(path) => ("key", json!({"file": path})),
            KeyName::Keyring(command) => ("key", json!({"keyring": command})),
            KeyName::Login(client) => ("login", json!({"client": client})),
        }
    }
}

/// The tiers in the order of [`FoundProvider::models`].
const TIERS: [&str; 3] = ["strategic", "tactical", "operational"];

/// What is to be added: providers, the tiers that lead to the first of them, brains, and the brain of tasks that name none.
#[derive(Default)]
pub struct ConfigAdditions {
    providers: Vec<(String, Entry)>,
    models: Vec<(String, Entry)>,
    brains: Vec<(String, Entry)>,
    brain: Option<String>,
}

/// One entry of a section, in the order in which it is written.
#[derive(Clone)]
enum Entry {
    Fields(Vec<(&'static str, Value)>),
    Target(String),
}

impl Entry {
    fn value(&self) -> Value {
        match self {
            Entry::Fields(fields) => fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
            Entry::Target(target) => json!(target),
        }
    }
}

/// A text with its additions.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigEdit {
    /// There is nothing to add.
    Same,
    Text(String),
    /// It is written in a way that cannot be added to.
    ByHand,
}

impl ConfigAdditions {
    pub fn of(found: &[&FoundProvider], key_of: impl Fn(&FoundProvider) -> Option<KeyName>) -> ConfigAdditions {
        let mut additions = ConfigAdditions::default();
        for found in found {
            let dialect = if let [one] = found.dialects { json!(one) } else { json!(found.dialects) };
            let mut provider = vec![("url", json!(found.url)), ("dialect", dialect)];
            provider.extend(key_of(found).map(|key| key.field()));
            provider.extend(found.is_free.then_some(("free", json!(true))));
            additions.providers.push((found.name.clone(), Entry::Fields(provider)));
        }
        // A login serves its own client, and the tiers are for everybody.
        if let Some(first) = found.iter().find(|found| !found.is_login()) {
            let lead = |(tier, model): (&&str, &String)| ((*tier).to_owned(), Entry::Target(format!("{}/{model}", first.name)));
            additions.models = TIERS.iter().zip(&first.models).map(lead).collect();
        }
        additions
    }

    /// A client's program, or what a name for a brain stands for.
    pub fn brain(mut self, name: &str, command: &[String], alias: Option<&str>) -> ConfigAdditions {
        let command = (!command.is_empty()).then(|| ("command", json!(command)));
        let fields = command.into_iter().chain(alias.map(|alias| ("alias", json!(alias)))).collect();
        self.brains.push((name.to_owned(), Entry::Fields(fields)));
        self
    }

    /// The brain of tasks that name none.
    pub fn default_brain(self, name: Option<&str>) -> ConfigAdditions {
        ConfigAdditions { brain: name.map(str::to_owned), ..self }
    }

    pub fn has_tiers(&self) -> bool {
        !self.models.is_empty()
    }

    /// What of it a text does not have yet, by section.
    fn missing(&self, of: &Map<String, Value>) -> Vec<(&'static str, Vec<(String, Entry)>)> {
        let sections = [("providers", &self.providers), ("models", &self.models), ("brains", &self.brains)];
        let missing = sections.into_iter().map(|(name, wanted)| {
            let has = |key: &str| of.get(name).and_then(Value::as_object).is_some_and(|section| section.contains_key(key));
            (name, wanted.iter().filter(|(key, _)| !has(key)).cloned().collect::<Vec<_>>())
        });
        missing.filter(|(_, entries)| !entries.is_empty()).collect()
    }

    /// The lines that a text does not have yet, as they would stand in a file of their own.
    pub fn text(&self, current: &str) -> String {
        let read = read(current).unwrap_or_default();
        let sections = self.missing(&read).into_iter().map(|(name, entries)| format!("{name}:\n{}", lines(&entries, "  ")));
        sections.chain(self.missing_brain(&read).map(|brain| format!("brain: {}\n", flow(&json!(brain))))).collect()
    }

    fn missing_brain(&self, of: &Map<String, Value>) -> Option<&str> {
        self.brain.as_deref().filter(|_| !of.contains_key("brain"))
    }
}

fn read(text: &str) -> Result<Map<String, Value>, String> {
    match yaml::from_str::<Option<Value>>(text).map_err(|error| error.to_string())? {
        None => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err("it is not a list of settings by name".to_owned()),
    }
}

/// The names of the providers that a text has.
pub fn providers(text: &str) -> Result<Vec<String>, String> {
    let read = read(text)?;
    Ok(read.get("providers").and_then(Value::as_object).map(|providers| providers.keys().cloned().collect()).unwrap_or_default())
}

/// What a text says of a name below a section.
pub fn entry(text: &str, section: &str, name: &str) -> Result<Option<Value>, String> {
    Ok(read(text)?.get(section).and_then(|section| section.get(name)).cloned())
}

/// Does a text name a brain for tasks that name none, or a model for the built-in one?
pub fn has_default(text: &str) -> Result<bool, String> {
    let read = read(text)?;
    let has_models = read.get("models").and_then(Value::as_object).is_some_and(|models| !models.is_empty());
    Ok(has_models || ["brain", "model"].iter().any(|key| read.get(*key).is_some_and(|value| !value.is_null())))
}

pub fn merge(current: &str, additions: &ConfigAdditions) -> Result<ConfigEdit, String> {
    let before = read(current)?;
    let missing = additions.missing(&before);
    let brain = additions.missing_brain(&before);
    if missing.is_empty() && brain.is_none() {
        return Ok(ConfigEdit::Same);
    }
    let mut wanted = before.clone();
    let mut text = current.to_owned();
    for (name, entries) in missing {
        let section = wanted.entry(name).or_insert(Value::Null);
        // `providers:` and nothing below it.
        if section.is_null() {
            *section = Value::Object(Map::new());
        }
        let Value::Object(section) = section else { return Ok(ConfigEdit::ByHand) };
        section.extend(entries.iter().map(|(key, entry)| (key.clone(), entry.value())));
        match insert(&text, name, &entries, before.contains_key(name)) {
            Some(added) => text = added,
            None => return Ok(ConfigEdit::ByHand),
        }
    }
    if let Some(brain) = brain {
        text = format!("{text}{}brain: {}\n", gap(&text), flow(&json!(brain)));
        wanted.insert("brain".to_owned(), json!(brain));
    }
    // INVARIANT: nothing else changed, whatever the file looks like.
    Ok(if read(&text).is_ok_and(|after| after == wanted) { ConfigEdit::Text(text) } else { ConfigEdit::ByHand })
}

/// The text with these entries in a section that it has or not.
fn insert(text: &str, section: &str, entries: &[(String, Entry)], is_there: bool) -> Option<String> {
    if !is_there {
        return Some(format!("{text}{}{section}:\n{}", gap(text), lines(entries, "  ")));
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text.split_inclusive('\n');
    let head = loop {
        let line = rest.next()?;
        match line.strip_prefix(section).and_then(|after| after.strip_prefix(':')) {
            Some(after) => break (line, after),
            None => out.push_str(line),
        }
    };
    let (line, after) = head;
    let after = after.split('#').next().unwrap_or_default().trim();
    if !matches!(after, "" | "{}" | "null" | "~") {
        return None;
    }
    let rest: String = rest.collect();
    let own = rest.lines().find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let indent = own.map(|line| &line[..line.len() - line.trim_start().len()]).filter(|indent| !indent.is_empty());
    if after.is_empty() {
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push('\n');
        }
    } else {
        out.push_str(&format!("{section}:\n"));
    }
    out.push_str(&lines(entries, indent.unwrap_or("  ")));
    out.push_str(&rest);
    Some(out)
}

/// What stands between a text and a new part of it: an empty line.
fn gap(text: &str) -> &'static str {
    match text {
        _ if text.is_empty() || text.ends_with("\n\n") => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

/// Entries as lines, a provider's own settings one step further in.
fn lines(entries: &[(String, Entry)], indent: &str) -> String {
    let mut text = String::new();
    for (name, entry) in entries {
        match entry {
            Entry::Fields(fields) => {
                text.push_str(&format!("{indent}{name}:\n"));
                fields.iter().for_each(|(key, value)| text.push_str(&format!("{indent}  {key}: {}\n", flow(value))));
            }
            Entry::Target(target) => text.push_str(&format!("{indent}{name}: {}\n", flow(&json!(target)))),
        }
    }
    text
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_word(text) => text.clone(),
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            format!("{{ {} }}", fields.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A text that YAML takes for itself without quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.bytes().all(is_plain)
        && !matches!(text, "true" | "false" | "null")
}

#[cfg(test)]
mod tests {
    use super::super::find::FoundKey;
    use super::*;

    fn additions() -> ConfigAdditions {
        let found = FoundProvider {
            name: "anthropic".into(),
            from: String::new(),
            url: "https://api.anthropic.com".into(),
            dialects: &["anthropic"],
            key: FoundKey::None,
            is_free: false,
            models: ["big".into(), "mid".into(), "small:4b".into()],
        };
        ConfigAdditions::of(&[&found], |_| Some(KeyName::File("/home/o'neil/.skep/keys/providers/anthropic".into())))
    }

    const WHOLE: &str = "providers:\n  anthropic:\n    url: 'https://api.anthropic.com'\n    dialect: anthropic\n    key: { file: '/home/o''neil/.skep/keys/providers/anthropic' }\nmodels:\n  strategic: anthropic/big\n  tactical: anthropic/mid\n  operational: 'anthropic/small:4b'\n";

    #[test]
    fn a_new_file_has_all_of_it() {
        let merged = merge("", &additions()).unwrap();
        let ConfigEdit::Text(text) = merged else { panic!("{merged:?}") };
        assert_eq!(text.replace("\n\n", "\n"), WHOLE);
        assert_eq!(additions().text(""), WHOLE);
        assert_eq!(merge(&text, &additions()), Ok(ConfigEdit::Same));
        assert_eq!(providers(&text), Ok(vec!["anthropic".to_owned()]));
    }

    #[test]
    fn what_stands_in_the_file_stays_as_it_is() {
        let current = "# mine\nreview: {deadline: 5m}   # soon\nproviders:   # all of them\n    # the first\n    local:\n        url: http://127.0.0.1:1\n        dialect: chat\nmodels:\n    tactical: local/x\n";
        let ConfigEdit::Text(text) = merge(current, &additions()).unwrap() else { panic!() };
        for line in current.lines() {
            assert!(text.lines().any(|own| own == line), "{line} is gone:\n{text}");
        }
        let read = read(&text).unwrap();
        assert_eq!(read["models"], json!({"tactical": "local/x", "strategic": "anthropic/big", "operational": "anthropic/small:4b"}));
        assert_eq!(read["providers"].as_object().unwrap().len(), 2);
        assert!(!additions().text(current).contains("tactical"), "what is there is not added");
        for empty in ["providers:\n", "providers: {}\n", "providers: ~ # none\nreview: {}\n", "review: {}"] {
            let ConfigEdit::Text(text) = merge(empty, &additions()).unwrap() else { panic!("{empty}") };
            assert_eq!(providers(&text), Ok(vec!["anthropic".to_owned()]), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        for odd in ["providers: {local: {url: u}}\n", "{providers: {local: {url: u}}}\n", "\"providers\":\n  local: {url: u}\n"] {
            assert_eq!(merge(odd, &additions()), Ok(ConfigEdit::ByHand), "{odd}");
        }
        assert!(merge("providers: [\n", &additions()).is_err());
        assert!(merge("- a list\n", &additions()).is_err());
    }

    #[test]
    fn brains_are_added_beside_what_is_there() {
        let command = ["/opt/my agent/run".to_owned(), "--acp".to_owned()];
        let additions =
            ConfigAdditions::default().brain("goose", &command, None).brain("opus", &[], Some("claude@anthropic/claude/opus/v4.5"));
        let additions = additions.default_brain(Some("opus"));
        let current = "brains:\n  codex:\n    command: [codex]\n";
        let ConfigEdit::Text(text) = merge(current, &additions).unwrap() else { panic!() };
        let read = read(&text).unwrap();
        assert_eq!(read["brains"]["goose"], json!({"command": command}));
        assert_eq!((&read["brains"]["opus"]["alias"], &read["brain"]), (&json!("claude@anthropic/claude/opus/v4.5"), &json!("opus")));
        assert_eq!(merge(&text, &additions), Ok(ConfigEdit::Same));
        assert_eq!(entry(&text, "brains", "codex").unwrap(), Some(json!({"command": ["codex"]})));
        assert_eq!((has_default(current), has_default(&text), has_default("models: {tactical: a/b}")), (Ok(false), Ok(true), Ok(true)));
        // A brain that stands there stays.
        let other = merge("brain: native\n", &ConfigAdditions::default().default_brain(Some("claude")));
        assert_eq!(other, Ok(ConfigEdit::Same));
    }
}
