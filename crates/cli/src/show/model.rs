//! Usage, budgets and the gateway, as people see them.

use super::{Line, Page, table};
use crate::command::gateway::environment;
use wire::method::model::{AccountView, BudgetsResult, OpenResult, UsageResult};
use wire::{AtCap, Figures};

pub fn usage(result: &UsageResult) -> Page {
    if result.rows.is_empty() {
        let hint = "`skep act … --brain native` and `skep gateway run -- COMMAND` ask one; who answers stands in $SKEP_HOME/config.yml";
        return Page(vec![Line::new().plain("no model was asked yet"), Line::new().faint(hint)]);
    }
    let head = ["", "requests", "input", "cache read", "cache write", "output", "cost", ""].map(|text| Line::new().faint(text)).to_vec();
    let mut rows = vec![head];
    rows.extend(result.rows.iter().map(|row| figures(Line::new().plain(&row.name), &row.figures)));
    if result.rows.len() > 1 {
        rows.push(figures(Line::new().strong("all"), &result.total));
    }
    let mut page = table(flush_right(rows));
    page.blank();
    page.push(Line::new().faint(format!("prices as of {}", result.prices_as_of)));
    for model in &result.unpriced {
        let text =
            format!("the price of {model} is not known, so the dearest of its provider is taken; $SKEP_HOME/prices.yaml can name it");
        page.push(Line::new().plain(text));
    }
    page
}

/// Figures stand flush right; the name before and the remark behind them do not.
fn flush_right(mut rows: Vec<Vec<Line>>) -> Vec<Vec<Line>> {
    let columns = rows.first().map_or(0, Vec::len);
    for column in 1..columns.saturating_sub(1) {
        let width = rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        for row in &mut rows {
            let cell = std::mem::take(&mut row[column]);
            row[column] = Line::new().plain(" ".repeat(width - cell.width())).join(cell);
        }
    }
    rows
}

fn figures(name: Line, figures: &Figures) -> Vec<Line> {
    let estimated = match figures.estimated {
        0 => Line::new(),
        n => Line::new().faint(format!("{n} estimated")),
    };
    let number = |n: u64| Line::new().plain(grouped(n));
    vec![
        name,
        number(figures.requests),
        number(figures.input),
        number(figures.cache_read),
        number(figures.cache_write),
        number(figures.output),
        Line::new().plain(format!("${}.{:06}", grouped(figures.micros / 1_000_000), figures.micros % 1_000_000)),
        estimated,
    ]
}

pub fn budgets(result: &BudgetsResult) -> Page {
    let mut page = Page::new();
    for account in &result.accounts {
        page.push(Line::new().strong(&account.name).faint(if account.account.budget.is_some() { "" } else { "  no budget" }));
        page.append(table(caps(account)));
        if let Some(guessed) = guessed(account) {
            page.push(
                Line::new().plain(format!("  {guessed} are estimates: `skep budget reconcile {} …` says what they were", account.pid)),
            );
        }
        if let Some(waits) = &account.account.waits {
            page.push(Line::new().plain(format!("  a request waits for {waits}: `skep budget grant {} …`", account.pid)));
        }
    }
    if result.accounts.is_empty() {
        page.push(Line::new().plain("nothing is capped and nothing is spent"));
    }
    page
}

/// What of a process's own spending is only an estimate.
fn guessed(view: &AccountView) -> Option<String> {
    let tokens =
        view.guessed.tokens.iter().filter(|(_, amount)| **amount > 0).map(|(tier, amount)| format!("{} {tier} tokens", grouped(*amount)));
    let money = (view.guessed.micros > 0).then(|| dollars(view.guessed.micros));
    let all: Vec<String> = tokens.chain(money).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn caps(view: &AccountView) -> Vec<Vec<Line>> {
    let account = &view.account;
    let Some(budget) = &account.budget else {
        return vec![vec![Line::new().plain("  money"), Line::new().plain(format!("{} spent", dollars(account.spent.micros)))]];
    };
    let row = |name: String, used: String, cap: String, held: [(String, &str); 2], share: u64| {
        let share = Line::new().plain(format!("{share} %"));
        let held: Vec<String> =
            held.into_iter().filter(|(amount, _)| !amount.is_empty()).map(|(amount, word)| format!("{amount} {word}")).collect();
        vec![
            Line::new().plain(format!("  {name}")),
            Line::new().plain(format!("{used} of {cap}")),
            share,
            Line::new().faint(held.join(", ")),
        ]
    };
    let some = |amount: u64, written: fn(u64) -> String| if amount > 0 { written(amount) } else { String::new() };
    let share =
        |used: u64, cap: u64| if cap == 0 { 100 } else { u64::try_from(u128::from(used) * 100 / u128::from(cap)).unwrap_or(u64::MAX) };
    let mut rows = Vec::new();
    if let Some(cap) = budget.micros {
        let held = [(some(account.reserved.micros, dollars), "reserved"), (some(account.leased.micros, dollars), "leased")];
        rows.push(row("money".into(), dollars(account.spent.micros), dollars(cap), held, share(account.spent.micros, cap)));
    }
    for (tier, cap) in &budget.tokens {
        let used = account.spent.of(tier);
        let held = [(some(account.reserved.of(tier), grouped), "reserved"), (some(account.leased.of(tier), grouped), "leased")];
        rows.push(row(format!("{tier} tokens"), grouped(used), grouped(*cap), held, share(used, *cap)));
    }
    let plain = |name: &str, text: String| vec![Line::new().plain(format!("  {name}")), Line::new().plain(text)];
    rows.extend(budget.requests_per_minute.map(|cap| plain("requests", format!("{cap} a minute"))));
    rows.extend(budget.context.map(|cap| plain("context", format!("{} tokens", grouped(cap)))));
    rows.push(plain("at the cap", if budget.at_cap == AtCap::Ask { "waits for you" } else { "refused" }.to_owned()));
    rows
}

/// Lines that a shell can read.
pub fn opened(result: &OpenResult) -> Page {
    let lines = environment(result).into_iter().map(|(name, value)| Line::new().plain(format!("export {name}={value}")));
    Page(lines.collect())
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Cents and finer where there are any.
fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = text.trim_end_matches('0');
    let cents = text.find('.').map_or(text.len(), |dot| dot + 3);
    format!("${}", &text[..short.len().max(cents)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 500_000, 1_000_001, 20_000_000].map(dollars), ["$0.00", "$0.50", "$1.000001", "$20.00"]);
    }
}
