//! What a room has of its own where the host's would be wrong: a resolver, a terminal, and a share of the user's inotify.

use std::fs;
use std::io::{Read, Write};

use rustix::fs::inotify;
use sandbox::{JobSpec, Stdio, Window};

use super::death::wait_until;
use super::host::{Host, Test, text};

pub const TESTS: &[Test] = &[
    ("names_are_answered_at_once", names_are_answered_at_once),
    ("a_flood_of_questions_stops_nobody", a_flood_of_questions_stops_nobody),
    ("a_terminal_has_a_name", a_terminal_has_a_name),
    ("a_room_takes_its_share_of_inotify", a_room_takes_its_share_of_inotify),
    ("a_room_takes_few_terminals_and_signals", a_room_takes_few_terminals_and_signals),
];

/// Once: it takes from everybody.
pub const OWN: &[Test] = &[("a_job_does_not_keep_all_epoll_watches", a_job_does_not_keep_all_epoll_watches)];

fn python(script: &str) -> JobSpec {
    let mut spec = JobSpec::exec(["/usr/bin/python3", "-c", script]);
    spec.profile = sandbox::Profile::StandardNet;
    // For a room without an answer: the script waits for it without end.
    spec.limits.wall = Some(std::time::Duration::from_secs(60));
    spec
}

/// As musl asks: an address of each kind, from one socket that is not connected. It takes 0 (an answer) and 3 (no such name) for an
/// answer and waits for five seconds after any other.
const ASK: &str = r"
import socket
def ask(name, kind, id):
    labels = b''.join(bytes([len(part)]) + part.encode() for part in name.split('.'))
    return id + b'\x01\0\0\x01\0\0\0\0\0\0' + labels + b'\0\0' + bytes([kind]) + b'\0\x01'
server = next(line.split()[1] for line in open('/etc/resolv.conf') if line.startswith('nameserver'))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
questions = [ask('example.com', 1, b'ab'), ask('example.com', 28, b'cd')]
for question in questions: s.sendto(question, (server, 53))
answers = {}
while len(answers) < 2:
    answer, of = s.recvfrom(512)
    assert of == (server, 53)
    answers[answer[:2]] = (answer[3] & 15, answer[12:] in [question[12:] for question in questions])
print(answers[b'ab'], answers[b'cd'])
";

fn names_are_answered_at_once(host: &Host) {
    let workspace = host.open();
    // Twice: each job has a network of its own.
    for _ in 0..2 {
        assert_eq!(text(&host.run(&workspace, python(ASK)).unwrap()), "(3, True) (3, True)");
    }
    let glibc = "import socket\ntry: socket.getaddrinfo('example.com', 80)\nexcept socket.gaierror as no: print(no.errno == socket.EAI_NONAME)\n\
                 print(socket.getaddrinfo('localhost', 80)[0][0] in (socket.AF_INET, socket.AF_INET6))";
    assert_eq!(text(&host.run(&workspace, python(glibc)).unwrap()), "True\nTrue");
    // The port is the room's, and nobody else's.
    let steal = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ntry: s.bind(('127.0.0.1', 53))\nexcept OSError as no: print(no.errno)";
    // In a container every port is open to the job, but this one is taken.
    let refused = if host.engine.is_some() { libc::EADDRINUSE } else { libc::EACCES };
    assert_eq!(text(&host.run(&workspace, python(steal)).unwrap()), refused.to_string());
}

/// Whatever comes to the port, the holder goes on: it starts the next job and answers its questions.
fn a_flood_of_questions_stops_nobody(host: &Host) {
    let workspace = host.open();
    let flood = "import os, socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.setblocking(False)\n\
                 for n in range(20000):\n  try: s.sendto(os.urandom(n % 600), ('127.0.0.1', 53))\n  except OSError: pass\nprint('sent')";
    let beside = host.block_on(async {
        let (one, other) = tokio::join!(workspace.run(python(flood), None), workspace.run(python(ASK), None));
        [one.unwrap(), other.unwrap()]
    });
    assert_eq!(beside.each_ref().map(text), ["sent", "(3, True) (3, True)"]);
}

