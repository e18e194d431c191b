//! From what was written to what is matched.

use super::typo::{NamedWord, WordKind};
use super::{Capability, Compiled, Fields, Limits, PolicyError, Tree, Warning};
use crate::rule::{Action, CommandPattern, Condition, RequiredRoom, Rule, RuleConstraints, SizeTest, Syscall};
use crate::scope::{BadGlob, Globs, Word};
use crate::units::parse_size;
use ::yaml::{Location, Spanned};
use std::collections::HashMap;

/// Names that the gate itself speaks under.
const RESERVED: [&str; 3] = ["builtin:", "extension:", "token:"];
const RESERVED_WHOLE: [&str; 2] = ["mask", "lost-call"];
const NAME_BYTES_MAX: usize = 200;
const MODES: [&str; 3] = ["live", "dry_run", "mock"];

pub(super) fn rules(capabilities: Vec<Capability>, file: &str) -> Result<Compiled, PolicyError> {
    let mut compiler = Compiler { file, warnings: Vec::new(), names: Vec::new() };
    let mut known: HashMap<String, u64> = HashMap::new();
    let mut rules = Vec::with_capacity(capabilities.len());
    let mut places = Vec::with_capacity(capabilities.len());
    for capability in capabilities {
        let rule = compiler.rule(&capability)?;
        places.push(capability.name.referenced);
        if let Some(line) = known.insert(rule.name.clone(), rule.line) {
            let what = format!("the name `{}` is already taken in line {line}", rule.name);
            return Err(compiler.error(capability.name.referenced, what, "give each rule a name of its own"));
        }
        rules.push(rule);
    }
    compiler.shadows(&rules, &places);
    Ok(Compiled { rules, warnings: compiler.warnings, names: compiler.names, test_rules: Default::default() })
}

pub(super) struct Compiler<'a> {
    file: &'a str,
    warnings: Vec<Warning>,
    names: Vec<NamedWord>,
}

