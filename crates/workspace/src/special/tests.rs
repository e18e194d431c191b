use super::*;
use crate::mask::Walks;
use rustix::fs::{CWD, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;

fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn covered(project: &Path) -> Vec<String> {
    let found = Walks::default().special(project).unwrap().masks;
    found.iter().map(|path| path.display().to_string()).collect()
}

#[test]
fn pipes_are_covered_wherever_git_could_meet_them() {
    let dir = tempfile::tempdir().unwrap();
    let project = &dir.path().canonicalize().unwrap();
    fs::create_dir_all(project.join(".git/info")).unwrap();
    fs::write(project.join(".gitignore"), "target\n").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(project.join("server.sock")).unwrap();
    symlink("../.gitignore", project.join(".git/plain")).unwrap();
    assert_eq!(covered(project), Vec::<String>::new(), "the control");
    pipe(&project.join("sub/.gitattributes"));
    pipe(&project.join(".git/objects/ab/cd"));
    pipe(&project.join("far/pipe"));
    symlink("../../far/pipe", project.join(".git/info/exclude")).unwrap();
    assert_eq!(covered(project), [".git/objects/ab/cd", "far/pipe", "sub/.gitattributes"]);
}

#[test]
fn a_link_of_gits_that_leads_to_a_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let project = &dir.path().canonicalize().unwrap();
    fs::create_dir_all(project.join(".git")).unwrap();
    symlink("/dev/zero", project.join("plain")).unwrap();
    symlink("/nowhere/at/all", project.join(".git/dangling")).unwrap();
    symlink("/etc/passwd", project.join(".gitmodules")).unwrap();
    assert_eq!(covered(project), Vec::<String>::new(), "git does not follow the first; the others lead to no device");
    for name in [".git/HEAD", ".gitattributes", "sub/.gitignore", ".GIT/x"] {
        let link = project.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("/dev/zero", &link).unwrap();
        let why = Walks::default().special(project).unwrap_err().to_string();
        assert!(why.starts_with(&format!("`{name}` leads to `/dev/zero`")), "{why}");
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(covered(project), Vec::<String>::new());
}

#[test]
fn git_is_not_asked_over_a_layer_in_which_it_would_wait() {
    let unsafe_with = |make: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("src")).unwrap();
        make(dir.path());
        is_git_unsafe(&Folder::open(dir.path()).unwrap()).unwrap()
    };
    assert!(!unsafe_with(&|_| {}));
    assert!(!unsafe_with(&|top| pipe(&top.join("src/pipe"))), "git opens no such name");
    assert!(!unsafe_with(&|top| symlink("a", top.join("src/link")).unwrap()));
    assert!(!unsafe_with(&|top| fs::write(top.join(".gitignore"), "x").unwrap()));
    assert!(unsafe_with(&|top| pipe(&top.join("src/.gitignore"))));
    assert!(unsafe_with(&|top| pipe(&top.join(".git/info/exclude"))));
    assert!(unsafe_with(&|top| symlink("/dev/zero", top.join(".gitattributes")).unwrap()));
    assert!(unsafe_with(&|top| {
        fs::create_dir(top.join(".git")).unwrap();
        symlink("../src/pipe", top.join(".git/HEAD")).unwrap();
    }));
    assert!(unsafe_with(&|top| {
        fs::create_dir(top.join(".git")).unwrap();
        pipe(&top.join("src/pipe"));
    }));
}
