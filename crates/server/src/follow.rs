//! `journal.follow`: records as they become durable, until the client hangs up.

use crate::connection::send;
use crate::method::{fault, parse};
use crate::view;
use kernel::Kernel;
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::method::journal::{Filter, Follow, RECORD, RecordParams};
use wire::{Method, Notification, Request, Response};

/// Records that are read at a time.
const PAGE: u64 = 256;

pub(crate) fn wanted(request: &Request) -> bool {
    request.method == Follow::NAME
}

pub(crate) async fn run(kernel: &Arc<Kernel>, request: Request, out: &mpsc::Sender<String>) {
    let begun = parse::<Follow>(request.params.as_deref()).and_then(|filter| Ok((filter, crate::method::raw(&wire::method::Nothing {})?)));
    let mut filter: Filter = match begun {
        Ok((filter, nothing)) => {
            send(out, Response { id: request.id, outcome: Ok(nothing) }.text()).await;
            filter
        }
        Err(error) => {
            send(out, Response { id: request.id, outcome: Err(error) }.text()).await;
            return;
        }
    };
    let journal = kernel.ledger.journal();
    let mut changed = journal.follow();
    let mut after = filter.after_seq.take();
    if after.is_none() {
        let head = journal.head();
        after = (head.count > 0).then_some(head.seq);
    }
    loop {
        let mut page = view::filter(&filter);
        page.after_seq = after;
        page.limit = Some(PAGE);
        page.reverse = false;
        let records = match kernel.ledger.read(&page) {
            Ok(records) => records,
            Err(error) => {
                send(out, Response { id: wire::Id::Null, outcome: Err(fault(error)) }.text()).await;
                return;
            }
        };
        let full = records.len() as u64 == PAGE;
        for record in records {
            after = Some(record.seq);
            let Ok(params) = crate::method::raw(&RecordParams { line: record.line }) else { return };
            if !send(out, Notification { method: RECORD.to_owned(), params: Some(params) }.text()).await {
                return;
            }
        }
        if !full && changed.changed().await.is_err() {
            return;
        }
    }
}