impl Compiler<'_> {
    pub(super) fn error(&self, at: Location, what: impl Into<String>, hint: impl Into<String>) -> PolicyError {
        PolicyError { file: self.file.to_owned(), line: at.line(), column: at.column(), what: what.into(), hint: Some(hint.into()) }
    }

    fn bad_glob(&self, at: Location, bad: BadGlob) -> PolicyError {
        self.error(at, bad.what, bad.hint)
    }

    pub(super) fn warn(&mut self, at: Location, what: impl Into<String>, hint: impl Into<String>) {
        let (file, what, hint) = (self.file.to_owned(), what.into(), Some(hint.into()));
        self.warnings.push(Warning { file, line: at.line(), column: at.column(), what, hint, remedy: None });
    }

    fn rule(&mut self, capability: &Capability) -> Result<Rule, PolicyError> {
        let (name, at) = (capability.name.value.as_str(), capability.name.referenced);
        if name.trim().is_empty() {
            return Err(self.error(at, "a rule's name is empty", "name it after what it is for: refusals show it"));
        }
        if name.chars().any(|letter| letter == '\n' || is_unseen(letter)) {
            return Err(self.error(at, "a rule's name has a character that cannot be seen", "name it in plain letters: refusals show it"));
        }
        if [&capability.reason, &capability.hint].into_iter().flatten().any(|text| text.chars().any(is_unseen)) {
            let what = format!("the reason or hint of `{name}` has a character that cannot be seen");
            return Err(self.error(at, what, "write it in plain letters: people and brains are shown it"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(self.error(
                at,
                format!("a rule's name has {} bytes", name.len()),
                "name it in a few words; the rest is a `reason`",
            ));
        }
        let of_a_ban = name.parse::<world::BanId>().is_ok();
        if of_a_ban || RESERVED_WHOLE.contains(&name) || RESERVED.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(self.error(at, format!("the name `{name}` is the gate's own"), "choose another"));
        }
        if capability.on.value.is_empty() {
            return Err(self.error(
                capability.on.referenced,
                format!("the rule `{name}` has no condition and would match everything"),
                "write syscall: '*' if that is meant",
            ));
        }
        let action = capability.action.value;
        let restricts = matches!(action, Action::Deny | Action::RequireReview);
        let on = self.condition(&capability.on.value, restricts)?;
        if let Some(list) = capability.except.as_ref().filter(|list| list.value.0.is_empty()) {
            self.warn(list.referenced, format!("`except` of `{name}` is an empty list"), "write what it is about, or take it away");
        }
        let mut except = Vec::new();
        for fields in capability.except.iter().flat_map(|list| &list.value.0) {
            if fields.value.is_empty() {
                return Err(self.error(
                    fields.referenced,
                    format!("an exception of `{name}` has no condition and would take the whole rule away"),
                    "write the condition, or delete the rule",
                ));
            }
            let condition = self.condition(&fields.value, !restricts)?;
            if same(&condition, &on) || condition.covers(&on) {
                let what =
                    if same(&condition, &on) { "what it matches is what it excepts" } else { "the exception takes all that it matches" };
                self.warn(
                    fields.referenced,
                    format!("the rule `{name}` never speaks: {what}"),
                    "make the exception narrower than the match",
                );
            }
            except.push(condition);
        }
        if let Some(tree) = capability.constraints.as_ref().and_then(|limits| limits.value.require_sandbox.as_ref())
            && !matches!(tree.value, Tree::Flag(_))
        {
            let rooms = self.flat("require_sandbox", tree.referenced, &tree.value)?;
            if rooms.is_empty() {
                self.warn_empty("require_sandbox", tree.referenced);
            }
            for (at, word) in rooms.into_iter().filter(|(_, word)| word != "L2") {
                self.names.push(NamedWord { rule: name.to_owned(), kind: WordKind::Room, word, line: at.line(), column: at.column() });
            }
        }
        let constraints = match &capability.constraints {
            None => RuleConstraints::default(),
            Some(limits) => {
                if matches!(action, Action::Deny | Action::Pass) {
                    let what = format!("the constraints of `{name}` do nothing: its action is `{}`", action.as_str());
                    self.warn(limits.referenced, what, "constraints belong to `allow` and `require_review`");
                }
                self.constraints(&limits.value)?
            }
        };
        let (reason, hint) = (capability.reason.clone(), capability.hint.clone());
        let rule = Rule { name: name.to_owned(), action, reason, hint, line: at.line(), on, except, constraints };
        let conditions = std::iter::once(&capability.on).chain(capability.except.iter().flat_map(|list| &list.value.0));
        for fields in conditions {
            self.name(name, &fields.value)?;
        }
        for (at, word) in capability.examples.iter().flat_map(|examples| examples.value.syscalls()) {
            self.names.push(NamedWord { rule: name.to_owned(), kind: WordKind::Call, word, line: at.line(), column: at.column() });
        }
        self.lint(capability, &rule);
        if let Some(examples) = &capability.examples {
            if examples.value.is_empty() {
                self.warn(examples.referenced, format!("the examples of `{name}` are none"), "write one, or take them away");
            }
            self.examples(&rule, &examples.value)?;
        }
        Ok(rule)
    }

    /// Keeps where a rule names a call or a room, for whoever knows which there are.
    fn name(&mut self, rule: &str, fields: &Fields) -> Result<(), PolicyError> {
        let words = [
            (WordKind::Call, &fields.syscall),
            (WordKind::Room, &fields.sandbox),
            (WordKind::Caller, &fields.caller),
            (WordKind::Tag, &fields.caller_tag),
            (WordKind::Role, &fields.role),
            (WordKind::Tier, &fields.tier),
            (WordKind::State, &fields.workflow_state),
            (WordKind::Discipline, &fields.session_mode),
            (WordKind::Method, &fields.method),
        ];
        for (kind, field) in words {
            let Some(tree) = field else { continue };
            for (at, word) in self.flat(kind.key(), tree.referenced, &tree.value)? {
                self.names.push(NamedWord { rule: rule.to_owned(), kind, word, line: at.line(), column: at.column() });
            }
        }
        Ok(())
    }

    /// The method of a request in a tunnel is encrypted. A rule that names one would allow nothing, or worse, forbid nothing.
    fn unseen(&self, fields: &Fields) -> Result<(), PolicyError> {
        let (Some(method), Some(syscall)) = (&fields.method, &fields.syscall) else { return Ok(()) };
        let names = self.flat("syscall", syscall.referenced, &syscall.value)?;
        match names.iter().find(|(_, name)| matches!(name.as_str(), "net.connect" | "net.*")) {
            None => Ok(()),
            Some((_, name)) => Err(self.error(
                method.referenced,
                format!("`{name}` is encrypted, so its `method` cannot be seen"),
                "name net.request for plain HTTP alone, or take `method` away",
            )),
        }
    }

    fn condition(&mut self, fields: &Fields, any_folder: bool) -> Result<Condition, PolicyError> {
        self.unseen(fields)?;
        let path_glob = match self.strings("path_glob", &fields.path_glob)? {
            None => None,
            Some(list) => {
                // One by one first, so that the error stands at its own glob.
                for (at, pattern) in &list {
                    let alone = Globs::parse(&[if pattern.starts_with('!') { "**" } else { pattern }, pattern]);
                    alone.map_err(|bad| self.bad_glob(*at, bad))?;
                    self.doubt_glob(*at, pattern);
                }
                let patterns: Vec<&str> = list.iter().map(|(_, pattern)| pattern.as_str()).collect();
                let at = fields.path_glob.as_ref().map_or(Location::UNKNOWN, |tree| tree.referenced);
                Some(Globs::parse(&patterns).map_err(|bad| self.bad_glob(at, bad))?)
            }
        };
        Ok(Condition {
            syscall: self.each("syscall", &fields.syscall, |compiler, at, text| {
                Syscall::parse(text).ok_or_else(|| {
                    compiler.error(
                        at,
                        format!("`{text}` is not a syscall"),
                        "write a name such as `fs.read`, a family such as `fs.*`, or `*`",
                    )
                })
            })?,
            path_glob,
            caller: self.words("caller", &fields.caller)?,
            caller_tag: self.words("caller_tag", &fields.caller_tag)?,
            role: self.words("role", &fields.role)?,
            tier: self.words("tier", &fields.tier)?,
            user: self.words("user", &fields.user)?,
            zone: self.zones(&fields.zone)?,
            mode: self.each("mode", &fields.mode, |compiler, at, text| {
                Word::parse(compiler.mode(at, text)?).map_err(|bad| compiler.bad_glob(at, bad))
            })?,
            workflow_state: self.words("workflow_state", &fields.workflow_state)?,
            session_mode: self.words("session_mode", &fields.session_mode)?,
            command: self.commands(&fields.command, any_folder)?,
            host: self.each("host", &fields.host, |compiler, at, text| {
                let host = super::host::canonical(text).map_err(|(what, hint)| compiler.error(at, format!("`{text}` {what}"), hint))?;
                Word::parse(&host).map_err(|bad| compiler.bad_glob(at, bad))
            })?,
            method: self.each("method", &fields.method, |compiler, at, text| match text {
                "" => Err(compiler.error(at, "an empty method matches nothing", "write one such as GET")),
                _ => Ok(text.to_ascii_uppercase()),
            })?,
            port: self.each("port", &fields.port, |compiler, at, text| match text.parse() {
                Ok(port) if port > 0 => Ok(port),
                _ => Err(compiler.error(at, format!("`{text}` is not a port"), "write a number from 1 to 65535")),
            })?,
            sandbox: self.words("sandbox", &fields.sandbox)?,
            network: self.each("network", &fields.network, |compiler, at, text| match text {
                "none" | "restricted" => Word::parse(text).map_err(|bad| compiler.bad_glob(at, bad)),
                _ => Err(compiler.error(at, format!("`{text}` is not a network"), "the networks are none and restricted")),
            })?,
            size: self.each("size", &fields.size, size_test)?,
        })
    }

    pub(super) fn mode<'t>(&self, at: Location, text: &'t str) -> Result<&'t str, PolicyError> {
        match text {
            "real" => Ok("live"),
            mode if MODES.contains(&mode) => Ok(mode),
            _ => Err(self.error(at, format!("`{text}` is not a mode"), "the modes are live, dry_run and mock")),
        }
    }

    fn constraints(&self, limits: &Limits) -> Result<RuleConstraints, PolicyError> {
        let require_sandbox = match &limits.require_sandbox {
            None => None,
            Some(tree) => match &tree.value {
                Tree::Flag(false) => None,
                // `L2` is seed 003's name for any sandbox at all.
                Tree::Flag(true) => Some(RequiredRoom::Any),
                Tree::Word(word) if word == "L2" => Some(RequiredRoom::Any),
                value => Some(RequiredRoom::OneOf(
                    self.flat("require_sandbox", tree.referenced, value)?.into_iter().map(|(_, word)| word).collect(),
                )),
            },
        };
        let max_file_size = match &limits.max_file_size {
            None => None,
            Some(Spanned { value: Tree::Word(text), referenced, .. }) => {
                Some(parse_size(text).map_err(|bad| self.error(*referenced, bad.to_string(), bad.hint))?)
            }
            Some(other) => return Err(self.error(other.referenced, "`max_file_size` is one size", "write one such as `100KiB`")),
        };
        Ok(RuleConstraints { require_sandbox, require_capability_token: limits.require_capability_token, max_file_size })
    }

    /// A list of strings is one argument list; a list of lists is several.
    fn commands(&mut self, field: &Option<Spanned<Tree>>, any_folder: bool) -> Result<Option<Vec<CommandPattern>>, PolicyError> {
        let Some(tree) = field else { return Ok(None) };
        let at = tree.referenced;
        let mut commands = Vec::new();
        match &tree.value {
            Tree::List(items) if items.is_empty() => self.warn_empty("command", at),
            Tree::List(items) if items.iter().all(|item| matches!(item.value, Tree::List(_))) => {
                for item in items {
                    commands.push(self.command(item.referenced, &item.value, any_folder)?);
                }
            }
            value => commands.push(self.command(at, value, any_folder)?),
        }
        Ok(Some(commands))
    }

    fn command(&mut self, at: Location, value: &Tree, any_folder: bool) -> Result<CommandPattern, PolicyError> {
        let hint = "write the beginning of the argument list, such as [npm, install]";
        let words = self.flat("command", at, value)?;
        for (at, word) in words.iter().filter(|(_, word)| word.contains('*')) {
            self.warn(*at, format!("`*` in `{word}` is a star: commands are compared letter by letter"), "write the word, or leave it out");
        }
        let prefix: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
        match prefix.first() {
            Some(program) if program.is_empty() => Err(self.error(at, "an empty word names no program", hint)),
            None => Err(self.error(at, "an empty command matches nothing", hint)),
            Some(program) if program.contains(char::is_whitespace) => {
                Err(self.error(at, format!("`{program}` is one word here, and no program has that name"), hint))
            }
            Some(_) => Ok(CommandPattern { prefix, any_folder }),
        }
    }

    /// Zones are known by their paths.
    fn zones(&mut self, field: &Option<Spanned<Tree>>) -> Result<Option<Vec<Word>>, PolicyError> {
        let words = self.words("zone", field)?;
        for (at, word) in self.strings_of("zone", field)? {
            if !word.starts_with(['/', '*', '?', '[']) {
                self.warn(at, format!("no repository is called `{word}`: name it by its path"), "write it from `/` on, or as `*/name`");
            }
        }
        Ok(words)
    }

    fn words(&mut self, name: &str, field: &Option<Spanned<Tree>>) -> Result<Option<Vec<Word>>, PolicyError> {
        self.each(name, field, |compiler, at, text| Word::parse(text).map_err(|bad| compiler.bad_glob(at, bad)))
    }

    fn each<T>(
        &mut self,
        name: &str,
        field: &Option<Spanned<Tree>>,
        parse: impl Fn(&Self, Location, &str) -> Result<T, PolicyError>,
    ) -> Result<Option<Vec<T>>, PolicyError> {
        let Some(list) = self.strings(name, field)? else { return Ok(None) };
        list.iter().map(|(at, text)| parse(self, *at, text)).collect::<Result<Vec<T>, _>>().map(Some)
    }

    fn strings_of(&self, name: &str, field: &Option<Spanned<Tree>>) -> Result<Vec<(Location, String)>, PolicyError> {
        field.as_ref().map_or(Ok(Vec::new()), |tree| self.flat(name, tree.referenced, &tree.value))
    }

    fn strings(&mut self, name: &str, field: &Option<Spanned<Tree>>) -> Result<Option<Vec<(Location, String)>>, PolicyError> {
        let Some(tree) = field else { return Ok(None) };
        let list = self.flat(name, tree.referenced, &tree.value)?;
        if list.is_empty() {
            self.warn_empty(name, tree.referenced);
        }
        Ok(Some(list))
    }

    fn warn_empty(&mut self, name: &str, at: Location) {
        self.warn(at, format!("`{name}` is an empty list and matches nothing"), format!("list what is meant, or take `{name}` away"));
    }

    pub(super) fn flat(&self, name: &str, at: Location, value: &Tree) -> Result<Vec<(Location, String)>, PolicyError> {
        let word = |at: Location, value: &Tree| match value {
            Tree::Word(word) => Ok((at, word.clone())),
            Tree::Flag(flag) => {
                Err(self.error(at, format!("`{name}` is a word, not `{flag}`"), format!("write \"{flag}\" in quotes if that is the word")))
            }
            Tree::List(_) => Err(self.error(at, format!("`{name}` does not take lists in a list"), "write one flat list")),
        };
        match value {
            Tree::List(items) => items.iter().map(|item| word(item.referenced, &item.value)).collect(),
            value => Ok(vec![word(at, value)?]),
        }
    }
}

