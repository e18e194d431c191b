//! Which files of the project the test command mentions, by itself or through scripts that it names.
//!
//! What a script does can't be known from its text, so this errs on one side: a name, a module's name or a folder's name anywhere in the
//! text counts, and a script that picks what it runs, or that can't be read, puts every file in doubt. Knows no policy and no changes.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

/// Scripts that are followed; more than these are not a command but a program.
const SCRIPTS_MAX: usize = 200;
/// Bytes of one script.
const SCRIPT_BYTES_MAX: usize = 512 * 1024;

/// Words by which a script picks files by itself.
const PICKS: &[&str] = &[
    "find",
    "fd",
    "xargs",
    "eval",
    "run-parts",
    "glob",
    "globsync",
    "listdir",
    "scandir",
    "readdir",
    "readdirsync",
    "iterdir",
    "rglob",
    "importlib",
    "import_module",
    "__import__",
    "walkdir",
    "wildcard",
    "discover",
    "pkgutil",
    "runpy",
    "execfile",
    "ls-files",
    "ls-tree",
];

/// Programs, and the files from which they take what to run.
const RUNNERS: &[(&[&str], &[&str])] = &[
    (&["make", "gmake", "bmake", "remake"], &["makefile", "gnumakefile", "bsdmakefile"]),
    (&["npm", "pnpm", "yarn", "bun", "npx", "corepack"], &["package.json"]),
    (&["just"], &["justfile", ".justfile"]),
    (&["task", "go-task"], &["taskfile.yml", "taskfile.yaml"]),
    (&["tox"], &["tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"]),
    (&["nox"], &["noxfile.py"]),
    (&["rake"], &["rakefile"]),
    (&["invoke", "inv"], &["tasks.py"]),
    (&["cargo"], &["config.toml", "config"]),
    (&["gradle", "gradlew"], &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"]),
    (&["mvn", "mvnw"], &["pom.xml"]),
    (&["ant"], &["build.xml"]),
    (&["sbt"], &["build.sbt"]),
    (&["cmake", "ctest"], &["cmakelists.txt", "ctesttestfile.cmake"]),
    (&["meson", "ninja"], &["meson.build", "build.ninja"]),
    (&["bazel", "bazelisk"], &["build", "build.bazel", "workspace", "module.bazel"]),
    (&["mix"], &["mix.exs"]),
    (&["composer"], &["composer.json"]),
    (&["deno"], &["deno.json", "deno.jsonc"]),
    (&["poetry", "pdm", "hatch", "uv", "rye", "pipenv"], &["pyproject.toml", "pipfile"]),
    (&["pre-commit"], &[".pre-commit-config.yaml"]),
    (&["lefthook"], &["lefthook.yml", "lefthook.yaml"]),
    (&["earthly", "earth"], &["earthfile"]),
    (&["mage"], &["magefile.go"]),
    (&["doit"], &["dodo.py"]),
    (&["fab"], &["fabfile.py"]),
    (&["scons"], &["sconstruct"]),
    (&["waf"], &["wscript"]),
    (&["lein"], &["project.clj"]),
    (&["turbo"], &["turbo.json"]),
    (&["nx"], &["nx.json", "project.json"]),
    (&["mise"], &["mise.toml", ".mise.toml"]),
    (&["nix", "nix-shell"], &["flake.nix", "shell.nix", "default.nix"]),
    (&["docker", "podman"], &["dockerfile", "containerfile", "compose.yml", "compose.yaml", "docker-compose.yml"]),
];

/// Configuration that a runner reads unasked. What it mentions by name counts; folders in it say where sources are, not what runs.
const CONFIGURATION: &[&str] = &[
    "cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "conftest.py",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    ".mocharc.json",
    ".mocharc.js",
    ".mocharc.cjs",
    ".mocharc.yml",
    "karma.conf.js",
    "babel.config.js",
    "babel.config.json",
    ".babelrc",
    "tsconfig.json",
    "deno.json",
    "go.mod",
    "build.rs",
    "cypress.json",
    "nextest.toml",
];
const CONFIGURATION_BEGINS: &[&str] =
    &["jest.config.", "vitest.config.", "vite.config.", "playwright.config.", "cypress.config.", "ava.config."];

/// Languages in which a script mentions another by its bare name.
const SCRIPTS: &[&str] = &[
    "sh", "bash", "zsh", "ksh", "fish", "py", "js", "mjs", "cjs", "ts", "mts", "cts", "rb", "pl", "pm", "php", "lua", "mk", "mak", "just",
    "ps1", "awk", "tcl", "groovy", "exs", "jl", "r", "cmake", "nix",
];
/// Files that say nothing about what to run. Any other that is named in full may be a script, or a text that a script reads that from.
const MEDIA: &[&str] = &[
    "png", "jpg", "jpeg", "gif", "webp", "ico", "bmp", "tiff", "svg", "pdf", "woff", "woff2", "ttf", "otf", "eot", "mp3", "mp4", "wav",
    "ogg", "webm",
];
const SHELLS: &[&str] = &["sh", "bash", "zsh", "ksh"];
/// Languages in which a star by itself is no file name.
const STARRED: &[&str] = &["py", "js", "mjs", "cjs", "ts", "mts", "cts", "rb", "pl", "pm", "php", "lua", "groovy", "exs", "jl", "r"];
/// Stands for a variable's value.
const ANY: char = '\u{1}';

/// One text that was read.
struct Text {
    /// As a person is told of it.
    name: String,
    words: Words,
    /// It runs what it mentions; else it only configures.
    runs: bool,
}

/// What stands in a text, in lower case.
#[derive(Default)]
struct Words {
    /// Last parts of paths, and the parts of dotted names.
    names: HashSet<String>,
    /// Patterns of names, each with the folder it stands in where that is said.
    globs: Vec<(Option<String>, String)>,
}

/// What the test command says about files.
pub struct Mentions {
    texts: Vec<Text>,
    /// Why nothing can be said of any file.
    doubt: Option<String>,
}

/// What stands at a path of the project.
pub enum Script {
    Text(Vec<u8>),
    Link(String),
    Unreadable,
}

impl Mentions {
    /// Reads the command and all it leads to. `files` are the project's own, `read` gives what they hold.
    pub fn of<E>(command: &[String], files: &[String], mut read: impl FnMut(&str) -> Result<Script, E>) -> Result<Mentions, E> {
        let mut mentions = Mentions { texts: Vec::new(), doubt: None };
        let mut waiting: VecDeque<&str> = VecDeque::new();
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let index = Index::of(files);
        let command = Text { name: "the test command".into(), words: Words::of(&command.join("\n"), true), runs: true };
        // `discover` of a command is a runner's own word for tests, which are known by their names.
        if let Some(pick) = PICKS.iter().find(|pick| **pick != "discover" && command.words.names.contains(**pick)) {
            mentions.doubt = Some(format!("the test command may pick files by itself (`{pick}`)"));
        }
        index.follow(&command.words, &mut |file| waiting.extend(known.insert(file).then_some(file)));
        mentions.texts.push(command);
        while let Some(path) = waiting.pop_front() {
            if mentions.texts.len() > SCRIPTS_MAX {
                mentions.doubt = Some(format!("the test command leads to more than {SCRIPTS_MAX} scripts"));
                return Ok(mentions);
            }
            let Some(text) = text_of(path, read(path)?) else {
                mentions.doubt = Some(format!("the test command leads to `{path}`, which can't be read as text"));
                return Ok(mentions);
            };
            let has_globs = !STARRED.contains(&File::of(path).extension.as_str());
            let text = Text { name: format!("`{path}`"), words: Words::of(&text, has_globs), runs: true };
            if let Some(pick) = PICKS.iter().find(|pick| text.words.names.contains(**pick)) {
                let doubt = format!("the test command leads to `{path}`, which may pick files by itself (`{pick}`)");
                mentions.doubt.get_or_insert(doubt);
            }
            index.follow(&text.words, &mut |file| waiting.extend(known.insert(file).then_some(file)));
            mentions.texts.push(text);
        }
        for path in files.iter().filter(|path| is_configuration(path) && (!known.contains(path.as_str()) || path.ends_with(".json"))) {
            match read(path)? {
                Script::Text(bytes) if bytes.len() <= SCRIPT_BYTES_MAX => {
                    let words = Words::of(&String::from_utf8_lossy(&bytes), false);
                    mentions.texts.push(Text { name: format!("`{path}`"), words, runs: false });
                }
                _ => {
                    mentions.doubt.get_or_insert(format!("`{path}` configures tests and can't be read as text"));
                }
            }
        }
        Ok(mentions)
    }

    /// Why this file is the test command's, if it is.
    pub fn of_path(&self, path: &str) -> Option<String> {
        let file = File::of(path);
        let by =
            self.texts.iter().find_map(|text| text.words.mentions(&file, text.runs).map(|word| format!("{} mentions {word}", text.name)));
        by.or_else(|| self.doubt.clone())
    }
}

/// The text of a script. A link's is where it leads; of a package.json only what it runs.
fn text_of(path: &str, script: Script) -> Option<String> {
    let bytes = match script {
        Script::Text(bytes) if bytes.len() <= SCRIPT_BYTES_MAX && !bytes.contains(&0) => bytes,
        Script::Link(target) => return Some(target),
        Script::Text(_) | Script::Unreadable => return None,
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !File::of(path).name.eq_ignore_ascii_case("package.json") {
        return Some(text);
    }
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let scripts = json["scripts"].as_object().into_iter().flatten();
    Some(scripts.map(|(_, line)| line.to_string()).collect::<Vec<_>>().join("\n"))
}

fn is_configuration(path: &str) -> bool {
    let name = File::of(path).name;
    let in_cargo = path == ".cargo/config.toml" || path == ".cargo/config";
    in_cargo || CONFIGURATION.contains(&name.as_str()) || CONFIGURATION_BEGINS.iter().any(|begin| name.starts_with(begin))
}

/// A path by its parts, in lower case.
struct File {
    name: String,
    /// Without its first, and without its last extension.
    stems: [String; 2],
    folders: Vec<String>,
    extension: String,
}

impl File {
    fn of(path: &str) -> File {
        let lower = path.to_lowercase();
        let mut folders: Vec<String> = lower.split('/').map(str::to_owned).collect();
        let name = folders.pop().unwrap_or_default();
        let hidden = usize::from(name.starts_with('.'));
        let stem = |at: Option<usize>| name[..at.map_or(name.len(), |at| at + hidden)].to_owned();
        let stems = [stem(name[hidden..].find('.')), stem(name[hidden..].rfind('.'))];
        let extension = name[hidden..].rsplit_once('.').map_or(String::new(), |(_, extension)| extension.to_owned());
        File { name, stems, folders, extension }
    }
}

impl Words {
    /// `has_globs` says that a star by itself is a name of files in this text.
    fn of(text: &str, has_globs: bool) -> Words {
        let mut words = Words::default();
        let lower = without_variables(&text.to_lowercase());
        for word in lower.split(|c: char| !is_part(c)) {
            let mut parts = word.trim_end_matches(['/', '.']).rsplit('/').filter(|part| !part.is_empty());
            let Some(last) = parts.next() else { continue };
            if last.contains(['*', '?', ANY]) {
                let folder = parts.next().filter(|folder| !folder.starts_with('.') && !folder.contains(['*', '?', ANY]));
                let says = last.contains(|c: char| c.is_alphanumeric()) || folder.is_some() || (has_globs && last.contains(['*', '?']));
                if says {
                    words.globs.push((folder.map(str::to_owned), last.replace(ANY, "*")));
                }
                continue;
            }
            words.names.insert(last.to_owned());
            words.names.extend(last.split('.').filter(|piece| !piece.is_empty()).map(str::to_owned));
        }
        words
    }

    /// Whether a name stands in the text. A blank or a sign in it divides it there: then all its pieces do.
    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || (is_odd(name) && pieces(name).all(|piece| self.names.contains(piece)))
    }

    fn names_file(&self, file: &File) -> bool {
        self.has(&file.name) || file.stems.iter().any(|stem| self.has(stem))
    }

    /// How a text mentions a file.
    fn mentions(&self, file: &File, folders: bool) -> Option<String> {
        if self.names_file(file) {
            return Some("it".into());
        }
        if !folders {
            return None;
        }
        // What is left of `[ab].sh`.
        if !file.extension.is_empty() && self.names.contains(&format!(".{}", file.extension)) {
            return Some(format!("names that end in `.{}`", file.extension));
        }
        if let Some(folder) = file.folders.iter().find(|folder| self.has(folder)) {
            return Some(format!("its folder `{folder}`"));
        }
        let parts: Vec<&String> = file.folders.iter().chain([&file.name]).collect();
        let at = |place: usize, folder: &Option<String>| folder.as_ref().is_none_or(|folder| place > 0 && parts[place - 1] == folder);
        let fits = |(folder, glob): &&(Option<String>, String)| {
            (0..parts.len()).any(|place| at(place, folder) && matches(glob.as_bytes(), parts[place].as_bytes()))
        };
        self.globs.iter().find(fits).map(|(folder, glob)| match folder {
            Some(folder) => format!("`{folder}/{glob}`"),
            None => format!("`{glob}`"),
        })
    }
}

/// What a name is made of in a text.
fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == ANY || "_./-+@~*?".contains(c)
}

