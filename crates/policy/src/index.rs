//! Finds the rules that could speak about a call without asking the others.
//!
//! By syscall first, then by a literal segment or extension that a rule's glob cannot match without. Of several literals the
//! rarest is the key, so that ten thousand rules below `src/` still spread. **Invariant.** Whatever matches is among the
//! candidates; a candidate need not match, and may come twice.

use crate::rule::{Rule, Syscall};
use crate::scope::Key;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: Map<Bucket>,
    /// By `fs.`
    family: Map<Bucket>,
    every: Bucket,
}

type Map<T> = HashMap<Box<str>, T, BuildHasherDefault<Fnv>>;

/// Numbers of rules.
#[derive(Debug, Default)]
struct Bucket {
    /// Without path_glob: apply with or without a path.
    plain: Vec<u32>,
    /// With a glob that any path could match.
    wild: Vec<u32>,
    names: Map<Vec<u32>>,
    extensions: Map<Vec<u32>>,
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Index {
        let mut frequency: HashMap<Key<'_>, u32> = HashMap::new();
        for globs in rules.iter().filter_map(|rule| rule.on.path_glob.as_ref()) {
            for key in globs.keys().flatten() {
                *frequency.entry(key).or_default() += 1;
            }
        }
        let mut index = Index::default();
        for (number, rule) in (0_u32..).zip(rules) {
            let Some(syscalls) = &rule.on.syscall else {
                index.every.add(number, rule, &frequency);
                continue;
            };
            for syscall in syscalls {
                let bucket = match syscall {
                    Syscall::Exact(name) => index.exact.entry(name.as_str().into()).or_default(),
                    Syscall::Family(family) => index.family.entry(family.as_str().into()).or_default(),
                    Syscall::Every => &mut index.every,
                };
                bucket.add(number, rule, &frequency);
            }
        }
        index
    }

    /// `path` is inside the project. Without one only rules without path_glob can speak.
    pub(crate) fn candidates(&self, tool: &str, path: Option<&str>, mut visit: impl FnMut(u32)) {
        self.every.candidates(path, &mut visit);
        if let Some(bucket) = self.exact.get(tool) {
            bucket.candidates(path, &mut visit);
        }
        if !self.family.is_empty() {
            for (dot, _) in tool.match_indices('.') {
                if let Some(bucket) = self.family.get(&tool[..=dot]) {
                    bucket.candidates(path, &mut visit);
                }
            }
        }
    }
}

impl Bucket {
    fn add(&mut self, number: u32, rule: &Rule, frequency: &HashMap<Key<'_>, u32>) {
        let Some(globs) = &rule.on.path_glob else {
            self.plain.push(number);
            return;
        };
        let rarest = |keys: Vec<_>| keys.into_iter().min_by_key(|key| frequency.get(key));
        let Some(keys) = globs.keys().map(rarest).collect::<Option<Vec<_>>>() else {
            self.wild.push(number);
            return;
        };
        for key in keys {
            let list = match key {
                Key::Name(name) => self.names.entry(name.into()).or_default(),
                Key::Extension(extension) => self.extensions.entry(extension.into()).or_default(),
            };
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
    }

    fn candidates(&self, path: Option<&str>, visit: &mut impl FnMut(u32)) {
        self.plain.iter().copied().for_each(&mut *visit);
        let Some(path) = path else { return };
        self.wild.iter().copied().for_each(&mut *visit);
        if self.names.is_empty() && self.extensions.is_empty() {
            return;
        }
        for segment in path.split('/') {
            if let Some(rules) = self.names.get(segment) {
                rules.iter().copied().for_each(&mut *visit);
            }
            if self.extensions.is_empty() {
                continue;
            }
            if let Some(rules) = segment.rsplit_once('.').and_then(|(_, extension)| self.extensions.get(extension)) {
                rules.iter().copied().for_each(&mut *visit);
            }
        }
    }
}

/// FNV-1a: short keys, and only the operator's own policy puts any in, so nobody can aim for collisions.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
