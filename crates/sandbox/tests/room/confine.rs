//! What a job cannot do. Every attempt is also made where it must succeed.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Command, Stdio as ProcessStdio};
use std::task::Poll;

use sandbox::{Exit, JobSpec, Profile, Stdio, Workspace};

use super::host::{Host, Test, sh, text};

pub const TESTS: &[Test] = &[
    ("a_job_has_no_rights", a_job_has_no_rights),
    ("the_start_environment_is_wiped", the_start_environment_is_wiped),
    ("no_descriptor_leaks", no_descriptor_leaks),
    ("the_host_is_out_of_sight", the_host_is_out_of_sight),
    ("only_the_project_can_be_written", only_the_project_can_be_written),
    ("there_is_no_network", there_is_no_network),
    ("calls_are_refused", calls_are_refused),
    ("the_other_abi_kills", the_other_abi_kills),
    ("masked_paths_are_unreadable", masked_paths_are_unreadable),
    ("masks_change_between_jobs", masks_change_between_jobs),
    ("binds_are_read_only", binds_are_read_only),
    ("workspaces_are_apart", workspaces_are_apart),
    ("every_job_has_its_own_namespaces", every_job_has_its_own_namespaces),
];

const PYTHON: &str = "/usr/bin/python3";

fn python(host: &Host, workspace: &Workspace, profile: Profile, script: &str) -> String {
    let mut job = JobSpec::exec([PYTHON, "-c", script]);
    job.profile = profile;
    text(&host.run(workspace, job).unwrap())
}

