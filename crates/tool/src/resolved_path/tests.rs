use super::*;
use std::fs;
use std::os::unix::fs::symlink;

struct Ground {
    folder: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        for path in ["p/src/deep", "p/.skep", "other"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for path in ["p/src/a.rs", "p/src/deep/b.rs", "p/.skep/policy.yaml", "other/secret"] {
            fs::write(folder.path().join(path), "text").unwrap();
        }
        Ground { folder }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("p")
    }

    fn open(&self, path: &str) -> Result<ResolvedPath, Refusal> {
        let root = rustix::fs::open(self.project(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        ResolvedPath::open(root.as_fd(), &self.project(), &NamedPath { path: path.to_owned(), access: Access::Read })
    }

    #[track_caller]
    fn check(&self, path: &str, expect: &str, found: PathKind) {
        let resolved = self.open(path).unwrap();
        assert_eq!((resolved.real, resolved.kind), (Real::Inside(expect.to_owned()), found), "{path}");
    }

    #[track_caller]
    fn check_outside(&self, path: &str, expect: &str) {
        let resolved = self.open(path).unwrap();
        assert_eq!(resolved.real, Real::Outside(expect.to_owned()), "{path}");
        assert!(resolved.fd.is_none());
    }
}

const TEXT: PathKind = PathKind::File { bytes: 4 };

#[test]
fn a_long_name_is_not_cut() {
    let ground = Ground::new();
    let folder = ["x".repeat(200), "y".repeat(200), "z".repeat(200)].join("/");
    fs::create_dir_all(ground.project().join(&folder)).unwrap();
    let path = format!("{folder}/a.rs");
    fs::write(ground.project().join(&path), "text").unwrap();
    ground.check(&path, &path, TEXT);
}

/// Fluffy's bypasses, shortcoming 4: every spelling of a path is one path.
#[test]
fn every_spelling_leads_to_one_path() {
    let ground = Ground::new();
    let absolute = format!("{}/.skep/policy.yaml", ground.project().display());
    for spelling in [
        ".skep/policy.yaml",
        "./.skep/policy.yaml",
        "src/../.skep/policy.yaml",
        ".skep//policy.yaml",
        ".skep/./policy.yaml",
        "src/deep/../../.skep/policy.yaml",
        &absolute,
    ] {
        ground.check(spelling, ".skep/policy.yaml", TEXT);
    }
    ground.check("missing/../.skep/policy.yaml", ".skep/policy.yaml", TEXT);
    ground.check("missing/..", ".", PathKind::Directory);
}

#[test]
fn links_inside_are_followed() {
    let ground = Ground::new();
    let project = ground.project();
    symlink("src", project.join("code")).unwrap();
    symlink("../.skep/policy.yaml", project.join("src/innocent.txt")).unwrap();
    symlink(project.join("src/deep"), project.join("absolute")).unwrap();
    ground.check("code/a.rs", "src/a.rs", TEXT);
    ground.check("code/innocent.txt", ".skep/policy.yaml", TEXT);
    ground.check("absolute/b.rs", "src/deep/b.rs", TEXT);
    ground.check("code/deep/../a.rs", "src/a.rs", TEXT);
    ground.check("absolute/../a.rs", "src/a.rs", TEXT);
    ground.check("code/new/x", "src/new/x", PathKind::Missing);
}

#[test]
fn what_leads_out_is_named_and_not_touched() {
    let ground = Ground::new();
    let (project, top) = (ground.project(), ground.folder.path().display().to_string());
    symlink("../../other/secret", project.join("src/out")).unwrap();
    symlink("/etc", project.join("etc")).unwrap();
    ground.check_outside("src/out", &format!("{top}/other/secret"));
    ground.check_outside("etc/passwd", "/etc/passwd");
    ground.check_outside("/etc/../etc/passwd", "/etc/passwd");
    ground.check_outside("../other/secret", &format!("{top}/other/secret"));
    ground.check_outside(&format!("{top}/p2/x"), &format!("{top}/p2/x"));
    ground.check_outside("src/../../../../../../../../etc/passwd", "/etc/passwd");
}

#[test]
fn what_stands_there() {
    let ground = Ground::new();
    ground.check(".", ".", PathKind::Directory);
    ground.check("src/..", ".", PathKind::Directory);
    ground.check("src/", "src", PathKind::Directory);
    ground.check("src/new/file.rs", "src/new/file.rs", PathKind::Missing);
    ground.check("src/a.rs/x", "src/a.rs/x", PathKind::NotDirectory);
    rustix::fs::mknodat(rustix::fs::CWD, ground.project().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    ground.check("pipe", "pipe", PathKind::Special("named pipe"));
    assert_eq!(ground.open("pipe").unwrap().file().unwrap_err().reason, "`pipe` is a named pipe");
}

#[test]
fn names_that_lead_nowhere_are_refused() {
    let ground = Ground::new();
    symlink("round", ground.project().join("round")).unwrap();
    assert_eq!(ground.open("round").unwrap_err().code, Code::WrongState);
    assert_eq!(ground.open("").unwrap_err().code, Code::BadInput);
    assert_eq!(ground.open("a\0b").unwrap_err().code, Code::BadInput);
    assert_eq!(ground.open(&"a/".repeat(300)).unwrap_err().code, Code::BadInput);
    assert_eq!(ground.open(&"a".repeat(300)).unwrap_err().code, Code::WrongState);
}

/// The descriptor stands for the file that was decided, whatever happens to its name.
#[test]
fn a_place_holds_its_file() {
    let ground = Ground::new();
    let resolved = ground.open("src/a.rs").unwrap();
    fs::rename(ground.project().join("src/a.rs"), ground.project().join("src/moved.rs")).unwrap();
    symlink("../../other/secret", ground.project().join("src/a.rs")).unwrap();
    let (file, _) = resolved.file().unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "text");
}
