//! Finds the rules that could speak about a call without asking the others.
//!
//! By syscall first, then by one thing that a rule cannot match without: a literal segment, extension or part of a path, a host, the
//! beginning of a command, a caller. Of several the rarest is the key, so that ten thousand rules below `src/` still spread.
//! **Invariant.** Whatever matches is among the candidates; a candidate need not match, and may come twice.

mod parts;

use crate::decide::Facts;
use crate::rule::{CommandPattern, Condition, Rule, Syscall};
use crate::scope::{Key, Word};
use parts::Parts;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Debug, Default)]
pub(crate) struct Index {
    exact: HashMap<Box<str>, Bucket, BuildHasherDefault<Fnv>>,
    /// By `fs.`
    family: HashMap<Box<str>, Bucket, BuildHasherDefault<Fnv>>,
    every: Bucket,
}

/// Numbers of rules.
#[derive(Debug, Default)]
struct Bucket {
    /// Without a key: asked about every call.
    plain: Vec<u32>,
    /// Without a key and with a glob: asked about every path.
    wild: Vec<u32>,
    keyed: HashMap<u64, Vec<u32>, BuildHasherDefault<Hashed>>,
    parts: Parts,
    /// Which kinds of key are in `keyed`, so that nothing is looked up in vain.
    paths: bool,
    hosts: bool,
    words: bool,
    /// The longest command prefix, in words.
    command_words: usize,
}

/// Kinds of key, so that a host and a file of the same name are two things.
#[derive(Clone, Copy)]
enum Kind {
    Name = 1,
    Extension,
    Part,
    Host,
    Domain,
    Command,
    Caller,
    CallerTag,
    Role,
    User,
    Zone,
}

/// One way into the index for one alternative of a rule.
#[derive(Clone, Copy)]
struct Way<'a> {
    kind: Kind,
    hash: u64,
    /// The letters of a [`Kind::Part`].
    part: &'a str,
    /// Words of a [`Kind::Command`].
    words: usize,
}

impl<'a> Way<'a> {
    fn new(kind: Kind, text: &str) -> Way<'a> {
        Way { kind, hash: hash(kind, text), part: "", words: 0 }
    }

    fn of_key(key: Key<'a>) -> Way<'a> {
        match key {
            Key::Name(name) => Way::new(Kind::Name, name),
            Key::Extension(extension) => Way::new(Kind::Extension, extension),
            Key::Part(part) => Way { part, ..Way::new(Kind::Part, part) },
        }
    }

    fn of_command(command: &CommandPattern) -> Option<Way<'a>> {
        let mut prefixes = Prefixes::new(&command.prefix, command.prefix.first()?);
        prefixes.by_ref().last().map(|hash| Way { kind: Kind::Command, hash, part: "", words: command.prefix.len() })
    }
}

type Frequency = HashMap<u64, u32, BuildHasherDefault<Hashed>>;

/// The ways of each alternative of each field that could lead to a rule. A field of which one alternative has none is of no use.
fn fields<'a>(on: &'a Condition) -> Vec<Vec<Vec<Way<'a>>>> {
    let mut fields = Vec::new();
    let mut add = |alternatives: Option<Vec<Vec<Way<'a>>>>| fields.extend(alternatives);
    if let Some(globs) = &on.path_glob {
        let ways: Vec<Vec<Way<'_>>> = globs.keys().map(|keys| keys.into_iter().map(Way::of_key).collect()).collect();
        add(ways.iter().all(|ways| !ways.is_empty()).then_some(ways));
    }
    if let Some(hosts) = &on.host {
        let way = |word: &Word| match (word.literal(), word.domain()) {
            (Some(host), _) => Some(vec![Way::new(Kind::Host, host)]),
            (None, Some(domain)) => Some(vec![Way::new(Kind::Domain, domain)]),
            (None, None) => None,
        };
        add(hosts.iter().map(way).collect());
    }
    if let Some(commands) = &on.command {
        add(commands.iter().map(|command| Way::of_command(command).map(|way| vec![way])).collect());
    }
    let words = [
        (Kind::Caller, &on.caller),
        (Kind::CallerTag, &on.caller_tag),
        (Kind::Role, &on.role),
        (Kind::User, &on.user),
        (Kind::Zone, &on.zone),
    ];
    for (kind, field) in words {
        if let Some(words) = field {
            add(words.iter().map(|word| word.literal().map(|word| vec![Way::new(kind, word)])).collect());
        }
    }
    fields
}

impl Index {
    pub(crate) fn new(rules: &[Rule]) -> Index {
        let mut frequency = Frequency::default();
        for way in rules.iter().flat_map(|rule| fields(&rule.on)).flatten().flatten() {
            *frequency.entry(way.hash).or_default() += 1;
        }
        let mut index = Index::default();
        for (number, rule) in (0_u32..).zip(rules) {
            let ways = rarest(&fields(&rule.on), &frequency);
            let wild = rule.on.path_glob.is_some();
            let Some(syscalls) = &rule.on.syscall else {
                index.every.add(number, wild, ways.as_deref());
                continue;
            };
            for syscall in syscalls {
                let bucket = match syscall {
                    Syscall::Exact(name) => index.exact.entry(name.as_str().into()).or_default(),
                    Syscall::Family(family) => index.family.entry(family.as_str().into()).or_default(),
                    Syscall::Every => &mut index.every,
                };
                bucket.add(number, wild, ways.as_deref());
            }
        }
        for bucket in index.exact.values_mut().chain(index.family.values_mut()).chain([&mut index.every]) {
            bucket.wild.extend(bucket.parts.build());
        }
        index
    }

