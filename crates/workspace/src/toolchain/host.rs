//! The host as toolchains are looked for: the person's home and variables, and what of them may be shown.

use super::{Ecosystem, Toolchain, credential};
use sandbox::HostShare;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders that rooms have already, or that are nobody's toolchain.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64"];
const NEVER: &[&str] = &["/etc", "/dev", "/proc", "/sys", "/run", "/boot"];
/// Where rooms have their own.
const TAKEN: &[&str] = &["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys", "/run", "/tmp"];

/// Whose toolchains are looked for.
pub(super) struct Host<'a> {
    variables: &'a [(String, String)],
    /// The person's.
    pub home: PathBuf,
    kernel_home: PathBuf,
    /// For what is installed for all users.
    pub opt: &'a Path,
}

impl<'a> Host<'a> {
    /// Nobody's without a home.
    pub fn new(variables: &'a [(String, String)], kernel_home: &Path, opt: &'a Path) -> Option<Host<'a>> {
        let home = variables.iter().find(|(name, _)| name == "HOME").map(|(_, value)| PathBuf::from(value))?;
        let kernel_home = kernel_home.canonicalize().ok()?;
        (home.is_absolute() && home.parent().is_some() && home.is_dir()).then_some(Host { variables, home, kernel_home, opt })
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// What a variable names, or else a path in the home.
    pub fn place(&self, variable: &str, fallback: &str) -> PathBuf {
        self.named(variable).unwrap_or_else(|| self.home.join(fallback))
    }

    /// A variable that holds an absolute path.
    pub fn named(&self, variable: &str) -> Option<PathBuf> {
        self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// As the XDG directories are found: by a variable, or in the home.
    pub fn data(&self, name: &str) -> PathBuf {
        self.place("XDG_DATA_HOME", ".local/share").join(name)
    }

    pub fn cache(&self, name: &str) -> PathBuf {
        self.place("XDG_CACHE_HOME", ".cache").join(name)
    }

    /// PATH, without what is relative.
    pub fn path(&self) -> Vec<PathBuf> {
        let entries = self.variable("PATH").unwrap_or_default().split(':').map(|entry| entry.trim_end_matches('/'));
        entries.map(PathBuf::from).filter(|entry| entry.is_absolute()).collect()
    }

    /// A tool's own folder, which may be a link, if there is one that may be shown in part.
    pub fn root(&self, named: &Path) -> Option<HostRoot> {
        let real = named.canonicalize().ok()?;
        let home = self.home.canonicalize().ok()?;
        let overlaps = |other: &Path| real.starts_with(other) || other.starts_with(&real);
        if !real.is_dir() || is_reserved(&real) || home.starts_with(&real) || overlaps(&self.kernel_home) {
            return None;
        }
        // With no `..`, `.` and last slash, as rooms name it.
        let plain = named.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        let named: PathBuf = named.components().collect();
        Some(HostRoot { named: (plain && named != real && !is_reserved(&named)).then_some(named), real })
    }
}

/// A tool's own folder: where it really lies, and what else it is called.
#[derive(Clone, Debug)]
pub(super) struct HostRoot {
    pub real: PathBuf,
    named: Option<PathBuf>,
}

impl HostRoot {
    pub fn has(&self, name: &str) -> bool {
        self.real.join(name).exists()
    }
}

/// How deep a shown folder is looked through for files with credentials: to `node/v20/etc/npmrc` of nvm's versions.
const DEPTH: usize = 4;

impl Toolchain {
    pub(super) fn new(ecosystem: Ecosystem, name: &'static str, root: &HostRoot) -> Toolchain {
        Toolchain {
            ecosystem,
            name,
            path: root.real.clone(),
            detail: String::new(),
            left_out: Vec::new(),
            shares: Vec::new(),
            variables: Vec::new(),
            offline: Vec::new(),
            programs: Vec::new(),
            programs_within: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// Shows one file or folder of the tool. An empty name is the tool's whole folder.
    pub(super) fn show(&mut self, root: &HostRoot, name: &str) {
        let Some(source) = self.ordinary(root, name) else { return };
        let masked = if source.is_dir() { credential::hidden(&source, DEPTH) } else { Vec::new() };
        self.left_out.extend(masked.iter().map(|path| (source.join(path), credential::WHY)));
        for base in std::iter::once(&root.real).chain(&root.named) {
            let target = if name.is_empty() { base.clone() } else { base.join(name) };
            self.shares.push(HostShare { masked: masked.clone(), ..HostShare::read_only(&source, target) });
        }
    }

    /// Shows a file only if nothing in it looks like a credential.
    pub(super) fn show_clean(&mut self, root: &HostRoot, name: &str) {
        let Some(source) = self.ordinary(root, name).filter(|source| source.is_file()) else { return };
        match credential::is_clean(&source) {
            true => self.show(root, name),
            false => self.left_out.push((source, credential::WHY)),
        }
    }

    /// A cache that jobs read, and write to in a layer of their own. `masked` are paths in it that no job reads.
    pub(super) fn share_cache(&mut self, root: &HostRoot, name: &str, layer: &str, masked: Vec<PathBuf>) {
        let Some(source) = self.ordinary(root, name).filter(|source| source.is_dir()) else { return };
        self.left_out.extend(masked.iter().map(|path| (source.join(path), credential::WHY)));
        let target = if name.is_empty() { root.real.clone() } else { root.real.join(name) };
        self.shares.push(HostShare { masked, ..HostShare::layered(Some(source), target, layer) });
    }

    /// A folder that is a room's own, in the place where the tool looks for it.
    pub(super) fn give_folder(&mut self, target: PathBuf, layer: &str) {
        let plain = target.components().all(|part| !matches!(part, std::path::Component::ParentDir));
        if !plain || is_reserved(&target) {
            return;
        }
        self.shares.push(HostShare::layered(None, target, layer));
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl AsRef<Path>) {
        // Rooms get text; a path that is none stays unset, and the tool unfound.
        self.variables.extend(value.as_ref().to_str().map(|value| (name, value.to_owned())));
    }

    /// What stands at a name of the tool, if no link is on the way to it.
    fn ordinary(&mut self, root: &HostRoot, name: &str) -> Option<PathBuf> {
        let mut path = root.real.clone();
        for part in Path::new(name).components() {
            path.push(part);
            let metadata = path.symlink_metadata().ok()?;
            if metadata.is_symlink() {
                self.left_out.push((path, "it is a link"));
                return None;
            }
            if !metadata.is_dir() && !metadata.is_file() {
                return None;
            }
        }
        Some(path)
    }
}

/// A place where rooms have their own, or the system's.
fn is_reserved(path: &Path) -> bool {
    SYSTEM.iter().chain(NEVER).any(|folder| path.starts_with(folder)) || TAKEN.iter().any(|taken| Path::new(taken).starts_with(path))
}

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Names in a folder, sorted; none where it cannot be read.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// A small file of the person's own, trimmed.
pub(super) fn read(path: &Path) -> Option<String> {
    path.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= 64 * 1024)?;
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}
