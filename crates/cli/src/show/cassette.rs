//! Cassettes and replays, as people see them.

use super::measure::{bytes, duration_ms, plural};
use super::{Line, Page, table};
use wire::method::model::{CassetteEntry, CassetteListResult};
use wire::method::task::TaskReplayResult;

pub fn list(result: &CassetteListResult) -> Page {
    if result.cassettes.is_empty() {
        return Page(vec![Line::new().plain("nothing was recorded yet; `skep act … --record` does")]);
    }
    let row = |one: &CassetteEntry| {
        vec![
            Line::new().name(&one.name),
            Line::new().plain(plural(one.exchanges.len() as u64, "request")),
            Line::new().plain(bytes(one.bytes)),
            one.broken.as_ref().map_or_else(|| torn(one.torn), |why| Line::new().bad(why)),
        ]
    };
    table(result.cassettes.iter().map(row).collect())
}

fn torn(torn: usize) -> Line {
    if torn == 0 { Line::new() } else { Line::new().bad(format!("{torn} cut off")) }
}

pub fn contents(result: &CassetteListResult) -> Page {
    let mut page = Page::new();
    for one in &result.cassettes {
        // A file of one's own is named by its path.
        let path = if one.path == one.name { String::new() } else { format!("  {}", one.path) };
        page.push(Line::new().name(&one.name).faint(path).plain("  ").join(torn(one.torn)));
        if one.exchanges.is_empty() {
            page.push(Line::new().faint("  no request is on it"));
        }
        let rows = one.exchanges.iter().map(|exchange| {
            vec![
                Line::new().plain(format!("  {}", exchange.n)),
                Line::new().plain(&exchange.path),
                Line::new().plain(&exchange.model),
                if exchange.status < 300 {
                    Line::new().good(exchange.status.to_string())
                } else {
                    Line::new().bad(exchange.status.to_string())
                },
                Line::new().plain(bytes(exchange.bytes)),
                Line::new().faint(duration_ms(exchange.ms)),
                if exchange.complete { Line::new() } else { Line::new().bad("broke off") },
            ]
        });
        page.append(table(rows.collect()));
    }
    page
}

pub fn replayed(result: &TaskReplayResult) -> Page {
    let what = format!("{}, {}", plural(result.calls, "call"), plural(result.requests, "request"));
    let mut page = Page::new();
    let Some(divergence) = &result.divergence else {
        page.push(Line::new().good("✓ ").name(result.of.to_string()).plain(format!(" replayed: {what}, changes identical")));
        page.push(Line::new().faint(format!("  as {}", result.task)));
        return page;
    };
    page.push(Line::new().bad("✗ ").name(result.of.to_string()).plain(format!(" diverged at {}", divergence.at)));
    divergence.recorded.iter().for_each(|line| page.push(Line::new().faint("  recorded  ").bad(line)));
    divergence.replayed.iter().for_each(|line| page.push(Line::new().faint("  replayed  ").good(line)));
    page.push(Line::new().faint(format!("  {what} as {0}; `skep log {0}` shows them", result.task)));
    page
}
