//! What rooms see of the host beside its system folders: what the operator shows them, read-only.
//!
//! Programs that are installed elsewhere, as by nvm, Homebrew or a vendor's own installer, are in no room without this. **Invariant.**
//! Nothing that is shown holds the kernel's home or lies in it, and nothing covers the project, whose masks would be off.

use sandbox::Bind;
use std::path::{Component, Path, PathBuf};
use world::{Code, Refusal};

/// Where a room has its own.
const TAKEN: &[&str] = &["/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys", "/run", "/tmp"];

/// What the operator shows to every room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostBinds(Vec<Bind>);

impl HostBinds {
    /// `show` of config.yml; what cannot be shown is a mistake in it.
    pub fn read(show: &[PathBuf], home: &Path) -> Result<HostBinds, String> {
        let home = home.canonicalize().map_err(|error| format!("{}: {error}", home.display()))?;
        let one = |path: &PathBuf| {
            let bad = |why: &str| format!("sandbox.show: `{}` {why}", path.display());
            if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
                return Err(bad("must be an absolute path without `..`"));
            }
            let source = path.canonicalize().map_err(|error| bad(&format!("cannot be shown: {error}")))?;
            if TAKEN.iter().any(|taken| Path::new(taken).starts_with(path))
                || ["/dev", "/proc", "/sys"].iter().any(|own| path.starts_with(own))
            {
                return Err(bad("is a place where sandboxes have their own"));
            }
            if overlap(&source, &home) || overlap(path, &home) {
                return Err(bad("holds the kernel's home or lies in it, which no sandbox sees"));
            }
            // Without a last slash, and without `.`.
            Ok(Bind { source, target: path.components().collect(), writable: false })
        };
        show.iter().map(one).collect::<Result<_, _>>().map(HostBinds)
    }

    /// Where rooms see what is shown.
    pub fn targets(&self) -> Vec<PathBuf> {
        self.0.iter().map(|bind| bind.target.clone()).collect()
    }

    /// For a room over this project.
    pub fn binds(&self, project: &Path) -> Result<Vec<Bind>, Refusal> {
        match self.0.iter().find(|bind| overlap(&bind.source, project) || overlap(&bind.target, project)) {
            None => Ok(self.0.clone()),
            Some(bind) => Err(Refusal::new(
                Code::Unsupported,
                format!("`{}` is shown to sandboxes, and this project holds it or lies in it", bind.target.display()),
            )
            .hint("name a smaller folder in `sandbox: {show: […]}` of config.yml in $SKEP_HOME")),
        }
    }
}

fn overlap(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_neither_the_kernel_s_home_nor_over_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["home/keys", "tools/bin", "project"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("home"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("project"), at("other")).unwrap();
        let read = |path: PathBuf| HostBinds::read(&[path], &at("home"));
        for (path, why) in [
            (PathBuf::from("tools"), "must be an absolute path"),
            (at("tools/../home"), "must be an absolute path"),
            (at("nothing"), "cannot be shown"),
            (PathBuf::from("/"), "is a place where sandboxes have their own"),
            (PathBuf::from("/proc/self"), "is a place where sandboxes have their own"),
            (PathBuf::from("/etc"), "is a place where sandboxes have their own"),
            (at("home"), "holds the kernel's home"),
            (at("home/keys"), "holds the kernel's home"),
            (at(""), "holds the kernel's home"),
            (at("link"), "holds the kernel's home"),
        ] {
            let error = read(path.clone()).unwrap_err();
            assert!(error.contains(why), "{}: {error}", path.display());
        }
        let tools = read(at("tools/")).unwrap();
        assert_eq!(tools.binds(&at("project")).unwrap(), [Bind { source: at("tools"), target: at("tools"), writable: false }]);
        for (shown, project) in [("tools", "tools"), ("tools", "tools/bin"), ("project", "project"), ("other", "project")] {
            let refusal = read(at(shown)).unwrap().binds(&at(project)).unwrap_err();
            assert!(refusal.reason.contains("this project holds it or lies in it"), "{refusal:?}");
        }
    }
}
