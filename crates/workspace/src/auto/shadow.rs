//! Names that mean something outside the project: a file that takes one is found instead of what it meant.
//!
//! A `pytest.py` in the project is what `python -m pytest` runs, a `json` folder is what `import json` loads, a program in the project is
//! what a `PATH` with a dot in it starts. Which of these a runner looks for can't be known, so every name that a program, a module, a
//! package or a header has on this host counts, beside those that are built into interpreters.

use crate::reader::{Folder, Unread};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// Entries that are read on the host; more is a host that can't be looked through, and then every new file is looked at.
const ENTRIES_MAX: usize = 200_000;

/// Where rooms find programs.
const PROGRAMS: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Where modules and headers lie. A `*` stands for the rest of one name.
const LIBRARIES: &[&str] = &[
    "/usr/include",
    "/usr/local/include",
    "/usr/lib/node_modules",
    "/usr/local/lib/node_modules",
    "/usr/share/nodejs",
    "/usr/share/node_modules",
    "/usr/share/php",
    "/usr/share/perl5",
    "/usr/share/perl/*",
    "/usr/share/lua/*",
    "/usr/local/share/lua/*",
    "/usr/lib/*/perl/*",
    "/usr/lib/*/perl5/*",
    "/usr/lib/*/perl-base",
    "/usr/lib/perl5/*",
    "/usr/lib64/perl5",
    "/usr/local/share/perl/*",
    "/usr/local/share/perl5",
    "/usr/lib/ruby/*",
    "/usr/lib/*/ruby/*",
    "/usr/local/lib/ruby/*",
    "/usr/share/rubygems-integration/*/gems",
    "/usr/lib/R/library",
    "/usr/lib/R/site-library",
    "/usr/local/lib/R/site-library",
    "/usr/share/julia/stdlib/*",
    "/usr/lib/erlang/lib",
    "/usr/lib/elixir/lib",
    "/usr/lib/ocaml",
    "/usr/lib/go*/src",
    "/usr/local/go/src",
];
/// Below a folder that holds interpreters' libraries.
const PYTHONS: &[&str] = &["lib/python*", "lib64/python*"];
const IN_PYTHON: &[&str] = &["", "site-packages", "dist-packages", "lib-dynload"];
/// Folders that hold modules or programs by their names, wherever they lie. What lies deeper in them is nobody's to find.
const HOLDERS: &[&str] = &["site-packages", "dist-packages", "lib-dynload", "node_modules"];
/// Folders that are looked through for these, of a project or of one that rooms see beside the system's.
const FOLDERS_MAX: usize = 100_000;
/// Where a project keeps what it installed.
const INSTALLED: &[&str] = &[".venv", "venv", "env", ".tox/*", ".nox/*"];

/// What interpreters have built in, and runners that may be installed where we do not look.
const BUILT_IN: &str = "\
abc aifc antigravity argparse array ast asyncio atexit audioop base64 bdb binascii bisect builtins bz2 cprofile calendar cgi cgitb chunk \
cmath cmd code codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes \
curses dataclasses datetime dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp \
fileinput fnmatch formatter fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html \
http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword linecache locale logging lzma mailbox mailcap marshal \
math mimetypes mmap modulefinder msilib multiprocessing netrc nis nntplib ntpath numbers opcode operator optparse os ossaudiodev parser \
pathlib pdb pickle pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc \
queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtpd \
smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess \
sunau symbol symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios textwrap this threading time timeit tkinter token \
tokenize tomllib trace traceback tracemalloc tty turtle types typing unicodedata unittest urllib uu uuid venv warnings wave weakref \
webbrowser winreg winsound wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo sitecustomize usercustomize __future__ __main__ \
pytest _pytest py pluggy iniconfig xdist pytest_cov coverage nose nose2 mock hypothesis tox nox attr attrs numpy pandas setuptools \
pkg_resources pip wheel packaging exceptiongroup tomli toml yaml six requests django flask \
assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain events fs http2 https \
inspector module net path perf_hooks process punycode querystring repl stream string_decoder sys timers tls trace_events url util v8 vm \
wasi worker_threads \
jest mocha chai sinon vitest jasmine ava tap tape karma cypress playwright nyc c8 ts-node tsx typescript babel eslint react lodash \
minitest rspec bundler rubygems rake set pp erb date open3 optparse \
std core alloc proc_macro test \
junit testng mockito hamcrest assertj spock spockframework javax jakarta kotlintest kotest xunit nunit \
gtest gmock catch2 doctest boost phpunit";

