//! A file as a list of its settings, each by the path of its keys and with the line where it stands.

use crate::error::{Location, YamlError};
use crate::tree::{self, Content, YamlNode};

/// One setting of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatSetting {
    /// Keys from the outermost on, with dots between.
    pub key: String,
    /// As one line: `[a, b]` for a list.
    pub value: String,
    pub at: Location,
}

/// Every word and every list of a file. Lists are not taken apart, nor are empty maps.
pub fn flatten(text: &str) -> Result<Vec<FlatSetting>, YamlError> {
    let mut found = Vec::new();
    collect("", &tree::parse(text)?, &mut found);
    Ok(found)
}

fn collect(key: &str, node: &YamlNode, found: &mut Vec<FlatSetting>) {
    match &node.content {
        Content::Map(entries) if !entries.is_empty() => {
            for (name, value) in entries {
                let name = line(name);
                collect(&if key.is_empty() { name } else { format!("{key}.{name}") }, value, found);
            }
        }
        _ if key.is_empty() => {}
        _ => found.push(FlatSetting { key: key.to_owned(), value: line(node), at: node.at }),
    }
}

fn line(node: &YamlNode) -> String {
    match &node.content {
        Content::Word { text, .. } => text.clone(),
        Content::List(items) => format!("[{}]", items.iter().map(line).collect::<Vec<_>>().join(", ")),
        Content::Map(entries) => {
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{}: {}", line(key), line(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_their_keys_values_and_lines() {
        let text = "brain: claude\n# a note\ncrew:\n  hero: { role: planner }\n  list: [a, {b: c}]\nempty: {}\n";
        let told: Vec<_> = flatten(text).unwrap().into_iter().map(|found| (found.key, found.value, found.at.line())).collect();
        let expected = [("brain", "claude", 1), ("crew.hero.role", "planner", 4), ("crew.list", "[a, {b: c}]", 5), ("empty", "{}", 6)];
        assert_eq!(told, expected.map(|(key, value, at)| (key.to_owned(), value.to_owned(), at)));
        assert_eq!(flatten("# nothing\n").unwrap(), []);
        assert!(flatten("a: [").is_err());
    }
}