/// The same script on the host, as the same user.
fn outside(script: &str) -> String {
    let output = Command::new(PYTHON).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn a_job_has_no_rights(host: &Host) {
    let workspace = host.open();
    for process in ["self", "1"] {
        let status = text(&host.sh(&workspace, &format!("cat /proc/{process}/status")));
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{process} {set}");
        }
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
        // An engine names the user's own group once more.
        let own = field("Gid:").split_whitespace().next().unwrap().to_owned();
        assert_eq!(field("Groups:").split_whitespace().filter(|group| *group != "65534" && *group != own).count(), 0);
    }
    let own = rustix::process::geteuid().as_raw();
    let uid: u32 = text(&host.sh(&workspace, "id -u")).parse().unwrap();
    assert_ne!(uid, 0);
    assert_eq!(uid == own, !host.root);
    // The host agrees: that is the uid outside as well.
    let seen = host.block_on(async {
        let job = workspace.spawn(sh("sleep 30"), Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        fs::read_to_string(format!("/proc/{}/status", job.pid())).unwrap()
    });
    assert!(seen.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}")), "{seen}");
}

fn the_start_environment_is_wiped(host: &Host) {
    // Control: this process, from which all others were forked, shows its own.
    assert!(fs::read_to_string("/proc/self/environ").unwrap().contains("PATH="));
    let workspace = host.open();
    host.block_on(async {
        let job = workspace.spawn(sh("sleep 30"), Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        for pid in [host.launcher.pid(), workspace.holder_pid().unwrap(), job.pid()] {
            // Only root may look at all; the processes are not dumpable.
            match fs::read(format!("/proc/{pid}/environ")) {
                Ok(bytes) => assert!(bytes.iter().all(|byte| *byte == 0), "{pid}: {}", String::from_utf8_lossy(&bytes)),
                Err(error) => assert!(!host.root, "{error}"),
            }
            if let Ok(title) = fs::read_to_string(format!("/proc/{pid}/cmdline")) {
                assert!(title.starts_with("skep: "), "{title}");
            }
        }
    });
    let looks = "for f in environ mem maps; do head -c 1 /proc/1/$f 2>/dev/null; done; head -c 4 /proc/self/environ";
    assert_eq!(text(&host.sh(&workspace, looks)).len(), 4);
}

fn no_descriptor_leaks(host: &Host) {
    let workspace = host.open();
    // The fourth is the listing's own.
    assert_eq!(text(&host.sh(&workspace, "ls /proc/self/fd | wc -l; ls -l /proc/self/fd | grep -c -e socket -e pidfd; true")), "4\n0");
}

fn the_host_is_out_of_sight(host: &Host) {
    let workspace = host.open();
    let home = host.folder.path().join("home");
    assert!(home.join("work/t1/upper").exists());
    let hidden = [
        home.to_str().unwrap(),
        "/root",
        "/home",
        "/sys/kernel",
        "/sys/class",
        "/sys/fs",
        "/boot",
        "/etc/shadow",
        "/etc/sudoers",
        "/run/user",
        "/dev/vda",
        "/dev/kmsg",
        "/.layers/work/upper",
    ];
    for path in hidden {
        assert_eq!(text(&host.sh(&workspace, &format!("test -e {path} && echo there || echo none"))), "none", "{path}");
    }
    // An engine mounts it always; it is covered there.
    assert_eq!(
        text(&host.sh(&workspace, "ls -A /sys 2>/dev/null | wc -l; test -e /sys; echo $?")),
        if host.engine.is_some() { "0\n0" } else { "0\n1" }
    );
    assert_eq!(text(&host.sh(&workspace, "test -e /usr/bin && echo there")), "there");
    // The room's processes are pid 1, the shell and what it runs.
    assert!(text(&host.sh(&workspace, "ls /proc | grep -c '^[0-9]'; true")).parse::<u32>().unwrap() <= 4);
    let kill = format!("kill -0 {} 2>/dev/null && echo reached || echo missed", std::process::id());
    assert_eq!(text(&host.sh(&workspace, &kill)), "missed");
    assert_eq!(text(&host.sh(&workspace, "kill -0 1 && echo reached")), "reached");
}

fn only_the_project_can_be_written(host: &Host) {
    let workspace = host.open();
    let attempt = |path: &str| host.sh(&workspace, &format!("echo x > {path}")).exit.success();
    for path in
        ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/dev/x", "/run/x", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"]
    {
        assert!(!attempt(path), "{path}");
    }
    for path in ["x", "/tmp/x", "/dev/shm/x", "/dev/null"] {
        assert!(attempt(path), "{path}");
    }
    // No terminal to take over: there is none in this session, and its leader is out of reach.
    assert!(!attempt("/dev/tty"));
    // In a container that is pid 1, in a native room somebody outside.
    let session = if host.engine.is_some() { "1 0" } else { "0 0" };
    assert_eq!(text(&host.sh(&workspace, "cut -d' ' -f6,7 /proc/self/stat")), session);
    assert!(!host.sh(&workspace, "mknod /tmp/disk b 8 0").exit.success());
    assert!(host.sh(&workspace, "mknod /tmp/pipe p").exit.success());
    // A private /tmp: the next job does not find what this one left.
    assert_eq!(text(&host.sh(&workspace, "ls -A /tmp /dev/shm | grep -cx x; true")), "0");
}

fn there_is_no_network(host: &Host) {
    let workspace = host.open();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = format!(
        "import socket\ntry:\n socket.create_connection(('127.0.0.1',{}),2); print('connected')\nexcept OSError as e: print(e.errno)",
        tcp.local_addr().unwrap().port()
    );
    assert_eq!(outside(&connect), "connected");
    assert_eq!(python(host, &workspace, Profile::StandardNet, &connect), libc::ECONNREFUSED.to_string());
    assert_eq!(python(host, &workspace, Profile::Standard, &connect), libc::EPERM.to_string());

    let far = "import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\ntry:\n s.connect(('192.0.2.1',53)); print('routed')\nexcept OSError as e: print(e.errno)";
    assert_eq!(python(host, &workspace, Profile::StandardNet, far), libc::ENETUNREACH.to_string());
    assert_eq!(text(&host.sh(&workspace, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")), "lo");

    // Names without a file live in the network namespace.
    let name = format!("skep-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let abstract_socket = format!(
        "import socket\ns=socket.socket(socket.AF_UNIX)\ntry:\n s.connect('\\0{name}'); print('connected')\nexcept OSError as e: print(e.errno)"
    );
    assert_eq!(outside(&abstract_socket), "connected");
    assert_eq!(python(host, &workspace, Profile::Standard, &abstract_socket), libc::ECONNREFUSED.to_string());
}

/// Name, number, arguments: what a job gets, and what the same call gives outside unless that depends on the user.
fn calls_are_refused(host: &Host) {
    let workspace = host.open();
    let (eperm, enosys) = (libc::EPERM, libc::ENOSYS);
    let calls: &[(&str, i64, &str, i32, Option<i32>)] = &[
        ("ptrace", libc::SYS_ptrace, "0,0,0,0", eperm, Some(0)),
        ("process_vm_readv", libc::SYS_process_vm_readv, "os.getpid(),0,0,0,0,0", eperm, Some(0)),
        ("unshare user", libc::SYS_unshare, "0x10000000", eperm, Some(0)),
        ("unshare mount", libc::SYS_unshare, "0x20000", eperm, None),
        ("setns", libc::SYS_setns, "-1,0", eperm, Some(libc::EBADF)),
        ("clone user", libc::SYS_clone, "0x10000000|17,0,0,0,0", eperm, None),
        ("clone mount", libc::SYS_clone, "0x20000|17,0,0,0,0", eperm, None),
        ("clone net", libc::SYS_clone, "0x40000000|17,0,0,0,0", eperm, None),
        ("clone3", libc::SYS_clone3, "0,0", enosys, Some(libc::EINVAL)),
        ("mount", libc::SYS_mount, "0,0,0,0,0", eperm, None),
        ("umount", libc::SYS_umount2, "0,0", eperm, None),
        ("fsopen", libc::SYS_fsopen, "0,0", eperm, None),
        ("open_tree", libc::SYS_open_tree, "-100,0,0", eperm, Some(libc::EFAULT)),
        ("mount_setattr", libc::SYS_mount_setattr, "-100,0,0,0,0", eperm, None),
        ("pivot_root", libc::SYS_pivot_root, "0,0", eperm, None),
        ("chroot", libc::SYS_chroot, "0", eperm, Some(libc::EFAULT)),
        ("bpf", libc::SYS_bpf, "0,0,0", eperm, None),
        ("perf_event_open", libc::SYS_perf_event_open, "0,0,0,0,0", eperm, Some(libc::EFAULT)),
        ("userfaultfd", libc::SYS_userfaultfd, "1", eperm, Some(0)),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1,0", eperm, Some(libc::EFAULT)),
        ("keyctl", libc::SYS_keyctl, "0,-3,0", eperm, Some(0)),
        ("add_key", libc::SYS_add_key, "0,0,0,0,0", eperm, Some(libc::EFAULT)),
        ("request_key", libc::SYS_request_key, "0,0,0,0", eperm, Some(libc::EFAULT)),
        ("kexec_load", libc::SYS_kexec_load, "0,0,0,0", eperm, None),
        ("init_module", libc::SYS_init_module, "0,0,0", eperm, None),
        ("reboot", libc::SYS_reboot, "0,0,0,0", eperm, None),
        ("swapon", libc::SYS_swapon, "0,0", eperm, None),
        ("setuid", libc::SYS_setuid, "os.getuid()", eperm, Some(0)),
        ("setgid", libc::SYS_setgid, "os.getgid()", eperm, Some(0)),
        ("setresuid", libc::SYS_setresuid, "os.getuid(),os.getuid(),os.getuid()", eperm, Some(0)),
        ("setresuid of posix_spawn", libc::SYS_setresuid, "-1,os.getuid(),-1", 0, Some(0)),
        ("setresgid of posix_spawn", libc::SYS_setresgid, "-1,os.getgid(),-1", 0, Some(0)),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "-1,0,0", eperm, None),
        ("pidfd_getfd", libc::SYS_pidfd_getfd, "-1,0,0", eperm, Some(libc::EBADF)),
        ("TIOCSTI", libc::SYS_ioctl, "0,0x5412,0", eperm, Some(libc::ENOTTY)),
        ("TIOCLINUX", libc::SYS_ioctl, "0,0x541c,0", eperm, Some(libc::ENOTTY)),
        ("personality", libc::SYS_personality, "0x0040000", eperm, Some(0)),
        ("socket inet", libc::SYS_socket, "2,1,0", eperm, Some(0)),
        ("socket netlink", libc::SYS_socket, "16,3,0", eperm, Some(0)),
        ("socket packet", libc::SYS_socket, "17,3,0", eperm, None),
        ("socket alg", libc::SYS_socket, "38,5,0", eperm, None),
        ("socket vsock", libc::SYS_socket, "40,1,0", eperm, None),
        ("socket unix", libc::SYS_socket, "1,1,0", 0, Some(0)),
        ("getpid", libc::SYS_getpid, "", 0, Some(0)),
        ("not a call", 9999, "", enosys, Some(enosys)),
        ("x32 getpid", 0x4000_0000 + libc::SYS_getpid, "", enosys, Some(enosys)),
    ];
    // Each in a child, because some of these change the caller when they succeed; all in one job, because a container takes long to start.
    let script = |calls: &mut dyn Iterator<Item = (&str, i64, &str)>| {
        let list: String = calls.map(|(name, number, arguments)| format!(" ({name:?}, lambda: [{number},{arguments}]),\n")).collect();
        format!(
            "import ctypes,os,sys\nc=ctypes.CDLL(None,use_errno=True)\nfor name,numbers in [\n{list}]:\n r,w=os.pipe()\n sys.stdout.flush()\n \
             if os.fork()==0:\n  v=c.syscall(*[ctypes.c_long(a) for a in numbers()])\n  os.write(w,str(0 if v!=-1 else ctypes.get_errno()).encode())\n  \
             os._exit(0)\n os.close(w)\n print(name+':',os.read(r,9).decode())\n os.close(r)\n os.wait()\n"
        )
    };
    let all = script(&mut calls.iter().map(|(name, number, arguments, ..)| (*name, *number, *arguments)));
    // The filter that an engine loads besides ours takes the x32 table for a foreign one, and kills.
    let is_killed = |name: &str| host.engine.is_some() && name.starts_with("x32");
    let wanted = |name: &str, errno: i32| if is_killed(name) { format!("{name}: ") } else { format!("{name}: {errno}") };
    let inside: Vec<String> = calls.iter().map(|(name, _, _, inside, _)| wanted(name, *inside)).collect();
    let told = python(host, &workspace, Profile::Standard, &all);
    assert_eq!(told.lines().map(str::trim_end).collect::<Vec<_>>(), inside.iter().map(|line| line.trim_end()).collect::<Vec<_>>());
    let with_control = || calls.iter().filter_map(|(name, number, arguments, _, control)| Some((*name, *number, *arguments, (*control)?)));
    let controls: Vec<String> = with_control().map(|(name, _, _, control)| format!("{name}: {control}")).collect();
    let all = script(&mut with_control().map(|(name, number, arguments, _)| (name, number, arguments)));
    assert_eq!(outside(&all).lines().collect::<Vec<_>>(), controls);

    let families = [("2,1,0", "made"), ("10,1,0", "made"), ("16,3,0", "made"), ("16,3,9", "1"), ("17,3,0", "1"), ("38,5,0", "1")];
    let list: String = families.iter().map(|(family, _)| format!("({family}),")).collect();
    let net = format!(
        "import socket\nfor family in [{list}]:\n try:\n  socket.socket(*family); print('made')\n except OSError as e: print(e.errno)"
    );
    let told = python(host, &workspace, Profile::StandardNet, &net);
    assert_eq!(told.lines().collect::<Vec<_>>(), families.map(|(_, wanted)| wanted));
    let nested = "unshare -U true && echo nested";
    assert_eq!(String::from_utf8(Command::new("sh").args(["-c", nested]).output().unwrap().stdout).unwrap(), "nested\n");
    assert!(!host.sh(&workspace, nested).exit.success());
}

/// `int 0x80` reaches the table of 32-bit calls, whose numbers mean something else.
#[cfg(target_arch = "x86_64")]
fn the_other_abi_kills(host: &Host) {
    let workspace = host.open();
    let script = "import ctypes,mmap\nm=mmap.mmap(-1,4096,prot=7)\nm.write(bytes([0xb8,20,0,0,0,0xcd,0x80,0xc3]))\nf=ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nprint('called' if f()>0 else 'failed')";
    let control = Command::new(PYTHON).args(["-c", script]).stderr(ProcessStdio::null()).output().unwrap();
    let inside = host.run(&workspace, JobSpec::exec([PYTHON, "-c", script])).unwrap();
    if control.stdout == b"called\n" {
        assert_eq!(inside.exit, Exit::Signal(libc::SIGSYS));
    } else {
        // This kernel has no such table; nothing can be reached through it.
        assert!(!inside.exit.success());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn the_other_abi_kills(_: &Host) {}

fn masked_paths_are_unreadable(host: &Host) {
    for name in [".env", "config/key.pem", "secrets/a", "open"] {
        host.write(name, "secret-text");
    }
    std::os::unix::fs::symlink("config/key.pem", host.project().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", host.project().join("away")).unwrap();
    let mut spec = host.spec("masked");
    spec.masked = [".env", "config/key.pem", "secrets", "absent", "away", "absent/too"].map(Into::into).to_vec();
    let workspace = host.open_with(spec).unwrap();
    for path in [".env", "link", "config/key.pem", "secrets/a"] {
        let attempts = ["cat", "chmod 777", "rm -f", "mv -t /tmp", "cp -t /tmp"];
        let script: String = attempts.map(|attempt| format!("{attempt} {path} && echo {attempt} went\n")).concat();
        let told = text(&host.sh(&workspace, &format!("{script}echo tried")));
        assert!(told.ends_with("tried") && !told.contains("secret"), "{path}: {told}");
        // A link can be handled as long as nobody reads through it.
        let went: Vec<&str> = told.lines().filter(|line| line.ends_with("went") && (path != "link" || line.starts_with("cat"))).collect();
        assert_eq!(went, Vec::<&str>::new(), "{path}");
    }
    assert_eq!(text(&host.sh(&workspace, "cat open")), "secret-text");
    // The kernel's own reads see the mask too.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    match rustix::fs::openat(workspace.root(), ".env", flags, rustix::fs::Mode::empty()) {
        Ok(file) => assert_eq!(std::io::read_to_string(fs::File::from(file)).unwrap(), ""),
        Err(error) => assert_eq!(error, rustix::io::Errno::ACCESS),
    }
    assert_eq!(fs::read_to_string(host.project().join(".env")).unwrap(), "secret-text");
}

/// Masks follow the list that they are given between two jobs: on what is new, off what is free, and on what a person saved anew.
fn masks_change_between_jobs(host: &Host) {
    for name in ["a/x", "a/y", "b/x", "plain"] {
        host.write(name, "secret-text");
    }
    let paths = |list: &[&str]| list.iter().map(std::path::PathBuf::from).collect::<std::collections::BTreeSet<_>>();
    let mut spec = host.spec("remasked");
    spec.masked = vec!["a/x".into()];
    let workspace = host.open_with(spec).unwrap();
    let remask = |list: &[&str]| host.block_on(workspace.remask(&paths(list))).unwrap();
    let seen = |path: &str| host.sh(&workspace, &format!("cat {path}")).exit.success();
    assert_eq!((seen("a/x"), seen("a/y"), seen("b/x")), (false, true, true), "the control");
    assert_eq!(remask(&["a", "b/x"]), [""; 0].map(std::path::PathBuf::from));
    assert_eq!((seen("a/x"), seen("a/y"), seen("b/x"), seen("plain")), (false, false, false, true));
    // An editor saves by renaming: another file has the name, and the mask stays on it.
    host.write("b/x.new", "secret-again");
    fs::rename(host.project().join("b/x.new"), host.project().join("b/x")).unwrap();
    assert!(!seen("b/x"));
    for attempt in ["mv b c", "mv b/x c", "rm -r b", "ln b/x c", "cp -r b c"] {
        assert!(!host.sh(&workspace, attempt).exit.success(), "{attempt}");
        assert!(!String::from_utf8_lossy(&host.sh(&workspace, "cat c c/x c/b/x").stdout).contains("secret"), "{attempt}");
    }
    assert_eq!(remask(&["a/y", "none"]), [std::path::PathBuf::from("none")]);
    assert_eq!((seen("a/x"), seen("a/y"), seen("b/x")), (true, false, true));
    // Put where a link of a job leads, a mask would lie on another file, and be lifted from another.
    assert!(host.sh(&workspace, "rm -r b && ln -s a b").exit.success());
    assert_eq!(remask(&["a/y", "b/x"]), [std::path::PathBuf::from("b/x")]);
    assert!(seen("a/x") && !seen("b/y"));
    assert_eq!(remask(&["a/y", "b"]), [std::path::PathBuf::from("b")]);
    assert!(!seen("b/y"));
    // Decided one by one, a read goes past the masks.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let bare = rustix::fs::openat(workspace.bare(), "a/y", flags, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(std::io::read_to_string(fs::File::from(bare)).unwrap(), "secret-text");
}

fn binds_are_read_only(host: &Host) {
    let tools = host.folder.path().join("home/tools");
    fs::create_dir_all(tools.join("shared")).unwrap();
    fs::write(tools.join("hello"), "#!/bin/sh\necho from tools\n").unwrap();
    Command::new("chmod").args(["-R", "a+rX"]).arg(&tools).status().unwrap();
    Command::new("chmod").arg("a+x").arg(tools.join("hello")).status().unwrap();
    let mut spec = host.spec("binds");
    let bind = |source: &std::path::Path, target: &str, writable| sandbox::Bind { source: source.into(), target: target.into(), writable };
    for hidden in ["/tmp", "/dev/shm/tools", "/proc/tools", "relative"] {
        let mut spec = host.spec("no");
        spec.binds = vec![bind(&tools, hidden, false)];
        assert!(matches!(host.open_with(spec), Err(sandbox::SandboxError::Project { .. })), "{hidden}");
    }
    spec.binds = vec![
        bind(&tools, "/opt/tools", false),
        bind(&tools.join("shared"), "/opt/shared", true),
        bind(&tools, "/tmp/carried/tools", false),
        bind(&tools.join("hello"), "/tmp/hello", false),
    ];
    let workspace = host.open_with(spec).unwrap();
    assert_eq!(text(&host.sh(&workspace, "/opt/tools/hello")), "from tools");
    assert!(!host.sh(&workspace, "echo > /opt/tools/x").exit.success());
    // Each job mounts its own /tmp, over which these are carried.
    assert_eq!(text(&host.sh(&workspace, "/tmp/carried/tools/hello; /tmp/hello; echo > /tmp/mine")), "from tools\nfrom tools");
    assert!(!host.sh(&workspace, "echo > /tmp/hello || echo > /tmp/carried/tools/x").exit.success());
    assert!(host.sh(&workspace, "echo hi > /opt/shared/x").exit.success());
    assert_eq!(fs::read_to_string(tools.join("shared/x")).unwrap(), "hi\n");
}

fn workspaces_are_apart(host: &Host) {
    host.write("common", "base");
    let one = host.open();
    let two = host.open_with(host.spec("t2")).unwrap();
    assert!(host.sh(&one, "echo one > common; echo > only-one").exit.success());
    assert_eq!(text(&host.sh(&one, "cat common; ls")), "one\ncommon\nonly-one");
    assert_eq!(text(&host.sh(&two, "cat common; ls")), "basecommon");
    // A job of the one cannot signal a job of the other, though the user is the same.
    let pid = host.block_on(async {
        let job = two.spawn(sh("sleep 30"), Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        let kill = format!("kill -9 {} 2>/dev/null && echo hit || echo miss", job.pid());
        assert_eq!(text(&one.run(sh(&kill), None).await.unwrap()), "miss");
        job.pid()
    });
    assert!(pid > 1);
}

fn every_job_has_its_own_namespaces(host: &Host) {
    let workspace = host.open();
    let look = "for n in user net ipc uts pid mnt cgroup; do readlink /proc/self/ns/$n; done; sleep 0.3";
    let seen: Vec<String> = host.block_on(async {
        let jobs = (0..4).map(|_| workspace.run(sh(look), None));
        let mut seen = Vec::new();
        for job in join_all(jobs).await {
            seen.push(text(&job.unwrap()));
        }
        seen
    });
    let outside = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).unwrap().display().to_string();
    for (line, name) in ["user", "net", "ipc", "uts", "pid", "mnt", "cgroup"].into_iter().enumerate() {
        let of_jobs: BTreeSet<&str> = seen.iter().map(|job| job.lines().nth(line).unwrap()).collect();
        let version_1 = fs::metadata("/sys/fs/cgroup/memory").is_ok();
        let one = name == "user" || (name == "cgroup" && host.engine.is_some() && version_1);
        assert_eq!(of_jobs.len(), if one { 1 } else { seen.len() }, "{name}: {of_jobs:?}");
        // With cgroups of version 1 Podman makes no namespace of them.
        let shared = host.engine.is_some() && name == "cgroup" && version_1;
        assert_eq!(of_jobs.contains(outside(name).as_str()), shared, "{name}");
    }
}

/// All of them at once, on this task.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in pinned.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        if pinned.iter().all(|(_, output)| output.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pinned.into_iter().filter_map(|(_, output)| output).collect()
}
