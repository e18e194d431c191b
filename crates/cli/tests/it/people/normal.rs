//! What differs from run to run in what is printed, made alike. This is the whole list.

use regex::Regex;

/// A pattern, what it becomes, and why it differs.
const ALIKE: [(&str, &str); 24] = [
    // Times of day and dates.
    (r"\b\d{4}-\d\d-\d\d\b", "YYYY-MM-DD"),
    (r"\b\d\d:\d\d:\d\d\.\d{3}\b", "HH:MM:SS.mmm"),
    (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"),
    (r"\b(at|since|queued|ended) \d\d:\d\d\b", "$1 HH:MM"),
    // How long something took, and how long ago it was.
    (r"(<1|\b\d+(\.\d+)?) ?(µs|ms|s)\b( ago)?", "TIME"),
    (r"\bjust now\b", "TIME"),
    (r"(?m)^( +ms +)\d+$", "${1}TIME"),
    // What stands beside a time in a table: the blanks between them, and how much of a prompt there is room for.
    ("TIME {2,}", "TIME  "),
    (r#"(TIME  (?:ask )?"[^"\n…]{16})[^"\n]*…"?"#, "$1 …"),
    // Numbers of records, where the scheduler has a say in them.
    (r"(?m)^(\s*)\d+(  +[a-z]+\.[a-z_]+ )", "${1}NN$2"),
    // The port of the model server, which the system chooses.
    (r"127\.0\.0\.1:\d{5}\b", "127.0.0.1:PORT0"),
    (r"\blocal-\d{5}\b", "local-PORT0"),
    // Hashes and the ids of commits.
    (r"\b[0-9a-f]{40,64}\b", "HASH"),
    (r"\b[0-9a-f]{12,16}…", "HASH…"),
    (r"\b(committed|policy|project|force)\s+[0-9a-f]{10,12}\b", "$1 HASH"),
    // What turns while somebody waits.
    ("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋"),
    // The process id of the kernel.
    (r"\bos pid \d+\b", "os pid N"),
    // How many records there are, where the scheduler has a say in it.
    (r"\b(chain of|head record) \d+\b", "$1 N"),
    (r"\d+ records? after it", "N records after it"),
    // Tokens and what they cost follow every word of a prompt and of a tool's description.
    (r"\b([2-9]|\d{2,3}),\d{3}\b", "N,NNN"),
    (r"\$0\.\d{4,6}\b", "$$0.NNNN"),
    (r"\b\d+ tokens for", "N tokens for"),
    // The demo's folder.
    (r"/skep-demo-\w{6}/", "/skep-demo-xxxxxx/"),
    // This version.
    (concat!(r"\b", env!("CARGO_PKG_VERSION"), r"\b"), "VERSION"),
];

pub fn normal(printed: &str, folder: &str) -> String {
    // As long as the folder itself, so that lines break where they broke.
    let place = format!("/tmp/{}", "x".repeat(folder.len() - "/tmp/".len()));
    ALIKE.iter().fold(printed.replace(folder, &place), |text, (pattern, alike)| {
        Regex::new(pattern).unwrap().replace_all(&text, *alike).into_owned()
    })
}