/// Files that only carry text to a reader: no runner finds them by a module's name.
const HARMLESS: &[&str] = &[
    "md", "markdown", "txt", "rst", "adoc", "asciidoc", "org", "html", "htm", "css", "scss", "sass", "less", "svg", "csv", "tsv", "po",
    "pot", "bib", "tex",
];
/// Files that make a package of the folder they lie in.
const MARKERS: &[&str] = &["__init__", "__main__", "index", "mod", "lib", "main", "package-info", "doc"];

/// Whose folder is looked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Host,
    Project,
}

/// What names mean outside the project.
pub struct Outside {
    names: HashSet<String>,
    /// The host holds more than can be looked through.
    is_cut: bool,
}

impl Outside {
    /// Looks through the host and what the project installed. `shown` are folders that rooms see beside the system's.
    pub fn look(project: &Path, shown: &[PathBuf]) -> Outside {
        let mut outside = Outside { names: BUILT_IN.split_whitespace().map(str::to_owned).collect(), is_cut: false };
        let mut folders: Vec<PathBuf> =
            PROGRAMS.iter().chain(LIBRARIES).flat_map(|pattern| unfold(Path::new("/"), &pattern[1..])).collect();
        let roots = [PathBuf::from("/usr"), PathBuf::from("/usr/local")].into_iter().chain(shown.iter().cloned());
        for root in roots {
            folders
                .extend([root.join("bin"), root.join("lib/node_modules")].into_iter().chain(root.ends_with("bin").then(|| root.clone())));
            let pythons = PYTHONS.iter().flat_map(|pattern| unfold(&root, pattern));
            folders.extend(pythons.flat_map(|python| IN_PYTHON.iter().map(move |below| python.join(below))));
        }
        // Debian keeps modules beside the versions of python.
        folders.push("/usr/lib/python3/dist-packages".into());
        for folder in folders {
            outside.take(&folder);
        }
        for root in shown {
            match Folder::open(root) {
                Ok(root) => outside.take_nested(&root, Whose::Host),
                // One program.
                Err(_) => outside.insert(&root.file_name().unwrap_or_default().to_string_lossy()),
            }
        }
        match Folder::open(project) {
            Ok(project) => {
                outside.take_installed(&project);
                outside.take_nested(&project, Whose::Project);
            }
            Err(_) => outside.is_cut = true,
        }
        outside
    }

    /// What is installed at any depth: an environment may have any name, a part of a project its own packages, and a version manager keeps
    /// many versions side by side.
    fn take_nested(&mut self, top: &Folder, whose: Whose) {
        let (mut waiting, mut seen) = (vec![PathBuf::new()], 0);
        while let Some(folder) = waiting.pop() {
            seen += 1;
            if seen > FOLDERS_MAX || self.names.len() > ENTRIES_MAX {
                self.is_cut = true;
                return;
            }
            let entries = match top.entries(&folder) {
                Ok(entries) => entries,
                // What is not ours to read is not a room's either.
                Err(Unread::Absent | Unread::Failed(Errno::ACCESS)) => continue,
                Err(_) => {
                    self.is_cut = true;
                    continue;
                }
            };
            let has_programs = whose == Whose::Host || entries.iter().any(|entry| entry.name == "pyvenv.cfg");
            let is_lib = folder.ends_with("lib") || folder.ends_with("lib64");
            for entry in entries {
                let name = entry.name.to_string_lossy();
                let is_holder = HOLDERS.contains(&&*name);
                let is_taken = is_holder || (has_programs && matches!(&*name, "bin" | "sbin")) || (is_lib && name.starts_with("python"));
                let path = folder.join(&entry.name);
                match entry.kind {
                    FileType::Directory if is_taken => {
                        self.take_names(top, &path);
                        self.take_names(top, &path.join(".bin"));
                        waiting.extend((!is_holder).then_some(path));
                    }
                    FileType::Directory if name != ".git" => waiting.push(path),
                    // It is looked through by no link, so nobody knows what is there.
                    FileType::Symlink if is_holder && whose == Whose::Project => self.is_cut = true,
                    _ => {}
                }
            }
        }
    }

    fn take_names(&mut self, top: &Folder, folder: &Path) {
        match top.entries(folder) {
            Ok(entries) => entries.iter().for_each(|entry| self.insert(&entry.name.to_string_lossy())),
            Err(Unread::Absent | Unread::Failed(Errno::ACCESS)) => {}
            Err(_) => self.is_cut = true,
        }
    }