fn a_terminal_has_a_name(host: &Host) {
    let workspace = host.open();
    let mut spec = JobSpec::exec([
        "sh",
        "-c",
        "tty; test -t 0 && test -t 1 && test -t 2 && echo is-one; stty size; echo by-name > $(tty); echo by-tty > /dev/tty; ls /dev/pts; \
         read line; echo \"got $line\"",
    ]);
    spec.terminal = Some(Window { rows: 33, columns: 77 });
    let said = host.block_on(async {
        let mut job = workspace.spawn(spec, Stdio::Null, Stdio::Null, Stdio::Null).await.unwrap();
        let mut line = fs::File::from(job.terminal().unwrap());
        assert!(job.terminal().is_none(), "it has one other side");
        line.write_all(b"typed\n").unwrap();
        let ended = job.wait().await.unwrap();
        assert!(ended.exit.success(), "{ended:?}");
        let mut said = Vec::new();
        // It ends with an error when the other side is closed.
        let _ = line.read_to_end(&mut said);
        String::from_utf8(said).unwrap()
    });
    for part in ["/dev/pts/0\r\n", "is-one\r\n", "33 77\r\n", "by-name\r\n", "by-tty\r\n", "got typed\r\n"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
    // The control: without one there is none.
    let none = host.sh(&workspace, "tty; test -t 0 || echo no");
    assert_eq!(text(&none), "not a tty\nno");
}

fn limit(name: &str) -> u64 {
    fs::read_to_string(format!("/proc/sys/user/max_inotify_{name}")).unwrap().trim().parse().unwrap()
}

/// Takes all it can get, says how many that were, and holds them.
const TAKE: &str = "import ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\nn = 0\nwhile libc.inotify_init1(0) >= 0: n += 1\n\
                    print(n, ctypes.get_errno(), flush=True)\nsys.stdin.read()";

fn a_room_takes_its_share_of_inotify(host: &Host) {
    let (instances, watches) = (limit("instances"), limit("watches"));
    let rooms: Vec<_> = (0..6).map(|number| host.open_with(host.spec(&format!("t{number}"))).unwrap()).collect();
    let mut held = Vec::new();
    let (mut taken, mut first) = (0, None);
    for room in &rooms {
        let in_room = text(&host.sh(room, "cat /proc/sys/user/max_inotify_instances /proc/sys/user/max_inotify_watches"));
        let (own, own_watches) = in_room.split_once('\n').map(|(a, b)| (a.parse::<u64>().unwrap(), b.parse::<u64>().unwrap())).unwrap();
        assert!(own <= instances.div_ceil(8) && own_watches <= watches.div_ceil(8), "{own} of {instances}, {own_watches} of {watches}");
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let ((input, hold), (output, to_output)) = (pipe(), pipe());
        let job = host.block_on(room.spawn(python(TAKE), Stdio::Fd(input), Stdio::Fd(to_output), Stdio::Null)).unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(fs::File::from(output)), &mut said).unwrap();
        assert_eq!(said, format!("{own} {}\n", libc::EMFILE), "it gets what its room has, and no more");
        taken += own;
        first.get_or_insert(own);
        held.push((job, hold));
    }
    assert!(taken > 0 && taken <= instances / 2, "{taken} of {instances}");
    // Everybody outside still has some, and a room that would raise its limit cannot.
    inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let mine = host.sh(&rooms[0], "cat /proc/sys/user/max_inotify_instances");
    assert!(mine.exit.success(), "the control: it may look");
    let raised = host.sh(&rooms[0], "echo 1000 > /proc/sys/user/max_inotify_instances");
    assert!(!raised.exit.success());
    for (job, hold) in held {
        drop(hold);
        host.block_on(job.wait()).unwrap();
    }
    drop(rooms);
    wait_until("what closed rooms had is there for the next", || {
        let next = host.open_with(host.spec("next")).unwrap();
        let own = text(&host.sh(&next, "cat /proc/sys/user/max_inotify_instances"));
        host.block_on(next.close()).unwrap();
        own.parse().ok() == first
    });
}

/// Opens terminals and queues signals for itself until it may not, and says how many that were and why no more.
const HOARD: &str = "import ctypes, os, signal\nlibc = ctypes.CDLL(None, use_errno=True)\nterminals = signals = 0\n\
                     try:\n  while terminals < 9999: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); terminals += 1\nexcept OSError as no: full = no.errno\n\
                     signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})\n\
                     while signals < 9999 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, 0) == 0: signals += 1\n\
                     print(terminals, full, signals, ctypes.get_errno())";

fn a_room_takes_few_terminals_and_signals(host: &Host) {
    let outside = rustix::process::getrlimit(rustix::process::Resource::Sigpending).maximum.unwrap_or(u64::MAX);
    let workspace = host.open();
    let taken = text(&host.run(&workspace, python(HOARD)).unwrap());
    assert_eq!(taken, format!("64 {} {} {}", libc::ENOSPC, outside.min(4096), libc::EAGAIN));
}

/// Takes so many epoll watches or all there are, in several processes, says so, and holds them.
const WATCH: &str = "import os, select, sys, time\nwanted = int(sys.argv[1]) // 12\nfor _ in range(12):\n  if os.fork() == 0:\n    \
                     events = [os.eventfd(0) for _ in range(2000)]\n    epolls = []\n    held = 0\n    try:\n      while held < wanted:\n        \
                     epolls.append(select.epoll())\n        for event in events: epolls[-1].register(event); held += 1\n    \
                     except OSError: time.sleep(600)\n    os._exit(0)\nfor _ in range(12): os.wait()\nprint('held')";

/// The long form takes all that the user of jobs has, of which nobody else has any then.
fn a_job_does_not_keep_all_epoll_watches(host: &Host) {
    let workspace = host.open();
    let take = |count: u64| {
        let mut spec = JobSpec::exec(["/usr/bin/python3", "-c", WATCH, &count.to_string()]);
        spec.limits.wall = Some(std::time::Duration::from_secs(600));
        host.run(&workspace, spec).unwrap()
    };
    assert_eq!(text(&take(100_000)), "held", "who leaves some to others may have many");
    if std::env::var_os("SKEP_SOAK").is_some() {
        let taken = take(u64::MAX / 2);
        assert!(taken.out_of_memory && !taken.timed_out, "{taken:?}");
    }
}
