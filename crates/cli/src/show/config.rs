//! Settings as a table.

use super::{Line, Page, table_wrapped};
use crate::command::config::{Setting, SettingOrigin, SettingValue};

const HIDDEN: &str = "(set, not shown)";

pub fn settings(settings: &[Setting], with_origin: bool, columns: Option<usize>) -> Page {
    let mut rows = Vec::new();
    for setting in settings {
        rows.push(row(&setting.key, &setting.counts, with_origin, false));
        for value in setting.overridden.iter().filter(|_| with_origin) {
            rows.push(row("", value, with_origin, true));
        }
    }
    table_wrapped(rows, columns)
}

fn row(key: &str, value: &SettingValue, with_origin: bool, is_overridden: bool) -> Vec<Line> {
    let text = value.value.as_deref().unwrap_or(HIDDEN);
    let shown = if is_overridden || value.value.is_none() { Line::new().faint(text) } else { Line::new().plain(text) };
    let mut cells = vec![Line::new().name(key), shown];
    if with_origin {
        let note = if is_overridden { " (overridden)" } else { "" };
        cells.push(Line::new().faint(format!("{}{note}", origin(&value.origin))));
    }
    cells
}

/// `skep.yml:3`, `SKEP_BRAIN`, `built-in`.
fn origin(origin: &SettingOrigin) -> String {
    match (&origin.name, origin.line) {
        (None, _) => origin.layer.to_owned(),
        (Some(name), None) if origin.layer == "environment" => format!("${name}"),
        (Some(name), None) => name.clone(),
        (Some(name), Some(line)) => format!("{name}:{line}"),
    }
}
