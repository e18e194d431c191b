//! Programs from npm, installed once into the build's own folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package's program. Without npm or the registry this fails and says so.
pub fn installed(name: &str, package: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clis").join(package.replace(['/', '@'], "_"));
    let (program, done) = (folder.join("node_modules/.bin").join(name), folder.join("installed"));
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !done.exists() {
        let install = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-progress", "--prefix"])
            .args([folder.as_os_str(), package.as_ref()])
            .output();
        let install = install.unwrap_or_else(|error| panic!("`npm` does not start ({error}); this test needs it to install `{package}`"));
        let why = String::from_utf8_lossy(&install.stderr);
        assert!(install.status.success(), "npm could not install `{package}`; is the registry in reach?\n{why}");
        fs::write(&done, package).unwrap();
    }
    assert!(program.exists(), "`{package}` has no program `{name}`");
    program
}
