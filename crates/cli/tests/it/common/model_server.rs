//! A model server on loopback that speaks every dialect and answers by a script, as a real provider does over HTTP.

use gateway::script::ModelScript;
use gateway::{Dialect, Endpoint};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub struct ModelServer {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    renewed: Arc<Mutex<Vec<String>>>,
}

struct Asked {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl ModelServer {
    /// Who does not send `key` is answered 401; the list of models is everybody's. At `/oauth/token` it gives `key` for a refresh token.
    pub fn start(script: &str, key: Option<&'static str>) -> ModelServer {
        let script = Arc::new(ModelScript::parse(script).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let renewed = Arc::new(Mutex::new(Vec::new()));
        let server = ModelServer { port, asked: asked.clone(), renewed: renewed.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, asked, renewed) = (script.clone(), asked.clone(), renewed.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &script, key, &asked, &renewed));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The bodies of all requests for an answer, oldest first.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The bodies of all requests for a new access token.
    pub fn renewed(&self) -> Vec<String> {
        self.renewed.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, script: &ModelScript, key: Option<&str>, asked: &Mutex<Vec<String>>, renewed: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(request) = read(&mut reader) {
        let has = |name: &str| request.headers.iter().any(|(own, _)| own == name);
        let (dialect, endpoint) = Dialect::detect_request(&request.method, &request.path, &has);
        let sent = request.headers.iter().any(|(_, value)| key.is_some_and(|key| value.strip_prefix("Bearer ").unwrap_or(value) == key));
        let (status, kind, body) = if request.path.starts_with("/v1/models") {
            (200, "application/json", br#"{"object":"list","data":[{"id":"tiny-1","object":"model"}]}"#.to_vec())
        } else if request.path == "/oauth/token" {
            renewed.lock().unwrap().push(String::from_utf8_lossy(&request.body).into_owned());
            let body = format!(r#"{{"access_token":"{}","refresh_token":"rt-renewed","expires_in":3600}}"#, key.unwrap_or_default());
            (200, "application/json", body.into_bytes())
        } else if key.is_some() && !sent {
            let body = r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#;
            (401, "application/json", body.as_bytes().to_vec())
        } else {
            asked.lock().unwrap().push(String::from_utf8_lossy(&request.body).into_owned());
            let answer = script.respond(dialect, endpoint.unwrap_or(Endpoint::Generate), &request.path, &request.body);
            (answer.status, answer.content_type, answer.chunks.into_iter().flat_map(|chunk| chunk.bytes).collect())
        };
        let head = format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
        // Whoever asks in 1.0 reads to the end.
        if request.headers.iter().any(|(name, _)| name == ":old") {
            return;
        }
    }
}

/// One request; `None` when the client is done.
fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return None;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let mut headers = Vec::new();
    headers.extend((version == "HTTP/1.0").then(|| (":old".to_owned(), String::new())));
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, headers, body })
}
