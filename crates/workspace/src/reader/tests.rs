use super::*;
use rustix::fs::{CWD, mknodat};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// A project with one of each; `plain` is the control, read beside each of them.
fn project() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().join("project");
    fs::create_dir_all(top.join("sub/deep")).unwrap();
    fs::write(dir.path().join("secret"), "private").unwrap();
    fs::write(top.join("plain"), "text").unwrap();
    fs::write(top.join("sub/deep/plain"), "deep").unwrap();
    let folder = Folder::open(&top).unwrap();
    (dir, folder)
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn only_ordinary_files_beneath_the_folder_are_read() {
    let (dir, folder) = project();
    let top = folder.path().to_owned();
    symlink(dir.path().join("secret"), top.join("out")).unwrap();
    symlink("plain", top.join("within")).unwrap();
    symlink(dir.path(), top.join("folder-out")).unwrap();
    symlink("sub", top.join("folder-within")).unwrap();
    symlink("round", top.join("round")).unwrap();
    symlink("nowhere", top.join("dangling")).unwrap();
    symlink("/dev/zero", top.join("endless")).unwrap();
    symlink("/proc/self/environ", top.join("magic")).unwrap();
    pipe(&top.join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
    fs::write(top.join("large"), vec![b'x'; 101]).unwrap();
    File::create(top.join("sparse")).unwrap().set_len(1 << 40).unwrap();
    let refused = [
        ("out", Unread::NotOrdinary),
        ("within", Unread::NotOrdinary),
        ("round", Unread::NotOrdinary),
        ("dangling", Unread::NotOrdinary),
        ("endless", Unread::NotOrdinary),
        ("magic", Unread::NotOrdinary),
        ("pipe", Unread::NotOrdinary),
        ("socket", Unread::NotOrdinary),
        ("sub", Unread::NotOrdinary),
        (".", Unread::NotOrdinary),
        ("folder-out/secret", Unread::LeadsAway),
        ("folder-within/deep/plain", Unread::LeadsAway),
        ("../secret", Unread::LeadsAway),
        ("sub/../../secret", Unread::LeadsAway),
        ("/etc/passwd", Unread::LeadsAway),
        ("large", Unread::TooLarge),
        ("sparse", Unread::TooLarge),
        ("none", Unread::Absent),
        ("plain/below", Unread::Absent),
    ];
    for (name, why) in refused {
        assert_eq!(folder.read(name, 100), Err(why), "{name}");
        assert_eq!(folder.read("plain", 100).as_deref(), Ok(b"text".as_slice()));
    }
    assert_eq!(folder.read("sub/deep/plain", 4).as_deref(), Ok(b"deep".as_slice()), "as large as allowed");
    assert_eq!(folder.folder("sub/deep").unwrap().read("plain", 4).as_deref(), Ok(b"deep".as_slice()));
    for name in ["folder-out", "folder-within", "plain", "..", "/"] {
        assert!(folder.folder(name).is_err() && folder.list(name, 10).is_err(), "{name}");
    }
    assert_eq!(folder.list("sub", 10).unwrap(), ["deep"]);
    assert_eq!(folder.list("sub", 0), Err(Unread::TooLarge));
}

/// While anything on the host is renamed the system may doubt a `..`, and is asked again.
#[test]
fn renames_elsewhere_change_no_answer() {
    let (dir, folder) = project();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (over, [a, b]) = (&over, ["a", "b"].map(|end| dir.path().join(format!("{number}{end}"))));
            fs::create_dir(&a).unwrap();
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    fs::rename(&a, &b).unwrap();
                    fs::rename(&b, &a).unwrap();
                }
            });
        }
        let wrong = (0..2_000).find_map(|_| {
            let away = folder.read("sub/../../secret", 100);
            let within = folder.read("sub/deep/../../plain", 100);
            (away != Err(Unread::LeadsAway) || within.as_deref() != Ok(b"text")).then_some((away, within))
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}

/// A walk looks at names and opens folders only, and follows no link either.
#[test]
fn a_walk_stays_beneath_its_folder() {
    let (dir, folder) = project();
    let top = folder.path().to_owned();
    symlink(dir.path(), top.join("out")).unwrap();
    symlink("sub", top.join("within")).unwrap();
    for name in ["out", "within", "..", "/"] {
        assert!(matches!(folder.entries(Path::new(name)), Err(Unread::LeadsAway | Unread::Absent)), "{name}");
    }
    assert_eq!(folder.look_within(Path::new("out/secret")).unwrap_err(), Unread::LeadsAway);
    assert!(FileType::from_raw_mode(folder.look_within(Path::new("out")).unwrap().st_mode).is_symlink(), "the link itself");
    let names = |name: &str| folder.entries(Path::new(name)).unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect::<Vec<_>>();
    assert_eq!(names("sub"), [("deep".into(), FileType::Directory)]);
    assert_eq!(names("").len(), 4);
}

/// To make a device takes root; whoever is not has no such file in a project either.
#[test]
fn a_device_is_not_even_opened() {
    let (_dir, folder) = project();
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(CWD, folder.path().join("device"), FileType::CharacterDevice, Mode::RUSR, zero).is_ok() {
        assert_eq!(folder.read("device", 100), Err(Unread::NotOrdinary));
    }
    assert_eq!(folder.read("plain", 100).as_deref(), Ok(b"text".as_slice()));
}

/// What is read is what the name was when it was found, and never more than was asked for.
#[test]
fn a_file_that_is_swapped_or_grows_deceives_nobody() {
    let (dir, folder) = project();
    let top = folder.path().to_owned();
    symlink(dir.path().join("secret"), top.join("other")).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let mut grows = File::create(top.join("grows")).unwrap();
            while !over.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, top.join("plain"), CWD, top.join("other"), flags).unwrap();
                grows.write_all(b"xxxxxxxx").unwrap();
            }
        });
        let raced = std::panic::catch_unwind(|| {
            let (mut read, mut refused, mut large) = (0, 0, 0);
            while read < 100 || refused < 100 || large < 100 {
                match folder.read("plain", 100) {
                    Ok(bytes) => {
                        assert_eq!(bytes, b"text");
                        read += 1;
                    }
                    Err(Unread::NotOrdinary) => refused += 1,
                    Err(other) => panic!("{other}"),
                }
                match folder.read("grows", 4096) {
                    Ok(bytes) => assert!(bytes.len() <= 4096),
                    Err(Unread::TooLarge) => large += 1,
                    Err(Unread::Changing | Unread::Absent) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
        over.store(true, Ordering::Relaxed);
        raced.unwrap();
    });
}

/// What hangs is given up on, and others are still served.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_hangs_is_left_behind() {
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let fault = within(Duration::from_millis(20), move || wait.recv()).await.unwrap_err();
    assert_eq!(fault.what, "the project's files could not be read in time");
    assert_eq!(bounded(|| 7).await.unwrap(), 7);
    drop(end);
}
