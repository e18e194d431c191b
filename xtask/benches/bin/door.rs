//! Calls through the door of a kernel, beside one fdatasync on the same file system and a bare echo, in turn in one run. Prints one JSON
//! line; `cargo xtask bench` reads it.
//!
//! `reads SOCKET PROJECT CALLERS` asks a running kernel over its socket. `effects FOLDER CALLERS` boots one of its own in this process,
//! because calls with the caller's own hands reach the door from clients in rooms and never over that socket. `busy` is load.

use kernel::{CallEnd, Home, Kernel, NewTask, Request, Tuning};
use rustix::event::epoll;
use serde_json::{Value, json};
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::frame;
use wire::table::MethodId;
use world::{Hands, Pid, TaskId, ZoneId};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u32 = 5;
/// How long a round asks the door; before the first it is asked as long without a count.
const ROUND: Duration = Duration::from_millis(700);
/// Of the references in each round.
const SYNCS: usize = 100;
const ECHOES: usize = 500;
/// About as long as the line of one call's end.
const LINE_BYTES: usize = 700;

pub(crate) fn run(words: &[&str]) -> Fallible<()> {
    let report = match words {
        ["reads", socket, project, callers] => reads(Path::new(socket), Path::new(project), callers.parse()?)?,
        ["effects", folder, callers] => effects(Path::new(folder), callers.parse()?)?,
        ["busy"] => loop {
            std::hint::spin_loop();
        },
        _ => return Err("usage: reads SOCKET PROJECT CALLERS, effects FOLDER CALLERS, or busy".into()),
    };
    println!("{report}");
    Ok(())
}

/// What was measured of calls, and of the references in the same rounds.
#[derive(Default)]
struct Figures {
    calls: Vec<Duration>,
    wall: Duration,
    cpu: Duration,
    syncs: Vec<Duration>,
    echoes: Vec<Duration>,
}

impl Figures {
    fn report(mut self) -> Value {
        let count = self.calls.len().max(1) as f64;
        let cpu_us = micros(self.cpu) / count;
        let per_s = count / self.wall.as_secs_f64();
        let (p50, p99) = (part(&mut self.calls, 0.5), part(&mut self.calls, 0.99));
        json!({
            "p50_us": micros(p50), "p99_us": micros(p99), "per_s": per_s, "cpu_us": cpu_us,
            "sync_us": micros(part(&mut self.syncs, 0.5)), "echo_us": micros(part(&mut self.echoes, 0.5)),
        })
    }
}

