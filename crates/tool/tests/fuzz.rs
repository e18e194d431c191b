//! Names of files and manifests from anywhere: no panic, no place outside that counts as inside, and one spelling for each place.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use tool::{Access, Manifest, NamedPath, Real, ResolvedPath};

const PATH: &[&str] = &[
    "/",
    "..",
    ".",
    "a",
    "b",
    "dir",
    "link",
    "loop",
    "out",
    "up",
    "abs",
    "file.txt",
    "\0",
    "\n",
    " ",
    "~",
    "\\",
    "//",
    "/..",
    "../",
    "/etc/passwd",
    "é",
    "\u{202e}",
    "proc",
    "self",
    "root",
];

const YAML: &[&str] = &[
    "name: ",
    "a.b\n",
    "version: '1'\n",
    "description: d\n",
    "runner: internal\n",
    "runner: shell\n",
    "input_schema: ",
    "output_schema: ",
    "{type: object}\n",
    "{type: 7}\n",
    "{$ref: '#'}\n",
    "permissions: [",
    "'filesystem:read:workspace'",
    "]\n",
    "timeout_ms: ",
    "1000\n",
    "-1\n",
    "supports: {mock: true}\n",
    "mock_responses: [{}]\n",
    "read_only: true\n",
    "room: kernel\n",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "\n",
    "  ",
    "- ",
    "\"",
    "'",
    "~",
    "output: ",
    "retries: ",
    "truncate: ",
    "tail\n",
];

/// What is inside is written in one way, and that way leads there again.
#[test]
fn paths() {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(project.join("a/dir")).unwrap();
    std::fs::write(project.join("a/file.txt"), "x").unwrap();
    std::fs::write(project.join("b"), "x").unwrap();
    symlink("a/dir", project.join("link")).unwrap();
    symlink("loop", project.join("loop")).unwrap();
    symlink("/etc", project.join("out")).unwrap();
    symlink("..", project.join("up")).unwrap();
    symlink(project.join("a"), project.join("abs")).unwrap();
    let root = std::fs::File::open(&project).unwrap();
    let open = |path: &str| ResolvedPath::open(root.as_fd(), &project, &NamedPath { path: path.to_owned(), access: Access::Read });
    fuzz::text("paths", PATH, |text| {
        let Ok(resolved) = open(text) else { return };
        match resolved.real {
            Real::Inside(path) => {
                let plain = path == "." || !path.split('/').any(|name| matches!(name, "" | "." | ".."));
                assert!(plain && !path.contains('\0'), "{text:?} leads to {path:?}");
                let again = open(&path).unwrap_or_else(|refusal| panic!("{path:?}: {}", refusal.reason));
                assert_eq!(again.real, Real::Inside(path), "{text:?}");
            }
            Real::Outside(path) => {
                assert!(resolved.fd.is_none() && path.starts_with('/'), "{text:?} leads to {path:?}");
                assert!(!std::path::Path::new(&path).starts_with(&project), "{text:?} leads to {path:?}");
            }
        }
    });
}

#[test]
fn manifests() {
    fuzz::text("manifests", YAML, |text| {
        if let Err(error) = Manifest::parse(text, "tool.yaml") {
            assert!(!error.what.is_empty());
        }
    });
}
