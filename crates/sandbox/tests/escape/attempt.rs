//! One attempt: a small program and, in the comment at its top, what must become of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox::Limits;

/// What an attempt is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Shell,
    Python,
}

/// Where the attempt is made to prove that it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// A plain process of the user whose rooms are tested.
    Plain,
    /// A plain process of root.
    Root,
    /// Root of fresh namespaces, for what would hurt the host.
    Namespace,
}

#[derive(Debug)]
pub struct Attempt {
    /// `folder::file`, without the ending.
    pub name: String,
    pub file: PathBuf,
    pub language: Language,
    pub tries: String,
    /// What comes of it in a room, by the words that must all hold for it; the last that applies counts. ` | ` stands between two ends where the
    /// engine decides which is told: it may remove a container's group before anybody can ask what its first process died of.
    inside: Vec<(Vec<String>, String)>,
    pub outside: (Outside, String),
    /// A file of the host without which there is nothing to try.
    pub needs: Option<PathBuf>,
    pub limits: Limits,
    pub output_max: Option<usize>,
}

impl Attempt {
    /// All attempts of a folder and the folders in it, in the order of names.
    pub fn all(folder: &Path) -> Vec<Attempt> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(&at).unwrap_or_else(|error| panic!("{}: {error}", at.display())) {
                let path = entry.unwrap().path();
                let language = match path.extension().and_then(|ending| ending.to_str()) {
                    _ if path.is_dir() => {
                        folders.push(path);
                        continue;
                    }
                    Some("c") => Language::C,
                    Some("sh") => Language::Shell,
                    Some("py") => Language::Python,
                    _ => continue,
                };
                let name = path.strip_prefix(folder).unwrap().with_extension("");
                let name = name.components().map(|part| part.as_os_str().to_str().unwrap()).collect::<Vec<_>>().join("::");
                found.push(Attempt::parse(name, path, language));
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        assert!(!found.is_empty(), "{} has no attempts", folder.display());
        found
    }

