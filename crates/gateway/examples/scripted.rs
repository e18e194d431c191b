//! Plays a script to any vendor's client: `cargo run -p gateway --example scripted -- SCRIPT [PORT] [FOLDER]`.
//!
//! Prints its base URL and a line for each request; keeps the requests in FOLDER if one is given.

#[path = "../tests/it/http.rs"]
mod http;

use gateway::script::ModelScript;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else { return eprintln!("usage: scripted SCRIPT [PORT] [FOLDER]") };
    let script = match std::fs::read_to_string(&file)
        .map_err(|error| error.to_string())
        .and_then(|text| ModelScript::parse(&text).map_err(|error| error.to_string()))
    {
        Ok(script) => script,
        Err(error) => {
            eprintln!("{file}: {error}");
            std::process::exit(2);
        }
    };
    let port = arguments.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    let folder = arguments.next();
    let count = AtomicUsize::new(0);
    let served = http::serve(port, move |request| {
        let rendered = http::scripted(&script, request);
        let number = count.fetch_add(1, Ordering::Relaxed);
        println!("{number} {} {} {} bytes -> {}", request.method, request.path, request.body.len(), rendered.status);
        if rendered.status >= 400 {
            println!("  {}", String::from_utf8_lossy(&rendered.body()));
        }
        if let Some(folder) = &folder {
            let written = std::fs::write(format!("{folder}/{number:03}.request"), &request.body)
                .and_then(|()| std::fs::write(format!("{folder}/{number:03}.answer"), rendered.body()))
                .and_then(|()| {
                    std::fs::write(
                        format!("{folder}/{number:03}.head"),
                        format!("{} {}\n{:#?}\n", request.method, request.path, request.headers),
                    )
                });
            if let Err(error) = written {
                eprintln!("{folder}: {error}");
            }
        }
        rendered
    });
    match served {
        Ok(address) => {
            println!("http://{address}");
            std::thread::park();
        }
        Err(error) => eprintln!("no server: {error}"),
    }
}
