//! Reads the journal page by page, because a frame holds only so much.

use crate::command_error::CommandError;
use wire::KernelClient;
use wire::method::journal::RecordFilter;
use wire::table::JournalRead;

/// Records asked for at once; the kernel may give fewer.
const PAGE_RECORDS: u64 = 1_000;

#[derive(serde::Deserialize)]
struct Seq {
    seq: u64,
}

pub struct Pages {
    filter: RecordFilter,
    /// How many are still wanted.
    left: Option<u64>,
}

impl Pages {
    pub fn new(filter: RecordFilter) -> Pages {
        Pages { left: filter.limit, filter }
    }

    /// The next lines; an empty page is the end.
    pub async fn next(&mut self, kernel: &mut KernelClient) -> Result<Vec<String>, CommandError> {
        let wanted = self.left.unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS);
        if wanted == 0 {
            return Ok(Vec::new());
        }
        self.filter.limit = Some(wanted);
        let records = kernel.call::<JournalRead>(&self.filter).await?.records;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(records.len() as u64);
        }
        let last = records.last().and_then(|line| serde_json::from_str::<Seq>(line).ok()).map(|last| last.seq);
        match (last, self.filter.reverse) {
            (Some(seq), true) => self.filter.before_seq = Some(seq),
            (Some(seq), false) => self.filter.after_seq = Some(seq),
            // A line that is no record cannot be stepped over: end here and let `verify` say what is wrong.
            (None, _) => self.left = Some(0),
        }
        Ok(records)
    }

    pub async fn all(mut self, kernel: &mut KernelClient) -> Result<Vec<String>, CommandError> {
        let mut lines = Vec::new();
        loop {
            let page = self.next(kernel).await?;
            if page.is_empty() {
                return Ok(lines);
            }
            lines.extend(page);
        }
    }
}
