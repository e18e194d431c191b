//! A small HTTP server on loopback that answers from a script or a cassette, one thread a connection. For tests and the example; the
//! gateway's own server is another thing.

use gateway::{Dialect, RenderedAnswer, script::ModelScript};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The request's bodies are capped; clients send some hundred kilobytes.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Serves on a port of the system's choice until the process ends.
pub fn serve(port: u16, answer: impl Fn(&Request) -> RenderedAnswer + Send + Sync + 'static) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    let address = listener.local_addr()?;
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            // A client that goes away in the middle is its own business.
            std::thread::spawn(move || while connection(&stream, answer.as_ref()).unwrap_or(false) {});
        }
    });
    Ok(address)
}

/// What the script says to this request; what is no model request does not exist.
#[allow(dead_code, reason = "not every test that includes this plays a script")]
pub fn scripted(script: &ModelScript, request: &Request) -> RenderedAnswer {
    match Dialect::detect(&request.method, &request.path) {
        Some((dialect, endpoint)) => script.respond(dialect, endpoint, &request.path, &request.body),
        None => absent(),
    }
}

/// What is not there.
pub fn absent() -> RenderedAnswer {
    RenderedAnswer { status: 404, content_type: "text/plain", headers: Vec::new(), chunks: Vec::new(), is_cut: false }
}

/// One request and its answer; says whether the connection stays.
fn connection(stream: &TcpStream, answer: &dyn Fn(&Request) -> RenderedAnswer) -> std::io::Result<bool> {
    let mut reader = BufReader::new(stream);
    let Some(request) = request(&mut reader, stream)? else { return Ok(false) };
    let rendered = answer(&request);
    let mut out = stream;
    write!(out, "HTTP/1.1 {} -\r\ncontent-type: {}\r\n", rendered.status, rendered.content_type)?;
    for (name, value) in &rendered.headers {
        write!(out, "{name}: {value}\r\n")?;
    }
    write!(out, "transfer-encoding: chunked\r\n\r\n")?;
    if request.method == "HEAD" {
        return Ok(false);
    }
    for chunk in rendered.chunks.iter().filter(|chunk| !chunk.bytes.is_empty()) {
        std::thread::sleep(Duration::from_millis(chunk.after_ms));
        let mut piece = format!("{:x}\r\n", chunk.bytes.len()).into_bytes();
        piece.extend_from_slice(&chunk.bytes);
        piece.extend_from_slice(b"\r\n");
        out.write_all(&piece)?;
        out.flush()?;
    }
    if rendered.is_cut {
        stream.shutdown(std::net::Shutdown::Both)?;
        return Ok(false);
    }
    out.write_all(b"0\r\n\r\n")?;
    Ok(true)
}

fn request(reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let header = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0).min(BODY_BYTES_MAX);
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else {
        body = vec![0; header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0).min(BODY_BYTES_MAX)];
        reader.read_exact(&mut body)?;
    }
    Ok(Some(Request { method, path, headers, body }))
}