/// Does it change what a person sees without being seen? Line breaks and tabs are fine.
fn is_unseen(letter: char) -> bool {
    let formats = matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    let more = matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    formats || more || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// The same condition, whether a command is meant loosely or not.
fn same(a: &Condition, b: &Condition) -> bool {
    let commands = |condition: &Condition| -> Option<Vec<Vec<String>>> {
        condition.command.as_ref().map(|list| list.iter().map(|command| command.prefix.clone()).collect())
    };
    let without = |condition: &Condition| Condition { command: None, ..condition.clone() };
    commands(a) == commands(b) && without(a) == without(b)
}

fn size_test(compiler: &Compiler<'_>, at: Location, text: &str) -> Result<SizeTest, PolicyError> {
    let sign_end = text.find(|c| !matches!(c, '<' | '>' | '=')).unwrap_or(text.len());
    let (sign, size) = text.split_at(sign_end);
    let size = parse_size(size.trim_start()).map_err(|bad| compiler.error(at, bad.to_string(), bad.hint))?;
    match sign {
        "<" => Ok(SizeTest::Less(size)),
        "<=" => Ok(SizeTest::AtMost(size)),
        "" | "=" => Ok(SizeTest::Equal(size)),
        ">=" => Ok(SizeTest::AtLeast(size)),
        ">" => Ok(SizeTest::More(size)),
        _ => Err(compiler.error(at, format!("`{sign}` compares nothing"), "write `<`, `<=`, `=`, `>=` or `>` before the size")),
    }
}