fn is_odd(name: &str) -> bool {
    name.contains(|c: char| !is_part(c))
}

fn pieces(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !is_part(c)).map(|piece| piece.trim_end_matches('.')).filter(|piece| !piece.is_empty())
}

/// The text with a mark for each `$name` and `${name}`, and without the stars of `case`.
fn without_variables(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '*']) {
        out.push_str(&rest[..at]);
        if let Some(after) = rest[at..].strip_prefix("*)") {
            out.push(')');
            rest = after;
            continue;
        }
        let after = &rest[at + 1..];
        if rest[at..].starts_with('*') {
            out.push('*');
            rest = after;
            continue;
        }
        out.push(ANY);
        let name = after.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(after.len());
        // What stands in braces may have a default that is a name: it stays, a word of its own.
        rest = after[name..].strip_prefix(['@', '<', '^', '!', '#']).filter(|_| name == 0).unwrap_or(&after[name..]);
        if let Some((inner, behind)) = rest.strip_prefix('{').filter(|_| name == 0).and_then(|inner| inner.split_once('}')) {
            out.push_str(behind.split(|c: char| c.is_whitespace() || c == '"').next().unwrap_or_default());
            out.push(' ');
            out.push_str(inner);
            out.push(' ');
            rest = behind;
        }
    }
    out.push_str(rest);
    out
}

