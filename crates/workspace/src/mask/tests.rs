use super::walk::Walks;
use super::*;
use policy::{OwnedFacts, Policy, Readers};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use world::limits;

const READ_ALL: &str = "  - { name: all, match: { syscall: fs.read }, action: allow }\n";

fn sight(project: &Path, rules: &str, extra: &[&str]) -> Arc<Sight> {
    let extra: Vec<String> = extra.iter().map(|text| (*text).to_owned()).collect();
    let policy = Policy::parse(&format!("capabilities:\n{READ_ALL}{rules}"), "p").unwrap().0;
    let own = [OwnedFacts { read_only: true, ..OwnedFacts::of("fs.read") }];
    let view = ReadView::new(&policy, Readers { own: &own, ancestors: &[], bans: &[], grants: &[] });
    Arc::new(Sight::new(project.to_owned(), &extra, view).unwrap())
}

fn show(walks: &Walks, sight: &Arc<Sight>) -> Vec<String> {
    let found = walks.find(sight.project(), sight).unwrap();
    found.masks.iter().map(|path| path.display().to_string()).collect()
}

/// Makes every folder look old, so that it may be remembered.
fn age(project: &Path, folders: &[&str]) {
    for folder in folders {
        let file = fs::File::open(project.join(folder)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
    }
}

#[test]
fn every_change_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    fs::create_dir_all(project.join("a/b")).unwrap();
    fs::create_dir_all(project.join(".git")).unwrap();
    fs::write(project.join(".git/x.key"), "").unwrap();
    fs::write(project.join("a/b/x.key"), "").unwrap();
    fs::write(project.join("a/plain"), "").unwrap();
    age(project, &["", "a", "a/b"]);
    let (walks, plain, folder) = (Walks::default(), sight(project, "", &[]), sight(project, "", &["a/"]));
    for _ in 0..2 {
        assert_eq!(show(&walks, &plain), ["a/b/x.key"]);
    }
    // Twice in a row without any pause: what is young is never taken from memory.
    fs::write(project.join("a/b/.env"), "").unwrap();
    assert_eq!(show(&walks, &plain), ["a/b/.env", "a/b/x.key"]);
    fs::rename(project.join("a/plain"), project.join("a/y.pem")).unwrap();
    assert_eq!(show(&walks, &plain), ["a/b/.env", "a/b/x.key", "a/y.pem"]);
    fs::remove_file(project.join("a/b/x.key")).unwrap();
    fs::rename(project.join("a/b"), project.join("c")).unwrap();
    assert_eq!(show(&walks, &plain), ["a/y.pem", "c/.env"]);
    assert_eq!(show(&walks, &folder), ["a", "c/.env"]);
    assert_eq!(show(&walks, &plain), ["a/y.pem", "c/.env"]);
}

#[test]
fn what_the_policy_hides_is_masked_and_whole_folders_once() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    for path in ["private/a/x", "private/y", "asked/x", "src/a.rs", "src/b.gen", ".git/config", ".git/objects/aa/b.gen"] {
        fs::create_dir_all(project.join(path).parent().unwrap()).unwrap();
        fs::write(project.join(path), "").unwrap();
    }
    let rules = "  - { name: no, match: { syscall: fs.read, path_glob: [/private/**, '*.gen', /.git/config] }, action: deny }\n  \
                 - { name: ask, match: { syscall: fs.read, path_glob: /asked/** }, action: require_review }\n";
    let sight = sight(project, rules, &[]);
    assert_eq!(show(&Walks::default(), &sight), [".git/config", ".git/objects/aa/b.gen", "asked", "private", "src/b.gen"]);
    let why = |path: &str| sight.hides(path).unwrap().refusal(path).to_string();
    assert!(why("private/y").contains("rule `no` denies `fs.read`"), "{}", why("private/y"));
    assert!(sight.hides("src/a.rs").is_none() && sight.hides_folder("src").is_none() && sight.hides_folder(".").is_none(), "the control");
    assert!(sight.hides_folder("private/a").is_some());
}

/// The proof that nothing is read or judged again: a name that came behind its folder's times' back is not noticed.
#[test]
fn what_did_not_change_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    fs::create_dir(project.join("a")).unwrap();
    fs::write(project.join("a/one.key"), "").unwrap();
    age(project, &["", "a"]);
    let (walks, sight) = (Walks::default(), sight(project, "", &[]));
    let first = walks.find(project, &sight).unwrap();
    assert!(Arc::ptr_eq(&first, &walks.find(project, &sight).unwrap()), "the very same answer");
    fs::write(project.join("a/two.key"), "").unwrap();
    assert_eq!(show(&walks, &sight), ["a/one.key", "a/two.key"]);
}

