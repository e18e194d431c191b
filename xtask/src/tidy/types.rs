//! One name for one type: no two public types of the workspace share theirs.

use super::list::{TidyCheck, TidyFinding};
use super::source::Source;
use std::collections::BTreeMap;

pub fn doubled(sources: &[Source]) -> Vec<TidyFinding> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (name, at) in source.public_types() {
            places.entry(name).or_default().push(format!("{}:{}", source.path, source.line_of(at)));
        }
    }
    let doubled = places.into_iter().filter(|(_, places)| places.len() > 1);
    doubled
        .map(|(name, places)| TidyFinding {
            check: TidyCheck::Type,
            count: places.len(),
            what: format!("`{name}` names {} public types: {}", places.len(), places.join(", ")),
            key: name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_two_types_is_found() {
        let one = Source::of("crates/a/src/lib.rs", "pub struct Answer;\npub struct Other;");
        let two = Source::of("crates/b/src/lib.rs", "\npub enum Answer {}\nstruct Other;");
        let found = doubled(&[one, two]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "`Answer` names 2 public types: crates/a/src/lib.rs:1, crates/b/src/lib.rs:2");
    }
}
