//! The toolchains of the person, as rooms see them: found once, shown read-only, their caches with a private layer on top.
//!
//! **Invariant.** Of each tool only named folders and files are shown, none of them through a link but the tool's own folder; nothing that
//! holds or lies in the kernel's home, nothing that holds the person's home; files that may hold credentials are masked. What is found
//! depends on the host and on whoever started the kernel. A project only chooses among what was found.

mod credential;
mod go;
mod host;
mod java;
mod node;
mod project;
mod python;
mod rust;
#[cfg(test)]
mod tests;

use host::Host;
use sandbox::HostShare;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::path::{Path, PathBuf};

/// What belongs together, as the operator names it in `sandbox: {toolchains: […]}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ecosystem {
    Rust,
    Node,
    Python,
    Go,
    Java,
}

impl Ecosystem {
    pub const ALL: &[Ecosystem] = &[Ecosystem::Rust, Ecosystem::Node, Ecosystem::Python, Ecosystem::Go, Ecosystem::Java];

    pub fn name(self) -> &'static str {
        match self {
            Ecosystem::Rust => "rust",
            Ecosystem::Node => "node",
            Ecosystem::Python => "python",
            Ecosystem::Go => "go",
            Ecosystem::Java => "java",
        }
    }
}

/// Which toolchains rooms see: `all`, `off`, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainChoice(Vec<Ecosystem>);

impl Default for ToolchainChoice {
    fn default() -> ToolchainChoice {
        ToolchainChoice(Ecosystem::ALL.to_vec())
    }
}

impl ToolchainChoice {
    pub fn off() -> ToolchainChoice {
        ToolchainChoice(Vec::new())
    }

    pub fn has(&self, ecosystem: Ecosystem) -> bool {
        self.0.contains(&ecosystem)
    }
}

impl<'de> Deserialize<'de> for ToolchainChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ToolchainChoice, D::Error> {
        deserializer.deserialize_any(ChoiceVisitor)
    }
}

struct ChoiceVisitor;