    /// What the project itself installed. Through no link: one that leads elsewhere would tell of what lies there.
    fn take_installed(&mut self, project: &Folder) {
        let mut folders = vec!["node_modules".to_owned(), "node_modules/.bin".to_owned()];
        let roots: Vec<String> = INSTALLED.iter().flat_map(|pattern| self.unfold_in(project, pattern)).collect();
        for root in roots {
            folders.push(format!("{root}/bin"));
            let pythons: Vec<String> = PYTHONS.iter().flat_map(|pattern| self.unfold_in(project, &format!("{root}/{pattern}"))).collect();
            folders.extend(pythons.iter().flat_map(|python| IN_PYTHON.iter().map(move |below| format!("{python}/{below}"))));
        }
        for folder in folders {
            for name in self.list_in(project, folder.trim_end_matches('/')) {
                self.insert(&name);
            }
        }
    }

    /// The names in a folder of the project; if it cannot be listed, nothing is known of any name.
    fn list_in(&mut self, project: &Folder, folder: &str) -> Vec<String> {
        match project.list(folder, ENTRIES_MAX) {
            Ok(names) => names.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
            Err(Unread::Absent) => Vec::new(),
            Err(_) => {
                self.is_cut = true;
                Vec::new()
            }
        }
    }

    fn unfold_in(&mut self, project: &Folder, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.split('/') {
            let join = |above: &String, name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
            found = match part.split_once('*') {
                None => found.iter().map(|above| join(above, part)).collect(),
                Some((begin, _)) => {
                    let names = |above: &String| -> Vec<String> {
                        let listed = self.list_in(project, above);
                        listed.iter().filter(|name| name.starts_with(begin)).map(|name| join(above, name)).collect()
                    };
                    found.iter().flat_map(names).collect()
                }
            };
        }
        found
    }

    fn insert(&mut self, name: &str) {
        let name = name.to_lowercase();
        if let Some((stem, _)) = name.split_once('.').filter(|(stem, _)| !stem.is_empty()) {
            self.names.insert(stem.to_owned());
        }
        self.names.insert(name);
    }

    fn take(&mut self, folder: &Path) {
        // A folder that is not there or not ours to read holds nothing that a room would find.
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            if self.names.len() > ENTRIES_MAX {
                self.is_cut = true;
                return;
            }
            self.insert(&entry.file_name().to_string_lossy());
        }
    }

    /// The name by which this file would be found instead of something else; `is_folder` says whether the project has a folder today.
    pub fn shadowed(&self, path: &str, is_folder: impl Fn(&str) -> bool) -> Option<String> {
        let lower = path.to_ascii_lowercase();
        let (above, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name);
        let last = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if HARMLESS.contains(&extension) {
            return None;
        }
        if self.is_cut {
            return Some(name.to_owned());
        }
        let is_marker = MARKERS.contains(&stem);
        let mut at = 0;
        let new = above.split('/').filter(|folder| !folder.is_empty()).filter(|folder| {
            at += folder.len();
            let is_new = !is_folder(&path[..at]);
            at += 1;
            is_new
        });
        let own = above.rsplit('/').next().filter(|folder| is_marker && !folder.is_empty());
        let mut names = new.chain(own).chain([name]).chain([stem, last].into_iter().filter(|_| !is_marker));
        names.find(|name| self.names.contains(*name)).map(str::to_owned)
    }
}

/// A path as imports name it: in lower case, without what follows the first dot of its last name.
pub fn stem_of(path: &str) -> String {
    let lower = path.to_ascii_lowercase();
    let (above, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let stem = name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name);
    if above.is_empty() { stem.to_owned() } else { format!("{above}/{stem}") }
}

/// A file or folder of the project that this new file may be found in the place of: `checks/__init__.py` beside `checks.py`, `a.mjs` beside
/// `a.js`.
pub fn twin<'a>(path: &str, stems: &'a BTreeMap<String, String>, is_folder: impl Fn(&str) -> bool) -> Option<&'a String> {
    let lower = path.to_ascii_lowercase();
    if lower.rsplit_once('.').is_some_and(|(_, extension)| HARMLESS.contains(&extension)) {
        return None;
    }
    let new_folders =
        Path::new(path).ancestors().skip(1).filter_map(Path::to_str).filter(|folder| !folder.is_empty() && !is_folder(folder));
    let names = std::iter::once(path).chain(new_folders);
    names.filter_map(|name| stems.get(&stem_of(name))).find(|twin| twin.as_str() != path)
}

/// The folders that a pattern names below a root; a `*` is the rest of one name.
fn unfold(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = match part.split_once('*') {
            None => found.into_iter().map(|folder| folder.join(part)).collect(),
            Some((begin, _)) => found.iter().flat_map(|folder| beginning(folder, begin)).collect(),
        };
    }
    found
}

