//! One request to a kernel beside the same bytes through a bare echo server. Prints one JSON line; `cargo xtask bench` reads it.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use wire::table::MethodId;
use wire::{RpcRequest, frame};

const ROUNDS: usize = 5_000;

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args().nth(1).ok_or("name the kernel's socket")?;
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
    println!("{}", serde_json::json!({"ours_us": ours.as_secs_f64() * 1e6, "echo_us": echo.as_secs_f64() * 1e6}));
    Ok(())
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