impl<'de> Visitor<'de> for ChoiceVisitor {
    type Value = ToolchainChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Ecosystem::ALL.iter().map(|known| known.name()).collect();
        write!(f, "`all`, `off`, or a list of {}", names.join(", "))
    }

    fn visit_bool<E: Error>(self, all: bool) -> Result<ToolchainChoice, E> {
        Ok(if all { ToolchainChoice::default() } else { ToolchainChoice::off() })
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ToolchainChoice, E> {
        match word {
            "all" | "on" => Ok(ToolchainChoice::default()),
            "off" => Ok(ToolchainChoice::off()),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<ToolchainChoice, A::Error> {
        let mut chosen = Vec::new();
        while let Some(name) = names.next_element::<String>()? {
            let known = Ecosystem::ALL.iter().find(|known| known.name() == name);
            chosen.push(*known.ok_or_else(|| A::Error::invalid_value(serde::de::Unexpected::Str(&name), &self))?);
        }
        Ok(ToolchainChoice(chosen))
    }
}

/// One tool that was found, with all a room needs to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub ecosystem: Ecosystem,
    /// Such as `rustup` or `nvm`.
    pub name: &'static str,
    pub path: PathBuf,
    /// What of it there is: versions, or what is shared.
    pub detail: String,
    /// Paths of it that rooms do not see, each with its reason.
    pub left_out: Vec<(PathBuf, &'static str)>,
    shares: Vec<HostShare>,
    variables: Vec<(&'static str, String)>,
    /// What keeps it from asking a network that is not there.
    offline: Vec<(&'static str, &'static str)>,
    /// Folders of its programs, in the order of PATH.
    programs: Vec<PathBuf>,
    /// Where the person's own PATH names a folder in one of these, that is what counts instead.
    programs_within: Vec<PathBuf>,
    /// Folders with `bin/` and `lib/`, for whoever asks what names mean on this host.
    prefixes: Vec<PathBuf>,
}

/// The folders that rooms have programs in without any toolchain.
const SYSTEM_PATH: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// All that was found, and what rooms see of it.
#[derive(Clone, Debug, Default)]
pub struct Toolchains {
    found: Vec<Toolchain>,
    choice: ToolchainChoice,
    /// PATH of rooms; empty where the system's folders are all there is.
    path: Vec<PathBuf>,
    /// PATH of whoever started the kernel.
    host_path: Vec<PathBuf>,
    nodes: Vec<node::NodeVersion>,
    node_aliases: Vec<(String, String)>,
    rusts: Vec<String>,
}

impl Toolchains {
    /// Looks at the host. `variables` are those of whoever started the kernel, `kernel_home` is what no room sees, `shown` what the
    /// operator shows to every room. Blocks.
    pub fn find(choice: ToolchainChoice, variables: &[(String, String)], kernel_home: &Path, shown: &[PathBuf]) -> Toolchains {
        Toolchains::find_in(Host::new(variables, kernel_home, Path::new("/opt")), choice, shown)
    }

    fn find_in(host: Option<Host<'_>>, choice: ToolchainChoice, shown: &[PathBuf]) -> Toolchains {
        let Some(host) = host else { return Toolchains { choice, ..Toolchains::default() } };
        let mut all = Toolchains { choice, host_path: host.path(), ..Toolchains::default() };
        all.found.extend(rust::find(&host, &mut all.rusts));
        all.found.extend(node::find(&host, &mut all.nodes, &mut all.node_aliases));
        all.found.extend(python::find(&host));
        all.found.extend(go::find(&host));
        all.found.extend(java::find(&host));
        all.path = all.compose_path(shown);
        all
    }

    /// Everything that was found, whether rooms see it or not.
    pub fn list(&self) -> impl Iterator<Item = (&Toolchain, bool)> {
        self.found.iter().map(|found| (found, self.choice.has(found.ecosystem)))
    }

    fn chosen(&self) -> impl Iterator<Item = &Toolchain> {
        self.found.iter().filter(|found| self.choice.has(found.ecosystem))
    }

    /// For a room over this project, but for what holds the project, lies in it, or is not there any more.
    pub fn shares(&self, project: &Path) -> Vec<HostShare> {
        let is_there = |share: &&HostShare| share.source.as_ref().is_none_or(|source| source.exists());
        let all = self.chosen().flat_map(|found| &found.shares);
        let mut shares: Vec<HostShare> = all.filter(|share| is_apart(share, project)).filter(is_there).cloned().collect();
        // What lies in another is mounted over it.
        shares.sort_by_key(|share| share.target.components().count());
        let mut seen = std::collections::HashSet::new();
        shares.retain(|share| seen.insert(share.target.clone()));
        shares
    }

    /// Folders with `bin/` and `lib/` of what rooms see.
    pub fn prefixes(&self) -> Vec<PathBuf> {
        self.chosen().flat_map(|found| found.prefixes.iter().chain(&found.programs)).cloned().collect()
    }

    /// The person's own order counts; what it does not name comes first, and the system's folders are always there.
    fn compose_path(&self, shown: &[PathBuf]) -> Vec<PathBuf> {
        let targets: Vec<&Path> = self
            .chosen()
            .flat_map(|found| &found.shares)
            .map(|share| share.target.as_path())
            .chain(shown.iter().map(PathBuf::as_path))
            .collect();
        let is_system = |entry: &Path| ["/usr", "/bin", "/sbin"].iter().any(|folder| entry.starts_with(folder));
        let is_visible = |entry: &Path| is_system(entry) || targets.iter().any(|target| entry.starts_with(target));
        let own: Vec<&PathBuf> = self.host_path.iter().filter(|entry| is_visible(entry)).collect();
        let mut path: Vec<PathBuf> = Vec::new();
        for found in self.chosen() {
            if !own.iter().any(|entry| found.programs_within.iter().any(|folder| entry.starts_with(folder))) {
                path.extend(found.programs.iter().cloned());
            }
        }
        path.extend(own.into_iter().cloned());
        if path.iter().all(|entry| SYSTEM_PATH.iter().any(|system| Path::new(system) == entry)) {
            return Vec::new();
        }
        path.extend(SYSTEM_PATH.iter().map(PathBuf::from));
        let mut seen = std::collections::HashSet::new();
        path.retain(|entry| seen.insert(entry.clone()));
        path
    }

    /// Where the person has a program that rooms lack, and the exact lines that help.
    pub fn remedy_for(&self, program: &str) -> String {
        let lines = |show: &str| format!("add to config.yml in $SKEP_HOME:\nsandbox:\n  show: [{show}]");
        if program.contains('/') {
            return format!(
                "sandboxes see the system's folders, the project and known toolchains; {}",
                lines(&folder_of(Path::new(program)))
            );
        }
        let Some(found) = self.host_path.iter().map(|folder| folder.join(program)).find(|path| host::is_program(path)) else {
            return format!(
                "this machine has no `{program}` on the PATH that the kernel was started with; install it, or, if it lies elsewhere, {}\n  \
                 environment: {{set: {{PATH: \"/FOLDER/OF/{program}:{}\"}}}}",
                lines(&format!("/FOLDER/OF/{program}")),
                self.path_text(),
            );
        };
        if let Some(off) = self.found.iter().find(|known| known.shares.iter().any(|share| found.starts_with(&share.target)))
            && !self.choice.has(off.ecosystem)
        {
            let name = off.ecosystem.name();
            return format!(
                "`{}` is there, and `sandbox: {{toolchains: …}}` in config.yml leaves {name} out; take that line away, or write\n\
                 sandbox:\n  toolchains: [{name}]",
                found.display()
            );
        }
        let mut folders = vec![folder_of(&found)];
        // A link in a folder of links: its program lies elsewhere.
        if let Ok(real) = found.canonicalize()
            && real.parent() != found.parent()
        {
            folders.push(folder_of(&real));
        }
        format!("`{}` is in a folder that sandboxes do not see; {}", found.display(), lines(&folders.join(", ")))
    }

    fn path_text(&self) -> String {
        let system = || SYSTEM_PATH.iter().map(PathBuf::from).collect();
        let path = if self.path.is_empty() { system() } else { self.path.clone() };
        path.iter().map(|entry| entry.display().to_string()).collect::<Vec<_>>().join(":")
    }
}

/// Neither holds a share the project nor lies in it.
fn is_apart(share: &HostShare, project: &Path) -> bool {
    let apart = |path: &Path| !path.starts_with(project) && !project.starts_with(path);
    apart(&share.target) && share.source.as_ref().is_none_or(|source| apart(source))
}

fn folder_of(path: &Path) -> String {
    path.parent().unwrap_or(Path::new("/")).display().to_string()
}
