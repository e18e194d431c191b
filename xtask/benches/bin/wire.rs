//! One request to a kernel beside the same bytes through a bare echo server; and with `task FOLDER BRAIN` behind the socket, tasks from
//! `task.add` to their end. Prints one JSON line; `cargo xtask bench` reads it.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use wire::table::MethodId;
use wire::{RpcRequest, frame};

const ROUNDS: usize = 5_000;
const TASKS: usize = 51;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("name the kernel's socket")?;
    if arguments.next().is_some() {
        let (folder, brain) = (arguments.next().ok_or("name a folder")?, arguments.next().ok_or("name a brain")?);
        return tasks(&mut UnixStream::connect(&socket)?, &folder, &brain);
    }
    let request = RpcRequest { id: wire::RpcId::Number(1), method: MethodId::KernelStatus.name().to_owned(), params: None };
    let bytes = frame::encode(&request.text())?;
    let folder = std::env::temp_dir().join(format!("skep-echo-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let path = folder.join("sock");
    let listener = UnixListener::bind(&path)?;
    let server = std::thread::spawn(move || echo(&listener));
    let echo = measure(&mut UnixStream::connect(&path)?, &bytes)?;
    let ours = measure(&mut UnixStream::connect(&socket)?, &bytes)?;
    server.join().map_err(|_| "the echo server panicked")??;
    std::fs::remove_dir_all(&folder)?;
    println!("{}", json!({"ours_us": ours.as_secs_f64() * 1e6, "echo_us": echo.as_secs_f64() * 1e6}));
    Ok(())
}

/// Tasks that nobody has to answer, one after the other: until the kernel has queued each, and until it has ended.
fn tasks(stream: &mut UnixStream, folder: &str, brain: &str) -> Result<(), Box<dyn Error>> {
    let (mut queued, mut ended) = (Vec::new(), Vec::new());
    for _ in 0..TASKS {
        let start = Instant::now();
        let added = ask(stream, MethodId::TaskAdd, &json!({"path": folder, "mode": "act", "prompt": "bench", "brain": brain}))?;
        queued.push(start.elapsed());
        let end = ask(stream, MethodId::TaskAwait, &json!({"task": added["task"]}))?;
        ended.push(start.elapsed());
        if end["state"] != "done" {
            return Err(format!("a task did not come to its end: {end}").into());
        }
        // Its folder is removed behind its end.
        std::thread::sleep(Duration::from_millis(20));
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[TASKS / 2].as_secs_f64() * 1e3
    };
    println!("{}", json!({"queued_ms": median(&mut queued), "ended_ms": median(&mut ended)}));
    Ok(())
}

/// One request and its answer.
fn ask(stream: &mut UnixStream, method: MethodId, params: &Value) -> Result<Value, Box<dyn Error>> {
    let params = Some(serde_json::value::to_raw_value(params)?);
    let request = RpcRequest { id: wire::RpcId::Number(1), method: method.name().to_owned(), params };
    stream.write_all(&frame::encode(&request.text())?)?;
    let mut body = Vec::new();
    if !read_frame(stream, &mut body)? {
        return Err("the kernel hung up".into());
    }
    let answer: Value = serde_json::from_slice(&body)?;
    if answer["error"].is_object() {
        return Err(answer["error"].to_string().into());
    }
    Ok(answer["result"].clone())
}

/// Reads a frame and sends it back, until the peer hangs up.
fn echo(listener: &UnixListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut body = Vec::new();
    while read_frame(&mut stream, &mut body)? {
        let length = u32::try_from(body.len()).map_err(std::io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], &body].concat())?;
    }
    Ok(())
}

fn read_frame(stream: &mut UnixStream, body: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
        other => other?,
    }
    body.resize(u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(body)?;
    Ok(true)
}

/// The median time from request to answer.
fn measure(stream: &mut UnixStream, bytes: &[u8]) -> std::io::Result<Duration> {
    let mut body = Vec::new();
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        stream.write_all(bytes)?;
        if !read_frame(stream, &mut body)? {
            return Err(std::io::Error::other("the peer hung up"));
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[ROUNDS / 2])
}