fn part(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    let place = (times.len() as f64 * share) as usize;
    times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Takes turns: the references, then the door.
fn measure(folder: &Path, request_bytes: usize, mut ask: impl FnMut(&mut Vec<Duration>) -> Fallible<Duration>) -> Fallible<Figures> {
    let mut figures = Figures::default();
    let mut synced = Synced::new(folder)?;
    let mut echo = Echo::new(folder, request_bytes)?;
    ask(&mut Vec::new())?;
    for _ in 0..ROUNDS {
        synced.round(&mut figures.syncs)?;
        echo.round(&mut figures.echoes)?;
        let start = Instant::now();
        figures.cpu += ask(&mut figures.calls)?;
        figures.wall += start.elapsed();
    }
    Ok(figures)
}

/// One line more in a file, on disk.
struct Synced(File);

impl Synced {
    fn new(folder: &Path) -> Fallible<Synced> {
        Ok(Synced(File::create(folder.join(format!("synced-{}", std::process::id())))?))
    }

    fn round(&mut self, times: &mut Vec<Duration>) -> Fallible<()> {
        for _ in 0..SYNCS {
            let start = Instant::now();
            self.0.write_all(&[b'x'; LINE_BYTES])?;
            self.0.sync_data()?;
            times.push(start.elapsed());
        }
        Ok(())
    }
}

/// A peer on a socket that sends back what it gets.
struct Echo {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Echo {
    fn new(folder: &Path, bytes: usize) -> Fallible<Echo> {
        let path = folder.join(format!("echo-{}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        let stream = UnixStream::connect(&path)?;
        let (mut peer, _) = listener.accept()?;
        // Ends with the stream, and so with this program.
        std::thread::spawn(move || {
            let mut body = vec![0; bytes];
            while peer.read_exact(&mut body).and_then(|()| peer.write_all(&body)).is_ok() {}
        });
        Ok(Echo { stream, bytes: vec![b'x'; bytes] })
    }

    fn round(&mut self, times: &mut Vec<Duration>) -> Fallible<()> {
        for _ in 0..ECHOES {
            let start = Instant::now();
            self.stream.write_all(&self.bytes)?;
            self.stream.read_exact(&mut self.bytes)?;
            times.push(start.elapsed());
        }
        Ok(())
    }
}

/// `call.run fs.read` of a small file, by so many connections at once.
fn reads(socket: &Path, project: &Path, callers: usize) -> Fallible<Value> {
    let params = json!({"tool": "fs.read", "input": {"path": "a.txt"}, "path": project});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": MethodId::CallRun.name(), "params": params});
    let bytes = frame::encode(&request.to_string())?;
    let mut streams = (0..callers).map(|_| UnixStream::connect(socket)).collect::<Result<Vec<_>, _>>()?;
    let pid = rustix::net::sockopt::socket_peercred(&streams[0])?.pid.as_raw_nonzero().get();
    let folder = project.parent().ok_or("the project has no folder around it")?;
    let figures = measure(folder, bytes.len(), |times| {
        let before = processor_time(pid)?;
        ask_reads(&mut streams, &bytes, times)?;
        Ok(processor_time(pid)?.saturating_sub(before))
    })?;
    Ok(figures.report())
}

/// Each connection asks again as soon as it is answered; one thread drives them all, so that little of the machine goes to the asking.
fn ask_reads(streams: &mut [UnixStream], bytes: &[u8], times: &mut Vec<Duration>) -> Fallible<()> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut began = Vec::with_capacity(streams.len());
    for (number, stream) in streams.iter_mut().enumerate() {
        epoll::add(&ready, &*stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        began.push(Instant::now());
        stream.write_all(bytes)?;
    }
    let end = Instant::now() + ROUND;
    let (mut open, mut body) = (streams.len(), Vec::new());
    let mut events = Vec::with_capacity(streams.len());
    while open > 0 {
        epoll::wait(&ready, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let number = usize::try_from(event.data.u64())?;
            read_answer(&mut streams[number], &mut body)?;
            let now = Instant::now();
            times.push(now - began[number]);
            if now < end {
                began[number] = now;
                streams[number].write_all(bytes)?;
            } else {
                open -= 1;
            }
        }
    }
    Ok(())
}

/// Reads one frame, which must be the answer of a call that worked.
fn read_answer(stream: &mut UnixStream, body: &mut Vec<u8>) -> Fallible<()> {
    body.resize(64 * 1024, 0);
    let mut got = 0;
    loop {
        got += match stream.read(&mut body[got..])? {
            0 => return Err("the kernel hung up".into()),
            more => more,
        };
        let Some(length) = body[..got].first_chunk().map(|length| u32::from_be_bytes(*length) as usize) else { continue };
        if got >= length + 4 {
            body.truncate(got);
            break;
        }
    }
    let is_good = body.windows(9).any(|window| window == br#""ok":true"#);
    if is_good { Ok(()) } else { Err(format!("a read failed: {}", String::from_utf8_lossy(body)).into()) }
}

/// What a process has used of the processors so far.
fn processor_time(pid: i32) -> Fallible<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit_once(')').ok_or("a line of /proc has no name")?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut ticks = || -> Fallible<u64> { Ok(fields.next().ok_or("a line of /proc is short")?.parse()?) };
    Ok(Duration::from_secs_f64((ticks()? + ticks()?) as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// An admission of `fs.write` with the caller's own hands and the report that settles it: two commits, each on disk before it is answered.
fn effects(folder: &Path, callers: usize) -> Fallible<Value> {
    // Forked before there is a second thread.
    let launcher = sandbox::Launcher::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let door = runtime.block_on(Door::open(folder, launcher))?;
    let figures = measure(folder, LINE_BYTES, |times| {
        let before = own_processor_time()?;
        times.extend(runtime.block_on(door.ask_effects(callers))?);
        Ok(own_processor_time()?.saturating_sub(before))
    })?;
    runtime.block_on(door.kernel.stop("the bench is over")).map_err(|fault| fault.to_string())?;
    Ok(figures.report())
}

fn own_processor_time() -> Fallible<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

/// A kernel with a task that waits for an answer, in whose workspace calls can be made.
struct Door {
    kernel: Arc<Kernel>,
    zone: ZoneId,
    task: TaskId,
}

impl Door {
    async fn open(folder: &Path, launcher: sandbox::Launcher) -> Fallible<Door> {
        let (project, script) = (folder.join("project"), folder.join("script"));
        std::fs::create_dir_all(project.join(".skep"))?;
        let parks = "capabilities:\n  - { name: parks, match: { syscall: fs.list }, action: require_review, reason: park }\n";
        std::fs::write(project.join(".skep/policy.yaml"), format!("{parks}{WRITES}"))?;
        std::fs::write(&script, "call fs.list path=.\ndone\n")?;
        if !Command::new("git").args(["init", "-q"]).arg(&project).status()?.success() {
            return Err("git could not make a repository".into());
        }
        let home = Home::open(&folder.join("home")).map_err(|fault| fault.to_string())?;
        let booted = Kernel::boot_tuned(home, launcher, journal::Options::default(), None, Tuning::default()).await;
        let kernel = booted.map_err(|fault| fault.to_string())?;
        let opened = async {
            let proposal = kernel.gate.init(&project).await?;
            let phrase = kernel.gate.try_proposal(&project).await?.phrase();
            let zone = kernel.gate.trust(&project, &proposal.hash, phrase.as_deref()).await?.zone;
            let brain = Some(format!("script:{}", script.display()));
            let task = kernel.add(NewTask::new(project.clone(), world::Mode::Act, "park".to_owned(), brain)).await?.task;
            kernel.tasks.settled(task).await?;
            Ok((zone, task))
        };
        let (zone, task) = opened.await.map_err(|stop: kernel::Stop| stop.to_string())?;
        Ok(Door { kernel, zone, task })
    }

    async fn ask_effects(&self, callers: usize) -> Fallible<Vec<Duration>> {
        let end = Instant::now() + ROUND;
        let asking: Vec<_> = (0..callers).map(|caller| tokio::spawn(self.caller(caller).ask_until(end))).collect();
        let mut times = Vec::new();
        for asked in asking {
            times.extend(asked.await??);
        }
        Ok(times)
    }

    /// Each writes a file of its own, as clients do; the operator's calls alone are not limited by the minute.
    fn caller(&self, number: usize) -> Caller {
        let input = json!({"path": format!("file-{number}.txt"), "content": "one line\n"});
        let request = Request::new(Pid::OPERATOR, Some(self.task), self.zone, "fs.write", input);
        Caller { kernel: self.kernel.clone(), request: Request { hands: Hands::Caller, ..request } }
    }
}

/// In force for all calls of the bench.
const WRITES: &str = "  - { name: writes, match: { syscall: fs.write }, action: allow }\n";

struct Caller {
    kernel: Arc<Kernel>,
    request: Request,
}

impl Caller {
    async fn ask_until(self, end: Instant) -> Fallible<Vec<Duration>> {
        let mut times = Vec::new();
        while Instant::now() < end {
            let start = Instant::now();
            let outcome = self.kernel.call_as(&self.request).await.map_err(|fault| fault.to_string())?;
            let (Some(call), CallEnd::CallerExecutes) = (outcome.call, &outcome.end) else {
                return Err(format!("not admitted: {:?}", outcome.end).into());
            };
            self.kernel.gate.report(call, true, "written").await.map_err(|fault| fault.to_string())?;
            times.push(start.elapsed());
        }
        Ok(times)
    }
}