    fn parse(name: String, file: PathBuf, language: Language) -> Attempt {
        let text = fs::read_to_string(&file).unwrap();
        let comment = if language == Language::C { "//" } else { "#" };
        let (mut tries, mut inside, mut outside, mut needs) = (None, Vec::new(), None, None);
        let (mut limits, mut output_max) = (Limits { wall: Some(Duration::from_secs(120)), ..Limits::default() }, None);
        for line in text.lines().map_while(|line| line.strip_prefix(comment)) {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.split_whitespace().collect::<Vec<_>>(), value.trim().to_owned());
            match key.split_first() {
                Some((&"tries", _)) => tries = Some(value),
                Some((&"inside", words)) => {
                    words.iter().for_each(|word| assert!(WORDS.contains(word), "{}: there is no `{word}`", file.display()));
                    inside.push((words.iter().map(|word| (*word).to_owned()).collect(), value));
                }
                Some((&"outside", &[])) => outside = Some((Outside::Plain, value)),
                Some((&"outside", &["root"])) => outside = Some((Outside::Root, value)),
                Some((&"outside", &["namespace"])) => outside = Some((Outside::Namespace, value)),
                Some((&"needs", _)) => needs = Some(PathBuf::from(value)),
                Some((&"limits", _)) => limit(&mut limits, &mut output_max, &value),
                _ => panic!("{}: `{line}` is nothing that an attempt says", file.display()),
            }
        }
        let missing = |what: &str| format!("{} does not say `{what}:`", file.display());
        let tries = tries.unwrap_or_else(|| panic!("{}", missing("tries")));
        let outside = outside.unwrap_or_else(|| panic!("{}", missing("outside")));
        assert!(!inside.is_empty(), "{}", missing("inside"));
        Attempt { name, file, language, tries, inside, outside, needs, limits, output_max }
    }

    /// What must come of it where these words hold.
    pub fn wanted(&self, words: &[&str]) -> &str {
        let holds = |needed: &&(Vec<String>, String)| needed.0.iter().all(|word| words.contains(&word.as_str()));
        let found = self.inside.iter().rfind(holds);
        found.map_or_else(|| panic!("{} says nothing about {words:?}", self.file.display()), |(_, wanted)| wanted)
    }

    /// Whether it says what comes of it in rooms, or under the lock of our own children.
    pub fn is_for(&self, locked: bool) -> bool {
        self.inside.iter().any(|(words, _)| words.iter().any(|word| word.starts_with("strict")) == locked)
    }

    /// Puts the runnable form into each folder and gives the command lines.
    pub fn place<const N: usize>(&self, folders: [PathBuf; N], helpers: &Path) -> [Vec<String>; N] {
        let targets = folders.map(|folder| folder.join("attempt"));
        for (at, target) in targets.iter().enumerate() {
            match self.language {
                Language::C if at == 0 => copy_program(&self.compiled(helpers), target),
                Language::C => copy_program(&targets[0], target),
                Language::Shell | Language::Python => drop(fs::copy(&self.file, target).unwrap()),
            }
        }
        targets.map(|target| {
            let interpreter = match self.language {
                Language::C => None,
                Language::Shell => Some("/bin/sh"),
                Language::Python => Some("/usr/bin/python3"),
            };
            interpreter.into_iter().chain(target.to_str()).map(str::to_owned).collect()
        })
    }

    /// Its program, compiled once for all the rooms and users that it is tried with.
    fn compiled(&self, helpers: &Path) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attempts");
        // Another folder of attempts may have the same names.
        let program = folder.join(self.file.to_string_lossy().replace('/', "-"));
        let written = |file: &Path| fs::metadata(file).and_then(|meta| meta.modified()).ok();
        if written(&program) <= written(&self.file).max(written(&helpers.join("attempt.h"))) {
            fs::create_dir_all(&folder).unwrap();
            // Whole or not at all: another test may want it at this moment.
            let own = program.with_extension(std::process::id().to_string());
            self.compile(helpers, &own, &[]);
            fs::rename(own, &program).unwrap();
        }
        program
    }

    pub fn compile(&self, helpers: &Path, target: &Path, flags: &[&str]) {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread", "-D_GNU_SOURCE", "-I"]).arg(helpers).args(flags).arg("-o").arg(target).arg(&self.file);
        let output = compiler.output().expect("the suite needs a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Copied by another process: who forks on another thread while this one writes hands the open file on to the child, and nobody can run a file that
/// is open for writing.
fn copy_program(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success(), "{}", from.display());
}

/// What an expectation may depend on: the profile, the user and the runtime.
const WORDS: &[&str] = &["standard", "standard-net", "strict", "strict-unix", "root", "user", "native", "podman", "docker"];

/// `memory=64m pids=20 wall=3s`.
fn limit(limits: &mut Limits, output_max: &mut Option<usize>, text: &str) {
    for (name, value) in text.split_whitespace().map(|part| part.split_once('=').expect("name=value")) {
        let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match &value[digits.len()..] {
            "k" => 1 << 10,
            "m" => 1 << 20,
            _ => 1,
        };
        let value = digits.parse::<u64>().unwrap() * unit;
        match name {
            "wall" => limits.wall = Some(Duration::from_secs(value)),
            "memory" => limits.memory_bytes = Some(value),
            "data" => limits.data_bytes = Some(value),
            "pids" => limits.pids = value as u32,
            "files" => limits.open_files = value,
            "file" => limits.file_bytes = Some(value),
            "cpu" => limits.cpu_seconds = Some(value),
            "tmp" => limits.tmp_bytes = value,
            "shm" => limits.shm_bytes = value,
            "disk" => limits.disk_bytes = Some(value),
            "inodes" => limits.disk_files = Some(value),
            "output" => *output_max = Some(value as usize),
            _ => panic!("there is no limit `{name}`"),
        }
    }
}