fn beginning(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(begin)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_means_something_elsewhere_is_not_taken() {
        let project = tempfile::tempdir().unwrap();
        for installed in ["node_modules/left-pad", ".venv/lib/python3.12/site-packages/speedups", "node_modules/.bin/frobnicate"] {
            std::fs::create_dir_all(project.path().join(installed)).unwrap();
        }
        let outside = Outside::look(project.path(), &[]);
        let shadowed = |path: &str| outside.shadowed(path, |folder| ["src", "docs", "docs/http"].contains(&folder));
        for path in [
            "pytest.py",
            "src/json.py",
            "json/__init__.py",
            "docs/http/__init__.py",
            "src/unittest/case.py",
            "src/SYS.py",
            "sh",
            "tools/ls",
            "left-pad.js",
            "src/left-pad/index.js",
            "speedups.py",
            "frobnicate",
            "org/junit/Assert.java",
            "src/assert.js",
            "json.cpython-312-x86_64-linux-gnu.so",
        ] {
            assert!(shadowed(path).is_some(), "{path}");
        }
        for path in
            ["src/zebra_crossing.py", "src/zebra/__init__.py", "docs/json.md", "docs/http/x_zebra.py", "src/index.js", "src/main.rs"]
        {
            assert_eq!(shadowed(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_installed_anywhere_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let (project, shown) = (folder.path().join("project"), folder.path().join("shown"));
        let make = |path: &Path| std::fs::create_dir_all(path).unwrap();
        let names = ["quagga", "okapi", "dikdik", "nyala", "gerenuk", "zebu"];
        make(&project.join("src/plain"));
        make(&shown.join("versions/1/share"));
        let known = || {
            let outside = Outside::look(&project, std::slice::from_ref(&shown));
            names.map(|name| outside.shadowed(&format!("src/{name}.py"), |_| true).is_some())
        };
        assert_eq!(known(), [false; 6], "the control");
        make(&project.join("any name/lib/python3.12/site-packages/quagga"));
        std::fs::write(project.join("any name/pyvenv.cfg"), "").unwrap();
        make(&project.join("any name/bin/okapi"));
        make(&project.join("web/app/node_modules/dikdik"));
        make(&shown.join("versions/1/lib/python3.12/site-packages/nyala"));
        make(&shown.join("versions/1/bin/gerenuk"));
        make(&shown.join("versions/node/lib/node_modules/.bin/zebu"));
        assert_eq!(known(), [true; 6]);
        make(&project.join("src/bin/oribi"));
        assert!(Outside::look(&project, &[]).shadowed("src/oribi.py", |_| true).is_none(), "the project's own programs are its own");
        std::os::unix::fs::symlink(&shown, project.join("web/node_modules")).unwrap();
        assert!(Outside::look(&project, &[]).is_cut, "a link");
    }

    #[test]
    fn a_new_name_that_takes_the_place_of_another_is_seen() {
        let files = ["src/checks.py", "web/a.js", "web/a.css", "src/core/x.py", "README.md"];
        let folders = ["src", "web", "src/core"];
        let stems = files.iter().chain(&folders).map(|path| (stem_of(path), (*path).to_owned())).collect();
        let twin = |path: &str| super::twin(path, &stems, |folder| folders.contains(&folder)).cloned();
        for (path, of) in [
            ("src/checks/__init__.py", "src/checks.py"),
            ("src/Checks/deep/a.py", "src/checks.py"),
            ("web/a.mjs", "web/a.css"),
            ("src/core.py", "src/core"),
            ("src/checks.cpython-312.so", "src/checks.py"),
        ] {
            assert_eq!(twin(path).as_deref(), Some(of), "{path}");
        }
        for path in ["src/core/y.py", "src/other/__init__.py", "web/a.svg", "checks.py"] {
            assert_eq!(twin(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_installed_behind_a_link_is_not_looked_at_and_puts_all_in_doubt() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir_all(folder.path().join("private/zebra_key")).unwrap();
        for link in ["node_modules", ".venv", "env"] {
            std::fs::create_dir_all(&project).unwrap();
            assert!(!Outside::look(&project, &[]).is_cut, "the control");
            std::os::unix::fs::symlink(folder.path().join("private"), project.join(link)).unwrap();
            let outside = Outside::look(&project, &[]);
            assert!(outside.is_cut && !outside.names.contains("zebra_key"), "{link}");
            std::fs::remove_dir_all(&project).unwrap();
        }
    }

    #[test]
    fn a_host_that_is_too_large_puts_every_new_program_in_doubt() {
        let outside = Outside { names: HashSet::new(), is_cut: true };
        assert!(outside.shadowed("src/zebra.py", |_| true).is_some());
        assert!(outside.shadowed("docs/zebra.md", |_| true).is_none());
    }
}
