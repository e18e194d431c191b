//! Git itself is the judge: a patch takes a repository from what was to what shall be, and back.

use super::*;
use crate::tests::TestBlobs;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use world::{PathChange, TaskId};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Text(&'static [u8], u32),
    Link(&'static str),
}
use Content::{Link, Nothing, Text};

fn put(folder: &Path, path: &str, content: &Content) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    match content {
        Nothing => {}
        Text(bytes, mode) => {
            fs::write(&file, bytes).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(*mode)).unwrap();
        }
        Link(target) => symlink(target, &file).unwrap(),
    }
}

fn found(folder: &Path, path: &str) -> Content {
    let file = folder.join(path);
    match fs::symlink_metadata(&file) {
        Err(_) => Nothing,
        Ok(meta) if meta.is_symlink() => Link(fs::read_link(&file).unwrap().to_str().unwrap().to_owned().leak()),
        Ok(meta) => Text(fs::read(&file).unwrap().leak(), if meta.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 }),
    }
}

fn state(content: &Content, vault: &mut TestBlobs) -> State {
    match content {
        Nothing => State::Absent,
        Link(target) => State::Link { target: (*target).to_owned() },
        Text(bytes, mode) => match vault.file(bytes) {
            State::File { blob, .. } => State::File { blob, mode: Some(*mode), owner: None },
            other => other,
        },
    }
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git").current_dir(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const LONG: &[u8] = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n";
const LONG_CHANGED: &[u8] = b"1\n2\nthree\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n21";

#[test]
fn git_takes_every_kind_of_change_and_takes_it_back() {
    let noise: &'static [u8] = (0..200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect::<Vec<u8>>().leak();
    let cases = [
        ("new.txt", Nothing, Text(b"hello\nworld\n", 0o644)),
        ("empty", Nothing, Text(b"", 0o644)),
        ("gone.txt", Text(b"bye\n", 0o644), Nothing),
        ("gone-empty", Text(b"", 0o644), Nothing),
        ("long.txt", Text(LONG, 0o644), Text(LONG_CHANGED, 0o644)),
        ("run.sh", Text(b"#!/bin/sh\n", 0o644), Text(b"#!/bin/sh\n", 0o755)),
        ("both.sh", Text(b"#!/bin/sh\n", 0o755), Text(b"#!/bin/sh\nls\n", 0o644)),
        ("a b/c \"d\"\t.txt", Text(b"x\n", 0o644), Text(b"y\n", 0o644)),
        ("ünïcode", Nothing, Text("ä\n".as_bytes(), 0o644)),
        ("latin1.txt", Text(b"caf\xe9\n", 0o644), Text(b"caf\xe9s\n", 0o644)),
        ("crlf.txt", Text(b"a\r\nb\r\n", 0o644), Text(b"a\r\nc\r\n", 0o644)),
        ("pose.txt", Text(b"-- a/x\n", 0o644), Text(b"-- b/x\n@@ -1 +1 @@\ndiff --git a/x b/x\n", 0o644)),
        ("image.bin", Text(noise, 0o644), Text(&noise[..99_999], 0o644)),
        ("new.bin", Nothing, Text(b"\0\x01\x02\xff", 0o755)),
        ("old.bin", Text(b"\0\xfe", 0o644), Nothing),
        ("link", Nothing, Link("new.txt")),
        ("link-moved", Link("a"), Link("b")),
        ("file-to-link", Text(b"text\n", 0o644), Link("new.txt")),
        ("link-to-file", Link("new.txt"), Text(b"text\n", 0o644)),
    ];
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    let mut vault = TestBlobs::default();
    let mut changes = Vec::new();
    for (path, old, new) in &cases {
        put(folder.path(), path, old);
        let (old, new) = (state(old, &mut vault), state(new, &mut vault));
        changes.push(FrozenPath {
            path: (*path).to_owned(),
            kind: PathChange::Modified,
            from: None,
            to: None,
            size: 0,
            old,
            new,
            question: None,
            unguarded: false,
        });
    }
    let looked = crate::FrozenChanges { changes, conflicts: Vec::new(), refused: Vec::new() };
    let frozen = Frozen::new(TaskId(1), "", None, None, 1, looked).unwrap();
    let patch = frozen.git_patch(&|blob| vault.blob(blob).map(Some)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &patch).unwrap();
    let name = file.path().to_str().unwrap();

    git(folder.path(), &["apply", "--whitespace=nowarn", name]);
    for (path, _, new) in &cases {
        assert_eq!(&found(folder.path(), path), new, "{path}");
    }
    git(folder.path(), &["apply", "-R", "--whitespace=nowarn", name]);
    // Git makes a file of a link that it brings back, also with a patch of its own.
    for (path, old, _) in cases.iter().filter(|(path, ..)| *path != "link-to-file") {
        assert_eq!(&found(folder.path(), path), old, "{path} back");
    }
}

#[test]
fn a_content_that_is_kept_no_longer_is_told() {
    let mut vault = TestBlobs::default();
    let change = FrozenPath {
        path: "a".into(),
        kind: PathChange::Created,
        from: None,
        to: None,
        size: 1,
        old: State::Absent,
        new: vault.file(b"x"),
        question: None,
        unguarded: false,
    };
    let looked = crate::FrozenChanges { changes: vec![change], conflicts: Vec::new(), refused: Vec::new() };
    let frozen = Frozen::new(TaskId(1), "", None, None, 1, looked).unwrap();
    assert!(matches!(frozen.git_patch(&|_| Ok(None)), Err(FileGone::NotKept)));
    assert!(frozen.git_patch(&|blob| vault.blob(blob).map(Some)).is_ok(), "the control");
}
