//! The tools there are, by name.

use crate::builtin::Body;
use crate::tool::Tool;
use std::collections::BTreeMap;
use world::{Code, Refusal};

#[derive(Debug)]
pub struct Registry {
    tools: BTreeMap<String, Tool>,
}

impl Registry {
    /// The tools that are part of skep.
    pub fn builtin() -> Registry {
        let tools = Body::ALL.iter().map(|body| Tool::builtin(*body)).map(|tool| (tool.manifest().name.clone(), tool));
        Registry { tools: tools.collect() }
    }

    pub fn find(&self, name: &str) -> Result<&Tool, Refusal> {
        self.tools.get(name).ok_or_else(|| {
            let near = self.nearest(name);
            let hint = if near.is_empty() {
                format!("there are {}", self.names().join(", "))
            } else {
                format!("did you mean {}?", near.join(" or "))
            };
            Refusal::new(Code::NotFound, format!("there is no tool `{name}`")).hint(hint)
        })
    }

    /// By name.
    pub fn list(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    fn names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).collect()
    }

    /// Names that a slip of the pen or of the memory makes out of this one.
    fn nearest(&self, name: &str) -> Vec<String> {
        let verb = |name: &str| name.rsplit_once('.').map(|(_, verb)| verb.to_owned());
        let near = |known: &&String| {
            distance(name, known) <= 2 || (verb(name).is_some() && verb(name) == verb(known)) || known.rsplit('.').next() == Some(name)
        };
        self.tools.keys().filter(near).map(|known| format!("`{known}`")).collect()
    }
}

/// Letters to add, drop or change to come from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let change = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_has_near_ones() {
        let registry = Registry::builtin();
        assert_eq!(registry.find("fs.read").unwrap().manifest().name, "fs.read");
        let hint = |name: &str| registry.find(name).unwrap_err().hint.unwrap();
        assert_eq!(hint("fs.raed"), "did you mean `fs.read`?");
        assert_eq!(hint("read"), "did you mean `fs.read`?");
        assert_eq!(hint("file.write"), "did you mean `fs.write`?");
        assert_eq!(hint("warp"), "there are fs.list, fs.read, fs.write, search.glob, search.grep, shell.run, test.run");
        assert_eq!(registry.find("warp").unwrap_err().code, Code::NotFound);
    }
}