/// A second name does not make a secret innocent, wherever the first one is hidden.
#[test]
fn hard_links_and_links_of_a_hidden_name_are_hidden_too() {
    let dir = tempfile::tempdir().unwrap();
    let project = &dir.path().canonicalize().unwrap();
    fs::create_dir_all(project.join("vault/deep")).unwrap();
    fs::create_dir_all(project.join("docs")).unwrap();
    fs::write(project.join(".env"), "").unwrap();
    fs::write(project.join("vault/deep/token"), "").unwrap();
    fs::write(project.join("docs/plain"), "").unwrap();
    fs::hard_link(project.join("docs/plain"), project.join("docs/plain-again")).unwrap();
    let (walks, vault, plain) = (Walks::default(), sight(project, "", &["vault/"]), sight(project, "", &[]));
    assert_eq!(show(&walks, &vault), [".env", "vault"]);
    fs::hard_link(project.join(".env"), project.join("docs/notes.txt")).unwrap();
    fs::hard_link(project.join("vault/deep/token"), project.join("readme")).unwrap();
    assert_eq!(show(&walks, &vault), [".env", "docs/notes.txt", "readme", "vault"]);
    assert_eq!(show(&walks, &plain), [".env", "docs/notes.txt"]);
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, project.join(at)).unwrap();
    link("docs/plain", "prod.key");
    link("/etc/passwd", "out.key");
    link(".", "docs/up.key");
    assert_eq!(show(&walks, &plain), [".env", "docs/notes.txt", "docs/plain"]);
    let found = walks.find(project, &plain).unwrap();
    assert_eq!(found.same.get(Path::new("docs/notes.txt")), Some(&PathBuf::from(".env")));
    assert_eq!(found.same.get(Path::new("docs/plain")), Some(&PathBuf::from("prod.key")));
}

#[test]
fn too_many_masks_are_refused_by_the_rule_that_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    fs::create_dir(project.join("data")).unwrap();
    for number in 0..=limits::MASKS_MAX {
        fs::write(project.join(format!("data/{number}.bin")), "").unwrap();
    }
    let deny = |glob: &str| format!("  - {{ name: bins, match: {{ syscall: fs.read, path_glob: '{glob}' }}, action: deny }}\n");
    let refused = Walks::default().find(project, &sight(project, &deny("*.bin"), &[])).unwrap_err().to_string();
    assert!(refused.contains("rule `bins`") && refused.contains("10001"), "{refused}");
    assert_eq!(show(&Walks::default(), &sight(project, &deny("/data/**"), &[])), ["data"], "as a whole it is one");
    fs::remove_file(project.join("data/0.bin")).unwrap();
    assert_eq!(show(&Walks::default(), &sight(project, &deny("*.bin"), &[])).len(), limits::MASKS_MAX);
}

/// A folder that becomes a link between two looks is not looked through: what a stranger's folder holds is no name of the project's.
#[test]
fn a_walk_follows_no_link_that_is_swapped_in() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let project = &dir.path().canonicalize().unwrap().join("project");
    fs::create_dir_all(project.join("swapped")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(project.join("swapped/own.key"), "").unwrap();
    fs::write(dir.path().join("outside/foreign.key"), "").unwrap();
    std::os::unix::fs::symlink("../outside", project.join("other")).unwrap();
    let plain = sight(project, "", &[]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, project.join("swapped"), CWD, project.join("other"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        let walked = std::panic::catch_unwind(|| {
            let mut own = 0;
            for _ in 0..2000 {
                let found = show(&Walks::default(), &plain);
                assert!(!found.iter().any(|path| path.ends_with("foreign.key")), "{found:?}");
                own += usize::from(found.iter().any(|path| path.ends_with("own.key")));
            }
            assert!(own > 0, "the control");
        });
        over.store(true, Ordering::Relaxed);
        walked.unwrap();
    });
}

#[test]
fn configurations_of_repositories_in_folders_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    for name in [".git", "lib/.git", "bare.git", "lib/.git/worktrees/w", "private/.git", "src"] {
        fs::create_dir_all(project.join(name).join(if name.ends_with('w') { "logs" } else { "objects" })).unwrap();
        fs::write(project.join(name).join("config"), "").unwrap();
        if name != "src" {
            fs::write(project.join(name).join("HEAD"), "").unwrap();
        }
    }
    fs::write(project.join("lib/.git/worktrees/w/commondir"), "../..").unwrap();
    fs::write(project.join("lib/.git/worktrees/w/config.worktree"), "").unwrap();
    let wanted = [
        "bare.git/config",
        "lib/.git/config",
        "lib/.git/worktrees/w/config",
        "lib/.git/worktrees/w/config.worktree",
        "private/.git/config",
    ];
    let show = |found: &MaskSet| found.configs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let walks = Walks::default();
    assert_eq!(show(&walks.special(project).unwrap()), wanted);
    let all = walks.find(project, &sight(project, "", &[])).unwrap();
    assert_eq!(show(&all), wanted);
    // What is masked needs no cleaning.
    let some = walks.find(project, &sight(project, "", &["/private/"])).unwrap();
    assert_eq!(show(&some), wanted[..4]);
}

/// Only names of objects are passed over in git's store: another file there is judged like any other.
#[test]
fn a_secret_among_the_objects_of_a_repository_is_masked() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path();
    let objects = project.join("sub/.git/objects/ab");
    fs::create_dir_all(&objects).unwrap();
    fs::write(objects.join("cdef0123456789abcdef0123456789abcdef01"), "").unwrap();
    fs::write(objects.join("x.pem"), "").unwrap();
    let no = "  - { name: no, match: { syscall: fs.read, path_glob: [x.pem, 'cdef*'] }, action: deny }\n";
    assert_eq!(show(&Walks::default(), &sight(project, no, &[])), ["sub/.git/objects/ab/x.pem"]);
}