    /// `path` is inside the project. Without one only rules without path_glob can speak.
    pub(crate) fn candidates(&self, facts: &Facts<'_>, path: Option<&str>, mut visit: impl FnMut(u32)) {
        self.every.candidates(facts, path, &mut visit);
        if let Some(bucket) = self.exact.get(facts.tool) {
            bucket.candidates(facts, path, &mut visit);
        }
        if !self.family.is_empty() {
            for (dot, _) in facts.tool.match_indices('.') {
                if let Some(bucket) = self.family.get(&facts.tool[..=dot]) {
                    bucket.candidates(facts, path, &mut visit);
                }
            }
        }
    }
}

/// Of each field the rarest way of each alternative, and of the fields the one that shares its ways with the fewest rules.
fn rarest<'a>(fields: &[Vec<Vec<Way<'a>>>], frequency: &Frequency) -> Option<Vec<Way<'a>>> {
    let count = |way: &Way<'_>| frequency.get(&way.hash).copied().unwrap_or_default();
    let choices = fields.iter().map(|alternatives| {
        let ways = alternatives.iter().filter_map(|ways| ways.iter().min_by_key(|way| count(way)).copied());
        ways.collect::<Vec<_>>()
    });
    choices.min_by_key(|ways| ways.iter().map(|way| u64::from(count(way))).sum::<u64>())
}

impl Bucket {
    fn add(&mut self, number: u32, wild: bool, ways: Option<&[Way<'_>]>) {
        let Some(ways) = ways else {
            if wild { &mut self.wild } else { &mut self.plain }.push(number);
            return;
        };
        for way in ways {
            match way.kind {
                Kind::Part => {
                    self.parts.add(way.part, number);
                    continue;
                }
                Kind::Name | Kind::Extension => self.paths = true,
                Kind::Host | Kind::Domain => self.hosts = true,
                Kind::Command => self.command_words = self.command_words.max(way.words),
                Kind::Caller | Kind::CallerTag | Kind::Role | Kind::User | Kind::Zone => self.words = true,
            }
            let list = self.keyed.entry(way.hash).or_default();
            if list.last() != Some(&number) {
                list.push(number);
            }
        }
    }

    fn candidates(&self, facts: &Facts<'_>, path: Option<&str>, visit: &mut impl FnMut(u32)) {
        self.plain.iter().copied().for_each(&mut *visit);
        if let Some(path) = path {
            self.wild.iter().copied().for_each(&mut *visit);
            self.parts.candidates(path, visit);
        }
        if self.keyed.is_empty() {
            return;
        }
        let mut look = |hash: u64| {
            if let Some(rules) = self.keyed.get(&hash) {
                rules.iter().copied().for_each(&mut *visit);
            }
        };
        if let Some(path) = path.filter(|_| self.paths) {
            for segment in path.split('/') {
                look(hash(Kind::Name, segment));
                if let Some((_, extension)) = segment.rsplit_once('.') {
                    look(hash(Kind::Extension, extension));
                }
            }
        }
        if let Some(host) = facts.host.filter(|_| self.hosts) {
            let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            look(hash(Kind::Host, &host));
            for (dot, _) in host.match_indices('.') {
                look(hash(Kind::Domain, &host[dot..]));
            }
        }
        if let Some(program) = facts.command.filter(|_| self.command_words > 0).and_then(|argv| argv.first()) {
            let argv = facts.command.unwrap_or_default();
            Prefixes::new(argv, program).take(self.command_words).for_each(&mut look);
            if let Some((_, name)) = program.rsplit_once('/') {
                Prefixes::new(argv, name).take(self.command_words).for_each(&mut look);
            }
        }
        if self.words {
            for (kind, word) in [(Kind::Caller, facts.caller), (Kind::Role, facts.role), (Kind::User, facts.user), (Kind::Zone, facts.zone)]
            {
                look(hash(kind, word));
            }
            facts.caller_tags.iter().for_each(|tag| look(hash(Kind::CallerTag, tag)));
        }
    }
}

/// The hash of each beginning of an argument list, shortest first.
struct Prefixes<'a> {
    state: Fnv,
    program: Option<&'a str>,
    rest: std::slice::Iter<'a, String>,
}

impl<'a> Prefixes<'a> {
    /// `program` stands in for the first word.
    fn new(argv: &'a [String], program: &'a str) -> Prefixes<'a> {
        let mut state = Fnv::default();
        state.write(&[Kind::Command as u8]);
        Prefixes { state, program: Some(program), rest: argv.get(1..).unwrap_or_default().iter() }
    }
}

impl Iterator for Prefixes<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let word = match self.program.take() {
            Some(program) => program,
            None => self.rest.next()?,
        };
        self.state.write(word.as_bytes());
        self.state.write(&[0]);
        Some(self.state.finish())
    }
}

fn hash(kind: Kind, text: &str) -> u64 {
    let mut state = Fnv::default();
    state.write(&[kind as u8]);
    state.write(text.as_bytes());
    state.finish()
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

/// For keys that are hashes already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