/// Whether a glob of `*` and `?` matches a name.
fn matches(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => matches(rest, name) || name.split_first().is_some_and(|(_, name)| matches(glob, name)),
        (Some((b'?', glob)), Some((_, name))) => matches(glob, name),
        (Some((one, glob)), Some((other, name))) => one == other && matches(glob, name),
        _ => false,
    }
}

/// The project's files by what may name them.
struct Index<'a> {
    by_name: BTreeMap<String, Vec<&'a str>>,
    shells: Vec<(&'a str, File)>,
    /// Those whose names a text has in pieces only.
    odd: Vec<(&'a str, File)>,
}

impl<'a> Index<'a> {
    fn of(files: &'a [String]) -> Index<'a> {
        let mut index = Index { by_name: BTreeMap::new(), shells: Vec::new(), odd: Vec::new() };
        for path in files {
            let file = File::of(path);
            let is_script = file.extension.is_empty() || SCRIPTS.contains(&file.extension.as_str());
            if is_script {
                for stem in file.stems.iter().filter(|stem| **stem != file.name) {
                    index.by_name.entry(stem.clone()).or_default().push(path);
                }
            }
            index.by_name.entry(file.name.clone()).or_default().push(path);
            if is_odd(&file.name) {
                index.odd.push((path, File::of(path)));
            }
            if SHELLS.contains(&file.extension.as_str()) || (file.extension.is_empty() && is_script) {
                index.shells.push((path, file));
            }
        }
        index
    }

    /// The scripts that a text leads to.
    fn follow(&self, words: &Words, found: &mut impl FnMut(&'a str)) {
        let may_run = |path: &str| !MEDIA.contains(&File::of(path).extension.as_str());
        for name in &words.names {
            for path in self.by_name.get(name).into_iter().flatten().filter(|path| may_run(path)) {
                found(path);
            }
            for (_, files) in RUNNERS.iter().filter(|(programs, _)| programs.contains(&name.as_str())) {
                for path in files.iter().filter_map(|file| self.by_name.get(*file)).flatten() {
                    // Of many files that are called `config`, those are cargo's.
                    if name != "cargo" || path.starts_with(".cargo/") || path.contains("/.cargo/") {
                        found(path);
                    }
                }
            }
        }
        for (path, _) in self.odd.iter().filter(|(path, file)| may_run(path) && words.names_file(file)) {
            found(path);
        }
        for (path, _) in self.shells.iter().filter(|(_, file)| words.mentions(file, true).is_some()) {
            found(path);
        }
    }
}

#[cfg(test)]
mod tests;
